//! Plain views of memory: what kernels work on.

use ndarray::{ArrayViewD, IxDyn, ShapeBuilder};

use crate::kernels::dtype::{DType, Element};
use crate::kernels::layout::Layout;

/// A read-only view of elements in memory that the CPU can address.
///
/// A view is a promise made by whoever builds it (see [`View::new`]); reading through it is the
/// kernels' business.
#[derive(Clone, Copy, Debug)]
pub struct View {
    data: *const u8,
    dtype: DType,
    layout: Layout,
}

// SAFETY: a view is a pointer and numbers; `View::new` makes its builder promise that the memory
// may be read for as long as the view is used, from whichever thread uses it.
unsafe impl Send for View {}
// SAFETY: as above; sharing a view shares only the right to read.
unsafe impl Sync for View {}

impl View {
    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view or a copy of it is used, those elements are initialised, aligned for
    /// `dtype`, readable from any thread, and not written by anyone else at the same time.
    pub unsafe fn new(data: *const u8, dtype: DType, layout: Layout) -> View {
        View { data, dtype, layout }
    }

    /// The first element.
    pub fn data(&self) -> *const u8 {
        self.data
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The elements as a slice, if they are contiguous and of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if self.dtype != T::DTYPE || !self.layout.is_contiguous() {
            return None;
        }
        let elements = self.layout.shape.elements();
        if elements == 0 {
            return Some(&[]);
        }
        // SAFETY: the builder of the view promised `elements` initialised, aligned and unwritten
        // elements from `data` on for as long as the view lives, and the slice borrows the view.
        Some(unsafe { std::slice::from_raw_parts(self.data.cast(), elements) })
    }

    /// The elements as an array, if they are of type `T`; bool elements are bytes, 0 or 1.
    pub fn as_array<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        let are_bytes = self.dtype == DType::Bool && T::DTYPE == DType::UInt8;
        if self.dtype != T::DTYPE && !are_bytes {
            return None;
        }
        let shape = IxDyn(&self.layout.shape);
        let strides: Vec<usize> = self.layout.strides().iter().map(|&step| step as usize).collect();
        // SAFETY: the builder of the view promised that all positions of the layout are
        // initialised, aligned and unwritten for as long as the view lives, and the array borrows
        // the view. Layouts have no negative strides and their extent fits in an `isize`.
        Some(unsafe {
            ArrayViewD::from_shape_ptr(shape.strides(IxDyn(&strides)), self.data.cast::<T>())
        })
    }
}

/// A view of elements that may be written.
#[derive(Debug)]
pub struct ViewMut {
    data: *mut u8,
    dtype: DType,
    layout: Layout,
}

// SAFETY: as for `View`; `ViewMut::new` makes its builder promise exclusive access, and the type
// is neither `Clone` nor `Copy`, so the right to write moves with it.
unsafe impl Send for ViewMut {}
// SAFETY: a shared `&ViewMut` only tells pointer and layout.
unsafe impl Sync for ViewMut {}

impl ViewMut {
    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view is used, those elements are aligned for `dtype`, writable, and not
    /// read or written by anyone else; no two positions of `layout` share an element. They need
    /// not be initialised before a kernel writes them.
    pub unsafe fn new(data: *mut u8, dtype: DType, layout: Layout) -> ViewMut {
        ViewMut { data, dtype, layout }
    }

    /// The first element.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// A read-only view of contiguous elements, without a shape: small enough to be kept and copied
/// by the thousand.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    data: *const u8,
    dtype: DType,
    elements: usize,
}

// SAFETY: as for `View`, of which it is made.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl View {
    /// The elements as a span, with the same promise; `None` if they are not contiguous.
    pub fn span(&self) -> Option<Span> {
        let View { data, dtype, layout } = *self;
        layout.is_contiguous().then(|| Span { data, dtype, elements: layout.shape.elements() })
    }
}

impl Span {
    /// The first element.
    pub fn data(&self) -> *const u8 {
        self.data
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.elements
    }
}

/// A view of contiguous elements that may be written, without a shape.
#[derive(Debug)]
pub struct SpanMut {
    data: *mut u8,
    dtype: DType,
    elements: usize,
}

// SAFETY: as for `ViewMut`, of which it is made.
unsafe impl Send for SpanMut {}
// SAFETY: a shared `&SpanMut` only tells pointer and length.
unsafe impl Sync for SpanMut {}

impl ViewMut {
    /// The elements as a span, with the same promise; `None` if they are not contiguous.
    pub fn into_span(self) -> Option<SpanMut> {
        let ViewMut { data, dtype, layout } = self;
        layout.is_contiguous().then(|| SpanMut { data, dtype, elements: layout.shape.elements() })
    }
}

impl SpanMut {
    /// The first element.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The same elements for reading, by who may write them and does not meanwhile.
    pub fn reading(&self) -> Span {
        Span { data: self.data, dtype: self.dtype, elements: self.elements }
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.elements
    }
}
