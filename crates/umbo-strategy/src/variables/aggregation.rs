//! Aggregation: combines the values that all replicas write to a variable.

use std::sync::Arc;

use crate::ranks::CollectiveKind;
use crate::setup::central_storage::Strategy;
use crate::values::sparse;
use umbo_base::error::{Error, Result};
use umbo_tensor::Tensor;
use umbo_tensor::collectives::{self, ReduceOp};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::{Aggregation, Variable};

/// Combines the values of all replicas of all ranks. `values`, tensors or indexed slices, are this
/// rank's; `verb` names the operation.
pub(crate) fn combine(
    strategy: &Strategy,
    variable: &Variable,
    verb: &str,
    values: Vec<Value>,
) -> Result<Value> {
    if strategy.ranks().is_alone() {
        return aggregate(variable, &values);
    }
    let is_sum = variable.spec().aggregation == Aggregation::Sum;
    let components = match values.len() > 1 && is_sum && are_same(&values) {
        true => Err(same_for_sum(&values[0], variable)),
        false => Value::per_replica_of(values),
    };
    let purpose = format_args!("{verb} to '{}'", variable.name());
    match strategy
        .ranks()
        .gather(CollectiveKind::Assign, &purpose, components)?
    {
        Value::PerReplica(parts) => aggregate(variable, &parts.values()),
        _ => Err(Error::Internal(
            "a per-replica value has become another".into(),
        )),
    }
}

fn aggregate(variable: &Variable, values: &[Value]) -> Result<Value> {
    let first = values
        .first()
        .ok_or_else(|| Error::Internal("no values to aggregate".into()))?;
    if values.len() == 1 {
        return Ok(first.clone());
    }
    let op = match variable.spec().aggregation {
        Aggregation::OnlyFirstReplica => return Ok(first.clone()),
        Aggregation::Mean if are_same(values) => return Ok(first.clone()),
        Aggregation::Mean => ReduceOp::Mean,
        Aggregation::Sum if are_same(values) => return Err(same_for_sum(first, variable)),
        Aggregation::Sum => ReduceOp::Sum,
        Aggregation::None => return Err(Error::Internal("NONE reached the aggregation".into())),
    };
    if let Some(slices) = sparse::all_slices(values) {
        let sum = sparse::concatenate(op, &slices, variable.device())?;
        return Ok(Value::IndexedSlices(Arc::new(sum)));
    }
    let tensors: Result<Vec<Tensor>> = values
        .iter()
        .map(|value| value.tensor_of(0).cloned())
        .collect();
    collectives::reduce(op, &tensors?, None, variable.device(), None).map(Value::Tensor)
}

fn are_same(values: &[Value]) -> bool {
    values.iter().all(|value| value.is_same(&values[0]))
}

/// The reason why the very same object on all replicas has no sum.
fn same_for_sum(value: &Value, variable: &Variable) -> Error {
    let kind = if matches!(value, Value::IndexedSlices(_)) {
        "slices"
    } else {
        "tensor"
    };
    let problem = format!(
        "the very same {kind} on all replicas cannot be reduced by SUM for variable '{}'; pass \
         one for each replica, or assign in a merge call",
        variable.name()
    );
    Error::invalid("value", problem)
}
