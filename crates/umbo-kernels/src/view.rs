//! Plain views of memory, which kernels work on.
//!
//! A view borrows memory, as a slice does. Unlike a slice, its element type is known only at run
//! time. Some structures keep views beside the owner of their memory, and Rust's types cannot
//! express this borrow. For them, [`View::held`] and similar functions remove the borrow.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

use ndarray::{ArrayView2, ArrayViewD, IxDyn, ShapeBuilder};

use crate::dtype::{DType, Element};
use crate::layout::Layout;

/// Elements in memory that the CPU can address: their start, and their layout.
///
/// The builder of a view guarantees that the memory may be used (see [`View::new`]). Kernels do not
/// check it.
#[derive(Clone, Copy, Debug)]
pub struct Elements<Start, Extent> {
    start: Start,
    dtype: DType,
    extent: Extent,
}

/// The start of memory that is read.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a>(*const u8, PhantomData<&'a [u8]>);

/// The start of memory that may be written.
#[derive(Debug)]
pub struct Exclusive<'a>(*mut u8, PhantomData<&'a mut [u8]>);

// SAFETY: a pointer. The builder of a view guarantees in `View::new` that the memory may be read
// for as long as the view is used, and from any thread.
unsafe impl Send for Shared<'_> {}
// SAFETY: as for `Send`; sharing it shares only the right to read.
unsafe impl Sync for Shared<'_> {}
// SAFETY: as for `Shared`; `ViewMut::new` makes its builder promise exclusive access, and the type
// is neither `Clone` nor `Copy`, so the right to write moves with it.
unsafe impl Send for Exclusive<'_> {}
// SAFETY: a shared reference only lets others read the pointer.
unsafe impl Sync for Exclusive<'_> {}

/// A read-only view of elements.
pub type View<'a> = Elements<Shared<'a>, Layout>;

/// A view of elements that may be written.
pub type ViewMut<'a> = Elements<Exclusive<'a>, Layout>;

/// A read-only view of contiguous elements, without a shape. It is small, so that thousands can be
/// kept and copied.
pub type Span<'a> = Elements<Shared<'a>, usize>;

/// A view of contiguous elements that may be written, without a shape.
pub type SpanMut<'a> = Elements<Exclusive<'a>, usize>;

impl<Start, Extent> Elements<Start, Extent> {
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
}

impl<Start> Elements<Start, Layout> {
    /// The shape and the strides.
    pub fn layout(&self) -> &Layout {
        &self.extent
    }
}

impl<Start> Elements<Start, usize> {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.extent
    }
}

impl<'a, Extent> Elements<Shared<'a>, Extent> {
    /// The first element.
    pub fn data(&self) -> *const u8 {
        self.start.0
    }

    /// The same view, with a lifetime that the caller chooses.
    ///
    /// # Safety
    /// The promise of the view's builder holds as long as the result is used.
    pub unsafe fn held(self) -> Elements<Shared<'static>, Extent> {
        let Elements {
            start: Shared(data, _),
            dtype,
            extent,
        } = self;
        Elements {
            start: Shared(data, PhantomData),
            dtype,
            extent,
        }
    }
}

impl<'a, Extent: Copy> Elements<Exclusive<'a>, Extent> {
    /// The first element.
    pub fn data(&self) -> *mut u8 {
        self.start.0
    }

    /// The same view, with a lifetime that the caller chooses.
    ///
    /// # Safety
    /// The promise of the view's builder holds as long as the result is used.
    pub unsafe fn held(self) -> Elements<Exclusive<'static>, Extent> {
        let Elements {
            start: Exclusive(data, _),
            dtype,
            extent,
        } = self;
        Elements {
            start: Exclusive(data, PhantomData),
            dtype,
            extent,
        }
    }

    /// The same elements for reading. The holder, which may write them, does not do so meanwhile.
    pub fn reading(&self) -> Elements<Shared<'_>, Extent> {
        let Elements {
            start: Exclusive(data, _),
            dtype,
            extent,
        } = *self;
        Elements {
            start: Shared(data, PhantomData),
            dtype,
            extent,
        }
    }
}

