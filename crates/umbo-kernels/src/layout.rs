//! Shapes and strides: checked arithmetic over at most eight dimensions, without allocation.

use std::fmt;
use std::ops::Deref;

use crate::dtype::DType;
use umbo_base::error::Result;

/// The largest rank.
pub const MAX_RANK: usize = 8;

/// The sizes of up to eight dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    rank: u8,
    sizes: [usize; MAX_RANK],
}

impl Shape {
    /// A shape with these sizes. Refuses more than eight dimensions and element counts past
    /// `isize::MAX`, so that every later count of elements fits.
    pub fn new(sizes: &[usize]) -> Result<Shape> {
        if sizes.len() > MAX_RANK {
            return Err(invalid!(
                "shape",
                "{} dimensions; at most {MAX_RANK} are supported",
                sizes.len()
            ));
        }
        // A dimension of size 0 hides an overflow of the other dimensions. So it counts as 1 here:
        // slices and strides of such a shape must be representable too.
        let bound = sizes
            .iter()
            .try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
        if bound.is_none_or(|bound| bound > isize::MAX as usize) {
            let problem = match sizes.contains(&0) {
                true => "has no elements, but those of one of its other sizes lie further apart",
                false => "has more elements",
            };
            return Err(invalid!(
                "shape",
                "{sizes:?} {problem} than memory can address"
            ));
        }
        let mut shape = Shape {
            rank: sizes.len() as u8,
            ..Shape::default()
        };
        shape.sizes[..sizes.len()].copy_from_slice(sizes);
        Ok(shape)
    }

    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.iter().product()
    }

    /// Bytes of a contiguous tensor of this shape, refused if memory cannot address them.
    pub fn bytes(&self, dtype: DType) -> Result<usize> {
        let bytes = self.elements().checked_mul(dtype.size());
        bytes
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| {
                invalid!(
                    "shape",
                    "{self} of {dtype} is larger than memory can address"
                )
            })
    }

    /// This shape with dimension `axis` of size `size`.
    pub fn with_size(&self, axis: usize, size: usize) -> Shape {
        let mut shape = *self;
        shape.sizes[axis] = size;
        shape
    }

    /// This shape without dimension `axis`.
    pub fn without(&self, axis: usize) -> Shape {
        let mut shape = *self;
        shape.sizes.copy_within(axis + 1.., axis);
        shape.sizes[MAX_RANK - 1] = 0;
        shape.rank -= 1;
        shape
    }

    /// The coordinates of an element, by its number in row-major order: `[2, 0]`.
    pub fn coordinates(&self, element: usize) -> Vec<usize> {
        let mut rest = element;
        let mut coordinates = self.to_vec();
        for coordinate in coordinates.iter_mut().rev() {
            let size = (*coordinate).max(1);
            (*coordinate, rest) = (rest % size, rest / size);
        }
        coordinates
    }

    /// `axis` counted from the front; negative values count from the back.
    pub fn axis(&self, axis: i64) -> Result<usize> {
        let rank = self.rank() as i64;
        let counted = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&counted) {
            Ok(counted as usize)
        } else {
            Err(out_of_range!(
                "axis",
                "{axis} is not in [-{rank}, {rank}), the axes of shape {self}"
            ))
        }
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[..self.rank()]
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A shape and, for each axis, the distance between neighbours in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The sizes.
    pub shape: Shape,
    strides: [isize; MAX_RANK],
}

impl Layout {
    /// The layout of so many elements, at most `isize::MAX`, one after the other, in one dimension.
    #[inline]
    pub(crate) fn line(elements: usize) -> Layout {
        let mut layout = Layout {
            shape: Shape::default(),
            strides: [0; MAX_RANK],
        };
        layout.shape.rank = 1;
        layout.shape.sizes[0] = elements;
        layout.strides[0] = 1;
        layout
    }

    /// A contiguous row-major layout.
    pub fn row_major(shape: Shape) -> Layout {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1isize;
        for axis in (0..shape.rank()).rev() {
            strides[axis] = stride;
            stride *= shape[axis].max(1) as isize;
        }
        Layout { shape, strides }
    }

