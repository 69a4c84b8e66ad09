//! Batches that are cut into batches of other sizes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::dataset::{Dataset, Operation};
use crate::elements::element_buffer::{BufferPool, ElementBuffer, LeafBuffer};
use crate::elements::leaves::{LeafOf, Leaves};
use crate::elements::spec::{ElementSpec, LeafSpec};
use crate::elements::window::{RowWindow, Window};
use crate::passes::pending_item::comes_again;
use crate::passes::position::{StateReader, StateWriter, unfit};
use crate::passes::replay_log::{ReplayLog, SavedLog};
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::{Batched, DatasetProperties};
use umbo_base::error::{Error, Result, memory};
use umbo_tensor::values::Value;
use umbo_tensor::{Shape, Tensor};

impl Dataset {
    /// Treats the rows of all batches as one stream and cuts it into batches of `sizes`, in turn,
    /// again and again. A size of 0 makes a batch without rows. The last batch is smaller if
    /// rows are left over, and no batch follows it. With `drop_remainder` these rows are left
    /// out. A batch that lies within one batch of the dataset is a view of it. Other batches
    /// are copied.
    ///
    /// INVALID_ARGUMENT: no sizes, a negative one, none above 0, elements with a scalar. While
    /// iterating: INVALID_ARGUMENT if the tensors of an element differ in their number of rows,
    /// or if batches to be joined differ in anything else (the batches that were taken are then
    /// left out), and RESOURCE_EXHAUSTED if there is no memory for a batch.
    pub fn rebatch(&self, sizes: &[i64], drop_remainder: bool) -> Result<Dataset> {
        let wrong = |problem: String| Error::invalid("row_counts", problem);
        let sizes = sizes
            .iter()
            .map(|&size| usize::try_from(size).map_err(|_| wrong(format!("{size} is negative"))));
        let sizes = memory::collect(sizes, "row_counts")?;
        if sizes.is_empty() {
            return Err(wrong("none; give one or more".into()));
        }
        if sizes.iter().all(|&size| size == 0) {
            return Err(wrong(
                "all are 0; batches of no rows never reach the end".into(),
            ));
        }
        self.then(Rebatch {
            sizes: Arc::new(sizes),
            drop_remainder,
        })
    }
}

#[derive(Clone)]
struct Rebatch {
    sizes: Arc<Vec<usize>>,
    drop_remainder: bool,
}

impl Rebatch {
    /// The rows of a full batch, if all sizes are equal.
    fn rows(&self) -> Option<usize> {
        let first = *self.sizes.first()?;
        self.sizes
            .iter()
            .all(|&size| size == first)
            .then_some(first)
    }

    /// The spec of batches that are cut from batches like `batch`. INVALID_ARGUMENT for scalars.
    fn spec(&self, batch: &ElementSpec) -> Result<ElementSpec> {
        let rows = self.rows().filter(|_| self.drop_remainder);
        batch.map(&mut |leaf| {
            if leaf.shape.is_empty() {
                let problem = format!("its elements contain a scalar ({leaf}), which has no rows");
                return Err(Error::invalid("dataset", problem));
            }
            Ok(ElementSpec::Leaf(leaf.with_rows(rows)))
        })
    }
}

impl Operation for Rebatch {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let first = inputs[0];
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(self.spec(&first.spec)?);
        properties.order.batch(false);
        properties.cardinality = first.cardinality.of_unknown_end();
        properties.set_file_rows(self.rows());
        properties.batched = first
            .batched
            .filter(|&times| times == Batched::Twice)
            .or(Some(Batched::Once));
        Ok(properties)
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("rebatch")
            .with("sizes", &self.sizes[..])
            .with("drop_remainder", self.drop_remainder)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let spec = dataset.element_spec();
        let input = dataset.input().start()?;
        Ok(Box::new(RebatchPass {
            rebatch: self.clone(),
            leaves: Leaves::of(spec),
            spec: spec.clone(),
            turn: 0,
            ended: false,
            batches: VecDeque::new(),
            start: 0,
            replay: ReplayLog::default(),
            window: Window::new()?,
            input,
            pool: BufferPool::new(),
        }))
    }
}

