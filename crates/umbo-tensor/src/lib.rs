//! Tensors: elements of one dtype, strided, on one device, with shared ownership.
//!
//! # Who may read and write elements
//!
//! A tensor shares its memory with its clones and slices, and with C programs, which hold its
//! address. No type can say whether others use it at the moment. So one rule holds for all memory
//! of tensors: **the writer guarantees.** While a writer writes elements, nobody else reads or
//! writes them, on any thread and through any reference. A reader guarantees nothing, since every
//! writer that could disturb it has guaranteed not to do so.
//!
//! In types: [`Tensor::reading`] and the functions that read by it are safe. The right to write is
//! a value, [`TensorMut`]. Functions that write take such a value, and are safe, too. It comes from
//! code that can guarantee it:
//!
//! - From a tensor that was just made and that nobody else has: [`Tensor::made`],
//!   [`Tensor::get_mut`].
//! - From a caller that guarantees it: [`Tensor::assume_exclusive`], which is `unsafe`. For tensors
//!   of C programs the caller is `ffi`: the contract of each C function says what the program does
//!   not do meanwhile. For memory that a C program owns, the contract of
//!   [`Storage::foreign`](storage::Storage::foreign) says it. For the memory of variables the
//!   caller is the strategy, whose step lock allows only one writer. For buffers of gradients it is
//!   the replica that owns the buffers.
//!
//! A caller that gets a variable's own tensor guarantees that it reads only while the strategy does
//! not write the variable. The functions that return such a tensor are `unsafe` and say when that
//! is (see `strategy::variables::current_copy` and
//! [`Variable::committed`](crate::values::variable::Variable::committed)).
//!
//! Elements are always initialised for the compiler: memory that is not zeroed holds unspecified
//! bytes, all of which are valid elements (see
//! [`Storage::uninitialized`](storage::Storage::uninitialized)).
#![expect(unsafe_code, reason = "who may use memory when is not said in types")]

#[macro_use]
extern crate umbo_base;

pub mod blocks;
pub mod collectives;
pub mod dlpack;
pub mod downloads;
mod lockable_block;
pub mod ops;
pub mod origin;
pub mod red_zone;
pub mod shared_blocks;
pub mod slab;
pub mod storage;
mod text;
mod transfer;
pub mod values;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub use umbo_kernels::dtype::{DType, Element};
pub use umbo_kernels::layout::{Layout, MAX_RANK, Shape};

use origin::{BatchShare, Origin};
use storage::Storage;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::view::{Span, SpanMut, View, ViewMut};

/// Whether this is the only reference to an object to which there are no weak ones, so that it
/// stays that while the caller does not share it. Unlike [`Arc::get_mut`], it writes no cache line
/// that others read.
pub(crate) fn is_only_reference<T>(object: &Arc<T>) -> bool {
    let is_only = Arc::strong_count(object) == 1;
    // What others did with the object came before they dropped their references.
    fence(Ordering::Acquire);
    is_only
}

/// A tensor. Cloning makes another reference to the same object. Two references are *the very same
/// tensor* (see [`Tensor::is_same`]) if one was cloned from the other. Equal contents do not make
/// two tensors the same.
///
/// Tensors share their memory with its maker and with their slices, and C programs write it through
/// plain pointers. [The module](crate) says who may read and write it, and when.
#[derive(Clone)]
pub struct Tensor(Arc<TensorInner>);

#[derive(Clone)]
struct TensorInner {
    storage: Arc<Storage>,
    dtype: DType,
    layout: Layout,
    /// Bytes from the storage's start to the first element.
    offset: usize,
    /// The device of the tensor. It is the storage's device, or another one that reads the same
    /// memory.
    device: DeviceId,
    share: Option<BatchShare>,
}

impl Tensor {
    fn from_parts(storage: Arc<Storage>, dtype: DType, layout: Layout, offset: usize) -> Tensor {
        let device = storage.device();
        Tensor(Arc::new(TensorInner {
            storage,
            dtype,
            layout,
            offset,
            device,
            share: None,
        }))
    }

    /// A tensor over other positions of this tensor's storage, on its device.
    fn with_layout(&self, layout: Layout, offset: usize) -> Tensor {
        Tensor(Arc::new(TensorInner {
            layout,
            offset,
            share: None,
            ..(*self.0).clone()
        }))
    }

