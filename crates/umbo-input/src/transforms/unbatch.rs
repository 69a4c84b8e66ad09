//! The rows of elements, each of which becomes an element.

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::element_buffer::{BufferPool, ElementBuffer};
use crate::elements::leaves::Leaves;
use crate::elements::spec::{ElementSpec, LeafSpec};
use crate::passes::given::{Given, Stop};
use crate::passes::pending_item::comes_again;
use crate::passes::position::{StateReader, StateWriter, unfit};
use crate::passes::replay_log::{ReplayLog, SavedLog};
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::{Batched, DatasetProperties};
use crate::transforms::rebatch::rows_of;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::Value;
use umbo_tensor::{Layout, Tensor};

impl Dataset {
    /// The rows of each element, in order: slices of its tensors along dimension 0, which are views
    /// of them. An element without rows makes none. The number of rows is known if that of the
    /// elements is and their spec has the size of dimension 0.
    ///
    /// INVALID_ARGUMENT: elements with a scalar, or whose spec has different sizes of dimension 0.
    /// While iterating: INVALID_ARGUMENT if the tensors of an element differ in their number of
    /// rows; the element is left out.
    pub fn unbatch(&self) -> Result<Dataset> {
        self.then(Unbatch)
    }
}

struct Unbatch;

impl Operation for Unbatch {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let first = inputs[0];
        let rows = rows_of_spec(&first.spec)?;
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(first.spec.map(&mut |leaf| {
            Ok(ElementSpec::Leaf(LeafSpec {
                dtype: leaf.dtype,
                shape: leaf.shape[1..].to_vec(),
            }))
        })?);
        properties.cardinality = match (first.cardinality, rows) {
            (Cardinality::Exact(0), _) => Cardinality::Exact(0),
            (Cardinality::Exact(count), Some(rows)) => count
                .checked_mul(rows as u64)
                .map_or(Cardinality::Unknown, Cardinality::Exact),
            (other, _) => other.of_unknown_end(),
        };
        properties.order.batch(false);
        properties.set_file_rows(None);
        properties.batched = first
            .batched
            .filter(|&times| times == Batched::Twice)
            .map(|_| Batched::Once);
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("unbatch")
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let spec = dataset.element_spec();
        Ok(Box::new(UnbatchPass {
            leaves: Leaves::of(spec),
            spec: spec.clone(),
            element: None,
            rows: 0,
            next: 0,
            replay: ReplayLog::default(),
            stop: Stop::default(),
            input: dataset.input().start()?,
            pool: BufferPool::new(),
        }))
    }
}

/// How many rows each element like `spec` has, if the spec says so.
fn rows_of_spec(spec: &ElementSpec) -> Result<Option<usize>> {
    let mut rows = None;
    let mut problem = None;
    spec.for_each_leaf(&mut |leaf| match leaf.shape.first() {
        None => {
            problem = Some(format!(
                "its elements contain a scalar ({leaf}), without rows"
            ))
        }
        Some(&size) => {
            if size.is_some() && rows.is_some() && size != rows {
                problem = Some(format!(
                    "the tensors of its elements, {spec}, differ in their number of rows"
                ));
            }
            rows = rows.or(size);
        }
    });
    match problem {
        Some(problem) => Err(Error::invalid("dataset", problem)),
        None => Ok(rows),
    }
}

struct UnbatchPass {
    spec: ElementSpec,
    leaves: Leaves,
    /// The element whose rows come next, if there is one.
    element: Option<Value>,
    /// How many rows it has, and which one is next.
    rows: usize,
    next: usize,
    /// The log that leads to it.
    replay: ReplayLog,
    /// Whether a request is still to be answered, and now.
    stop: Stop,
    input: Box<dyn IteratorStage<Value>>,
    pool: BufferPool<ElementBuffer>,
}

impl UnbatchPass {
    /// Takes the next element that has rows, unless there is one. Returns whether there is.
    fn fill(&mut self) -> Result<bool> {
        while self.element.is_none() {
            // Once the idle rows of this pass are released, the input can use the memory of the
            // elements they are views of.
            self.pool.release_idle();
            // The rows behind an element that failed come earlier than they would have.
            let element = self
                .replay
                .next_apart(&mut *self.input)
                .map_err(Error::shifting)?;
            let Some(element) = element else {
                return Ok(false);
            };
            match rows_of(&element, &self.leaves) {
                Ok(rows @ 1..) => (self.element, self.rows, self.next) = (Some(element), rows, 0),
                without => {
                    self.replay.forget_last();
                    without.map_err(Error::shifting)?;
                    self.stop.check()?;
                }
            }
        }
        Ok(true)
    }

    /// Advances by `rows` rows of the present element, which has as many left.
    fn pass(&mut self, rows: usize) {
        self.next += rows;
        if self.next == self.rows {
            self.element = None;
            self.next = 0;
            self.replay.forget_first(1);
        }
    }

    fn release(&mut self) {
        (self.element, self.next) = (None, 0);
        self.replay.clear();
    }
}

/// The layout of one row of a tensor, and the number of elements before it.
fn row_layout(tensor: &Tensor, row: usize) -> Result<(Layout, usize)> {
    let (rows, offset) = tensor.layout().slice(0, row, row + 1, 1)?;
    let layout = Layout::strided(rows.shape.without(0), &rows.strides()[1..])?;
    Ok((layout, offset))
}

impl IteratorStage<Value> for UnbatchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if !self.fill()? {
            return Ok(None);
        }
        let Some(element) = &self.element else {
            return Ok(None);
        };
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let filled = buffer.fill(&mut |leaf, slot| {
            let source = self.leaves.tensor(element, leaf)?;
            let (layout, offset) = row_layout(source, self.next)?;
            slot.view(source, layout, offset)
        });
        let row = filled.map(|()| buffer.value());
        if !comes_again(&row) {
            self.pass(1);
        }
        row.map(Some)
    }

    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        while *left > 0 {
            stop.check()?;
            if !self.fill()? {
                break;
            }
            let skipped = ((self.rows - self.next) as u64).min(*left);
            self.pass(skipped as usize);
            *left -= skipped;
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.release();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.next as u64);
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.release();
        let next = from.number()?;
        let saved = SavedLog::read(from)?;
        if saved.items() > 1 {
            return Err(unfit("the rows of more than one element come next"));
        }
        let leaves = &self.leaves;
        let mut held = None;
        self.replay
            .restore(&saved, &mut *self.input, &mut |element| {
                let rows = rows_of(&element, leaves)?;
                held = Some((element, rows));
                Ok(())
            })?;
        let rows = held.as_ref().map_or(1, |(_, rows)| *rows as u64);
        if next >= rows {
            return Err(unfit(&format!("row {next} of {rows} is the next one")));
        }
        if let Some((element, rows)) = held {
            (self.element, self.rows, self.next) = (Some(element), rows, next as usize);
        }
        Ok(())
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items);
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }

    fn announce(&mut self, given: &Given) {
        self.stop = given.stop();
        self.input.announce(given);
    }
}
