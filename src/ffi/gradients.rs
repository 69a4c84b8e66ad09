//! Gradients: what replicas contribute to an update.

use super::first_batch::note_gradients;
use super::prelude::*;
use crate::optimizer::reduced::reduced;
use crate::optimizer::{Gradients, GradientsOptions, LossReduction};

/// How the callback reduces the losses of its examples, which says what its gradients mean.
pub type umbo_loss_reduction = i32;

/// Not chosen; no function accepts it.
pub const UMBO_LOSS_UNSET: umbo_loss_reduction = 0;
/// The callback sums over its examples. The update uses the sum over the replicas, divided by the
/// total weight.
pub const UMBO_LOSS_SUM: umbo_loss_reduction = 1;
/// The callback takes the mean over its examples. The update uses the mean over the replicas,
/// weighted by their weights.
pub const UMBO_LOSS_MEAN: umbo_loss_reduction = 2;
/// The callback sums over its examples and divides by the number of examples of the global batch.
/// The update uses the sum over the replicas.
pub const UMBO_LOSS_GLOBAL_MEAN: umbo_loss_reduction = 3;

constants! { LossReduction {
    UMBO_LOSS_SUM = LossReduction::Sum, UMBO_LOSS_MEAN = LossReduction::Mean,
    UMBO_LOSS_GLOBAL_MEAN = LossReduction::GlobalMean,
} }

/// How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT.
#[c_struct(accumulation_steps = 1)]
#[repr(C)]
pub struct umbo_gradients_options {
    /// sizeof(umbo_gradients_options).
    pub struct_size: usize,
    /// UMBO_LOSS_SUM, UMBO_LOSS_MEAN or UMBO_LOSS_GLOBAL_MEAN. There is no default: it must be set.
    pub loss_reduction: umbo_loss_reduction,
    /// How many runs make one update; 1 or more, by default 1. Call umbo_optimizer_apply() after
    /// each run. The contributions of all these runs are added and divided by their total weight,
    /// as if one run had submitted them. With UMBO_LOSS_GLOBAL_MEAN the callback divides by the
    /// examples of all of these runs. More than 1 costs 8 bytes for each element of the variables,
    /// on their device; for row-sparse variables only the rows that were named count.
    pub accumulation_steps: i64,
    /// An array with a number for each variable: 1 for a row-sparse variable, 0 for any other.
    /// NULL: none is row-sparse. A row-sparse variable, such as an embedding table, has one
    /// dimension or more, and a step contributes to some of its rows only. Replicas do so with
    /// umbo_gradients_add_rows() and umbo_gradients_add_indexed_slices() and do not call
    /// umbo_gradients_view(). There are no buffers of the variable's size, and the costs of an
    /// apply are those of the rows.
    pub row_sparse: *const i32,
    /// The element type of the gradients. UMBO_DTYPE_NONE, the default: that of each variable.
    /// UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16, for float32 variables: replicas write half as
    /// many bytes, and an apply reads half as many. Sums over replicas are float64 in every case,
    /// and the variables and the optimizer's state keep their type.
    pub dtype: umbo_dtype,
}

/// Makes gradient buffers, one for each variable and replica.
///
/// @param[in] strategy The strategy whose replicas write them.
/// @param[in] count The number of variables, 1 or more.
/// @param[in] variables The variables: all different, made by `strategy`, and of float32 or
///   float64. Gradients keep a reference of their own.
/// @param[in] options What the gradients mean, and their type; must be given, since
///   `loss_reduction` has no default.
/// @param[out] gradients The new gradients. The caller releases them.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: no variables, a variable named twice or made by another strategy, a scalar
///   that is row-sparse, `loss_reduction` unset, or another option that is out of range or does not fit.
/// - UMBO_STATUS_UNIMPLEMENTED: a variable that is neither float32 nor float64.
#[c_call(out(gradients), handles(variables, count), options(options), get(strategy))]
pub fn umbo_gradients_create(
    strategy: *mut umbo_strategy,
    count: i64,
    variables: *const *mut umbo_variable,
    options: *const umbo_gradients_options,
    gradients: *mut *mut umbo_gradients,
) {
    let loss_reduction = match options.loss_reduction {
        UMBO_LOSS_UNSET => {
            let problem = "0; valid are UMBO_LOSS_SUM (1), UMBO_LOSS_MEAN (2) and UMBO_LOSS_GLOBAL_MEAN \
                           (3), and one must be given: does the callback sum over its examples, take \
                           their mean, or divide by the examples of the global batch?";
            return Err(Error::invalid("options.loss_reduction", problem));
        }
        code => constant(code, "options.loss_reduction")?,
    };
    let (id, devices) = (strategy.id(), strategy.replica_devices());
    let accumulation_steps = positive(options.accumulation_steps, "options.accumulation_steps")?;
    // SAFETY: the caller gives NULL or as many numbers as variables.
    let row_sparse =
        unsafe { optional_array(options.row_sparse, (count, "count"), "options.row_sparse") }?;
    let choices = row_sparse.unwrap_or_default().iter();
    let row_sparse = &*collect(choices.map(|&choice| flag(choice, "options.row_sparse")))?;
    let dtype = dtype_or_any(options.dtype, "dtype")?;
    let options = GradientsOptions { accumulation_steps, dtype, row_sparse };
    let made = Gradients::with_options(id, devices, variables, loss_reduction, options)?;
    note_gradients(&made);
    gradients.write(make(made)?);
}

