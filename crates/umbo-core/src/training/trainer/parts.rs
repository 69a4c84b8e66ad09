//! The parts of a trainer, which belong to one strategy.

#![expect(unsafe_code, reason = "each replica writes the numbers of its rows")]

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::call::{Caller, Learn};
use super::row_table::RowShape;
use super::state::State;
use super::step_rows::{KeptRows, Numbering};
use super::{TrainerOptions, update_at_commit};
use umbo_base::error::{Error, Result};
use umbo_checkpoint::{Checkpoint, Counter};
use umbo_optim::{Gradients, GradientsOptions, Optimizer, VariableGroup};
use umbo_strategy::context::metrics::EpochMetrics;
use umbo_strategy::{ReplicaContext, ReplicaFunction, Strategy};
use umbo_tensor::DType;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;

/// An array that is trained.
#[derive(Clone)]
pub struct Parameters {
    /// The variable over the array: float32, one row of `row_length` numbers after the other, or
    /// bfloat16, without rows.
    pub variable: Variable,
    /// The number of numbers in a row, if replicas add to the gradients of single rows.
    pub row_length: Option<usize>,
    /// How the optimizer treats it.
    pub group: VariableGroup,
}

/// A strategy, the arrays as its variables, and an optimizer for them.
pub struct Made {
    /// The strategy.
    pub strategy: Strategy,
    /// The arrays.
    pub parameters: Vec<Parameters>,
    /// The optimizer.
    pub optimizer: Arc<Optimizer>,
}

/// Makes a strategy, variables and an optimizer, with this number of compute devices instead of the
/// one that is usual. Called again, it makes others over the same arrays.
pub type Maker = dyn Fn(Option<usize>) -> Result<Made> + Send + Sync;

/// The parts of a trainer.
pub struct Parts {
    /// The strategy.
    pub strategy: Strategy,
    /// The optimizer.
    pub optimizer: Arc<Optimizer>,
    /// The objects that a save saves.
    pub checkpoint: Arc<Checkpoint>,
    pub(super) caller: Caller,
    pub(super) step_counter: Counter,
    /// The memory of steps outside of an epoch, which the next one uses again.
    pub(super) steps: CachePadded<Mutex<StepMemory>>,
    /// How the replicas number the rows of such steps.
    pub(super) numbering: CachePadded<Numbering>,
}

/// The memory of a step.
#[derive(Default)]
pub(super) struct StepMemory {
    pub(super) rows: KeptRows,
    pub(super) measured: Arc<EpochMetrics>,
}

impl Parts {
    /// The parts around what was made.
    pub(super) fn new(made: Made, options: &TrainerOptions) -> Result<Arc<Parts>> {
        let Made {
            strategy,
            parameters,
            optimizer,
        } = made;
        let variables: Vec<Variable> = parameters.iter().map(|one| one.variable.clone()).collect();
        for one in &parameters {
            if one.group != VariableGroup::default() {
                optimizer.add_group(std::slice::from_ref(&one.variable), one.group)?;
            }
        }
        check_updates(&parameters, &optimizer)?;
        let row_sparse: Vec<bool> = parameters
            .iter()
            .map(|one| one.row_length.is_some())
            .collect();
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            variables.clone(),
            options.loss_reduction,
            GradientsOptions {
                accumulation_steps: options.accumulation_steps,
                dtype: gradient_dtype(&parameters, options)?,
                row_sparse: &row_sparse,
            },
        )?;
        let checkpoint = Checkpoint::new(&strategy);
        // Without checkpoints the compiler leaves out how these are saved.
        if cfg!(feature = "checkpoints") {
            add_variables(&checkpoint, &variables)?;
            checkpoint.add("optimizer", Arc::clone(&optimizer) as _)?;
            if options.accumulation_steps > 1 {
                checkpoint.add("gradients", Arc::clone(&gradients) as _)?;
            }
        }
        State::default().store(&checkpoint)?;
        let shape = |one: &Parameters| {
            one.row_length.map(|length| RowShape {
                rows: one.variable.shape()[0],
                length,
            })
        };
        let replicas = strategy.replica_devices().iter();
        let caller = Caller {
            variables,
            gradients,
            reduction: options.loss_reduction,
            shapes: parameters.iter().map(shape).collect(),
            spare: replicas.map(|_| CachePadded::default()).collect(),
        };
        Ok(Arc::new(Parts {
            strategy,
            optimizer,
            step_counter: State::step_counter(&checkpoint)?,
            checkpoint,
            caller,
            steps: CachePadded::default(),
            numbering: CachePadded::default(),
        }))
    }

    /// The variables over the arrays.
    pub fn variables(&self) -> &[Variable] {
        &self.caller.variables
    }

    /// The gradients.
    pub fn gradients(&self) -> &Arc<Gradients> {
        &self.caller.gradients
    }

    /// The function of a step of an epoch or an evaluation, or of a check: the program's, without
    /// an update, which is another's to make. What the step measures is added to `measured`: the
    /// strategy may have steps of others meanwhile.
    pub(super) fn function(
        self: &Arc<Self>,
        learn: &Arc<Learn>,
        is_training: bool,
        measured: &Arc<EpochMetrics>,
    ) -> Arc<ReplicaFunction> {
        let parts = Arc::clone(self);
        let learn = Arc::clone(learn);
        let measured = Arc::clone(measured);
        Arc::new(move |context: &ReplicaContext| {
            parts.run_on_replica(context, &*learn, is_training, &measured)
        })
    }

    /// The function of a step outside of an epoch, which updates.
    pub(super) fn step_function(self: &Arc<Self>, learn: Arc<Learn>) -> Arc<ReplicaFunction> {
        let parts = Arc::clone(self);
        let measured = Arc::clone(&self.steps.lock().measured);
        Arc::new(move |context: &ReplicaContext| {
            if let Some(rows) = context.argument_tensor()? {
                // SAFETY: the batch has int64 numbers in host memory, of which this replica alone
                // has this part.
                unsafe { parts.numbering.write(rows, context)? };
            }
            parts.run_on_replica(context, &*learn, true, &measured)?;
            if context.replica() == 0 {
                update_at_commit(context, &parts.optimizer, &parts.caller.gradients)?;
            }
            Ok(None)
        })
    }

    /// Calls the program's function for one replica.
    fn run_on_replica(
        &self,
        context: &ReplicaContext,
        learn: &Learn,
        is_training: bool,
        measured: &Arc<EpochMetrics>,
    ) -> Result<Option<Value>> {
        if context.replica() == 0 {
            context.strategy().count_for(context.step_id(), measured);
        }
        self.caller.call(learn, context, is_training)?;
        Ok(None)
    }
}

