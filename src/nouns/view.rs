//! Views of memory, as they go out and come in.

use std::any::Any;

use crate::machinery::constants::described as described_constant;
use crate::machinery::prelude::*;
use umbo_core::device::DeviceId;
use umbo_core::kernels::view::View;
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{DType, Layout, MAX_RANK, Tensor};

/// The properties of a view's memory: a sum of these.
pub type umbo_view_flags = i32;

/// The elements may only be read: `mutable_data` is NULL.
pub const UMBO_VIEW_READ_ONLY: umbo_view_flags = 1 << 16;
/// The elements lie in row-major order without gaps; a loop need not look at `strides`.
pub const UMBO_VIEW_CONTIGUOUS: umbo_view_flags = 1 << 17;

/// The place of elements in memory, and their shape. The size of the struct stays the same in later
/// versions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_view {
    /// The first element, for reading.
    pub data: *const c_void,
    /// The first element, for writing; NULL if the elements may only be read.
    pub mutable_data: *mut c_void,
    /// The size of one element.
    pub element_bytes: usize,
    /// The type of the elements.
    pub dtype: umbo_dtype,
    /// The number of dimensions.
    pub ndim: i32,
    /// The device that has the memory.
    pub device: umbo_device,
    /// The sum of those of UMBO_VIEW_READ_ONLY and UMBO_VIEW_CONTIGUOUS that hold.
    pub flags: umbo_view_flags,
    /// The size of each dimension; 0 from `ndim` on.
    pub shape: [i64; 8],
    /// How many elements lie between neighbours along each dimension; 0 from `ndim` on.
    pub strides: [i64; 8],
    /// Zeros.
    pub reserved: [u64; 3],
}

/// The view of nothing, for places where there is no memory to look at.
// SAFETY: all zero is a value of the struct, which has pointers and numbers.
pub(crate) const NO_VIEW: umbo_view = unsafe { std::mem::zeroed() };

/// A view through which elements can be written.
pub(crate) fn view_to_write(tensor: &Tensor) -> umbo_view {
    let view = view_to_read(tensor);
    umbo_view {
        mutable_data: tensor.address().cast(),
        flags: view.flags & !UMBO_VIEW_READ_ONLY,
        ..view
    }
}

/// A view through which elements can only be read.
pub(crate) fn view_to_read(tensor: &Tensor) -> umbo_view {
    let layout = tensor.layout();
    let contiguous = if layout.is_contiguous() {
        UMBO_VIEW_CONTIGUOUS
    } else {
        0
    };
    umbo_view {
        data: tensor.address().cast(),
        mutable_data: std::ptr::null_mut(),
        element_bytes: tensor.dtype().size(),
        dtype: tensor.dtype().to_c(),
        ndim: layout.shape.rank() as i32,
        device: device_of(tensor.device()),
        flags: UMBO_VIEW_READ_ONLY | contiguous,
        shape: padded(layout.shape.iter().map(|&size| size as i64)),
        strides: padded(layout.strides().iter().map(|&stride| stride as i64)),
        reserved: [0; 3],
    }
}

/// The elements of a view that came in.
pub(crate) enum Incoming<'a> {
    /// The elements where the view says.
    InPlace(View<'a>),
    /// Copied from a GPU.
    Copied(Tensor),
}

impl Incoming<'_> {
    /// For reading by the CPU.
    pub(crate) fn reading(&self) -> Result<View<'_>> {
        match self {
            Incoming::InPlace(view) => Ok(*view),
            Incoming::Copied(tensor) => tensor.reading(),
        }
    }
}

/// A view that has to be there. Whether it describes elements is found where it is used.
pub(crate) fn view(pointer: *const umbo_view, argument: &'static str) -> Result<*const umbo_view> {
    check(pointer, argument, "a view is expected")?;
    Ok(pointer)
}

