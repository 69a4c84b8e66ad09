//! Gradients that are written to memory. They are written tile by tile for an update that is not a formula, and as a
//! whole for a caller that reads them.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::kernels::dtype::DType;
use crate::kernels::float::gradient_element::GradientElement;
use crate::kernels::float::lanes::BLOCK;
use crate::kernels::float::real::{Real, for_gradient, for_real};
use crate::kernels::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, widest_for};
use crate::kernels::update::gradients::{GradientLoop, MakeGradients};
use crate::kernels::update::pass::{TILE, UpdatePass};
use crate::kernels::update::pass_loop::Traces;
use crate::kernels::update::weighted_sum::{Finish, WeightedSum};
use crate::kernels::view::SpanMut;

/// The most slots of an update that is not a formula.
pub const MOST_SLOTS: usize = 8;

/// Some neighbouring elements of one variable's update. All have the variable's dtype.
#[derive(Debug)]
pub struct Tile<'t> {
    /// The variable's dtype.
    pub dtype: DType,
    /// The index in the variable of the first element.
    pub start: usize,
    /// How many there are.
    pub elements: usize,
    /// The weights, which this tile alone may write.
    pub weights: *mut u8,
    /// The gradient: reduced, clipped, with the L2 term.
    pub gradient: *const u8,
    /// The slots, which this tile alone may write.
    pub slots: &'t [*mut u8],
}

/// Memory for the gradient of one tile.
#[repr(align(64))]
struct TileBuffer([f64; TILE]);

/// Writes the elements `range` of the gradient to `to`. The code that creates it ensures that the gradient has these
/// elements, that its contributions are of type `G`, and that `to` has memory for them.
struct WriteGradient<'a, G, T> {
    sum: &'a WeightedSum<'a>,
    finish: Finish<T>,
    range: Range<usize>,
    to: *mut T,
    /// The flag that is set if an element is not finite.
    not_finite: Option<&'a AtomicBool>,
    gradient: PhantomData<G>,
}

impl<G: GradientElement, T: Real> Kernel for WriteGradient<'_, G, T> {
    const WIDEST: InstructionSet = widest_for::<T>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let (sum, finish) = (self.sum, self.finish);
        sum.run::<G, T>(instructions, finish, true, self);
    }
}

impl<G: GradientElement, T: Real> GradientLoop<T> for WriteGradient<'_, G, T> {
    #[inline(always)]
    fn run<W: MakeGradients<T>>(self, instructions: Instructions, gradients: W) {
        let WriteGradient { range, mut to, not_finite, .. } = self;
        let mut traces = Traces::new();
        let mut start = range.start;
        while range.end - start >= BLOCK {
            // SAFETY: the elements are in the range, and the code that created this guaranteed the rest.
            unsafe {
                let block = gradients.block::<BLOCK>(instructions, start);
                traces.see_block(block);
                to.cast::<[T; BLOCK]>().write(block);
                to = to.add(BLOCK);
            }
            start += BLOCK;
        }
        while start < range.end {
            // SAFETY: as above.
            unsafe {
                let element = gradients.block::<1>(instructions, start);
                traces.see(element);
                to.write(element[0]);
                to = to.add(1);
            }
            start += 1;
        }
        traces.note(not_finite);
    }
}

impl WeightedSum<'_> {
    /// Writes the gradient to `to`, on this thread. Asserted: `to` is of the gradient's dtype and length.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements of `to` meanwhile.
    pub unsafe fn write_to(&self, instructions: Instructions, to: &SpanMut<'_>) {
        assert_eq!((to.dtype(), to.elements()), (self.dtype, self.elements));
        for_real!(self.dtype, T => for_gradient!(T, self.gradient_dtype, G => {
            let (finish, range) = (self.finish::<T>(), 0..self.elements);
            let (to, gradient) = (to.data().cast::<T>(), PhantomData::<G>);
            let write = WriteGradient { sum: self, finish, range, to, not_finite: None, gradient };
            dispatch(instructions, write);
        }));
    }
}

impl UpdatePass<'_> {
    /// Makes the gradient tile by tile, on this thread, and calls `update` with each tile. `update` changes weights
    /// and slots. Nothing is allocated. Asserted: there are at most [`MOST_SLOTS`] slots.
    pub fn run_tiles(&self, update: &mut dyn FnMut(&Tile<'_>)) {
        for_real!(self.dtype(), T => for_gradient!(T, self.sum().gradient_dtype, G => {
            self.tiles::<G, T>(update);
        }));
    }

    fn tiles<G: GradientElement, T: Real>(&self, update: &mut dyn FnMut(&Tile<'_>)) {
        let mut buffer = TileBuffer([0.0; TILE]);
        let to: *mut T = buffer.0.as_mut_ptr().cast();
        let mut tile = |start: usize, place: usize, elements: usize| {
            self.tile::<G, T>(to, start, place, elements, update);
        };
        match self.rows {
            None => self.in_tiles(TILE, |range| {
                for start in range.clone().step_by(TILE) {
                    tile(start, start, TILE.min(range.end - start));
                }
            }),
            Some(rows) => {
                self.check_rows(rows);
                let width = rows.elements;
                self.in_tiles((TILE / width.max(1)).max(1), |range| {
                    for position in range {
                        for done in (0..width).step_by(TILE) {
                            let place = rows.numbers[position] * width + done;
                            tile(position * width + done, place, TILE.min(width - done));
                        }
                    }
                });
            }
        }
    }

    /// The tile of `elements` elements: of the gradient from `start` on, and of weights and slots from `place` on.
    fn tile<G: GradientElement, T: Real>(
        &self,
        to: *mut T,
        start: usize,
        place: usize,
        elements: usize,
        update: &mut dyn FnMut(&Tile<'_>),
    ) {
        let (sum, finish) = (self.sum(), self.sum().finish::<T>());
        let (range, not_finite) = (start..start + elements, self.not_finite);
        let write =
            WriteGradient { sum, finish, range, to, not_finite, gradient: PhantomData::<G> };
        dispatch(self.instructions(), write);
        let at = |span: &SpanMut<'_>| span.data().cast::<T>().wrapping_add(place);
        let weights = at(self.weights());
        if self.l2 != 0.0 {
            let l2 = T::from_f64(self.l2);
            for index in 0..elements {
                // SAFETY: the tile lies in the weights, which this pass alone uses, and its gradient was just
                // written.
                unsafe {
                    let gradient = to.add(index);
                    gradient.write(gradient.read() + l2 * weights.add(index).read());
                }
            }
        }
        let mut slots = [std::ptr::null_mut(); MOST_SLOTS];
        for (pointer, slot) in slots[..self.slots.len()].iter_mut().zip(self.slots) {
            *pointer = at(slot).cast::<u8>();
        }
        update(&Tile {
            dtype: T::DTYPE,
            start: self.first + place,
            elements,
            weights: weights.cast(),
            gradient: to.cast_const().cast(),
            slots: &slots[..self.slots.len()],
        });
    }
}
