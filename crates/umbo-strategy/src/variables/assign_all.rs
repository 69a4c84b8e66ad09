//! Assignment of several variables in one synchronising operation, weighted by the replicas'
//! examples. Batch statistics need it, for example those of batch normalisation.

#![expect(unsafe_code, reason = "fresh memory is written before anybody has it")]

use super::writing::{assign, check_aggregation, check_assignable, stage};
use crate::context::mixing;
use crate::ranks::CollectiveKind;
use crate::setup::central_storage::Strategy;
use crate::step::ReplicaContext;
use crate::step::operation::Operation;
use umbo_base::error::{Error, Result};
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::update::weighted_sum::{Contribution, WeightedSum};
use umbo_tensor::collectives::{self, Assignment, ReduceOp};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::{Aggregation, Variable};
use umbo_tensor::{DType, Tensor};

/// Assigns to each of `variables` the value at its index in `values`, which are on `CPU:0` and
/// contiguous, as one synchronising operation: all replicas name the same variables, and the values
/// are combined as each variable's aggregation says. Replicas count by `weight`, which is finite
/// and 0 or more; `None` is the number of examples of the replica's part of the run's arguments. So
/// MEAN is the sum of weight × value divided by the sum of the weights. The values of a replica of
/// weight 0 do not count: they are neither summed nor the first. If all weights are 0, nothing is
/// assigned. Later reads in the step see the new values, and the commit point makes them
/// central state: all of them, or none.
///
/// A replica of the default strategy, which is in no step, assigns at once.
pub fn assign_all(
    context: &ReplicaContext,
    variables: &[Variable],
    values: Vec<Tensor>,
    weight: Option<f64>,
) -> Result<()> {
    context.check_live()?;
    let weight = match weight {
        Some(weight) if weight.is_finite() && weight >= 0.0 => weight,
        Some(weight) => {
            return Err(invalid!(
                "weight",
                "{weight}; must be finite and at least 0"
            ));
        }
        None => context.local_examples("assign with a weight")? as f64,
    };
    check_all(context, variables, &values)?;
    if context.step.is_none() {
        let all = variables.iter().zip(values).filter(|_| weight > 0.0);
        for (variable, value) in all {
            assign(variable, Assignment::Assign, &Value::Tensor(value))?;
        }
        return Ok(());
    }
    let operation = Operation::writing(variables, "assign");
    let mut arguments = vec![Value::Tensor(Tensor::scalar(weight)?)];
    arguments.extend(values.into_iter().map(Value::Tensor));
    let targets = variables.to_vec();
    let step = context.step_id();
    context.synchronize(
        operation,
        Some(Value::tuple(arguments)?),
        Box::new(move |strategy, calls| {
            let arguments: Vec<Value> = calls
                .iter()
                .filter_map(|call| call.arguments.clone())
                .collect();
            stage_all(strategy, step, &targets, &arguments).map(|()| None)
        }),
    )?;
    Ok(())
}

/// Checks that each value may be assigned to its variable in this context.
fn check_all(context: &ReplicaContext, variables: &[Variable], values: &[Tensor]) -> Result<()> {
    if variables.len() != values.len() {
        return Err(Error::Internal(
            "as many values as variables are assigned".into(),
        ));
    }
    for (index, (variable, value)) in variables.iter().zip(values).enumerate() {
        if variable.spec().strategy != context.strategy().id() {
            return Err(mixing());
        }
        check_aggregation(context, variable, "assign")?;
        check_assignable(variable, value)
            .and_then(|()| check_mean(context, variable))
            .map_err(|error| error.within(format!("views[{index}]")))?;
    }
    Ok(())
}

