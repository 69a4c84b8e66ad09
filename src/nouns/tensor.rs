//! Tensors.

use crate::machinery::prelude::*;
use umbo_core::collectives::{copy_into, copy_to};
use umbo_core::device::DeviceId;
use umbo_core::strategy::context::with_current_replica;
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{DType, Layout, MAX_RANK, Shape, Tensor, TensorMut};

/// Makes a contiguous tensor of zeros.
///
/// @param[in] device The device that holds the elements; `device` may be NULL.
#[c_call(out(tensor), shape(shape, ndim), device(device), dtype(dtype))]
pub fn umbo_tensor_create_zeros(
    dtype: umbo_dtype,
    ndim: i32,
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

/// Makes a contiguous tensor without initialising its elements.
///
/// @param[in] device The device that holds the elements; `device` may be NULL.
#[c_call(out(tensor), shape(shape, ndim), device(device), dtype(dtype))]
pub fn umbo_tensor_create_uninitialized(
    dtype: umbo_dtype,
    ndim: i32,
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
    with_current_replica(|current| match current {
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
/// @param[in] data The elements, in row-major order. `data` may be NULL if there are none.
/// @param[in] device The device that holds the copy; `device` may be NULL.
#[c_call(out(tensor), shape(shape, ndim), device(device), dtype(dtype))]
pub fn umbo_tensor_from_data(
    dtype: umbo_dtype,
    ndim: i32,
    shape: *const i64,
    data: *const c_void,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) {
    // SAFETY: the caller promises as many elements as the shape has.
    tensor.write(make(unsafe {
        tensor_of_data(dtype, shape, data, device)
    }?)?);
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
    let data = unsafe {
        array(
            data.cast::<u8>(),
            Count::new(shape.bytes(dtype)? as i64, "shape"),
            "data",
        )
    }?;
    guarded_as(Tensor::from_bytes(dtype, shape, data, device)?)
}

/// Makes a tensor over memory of the program, without a copy.
///
/// @param[in] strides How many elements lie between neighbours along each dimension, 0 or more.
///   `strides` may be NULL: row-major order.
/// @param[in] data The first element. `data` may be NULL if there are none.
/// @param[in] device The device that has the memory; `device` may be NULL.
/// @param[in] destroy Releases the memory, when the last tensor over it is gone. NULL: nothing to
///   release.
///
/// All elements must be initialised. An address that is not a multiple of an element's size is
/// UMBO_STATUS_INVALID_ARGUMENT.
#[c_call(
    owned(user_data, destroy),
    out(tensor),
    shape(shape, ndim),
    device(device),
    dtype(dtype),
    optional_array(strides, ndim)
)]
pub fn umbo_tensor_from_memory(
    dtype: umbo_dtype,
    ndim: i32,
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
        .ok_or_else(|| invalid!("strides", "they reach further than memory can address"))?;
    if bytes > 0 {
        check(
            data.cast_const().cast::<u8>(),
            "data",
            "memory with the elements is expected",
        )?;
    }
    // SAFETY: the caller promises that the elements which shape and strides reach are there
    // and initialised until `destroy` runs, which is when `user_data` is dropped.
    let storage =
        unsafe { Storage::foreign(data.cast(), bytes, device, false, Box::new(user_data)) };
    tensor.write(make(Tensor::from_storage(
        Arc::new(storage),
        dtype,
        layout,
        0,
    )?)?);
}

/// Gets a view of the elements, for reading.
#[c_call(out(view), borrow(tensor))]
pub fn umbo_tensor_view(tensor: *const umbo_tensor, view: *mut umbo_view) {
    view.write(view_to_read(tensor));
}

/// Gets a view of the elements, for writing.
///
/// Elements that came from a dataset may be shared between iterators: their views stay read-only.
#[c_call(out(view), borrow(tensor))]
pub fn umbo_tensor_mutable_view(tensor: *mut umbo_tensor, view: *mut umbo_view) {
    view.write(if tensor.is_read_only() {
        view_to_read(tensor)
    } else {
        view_to_write(tensor)
    });
}

/// Makes a tensor of every `step`-th position along one axis, from `start` to before `stop`.
///
/// @param[in] axis The axis; a negative one counts from the end.
/// @param[in] step 1 or more.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such axis, or not 0 <= start <= stop <= size.
///
/// It shares memory with the tensor.
#[c_call(out(slice), index(start), index(stop), natural(step), borrow(tensor))]
pub fn umbo_tensor_slice(
    tensor: *const umbo_tensor,
    axis: i32,
    start: i64,
    stop: i64,
    step: i64,
    slice: *mut *mut umbo_tensor,
) {
    let axis = tensor.shape().axis(axis.into())?;
    slice.write(make(tensor.slice(axis, start, stop, step)?)?);
}

/// Makes a tensor of the same elements in another shape. It shares memory with the tensor.
///
/// @param[in] tensor A contiguous tensor. umbo_tensor_copy() makes one of any other.
/// @param[in] shape The new shape, of as many elements. `shape` may be NULL if `ndim` is 0.
#[c_call(out(reshaped), shape(shape, ndim), borrow(tensor))]
pub fn umbo_tensor_reshape(
    tensor: *const umbo_tensor,
    ndim: i32,
    shape: *const i64,
    reshaped: *mut *mut umbo_tensor,
) {
    reshaped.write(make(tensor.reshape(shape)?)?);
}

/// Makes a tensor with the axes in another order. It shares memory with the tensor.
///
/// @param[in] axes For each new axis the old one. `axes` may be NULL: the order is reversed.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such axis.
#[c_call(out(transposed), get(tensor))]
pub fn umbo_tensor_transpose(
    tensor: *const umbo_tensor,
    axes: *const i32,
    transposed: *mut *mut umbo_tensor,
) {
    let rank = tensor.shape().rank();
    let mut order = [0usize; MAX_RANK];
    if axes.is_null() {
        order[..rank]
            .iter_mut()
            .enumerate()
            .for_each(|(to, axis)| *axis = rank - 1 - to);
    } else {
        // SAFETY: not NULL, so the caller promises as many numbers as there are axes.
        let axes = unsafe { array(axes, Count::new(rank as i64, "axes"), "axes") }?;
        for (to, &axis) in order.iter_mut().zip(axes) {
            *to = tensor.shape().axis(axis.into())?;
        }
    }
    transposed.write(make(tensor.transpose(&order[..rank])?)?);
}

/// Makes a contiguous copy, which shares nothing with the tensor.
///
/// @param[in] device The device that holds the copy; `device` may be NULL.
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
/// @param[out] destination Memory at a multiple of an element's size. `destination` may be NULL if
///   there are no elements.
/// @param[in] bytes The size of `destination`, which must be that of all elements.
#[c_call(get(tensor))]
pub fn umbo_tensor_download(tensor: *const umbo_tensor, destination: *mut c_void, bytes: usize) {
    let dtype = tensor.dtype();
    let shape = tensor.shape();
    // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
    unsafe {
        write_to_host(dtype, shape, destination, bytes, "destination", |to| {
            copy_into(&tensor, to)
        })
    }
}

/// Writes the elements from host memory, in row-major order.
///
/// @param[in] source All elements. `source` may be NULL if there are none.
/// @param[in] bytes The size of `source`, which must be that of all elements.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT also for elements that may only be read; see
///   umbo_tensor_mutable_view().
#[c_call(get(tensor))]
pub fn umbo_tensor_upload(tensor: *mut umbo_tensor, source: *const c_void, bytes: usize) {
    if tensor.is_read_only() {
        return Err(invalid!(
            "tensor",
            "read-only; its elements may be shared, so make a copy by umbo_tensor_copy()"
        ));
    }
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    // SAFETY: the caller promises as many bytes, which nobody writes during the call.
    let from = unsafe { from_host(dtype, shape, DeviceId::HOST, source, bytes, "source") }?;
    // SAFETY: the caller lets nobody else read or write the elements during the call.
    copy_into(&from, &mut unsafe { tensor.assume_exclusive() })
}

/// A tensor on `device` with all elements that lie in the caller's memory.
///
/// # Safety
/// `source` is NULL or leads to `bytes` bytes that nobody writes during the call.
pub(crate) unsafe fn from_host(
    dtype: DType,
    shape: Shape,
    device: DeviceId,
    source: *const c_void,
    bytes: usize,
    argument: &'static str,
) -> Result<Tensor> {
    if bytes > 0 {
        check(source.cast::<u8>(), argument, "the elements are expected")?;
    }
    check_bytes(dtype, shape, bytes)?;
    // SAFETY: the caller's promise.
    let data = unsafe {
        array(
            source.cast::<u8>(),
            Count::new(bytes as i64, "bytes"),
            argument,
        )
    }?;
    Tensor::from_bytes(dtype, shape, data, device)
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
    let others: Vec<_> = DType::ALL
        .iter()
        .filter(fits)
        .map(DType::to_string)
        .collect();
    if elements > 0 && !others.is_empty() {
        problem += &format!(
            "; {bytes} would be as many elements of {}",
            others.join(" or ")
        );
    }
    Err(Error::invalid("bytes", problem))
}

/// Has `write` fill the caller's memory, which it sees as a contiguous tensor of this dtype and
/// shape.
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
        check(
            destination.cast_const().cast::<u8>(),
            argument,
            "memory is expected",
        )?;
    }
    check_bytes(dtype, shape, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    if !destination.addr().is_multiple_of(dtype.size()) {
        return Err(invalid!(
            argument,
            "{destination:p} is not a multiple of {}",
            dtype.size()
        ));
    }
    // SAFETY: the caller promises the bytes for this call; the storage does not outlive it, and its
    // elements are written before anything reads them.
    let storage = unsafe {
        Storage::foreign(
            destination.cast(),
            bytes,
            DeviceId::HOST,
            false,
            Box::new(()),
        )
    };
    let target = Tensor::from_storage(Arc::new(storage), dtype, Layout::row_major(shape), 0)?;
    // SAFETY: the memory is the caller's, who has it written by this call.
    write(&mut unsafe { target.assume_exclusive() })
}
