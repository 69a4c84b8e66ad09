//! The rows of a batch that a replica of a trainer has, and the function of the program that learns
//! from them.

use std::mem::offset_of;

use crate::machinery::prelude::*;
use crate::nouns::replica_context::call_in_context;
use umbo_core::optimizer::GradientMode;
use umbo_core::strategy::variables::{current_copy, refreshed_copy};
use umbo_core::training::trainer::call::{gradient_row, usual_gradient_row, weigh};
use umbo_core::training::trainer::row_table::{RowPlace, RowPlaces};
use umbo_core::training::trainer::{Learn, RowsOfReplica};

/// A row of an array that a call has asked for: a place in a umbo_row_places.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_row_place {
    /// The number of the row.
    pub row: i64,
    /// The memory to which its gradient is added. NULL: no row is here.
    pub gradient: *mut f32,
}

/// The rows of an array that a call has asked for, in which umbo_rows_gradient_row() finds one:
/// from the place `row * multiplier >> shift` on, the place 0 following the last, before the first
/// one without a row. The layout stays the same in later versions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_row_places {
    /// `call` of the umbo_rows that they are for, if there are places.
    pub call: u64,
    /// The places, one of which at least has no row.
    pub places: *const umbo_row_place,
    /// See above.
    pub multiplier: u64,
    /// See above.
    pub shift: u64,
    /// How many places there are, less one.
    pub mask: u64,
}

// They are the core's.
const _: () = assert!(size_of::<umbo_row_place>() == size_of::<RowPlace>());
const _: () = assert!(offset_of!(umbo_row_place, gradient) == offset_of!(RowPlace, gradient));
const _: () = assert!(size_of::<umbo_row_places>() == size_of::<RowPlaces>());
const _: () = assert!(offset_of!(umbo_row_places, places) == offset_of!(RowPlaces, places));
const _: () = assert!(offset_of!(umbo_row_places, multiplier) == offset_of!(RowPlaces, multiplier));
const _: () = assert!(offset_of!(umbo_row_places, shift) == offset_of!(RowPlaces, shift));
const _: () = assert!(offset_of!(umbo_row_places, mask) == offset_of!(RowPlaces, mask));

/// The rows of a batch that a replica has. Valid for the call that gets it, on its thread. Later
/// versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_rows {
    /// sizeof(umbo_rows), as the library knows it.
    pub struct_size: usize,
    /// How many rows there are, 1 or more.
    pub count: i64,
    /// Their numbers.
    pub indices: *const i64,
    /// 1: gradients are wanted. 0: in umbo_trainer_evaluate().
    pub training: i32,
    /// The local id of the replica: 0 to `replica_count` of umbo_trainer_info less one, which with
    /// `replicas_in_sync` is more than `replicas`. No two calls have the same at a time.
    pub replica_id: i32,
    /// How many threads of its own the function may use: the replica's share of the processors, for
    /// an engine or a loop with OpenMP. Always 1 with `replicas_in_sync`, since a sum by another
    /// number of threads is rounded otherwise.
    pub thread_count: i64,
    /// The replica's context, for all functions that take one: umbo_replica_context_random_key()
    /// for random numbers that do not depend on the number of replicas,
    /// umbo_replica_context_add_metric(), umbo_replica_context_scratch().
    pub context: *mut umbo_replica_context,
    /// How many arrays the trainer has.
    pub array_count: i64,
    /// The arrays, for reading: the `weights` of the parameters themselves, so that code that reads
    /// the program's arrays by their own names reads the same. NULL for those of bfloat16
    /// (`half_weights`).
    pub weights: *const *const f32,
    /// For each array where this replica adds its gradient: as long as the array, and zero at
    /// first. NULL for arrays with a `row_length` (umbo_rows_gradient_row()) or whose gradients
    /// have 16 bits (`half_gradients`), and for all if `training` is 0.
    pub gradients: *const *mut f32,
    /// The number of this call, for the library.
    pub call: u64,
    /// For each array the rows that this call has asked for, which umbo_rows_gradient_row() reads.
    /// NULL if `training` is 0.
    pub places: *const umbo_row_places,
    /// In place of `gradients`, if the `gradient_dtype` of the trainer is UMBO_DTYPE_FLOAT16 or
    /// UMBO_DTYPE_BFLOAT16: numbers of that type. NULL for arrays whose gradients are float32, and
    /// instead of this if all are.
    pub half_gradients: *const *mut c_void,
    /// The arrays that the parameters have as `half_weights`, bfloat16, for reading. NULL for the
    /// others, and instead of this if there are none.
    pub half_weights: *const *const u16,
}

