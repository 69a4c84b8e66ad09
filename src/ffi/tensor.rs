//! Tensors.

use super::prelude::*;
use crate::collectives::{copy_into, copy_to};
use crate::device::DeviceId;
use crate::strategy::context::with_current_replica;
use crate::tensor::storage::Storage;
use crate::tensor::{DType, Layout, MAX_RANK, Shape, Tensor, TensorMut};

/// Makes a contiguous tensor of zeros.
///
/// @param[in] dtype The type of the elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
/// @param[in] device The name of the device that is to hold the elements. `device` may be NULL: in
///   a replica's callback the replica's device, elsewhere CPU:0.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `dtype` is none of the types, `rank` or a size is out of its
///   limits, the tensor would be larger than memory can address, or `device` is not a device name.
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_UNAVAILABLE: the device is a GPU that cannot be used.
#[c_call(out(tensor), shape(shape, rank), device(device), dtype(dtype))]
pub fn umbo_tensor_create_zeros(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) {
    let made = match guarded(dtype, shape, device)? {
        Some(made) => {
            // SAFETY: nobody else has the fresh tensor.
            unsafe { made.assume_exclusive() }.fill_zeros()?;
            made
        }
        None => Tensor::zeros(dtype, shape, device)?,
    };
    tensor.write(make(made)?);
}

/// Makes a contiguous tensor without setting its elements.
///
/// @param[in] dtype The type of the elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
/// @param[in] device The name of the device that is to hold the elements. `device` may be NULL: in
///   a replica's callback the replica's device, elsewhere CPU:0.
/// @return UMBO_OK, or a status that umbo_tensor_create_zeros() can return, for the same causes.
///
/// The elements are whatever the memory held before.
#[c_call(out(tensor), shape(shape, rank), device(device), dtype(dtype))]
pub fn umbo_tensor_create_uninitialized(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) {
    let made = match guarded(dtype, shape, device)? {
        Some(made) => made,
        None => Tensor::uninitialized(dtype, shape, device)?,
    };
    tensor.write(make(made)?);
}

/// A tensor with a fence around it and anything in it, if this is a callback of a strict strategy.
fn guarded(dtype: DType, shape: Shape, device: DeviceId) -> Result<Option<Tensor>> {
    with_current_replica(|own| match own {
        Some(context) => context.guarded_tensor(dtype, shape, device),
        None => Ok(None),
    })
}

/// The same tensor, or one with a fence around it and the same elements.
fn guarded_as(made: Tensor) -> Result<Tensor> {
    let Some(guarded) = guarded(made.dtype(), made.shape(), made.device())? else {
        return Ok(made);
    };
    // SAFETY: nobody else has the fresh tensor.
    unsafe { guarded.assume_exclusive() }.copy_from(&made)?;
    Ok(guarded)
}

/// Makes a contiguous tensor with a copy of elements in host memory.
///
/// @param[in] dtype The type of the elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
/// @param[in] data As many elements as `shape` has, in row-major order, in host memory. The program
///   keeps them. `data` may be NULL if there are none.
/// @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a
///   replica's callback the replica's device, elsewhere CPU:0.
/// @return UMBO_OK, or a status that umbo_tensor_create_zeros() can return, for the same causes.
#[c_call(out(tensor), shape(shape, rank), device(device), dtype(dtype))]
pub fn umbo_tensor_from_data(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    data: *const c_void,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) {
    // SAFETY: the caller promises as many elements as the shape has.
    tensor.write(make(unsafe { tensor_of_data(dtype, shape, data, device) }?)?);
}

/// A tensor with a copy of the caller's elements.
///
/// # Safety
/// `data` is NULL or leads to as many elements as the shape has.
pub(crate) unsafe fn tensor_of_data(
    dtype: DType,
    shape: Shape,
    data: *const c_void,
    device: DeviceId,
) -> Result<Tensor> {
    // SAFETY: the caller promises as many elements as the shape has.
    let data = unsafe { array(data.cast::<u8>(), (shape.bytes(dtype)? as i64, "shape"), "data") }?;
    guarded_as(Tensor::from_bytes(dtype, shape, data, device)?)
}

