//! Tensors: elements of one dtype, strided, on one device, with shared ownership.

pub mod blocks;
pub mod ops;
pub mod slab;
pub mod storage;
mod text;

use std::fmt;
use std::sync::Arc;

pub use crate::kernels::dtype::{DType, Element};
pub use crate::kernels::layout::{Layout, MAX_RANK, Shape};

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::view::{View, ViewMut};
use storage::Storage;

/// A tensor. Cloning makes another reference to the same object; two references are *the very
/// same tensor* (see [`Tensor::is_same`]) if one was cloned from the other, however equal the
/// contents of others are.
///
/// Tensors share their memory with whoever made it and with their slices, and C programs write it
/// through plain pointers. So nothing here hands out Rust references to elements except where the
/// caller vouches for it; who may write when is the caller's agreement, as with any buffer in C.
#[derive(Clone)]
pub struct Tensor(Arc<Parts>);

struct Parts {
    storage: Arc<Storage>,
    dtype: DType,
    layout: Layout,
    /// Bytes from the storage's start to the first element.
    offset: usize,
    /// The device that the tensor counts as being on: the storage's, or another one that reads
    /// the same memory.
    device: DeviceId,
    examples: Option<u64>,
}

impl Tensor {
    fn from_parts(storage: Arc<Storage>, dtype: DType, layout: Layout, offset: usize) -> Tensor {
        let device = storage.device();
        Tensor(Arc::new(Parts { storage, dtype, layout, offset, device, examples: None }))
    }

    /// Other positions of this tensor's storage, on its device.
    fn with_layout(&self, layout: Layout, offset: usize) -> Tensor {
        Tensor(Arc::new(Parts {
            storage: Arc::clone(&self.0.storage),
            dtype: self.dtype(),
            layout,
            offset,
            device: self.device(),
            examples: None,
        }))
    }

    /// A contiguous tensor of zeros.
    pub fn zeros(dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let storage = Storage::zeroed(shape.bytes(dtype)?, device)?;
        Ok(Tensor::from_parts(Arc::new(storage), dtype, Layout::row_major(shape), 0))
    }

    /// A contiguous tensor whose elements are whatever was in memory.
    pub fn uninitialized(dtype: DType, shape: Shape, device: DeviceId) -> Result<Tensor> {
        let storage = Storage::uninitialized(shape.bytes(dtype)?, device)?;
        Ok(Tensor::from_parts(Arc::new(storage), dtype, Layout::row_major(shape), 0))
    }

