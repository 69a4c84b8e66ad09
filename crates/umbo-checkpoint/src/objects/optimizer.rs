//! Optimizers: numbers and, for each updated variable, its slots and running scalars.

#![expect(
    unsafe_code,
    reason = "state is recorded as it is while nobody changes it"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::schedule::SavedSchedule;
use crate::numbers::{Count, Float, NonNegative};
use crate::saveable::{
    Names, ObjectReader, ObjectRecord, PendingTensor, PreparedRestore, Ready, Saveable,
};
use umbo_base::error::Result;
use umbo_kernels::float::real;
use umbo_kernels::update::eight_bit::STATE_BLOCK;
use umbo_optim::rules::{Running, Slot};
use umbo_optim::state::saved::{DynamicLossScale, OptimizerState, VariableState};
use umbo_optim::{Gradients, Optimizer};
use umbo_tensor::DType;
use umbo_tensor::values::variable::Variable;

#[derive(Serialize, Deserialize)]
struct SavedOptimizer {
    rule: String,
    learning_rate: NonNegative,
    iterations: Count,
    /// None if the loss scale is not dynamic: then it is a setting.
    dynamic_loss_scale: Option<SavedLossScale>,
    /// None if the learning rate is a number or a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<SavedSchedule>,
    /// The variables that were updated, by name. The slots of each are in tensors.
    variables: BTreeMap<String, SavedVariable>,
    /// The settings are for people who read the file. A program sets them itself.
    #[serde(default)]
    settings: BTreeMap<String, Float>,
}

#[derive(Serialize, Deserialize)]
struct SavedLossScale {
    scale: NonNegative,
    applies: Count,
}

#[derive(Serialize, Deserialize)]
struct SavedVariable {
    updates: Count,
    running: Vec<Float>,
}

impl Saveable for Optimizer {
    fn kind(&self) -> &'static str {
        "optimizer"
    }

    fn strategy(&self) -> Option<u64> {
        Some(Optimizer::strategy(self))
    }

    fn variables(&self) -> Vec<Variable> {
        self.updated_variables()
    }

    fn asks_for_names(&self) -> bool {
        true
    }

    fn applied(&self) -> Vec<Arc<Gradients>> {
        Optimizer::applied(self)
    }

    fn save(&self, names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let state = match record.shares(Saveable::strategy(self).unwrap_or_default()) {
            // SAFETY: only applies of its strategy, which happen in steps, write it.
            true => unsafe { self.export_as_it_is() },
            false => self.export(),
        }?;
        let kept = self.slots();
        let mut variables = BTreeMap::new();
        for VariableState {
            variable,
            updates,
            running,
            slots,
            scales,
        } in state.variables
        {
            let name = names.name(&variable)?;
            let progress = SavedVariable {
                updates: Count(updates),
                running: running.into_iter().map(Float).collect(),
            };
            variables.insert(name.to_owned(), progress);
            let shape = variable.shape();
            for (slot, tensor) in kept.iter().zip(slots) {
                let Some(tensor) = tensor else { continue };
                let part = format!("{name}/{}", slot.name);
                match slot.extent.is_elementwise(shape.len()) {
                    true => record.part_like(part, &variable, tensor),
                    false => record.part(part, tensor),
                }
            }
            for (slot, tensor) in kept.iter().zip(scales) {
                let part = scales_of(name, slot);
                record.part_of_blocks(part, &variable, STATE_BLOCK, tensor)?;
            }
        }
        let loss_scale = |DynamicLossScale { scale, applies }| SavedLossScale {
            scale: NonNegative(scale),
            applies: Count(applies),
        };
        let settings = self.rule().settings().into_iter();
        let settings = settings.map(|(name, value)| (name.to_owned(), Float(value)));
        record.properties(&SavedOptimizer {
            rule: self.rule().name().to_owned(),
            learning_rate: NonNegative(state.learning_rate),
            iterations: Count(state.iterations),
            dynamic_loss_scale: state.loss_scale.map(loss_scale),
            schedule: state.schedule.map(SavedSchedule::new),
            variables,
            settings: settings.collect(),
        })
    }

    fn prepare<'a>(&'a self, names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let Some(properties): Option<SavedOptimizer> = saved.properties() else {
            return Ok(None);
        };
        if properties.rule != self.rule().name() {
            saved.differs(format!(
                "its rule is {} here, {} in the file",
                self.rule().name(),
                properties.rule
            ));
            saved.take_all();
            return Ok(None);
        }
        let loss_scale = match properties.dynamic_loss_scale {
            None => Some(None),
            Some(scale) => read_loss_scale(saved, &scale).map(Some),
        };
        let schedule = match properties.schedule.as_ref().map(SavedSchedule::read) {
            None => None,
            Some(Ok(schedule)) => Some(schedule),
            Some(Err(error)) => {
                saved.differs(format!(
                    "its schedule in the file cannot be followed: {error}"
                ));
                return Ok(None);
            }
        };
        let mut variables = Vec::new();
        let mut pending = Vec::new();
        for (name, progress) in &properties.variables {
            if let Some((state, of_state)) = read_variable(self, names, saved, name, progress)? {
                variables.push(state);
                pending.push(of_state);
            }
        }
        let Some(loss_scale) = loss_scale else {
            return Ok(None);
        };
        let room = self.reserve(&variables)?;
        let mut state = OptimizerState {
            learning_rate: properties.learning_rate.0,
            iterations: properties.iterations.0,
            loss_scale,
            schedule,
            variables,
        };
        Ok(Some(PreparedRestore::by(move |changes| {
            for (variable, pending) in state.variables.iter_mut().zip(pending) {
                for slot in pending.slots {
                    let slot = slot.map(|slot| changes.value(slot).cloned());
                    variable.slots.push(slot.transpose()?);
                }
                for scales in pending.scales {
                    variable.scales.push(changes.value(scales)?.clone());
                }
            }
            self.import(&state, room)
        })))
    }
}

