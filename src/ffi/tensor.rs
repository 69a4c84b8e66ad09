//! Tensors.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::boundary::{array, boundary, check, constant, out, quietly};
use super::callback::{UserData, umbo_destroy_fn};
use super::device::{device_of, tensor_device_from, umbo_device};
use super::handle::{self, borrow, make};
use super::object::umbo_tensor;
use super::status::umbo_status;
use super::text::device_name;
use crate::collectives::{copy_into, copy_to};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::tensor::storage::Storage;
use crate::tensor::{DType, Layout, MAX_RANK, Shape, Tensor};

/// The type of a tensor's elements.
pub type umbo_dtype = i32;

/// No type in particular, where an option may leave it open.
pub const UMBO_DTYPE_NONE: umbo_dtype = 0;
/// IEEE 754 binary16.
pub const UMBO_DTYPE_FLOAT16: umbo_dtype = 1;
/// The upper half of an IEEE 754 binary32.
pub const UMBO_DTYPE_BFLOAT16: umbo_dtype = 2;
/// `float`.
pub const UMBO_DTYPE_FLOAT32: umbo_dtype = 3;
/// `double`.
pub const UMBO_DTYPE_FLOAT64: umbo_dtype = 4;
/// `int8_t`.
pub const UMBO_DTYPE_INT8: umbo_dtype = 5;
/// `int16_t`.
pub const UMBO_DTYPE_INT16: umbo_dtype = 6;
/// `int32_t`.
pub const UMBO_DTYPE_INT32: umbo_dtype = 7;
/// `int64_t`.
pub const UMBO_DTYPE_INT64: umbo_dtype = 8;
/// `uint8_t`.
pub const UMBO_DTYPE_UINT8: umbo_dtype = 9;
/// `uint16_t`.
pub const UMBO_DTYPE_UINT16: umbo_dtype = 10;
/// `uint32_t`.
pub const UMBO_DTYPE_UINT32: umbo_dtype = 11;
/// `uint64_t`.
pub const UMBO_DTYPE_UINT64: umbo_dtype = 12;
/// One byte, 0 or 1.
pub const UMBO_DTYPE_BOOL: umbo_dtype = 13;

/// The largest rank of a tensor.
pub const UMBO_MAX_RANK: i32 = 8;

const _: () = assert!(UMBO_MAX_RANK as usize == MAX_RANK);

/// What a view says of its memory: a sum of the UMBO_VIEW_ constants.
pub type umbo_view_flags = i32;

/// The elements may only be read: `mutable_data` is NULL.
pub const UMBO_VIEW_READ_ONLY: umbo_view_flags = 1;
/// The elements lie one after the other, in row-major order: `strides` need not be looked at.
pub const UMBO_VIEW_CONTIGUOUS: umbo_view_flags = 2;

/// Where elements lie: all that a loop over them needs, without a handle. Valid as long as what
/// it was taken from. Its size stays the same in later versions, which may give `room` a meaning.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_view {
    /// The first element, for reading.
    pub data: *const c_void,
    /// The first element, for writing; NULL if the elements may only be read.
    pub mutable_data: *mut c_void,
    /// The type of the elements.
    pub dtype: umbo_dtype,
    /// How many dimensions there are, 0 to 8.
    pub rank: i32,
    /// Where the memory is.
    pub device: umbo_device,
    /// UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS, as far as they hold.
    pub flags: umbo_view_flags,
    /// The size of an element in bytes.
    pub element_bytes: i32,
    /// The sizes of the dimensions, 0 past `rank`.
    pub shape: [i64; 8],
    /// The distance between neighbours along each dimension, in elements, 0 past `rank`.
    pub strides: [i64; 8],
    /// Zero.
    pub room: [u64; 4],
}

/// A view through which elements can be written.
pub(crate) fn view_to_write(tensor: &Tensor) -> umbo_view {
    let view = view_to_read(tensor);
    umbo_view {
        mutable_data: tensor.data().cast(),
        flags: view.flags & !UMBO_VIEW_READ_ONLY,
        ..view
    }
}

