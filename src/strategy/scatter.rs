//! Scatter updates of variables, in each context.

use std::sync::Arc;

use super::step::ReplicaContext;
use super::variables::{
    check_aggregation, check_dtype, stage, write_directly, write_in_replica, writing_context,
};
use crate::error::{Error, Result};
pub use crate::kernels::rows::scatter::ScatterOp;
use crate::tensor::TensorMut;
use crate::values::Value;
use crate::values::indexed_slices::IndexedSlices;
use crate::values::variable::Variable;

/// Combines the rows of indexed slices into rows of a variable, in order; a row that is named
/// several times is changed several times.
///
/// In cross-replica and default context it acts once, with the slices as they are; a per-replica value
/// is refused there, since it does not say how to combine its components. In replica context it is a synchronising operation: the
/// replicas' slices are concatenated in replica order (aggregation SUM), or concatenated with the
/// values divided by the number of replicas (MEAN), or replica 0's count (ONLY_FIRST_REPLICA);
/// later reads in the step see the result, and the commit point makes it central state.
///
/// Fails, with nothing changed, with OUT_OF_RANGE for an index that is no row of the variable, and
/// with INVALID_ARGUMENT for another dtype or dense shape than the variable's, for an integer
/// divided by zero, for arithmetic on bool, and in replica context for aggregation NONE.
pub fn scatter(variable: &Variable, op: ScatterOp, value: &Value) -> Result<()> {
    match writing_context(variable)? {
        Some(context) => scatter_in_replica(&context, variable, op, value),
        None => {
            if matches!(value, Value::PerReplica(_)) {
                return Err(invalid!(
                    "value",
                    "a per-replica value, of which one component would be used; scatter inside of a \
                     run, where the variable's aggregation combines them, or scatter the component \
                     that is meant"
                ));
            }
            let slices = plain_slices(value)?;
            check_scatterable(variable, &slices)?;
            write_directly(variable, true, &mut |to| scatter_rows(variable, op, &slices, to))
        }
    }
}

/// Scatters into the staged or committed value of `variable`.
fn scatter_rows(
    variable: &Variable,
    op: ScatterOp,
    slices: &IndexedSlices,
    to: &mut TensorMut<'_>,
) -> Result<()> {
    to.scatter_rows(op, slices.values(), slices.indices()).map_err(|error| match error {
        Error::OutOfRange { argument, problem } => {
            out_of_range!(argument, "{problem} of variable '{}'", variable.name())
        }
        other => other,
    })
}

fn plain_slices(value: &Value) -> Result<Arc<IndexedSlices>> {
    match value.component(0)? {
        Value::IndexedSlices(slices) => Ok(slices),
        other => Err(invalid!("value", "{} where indexed slices are expected", other.kind_name())),
    }
}

fn check_scatterable(variable: &Variable, slices: &IndexedSlices) -> Result<()> {
    check_dtype(variable, slices.values())?;
    if slices.dense_shape() == variable.shape() {
        return Ok(());
    }
    Err(invalid!(
        "value",
        "is slices of shape {}, but variable '{}' has shape {}",
        slices.dense_shape(),
        variable.name(),
        variable.shape()
    ))
}

fn scatter_in_replica(
    context: &ReplicaContext,
    variable: &Variable,
    op: ScatterOp,
    value: &Value,
) -> Result<()> {
    context.check_live()?;
    check_aggregation(context, variable, op.name())?;
    let value = Value::IndexedSlices(plain_slices(value)?);
    let (target, step) = (variable.clone(), context.step_id());
    write_in_replica(context, variable, op.name(), value, move |strategy, combined| {
        let slices = plain_slices(&combined)?;
        check_scatterable(&target, &slices)?;
        stage(strategy, step, &target, true, &mut |to| scatter_rows(&target, op, &slices, to))
    })
}
