//! Variables in contexts: where they are made, and what an assignment means there.

use std::sync::Arc;

use super::central_storage::Strategy;
use super::commit::StepParticipant;
use super::context::{Current, ReplicaContext, current, mixing, require_cross_replica, step_frame};
use super::merge::Operation;
use super::run::Limits;
use crate::cross_device::{self, Assignment, ReduceOp};
use crate::error::{Error, Result};
use crate::tensor::{DType, Shape, Tensor};
use crate::values::Value;
use crate::values::variable::{Aggregation, Synchronization, Variable, VariableSpec};

impl StepParticipant for Variable {
    fn commit(&self, _step: u64) {
        self.publish();
    }

    fn roll_back(&self, _step: u64) {
        self.discard();
    }
}

/// What a new variable is to be.
#[derive(Clone, Debug)]
pub struct NewVariable {
    /// The name; names need not differ.
    pub name: String,
    /// Whether an optimizer should change it; `None`: yes, unless it is synchronised on reading.
    pub trainable: Option<bool>,
    /// Recorded, without effect on storage.
    pub synchronization: Synchronization,
    /// How values that replicas assign are combined.
    pub aggregation: Aggregation,
}

/// Where a variable's initial value comes from.
pub enum Initial<'a> {
    /// A copy of this tensor.
    Value(&'a Tensor),
    /// What `fill` writes into the fresh tensor it is given. It is called once.
    Fill {
        /// The variable's element type.
        dtype: DType,
        /// The variable's shape.
        shape: Shape,
        /// Writes all elements.
        fill: &'a mut dyn FnMut(&Tensor) -> Result<()>,
    },
}

/// Makes a variable on the parameter device of `strategy`, or of the current strategy if there is
/// none given.
pub fn create(
    strategy: Option<&Strategy>,
    new: NewVariable,
    initial: Initial<'_>,
) -> Result<Variable> {
    let owner = match strategy {
        Some(strategy) => {
            require_cross_replica(strategy, "umbo_variable_create")?;
            strategy.clone()
        }
        None => match current() {
            Current::Default => Strategy::default_strategy(),
            Current::CrossReplica(strategy) => strategy,
            Current::Replica(context) if context.strategy().num_replicas() == 1 => {
                context.strategy().clone()
            }
            Current::Replica(_) => {
                return Err(Error::Unimplemented(
                    "umbo_variable_create: inside of run with several replicas; make the variable \
                     in the strategy's scope before the run"
                        .into(),
                ));
            }
        },
    };
    let device = owner.parameter_device();
    let value = match initial {
        Initial::Value(tensor) => cross_device::copy_to(tensor, device)?,
        Initial::Fill { dtype, shape, fill } => {
            let fresh = Tensor::zeros(dtype, shape, device)?;
            fill(&fresh)?;
            fresh
        }
    };
    let spec = VariableSpec {
        name: new.name,
        trainable: new.trainable.unwrap_or(new.synchronization != Synchronization::OnRead),
        synchronization: new.synchronization,
        aggregation: new.aggregation,
        strategy: owner.id(),
    };
    Ok(Variable::new(spec, value, owner.keeper()))
}

/// An independent variable with the value that `variable` has now, of the same strategy.
pub fn deep_copy(variable: &Variable) -> Result<Variable> {
    let owner = owner(variable);
    match current() {
        Current::CrossReplica(other) if !owner.is_default() && !other.is_same(&owner) => {
            return Err(mixing("umbo_variable_copy"));
        }
        _ => {}
    }
    Ok(Variable::new(variable.spec().clone(), read(variable)?, owner.keeper()))
}

/// Whether `variable` was made in the scope of this very strategy.
pub fn created_in_scope(strategy: &Strategy, variable: &Variable) -> bool {
    !strategy.is_default() && variable.spec().strategy == strategy.id()
}

/// The strategy that a variable is of. A variable that outlives its strategy is a plain one.
fn owner(variable: &Variable) -> Strategy {
    Strategy::with_id(variable.spec().strategy).unwrap_or_else(Strategy::default_strategy)
}

/// A copy of the value that `variable` has now, as this thread sees it: inside of a run or a
/// merge call, with what the step has written so far.
pub fn read(variable: &Variable) -> Result<Tensor> {
    let owner = owner(variable);
    let in_step = match current() {
        Current::Replica(context) => context.strategy().is_same(&owner),
        _ => step_frame(&owner).is_some(),
    };
    if in_step {
        return cross_device::copy_to(variable.visible(), variable.device());
    }
    let _unchanging = owner.inner().central.read();
    cross_device::copy_to(variable.committed(), variable.device())
}

/// The tensor that `variable` is right now for a replica, or for the thread that is in no run if
/// `context` is `None`. It may be read until the callback or the step ends, or until the next
/// write.
pub fn current_tensor<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
) -> Result<&'a Tensor> {
    match context {
        Some(context) if context.strategy().id() == variable.spec().strategy => {
            Ok(variable.visible())
        }
        Some(_) => Ok(variable.committed()),
        None => {
            let owner = owner(variable);
            if step_frame(&owner).is_some() {
                return Ok(variable.visible());
            }
            Ok(variable.committed())
        }
    }
}

