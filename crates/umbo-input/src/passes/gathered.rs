//! Passes that make each element of several elements of an input.

use crate::elements::element_buffer::{BufferPool, ElementBuffer, Reusable};
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::batch_counter::BatchCounter;
use crate::passes::pending_item::comes_again;
use crate::passes::position::{StateReader, StateWriter, unfit};
use crate::passes::replay_log::{ReplayLog, SavedLog};
use crate::transforms::batch_parameters::BatchParameters;
use umbo_base::error::memory::reserve;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::Value;

/// The name of these elements in the message if there is no memory for them.
const GATHERED: &str = "elements of a batch";

/// How one element is made of several.
pub(crate) trait Make: Send + 'static {
    /// Whether the result refers to the elements of which it was made.
    const IS_VIEW: bool;

    /// Makes the element in `buffer` of `elements`, of which there is at least one.
    fn make(
        &mut self,
        elements: &[Value],
        numbering: &BatchCounter,
        buffer: &mut ElementBuffer,
    ) -> Result<()>;
}

/// Starts a pass over elements like `spec`. `make` makes each of them of as many elements of
/// `input` as `batch` says.
pub(crate) fn start<M: Make>(
    batch: BatchParameters,
    spec: &ElementSpec,
    numbering: BatchCounter,
    make: M,
    mut input: Box<dyn IteratorStage<Value>>,
) -> Box<dyn IteratorStage<Value>> {
    // The gathered elements; and, for views, also those of the element that the consumer holds.
    let elements = if M::IS_VIEW { 2 } else { 1 };
    input.reserve(if batch.size > 1 {
        batch.size.saturating_mul(elements)
    } else {
        1
    });
    let spec = spec.clone();
    Box::new(GatherPass {
        batch,
        spec,
        taken: Vec::new(),
        replay: ReplayLog::default(),
        numbering,
        make,
        input,
        pool: BufferPool::new(),
    })
}

struct GatherPass<M> {
    batch: BatchParameters,
    spec: ElementSpec,
    /// The elements of the current batch or step. They stay if the next one fails, or if there is
    /// no memory for the result.
    taken: Vec<Value>,
    replay: ReplayLog,
    numbering: BatchCounter,
    make: M,
    input: Box<dyn IteratorStage<Value>>,
    pool: BufferPool<ElementBuffer>,
}

impl<M: Make> GatherPass<M> {
    fn gather(&mut self) -> Result<Option<Value>> {
        // Once the idle elements of this pass are released, the input can use the memory of the
        // elements they referred to.
        self.pool.release_idle();
        while self.taken.len() < self.batch.size {
            // The memory is reserved first, so that no element is lost if there is none.
            reserve(&mut self.taken, 1, GATHERED)?;
            let element = self.replay.next(&mut *self.input);
            // The elements behind one that failed come a place earlier than they would have.
            let element = if self.batch.size > 1 {
                element.map_err(Error::shifting)
            } else {
                element
            };
            let Some(element) = element? else { break };
            self.taken.push(element);
        }
        if !self.batch.keeps(self.taken.len()) {
            self.release();
            return Ok(None);
        }
        self.numbering.note(&mut *self.input);
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let made = self.make.make(&self.taken, &self.numbering, buffer);
        if made.is_err() {
            // Meanwhile, the parts that are already on their GPUs release memory for other
            // elements.
            buffer.release();
        }
        let made = made.map(|()| buffer.value());
        if !comes_again(&made) {
            self.release();
        }
        made.map(Some)
    }

    fn release(&mut self) {
        self.taken.clear();
        self.replay.clear();
    }
}

impl<M: Make> IteratorStage<Value> for GatherPass<M> {
    fn next(&mut self) -> Result<Option<Value>> {
        let next = self.gather();
        self.numbering.count(next)
    }

    fn restart(&mut self) -> Result<()> {
        self.numbering.restart();
        self.release();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        self.numbering.save(to);
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.numbering.restore(from)?;
        let saved = SavedLog::read(from)?;
        let taken = &mut self.taken;
        let most = self.batch.size;
        taken.clear();
        self.replay
            .restore(&saved, &mut *self.input, &mut |element| {
                if taken.len() == most {
                    return Err(unfit(&format!("more than {most} elements of a batch")));
                }
                reserve(taken, 1, GATHERED)?;
                taken.push(element);
                Ok(())
            })
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        if M::IS_VIEW {
            self.input.reserve(items.saturating_mul(self.batch.size));
        }
    }
}
