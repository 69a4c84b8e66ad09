//! The number of an element in its pass. Ranks that read the same data and take their own parts
//! compare these numbers.

use std::sync::Arc;

use crate::distribution::sample;
use crate::passes::IteratorStage;
use crate::passes::pending_item::comes_again;
use crate::passes::position::{Description, Rounds, StateReader, StateWriter};
use umbo_base::error::Result;
use umbo_tensor::Tensor;
use umbo_tensor::origin::{BatchShare, BatchSource, Origin};

/// Numbers the elements of a pass. Elements that failed are counted too.
pub(crate) struct BatchCounter {
    round: u64,
    element: u64,
    /// The source of the elements, if ranks compare it, in two forms: for a pass with seeds of its
    /// own, and for a restored pass, which has the seeds of its position.
    source: Option<[Arc<BatchSource>; 2]>,
    restored: bool,
    /// The rounds of the input after the elements of which the next one is made, if ranks compare
    /// it.
    rounds: Rounds,
    /// The number of elements of each round in which ranks also compare a sample of the rows.
    sampled: u64,
}

impl BatchCounter {
    /// Starts a numbering for a pass of `pipeline`, if ranks compare pipelines. In the first
    /// `sampled` elements of each round they also compare a sample of the rows.
    pub(crate) fn new(pipeline: Option<&Description>, sampled: u64) -> BatchCounter {
        let source = pipeline.map(|pipeline| [pipeline.source(false), pipeline.source(true)]);
        BatchCounter {
            round: 0,
            element: 0,
            source: source.map(|both| both.map(Arc::new)),
            restored: false,
            rounds: Rounds::default(),
            sampled,
        }
    }

    /// The checksum of a sample of a tensor of the next batch, if ranks compare it.
    pub(crate) fn checksum(&self, whole: &Tensor) -> Result<Option<u32>> {
        let is_compared = self.source.is_some() && self.element < self.sampled;
        is_compared
            .then(|| sample::checksum(self.element, whole))
            .transpose()
    }

    /// The share of a tensor that holds `examples` of the `all` examples of the next batch.
    /// `checksum` is that of the tensor in the whole batch.
    pub(crate) fn share(&self, examples: u64, all: u64, checksum: Option<u32>) -> BatchShare {
        let origin = self.source.as_ref().map(|source| Origin {
            source: Arc::clone(&source[usize::from(self.restored)]),
            round: self.round,
            element: self.element,
            shuffles: self.rounds.of_shuffles(),
            examples: all,
            checksum,
        });
        BatchShare { examples, origin }
    }

    /// Notes the rounds of `input`, which has made what the next element is made of.
    pub(crate) fn note<T>(&mut self, input: &mut dyn IteratorStage<T>) {
        if self.source.is_some() {
            self.rounds.clear();
            input.rounds(&mut self.rounds);
        }
    }

    /// Counts an element, also one that failed. An element that comes again is not counted. A
    /// restored number may be any, so that the sum saturates.
    pub(crate) fn count<T>(&mut self, next: Result<Option<T>>) -> Result<Option<T>> {
        let counts = !comes_again(&next) && !matches!(next, Ok(None));
        self.element = self.element.saturating_add(u64::from(counts));
        next
    }

    pub(crate) fn restart(&mut self) {
        self.round = self.round.saturating_add(1);
        self.element = 0;
    }

    pub(crate) fn save(&self, to: &mut StateWriter) {
        to.push(self.round);
        to.push(self.element);
    }

    pub(crate) fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.round = from.number()?;
        self.element = from.number()?;
        self.restored = true;
        Ok(())
    }
}