/// Learns from the rows of a batch that a replica has: what the body of a loop over rows does.
/// Called on all replicas at the same time, each with rows of its own.
///
/// @param[in] rows The rows.
/// @param[in] weights The first array, for reading: `rows->weights[0]`.
/// @param[out] gradient Where the gradients of the rows are added: `rows->gradients[0]`. NULL in
///   umbo_trainer_evaluate(), if the first array has a `row_length`, and if gradients have 16 bits.
/// @param[in] user_data The same on all replicas: nothing there is written that they share.
/// @param[out] loss The sum of the losses of the rows; 0 at first. With `loss_reduction`
///   UMBO_LOSS_MEAN their mean, as the gradients are then that of the mean.
/// @return Any status but UMBO_OK fails the step, which then changes nothing.
pub type umbo_learn_fn = Option<
    unsafe extern "C-unwind" fn(
        rows: *const umbo_rows,
        weights: *const f32,
        gradient: *mut f32,
        user_data: *mut c_void,
        loss: *mut f64,
    ) -> umbo_status,
>;

/// A [`umbo_learn_fn`] that is there.
pub(crate) type LearnFn = unsafe extern "C-unwind" fn(
    *const umbo_rows,
    *const f32,
    *mut f32,
    *mut c_void,
    *mut f64,
) -> umbo_status;

/// For umbo_rows_gradient_row() alone, which calls it for a row that is new in this call, and for
/// an error.
#[c_call(usually(is_usual_row), out(gradient), index(array))]
pub fn umbo_rows_new_gradient_row(
    rows: *const umbo_rows,
    array: i64,
    row: i64,
    gradient: *mut *mut f32,
) {
    // SAFETY: the caller gives what its function got.
    let call = unsafe { call_of(rows) }?;
    gradient.write(gradient_row(call, array, row)?);
}

/// # Safety
/// As for [`umbo_rows_new_gradient_row`].
unsafe fn is_usual_row(
    rows: *const umbo_rows,
    array: i64,
    row: i64,
    gradient: *mut *mut f32,
) -> bool {
    if rows.is_null() || gradient.is_null() {
        return false;
    }
    // SAFETY: the caller gives what its function got, and a place for an address.
    unsafe {
        let found = usual_gradient_row((*rows).call, array, row);
        if let Some(found) = found {
            gradient.write(found);
        }
        found.is_some()
    }
}

/// Makes the rows of this call count by a weight other than their number: the words of sentences,
/// the steps of games. The update divides by the weights of all replicas, and so does the loss.
///
/// @param[in] rows What the function that calls got.
/// @param[in] weight Finite and 0 or more. With 0 what the call has added is left out; if all
///   weights of a step are 0, it changes no array, and its loss is NaN.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the weight is negative or not finite.
///   UMBO_STATUS_FAILED_PRECONDITION: not in the call that got `rows`, or on another thread.
#[c_call()]
pub fn umbo_rows_weigh(rows: *const umbo_rows, weight: f64) {
    // SAFETY: the caller gives what its function got.
    weigh(unsafe { call_of(rows) }?, weight)
}

/// The number of the call that got these rows.
///
/// # Safety
/// `rows` is NULL or leads to what a call got, or to a copy of it.
unsafe fn call_of(rows: *const umbo_rows) -> Result<u64> {
    check(rows, "rows", "the rows of the call are expected")?;
    // SAFETY: the caller's promise.
    Ok(unsafe { (*rows).call })
}

/// A list of pointers, in place if there are few.
struct Pointers<P: Copy, const FEW: usize> {
    few: [P; FEW],
    many: Vec<P>,
    count: usize,
}

impl<P: Copy, const FEW: usize> Pointers<P, FEW> {
    /// A list of `count` times `none`.
    fn new(count: usize, none: P) -> Pointers<P, FEW> {
        let many = if count > FEW {
            vec![none; count]
        } else {
            Vec::new()
        };
        Pointers {
            few: [none; FEW],
            many,
            count,
        }
    }

