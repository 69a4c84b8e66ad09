//! Gradients: what replicas contribute to an update.

use super::boundary::{array, boundary, check, collect, constant, flag, out, quietly};
use super::dtype::{UMBO_DTYPE_NONE, dtype_from, umbo_dtype};
use super::handle::{self, borrow, get, make};
use super::indexed_slices::slices_of;
use super::object::{
    umbo_gradients, umbo_optimizer, umbo_replica_context, umbo_strategy, umbo_value, umbo_variable,
};
use super::optimizer::usable;
use super::options::{self, Extensible};
use super::replica_context::in_context;
use super::status::umbo_status;
use super::view::{NO_VIEW, umbo_view, view_to_write};
use crate::error::{Error, Result};
use crate::optimizer::reduced::reduced;
use crate::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction};

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

/// What a replica does with its gradient buffer.
pub type umbo_gradient_mode = i32;

/// It writes every element. The buffer contains old data before.
pub const UMBO_GRADIENT_OVERWRITE: umbo_gradient_mode = 1;
/// It adds to the elements. They are zero when the replica first views the buffer in a step. Its own
/// additions are rounded to the type of the buffer each time: in float16 2048 + 1 is 2048. A callback
/// that adds often to a buffer of 16-bit floats adds in memory of its own and converts the sum
/// (umbo_convert_from_float()). The sums of the library, over rows, replicas and runs, are float64.
pub const UMBO_GRADIENT_ADD: umbo_gradient_mode = 2;

/// How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT.
#[derive(Clone, Copy)]
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

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_gradients_options {}

impl Default for umbo_gradients_options {
    fn default() -> Self {
        umbo_gradients_options {
            struct_size: size_of::<Self>(),
            loss_reduction: UMBO_LOSS_UNSET,
            accumulation_steps: 1,
            row_sparse: std::ptr::null(),
            dtype: UMBO_DTYPE_NONE,
        }
    }
}

const _: () = assert!(LossReduction::Sum as i32 == UMBO_LOSS_SUM);
const _: () = assert!(LossReduction::Mean as i32 == UMBO_LOSS_MEAN);
const _: () = assert!(LossReduction::GlobalMean as i32 == UMBO_LOSS_GLOBAL_MEAN);
const _: () = assert!(GradientMode::Overwrite as i32 == UMBO_GRADIENT_OVERWRITE);
const _: () = assert!(GradientMode::Add as i32 == UMBO_GRADIENT_ADD);

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
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, no variables, a variable named
///   twice or made by another strategy, a scalar that is row-sparse, `loss_reduction` unset, or
///   another option that is out of range or does not fit.
/// - UMBO_STATUS_UNIMPLEMENTED: a variable that is neither float32 nor float64.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_create(
    strategy: *mut umbo_strategy,
    count: i64,
    variables: *const *mut umbo_variable,
    options: *const umbo_gradients_options,
    gradients: *mut *mut umbo_gradients,
) -> umbo_status {
    boundary("umbo_gradients_create", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (gradients, variables) =
            unsafe { (out(gradients, "gradients")?, array(variables, count, "variables")?) };
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::read(options, "options") }?;
        let strategy = get(strategy, "strategy")?;
        let variables = collect(variables.iter().map(|&variable| get(variable, "variables")))?;
        let loss_reduction = constant(
            options.loss_reduction,
            LossReduction::from_code(options.loss_reduction),
            "options.loss_reduction",
            "UMBO_LOSS_SUM (1), UMBO_LOSS_MEAN (2) and UMBO_LOSS_GLOBAL_MEAN (3), and one must be \
             given: does the callback sum over its examples, take their mean, or divide by the \
             examples of the global batch?",
        )?;
        let (id, devices) = (strategy.id(), strategy.replica_devices());
        let steps = match options.accumulation_steps {
            steps @ 1.. => steps as u64,
            steps => {
                let problem = format!("{steps}; must be 1 or more");
                return Err(Error::invalid("options.accumulation_steps", problem));
            }
        };
        let row_sparse = if options.row_sparse.is_null() {
            &[][..]
        } else {
            // SAFETY: not NULL, so the caller gives as many numbers as variables.
            unsafe { array(options.row_sparse, count, "options.row_sparse") }?
        };
        let row_sparse = row_sparse.iter().map(|&choice| flag(choice, "options.row_sparse"));
        let row_sparse = &*collect(row_sparse)?;
        let dtype = match options.dtype {
            UMBO_DTYPE_NONE => None,
            dtype => Some(dtype_from(dtype)?),
        };
        let options = GradientsOptions { accumulation_steps: steps, dtype, row_sparse };
        let made = Gradients::with_options(id, devices, variables, loss_reduction, options)?;
        gradients.write(make(made)?);
        Ok(())
    })
}

