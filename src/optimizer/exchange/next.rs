//! What a rank is about to accumulate of its own part of dense gradients.
//!
//! Where the number of replicas in sync was chosen, runs are added up over all ranks one after the other,
//! in the order of the replicas: each rank has the sums of its part, the same part in each run.

#![expect(unsafe_code, reason = "sums are written where an apply reads them")]

use super::buffers::Words;
use super::parts::{Place, copy, span};
use crate::executor::pieces::Pieces;
use crate::kernels::dtype::DType;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::measure::{Chunks, Squares};
use crate::kernels::update::weighted_sum::WeightedSum;
use crate::optimizer::sources::Sources;

/// The sums of this rank's part once the last run counts, too.
#[derive(Default)]
pub(super) struct Next {
    pub places: Vec<Place>,
    pub sums: Words,
}

impl Next {
    /// The first variable of which a gradient made of these sums is not finite.
    pub fn not_finite(&self, sources: &Sources<'_>) -> Option<usize> {
        let is_not_finite = |place: &&Place| {
            let elements = place.range.len();
            let chunks = Chunks::of(elements);
            let mut sums = Vec::new();
            sums.resize_with(chunks.count(), Default::default);
            let sum = span(&self.sums.bytes()[place.bytes.clone()], DType::Float64);
            let gradient = WeightedSum::new(place.dtype, elements, &[], sources.divisor)
                .starting_from(Some(sum));
            let mut pieces = Pieces::default();
            pieces.push(elements, chunks.size, size_of::<f64>());
            pieces.for_each_share(1, &|share| {
                for (_, part) in share.parts() {
                    // SAFETY: nothing is kept, so nothing is written.
                    unsafe {
                        let instructions = Instructions::chosen();
                        gradient.measure_squares(instructions, (chunks, &part), &sums, None, false);
                    }
                }
            });
            !Squares::of_chunks(&sums).finite
        };
        self.places.iter().find(is_not_finite).map(|place| place.index)
    }

    /// Puts the sums where they are accumulated. There is memory for them.
    pub fn put(&self, sources: &mut Sources<'_>) {
        for Place { index, range, bytes, .. } in &self.places {
            sources.accumulation.claim(*index);
            let Some(sum) = sources.accumulation.memory(*index) else { continue };
            // SAFETY: who has the accumulation, as `sources` has, is alone with the sums.
            unsafe {
                let from = span(&self.sums.bytes()[bytes.clone()], DType::Float64);
                copy(from, &sum.part(range));
            }
        }
    }
}