impl<'a> View<'a> {
    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view or a copy of it is used, those elements are initialised, aligned for
    /// `dtype`, readable from any thread, and not written by anyone else at the same time.
    pub unsafe fn new(data: *const u8, dtype: DType, layout: Layout) -> View<'a> {
        Elements {
            start: Shared(data, PhantomData),
            dtype,
            extent: layout,
        }
    }

    /// The elements as a span, with the same guarantee; `None` if they are not contiguous.
    pub fn span(&self) -> Option<Span<'a>> {
        let Elements {
            start,
            dtype,
            extent: layout,
        } = *self;
        let extent = layout.shape.elements();
        layout.is_contiguous().then_some(Elements {
            start,
            dtype,
            extent,
        })
    }

    /// The elements as a slice, if they are contiguous and of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        if self.dtype != T::DTYPE || !self.extent.is_contiguous() {
            return None;
        }
        let elements = self.extent.shape.elements();
        if elements == 0 {
            return Some(&[]);
        }
        // SAFETY: the builder of the view promised `elements` initialised, aligned and unwritten
        // elements from `data` on for as long as the view lives, and the slice borrows the view.
        Some(unsafe { std::slice::from_raw_parts(self.data().cast(), elements) })
    }

    /// The elements as bytes in the machine's order, if they are contiguous.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if !self.extent.is_contiguous() {
            return None;
        }
        let bytes = self.extent.shape.elements() * self.dtype.size();
        if bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: as in `as_slice`; elements of all types are bytes without padding.
        Some(unsafe { std::slice::from_raw_parts(self.data(), bytes) })
    }

    /// The elements as an array, if they are of type `T`. bool elements are bytes, 0 or 1.
    pub fn as_array<T: Element>(&self) -> Option<ArrayViewD<'a, T>> {
        let are_bytes = self.dtype == DType::Bool && T::DTYPE == DType::UInt8;
        if self.dtype != T::DTYPE && !are_bytes {
            return None;
        }
        let shape = IxDyn(&self.extent.shape);
        let strides: Vec<usize> = self
            .extent
            .strides()
            .iter()
            .map(|&step| step as usize)
            .collect();
        // SAFETY: the builder of the view promised that all positions of the layout are
        // initialised, aligned and unwritten for as long as the view lives, and the array borrows
        // the view. Layouts have no negative strides and their extent fits in an `isize`.
        Some(unsafe {
            ArrayViewD::from_shape_ptr(shape.strides(IxDyn(&strides)), self.data().cast::<T>())
        })
    }

    /// The elements as a matrix, if they are of type `T` and have one dimension (a column) or two.
    /// bool elements are bytes. Returns `None` also if there are no elements. Allocates
    /// nothing.
    pub fn as_matrix<T: Element>(&self) -> Option<ArrayView2<'a, T>> {
        let are_bytes = self.dtype == DType::Bool && T::DTYPE == DType::UInt8;
        let (shape, strides) = match (&*self.extent.shape, self.extent.strides()) {
            (&[rows], &[step]) => ((rows, 1), (step as usize, 1)),
            (&[rows, columns], &[step, next]) => ((rows, columns), (step as usize, next as usize)),
            _ => return None,
        };
        if (self.dtype != T::DTYPE && !are_bytes) || shape.0 == 0 || shape.1 == 0 {
            return None;
        }
        // SAFETY: as in `as_array`.
        Some(unsafe { ArrayView2::from_shape_ptr(shape.strides(strides), self.data().cast::<T>()) })
    }
}

impl<'a> ViewMut<'a> {
    /// A view of the elements that `layout` reaches from `data` on.
    ///
    /// # Safety
    /// As long as the view is used, those elements are aligned for `dtype`, writable, and not
    /// read or written by anyone else; no two positions of `layout` share an element. They need
    /// not be initialised before a kernel writes them.
    pub unsafe fn new(data: *mut u8, dtype: DType, layout: Layout) -> ViewMut<'a> {
        Elements {
            start: Exclusive(data, PhantomData),
            dtype,
            extent: layout,
        }
    }

    /// The same view, borrowed from this one. It has the right to write as long as it is used.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        let Elements {
            start: Exclusive(data, _),
            dtype,
            extent,
        } = *self;
        Elements {
            start: Exclusive(data, PhantomData),
            dtype,
            extent,
        }
    }

    /// The elements as a span, with the same guarantee; `None` if they are not contiguous.
    pub fn into_span(self) -> Option<SpanMut<'a>> {
        let Elements {
            start,
            dtype,
            extent: layout,
        } = self;
        let extent = layout.shape.elements();
        layout.is_contiguous().then_some(Elements {
            start,
            dtype,
            extent,
        })
    }
}