/// Combines what the replicas of all ranks assign, and stages it for the commit point of step
/// `step`. `arguments` are those of this process's replicas.
fn stage_all(
    strategy: &Strategy,
    step: u64,
    targets: &[Variable],
    arguments: &[Value],
) -> Result<()> {
    let names: Vec<&str> = targets
        .iter()
        .map(|target| target.name().as_str())
        .collect();
    let purpose = format_args!("assign to '{}'", names.join("', '"));
    let own_arguments = Value::merge(arguments, true, "value")?;
    let all = strategy.of_all_ranks(CollectiveKind::Assign, &purpose, &own_arguments)?;
    let parts = (0..strategy.num_replicas_in_sync())
        .map(|replica| AssignedPart::of(&all.component(replica)?))
        .collect::<Result<Vec<_>>>()?;
    let counting: Vec<&AssignedPart> = parts.iter().filter(|part| part.weight > 0.0).collect();
    for (index, target) in targets.iter().enumerate() {
        let Some(combined) = combine(target, index, &counting)? else {
            continue;
        };
        stage(strategy, step, target, false, &mut |to| {
            collectives::combine_into(Assignment::Assign, to, &combined)
        })?;
    }
    Ok(())
}

/// The values that one replica assigns.
struct AssignedPart {
    weight: f64,
    values: Vec<Tensor>,
}

impl AssignedPart {
    /// The first leaf is the weight.
    fn of(argument: &Value) -> Result<AssignedPart> {
        let mut values: Vec<Tensor> = argument
            .items()
            .iter()
            .map(|leaf| leaf.tensor_of(0).cloned())
            .collect::<Result<_>>()?;
        let weight = values
            .remove(0)
            .to_vec::<f64>()?
            .first()
            .copied()
            .unwrap_or(0.0);
        Ok(AssignedPart { weight, values })
    }
}

fn check_mean(context: &ReplicaContext, variable: &Variable) -> Result<()> {
    let is_mean = variable.spec().aggregation == Aggregation::Mean;
    let has_mean = matches!(variable.dtype(), DType::Float32 | DType::Float64);
    if is_mean && !has_mean && context.strategy().num_replicas_in_sync() > 1 {
        return Err(invalid!(
            "dtype",
            "the weighted MEAN of variable '{}' is of {}, and there is one of float32 and \
             float64; make it with one of these, or with SUM or ONLY_FIRST_REPLICA",
            variable.name(),
            variable.dtype()
        ));
    }
    Ok(())
}

/// The combined value at `index` of the replicas that count; `None` if no replica counts.
fn combine(variable: &Variable, index: usize, parts: &[&AssignedPart]) -> Result<Option<Tensor>> {
    let [first, others @ ..] = parts else {
        return Ok(None);
    };
    let values = || {
        parts
            .iter()
            .map(|part| part.values[index].clone())
            .collect::<Vec<_>>()
    };
    Ok(Some(match variable.spec().aggregation {
        // A single value is taken bit for bit.
        _ if others.is_empty() => first.values[index].clone(),
        Aggregation::Sum => {
            collectives::reduce(ReduceOp::Sum, &values(), None, variable.device(), None)?
        }
        Aggregation::Mean => weighted_mean(&values(), parts)?,
        Aggregation::OnlyFirstReplica | Aggregation::None => first.values[index].clone(),
    }))
}

/// The sum of weight × value, in float64 and in replica order, divided by the sum of the weights.
fn weighted_mean(values: &[Tensor], parts: &[&AssignedPart]) -> Result<Tensor> {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    if !total.is_finite() {
        return Err(invalid!(
            "weight",
            "the replicas' weights have no finite sum; weigh by examples or smaller numbers"
        ));
    }
    let mut contributions = Vec::with_capacity(values.len());
    for (value, part) in values.iter().zip(parts) {
        let gradient = value.span()?;
        contributions.push(Contribution {
            gradient,
            factor: part.weight,
        });
    }
    let dtype = values[0].dtype();
    let shape = values[0].shape();
    let mean = Tensor::uninitialized(dtype, shape, values[0].device())?;
    let sum = WeightedSum::new(dtype, shape.elements(), &contributions, total);
    // SAFETY: the tensor is new, and nobody else has it.
    let span = unsafe { mean.assume_exclusive() }.into_span()?;
    // SAFETY: as above.
    unsafe { sum.write_to(Instructions::chosen(), &span) };
    Ok(mean)
}
