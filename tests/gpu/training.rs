//! A training of some variables, whose gradients are made of the weights that a replica sees.

use std::sync::Arc;

use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, UpdateRule, apply};
use umbo_core::strategy::variables::{read, refreshed_copy};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::values::variable::{Aggregation, Variable};

use super::strategy::variable;
use super::*;

pub(super) struct Training {
    pub(super) strategy: Strategy,
    pub(super) variables: Vec<Variable>,
    pub(super) gradients: Arc<Gradients>,
    pub(super) optimizer: Arc<Optimizer>,
}

impl Training {
    pub(super) fn new(
        strategy: Strategy,
        starts: &[&[f32]],
        rule: impl UpdateRule + 'static,
    ) -> Result<Training> {
        let make = |start: &&[f32]| variable(&strategy, Aggregation::None, start);
        let variables = starts.iter().map(make).collect::<Result<Vec<_>>>()?;
        let id = strategy.id();
        let devices = strategy.replica_devices();
        let gradients = Gradients::new(
            id,
            devices,
            variables.clone(),
            LossReduction::Mean,
            Default::default(),
        )?;
        let optimizer = Optimizer::new(id, Box::new(rule), 0.1)?;
        Ok(Training {
            strategy,
            variables,
            gradients,
            optimizer,
        })
    }

    pub(super) fn contribute(&self, context: &ReplicaContext, factor: f32) -> Result<()> {
        for (index, variable) in self.variables.iter().enumerate() {
            // SAFETY: the elements are read at once.
            let seen = unsafe { refreshed_copy(Some(context), variable, variable.dtype()) }?
                .to_vec::<f32>()?;
            let values: Vec<f32> = seen.iter().map(|weight| weight * factor - 0.5).collect();
            let buffer = self
                .gradients
                .view_in(context, index, GradientMode::Overwrite)?;
            let values = Tensor::from_slice(&values, buffer.shape(), context.device())?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
        }
        self.gradients.submit_in(context, Some(1.0))
    }

    pub(super) fn run(&self) {
        let callback = |context: &ReplicaContext| {
            self.contribute(context, 1.0 + context.replica() as f32)
                .map(|()| None)
        };
        self.strategy.run(&callback, None).unwrap();
    }

    pub(super) fn apply(&self) -> Result<()> {
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    /// The bits of the variables and of their state.
    pub(super) fn bits(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for variable in &self.variables {
            all.extend(numbers(&read(variable).unwrap()));
            for slot in &self.optimizer.slots() {
                all.extend(
                    self.optimizer
                        .state(variable, &slot.name)
                        .iter()
                        .flat_map(numbers),
                );
            }
        }
        all.into_iter().map(f32::to_bits).collect()
    }
}
