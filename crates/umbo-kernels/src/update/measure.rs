//! Sums over the elements of one variable's update before anything is updated: norms.
//!
//! A sum is float64, and the order of its additions depends only on the number of elements. Tiles
//! of 1024 elements are added in 16 interleaved lanes, and the lanes are added in halves. Tiles are
//! added in order within a chunk, and chunks in order within the variable. So the bits do not
//! depend on the threads or the instruction set.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::dtype::Element;
use crate::float::real::Real;
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, widest_for};
use crate::update::chunks::{ChunkSums, ChunkTotal, Chunks, LANES, Lanes, MOST_CHUNKS, total};
use crate::update::pass::UpdatePass;
use crate::update::tiles::Tile;
use umbo_executor::workers;

/// The terms that are added up over the elements. Implementations are marked `#[inline(always)]`;
/// inputs that they do not use are not read from memory.
pub trait Measure<const SLOTS: usize, const SUMS: usize>: Copy + Sync {
    /// The type of the elements.
    type Element: Real;

    /// The contribution of one element to each of the sums.
    fn of(
        self,
        weight: Self::Element,
        slots: [Self::Element; SLOTS],
        gradient: Self::Element,
    ) -> [f64; SUMS];
}

impl UpdatePass<'_> {
    /// The sums of `measure` over all elements, computed on the workers. The gradient is the one
    /// that an update would use, without the L2 term. Nothing is written or allocated.
    /// Asserted: the pass is over all of its elements. With [`UpdatePass::with_tile_sums`] the
    /// sums of each tile are stored, and the returned numbers are zeros.
    pub fn measure<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize>(
        &self,
        measure: M,
    ) -> [f64; SUMS] {
        assert!(self.is_whole());
        assert_eq!((self.dtype(), self.slots.len()), (M::Element::DTYPE, SLOTS));
        let bytes = self.sum().bytes() + (1 + SLOTS) * size_of::<M::Element>();
        let add_up = |chunks: Chunks, sums: &[ChunkSums<SUMS>]| {
            workers::for_each_task(
                chunks.count(),
                chunks.size.saturating_mul(bytes),
                &|range| {
                    for chunk in range {
                        let mut total = ChunkTotal::new();
                        chunks
                            .tiles_of(chunk)
                            .for_each(|tile| total.add(self.lanes(measure, tile)));
                        total.store(&sums[chunk]);
                    }
                },
            );
        };
        if let Some(tiles) = self.tile_sums() {
            add_up(Chunks::tiles(self.sum().elements), tiles.as_chunks().0);
            return [0.0; SUMS];
        }
        let sums = [const { [const { AtomicU64::new(0) }; SUMS] }; MOST_CHUNKS];
        add_up(Chunks::of(self.sum().elements), &sums);
        total(&sums)
    }

    /// The lanes of each sum over some elements.
    fn lanes<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize>(
        &self,
        measure: M,
        elements: Range<usize>,
    ) -> [Lanes; SUMS] {
        let mut lanes = [[0.0; LANES]; SUMS];
        self.only_reading(elements).run_tiles(&mut |tile| {
            dispatch(
                self.instructions(),
                MeasureTile {
                    tile,
                    measure,
                    lanes: &mut lanes,
                },
            );
        });
        lanes
    }
}

/// The contributions of a tile's elements to the lanes of the sums. The code that creates it
/// ensures that the tile is of the measure's type, and has its slots.
struct MeasureTile<'a, M, const SLOTS: usize, const SUMS: usize> {
    tile: &'a Tile<'a>,
    measure: M,
    lanes: &'a mut [Lanes; SUMS],
}

impl<M: Measure<SLOTS, SUMS>, const SLOTS: usize, const SUMS: usize> Kernel
    for MeasureTile<'_, M, SLOTS, SUMS>
{
    const WIDEST: InstructionSet = widest_for::<M::Element>();

    #[inline(always)]
    fn run(self, _: Instructions) {
        let MeasureTile {
            tile,
            measure,
            lanes,
        } = self;
        // SAFETY: a tile's pointers are to as many elements, all initialised, of the type that
        // `measure` asserted. Nobody writes them while the pass is borrowed.
        let elements = |first: *const u8| unsafe {
            std::slice::from_raw_parts(first.cast::<M::Element>(), tile.elements)
        };
        let (weights, last_weights) = elements(tile.weights).as_chunks::<LANES>();
        let (gradients, last_gradients) = elements(tile.gradient).as_chunks::<LANES>();
        let slots: [_; SLOTS] =
            std::array::from_fn(|slot| elements(tile.slots[slot]).as_chunks::<LANES>());
        let mut sums = *lanes;
        for (block, (weights, gradients)) in weights.iter().zip(gradients).enumerate() {
            let slots = slots.map(|(slot, _)| slot[block]);
            for lane in 0..LANES {
                let state = slots.each_ref().map(|slot| slot[lane]);
                let terms = measure.of(weights[lane], state, gradients[lane]);
                for (sums, term) in sums.iter_mut().zip(terms) {
                    sums[lane] += term;
                }
            }
        }
        for (lane, (weight, gradient)) in last_weights.iter().zip(last_gradients).enumerate() {
            let state = slots.map(|(_, last)| last[lane]);
            for (sums, term) in sums.iter_mut().zip(measure.of(*weight, state, *gradient)) {
                sums[lane] += term;
            }
        }
        *lanes = sums;
    }
}