fn read_loss_scale(
    saved: &mut ObjectReader<'_>,
    loss_scale: &SavedLossScale,
) -> Option<DynamicLossScale> {
    let scale = loss_scale.scale.0;
    if !((scale as f32).is_finite() && scale as f32 > 0.0) {
        saved.differs(format!(
            "its loss scale in the file is {scale}; a loss scale is above 0, and finite in float32"
        ));
        return None;
    }
    Some(DynamicLossScale {
        scale,
        applies: loss_scale.applies.0,
    })
}

/// The slots of one variable, which are read later.
#[derive(Default)]
struct PendingSlots {
    /// In the optimizer's order; none in the place of a state that the variable has not.
    slots: Vec<Option<PendingTensor>>,
    /// If the first slots are codes of 8 bits: their scales.
    scales: Vec<PendingTensor>,
}

impl PendingSlots {
    /// Requests the slots of `variable`. None if one of them does not fit, which was noted.
    fn read(
        optimizer: &Optimizer,
        saved: &mut ObjectReader<'_>,
        name: &str,
        variable: &Variable,
    ) -> Result<Option<PendingSlots>> {
        let slots = optimizer.slots();
        let coded = optimizer.rule().code_maps().map_or(0, <[_]>::len);
        let mut pending = PendingSlots::default();
        let mut fits = true;
        let dimensions = variable.shape().len();
        for (index, slot) in slots.iter().enumerate() {
            let Some(shape) = slot.extent.shape(&variable.shape()) else {
                pending.slots.push(None);
                continue;
            };
            let part = format!("{name}/{}", slot.name);
            let dtype = real::computing(variable.dtype());
            let of_blocks = scales_of(name, slot);
            let found = if index < coded && saved.has_part(&of_blocks) {
                let read = saved.part_of_blocks(&of_blocks, variable, DType::Float32, STATE_BLOCK);
                let scales = read?;
                fits &= scales.is_some();
                pending.scales.extend(scales);
                saved.part_as(&part, variable, DType::UInt8)?
            } else if slot.extent.is_elementwise(dimensions) {
                saved.part_as(&part, variable, dtype)?
            } else {
                saved.later(Some(&part), dtype, shape)?
            };
            fits &= found.is_some();
            pending.slots.push(found);
        }
        if fits && ![0, coded].contains(&pending.scales.len()) {
            saved.differs(format!(
                "in the file some states of '{name}' have 8 bits, and others do not"
            ));
            return Ok(None);
        }
        if fits && !pending.scales.is_empty() && !variable.device().is_host_memory() {
            saved.differs(format!(
                "in the file the states of '{name}' have 8 bits, and the variable lies on a GPU \
                 here; its states can be restored in host memory only"
            ));
            return Ok(None);
        }
        Ok(fits.then_some(pending))
    }
}

/// The name of the part that has the scales of a slot's codes.
fn scales_of(name: &str, slot: &Slot) -> String {
    format!("{name}/{}.scales", slot.name)
}

/// The scalars of one variable in the file, and its slots, which are read later.
fn read_variable(
    optimizer: &Optimizer,
    names: &Names<'_>,
    saved: &mut ObjectReader<'_>,
    name: &str,
    progress: &SavedVariable,
) -> Result<Option<(VariableState, PendingSlots)>> {
    let slots = optimizer.slots();
    let variable = names.variable(name);
    let variable = variable.filter(|variable| optimizer.check_variable(variable).is_ok());
    let Some(variable) = variable else {
        saved.differs(format!(
            "the file has its state for a variable '{name}', which is not known here; add that \
             variable, or gradients of it, by this name"
        ));
        for slot in &slots {
            saved.take(&format!("{name}/{}", slot.name));
            saved.take(&scales_of(name, slot));
        }
        return Ok(None);
    };
    let running: Vec<f64> = progress.running.iter().map(|scalar| scalar.0).collect();
    let is_finite = running.iter().all(|scalar| scalar.is_finite());
    let running = Running::try_from(running).ok().filter(|_| is_finite);
    let updates = progress.updates.0;
    let Some(running) = running.filter(|_| updates > 0) else {
        saved.differs(format!(
            "in the file '{name}' was updated {updates} times, with the running scalars {:?}; \
             updates are 1 or more, and the {} scalars finite",
            progress.running,
            Running::default().len()
        ));
        return Ok(None);
    };
    let Some(later) = PendingSlots::read(optimizer, saved, name, variable)? else {
        return Ok(None);
    };
    Ok(Some((
        VariableState {
            variable: variable.clone(),
            updates,
            running,
            slots: Vec::with_capacity(later.slots.len()),
            scales: Vec::with_capacity(later.scales.len()),
        },
        later,
    )))
}