    /// A contiguous tensor of `shape` with these elements, in row-major order.
    pub fn from_slice<T: Element>(data: &[T], shape: Shape, device: DeviceId) -> Result<Tensor> {
        if data.len() != shape.elements() {
            return Err(Error::invalid(
                "data",
                format!(
                    "{} elements for shape {shape}, which has {}",
                    data.len(),
                    shape.elements()
                ),
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
            return Err(Error::invalid(
                "data",
                format!("{} bytes for shape {shape} of {dtype}, which has {expected}", bytes.len()),
            ));
        }
        let storage = Storage::uninitialized(expected, device)?;
        storage.write(bytes)?;
        Ok(Tensor::from_parts(Arc::new(storage), dtype, Layout::row_major(shape), 0))
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
        let bytes =
            layout.extent().checked_mul(dtype.size()).and_then(|end| end.checked_add(offset));
        if bytes.is_none_or(|bytes| bytes > storage.bytes()) {
            return Err(Error::invalid(
                "shape",
                format!(
                    "shape {} of {dtype} from byte {offset} on does not fit in {} bytes",
                    layout.shape,
                    storage.bytes()
                ),
            ));
        }
        if !(storage.data() as usize).wrapping_add(offset).is_multiple_of(dtype.size()) {
            return Err(Error::invalid(
                "data",
                format!("the address is not a multiple of {}, the size of {dtype}", dtype.size()),
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

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The device that the tensor is on. CPUs share their memory, so that a tensor on one CPU may
    /// be a view of memory that was allocated on another.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// Whether the memory may only be read.
    pub fn is_read_only(&self) -> bool {
        self.0.storage.is_read_only()
    }

    /// The storage and the byte in it at which the first element lies.
    pub fn storage(&self) -> (&Arc<Storage>, usize) {
        (&self.0.storage, self.0.offset)
    }

    /// The address of the first element.
    pub fn data(&self) -> *mut u8 {
        self.0.storage.data().wrapping_add(self.0.offset)
    }

    /// Whether `other` is a reference to the very same tensor.
    pub fn is_same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many examples of a global batch this tensor holds, if it came from a distributed
    /// dataset. (Its first dimension usually says the same, but a scalar has none.)
    pub fn examples(&self) -> Option<u64> {
        self.0.examples
    }

    /// This tensor as part of a global batch: a new object with the same elements.
    pub fn with_examples(&self, examples: u64) -> Tensor {
        let parts = &self.0;
        Tensor(Arc::new(Parts {
            storage: Arc::clone(&parts.storage),
            dtype: parts.dtype,
            layout: parts.layout,
            offset: parts.offset,
            device: parts.device,
            examples: Some(examples),
        }))
    }

    /// Points this object at other elements, without allocating. Returns whether that was
    /// possible: only if nobody else holds a reference to the object. Input pipelines reuse the
    /// elements that their consumer has given back.
    pub fn try_replace(&mut self, with: &TensorParts<'_>) -> bool {
        let Some(parts) = Arc::get_mut(&mut self.0) else { return false };
        if !Arc::ptr_eq(&parts.storage, with.storage) {
            parts.storage = Arc::clone(with.storage);
        }
        parts.dtype = with.dtype;
        parts.layout = with.layout;
        parts.offset = with.offset;
        parts.device = with.device;
        parts.examples = with.examples;
        true
    }

    /// A view for kernels that read.
    ///
    /// The exclusion of writers is the agreement that every function of the library makes with
    /// its caller: while a call reads a tensor, nobody writes it. Inside of the library the
    /// strategy's locks keep it.
    pub fn reading(&self) -> Result<View> {
        self.in_host_memory("reading")?;
        // SAFETY: construction checked that the layout lies in the storage and is aligned, the
        // storage lives as long as this tensor, whose user holds it over the use of the view, and
        // nobody writes it meanwhile by the agreement above.
        Ok(unsafe { View::new(self.data(), self.dtype(), *self.layout()) })
    }

    /// A view for kernels that write. Refuses read-only memory and layouts in which two positions
    /// share an element.
    ///
    /// Exclusiveness is the agreement of [`Tensor::reading`]: while a call writes a tensor,
    /// nobody else reads or writes it.
    pub fn writing(&self) -> Result<ViewMut> {
        self.in_host_memory("writing")?;
        if self.is_read_only() {
            return Err(Error::invalid("tensor", "its memory is read-only"));
        }
        if self.layout().has_overlap() {
            return Err(Error::invalid(
                "tensor",
                format!(
                    "strides {:?} of shape {} let positions share an element; such a tensor is read-only",
                    self.layout().strides(),
                    self.shape()
                ),
            ));
        }
        // SAFETY: as in `reading`; positions were just checked to be distinct, and exclusiveness
        // is the agreement above.
        Ok(unsafe { ViewMut::new(self.data(), self.dtype(), *self.layout()) })
    }

    fn in_host_memory(&self, doing: &str) -> Result<()> {
        if self.device().is_host_memory() {
            return Ok(());
        }
        Err(Error::Unimplemented(format!("{doing} memory of {} in this version", self.device())))
    }

    /// Every `step`-th position from `start` to before `stop` along `axis`; shares memory.
    pub fn slice(&self, axis: usize, start: usize, stop: usize, step: usize) -> Result<Tensor> {
        let (layout, elements) = self.0.layout.slice(axis, start, stop, step)?;
        let offset = self.0.offset + elements * self.dtype().size();
        Ok(self.with_layout(layout, offset))
    }

    /// The same elements with the axes in another order; shares memory.
    pub fn transpose(&self, axes: &[usize]) -> Result<Tensor> {
        let layout = self.0.layout.transpose(axes)?;
        Ok(self.with_layout(layout, self.0.offset))
    }

    /// The same elements, in row-major order, under another shape; shares memory. Only contiguous
    /// tensors can be reshaped without a copy.
    pub fn reshape(&self, shape: Shape) -> Result<Tensor> {
        if shape.elements() != self.shape().elements() {
            return Err(Error::invalid(
                "shape",
                format!(
                    "{shape} has {} elements, the tensor's shape {} has {}",
                    shape.elements(),
                    self.shape(),
                    self.shape().elements()
                ),
            ));
        }
        if !self.layout().is_contiguous() {
            return Err(Error::invalid(
                "tensor",
                format!(
                    "strides {:?} are not row-major; copy the tensor first",
                    self.layout().strides()
                ),
            ));
        }
        let layout = Layout::row_major(shape);
        Ok(self.with_layout(layout, self.0.offset))
    }
}

/// What a tensor consists of, for [`Tensor::try_replace`].
#[expect(missing_docs, reason = "the names are those of the methods of `Tensor`")]
pub struct TensorParts<'a> {
    pub storage: &'a Arc<Storage>,
    pub dtype: DType,
    pub layout: Layout,
    pub offset: usize,
    pub device: DeviceId,
    pub examples: Option<u64>,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} tensor of shape {} on {}", self.dtype(), self.shape(), self.device())
    }
}