    /// A contiguous tensor of zeros.
    pub fn zeros(dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let storage = Storage::zeroed(shape.bytes(dtype)?, device)?;
        Ok(Tensor::from_parts(
            Arc::new(storage),
            dtype,
            Layout::row_major(shape),
            0,
        ))
    }

    /// A contiguous tensor with arbitrary elements.
    pub fn uninitialized(dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let storage = Storage::uninitialized(shape.bytes(dtype)?, device)?;
        Ok(Tensor::from_parts(
            Arc::new(storage),
            dtype,
            Layout::row_major(shape),
            0,
        ))
    }

    /// A contiguous tensor of `shape` with these elements, in row-major order.
    pub fn from_slice<T: Element>(data: &[T], shape: Shape, device: DeviceId) -> Result<Tensor> {
        if data.len() != shape.elements() {
            return Err(invalid!(
                "data",
                "{} elements for shape {shape}, which has {}",
                data.len(),
                shape.elements()
            ));
        }
        // SAFETY: an `Element` has no padding and no invalid bytes; the length is the slice's.
        let bytes =
            unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
        Tensor::from_bytes(T::DTYPE, shape, bytes, device)
    }

    /// A contiguous tensor of `shape` with these bytes, in row-major order.
    pub fn from_bytes(
        dtype: DType,
        shape: Shape,
        bytes: &[u8],
        device: DeviceId,
    ) -> Result<Tensor> {
        let expected = shape.bytes(dtype)?;
        if bytes.len() != expected {
            return Err(invalid!(
                "data",
                "{} bytes for shape {shape} of {dtype}, which has {expected}",
                bytes.len()
            ));
        }
        let storage = Storage::uninitialized(expected, device)?;
        storage.write(bytes)?;
        Ok(Tensor::from_parts(
            Arc::new(storage),
            dtype,
            Layout::row_major(shape),
            0,
        ))
    }

    /// A scalar on the host.
    pub fn scalar<T: Element>(value: T) -> Result<Tensor> {
        Tensor::from_slice(&[value], Shape::scalar(), DeviceId::HOST)
    }

    /// A tensor over part of a storage: `layout` from byte `offset` on.
    pub fn from_storage(
        storage: Arc<Storage>,
        dtype: DType,
        layout: Layout,
        offset: usize,
    ) -> Result<Tensor> {
        let bytes = layout
            .extent()
            .checked_mul(dtype.size())
            .and_then(|end| end.checked_add(offset));
        if bytes.is_none_or(|bytes| bytes > storage.bytes()) {
            return Err(invalid!(
                "shape",
                "shape {} of {dtype} from byte {offset} on does not fit in {} bytes",
                layout.shape,
                storage.bytes()
            ));
        }
        if !storage
            .address()
            .addr()
            .wrapping_add(offset)
            .is_multiple_of(dtype.size())
        {
            return Err(invalid!(
                "data",
                "the address is not a multiple of {}, the size of {dtype}",
                dtype.size()
            ));
        }
        Ok(Tensor::from_parts(storage, dtype, layout, offset))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.0.layout.shape
    }

    /// How many bytes its elements have, for any layout.
    pub fn bytes(&self) -> usize {
        self.shape().elements() * self.dtype().size()
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The device of the tensor. CPUs share their memory, so a tensor on one CPU may be a view of
    /// memory that was allocated on another.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// Whether nobody else has this object. Others may have its memory.
    pub fn is_held_alone(&mut self) -> bool {
        is_only_reference(&self.0)
    }

    /// Whether the memory may only be read.
    pub fn is_read_only(&self) -> bool {
        self.0.storage.is_read_only()
    }

    /// The storage, and the byte in it at which the first element lies.
    pub fn storage(&self) -> (&Arc<Storage>, usize) {
        (&self.0.storage, self.0.offset)
    }

    /// The device's address of the first element. The host may use it if the memory is the host's.
    pub fn address(&self) -> *mut u8 {
        self.0.storage.address().wrapping_add(self.0.offset)
    }

    /// Whether `other` is a reference to the very same tensor.
    pub fn is_same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The number of examples of a global batch this tensor holds, if it came from a distributed
    /// dataset. (The first dimension usually has this size, but a scalar has no dimension.)
    pub fn examples(&self) -> Option<u64> {
        self.0.share.as_ref().map(|share| share.examples)
    }

    /// The global batch of these examples, if several processes have read it.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.share.as_ref()?.origin.as_ref()
    }