struct RebatchPass {
    rebatch: Rebatch,
    spec: ElementSpec,
    leaves: Leaves,
    /// The position of the next size.
    turn: usize,
    /// Whether the rows are used up. No batch follows a smaller one, not even one of size 0.
    ended: bool,
    /// The batches that are being cut, and the number of rows of each, which is at least 1.
    batches: VecDeque<(Value, usize)>,
    /// The number of rows of the first batch that were already returned.
    start: usize,
    /// The log that leads to these batches. Each has a segment of its own.
    replay: ReplayLog,
    window: Window,
    input: Box<dyn IteratorStage<Value>>,
    pool: BufferPool<ElementBuffer>,
}

/// The rows [`start`, `stop`) of a batch.
struct RowPiece<'a> {
    batch: &'a Value,
    start: usize,
    stop: usize,
}

/// How many rows an element has.
pub(crate) fn rows_of(element: &Value, leaves: &Leaves) -> Result<usize> {
    let of_leaf = |leaf| {
        let rows = leaves.tensor(element, leaf)?.shape().first().copied();
        rows.ok_or_else(|| invalid!("dataset", "a scalar in an element, which has no rows"))
    };
    let rows = of_leaf(0)?;
    for leaf in 1..leaves.count() {
        let others = of_leaf(leaf)?;
        if others != rows {
            return Err(invalid!(
                "dataset",
                "an element has {rows} rows in tensor 0 and {others} in tensor {leaf}; elements \
                 that are cut anew have the same number in each"
            ));
        }
    }
    Ok(rows)
}

/// The next `rows` rows of `batches`. The first `start` rows were already returned.
fn pieces(
    batches: &VecDeque<(Value, usize)>,
    mut start: usize,
    mut rows: usize,
) -> impl Iterator<Item = RowPiece<'_>> {
    batches.iter().map_while(move |(batch, of_batch)| {
        let stop = (start + rows).min(*of_batch);
        let piece = RowPiece { batch, start, stop };
        rows -= stop - start;
        start = 0;
        (piece.start < stop).then_some(piece)
    })
}

impl RebatchPass {
    /// Takes batches until they have `most` rows to return, or until the input ends. Returns the
    /// number of these rows.
    fn fill(&mut self, most: usize) -> Result<usize> {
        let of_all = self.batches.iter().map(|(_, rows)| rows);
        let mut rows = of_all.sum::<usize>() - self.start;
        while rows < most {
            // Once the idle elements of this pass are released, the input can use the memory of the
            // batches they referred to.
            self.pool.release_idle();
            // The rows behind a batch that failed come earlier than they would have.
            let batch = self
                .replay
                .next_apart(&mut *self.input)
                .map_err(Error::shifting)?;
            let Some(batch) = batch else { break };
            match rows_of(&batch, &self.leaves) {
                Ok(more @ 1..) => {
                    self.batches.push_back((batch, more));
                    rows += more;
                }
                failed => {
                    self.replay.forget_last();
                    failed.map_err(Error::shifting)?;
                }
            }
        }
        Ok(rows.min(most))
    }

    /// Advances by `rows` rows, which were returned or left out.
    fn pass(&mut self, rows: usize) {
        self.start += rows;
        let held = self.batches.len();
        while let Some((_, first)) = self
            .batches
            .front()
            .filter(|(_, first)| *first <= self.start)
        {
            self.start -= first;
            self.batches.pop_front();
        }
        self.replay.forget_first(held - self.batches.len());
    }

    fn release(&mut self) {
        self.start = 0;
        self.batches.clear();
        self.replay.clear();
    }
}

