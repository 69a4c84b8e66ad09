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
use umbo_optim::rules::Running;
use umbo_optim::state::saved::{DynamicLossScale, OptimizerState, VariableState};
use umbo_optim::{Gradients, Optimizer};
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

    fn applied(&self) -> Vec<Arc<Gradients>> {
        Optimizer::applied(self)
    }

    fn save(&self, names: &Names, record: &mut ObjectRecord) -> Result<()> {
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
        } in state.variables
        {
            let name = names.name(&variable)?;
            let progress = SavedVariable {
                updates: Count(updates),
                running: running.into_iter().map(Float).collect(),
            };
            variables.insert(name.to_owned(), progress);
            for (slot, tensor) in kept.iter().zip(slots) {
                record.part_like(format!("{name}/{}", slot.name), &variable, tensor);
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

    fn prepare<'a>(&'a self, names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a> {
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
        let mut slots = Vec::new();
        for (name, progress) in &properties.variables {
            if let Some((state, of_state)) = read_variable(self, names, saved, name, progress)? {
                variables.push(state);
                slots.extend(of_state);
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
            let mut slots = slots.into_iter();
            let count = self.slots().len();
            for variable in &mut state.variables {
                for slot in slots.by_ref().take(count) {
                    variable.slots.push(changes.value(slot)?.clone());
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

/// The scalars of one variable in the file, and its slots, which are read later.
fn read_variable(
    optimizer: &Optimizer,
    names: &Names,
    saved: &mut ObjectReader<'_>,
    name: &str,
    progress: &SavedVariable,
) -> Result<Option<(VariableState, Vec<PendingTensor>)>> {
    let slots = optimizer.slots();
    let variable = names.variable(name);
    let variable = variable.filter(|variable| optimizer.check_variable(variable).is_ok());
    let Some(variable) = variable else {
        saved.differs(format!(
            "the file has its state for a variable '{name}', which is not known here; add that \
             variable, or gradients of it, by this name"
        ));
        slots
            .iter()
            .for_each(|slot| saved.take(&format!("{name}/{}", slot.name)));
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
    let mut later = Vec::new();
    for slot in &slots {
        let part = format!("{name}/{}", slot.name);
        later.extend(saved.part_like(&part, variable)?);
    }
    if later.len() < slots.len() {
        return Ok(None);
    }
    let variable = variable.clone();
    let slots = Vec::with_capacity(slots.len());
    Ok(Some((
        VariableState {
            variable,
            updates,
            running,
            slots,
        },
        later,
    )))
}