    /// This tensor as a part of a global batch: a new object with the same elements.
    pub fn with_examples(&self, examples: u64) -> Tensor {
        self.with_share(BatchShare {
            examples,
            origin: None,
        })
    }

    /// This tensor as this part of a global batch: a new object with the same elements.
    pub fn with_share(&self, share: BatchShare) -> Tensor {
        Tensor(Arc::new(TensorInner {
            share: Some(share),
            ..(*self.0).clone()
        }))
    }

    /// Makes this object refer to other elements, without allocating. Returns whether that was
    /// possible: it is possible only if nobody else holds a reference to the object. Input
    /// pipelines reuse elements that their consumer has released.
    pub fn try_replace(&mut self, with: &TensorParts<'_>) -> bool {
        // CPUs share their memory; other devices do not.
        let is_readable = with.device.is_host_memory() == with.storage.device().is_host_memory();
        assert!(
            is_readable,
            "elements of {} as if on {}",
            with.storage.device(),
            with.device
        );
        let Some(parts) = Arc::get_mut(&mut self.0) else {
            return false;
        };
        if !Arc::ptr_eq(&parts.storage, with.storage) {
            parts.storage = Arc::clone(with.storage);
        }
        parts.dtype = with.dtype;
        parts.layout = with.layout;
        parts.offset = with.offset;
        parts.device = with.device;
        parts.share.clone_from(&with.share);
        true
    }

    /// A contiguous tensor whose elements `write` writes. Elements that it does not write are
    /// unspecified.
    ///
    /// The elements of a tensor outside of host memory are written in host memory first.
    ///
    /// Fails as `write` does, and with RESOURCE_EXHAUSTED if there is no memory.
    pub fn made(
        dtype: DType,
        shape: Shape,
        device: DeviceId,
        write: impl FnOnce(&mut TensorMut) -> Result<()>,
    ) -> Result<Tensor> {
        if !device.is_host_memory() {
            let made = Tensor::made(dtype, shape, DeviceId::HOST, write)?;
            return made.copied_to(device);
        }
        let tensor = Tensor::uninitialized(dtype, shape, device)?;
        // SAFETY: nobody else has the tensor before it is returned.
        write(&mut unsafe { tensor.assume_exclusive() })?;
        Ok(tensor)
    }

    /// A view for kernels that read, by [the rule](crate). The caller guarantees nothing.
    ///
    /// Fails if the memory is not the host's; see [`Tensor::on_host`].
    pub fn reading(&self) -> Result<View<'_>> {
        self.in_host_memory("reading")?;
        // SAFETY: construction checked that the layout lies in the storage and is aligned. The
        // storage lives as long as this tensor, which is borrowed. Its elements are initialised,
        // and a writer guarantees that nobody reads them.
        Ok(unsafe { View::new(self.address(), self.dtype(), *self.layout()) })
    }

    /// All elements, to be read as by [`Tensor::reading`]. Fails also if they are not contiguous,
    /// which the maker of the tensor prevents.
    pub fn span(&self) -> Result<Span<'_>> {
        self.reading()?.span().ok_or_else(|| not_contiguous(self))
    }

    /// The right to write the elements, if nobody else has this tensor or another tensor over the
    /// same memory, and the library has allocated the memory.
    pub fn get_mut(&mut self) -> Option<TensorMut<'_>> {
        let parts = Arc::get_mut(&mut self.0)?;
        Arc::get_mut(&mut parts.storage).filter(|storage| storage.is_own())?;
        Some(TensorMut { tensor: self })
    }

    /// The right to write the elements.
    ///
    /// # Safety
    /// While the result is used, nobody reads or writes these elements except through it. A
    /// function that gets both the result and its source may read through the source.
    pub unsafe fn assume_exclusive(&self) -> TensorMut<'_> {
        TensorMut { tensor: self }
    }

    fn in_host_memory(&self, doing: &str) -> Result<()> {
        if self.device().is_host_memory() {
            return Ok(());
        }
        Err(Error::Internal(format!(
            "{doing} memory of {} by the CPU",
            self.device()
        )))
    }

    /// Every `step`-th position from `start` to before `stop` along `axis`. The result shares
    /// memory.
    pub fn slice(&self, axis: usize, start: usize, stop: usize, step: usize) -> Result<Tensor> {
        let (layout, elements) = self.0.layout.slice(axis, start, stop, step)?;
        let offset = self.0.offset + elements * self.dtype().size();
        Ok(self.with_layout(layout, offset))
    }

    /// The same elements with the axes in another order. The result shares memory.
    pub fn transpose(&self, axes: &[usize]) -> Result<Tensor> {
        let layout = self.0.layout.transpose(axes)?;
        Ok(self.with_layout(layout, self.0.offset))
    }

    /// The same elements, in row-major order, with another shape. The result shares memory. Only
    /// contiguous tensors can be reshaped without a copy.
    pub fn reshape(&self, shape: Shape) -> Result<Tensor> {
        if shape.elements() != self.shape().elements() {
            return Err(invalid!(
                "shape",
                "{shape} has {} elements, the tensor's shape {} has {}; a reshape keeps their \
                 number",
                shape.elements(),
                self.shape(),
                self.shape().elements()
            ));
        }
        if !self.layout().is_contiguous() {
            return Err(invalid!(
                "tensor",
                "strides {:?} are not row-major; copy the tensor first",
                self.layout().strides()
            ));
        }
        let layout = Layout::row_major(shape);
        Ok(self.with_layout(layout, self.0.offset))
    }
}

