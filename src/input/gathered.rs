//! Elements that a pass takes of its input to make one of them.

use crate::error::Result;
use crate::error::memory;
use crate::input::batch::BatchParameters;
use crate::input::element_buffer::{BufferPool, ElementBuffer, Reusable};
use crate::input::held::lacks_memory;
use crate::input::numbering::Numbering;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};
use crate::input::replay_log::{ReplayLog, SavedLog, WantedItems};
use crate::input::spec::ElementSpec;
use crate::values::Value;

/// The elements of the batch or step at hand. They stay if the next one fails, or if there is no memory for what
/// is made of them.
#[derive(Default)]
pub(super) struct GatheredElements {
    pub(super) elements: Vec<Value>,
    replay: ReplayLog,
}

impl GatheredElements {
    /// Takes elements of `input` until there are `most`, or none follows. Whether there are as many.
    pub(super) fn fill(&mut self, most: usize, input: &mut dyn Pass<Value>) -> Result<bool> {
        while self.elements.len() < most {
            // Room first, so that an element is not lost for want of it.
            memory::reserve(&mut self.elements, 1, "elements of a batch")?;
            let Some(element) = self.replay.next(input)? else { return Ok(false) };
            self.elements.push(element);
        }
        Ok(true)
    }

    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.replay.clear();
    }

    pub(super) fn save(&self, input: &dyn Pass<Value>, to: &mut StateWriter) {
        self.replay.save(input, to);
    }

    /// Takes the elements, of which there are at most `most`, again.
    pub(super) fn restore(
        &mut self,
        most: usize,
        input: &mut dyn Pass<Value>,
        from: &mut StateReader<'_>,
    ) -> Result<()> {
        let saved = SavedLog::read(from)?;
        let elements = &mut self.elements;
        elements.clear();
        self.replay.restore(&saved, input, WantedItems::All, &mut |element| {
            if elements.len() == most {
                return Err(unfit(&format!("more than {most} elements of a batch")));
            }
            memory::reserve(elements, 1, "elements of a batch")?;
            elements.push(element);
            Ok(())
        })
    }
}

/// How one element is made of several.
pub(super) trait Make: Send + 'static {
    /// Whether what is made holds on to the elements that it was made of.
    const IS_VIEW: bool;

    /// Makes the element of `buffer` of `elements`, of which there is at least one.
    fn make(
        &mut self,
        elements: &[Value],
        numbering: &Numbering,
        buffer: &mut ElementBuffer,
    ) -> Result<()>;
}

/// A pass over elements like `spec`, of which `make` makes each of as many elements of `input` as `batch` says.
pub(super) fn start<M: Make>(
    batch: BatchParameters,
    spec: &ElementSpec,
    numbering: Numbering,
    make: M,
    mut input: Box<dyn Pass<Value>>,
) -> Box<dyn Pass<Value>> {
    if M::IS_VIEW {
        // Those of the element that the consumer has, and those that are gathered meanwhile.
        input.reserve(if batch.size > 1 { batch.size.saturating_mul(2) } else { 1 });
    }
    let (spec, taken, pool) = (spec.clone(), GatheredElements::default(), BufferPool::new());
    Box::new(GatherPass { batch, spec, taken, numbering, make, input, pool })
}

struct GatherPass<M> {
    batch: BatchParameters,
    spec: ElementSpec,
    taken: GatheredElements,
    numbering: Numbering,
    make: M,
    input: Box<dyn Pass<Value>>,
    pool: BufferPool<ElementBuffer>,
}

impl<M: Make> GatherPass<M> {
    fn gather(&mut self) -> Result<Option<Value>> {
        // The input can use again the elements that only idle ones of ours are views of.
        self.pool.release_idle();
        self.taken.fill(self.batch.size, &mut *self.input)?;
        if !self.batch.keeps(self.taken.elements.len()) {
            self.taken.clear();
            return Ok(None);
        }
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let made = self.make.make(&self.taken.elements, &self.numbering, buffer);
        if made.is_err() {
            // What is on its GPU already makes room for others meanwhile.
            buffer.release();
        }
        let made = made.map(|()| buffer.value());
        if !lacks_memory(&made) {
            self.taken.clear();
        }
        made.map(Some)
    }
}

impl<M: Make> Pass<Value> for GatherPass<M> {
    fn next(&mut self) -> Result<Option<Value>> {
        let next = self.gather();
        self.numbering.count(next)
    }

    fn restart(&mut self) -> Result<()> {
        self.numbering.restart();
        self.taken.clear();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        self.numbering.save(to);
        self.taken.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.numbering.restore(from)?;
        self.taken.restore(self.batch.size, &mut *self.input, from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let begun = self.taken.elements.len() as u64;
        self.taken.clear();
        let wanted = count.saturating_mul(self.batch.size as u64) - begun;
        let skipped = self.batch.batches(begun + self.input.skip(wanted)?);
        self.numbering.skip(skipped);
        Ok(skipped)
    }

    // The spec says which dtypes and ranks all elements have, and nothing else is required of them.
    fn passes_freely(&self) -> bool {
        self.input.passes_freely()
    }

    fn input(&mut self) -> Option<&mut dyn Pass<Value>> {
        Some(&mut *self.input)
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        if M::IS_VIEW {
            self.input.reserve(items.saturating_mul(self.batch.size));
        }
    }
}
