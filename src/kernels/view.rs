//! Plain views of memory: what kernels work on.
//!
//! A view borrows the memory, as a slice does, and unlike a slice does not know its element type
//! when it is compiled. Where views are kept beside what owns their memory, and the borrow cannot
//! be said in types, [`View::held`] and its like take it out of them.

use std::marker::PhantomData;
use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewD, IxDyn, ShapeBuilder};

use crate::kernels::dtype::{DType, Element};
use crate::kernels::layout::Layout;

/// A read-only view of elements in memory that the CPU can address.
///
/// A view is a promise of its builder (see [`View::new`]): kernels read through it
/// without asking.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: *const u8,
    dtype: DType,
    layout: Layout,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a view is a pointer and numbers; `View::new` makes its builder promise that the memory
// may be read for as long as the view is used, from whichever thread uses it.
unsafe impl Send for View<'_> {}
// SAFETY: as above; sharing a view shares only the right to read.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// The same, for as long as the caller says.
    ///
    /// # Safety
    /// What the builder of the view promised holds as long as the result is used.
    pub unsafe fn held(self) -> View<'static> {
        let View { data, dtype, layout, .. } = self;
        View { data, dtype, layout, memory: PhantomData }
    }

    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view or a copy of it is used, those elements are initialised, aligned for
    /// `dtype`, readable from any thread, and not written by anyone else at the same time.
    pub unsafe fn new(data: *const u8, dtype: DType, layout: Layout) -> View<'a> {
        View { data, dtype, layout, memory: PhantomData }
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
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
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

    /// The elements as bytes in the machine's order, if they are contiguous.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if !self.layout.is_contiguous() {
            return None;
        }
        let bytes = self.layout.shape.elements() * self.dtype.size();
        if bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: as in `as_slice`; elements of all types are bytes without padding.
        Some(unsafe { std::slice::from_raw_parts(self.data, bytes) })
    }

    /// The elements as an array, if they are of type `T`; bool elements are bytes, 0 or 1.
    pub fn as_array<T: Element>(&self) -> Option<ArrayViewD<'a, T>> {
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

impl<'a> View<'a> {
    /// The elements as a matrix, if they are of type `T` and of one dimension (a column) or two; bool
    /// elements are bytes. None also if there are no elements. Allocates nothing.
    pub fn as_matrix<T: Element>(&self) -> Option<ArrayView2<'a, T>> {
        let are_bytes = self.dtype == DType::Bool && T::DTYPE == DType::UInt8;
        let (shape, strides) = match (&*self.layout.shape, self.layout.strides()) {
            (&[rows], &[step]) => ((rows, 1), (step as usize, 1)),
            (&[rows, columns], &[step, next]) => ((rows, columns), (step as usize, next as usize)),
            _ => return None,
        };
        if (self.dtype != T::DTYPE && !are_bytes) || shape.0 == 0 || shape.1 == 0 {
            return None;
        }
        // SAFETY: as in `as_array`.
        Some(unsafe { ArrayView2::from_shape_ptr(shape.strides(strides), self.data.cast::<T>()) })
    }
}

/// A view of elements that may be written.
#[derive(Debug)]
pub struct ViewMut<'a> {
    data: *mut u8,
    dtype: DType,
    layout: Layout,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: as for `View`; `ViewMut::new` makes its builder promise exclusive access, and the type
// is neither `Clone` nor `Copy`, so the right to write moves with it.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: a shared `&ViewMut` only shows pointer and layout.
unsafe impl Sync for ViewMut<'_> {}

impl<'a> ViewMut<'a> {
    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view is used, those elements are aligned for `dtype`, writable, and not
    /// read or written by anyone else; no two positions of `layout` share an element. They need
    /// not be initialised before a kernel writes them.
    pub unsafe fn new(data: *mut u8, dtype: DType, layout: Layout) -> ViewMut<'a> {
        ViewMut { data, dtype, layout, memory: PhantomData }
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
pub struct Span<'a> {
    data: *const u8,
    dtype: DType,
    elements: usize,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: as for `View`, of which it is made.
unsafe impl Send for Span<'_> {}
// SAFETY: as above.
unsafe impl Sync for Span<'_> {}

impl<'a> View<'a> {
    /// The elements as a span, with the same promise; `None` if they are not contiguous.
    pub fn span(&self) -> Option<Span<'a>> {
        let View { data, dtype, layout, memory } = *self;
        let elements = layout.shape.elements();
        layout.is_contiguous().then_some(Span { data, dtype, elements, memory })
    }
}