/// Makes a tensor over memory of the program, without a copy.
///
/// @param[in] dtype The type of the elements.
/// @param[in] rank The number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The size of each dimension, 0 or more. `shape` may be NULL if `rank` is 0.
/// @param[in] strides For each dimension, how many elements lie between neighbours along it, 0 or
///   more. `strides` may be NULL: the elements are in row-major order.
/// @param[in] data The first element, at an address that is a multiple of the size of an element.
///   `data` may be NULL if there are no elements.
/// @param[in] device The name of the device that has the memory. `device` may be NULL: in a
///   replica's callback the replica's device, elsewhere CPU:0.
/// @param[in] user_data What `destroy` is given.
/// @param[in] destroy Releases the memory, exactly once, on any thread, also if this function
///   fails. NULL: nothing to release.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: for the causes that umbo_tensor_create_zeros() has; also if a
///   stride is negative or reaches further than memory can address, or the address of `data` is not
///   a multiple of an element's size.
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
///
/// The memory must stay until the library calls `destroy`, which it does when the last tensor over
/// the memory is gone. All elements must be initialised.
#[c_call(
    gives(user_data, destroy),
    out(tensor),
    shape(shape, rank),
    device(device),
    dtype(dtype),
    optional_array(strides, rank)
)]
pub fn umbo_tensor_from_memory(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    strides: *const i64,
    data: *mut c_void,
    device: *const c_char,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    tensor: *mut *mut umbo_tensor,
) {
    let layout = match strides {
        Some(strides) => {
            let strides = padded(strides.iter().copied()).map(|stride| stride as isize);
            Layout::strided(shape, &strides[..shape.rank()])?
        }
        None => Layout::row_major(shape),
    };
    let bytes = layout
        .extent()
        .checked_mul(dtype.size())
        .ok_or_else(|| Error::invalid("strides", "they reach further than memory can address"))?;
    if bytes > 0 {
        check(data.cast_const().cast::<u8>(), "data", "memory with the elements is expected")?;
    }
    // SAFETY: the caller promises that the elements which shape and strides reach are there
    // and initialised until `destroy` runs, which is when `user_data` is dropped.
    let storage =
        unsafe { Storage::foreign(data.cast(), bytes, device, false, Box::new(user_data)) };
    tensor.write(make(Tensor::from_storage(Arc::new(storage), dtype, layout, 0)?)?);
}

/// Gives a view of the elements, for writing too where they may be written.
///
/// @param[out] view Where the elements are. It is valid as long as the tensor's memory: until the
///   last tensor over that memory is released.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `view` is a null
///   pointer.
///
/// Elements that came from a dataset's arrays, from a cache or from a file are of all who iterate, and
/// have a view for reading, without a pointer to write through (UMBO_VIEW_READ_ONLY).
#[c_call(out(view), borrow(tensor))]
pub fn umbo_tensor_view(tensor: *const umbo_tensor, view: *mut umbo_view) {
    view.write(view_of(tensor));
}

/// Makes a tensor of some positions along one axis; shares memory.
///
/// @param[in] axis The axis; a negative one counts from the last, which is -1.
/// @param[in] start The first position.
/// @param[in] stop The position before which the slice ends.
/// @param[in] step Every `step`-th position is taken, 1 or more.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no such axis, or 0 <= start <= stop <= size does not hold.
/// - UMBO_STATUS_INVALID_ARGUMENT: `step` is less than 1, `tensor` is not a valid handle, or
///   `slice` is a null pointer.
#[c_call(out(slice), borrow(tensor))]
pub fn umbo_tensor_slice(
    tensor: *const umbo_tensor,
    axis: i32,
    start: i64,
    stop: i64,
    step: i64,
    slice: *mut *mut umbo_tensor,
) {
    let position = |value: i64| {
        let problem = || format!("{value}; positions are 0 or more");
        usize::try_from(value).map_err(|_| Error::out_of_range("start, stop", problem()))
    };
    let (start, stop) = (position(start)?, position(stop)?);
    let step = usize::try_from(step)
        .map_err(|_| Error::invalid("step", format!("{step}; steps are 1 or more")))?;
    let axis = tensor.shape().axis(axis.into())?;
    slice.write(make(tensor.slice(axis, start, stop, step)?)?);
}

/// Makes a tensor of the same elements in another shape; shares memory.
///
/// @param[in] tensor The tensor. Its elements must lie in row-major order without gaps.
/// @param[in] rank The new number of dimensions, 0 to UMBO_MAX_RANK.
/// @param[in] shape The new size of each dimension. `shape` may be NULL if `rank` is 0.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `shape` has another number of elements, or the tensor's
///   strides are not row-major (copy it with umbo_tensor_copy() first), `rank` or a size is out of its
///   limits, `tensor` is not a valid handle, or `reshaped` is a null pointer.
///
/// The elements keep their row-major order.
#[c_call(out(reshaped), shape(shape, rank), borrow(tensor))]
pub fn umbo_tensor_reshape(
    tensor: *const umbo_tensor,
    rank: i32,
    shape: *const i64,
    reshaped: *mut *mut umbo_tensor,
) {
    reshaped.write(make(tensor.reshape(shape)?)?);
}

