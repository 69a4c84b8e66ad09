//! Which element of its pass an element is: what ranks compare that read the same data, each to take its part.

use std::sync::Arc;

use crate::error::Result;
use crate::input::held::lacks_memory;
use crate::input::position::{Description, StateReader, StateWriter};
use crate::tensor::origin::{BatchShare, BatchSource, Origin};

/// Numbers the elements of a pass. Those that failed count.
pub(super) struct Numbering {
    round: u64,
    element: u64,
    /// What they are read from, if ranks compare it: as it is, and for a pass that has taken the place of
    /// another one, whose seeds it has.
    source: Option<[Arc<BatchSource>; 2]>,
    restored: bool,
}

impl Numbering {
    /// Of a pass of a pipeline like `pipeline`, if ranks compare that.
    pub(super) fn new(pipeline: Option<&Description>) -> Numbering {
        let source = pipeline.map(|pipeline| [pipeline.source(false), pipeline.source(true)]);
        Numbering {
            round: 0,
            element: 0,
            source: source.map(|both| both.map(Arc::new)),
            restored: false,
        }
    }

    /// A tensor that holds so many examples of a batch of `all`, which is the next element.
    pub(super) fn share(&self, examples: u64, all: u64) -> BatchShare {
        let origin = self.source.as_ref().map(|source| Origin {
            source: Arc::clone(&source[usize::from(self.restored)]),
            round: self.round,
            element: self.element,
            examples: all,
        });
        BatchShare { examples, origin }
    }

    /// Counts an element, also one that failed; what there was no memory for comes again.
    pub(super) fn count<T>(&mut self, next: Result<Option<T>>) -> Result<Option<T>> {
        let counts = !lacks_memory(&next) && !matches!(next, Ok(None));
        self.element += u64::from(counts);
        next
    }

    pub(super) fn restart(&mut self) {
        self.round += 1;
        self.element = 0;
    }

    pub(super) fn save(&self, to: &mut StateWriter) {
        to.push(self.round);
        to.push(self.element);
    }

    pub(super) fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.round = from.number()?;
        self.element = from.number()?;
        self.restored = true;
        Ok(())
    }
}