/// What gradients were made for, and how. Start from UMBO_GRADIENTS_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_gradients_info {
    /// sizeof(umbo_gradients_info).
    pub struct_size: usize,
    /// The number of variables that the gradients are for.
    pub num_variables: i64,
    /// How many runs make one update.
    pub accumulation_steps: i64,
    /// The loss reduction that the gradients were made with.
    pub loss_reduction: umbo_loss_reduction,
}

/// Gets what gradients were made for, and how.
///
/// @param[out] info Their description. Start from UMBO_GRADIENTS_INFO_INIT, which sets its size.
#[c_call(result(info), borrow(gradients))]
pub fn umbo_gradients_get_info(gradients: *const umbo_gradients, info: *mut umbo_gradients_info) {
    info.write(umbo_gradients_info {
        num_variables: gradients.variables().len() as i64,
        accumulation_steps: gradients.accumulation_steps() as i64,
        loss_reduction: gradients.loss_reduction().to_c(),
        ..Default::default()
    });
}

/// What the gradients of one variable are. Start from UMBO_GRADIENT_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_gradient_info {
    /// sizeof(umbo_gradient_info).
    pub struct_size: usize,
    /// The type in which replicas write them: that of the options, or the variable's if the options give none.
    pub dtype: umbo_dtype,
    /// 1 if replicas contribute rows, else 0.
    pub row_sparse: i32,
}

/// Gets what the gradients of one variable are.
///
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[out] info Their description. Start from UMBO_GRADIENT_INFO_INIT, which sets its size.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[c_call(result(info), index(index), borrow(gradients))]
pub fn umbo_gradients_get_gradient_info(
    gradients: *const umbo_gradients,
    index: i64,
    info: *mut umbo_gradient_info,
) {
    check_variable(gradients, index)?;
    info.write(umbo_gradient_info {
        dtype: gradients.dtype(index).to_c(),
        row_sparse: gradients.is_row_sparse(index).into(),
        ..Default::default()
    });
}

/// Gives one of the variables that the gradients are for.
///
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[c_call(out(variable), index(index), borrow(gradients))]
pub fn umbo_gradients_variable(
    gradients: *const umbo_gradients,
    index: i64,
    variable: *mut *mut umbo_variable,
) {
    check_variable(gradients, index)?;
    variable.write(make(gradients.variables()[index].clone())?);
}

/// Gives the gradient of a variable that the next apply would take.
///
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] optimizer The optimizer whose loss scale is taken out of the last run (of accumulated ones it is out
///   already). `optimizer` may be NULL: there is no loss scale.
/// @param[out] value A new value: a tensor, or for a row-sparse variable indexed slices of the rows that were named,
///   ascending, each once. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an optimizer of another strategy.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_NOT_FOUND: no replica contributed to the variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside of a run, where umbo_optimizer_apply() would find nothing to apply, or
///   if all weights are 0.
///
/// It is summed over replicas and accumulated runs and divided as `loss_reduction` says, without the loss scale,
/// before clipping and weight decay, in the variable's type. With accumulated runs it is divided by the weight of
/// those that there are. Nothing is used up. The call waits for a run that another thread has in progress.
///
/// With several ranks all of them call this, and each gets the gradient over all ranks' replicas. The ranks tell
/// each other all that their replicas have contributed to the variable, which is more than an apply does.
#[c_call(out(value), index(index), get(gradients), get_optional(optimizer))]
pub fn umbo_gradients_reduced(
    gradients: *const umbo_gradients,
    index: i64,
    optimizer: *const umbo_optimizer,
    value: *mut *mut umbo_value,
) {
    value.write(make(reduced(&gradients, index, optimizer.as_ref())?)?);
}

fn check_variable(gradients: &Gradients, index: usize) -> Result<()> {
    let variables = (gradients.variables().len(), "the variables of the gradients");
    at(index as i64, "index", variables, |_| Some(()))
}