/// Refuses arrays that the optimizer would refuse in the first step.
fn check_updates(parameters: &[Parameters], optimizer: &Optimizer) -> Result<()> {
    let rounds = optimizer.settings().stochastic_rounding.is_some();
    for (index, one) in parameters.iter().enumerate() {
        if one.group.frozen {
            continue;
        }
        if one.variable.dtype() == DType::BFloat16 && !rounds {
            return Err(invalid!(
                "stochastic_rounding",
                "0, but parameters[{index}] has half_weights, of which rounding to the nearest \
                 would lose small steps; set it to 1"
            ));
        }
        if one.row_length.is_some() && optimizer.keeps_eight_bits(&one.variable) {
            return Err(invalid!(
                "state_bits",
                "8, but parameters[{index}] has a row_length, and states of 8 bits lie in blocks \
                 that rows do not divide; leave one of them out"
            ));
        }
    }
    Ok(())
}

fn add_variables(checkpoint: &Checkpoint, variables: &[Variable]) -> Result<()> {
    for (index, variable) in variables.iter().enumerate() {
        checkpoint
            .add(variable.name().as_str(), Arc::new(variable.clone()))
            .map_err(|error| error.within(format!("parameters[{index}]")))?;
    }
    Ok(())
}

/// The type of the gradients. Rows are float32 in any case: programs get their addresses as such.
fn gradient_dtype(parameters: &[Parameters], options: &TrainerOptions) -> Result<Option<DType>> {
    let dtype = match options.gradient_dtype {
        None => return Ok(None),
        Some(dtype @ (DType::Float32 | DType::Float16 | DType::BFloat16)) => dtype,
        Some(other) => {
            return Err(invalid!(
                "gradient_dtype",
                "{other}; valid are float32, float16 and bfloat16"
            ));
        }
    };
    let has_rows = parameters.iter().position(|one| one.row_length.is_some());
    match has_rows.filter(|_| dtype != DType::Float32) {
        None => Ok(Some(dtype)),
        Some(index) => Err(invalid!(
            "gradient_dtype",
            "{dtype}, but parameters[{index}] has a row_length, and gradients of rows are float32; \
             leave one of them out"
        )),
    }
}

/// UNIMPLEMENTED: a strategy with which no trainer can be made. A [`Maker`] asks before it makes
/// variables, which would be refused for reasons of their own.
pub fn check_devices(strategy: &Strategy) -> Result<()> {
    let devices = strategy.replica_devices().iter();
    let other = devices
        .chain([&strategy.parameter_device()])
        .find(|device| !device.is_host_memory())
        .copied();
    match other {
        None => Ok(()),
        Some(device) => Err(Error::Unimplemented(format!(
            "strategy: has {device}; a trainer lends arrays of the program, so that its \
             replicas are on processors; use the strategy without a trainer"
        ))),
    }
}
