//! Optimizers: numbers and, for each updated variable, its slots and running scalars.

#![expect(
    unsafe_code,
    reason = "state is recorded as it is while nobody changes it"
)]

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use crate::numbers::{number, read_count, read_number};
use crate::saveable::{
    Names, ObjectReader, ObjectRecord, PendingTensor, PreparedRestore, Ready, Saveable,
};
use umbo_base::error::Result;
use umbo_optim::rules::Running;
use umbo_optim::state::saved::{DynamicLossScale, OptimizerState, VariableState};
use umbo_optim::{Gradients, Optimizer};
use umbo_tensor::values::variable::Variable;

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
        let mut variables = Map::new();
        for VariableState {
            variable,
            updates,
            running,
            slots,
        } in state.variables
        {
            let name = names.name(&variable)?;
            let running: Vec<Json> = running.iter().map(|scalar| number(*scalar)).collect();
            variables.insert(
                name.to_owned(),
                json!({ "updates": updates, "running": running }),
            );
            for (slot, tensor) in self.rule().slots().iter().zip(slots) {
                record.part_like(format!("{name}/{}", slot.name), &variable, tensor);
            }
        }
        record.property("rule", self.rule().name());
        record.property("learning_rate", number(state.learning_rate));
        record.property("iterations", state.iterations);
        let loss_scale = match state.loss_scale {
            Some(DynamicLossScale { scale, applies }) => {
                json!({ "scale": number(scale), "applies": applies })
            }
            None => Json::Null,
        };
        record.property("dynamic_loss_scale", loss_scale);
        record.property("variables", variables);
        // The settings are for people who read the file. A program sets them itself.
        let settings = self.rule().settings().into_iter();
        let settings: Map<_, _> = settings
            .map(|(name, value)| (name.to_owned(), number(value)))
            .collect();
        record.property("settings", settings);
        Ok(())
    }

    fn prepare<'a>(&'a self, names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let rule = saved.read_property("rule", |json| json.as_str().map(str::to_owned));
        if rule
            .as_deref()
            .is_some_and(|rule| rule != self.rule().name())
        {
            let there = rule.unwrap_or_default();
            saved.differs(format!(
                "its rule is {} here, {there} in the file",
                self.rule().name()
            ));
            return Ok(None);
        }
        let learning_rate = saved.read_property("learning_rate", |json| {
            read_number(json).filter(|rate| rate.is_finite() && *rate >= 0.0)
        });
        let iterations = saved.count("iterations");
        let loss_scale = saved.read_property("dynamic_loss_scale", read_loss_scale);
        let mut variables = Vec::new();
        let mut slots = Vec::new();
        for (name, json) in saved.members("variables").unwrap_or_default() {
            if let Some((state, of_state)) = read_variable(self, names, saved, &name, &json)? {
                variables.push(state);
                slots.extend(of_state);
            }
        }
        let (Some(learning_rate), Some(iterations), Some(loss_scale)) =
            (learning_rate, iterations, loss_scale)
        else {
            return Ok(None);
        };
        let room = self.reserve(&variables)?;
        let mut state = OptimizerState {
            learning_rate,
            iterations,
            loss_scale,
            variables,
        };
        Ok(Some(PreparedRestore::by(move |changes| {
            let mut slots = slots.into_iter();
            let count = self.rule().slots().len();
            for variable in &mut state.variables {
                for slot in slots.by_ref().take(count) {
                    variable.slots.push(changes.value(slot)?.clone());
                }
            }
            self.import(&state, room)
        })))
    }
}

fn read_loss_scale(json: &Json) -> Option<Option<DynamicLossScale>> {
    if json.is_null() {
        return Some(None);
    }
    let fits = |scale: &f64| (*scale as f32).is_finite() && *scale as f32 > 0.0;
    let scale = read_number(&json["scale"]).filter(fits)?;
    Some(Some(DynamicLossScale {
        scale,
        applies: read_count(&json["applies"])?,
    }))
}

/// The scalars of one variable in the file, and its slots, which are read later.
fn read_variable(
    optimizer: &Optimizer,
    names: &Names,
    saved: &mut ObjectReader<'_>,
    name: &str,
    json: &Json,
) -> Result<Option<(VariableState, Vec<PendingTensor>)>> {
    let slots = optimizer.rule().slots();
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
    let running = json["running"].as_array().and_then(|scalars| {
        let scalar = |json| read_number(json).filter(|scalar| scalar.is_finite());
        let scalars: Option<Vec<f64>> = scalars.iter().map(scalar).collect();
        Running::try_from(scalars?).ok()
    });
    let updates = read_count(&json["updates"]).filter(|updates| *updates > 0);
    let (Some(running), Some(updates)) = (running, updates) else {
        saved.differs(format!(
            "how often '{name}' was updated makes no sense: {json}"
        ));
        return Ok(None);
    };
    let mut later = Vec::new();
    for slot in slots {
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