/// A view through which elements can only be read.
pub(crate) fn view_to_read(tensor: &Tensor) -> umbo_view {
    let layout = tensor.layout();
    let contiguous = if layout.is_contiguous() { UMBO_VIEW_CONTIGUOUS } else { 0 };
    let mut view = umbo_view {
        data: tensor.data().cast(),
        mutable_data: std::ptr::null_mut(),
        dtype: tensor.dtype() as i32,
        rank: layout.shape.rank() as i32,
        device: device_of(tensor.device()),
        flags: UMBO_VIEW_READ_ONLY | contiguous,
        element_bytes: tensor.dtype().size() as i32,
        shape: [0; 8],
        strides: [0; 8],
        room: [0; 4],
    };
    for (to, &size) in view.shape.iter_mut().zip(layout.shape.iter()) {
        *to = size as i64;
    }
    for (to, &stride) in view.strides.iter_mut().zip(layout.strides()) {
        *to = stride as i64;
    }
    view
}

pub(crate) fn dtype_from(code: umbo_dtype) -> Result<DType> {
    constant(
        code,
        DType::from_code(code),
        "dtype",
        "UMBO_DTYPE_FLOAT16 (1) to UMBO_DTYPE_BOOL (13)",
    )
}

/// A shape argument.
///
/// # Safety
/// `sizes` is NULL or leads to `rank` numbers.
pub(crate) unsafe fn shape_from(
    rank: i32,
    sizes: *const i64,
    argument: &'static str,
) -> Result<Shape> {
    if !(0..=UMBO_MAX_RANK).contains(&rank) {
        return Err(Error::invalid("rank", format!("{rank}; valid are 0 to {UMBO_MAX_RANK}")));
    }
    // SAFETY: the caller's promise is the same.
    let sizes = unsafe { array(sizes, rank, argument) }?;
    let mut checked = [0usize; MAX_RANK];
    for (axis, (to, &size)) in checked.iter_mut().zip(sizes).enumerate() {
        *to = usize::try_from(size).map_err(|_| {
            Error::invalid(argument, format!("dimension {axis} is {size}; sizes are 0 or more"))
        })?;
    }
    Shape::new(&checked[..sizes.len()])
}

/// A new tensor of zeros, contiguous, on `device` (NULL: in a replica's callback its device, else CPU:0).
///
/// `shape` has `rank` sizes and may be NULL if `rank` is 0. Release the tensor with
/// umbo_tensor_release(). RESOURCE_EXHAUSTED if the memory cannot be had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_create_zeros(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_create_zeros", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (tensor, shape, device) = unsafe {
            (out(tensor, "tensor")?, shape_from(rank, shape, "shape")?, tensor_device_from(device)?)
        };
        tensor.write(make(Tensor::zeros(dtype_from(dtype)?, shape, device)?)?);
        Ok(())
    })
}

/// A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) whose elements are whatever was in memory; for the rest
/// as umbo_tensor_create_zeros().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_create_uninitialized(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_create_uninitialized", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (tensor, shape, device) = unsafe {
            (out(tensor, "tensor")?, shape_from(rank, shape, "shape")?, tensor_device_from(device)?)
        };
        tensor.write(make(Tensor::uninitialized(dtype_from(dtype)?, shape, device)?)?);
        Ok(())
    })
}

/// A new tensor on `device` (NULL: in a replica's callback its device, else CPU:0) with a copy of `data`: host memory with as many elements
/// as `shape` has, in row-major order. `data` may be NULL if there are none. For the rest as
/// umbo_tensor_create_zeros().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_from_data(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    data: *const c_void,
    device: *const c_char,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_from_data", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (tensor, shape, device) = unsafe {
            (out(tensor, "tensor")?, shape_from(rank, shape, "shape")?, tensor_device_from(device)?)
        };
        let dtype = dtype_from(dtype)?;
        // SAFETY: the caller promises as many elements as the shape has.
        let data = unsafe { array(data.cast::<u8>(), shape.bytes(dtype)? as i64, "data") }?;
        tensor.write(make(Tensor::from_bytes(dtype, shape, data, device)?)?);
        Ok(())
    })
}