    /// A layout with these strides, in elements. Refuses strides that reach before the first
    /// element or past what memory can address.
    pub fn strided(shape: Shape, strides: &[isize]) -> Result<Layout> {
        if strides.len() != shape.rank() {
            return Err(invalid!(
                "strides",
                "{} strides for {} dimensions",
                strides.len(),
                shape.rank()
            ));
        }
        let mut layout = Layout {
            shape,
            strides: [0; MAX_RANK],
        };
        layout.strides[..strides.len()].copy_from_slice(strides);
        if strides.iter().any(|&stride| stride < 0) {
            return Err(invalid!(
                "strides",
                "{strides:?}; negative strides are not supported"
            ));
        }
        layout.checked_extent().ok_or_else(|| {
            invalid!(
                "strides",
                "{strides:?} reach further than memory can address"
            )
        })?;
        Ok(layout)
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides[..self.shape.rank()]
    }

    fn checked_extent(&self) -> Option<usize> {
        if self.shape.elements() == 0 {
            return Some(0);
        }
        let mut last = 0usize;
        for (&size, &stride) in self.shape.iter().zip(self.strides()) {
            last = last.checked_add((size - 1).checked_mul(stride as usize)?)?;
        }
        last.checked_add(1)
            .filter(|&extent| extent <= isize::MAX as usize)
    }

    /// The number of elements of memory the layout spans, from its first to its last.
    pub fn extent(&self) -> usize {
        self.checked_extent().unwrap_or(0)
    }

    /// Whether the elements lie densely in row-major order; those of an empty layout do.
    pub fn is_contiguous(&self) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        let mut expected = 1isize;
        for (&size, &stride) in self.shape.iter().zip(self.strides()).rev() {
            if size != 1 {
                if stride != expected {
                    return false;
                }
                expected *= size as isize;
            }
        }
        true
    }

    /// Whether two positions may share an element. In the order of their strides, each axis must
    /// step past everything that the axes before it reach. A layout that interleaves without
    /// sharing also counts as overlapping: finding out the difference is a hard number problem,
    /// and nobody makes such layouts.
    pub fn has_overlap(&self) -> bool {
        if self.shape.elements() == 0 {
            return false;
        }
        let axes = self
            .strides()
            .iter()
            .copied()
            .zip(self.shape.iter().copied());
        // Most layouts are in that order from the last axis to the first.
        if !may_share(axes.clone().rev()) {
            return false;
        }
        let mut in_order = [(0, 1); MAX_RANK];
        for (place, axis) in in_order.iter_mut().zip(axes.filter(|axis| axis.1 > 1)) {
            *place = axis;
        }
        in_order.sort_unstable();
        may_share(in_order.into_iter())
    }

    /// Takes every `step`-th position along `axis`, from `start` to before `stop`. Returns the
    /// layout, and the distance in elements between the first element of this layout and the
    /// first of the result.
    pub fn slice(
        &self,
        axis: usize,
        start: usize,
        stop: usize,
        step: usize,
    ) -> Result<(Layout, usize)> {
        let size = self.shape[axis];
        if step == 0 {
            return Err(invalid!("step", "0; steps are 1 or more"));
        }
        if start > stop || stop > size {
            return Err(out_of_range!(
                "start, stop",
                "[{start}, {stop}) is not within [0, {size}), dimension {axis} of shape {}",
                self.shape
            ));
        }
        let mut layout = *self;
        layout.shape = self.shape.with_size(axis, (stop - start).div_ceil(step));
        let step = isize::try_from(step).unwrap_or(isize::MAX);
        layout.strides[axis] = self.strides[axis].saturating_mul(step);
        let offset = if layout.shape.elements() == 0 {
            0
        } else {
            start * self.strides[axis] as usize
        };
        Ok((layout, offset))
    }

    /// The same elements with the axes in another order.
    pub fn transpose(&self, axes: &[usize]) -> Result<Layout> {
        let rank = self.shape.rank();
        let mut seen = [false; MAX_RANK];
        let permutation = axes.len() == rank
            && axes
                .iter()
                .all(|&axis| axis < rank && !std::mem::replace(&mut seen[axis], true));
        if !permutation {
            return Err(invalid!(
                "axes",
                "{axes:?} is not an order of the axes of shape {}; name each of its axes once",
                self.shape
            ));
        }
        let mut layout = *self;
        for (to, &from) in axes.iter().enumerate() {
            layout.shape.sizes[to] = self.shape[from];
            layout.strides[to] = self.strides[from];
        }
        Ok(layout)
    }
}

/// Whether positions of these axes, each a stride and a size, may share an element: an axis does
/// not step past everything that the axes before it reach.
fn may_share(axes: impl Iterator<Item = (isize, usize)>) -> bool {
    let mut reach = 0;
    axes.filter(|&(_, size)| size > 1).any(|(stride, size)| {
        let overlaps = stride <= reach;
        reach += stride * (size as isize - 1);
        overlaps
    })
}
