//! Gradients: what replicas contribute to an update.

use super::boundary::{array, boundary, collect, constant, flag, out, quietly};
use super::handle::{self, borrow, get, make};
use super::indexed_slices::slices_of;
use super::object::{
    umbo_gradients, umbo_replica_context, umbo_strategy, umbo_value, umbo_variable,
};
use super::options::{self, Extensible};
use super::replica_context::in_context;
use super::status::umbo_status;
use super::tensor::{UMBO_DTYPE_NONE, dtype_from, umbo_dtype, umbo_view, view_to_write};
use crate::error::{Error, Result};
use crate::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction};

/// How the callback reduces the losses of its examples, and so what its gradients stand for.
pub type umbo_loss_reduction = i32;

/// Not said yet; no function takes it.
pub const UMBO_LOSS_UNSET: umbo_loss_reduction = 0;
/// The callback sums over its examples. The update takes the sum over replicas, divided by the
/// total weight.
pub const UMBO_LOSS_SUM: umbo_loss_reduction = 1;
/// The callback takes the mean over its examples. The update takes the mean over replicas, weighted
/// by their weights.
pub const UMBO_LOSS_MEAN: umbo_loss_reduction = 2;
/// The callback divides by the examples of the global batch itself. The update takes the sum over
/// replicas.
pub const UMBO_LOSS_GLOBAL_MEAN: umbo_loss_reduction = 3;

/// What a replica does with its gradient buffer.
pub type umbo_gradient_mode = i32;

/// It writes every element; the buffer holds whatever it held before.
pub const UMBO_GRADIENT_OVERWRITE: umbo_gradient_mode = 1;
/// It adds to the elements, which are zero at its first view in a step.
pub const UMBO_GRADIENT_ADD: umbo_gradient_mode = 2;

/// How gradients are combined. Start from UMBO_GRADIENTS_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_gradients_options {
    /// sizeof(umbo_gradients_options).
    pub struct_size: usize,
    /// UMBO_LOSS_SUM, UMBO_LOSS_MEAN or UMBO_LOSS_GLOBAL_MEAN. Must be given: there is no default.
    pub loss_reduction: umbo_loss_reduction,
    /// How many runs make one update; umbo_optimizer_apply() is called after each of them. Their
    /// contributions are one sum, divided by the weight of all these runs, as if one run had submitted
    /// them; with UMBO_LOSS_GLOBAL_MEAN the callback divides by the examples of all of them. More than
    /// 1 costs 8 bytes for each element of the variables, on their device (of row-sparse ones: of the
    /// rows that were touched). 1 or more; by default 1.
    pub accumulation_steps: i64,
    /// NULL, or as many numbers as there are variables: 1 for a variable, of one dimension or more, of
    /// which a step contributes some rows only, such as an embedding table; 0 for the others. Replicas
    /// contribute to it by umbo_gradients_add_rows() and umbo_gradients_add_indexed_slices() instead
    /// of umbo_gradients_view(). It has no buffers of its size, and an apply costs by the rows.
    pub row_sparse: *const i32,
    /// The element type of the gradients: UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 for float32 variables, so that
    /// replicas write, and an update reads, half as much. Sums over replicas are float64 all the same,
    /// and weights and state stay what they are. UMBO_DTYPE_NONE, the default: the type of each variable.
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

/// Gradient buffers for `count` variables, one for each variable and replica of a strategy.
///
/// The variables must differ, have been made by the strategy, and be float32 or float64; they stay
/// the caller's to release. `options` must say what the callback's gradients stand for.
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
        let (id, devices) = (strategy.id(), strategy.compute_devices());
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

/// This replica's own buffer for variable `index`, of the variable's shape, and of its dtype unless
/// the options say another, on the replica's device; to be written until the replica submits. `mode` is UMBO_GRADIENT_OVERWRITE or UMBO_GRADIENT_ADD.
/// A variable that a replica does not view in a step counts as zero from it; one that no replica
/// views is not updated.
///
/// Replicas call this at the same time; nothing is allocated and nobody waits. OUT_OF_RANGE: no
/// such variable. FAILED_PRECONDITION: a row-sparse variable, not in a run of the strategy that the gradients were made
/// for, or submitted already. CANCELLED: the run has returned without this replica.
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
        let mode = constant(
            mode,
            GradientMode::from_code(mode),
            "mode",
            "UMBO_GRADIENT_OVERWRITE (1) and UMBO_GRADIENT_ADD (2)",
        )?;
        view.write(in_context(ctx, |context| {
            borrow(gradients, "gradients", |gradients| {
                gradients.view_in(context, index, mode).map(view_to_write)
            })?
        })?);
        Ok(())
    })
}