/// A new tensor over memory of the caller's, which must stay there until `destroy` (or NULL) is
/// called with `user_data`: when the last tensor over it is gone. `destroy` runs exactly once, on
/// any thread, also if this function fails.
///
/// `strides` has `rank` distances in elements, none negative; NULL means row-major. `data` must be
/// a multiple of the element's size, and may be NULL if there are no elements. Elements must be
/// initialised. `device` tells where the memory is (NULL: in a replica's callback its device, else CPU:0).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_from_memory(
    dtype: umbo_dtype,
    rank: i32,
    shape: *const i64,
    strides: *const i64,
    data: *mut c_void,
    device: *const c_char,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    // SAFETY: the caller gives the user data and its function away.
    let owner = unsafe { UserData::new(user_data, destroy) };
    boundary("umbo_tensor_from_memory", move || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (tensor, shape, device) = unsafe {
            (out(tensor, "tensor")?, shape_from(rank, shape, "shape")?, tensor_device_from(device)?)
        };
        let dtype = dtype_from(dtype)?;
        let layout = if strides.is_null() {
            Layout::row_major(shape)
        } else {
            // SAFETY: not NULL, so the caller promises `rank` strides.
            let strides = unsafe { array(strides, rank, "strides") }?;
            let mut checked = [0isize; MAX_RANK];
            for (to, &stride) in checked.iter_mut().zip(strides) {
                *to = stride as isize;
            }
            Layout::strided(shape, &checked[..strides.len()])?
        };
        let bytes = layout.extent().checked_mul(dtype.size()).ok_or_else(|| {
            Error::invalid("strides", "they reach further than memory can address")
        })?;
        if bytes > 0 {
            check(data.cast_const().cast::<u8>(), "data", "memory with the elements is expected")?;
        }
        // SAFETY: the caller promises that the elements which shape and strides reach are there
        // and initialised until `destroy` runs, which is when `owner` is dropped.
        let storage =
            unsafe { Storage::foreign(data.cast(), bytes, device, false, Box::new(owner)) };
        tensor.write(make(Tensor::from_storage(Arc::new(storage), dtype, layout, 0)?)?);
        Ok(())
    })
}

/// Where the elements lie. The view is valid as long as the tensor's memory: until the last
/// tensor over it is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_view(
    tensor: *const umbo_tensor,
    view: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_tensor_view", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let view = unsafe { out(view, "view") }?;
        view.write(borrow(tensor, "tensor", view_to_write)?);
        Ok(())
    })
}

/// Every `step`-th position from `start` to before `stop` along `axis` (negative: counted from
/// the last): a new tensor that shares the memory. OUT_OF_RANGE if 0 <= start <= stop <= size
/// does not hold; INVALID_ARGUMENT if `step` is less than 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_slice(
    tensor: *const umbo_tensor,
    axis: i32,
    start: i64,
    stop: i64,
    step: i64,
    slice: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_slice", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let slice = unsafe { out(slice, "slice") }?;
        let position = |value: i64| {
            usize::try_from(value).map_err(|_| {
                Error::out_of_range("start, stop", format!("{value}; positions are 0 or more"))
            })
        };
        let (start, stop) = (position(start)?, position(stop)?);
        let step = usize::try_from(step)
            .map_err(|_| Error::invalid("step", format!("{step}; steps are 1 or more")))?;
        let part = borrow(tensor, "tensor", |tensor| {
            tensor.slice(tensor.shape().axis(axis.into())?, start, stop, step)
        })??;
        slice.write(make(part)?);
        Ok(())
    })
}