/// Gives this replica's buffer for the gradient of a variable.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD.
/// @param[out] view The buffer, to be written until the replica submits. It has the variable's
///   shape, and its dtype unless the options give another one. It is on the replica's device.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or an unknown `mode`.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the variable is row-sparse, this is not a run of the strategy
///   that the gradients were made for, the replica has submitted already, what an earlier run
///   submitted was not applied, or the gradients were made before this process was forked.
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// If a replica does not view a variable in a step, its gradient counts as zero. If no replica
/// views it, the variable is not updated. Replicas call at the same time; the call allocates
/// nothing and does not wait.
///
/// The buffer stays where it is: the view has the same address in every step as long as the gradients live.
/// umbo_gradients_attach() lets a gradient stay in the program's memory instead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_view(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    mode: umbo_gradient_mode,
    view: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_gradients_view", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let view = unsafe { out(view, "view") }?;
        let index = variable_index(index)?;
        let mode = mode_from(mode)?;
        view.write(in_context(ctx, |context| {
            borrow(gradients, "gradients", |gradients| {
                gradients.view_in(context, index, mode).map(view_to_write)
            })?
        })?);
        Ok(())
    })
}

/// This replica's own buffers for all variables: umbo_gradients_view() for each of them, in one call. A
/// row-sparse variable has no buffer, and gets a view of zeros, whose `mutable_data` is NULL. All others
/// count as viewed, so with UMBO_GRADIENT_OVERWRITE all of them are written in full.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @param[in] mode UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD, for all buffers.
/// @param[in] capacity How many views `views` has room for.
/// @param[out] views Gets a view for each variable, in their order.
/// @param[out] count Gets the number of variables, also if `capacity` is less.
/// @return UMBO_STATUS_OUT_OF_RANGE if `capacity` is less than the number of variables: then no buffer
/// counts as viewed. Else as umbo_gradients_view().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_views(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    mode: umbo_gradient_mode,
    capacity: i64,
    views: *mut umbo_view,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_gradients_views", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        let mode = mode_from(mode)?;
        if capacity > 0 {
            check(views.cast_const(), "views", "a place for each view is expected")?;
        }
        in_context(ctx, |context| {
            borrow(gradients, "gradients", |gradients| {
                let all = gradients.variables().len();
                count.write(all as i64);
                if capacity < all as i64 {
                    let problem = format!("{capacity}, but there are {all} variables");
                    return Err(Error::out_of_range("capacity", problem));
                }
                for index in 0..all {
                    let view = match gradients.is_row_sparse(index) {
                        true => NO_VIEW,
                        false => gradients.view_in(context, index, mode).map(view_to_write)?,
                    };
                    // SAFETY: the caller gives room for `capacity` views, which are as many or more.
                    unsafe { views.add(index).write(view) };
                }
                Ok(())
            })?
        })
    })
}

fn mode_from(mode: umbo_gradient_mode) -> Result<GradientMode> {
    constant(
        mode,
        GradientMode::from_code(mode),
        "mode",
        "UMBO_GRADIENT_OVERWRITE (1) and UMBO_GRADIENT_ADD (2)",
    )
}

/// Adds rows to this replica's gradient of a row-sparse variable.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] rows How many rows to add; 0 or more.
/// @param[out] indices Room for the numbers of the rows in the variable: int64, of shape [rows].
/// @param[out] values Room for their gradients: of the gradients' dtype, and of the variable's
///   shape with `rows` in place of the first dimension.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or a negative number of rows.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_FAILED_PRECONDITION: the variable is not row-sparse, or as for
///   umbo_gradients_view().
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory for so many rows.
///
/// Write all of both views before the replica submits; they contain old data before. They are on
/// the replica's device. A further call in the step adds further rows, and the earlier views stay
/// valid.
///
/// Rows may come in any order. A row may be named several times, in one call, in several calls or
/// by several replicas: its gradient is then the sum. Sums are in replica order, and for each
/// replica in the order in which it added the rows. So their bits do not depend on threads or
/// timing. Sums are then treated as the gradients of other variables are.
///
/// The update is *lazy*: it changes only the rows that were named and the optimizer's state for
/// them. So momentum and weight decay act on these rows only. Adam's t counts the updates of the
/// variable. An apply with LAMB is UMBO_STATUS_INVALID_ARGUMENT. A variable to which a replica adds
/// 0 rows counts as updated; one for which no replica makes this call does not.
///
/// Indices are checked by the call that submits, unless its weight is 0. An index that is no row of
/// the variable is UMBO_STATUS_OUT_OF_RANGE there.
///
/// Replicas call at the same time, and the call does not wait. It allocates nothing if an earlier
/// step had as many rows in as many calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_add_rows(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    rows: i64,
    indices: *mut umbo_view,
    values: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_gradients_add_rows", || {
        // SAFETY: the caller gives NULL or places for the outputs.
        let (indices, values) = unsafe { (out(indices, "indices")?, out(values, "values")?) };
        let (index, rows) = (variable_index(index)?, row_count(rows)?);
        let added = in_context(ctx, |context| {
            borrow(gradients, "gradients", |gradients| gradients.add_rows_in(context, index, rows))?
        })?;
        indices.write(view_to_write(&added.indices));
        values.write(view_to_write(&added.values));
        Ok(())
    })
}

