//! Gradients: what replicas contribute to an update.

use crate::machinery::first_batch::record_gradients;
use crate::machinery::prelude::*;
use umbo_core::optimizer::gradients::reduced::reduced;
use umbo_core::optimizer::{Gradients, GradientsOptions, LossReduction};

/// How a callback reduces the losses of its examples, which says what its gradients mean.
pub type umbo_loss_reduction = i32;

/// It sums. An update uses the sum over the replicas, divided by their total weight.
pub const UMBO_LOSS_SUM: umbo_loss_reduction = 801;
/// It takes the mean. An update uses the mean over the replicas, weighted by their weights.
pub const UMBO_LOSS_MEAN: umbo_loss_reduction = 802;
/// It divides the sum by the global batch's examples. An update uses the sum over replicas.
pub const UMBO_LOSS_GLOBAL_MEAN: umbo_loss_reduction = 803;

constants! { LossReduction {
    UMBO_LOSS_SUM = Sum, UMBO_LOSS_MEAN = Mean, UMBO_LOSS_GLOBAL_MEAN = GlobalMean,
} }

/// How gradients are combined.
#[c_struct(accumulation_steps = 1)]
pub struct umbo_gradients_options {
    /// How many runs make one update; 1 or more. Apply after each run: the contributions of all of
    /// them are added and divided by their total weight. With UMBO_LOSS_GLOBAL_MEAN the callback
    /// divides by the examples of all of them. More than 1 takes 8 bytes for each element of the
    /// variables; of row-sparse variables only the rows that were named count. With several ranks
    /// and replicas_in_sync it must be 1.
    pub accumulation_steps: i64,
    /// For each variable 1 if it is row-sparse, such as an embedding table, or 0. NULL: none is.
    /// Replicas add rows to it (umbo_gradients_add_rows()), and an apply costs what the rows cost.
    #[counted_by_function]
    pub row_sparse: *const i32,
    /// The type of the gradients; UMBO_DTYPE_NONE: that of each variable. UMBO_DTYPE_FLOAT16 or
    /// UMBO_DTYPE_BFLOAT16 is for float32 variables: half as many bytes are written and read. Sums
    /// are always float64, and the variables and the optimizer's state keep their type.
    pub dtype: umbo_dtype,
}

/// Makes gradient buffers, one for each variable and replica.
///
/// @param[in] variables At least one; all different, of this strategy, float32, float64 or, in host
///   memory, bfloat16.
/// @param[in] loss_reduction What the callback does with the losses of its examples.
/// @param[in] options `options` may be NULL.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: variables or options that do not fit, such as
///   a scalar that is row-sparse. UMBO_STATUS_UNIMPLEMENTED: a variable of another type, or
///   accumulation_steps with replicas_in_sync over several ranks.
#[c_call(
    out(gradients),
    handles(variables, count),
    options(options),
    get(strategy)
)]
pub fn umbo_gradients_create(
    strategy: *const umbo_strategy,
    count: i64,
    variables: *const *mut umbo_variable,
    loss_reduction: umbo_loss_reduction,
    options: *const umbo_gradients_options,
    gradients: *mut *mut umbo_gradients,
) {
    let loss_reduction = constant(loss_reduction, "loss_reduction")?;
    let id = strategy.id();
    let devices = strategy.replica_devices();
    let accumulation_steps = positive(options.accumulation_steps, "options.accumulation_steps")?;
    // SAFETY: the caller gives NULL or as many numbers as variables.
    let row_sparse = unsafe {
        optional_array(
            options.row_sparse,
            Count::new(count, "count"),
            "options.row_sparse",
        )
    }?;
    let choices = row_sparse.unwrap_or_default().iter();
    let choices = choices.map(|&choice| flag(choice, "options.row_sparse"));
    let row_sparse = &*collect(choices, "options.row_sparse")?;
    let dtype = dtype_or_any(options.dtype, "options.dtype")?;
    let options = GradientsOptions {
        accumulation_steps,
        dtype,
        row_sparse,
    };
    let made = Gradients::new(id, devices, variables, loss_reduction, options)?;
    record_gradients(&made);
    gradients.write(make(made)?);
}

/// The properties of gradients, and of the gradient of one variable.
#[c_struct]
pub struct umbo_gradients_info {
    /// The number of variables.
    pub variable_count: i64,
    /// How many runs make one update.
    pub accumulation_steps: i64,
    /// The reduction of the callback over the losses of its examples.
    pub loss_reduction: umbo_loss_reduction,
    /// The type in which replicas write this gradient. UMBO_DTYPE_NONE without an index.
    pub dtype: umbo_dtype,
    /// 1: replicas add rows to this gradient. 0: not, or without an index.
    pub row_sparse: i32,
}

/// Gets what gradients are.
///
/// @param[in] index Also gets what the gradient of this variable is. UMBO_NONE: of none.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[c_call(result(info), borrow(gradients))]
pub fn umbo_gradients_get_info(
    gradients: *const umbo_gradients,
    index: i64,
    info: *mut umbo_gradients_info,
) {
    let mut found = umbo_gradients_info {
        variable_count: gradients.variables().len() as i64,
        accumulation_steps: gradients.accumulation_steps() as i64,
        loss_reduction: gradients.loss_reduction().to_c(),
        ..Default::default()
    };
    if index != UMBO_NONE {
        let index = checked(gradients, index)?;
        found.dtype = gradients.dtype(index).to_c();
        found.row_sparse = gradients.is_row_sparse(index).into();
    }
    info.write(found);
}

/// Gets a new handle to one of the variables.
///
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[c_call(out(variable), borrow(gradients))]
pub fn umbo_gradients_variable(
    gradients: *const umbo_gradients,
    index: i64,
    variable: *mut *mut umbo_variable,
) {
    let index = checked(gradients, index)?;
    variable.write(make(gradients.variables()[index].clone())?);
}

/// Gets a new handle to the gradient of a variable that the next apply would use, before clipping
/// and weight decay.
///
/// @param[in] optimizer Its loss scale is taken out. NULL: there is none.
/// @param[out] value A tensor of the variable's type, or for a row-sparse variable indexed slices
///   of the rows that were named, ascending, each once. With accumulated runs it is divided by the
///   weight of the runs so far.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable. UMBO_STATUS_NOT_FOUND: no
///   replica contributed to it, or it is frozen and runs are accumulated, which leaves it out.
///   UMBO_STATUS_FAILED_PRECONDITION: inside a run, if there is nothing to apply, or all weights
///   are 0.
///
/// Nothing is used up. Waits for a run of another thread. Collective: each rank gets the gradient
/// over all ranks, which exchange more than in an apply.
#[c_call(out(value), index(index), get(gradients), get_optional(optimizer))]
pub fn umbo_gradients_reduced(
    gradients: *const umbo_gradients,
    index: i64,
    optimizer: *const umbo_optimizer,
    value: *mut *mut umbo_value,
) {
    value.write(make(reduced(&gradients, index, optimizer.as_ref())?)?);
}

fn checked(gradients: &Gradients, index: i64) -> Result<usize> {
    let variables = Listed {
        count: gradients.variables().len(),
        elements: "the variables of the gradients",
    };
    at(index, "index", variables, Some)
}