/// Assigns to a variable, or adds to it or subtracts from it, in whatever context this thread
/// is.
///
/// In cross-replica and default context it acts once, with the value as it is (of a per-replica
/// value the first component). In replica context it is a synchronising operation: the replicas'
/// values are combined as the variable's aggregation says and the result is applied once; later
/// reads in the step see it, and the commit point makes it central state. A variable of no
/// strategy is written by each replica in turn, at once.
pub fn assign(variable: &Variable, kind: Assignment, value: &Value) -> Result<()> {
    let owner = owner(variable);
    match current() {
        Current::Replica(context) if context.strategy().is_same(&owner) => {
            assign_in_replica(&context, variable, kind, value)
        }
        Current::Default => assign_directly(&owner, variable, kind, value),
        Current::CrossReplica(other) if other.is_same(&owner) => {
            assign_directly(&owner, variable, kind, value)
        }
        Current::CrossReplica(_) | Current::Replica(_) if owner.is_default() => {
            assign_directly(&owner, variable, kind, value)
        }
        _ => Err(mixing(verb(kind))),
    }
}

/// The operation's name, as the reference knows it.
fn verb(kind: Assignment) -> &'static str {
    match kind {
        Assignment::Assign => "assign",
        Assignment::Add => "assign_add",
        Assignment::Subtract => "assign_sub",
    }
}

fn plain_tensor(value: &Value) -> Result<Tensor> {
    match value {
        Value::Variable(variable) => read(variable),
        other => other.tensor_of(0).cloned(),
    }
}

fn check_assignable(variable: &Variable, tensor: &Tensor) -> Result<()> {
    if tensor.dtype() != variable.dtype() {
        let hint = match (variable.spec().aggregation, variable.dtype().is_integer()) {
            (Aggregation::Mean, true) => {
                " (the MEAN of integers is a float; give the variable a float dtype or the SUM \
                 aggregation)"
            }
            _ => "",
        };
        return Err(Error::invalid(
            "value",
            format!(
                "is {}, but variable '{}' is {}{hint}",
                tensor.dtype(),
                variable.name(),
                variable.dtype()
            ),
        ));
    }
    if tensor.shape() != variable.shape() {
        return Err(Error::invalid(
            "value",
            format!(
                "has shape {}, but variable '{}' has shape {}",
                tensor.shape(),
                variable.name(),
                variable.shape()
            ),
        ));
    }
    Ok(())
}

fn assign_directly(
    owner: &Strategy,
    variable: &Variable,
    kind: Assignment,
    value: &Value,
) -> Result<()> {
    let tensor = plain_tensor(value)?;
    check_assignable(variable, &tensor)?;
    if step_frame(owner).is_some() {
        return stage(owner, variable, kind, &tensor);
    }
    let _turn = owner.take_turn(&Limits::default())?;
    let _changing = owner.inner().central.write();
    cross_device::combine_into(kind, variable.committed(), &tensor)
}

/// Writes what the step's later reads see and its commit point publishes.
fn stage(owner: &Strategy, variable: &Variable, kind: Assignment, tensor: &Tensor) -> Result<()> {
    let staging = variable.staging()?;
    if variable.is_staged() {
        return cross_device::combine_into(kind, staging, tensor);
    }
    if kind != Assignment::Assign {
        cross_device::combine_into(Assignment::Assign, staging, variable.committed())?;
    }
    cross_device::combine_into(kind, staging, tensor)?;
    owner.join_step(Arc::new(variable.clone()))?;
    variable.stage();
    Ok(())
}

fn assign_in_replica(
    context: &ReplicaContext,
    variable: &Variable,
    kind: Assignment,
    value: &Value,
) -> Result<()> {
    context.check_live()?;
    let replicas = context.strategy().num_replicas();
    if replicas > 1 && variable.spec().aggregation == Aggregation::None {
        return Err(Error::invalid(
            "variable",
            format!(
                "'{}' has aggregation NONE, so {} in replica context does not say how to combine \
                 the {replicas} replicas' values; create it with SUM, MEAN or ONLY_FIRST_REPLICA, \
                 or assign in a merge call",
                variable.name(),
                verb(kind)
            ),
        ));
    }
    let operation = Operation::Assign {
        variable: variable.key(),
        name: variable.name().to_owned(),
        kind: verb(kind),
    };
    let target = variable.clone();
    context.synchronize(
        operation,
        Some(Value::Tensor(plain_tensor(value)?)),
        Box::new(move |strategy, values| {
            let replicas = values.len();
            let tensors: Vec<Tensor> = values
                .iter()
                .flatten()
                .map(|value| value.tensor_of(0).cloned())
                .collect::<Result<_>>()?;
            let combined = aggregate(&target, &tensors)?;
            check_assignable(&target, &combined)?;
            stage(strategy, &target, kind, &combined)?;
            Ok(vec![None; replicas])
        }),
    )?;
    Ok(())
}

/// The one value that the replicas' values amount to.
fn aggregate(variable: &Variable, tensors: &[Tensor]) -> Result<Tensor> {
    let first = tensors.first().ok_or_else(|| Error::Internal("no values to aggregate".into()))?;
    if tensors.len() == 1 {
        return Ok(first.clone());
    }
    let same = tensors.iter().all(|tensor| tensor.is_same(first));
    let device = variable.device();
    match variable.spec().aggregation {
        Aggregation::OnlyFirstReplica => Ok(first.clone()),
        Aggregation::Mean if same => Ok(first.clone()),
        Aggregation::Mean => cross_device::reduce(ReduceOp::Mean, tensors, None, device, None),
        Aggregation::Sum if same => Err(Error::invalid(
            "value",
            format!(
                "the very same tensor on all replicas cannot be reduced by SUM for variable '{}'; \
                 pass one tensor for each replica, or assign in a merge call",
                variable.name()
            ),
        )),
        Aggregation::Sum => cross_device::reduce(ReduceOp::Sum, tensors, None, device, None),
        Aggregation::None => Err(Error::Internal("NONE reached the aggregation".into())),
    }
}