/// Adds copies of indexed slices to a gradient.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[in] slices Indexed slices of the gradients' dtype and the variable's shape. They stay the
///   caller's.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, another kind of value, or another
///   dtype or shape.
/// - the others of umbo_gradients_add_rows().
///
/// The rows count as those of umbo_gradients_add_rows().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_add_indexed_slices(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    index: i64,
    slices: *const umbo_value,
) -> umbo_status {
    boundary("umbo_gradients_add_indexed_slices", || {
        let (index, slices) = (variable_index(index)?, get(slices, "slices")?);
        in_context(ctx, |context| {
            borrow(gradients, "gradients", |gradients| {
                gradients.add_indexed_slices_in(context, index, slices_of(&slices, "slices")?)
            })?
        })
    })
}

/// Tells how many variables the gradients are for.
///
/// @param[in] gradients The gradients.
/// @param[out] count The number of variables.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_count(
    gradients: *const umbo_gradients,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_gradients_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(gradients, "gradients", |own| own.variables().len())? as i64);
        Ok(())
    })
}

/// Gives one of the variables that the gradients are for.
///
/// @param[in] gradients The gradients.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[out] variable A new handle to the variable. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_variable(
    gradients: *const umbo_gradients,
    index: i64,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_gradients_variable", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let variable = unsafe { out(variable, "variable") }?;
        let found = of_variable(gradients, index, |own, index| own.variables()[index].clone())?;
        variable.write(make(found)?);
        Ok(())
    })
}

/// Tells what the gradients mean.
///
/// @param[in] gradients The gradients.
/// @param[out] loss_reduction The loss reduction that they were made with.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_loss_reduction(
    gradients: *const umbo_gradients,
    loss_reduction: *mut umbo_loss_reduction,
) -> umbo_status {
    boundary("umbo_gradients_loss_reduction", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let loss_reduction = unsafe { out(loss_reduction, "loss_reduction") }?;
        loss_reduction.write(borrow(gradients, "gradients", |own| own.loss_reduction() as i32)?);
        Ok(())
    })
}

/// Tells how many runs make one update.
///
/// @param[in] gradients The gradients.
/// @param[out] steps The `accumulation_steps` that they were made with.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_accumulation_steps(
    gradients: *const umbo_gradients,
    steps: *mut i64,
) -> umbo_status {
    boundary("umbo_gradients_accumulation_steps", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let steps = unsafe { out(steps, "steps") }?;
        steps.write(borrow(gradients, "gradients", |own| own.accumulation_steps())? as i64);
        Ok(())
    })
}

/// Tells whether a variable is row-sparse.
///
/// @param[in] gradients The gradients.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[out] row_sparse 1 if replicas contribute rows of it, else 0.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_row_sparse(
    gradients: *const umbo_gradients,
    index: i64,
    row_sparse: *mut i32,
) -> umbo_status {
    boundary("umbo_gradients_row_sparse", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let row_sparse = unsafe { out(row_sparse, "row_sparse") }?;
        let found = of_variable(gradients, index, Gradients::is_row_sparse)?;
        row_sparse.write(found.into());
        Ok(())
    })
}

/// Tells the element type of the gradients of a variable.
///
/// @param[in] gradients The gradients.
/// @param[in] index The place of the variable among those that the gradients were made for.
/// @param[out] dtype The type in which replicas write them: that of the options, or the variable's
///   if the options give none.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_OUT_OF_RANGE: no such variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_dtype(
    gradients: *const umbo_gradients,
    index: i64,
    dtype: *mut umbo_dtype,
) -> umbo_status {
    boundary("umbo_gradients_dtype", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let dtype = unsafe { out(dtype, "dtype") }?;
        dtype.write(of_variable(gradients, index, Gradients::dtype)? as i32);
        Ok(())
    })
}