/// Adds `rows` rows (0 or more) to what this replica contributes to row-sparse variable `index` in
/// this step, and gives room to write them, on the replica's device, until the replica submits:
/// `indices`, int64 of shape [rows], takes which rows of the variable they are, and `values`, of the
/// gradients' dtype and the variable's shape but for the number of rows, their gradients. Both hold whatever they
/// held before. A further call in the step adds further rows; the first views stay valid.
///
/// Rows may come in any order. One that is named several times, in a call, in several or by several
/// replicas, stands for the sum of what is given for it; what is done with sums is the same as for
/// other variables. But the update is lazy: rows that nobody named, and what the optimizer keeps for
/// them, stay as they are, so that momentum and weight decay act on the rows that were named alone.
/// Adam's t counts the updates of the variable. An apply with LAMB is INVALID_ARGUMENT. A variable to
/// which replicas add 0 rows counts as updated; one to which none adds any, not even 0, does not.
///
/// Sums are in replica order, then in the order in which rows were added, so the bits depend neither
/// on threads nor on who comes first.
///
/// Replicas call this at the same time, and nobody waits; nothing is allocated once a step had as
/// many rows in as many calls. An index that is no row of the variable is OUT_OF_RANGE from the call
/// that submits with a weight other than 0. FAILED_PRECONDITION: not declared row-sparse; else as
/// for umbo_gradients_view(). RESOURCE_EXHAUSTED: no memory for as many rows.
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

/// Adds copies of the rows of `slices` to what this replica contributes to row-sparse variable
/// `index` in this step: indexed slices of the gradients' dtype and the variable's shape (INVALID_ARGUMENT if they
/// differ). Otherwise as umbo_gradients_add_rows().
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

/// How many variables the gradients are of.
///
/// @param gradients The gradients.
/// @param count Gets the number.
/// @return UMBO_OK.
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

/// One of the variables that the gradients are of.
///
/// @param gradients The gradients.
/// @param index Its number among them.
/// @param variable Gets a new handle to the variable.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
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

/// What the callback's gradients stand for.
///
/// @param gradients The gradients.
/// @param loss_reduction Gets what they were made with.
/// @return UMBO_OK.
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

/// How many runs make one update.
///
/// @param gradients The gradients.
/// @param steps Gets what they were made with.
/// @return UMBO_OK.
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

/// Whether replicas contribute rows of a variable.
///
/// @param gradients The gradients.
/// @param index The number of the variable among those of the gradients.
/// @param row_sparse Gets 1 or 0.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
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

/// The element type in which replicas write the gradients of a variable: that of the options, or the
/// variable's.
///
/// @param gradients The gradients.
/// @param index The number of the variable among those of the gradients.
/// @param dtype Gets the type.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE if there is no such variable.
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

fn variable_index(index: i64) -> Result<usize> {
    usize::try_from(index)
        .map_err(|_| Error::out_of_range("index", format!("{index}; indices are 0 or more")))
}

fn row_count(rows: i64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::invalid("rows", format!("{rows}; must be 0 or more")))
}

/// Submits what this replica wrote into its buffers in this step, once, weighted by the examples of
/// its part of the run's arguments. A replica without examples submits too, and what it wrote is not
/// read.
///
/// FAILED_PRECONDITION: the run's arguments contain no per-replica value that tells how many
/// examples there are (umbo_gradients_submit_weighted() says the weight), submitted already, or
/// as for umbo_gradients_view(). OUT_OF_RANGE: an index among the rows that this replica added is no
/// row of its variable; the replica has not submitted then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_submit(
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
) -> umbo_status {
    boundary("umbo_gradients_submit", || submit(ctx, gradients, None))
}

/// As umbo_gradients_submit(), with a weight of the caller's, which is finite and 0 or more. With
/// weight 0 nothing of what this replica wrote is read.
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

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
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

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_gradients_release(gradients: *const umbo_gradients) {
    quietly("umbo_gradients_release", || handle::release(gradients, "gradients"));
}