impl<'a> Span<'a> {
    /// The elements as a view of one dimension, with the same guarantee.
    #[inline]
    pub fn as_view(&self) -> View<'a> {
        Elements {
            start: self.start,
            dtype: self.dtype,
            extent: Layout::line(self.extent),
        }
    }

    /// Bytes as numbers of type `dtype`. Asserts that they are aligned for it.
    pub fn of_bytes(bytes: &'a [u8], dtype: DType) -> Span<'a> {
        assert!(dtype != DType::Bool && bytes.as_ptr().addr().is_multiple_of(dtype.size()));
        let start = Shared(bytes.as_ptr(), PhantomData);
        Elements {
            start,
            dtype,
            extent: bytes.len() / dtype.size(),
        }
    }

    /// A span of `elements` elements, from the first of this span on.
    ///
    /// # Safety
    /// They lie in the same memory, and what the builder of the span promised holds for all of
    /// them.
    pub unsafe fn over(self, elements: usize) -> Span<'a> {
        Elements {
            extent: elements,
            ..self
        }
    }

    /// The elements of this span that are in `range`. Asserts that the range lies within.
    pub fn part(self, range: &Range<usize>) -> Span<'a> {
        assert!(range.start <= range.end && range.end <= self.extent);
        let data = self.data().wrapping_add(range.start * self.dtype.size());
        Elements {
            start: Shared(data, PhantomData),
            extent: range.len(),
            ..self
        }
    }
}

impl<'a> SpanMut<'a> {
    /// Bytes as numbers of type `dtype` that may be written. Asserts that they are aligned for it.
    pub fn of_bytes(bytes: &'a mut [u8], dtype: DType) -> SpanMut<'a> {
        let extent = Span::of_bytes(bytes, dtype).extent;
        Elements {
            start: Exclusive(bytes.as_mut_ptr(), PhantomData),
            dtype,
            extent,
        }
    }

    /// A span of `elements` elements, from the first of this span on.
    ///
    /// # Safety
    /// They lie in the same memory, what the builder of the span promised holds for all of them,
    /// and as long as the result is used, nobody uses them by this span or another one.
    pub unsafe fn over(&self, elements: usize) -> SpanMut<'_> {
        let start = Exclusive(self.data(), PhantomData);
        Elements {
            start,
            dtype: self.dtype,
            extent: elements,
        }
    }

    /// The elements as a view of one dimension, which has the right to write as long as it is used.
    #[inline]
    pub fn as_view(&mut self) -> ViewMut<'_> {
        Elements {
            start: Exclusive(self.start.0, PhantomData),
            dtype: self.dtype,
            extent: Layout::line(self.extent),
        }
    }

    /// Writes the elements of `from` to this span. Asserts that they are as many, of the same type.
    pub fn copy_from(&mut self, from: &Span<'_>) {
        assert_eq!((from.dtype, from.extent), (self.dtype, self.extent));
        let bytes = self.extent * self.dtype.size();
        // SAFETY: both are as long. Nobody else uses this span's elements, so that they are others
        // than those of `from`.
        unsafe { ptr::copy_nonoverlapping(from.start.0, self.start.0, bytes) };
    }

    /// The elements of this span that are in `range`. Asserts that the range lies within.
    ///
    /// # Safety
    /// As long as the result is used, nobody uses these elements by this span or another part of
    /// it.
    pub unsafe fn part(&self, range: &Range<usize>) -> SpanMut<'a> {
        assert!(range.start <= range.end && range.end <= self.extent);
        let data = self.data().wrapping_add(range.start * self.dtype.size());
        let start = Exclusive(data, PhantomData);
        Elements {
            start,
            dtype: self.dtype,
            extent: range.len(),
        }
    }
}