/// The gradient of a variable that the next apply would take: summed over replicas and accumulated runs
/// and divided as `loss_reduction` says, without the loss scale, before clipping and weight decay, in the
/// variable's type. With accumulated runs it is divided by the weight of those that there are. Nothing is
/// used up. It waits for a run that another thread has in progress. `optimizer` may be NULL.
///
/// With several ranks all of them call this, and each gets the gradient over all ranks' replicas. The ranks tell
/// each other all that their replicas have contributed to the variable, which is more than an apply does.
///
/// @param gradients The gradients.
/// @param index The number of the variable among those of the gradients.
/// @param optimizer The optimizer whose loss scale is taken out of the last run (of accumulated ones it is
/// out already), if there is one.
/// @param value Gets a new value: a tensor, or for a row-sparse variable indexed slices of the rows that
/// were named, ascending, each once.
/// @return UMBO_OK; UMBO_STATUS_FAILED_PRECONDITION inside of a run, where umbo_optimizer_apply() would
/// find nothing to apply, and if all weights are 0; UMBO_STATUS_NOT_FOUND if no replica contributed to the
/// variable; UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_reduced(
    gradients: *const umbo_gradients,
    index: i64,
    optimizer: *const umbo_optimizer,
    value: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_gradients_reduced", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let value = unsafe { out(value, "value") }?;
        let index = variable_index(index)?;
        let gradients = get(gradients, "gradients")?;
        let optimizer = match optimizer.is_null() {
            true => None,
            false => Some(usable(optimizer)?),
        };
        value.write(make(reduced(&gradients, index, optimizer.as_ref())?)?);
        Ok(())
    })
}

/// What `tell` says of the variable at `index`, if there is one.
fn of_variable<T>(
    gradients: *const umbo_gradients,
    index: i64,
    tell: impl FnOnce(&Gradients, usize) -> T,
) -> Result<T> {
    let index = variable_index(index)?;
    borrow(gradients, "gradients", |gradients| {
        let count = gradients.variables().len();
        if index < count {
            return Ok(tell(gradients, index));
        }
        let problem = format!("{index} is not in [0, {count}), the variables of the gradients");
        Err(Error::out_of_range("index", problem))
    })?
}

pub(crate) fn variable_index(index: i64) -> Result<usize> {
    usize::try_from(index)
        .map_err(|_| Error::out_of_range("index", format!("{index}; indices are 0 or more")))
}

fn row_count(rows: i64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::invalid("rows", format!("{rows}; must be 0 or more")))
}

/// Submits this replica's gradients, weighted by its number of examples.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells
///   the number of examples (umbo_gradients_submit_weighted() takes a weight), the replica has
///   submitted already, or as for umbo_gradients_view().
/// - UMBO_STATUS_OUT_OF_RANGE: an index among the rows that this replica added is no row of its
///   variable. The replica has not submitted then.
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
///
/// Each replica submits once in a step, after all of its gradients are written. The number of
/// examples is that of its part of the run's arguments. A replica without examples submits too;
/// what it wrote is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_submit(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
) -> umbo_status {
    boundary("umbo_gradients_submit", || submit(ctx, gradients, None))
}

/// Submits this replica's gradients with a given weight.
///
/// @param[in] gradients The gradients.
/// @param[in] ctx The replica's context.
/// @param[in] weight The weight of this replica; finite and 0 or more. With 0 nothing that this
///   replica wrote is read.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or a weight that is negative or
///   not finite.
/// - UMBO_STATUS_FAILED_PRECONDITION: the replica has submitted already, or as for
///   umbo_gradients_view().
/// - UMBO_STATUS_OUT_OF_RANGE: as for umbo_gradients_submit().
/// - UMBO_STATUS_CANCELLED: the run has returned without this replica.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_submit_weighted(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    weight: f64,
) -> umbo_status {
    boundary("umbo_gradients_submit_weighted", || submit(ctx, gradients, Some(weight)))
}

fn submit(
    ctx: *mut umbo_replica_context,
    gradients: *mut umbo_gradients,
    weight: Option<f64>,
) -> Result<()> {
    in_context(ctx, |context| {
        borrow(gradients, "gradients", |gradients| gradients.submit_in(context, weight))?
    })
}

/// Makes another handle to the same gradients.
///
/// @param[in] gradients The gradients. A handle that was lent to a callback is accepted too.
/// @param[out] retained The new handle. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// Each handle is released once, by itself. Retain a lent handle to keep the object after the
/// callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_retain(
    gradients: *const umbo_gradients,
    retained: *mut *mut umbo_gradients,
) -> umbo_status {
    boundary("umbo_gradients_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(gradients, "gradients", retained) }
    })
}

/// Releases a handle.
///
/// @param[in] gradients The handle. NULL is fine: then nothing happens.
///
/// The object ends when its last handle is released and nothing else keeps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_release(gradients: *const umbo_gradients) {
    quietly("umbo_gradients_release", || handle::release(gradients, "gradients"));
}