/// Makes a tensor with the axes in another order; shares memory.
///
/// @param[in] axes As many numbers as the tensor has axes: axes[i] is the old number of the new
///   axis i. `axes` may be NULL: the order is reversed.
/// @param[out] transposed The new tensor over the same memory. Release it with
///   umbo_tensor_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no axis of such a number.
/// - UMBO_STATUS_INVALID_ARGUMENT: an axis appears twice, `tensor` is not a valid handle, or
///   `transposed` is a null pointer.
#[c_call(out(transposed), get(tensor))]
pub fn umbo_tensor_transpose(
    tensor: *const umbo_tensor,
    axes: *const i32,
    transposed: *mut *mut umbo_tensor,
) {
    let rank = tensor.shape().rank();
    let mut order = [0usize; MAX_RANK];
    if axes.is_null() {
        order[..rank].iter_mut().enumerate().for_each(|(to, axis)| *axis = rank - 1 - to);
    } else {
        // SAFETY: not NULL, so the caller promises as many numbers as there are axes.
        let axes = unsafe { array(axes, (rank as i64, "axes"), "axes") }?;
        for (to, &axis) in order.iter_mut().zip(axes) {
            *to = tensor.shape().axis(axis.into())?;
        }
    }
    transposed.write(make(tensor.transpose(&order[..rank])?)?);
}

/// Makes a contiguous copy that shares nothing with the tensor.
///
/// @param[in] device The name of the device that is to hold the copy. `device` may be NULL: in a
///   replica's callback the replica's device, elsewhere CPU:0.
/// @param[out] copy The new tensor, in row-major order. Release it with umbo_tensor_release().
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, `device` is not a device name,
///   or `copy` is a null pointer.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
#[c_call(out(copy), device(device), get(tensor))]
pub fn umbo_tensor_copy(
    tensor: *const umbo_tensor,
    device: *const c_char,
    copy: *mut *mut umbo_tensor,
) {
    copy.write(make(guarded_as(copy_to(&tensor, device)?)?)?);
}

/// Copies the elements to host memory, in row-major order.
///
/// @param[out] destination Where the elements are written, at an address that is a multiple of the
///   size of an element. It belongs to the program.
/// @param[in] bytes The size of `destination` in bytes, which must be that of all elements.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `bytes` is not the size of all elements, the address of
///   `destination` is not a multiple of an element's size, or `tensor` is not a valid handle.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that is needed for it cannot be used, or is lost.
#[c_call(get(tensor))]
pub fn umbo_tensor_copy_to_host(
    tensor: *const umbo_tensor,
    destination: *mut c_void,
    bytes: usize,
) {
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
    unsafe {
        write_to_host(dtype, shape, destination, bytes, "destination", |to| copy_into(&tensor, to))
    }
}

/// Refuses a size in bytes that is not that of all elements.
pub(crate) fn check_bytes(dtype: DType, shape: Shape, bytes: usize) -> Result<()> {
    let expected = shape.bytes(dtype)?;
    if bytes == expected {
        return Ok(());
    }
    let mut problem = format!("{bytes}; shape {shape} of {dtype} has {expected}");
    // Elements of another type are the likely mistake.
    let elements = shape.elements();
    let fits = |other: &&DType| elements.checked_mul(other.size()) == Some(bytes);
    let others: Vec<_> = DType::ALL.iter().filter(fits).map(DType::to_string).collect();
    if elements > 0 && !others.is_empty() {
        problem += &format!("; {bytes} would be as many elements of {}", others.join(" or "));
    }
    Err(Error::invalid("bytes", problem))
}

/// Has `write` fill the caller's memory, which it sees as a contiguous tensor of this dtype and shape.
///
/// # Safety
/// `destination` is NULL or leads to `bytes` bytes that nobody else uses during the call.
pub(crate) unsafe fn write_to_host(
    dtype: DType,
    shape: Shape,
    destination: *mut c_void,
    bytes: usize,
    argument: &'static str,
    write: impl FnOnce(&mut TensorMut) -> Result<()>,
) -> Result<()> {
    if bytes > 0 {
        check(destination.cast_const().cast::<u8>(), argument, "memory is expected")?;
    }
    check_bytes(dtype, shape, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    if !destination.addr().is_multiple_of(dtype.size()) {
        let problem = format!("{destination:p} is not a multiple of {}", dtype.size());
        return Err(Error::invalid(argument, problem));
    }
    // SAFETY: the caller promises the bytes for this call; the storage does not outlive it, and its
    // elements are written before anything reads them.
    let storage =
        unsafe { Storage::foreign(destination.cast(), bytes, DeviceId::HOST, false, Box::new(())) };
    let target = Tensor::from_storage(Arc::new(storage), dtype, Layout::row_major(shape), 0)?;
    // SAFETY: the memory is the caller's, who has it written by this call.
    write(&mut unsafe { target.assume_exclusive() })
}

/// Gives the canonical name of the device that holds the elements.
///
/// @param[out] name A text such as "/job:localhost/replica:0/task:0/device:CPU:0", which lives as
///   long as the process.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `tensor` is not a valid handle, or `name` is a null
///   pointer.
#[c_call(out(name), borrow(tensor))]
pub fn umbo_tensor_device(tensor: *const umbo_tensor, name: *mut *const c_char) {
    name.write(device_name(tensor.device()));
}