impl<'a> Span<'a> {
    /// The same, for as long as the caller says.
    ///
    /// # Safety
    /// What the builder of the span promised holds as long as the result is used.
    pub unsafe fn held(self) -> Span<'static> {
        let Span { data, dtype, elements, .. } = self;
        Span { data, dtype, elements, memory: PhantomData }
    }

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

    /// So many elements from the first of these on.
    ///
    /// # Safety
    /// They lie in the same memory, and what the builder of the span promised holds for all of them.
    pub unsafe fn over(self, elements: usize) -> Span<'a> {
        Span { elements, ..self }
    }

    /// Those of the elements that are in `range`, which is asserted to lie within.
    pub fn part(self, range: &Range<usize>) -> Span<'a> {
        assert!(range.start <= range.end && range.end <= self.elements);
        let data = self.data.wrapping_add(range.start * self.dtype.size());
        Span { data, elements: range.len(), ..self }
    }
}

impl<'a> ViewMut<'a> {
    /// The same, which has the right to write meanwhile.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        let ViewMut { data, dtype, layout, .. } = *self;
        ViewMut { data, dtype, layout, memory: PhantomData }
    }

    /// The same elements for reading, for a holder that may write them and does not meanwhile.
    pub fn reading(&self) -> View<'_> {
        let ViewMut { data, dtype, layout, .. } = *self;
        View { data, dtype, layout, memory: PhantomData }
    }

    /// The same, for as long as the caller says.
    ///
    /// # Safety
    /// What the builder of the view promised holds as long as the result is used.
    pub unsafe fn held(self) -> ViewMut<'static> {
        let ViewMut { data, dtype, layout, .. } = self;
        ViewMut { data, dtype, layout, memory: PhantomData }
    }
}

/// A view of contiguous elements that may be written, without a shape.
#[derive(Debug)]
pub struct SpanMut<'a> {
    data: *mut u8,
    dtype: DType,
    elements: usize,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: as for `ViewMut`, of which it is made.
unsafe impl Send for SpanMut<'_> {}
// SAFETY: a shared `&SpanMut` only shows pointer and length.
unsafe impl Sync for SpanMut<'_> {}

impl<'a> ViewMut<'a> {
    /// The elements as a span, with the same promise; `None` if they are not contiguous.
    pub fn into_span(self) -> Option<SpanMut<'a>> {
        let ViewMut { data, dtype, layout, memory } = self;
        let elements = layout.shape.elements();
        layout.is_contiguous().then_some(SpanMut { data, dtype, elements, memory })
    }
}

impl<'a> SpanMut<'a> {
    /// The same, for as long as the caller says.
    ///
    /// # Safety
    /// What the builder of the span promised holds as long as the result is used.
    pub unsafe fn held(self) -> SpanMut<'static> {
        let SpanMut { data, dtype, elements, .. } = self;
        SpanMut { data, dtype, elements, memory: PhantomData }
    }

    /// The first element.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// So many elements from the first of these on.
    ///
    /// # Safety
    /// They lie in the same memory, what the builder of the span promised holds for all of them, and as long as
    /// the result is used, nobody uses them by this span or another one.
    pub unsafe fn over(&self, elements: usize) -> SpanMut<'_> {
        SpanMut { data: self.data, dtype: self.dtype, elements, memory: PhantomData }
    }

    /// Those of the elements that are in `range`, which is asserted to lie within.
    ///
    /// # Safety
    /// As long as the result is used, nobody uses these elements by this span or another part of it.
    pub unsafe fn part(&self, range: &Range<usize>) -> SpanMut<'_> {
        assert!(range.start <= range.end && range.end <= self.elements);
        let data = self.data.wrapping_add(range.start * self.dtype.size());
        SpanMut { data, dtype: self.dtype, elements: range.len(), memory: PhantomData }
    }

    /// The same elements for reading, for a holder that may write them and does not meanwhile.
    pub fn reading(&self) -> Span<'_> {
        let SpanMut { data, dtype, elements, .. } = *self;
        Span { data, dtype, elements, memory: PhantomData }
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.elements
    }
}
