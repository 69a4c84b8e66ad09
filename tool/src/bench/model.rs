//! Gradients and their variables, for benchmarks of applies.

use std::sync::Arc;

use umbo_core::error::Result;
use umbo_core::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction};
use umbo_core::strategy::Strategy;
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::variables::{Initial, NewVariable, create, refreshed_copy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization};

use super::reduce::{filled, varied};

/// The configuration of one row.
pub struct What<'a> {
    /// The dtype of the variables.
    pub dtype: DType,
    /// The dtype of the gradients, if it is another.
    pub gradient: Option<DType>,
    /// The dtype of the variables' copies, if there are any.
    pub copy: Option<DType>,
    /// Whether the gradients are clipped.
    pub clip: bool,
    /// Whether an average of the weights is kept.
    pub average: bool,
    pub rule: &'a str,
    pub replicas: usize,
    /// The bytes of all variables together.
    pub bytes: usize,
    pub variables: usize,
}

impl What<'static> {
    /// Plain descent of float32 variables, for benchmarks of operations other than the update.
    pub fn plain(replicas: usize, bytes: usize, variables: usize) -> What<'static> {
        What {
            dtype: DType::Float32,
            gradient: None,
            copy: None,
            clip: false,
            average: false,
            rule: "sgd",
            replicas,
            bytes,
            variables,
        }
    }
}

/// Gradients of some variables. The replicas' parts are written by the benchmark.
pub struct Model {
    pub gradients: Arc<Gradients>,
    replicas: usize,
    step: u64,
}

/// Gradients of `count` variables with the bytes of `what`. No part has been written.
pub fn gradients(
    strategy: &Strategy,
    benchmark: &What<'_>,
    count: usize,
) -> Result<Arc<Gradients>> {
    let shape = Shape::new(&[benchmark.bytes / benchmark.dtype.size() / count])?;
    let initial = filled(benchmark.dtype, shape)?;
    let new = NewVariable {
        name: "w".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::None,
    };
    let variables = (0..count)
        .map(|_| create(Some(strategy), new.clone(), Initial::Value(&initial)))
        .collect::<Result<_>>()?;
    let devices = vec![strategy.parameter_device(); strategy.num_replicas()];
    let sum = LossReduction::Sum;
    let options = GradientsOptions {
        dtype: benchmark.gradient,
        ..GradientsOptions::default()
    };
    Gradients::new(strategy.id(), &devices, variables, sum, options)
}

impl Model {
    /// A model with the bytes of `what` in `count` variables.
    pub fn new(strategy: &Strategy, benchmark: &What<'_>, count: usize) -> Result<Model> {
        let gradients = gradients(strategy, benchmark, count)?;
        let replicas = strategy.num_replicas();
        let shape = gradients.variables()[0].shape();
        let mut model = Model {
            gradients,
            replicas,
            step: 0,
        };
        model.contribute()?;
        for replica in 0..replicas {
            let contribution = varied(
                benchmark.gradient.unwrap_or(benchmark.dtype),
                shape,
                replica,
            )?;
            for index in 0..count {
                // SAFETY: the buffer is this replica's until it submits.
                unsafe { model.buffer(replica, index)?.assume_exclusive() }
                    .copy_from(&contribution)?;
            }
        }
        Ok(model)
    }

    /// Makes the variables' copies in `dtype`.
    pub fn make_copies(&self, dtype: DType) -> Result<()> {
        let mut variables = self.gradients.variables().iter();
        // SAFETY: the benchmark takes no step in this time, and the copies are not read here.
        variables
            .try_for_each(|variable| unsafe { refreshed_copy(None, variable, dtype).map(drop) })
    }

    pub fn buffer(&self, replica: usize, index: usize) -> Result<&Tensor> {
        self.gradients
            .view(replica, self.step, index, GradientMode::Overwrite)
    }

    /// Contributes like the replicas of a step, but without writing: the buffers keep their
    /// contents.
    pub fn contribute(&mut self) -> Result<()> {
        self.step += 1;
        self.gradients.try_begin_step(self.step);
        for replica in 0..self.replicas {
            for index in 0..self.gradients.variables().len() {
                self.buffer(replica, index)?;
            }
        }
        Ok(())
    }

    pub fn commit(&self) -> Result<()> {
        for replica in 0..self.replicas {
            self.gradients.submit(replica, self.step, 3.0)?;
        }
        self.gradients.commit(self.step);
        Ok(())
    }
}
