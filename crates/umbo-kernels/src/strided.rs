//! Walking a strided layout in row-major order, as runs of equally spaced elements.

use std::ops::Range;

use crate::layout::{Layout, MAX_RANK};

#[cfg(test)]
mod tests;

/// The number of elements strided loops gather at a time. They fit in the first cache.
pub const TILE: usize = 256;

/// Runs an expression in which `$bytes` stands for a type of `$size` bytes, the size of an element.
macro_rules! for_size {
    ($size:expr, $bytes:ident => $body:expr) => {
        for_size!($size, $bytes => $body; 1 2 4 8)
    };
    ($size:expr, $bytes:ident => $body:expr; $($known:literal)*) => {
        match $size {
            $($known => {
                type $bytes = [u8; $known];
                $body
            })*
            other => unreachable!("no element has {other} bytes"),
        }
    };
}

/// A layout with as few axes as possible: axes of size 1 are left out, and two neighbouring axes
/// become one if the elements of the outer one follow each other without a gap. Positions are
/// numbered in row-major order, as in the layout.
#[derive(Clone, Copy)]
pub struct Runs {
    axes: usize,
    sizes: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
}

impl Runs {
    /// The runs of a layout.
    pub fn new(layout: &Layout) -> Runs {
        let mut runs = Runs {
            axes: 0,
            sizes: [1; MAX_RANK],
            strides: [1; MAX_RANK],
        };
        for (&size, &stride) in layout.shape.iter().zip(layout.strides()) {
            if size == 1 {
                continue;
            }
            if runs.axes > 0 && runs.strides[runs.axes - 1] == stride.wrapping_mul(size as isize) {
                runs.sizes[runs.axes - 1] *= size;
                runs.strides[runs.axes - 1] = stride;
            } else {
                runs.sizes[runs.axes] = size;
                runs.strides[runs.axes] = stride;
                runs.axes += 1;
            }
        }
        // A single element is a run of one.
        runs.axes = runs.axes.max(1);
        runs
    }

    /// Whether all positions lie densely, in order.
    pub fn is_dense(&self) -> bool {
        self.axes == 1 && self.strides[0] == 1
    }

    /// The sizes and strides of the axes, of which there is one at least.
    pub fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, isize)> {
        self.sizes[..self.axes]
            .iter()
            .copied()
            .zip(self.strides[..self.axes].iter().copied())
    }

    /// Calls `run(first, offset, stride, length)` for each run of the positions in `range`. A run
    /// is `length` positions from `range.start + first` on. Its elements begin at element
    /// `offset` and lie `stride` elements apart. The range lies within the layout.
    #[inline(always)]
    pub fn for_each(&self, range: Range<usize>, mut run: impl FnMut(usize, isize, isize, usize)) {
        if range.is_empty() {
            return;
        }
        let inner = self.axes - 1;
        let size = self.sizes[inner];
        let stride = self.strides[inner];
        let mut index = [0; MAX_RANK];
        let mut rest = range.start;
        let mut offset = 0;
        for axis in (0..self.axes).rev() {
            index[axis] = rest % self.sizes[axis];
            rest /= self.sizes[axis];
            offset += index[axis] as isize * self.strides[axis];
        }
        let mut done = 0;
        loop {
            let length = (size - index[inner]).min(range.len() - done);
            run(done, offset, stride, length);
            done += length;
            if done == range.len() {
                return;
            }
            offset -= index[inner] as isize * stride;
            index[inner] = 0;
            for axis in (0..inner).rev() {
                index[axis] += 1;
                offset += self.strides[axis];
                if index[axis] < self.sizes[axis] {
                    break;
                }
                offset -= index[axis] as isize * self.strides[axis];
                index[axis] = 0;
            }
        }
    }

    /// Copies the elements at `range`, of `size` bytes each, in order, to `to`. Only the size of
    /// elements that are moved counts: there is one loop for each size, which all kernels call.
    ///
    /// # Safety
    /// `data` is the first element of memory in which the layout lies, which may be read. `to` has
    /// room for the elements, and does not overlap with them.
    pub unsafe fn gather(&self, data: *const u8, size: usize, range: Range<usize>, to: *mut u8) {
        for_size!(size, T => {
            let data = data.cast::<T>();
            let to = to.cast::<T>();
            self.for_each(range, |first, offset, stride, length| {
                // SAFETY: the runs of a range lie in the layout; the caller's promise.
                unsafe { copy_run(data.offset(offset), stride, to.add(first), 1, length) };
            });
        });
    }

    /// Copies elements of `size` bytes each from `from`, in order, to those at `range`.
    ///
    /// # Safety
    /// `data` is the first element of memory in which the layout lies, which may be written. `from`
    /// has the elements, and does not overlap with them.
    pub unsafe fn scatter(&self, data: *mut u8, size: usize, range: Range<usize>, from: *const u8) {
        for_size!(size, T => {
            let data = data.cast::<T>();
            let from = from.cast::<T>();
            self.for_each(range, |first, offset, stride, length| {
                // SAFETY: as in `gather`.
                unsafe { copy_run(from.add(first), 1, data.offset(offset), stride, length) };
            });
        });
    }
}

/// Copies `length` elements, from each `from_stride`-th element to each `to_stride`-th.
///
/// # Safety
/// Both runs are valid, for reading and for writing, and do not overlap.
#[inline(always)]
unsafe fn copy_run<T: Copy>(
    from: *const T,
    from_stride: isize,
    to: *mut T,
    to_stride: isize,
    length: usize,
) {
    if from_stride == 1 && to_stride == 1 {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, length) };
        return;
    }
    for position in 0..length as isize {
        // SAFETY: the caller's promise.
        unsafe {
            to.offset(position * to_stride)
                .write(from.offset(position * from_stride).read())
        };
    }
}