/// A tensor, and the right to write its elements: as long as this exists, nobody else reads or
/// writes them (see [the module](crate)).
pub struct TensorMut<'a> {
    tensor: &'a Tensor,
}

impl Deref for TensorMut<'_> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        self.tensor
    }
}

impl<'a> TensorMut<'a> {
    /// The tensor, without the right to write it.
    pub fn done(self) -> Tensor {
        self.tensor.clone()
    }

    /// A view for kernels that write.
    ///
    /// Fails with INVALID_ARGUMENT for read-only memory and for layouts in which two positions
    /// share an element, and if the memory is not the host's.
    pub fn writing(&mut self) -> Result<ViewMut<'_>> {
        TensorMut {
            tensor: self.tensor,
        }
        .into_view()
    }

    /// Like [`TensorMut::writing`]; the right moves into the view.
    pub fn into_view(self) -> Result<ViewMut<'a>> {
        let tensor = self.tensor;
        tensor.in_host_memory("writing")?;
        self.check_writable()?;
        // SAFETY: as in `Tensor::reading`. Positions were just checked to be distinct. This value
        // has the only right to write them, and the view has it now.
        Ok(unsafe { ViewMut::new(tensor.address(), tensor.dtype(), *tensor.layout()) })
    }

    /// All elements, to be written. Fails as [`TensorMut::writing`] and [`Tensor::span`] do.
    pub fn into_span(self) -> Result<SpanMut<'a>> {
        let tensor = self.tensor;
        self.into_view()?
            .into_span()
            .ok_or_else(|| not_contiguous(tensor))
    }

    /// Fails with INVALID_ARGUMENT for read-only memory and for layouts in which two positions
    /// share an element.
    fn check_writable(&self) -> Result<()> {
        let tensor = self.tensor;
        if tensor.is_read_only() {
            return Err(invalid!("tensor", "its memory is read-only"));
        }
        if tensor.layout().has_overlap() {
            return Err(invalid!(
                "tensor",
                "strides {:?} of shape {} let positions share an element; such a tensor is \
                 read-only",
                tensor.layout().strides(),
                tensor.shape()
            ));
        }
        Ok(())
    }
}

fn not_contiguous(tensor: &Tensor) -> Error {
    Error::Internal(format!("{tensor:?} is not contiguous"))
}

/// The parts of a tensor, for [`Tensor::try_replace`].
#[expect(
    missing_docs,
    reason = "the names are those of the methods of `Tensor`"
)]
pub struct TensorParts<'a> {
    pub storage: &'a Arc<Storage>,
    pub dtype: DType,
    pub layout: Layout,
    pub offset: usize,
    pub device: DeviceId,
    pub share: Option<BatchShare>,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} tensor of shape {} on {}",
            self.dtype(),
            self.shape(),
            self.device()
        )
    }
}