/// The description of elements by a view that comes in: their dtype, their layout, their address.
///
/// # Safety
/// `pointer` is NULL or leads to a view, during `'a`.
pub(crate) unsafe fn described<'a>(
    pointer: *const umbo_view,
    argument: &'static str,
) -> Result<(&'a umbo_view, DType, Layout, DeviceId)> {
    // SAFETY: the caller's promise is the same, and what is checked may be read.
    let view = unsafe { &*view(pointer, argument)? };
    // SAFETY: a view has as many sizes and strides as it may have dimensions.
    let shape =
        unsafe { arguments::shape(view.shape.as_ptr(), Count::new(view.ndim, "ndim"), "shape") };
    // First, since umbo_view_of_memory() gives a view without a dtype for a shape that is invalid.
    let shape = shape.map_err(|error| error.within(argument))?;
    if view.dtype == UMBO_DTYPE_NONE && view.ndim > 0 && view.data.is_null() {
        return Err(invalid!(
            argument,
            "dtype: 0, and no data, as umbo_view_of_memory() makes of a shape that is NULL; {} \
             sizes are expected there",
            view.ndim
        ));
    }
    let dtype: DType = constant(view.dtype, "dtype").map_err(|error| error.within(argument))?;
    let device = listed_device(view.device, argument)?;
    let unknown = view.flags & !(UMBO_VIEW_READ_ONLY | UMBO_VIEW_CONTIGUOUS);
    if unknown != 0 {
        return Err(invalid!(
            argument,
            "flags: {}; valid are UMBO_VIEW_READ_ONLY ({UMBO_VIEW_READ_ONLY}), \
             UMBO_VIEW_CONTIGUOUS ({UMBO_VIEW_CONTIGUOUS}) and their sum",
            described_constant(view.flags)
        ));
    }
    let mut strides = [0isize; MAX_RANK];
    for (to, &stride) in strides.iter_mut().zip(&view.strides) {
        *to = stride as isize;
    }
    let layout = Layout::strided(shape, &strides[..shape.rank()]);
    let layout = layout.map_err(|error| error.within(argument))?;
    if shape.elements() > 0 {
        check(
            view.data.cast::<u8>(),
            argument,
            "data of its elements is expected",
        )?;
        if view.data.addr() % dtype.size() != 0 {
            return Err(invalid!(
                argument,
                "its data is not a multiple of {} bytes",
                dtype.size()
            ));
        }
    }
    Ok((view, dtype, layout, device))
}

/// A view that comes in.
///
/// # Safety
/// `pointer` is NULL or leads to a view, whose elements, if it has any, are initialised and not
/// written during `'a`.
pub(crate) unsafe fn view_from<'a>(
    pointer: *const umbo_view,
    argument: &'static str,
) -> Result<Incoming<'a>> {
    // SAFETY: the caller's promise.
    let (view, dtype, layout, device) = unsafe { described(pointer, argument) }?;
    if device.is_host_memory() {
        // SAFETY: the caller promises that the elements are there; pointer and layout were checked.
        return Ok(Incoming::InPlace(unsafe {
            View::new(view.data.cast(), dtype, layout)
        }));
    }
    // SAFETY: as above; the tensor is dropped before this returns.
    let there = unsafe { tensor_over_view(pointer, argument, Box::new(())) }?;
    there.on_host().map(Incoming::Copied)
}

/// A contiguous copy, on CPU:0, of the elements that a view of the caller's shows.
///
/// # Safety
/// As for [`view_from`].
pub(crate) unsafe fn tensor_of_view(
    pointer: *const umbo_view,
    argument: &'static str,
) -> Result<Tensor> {
    // SAFETY: the caller's promise is the same.
    let incoming = unsafe { view_from(pointer, argument) }?;
    let view = incoming.reading()?;
    Tensor::made(view.dtype(), view.layout().shape, DeviceId::HOST, |to| {
        to.copy_from_view(&view)
    })
}

/// A tensor over what a view of the caller's shows, which keeps `owner`.
///
/// # Safety
/// `pointer` is NULL or leads to a view, whose elements are there until `owner` is dropped.
pub(crate) unsafe fn tensor_over_view(
    pointer: *const umbo_view,
    argument: &'static str,
    owner: Box<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    let (view, dtype, layout, device) = unsafe { described(pointer, argument) }?;
    let read_only = view.flags & UMBO_VIEW_READ_ONLY != 0 || view.mutable_data.is_null();
    let bytes = layout.extent().checked_mul(dtype.size()).ok_or_else(|| {
        invalid!(
            argument,
            "its strides reach further than memory can address"
        )
    })?;
    let data = view.data.cast_mut().cast();
    // SAFETY: the caller promises the elements until the owner is dropped; who may write them is
    // said where the view came from.
    let storage = unsafe { Storage::foreign(data, bytes, device, read_only, owner) };
    Tensor::from_storage(Arc::new(storage), dtype, layout, 0)
}