    fn as_mut(&mut self) -> &mut [P] {
        match self.count > FEW {
            true => &mut self.many,
            false => &mut self.few[..self.count],
        }
    }
}

/// The program's function, with its user data, as the core calls it and keeps it.
pub(crate) fn owned_learn(function: LearnFn, user_data: *mut c_void) -> Arc<Learn> {
    Arc::new(learn_function(function, user_data))
}

fn learn_function(
    function: LearnFn,
    user_data: *mut c_void,
) -> impl Fn(&RowsOfReplica<'_>) -> Result<f64> + Send + Sync {
    // The caller keeps the user data, also for calls that end later.
    let user_data = UserData::kept(user_data);
    move |rows: &RowsOfReplica<'_>| {
        let context = rows.context;
        let count = rows.variables.len();
        let mut weights = Pointers::<*const f32, 8>::new(count, ptr::null());
        let mut gradients = Pointers::<*mut f32, 8>::new(count, ptr::null_mut());
        let of_half = |is_any: bool| if is_any { count } else { 0 };
        let has_half_gradients = rows
            .gradients
            .is_some_and(|all| (0..count).any(|index| is_half(all.dtype(index))));
        let half_count = of_half(has_half_gradients);
        let mut halves = Pointers::<*mut c_void, 8>::new(half_count, ptr::null_mut());
        let has_half_weights = rows.variables.iter().any(|one| is_half(one.dtype()));
        let half_count = of_half(has_half_weights);
        let mut half_weights = Pointers::<*const u16, 8>::new(half_count, ptr::null());
        for (index, variable) in rows.variables.iter().enumerate() {
            let address = weights_of(context, variable)?;
            match is_half(variable.dtype()) {
                true => half_weights.as_mut()[index] = address.cast(),
                false => weights.as_mut()[index] = address.cast(),
            }
            if let Some(all) = rows.gradients.filter(|all| !all.is_row_sparse(index)) {
                let tensor = all.view_in(context, index, GradientMode::Add)?;
                match is_half(all.dtype(index)) {
                    true => halves.as_mut()[index] = tensor.address().cast(),
                    false => gradients.as_mut()[index] = tensor.address().cast(),
                }
            }
        }
        let (weights, gradients) = (weights.as_mut(), gradients.as_mut());
        let mut loss = 0.0;
        let mut shown = umbo_rows {
            struct_size: size_of::<umbo_rows>(),
            count: rows.indices.shape()[0] as i64,
            indices: rows.indices.address().cast(),
            training: rows.gradients.is_some().into(),
            replica_id: context.replica() as i32,
            thread_count: context.strategy().computing_threads(context.replica()) as i64,
            context: ptr::null_mut(),
            array_count: count as i64,
            weights: weights.as_ptr(),
            gradients: gradients.as_ptr(),
            call: rows.call,
            places: rows.places.cast(),
            half_gradients: match has_half_gradients {
                true => halves.as_mut().as_ptr(),
                false => ptr::null(),
            },
            half_weights: match has_half_weights {
                true => half_weights.as_mut().as_ptr(),
                false => ptr::null(),
            },
        };
        let result = call_in_context(context, |ctx| {
            shown.context = ctx;
            let (shown, loss) = (&raw const shown, &raw mut loss);
            // SAFETY: the caller gives a function of this type and its user data; the rest lives
            // until the function returns.
            unsafe { function(shown, weights[0], gradients[0], user_data.pointer(), loss) }
        });
        result.map(|()| loss)
    }
}

/// The address of an array's weights for a replica.
fn weights_of(context: &ReplicaContext, variable: &Variable) -> Result<*const u8> {
    let dtype = variable.dtype();
    // SAFETY: the program reads the weights until its function returns, as the header says.
    let ready = unsafe { current_copy(Some(context), variable, dtype) }?;
    let tensor = match ready {
        Some(ready) => ready,
        // SAFETY: as above.
        None => unsafe { refreshed_copy(Some(context), variable, dtype) }?,
    };
    Ok(tensor.address().cast_const().cast())
}

/// Whether numbers have 16 bits. Those of a trainer have 16 or 32.
fn is_half(dtype: DType) -> bool {
    dtype != DType::Float32
}