/// The same elements in row-major order under another shape: a new tensor that shares the memory.
/// INVALID_ARGUMENT if the numbers of elements differ, or if the tensor's strides are not
/// row-major: copy it first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_reshape(
    tensor: *const umbo_tensor,
    rank: i32,
    shape: *const i64,
    reshaped: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_reshape", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (reshaped, shape) =
            unsafe { (out(reshaped, "reshaped")?, shape_from(rank, shape, "shape")?) };
        reshaped.write(make(borrow(tensor, "tensor", |tensor| tensor.reshape(shape))??)?);
        Ok(())
    })
}

/// The same elements with the axes in another order: a new tensor that shares the memory. `axes`
/// has as many numbers as the tensor has axes, the first of which says which axis comes first;
/// NULL reverses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_transpose(
    tensor: *const umbo_tensor,
    axes: *const i32,
    transposed: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_transpose", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let transposed = unsafe { out(transposed, "transposed") }?;
        let tensor = handle::get(tensor, "tensor")?;
        let rank = tensor.shape().rank();
        let mut order = [0usize; MAX_RANK];
        if axes.is_null() {
            order[..rank].iter_mut().enumerate().for_each(|(to, axis)| *axis = rank - 1 - to);
        } else {
            // SAFETY: not NULL, so the caller promises as many numbers as there are axes.
            let axes = unsafe { array(axes, rank as i32, "axes") }?;
            for (to, &axis) in order.iter_mut().zip(axes) {
                *to = tensor.shape().axis(axis.into())?;
            }
        }
        transposed.write(make(tensor.transpose(&order[..rank])?)?);
        Ok(())
    })
}

/// A copy on `device` (NULL: in a replica's callback its device, else CPU:0): a new tensor, contiguous in row-major order, that shares
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_copy(
    tensor: *const umbo_tensor,
    device: *const c_char,
    copy: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_copy", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (copy, device) = unsafe { (out(copy, "copy")?, tensor_device_from(device)?) };
        copy.write(make(copy_to(&handle::get(tensor, "tensor")?, device)?)?);
        Ok(())
    })
}

/// Copies the elements to host memory, in row-major order. `bytes` is the size of `destination`,
/// which must be that of all elements; its address must be a multiple of an element's size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_copy_to_host(
    tensor: *const umbo_tensor,
    destination: *mut c_void,
    bytes: usize,
) -> umbo_status {
    boundary("umbo_tensor_copy_to_host", || {
        let tensor = handle::get(tensor, "tensor")?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        let expected = shape.bytes(dtype)?;
        if bytes != expected {
            let problem = format!("{bytes}; shape {shape} of {dtype} has {expected}");
            return Err(Error::invalid("bytes", problem));
        }
        if bytes == 0 {
            return Ok(());
        }
        check(destination.cast_const().cast::<u8>(), "destination", "memory is expected")?;
        if !destination.addr().is_multiple_of(dtype.size()) {
            let problem = format!("{destination:p} is not a multiple of {}", dtype.size());
            return Err(Error::invalid("destination", problem));
        }
        // SAFETY: the caller promises `bytes` bytes there, which may be written for this call; the
        // storage does not outlive it, and its elements are written before anything reads them.
        let storage = unsafe {
            Storage::foreign(destination.cast(), bytes, DeviceId::HOST, false, Box::new(()))
        };
        let layout = Layout::row_major(shape);
        let target = Tensor::from_storage(Arc::new(storage), dtype, layout, 0)?;
        // SAFETY: the memory is the caller's, who has it written by this call.
        copy_into(&tensor, &mut unsafe { target.assume_exclusive() })
    })
}

/// The canonical name of the device that holds the elements, such as
/// "/job:localhost/replica:0/task:0/device:CPU:0". Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_device_name(
    tensor: *const umbo_tensor,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_tensor_device_name", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        let device = borrow(tensor, "tensor", Tensor::device)?;
        name.write(device_name(device));
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_retain(
    tensor: *const umbo_tensor,
    retained: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_tensor_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(tensor, "tensor", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_tensor_release(tensor: *const umbo_tensor) {
    quietly("umbo_tensor_release", || handle::release(tensor, "tensor"));
}