impl IteratorStage<Value> for RebatchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let size = self.rebatch.sizes[self.turn];
        let rows = self.fill(size)?;
        let ends = rows < size;
        if ends && (rows == 0 || self.rebatch.drop_remainder) {
            self.ended = true;
            self.release();
            return Ok(None);
        }
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let leaves = &self.leaves;
        let window = &mut self.window;
        let pieces = || pieces(&self.batches, self.start, rows);
        let filled = buffer.fill(&mut |leaf, slot| match (pieces().next(), pieces().nth(1)) {
            (None, _) => empty(leaves.spec(&self.spec, leaf), slot),
            (Some(piece), None) => {
                let source = leaves.tensor(piece.batch, leaf)?;
                let (layout, offset) = source.layout().slice(0, piece.start, piece.stop, 1)?;
                slot.view(source, layout, offset)
            }
            (Some(first), _) => {
                let leaf_of: LeafOf<'_> = &|batch| leaves.tensor(batch, leaf);
                join(leaf_of(first.batch)?, pieces(), leaf_of, rows, slot, window)
            }
        });
        let element = filled.map(|()| buffer.value());
        if !comes_again(&element) {
            self.ended = ends;
            self.pass(rows);
            self.turn = (self.turn + 1) % self.rebatch.sizes.len();
        }
        element.map(Some)
    }

    fn restart(&mut self) -> Result<()> {
        self.turn = 0;
        self.ended = false;
        self.release();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.turn as u64);
        to.push_flag(self.ended);
        to.push(self.start as u64);
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.turn = from.index(self.rebatch.sizes.len() - 1, "which size is next")?;
        self.ended = from.flag()?;
        let start = from.number()?;
        let saved = SavedLog::read(from)?;
        if !saved.is_apart() {
            return Err(unfit(
                "batches that are being cut have no places of their own",
            ));
        }
        let leaves = &self.leaves;
        let batches = &mut self.batches;
        batches.clear();
        self.replay
            .restore(&saved, &mut *self.input, &mut |batch| {
                match rows_of(&batch, leaves)? {
                    0 => return Err(unfit("a batch that is being cut has no rows")),
                    rows => batches.push_back((batch, rows)),
                }
                Ok(())
            })?;
        let fits = batches
            .front()
            .map_or(start == 0, |(_, rows)| start < *rows as u64);
        self.start = start as usize;
        fits.then_some(())
            .ok_or_else(|| unfit("the batch that is being cut has fewer rows"))
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items);
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }
}

/// Makes a tensor without rows.
fn empty(spec: Option<&LeafSpec>, slot: &mut LeafBuffer<'_>) -> Result<()> {
    let spec = spec.ok_or_else(|| Error::Internal("a tensor without a spec".into()))?;
    slot.own(spec.dtype, spec.empty_shape()?, 0).map(drop)
}

/// Copies `rows` rows, which come in pieces, to a tensor like `first`.
fn join<'a>(
    first: &Tensor,
    pieces: impl Iterator<Item = RowPiece<'a>>,
    leaf_of: LeafOf<'_>,
    rows: usize,
    slot: &mut LeafBuffer<'_>,
    window: &mut Window,
) -> Result<()> {
    slot.own(
        first.dtype(),
        Shape::new(&first.shape().with_size(0, rows))?,
        0,
    )?;
    let target = slot.tensor();
    let mut position = 0;
    for RowPiece { batch, start, stop } in pieces {
        let source = leaf_of(batch)?;
        let next = position + stop - start;
        let rows = |tensor, start, stop| -> Result<RowWindow<'_>> {
            let (layout, offset) = Tensor::layout(tensor).slice(0, start, stop, 1)?;
            Ok(RowWindow {
                tensor,
                layout,
                offset,
            })
        };
        let copied = window.copy(rows(source, start, stop)?, rows(target, position, next)?);
        if comes_again(&copied) {
            return copied;
        }
        copied.map_err(|error| {
            invalid!("dataset", "batches that are to be joined differ: {error}")
        })?;
        position = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each batch that is being cut has a segment, which goes when the batch is used up.
    #[test]
    fn batches_in_one_segment_are_refused() {
        let batches = Dataset::range(0, 8, 1).unwrap().batch(2, false).unwrap();
        let mut beginning = StateWriter::default();
        batches.start().unwrap().save(&mut beginning);
        let next_after_restoring = |items: u64| {
            let mut state = StateWriter::default();
            // The turn, whether the rows have ended, the first row; then one segment, behind which
            // the input is.
            [0, 0, 0, 1, items, 0]
                .into_iter()
                .for_each(|number| state.push(number));
            state.append(&beginning);
            [1, 0].into_iter().for_each(|number| state.push(number));
            let mut pass = batches.rebatch(&[3], false)?.start()?;
            pass.restore(&mut StateReader::new(state.numbers()?))?;
            pass.next()
        };
        let batch = next_after_restoring(1).unwrap().unwrap();
        assert_eq!(
            batch.tensor_of(0).unwrap().to_vec::<i64>().unwrap(),
            [0, 1, 2]
        );
        let refused = next_after_restoring(2).unwrap_err().to_string();
        assert!(refused.contains("no places of their own"), "{refused}");
    }
}
