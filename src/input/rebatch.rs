//! Batches cut anew.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::element_buffer::{BufferPool, ElementBuffer, LeafBuffer};
use crate::input::held::lacks_memory;
use crate::input::leaves::{Leaf, Leaves};
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter, unfit};
use crate::input::replay_log::{ReplayLog, SavedLog, WantedItems};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::window::Window;
use crate::tensor::{Shape, Tensor};
use crate::values::Value;

#[derive(Clone)]
pub(super) struct Rebatch {
    pub(super) sizes: Arc<Vec<usize>>,
    pub(super) drop_remainder: bool,
}

impl fmt::Display for Rebatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remainder = if self.drop_remainder { ", without a smaller last one" } else { "" };
        write!(formatter, "batches cut anew to {:?}{remainder}", self.sizes)
    }
}

impl Rebatch {
    /// The rows of a full batch, if all have as many.
    pub(super) fn rows(&self) -> Option<usize> {
        let first = *self.sizes.first()?;
        self.sizes.iter().all(|&size| size == first).then_some(first)
    }

    /// The spec of what is cut of batches like `batch`. INVALID_ARGUMENT for scalars.
    pub(super) fn spec(&self, batch: &ElementSpec) -> Result<ElementSpec> {
        let rows = self.rows().filter(|_| self.drop_remainder);
        batch.map(&mut |leaf| {
            let Some((_, row)) = leaf.shape.split_first() else {
                return Err(Error::invalid(
                    "dataset",
                    format!("its elements contain a scalar ({leaf}), which has no rows"),
                ));
            };
            let shape = std::iter::once(rows).chain(row.iter().copied());
            Ok(ElementSpec::Leaf(LeafSpec { dtype: leaf.dtype, shape: shape.collect() }))
        })
    }

    /// A pass over elements like `spec`, cut of the batches of `input`.
    pub(super) fn start(
        &self,
        spec: &ElementSpec,
        input: Box<dyn Pass<Value>>,
    ) -> Result<Box<dyn Pass<Value>>> {
        Ok(Box::new(RebatchPass {
            rebatch: self.clone(),
            leaves: Leaves::of(spec),
            spec: spec.clone(),
            turn: 0,
            ended: false,
            rest: None,
            pieces: Vec::new(),
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
    /// Which of the sizes is next.
    turn: usize,
    /// Whether the rows have run out: no batch follows a smaller one, also if its size would be 0.
    ended: bool,
    /// What is left of the batch that is being cut.
    rest: Option<RowPiece>,
    /// What the next batch consists of, as far as it has been cut. It stays if the input fails, or if there
    /// is no memory for the batch.
    pieces: Vec<RowPiece>,
    /// The way to the batches that the pieces and the rest are cut of, each once.
    replay: ReplayLog,
    window: Window,
    input: Box<dyn Pass<Value>>,
    pool: BufferPool<ElementBuffer>,
}

/// Rows `start` to before `stop` of a batch.
struct RowPiece {
    batch: Value,
    start: usize,
    stop: usize,
}

impl RowPiece {
    /// All rows of a batch.
    fn whole(batch: Value, leaves: &Leaves) -> Result<RowPiece> {
        let rows = rows_of(leaves.tensor(&batch, 0)?)?;
        for leaf in 1..leaves.count() {
            let others = rows_of(leaves.tensor(&batch, leaf)?)?;
            if others != rows {
                return Err(Error::invalid(
                    "dataset",
                    format!(
                        "an element has {rows} rows in tensor 0 and {others} in tensor {leaf}; \
                         elements that are cut anew have the same number in each"
                    ),
                ));
            }
        }
        Ok(RowPiece { batch, start: 0, stop: rows })
    }

    fn rows(&self) -> usize {
        self.stop - self.start
    }
}

fn rows_of(tensor: &Tensor) -> Result<usize> {
    let rows = tensor.shape().first().copied();
    rows.ok_or_else(|| Error::invalid("dataset", "a scalar in an element, which has no rows"))
}

impl RebatchPass {
    /// Nothing is held any more but what is left of the batch that is being cut.
    fn let_go(&mut self) {
        self.pieces.clear();
        match self.rest.as_ref().is_some_and(|rest| rest.rows() > 0) {
            true => self.replay.keep_last(),
            false => self.replay.clear(),
        }
    }

    /// The next piece, of `most` rows at most; nothing at the end.
    fn cut(&mut self, most: usize) -> Result<Option<RowPiece>> {
        while self.rest.as_ref().is_none_or(|rest| rest.rows() == 0) {
            self.rest = None;
            // The input can use again the batches that only idle elements of ours are views of.
            self.pool.release_idle();
            let Some(batch) = self.replay.next_apart(&mut *self.input)? else { return Ok(None) };
            match RowPiece::whole(batch, &self.leaves) {
                Ok(piece) if piece.rows() > 0 => self.rest = Some(piece),
                Ok(_) => self.replay.forget_last(),
                Err(error) => {
                    self.replay.forget_last();
                    return Err(error);
                }
            }
        }
        Ok(self.rest.as_mut().map(|rest| {
            let (batch, start) = (rest.batch.clone(), rest.start);
            rest.start += rest.rows().min(most);
            RowPiece { batch, start, stop: rest.start }
        }))
    }
}

impl Pass<Value> for RebatchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let size = self.rebatch.sizes[self.turn];
        let mut rows = self.pieces.iter().map(RowPiece::rows).sum::<usize>();
        while rows < size {
            let Some(piece) = self.cut(size - rows)? else { break };
            rows += piece.rows();
            self.pieces.push(piece);
        }
        let ends = rows < size;
        if ends && (rows == 0 || self.rebatch.drop_remainder) {
            self.ended = true;
            self.let_go();
            return Ok(None);
        }
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let (leaves, pieces, window) = (&self.leaves, &self.pieces, &mut self.window);
        let filled = buffer.fill(&mut |leaf, slot| match &pieces[..] {
            [] => empty(leaves.spec(&self.spec, leaf), slot),
            [piece] => {
                let source = leaves.tensor(&piece.batch, leaf)?;
                let (layout, offset) = source.layout().slice(0, piece.start, piece.stop, 1)?;
                slot.view(source, layout, offset)
            }
            pieces => join(pieces, leaves.at(leaf), rows, slot, window),
        });
        let element = filled.map(|()| buffer.value());
        if !lacks_memory(&element) {
            self.ended = ends;
            self.let_go();
            self.turn = (self.turn + 1) % self.rebatch.sizes.len();
        }
        element.map(Some)
    }

    fn restart(&mut self) -> Result<()> {
        self.turn = 0;
        self.ended = false;
        self.rest = None;
        self.let_go();
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.turn as u64);
        to.push_flag(self.ended);
        to.push(self.pieces.len() as u64);
        for piece in &self.pieces {
            to.push(piece.start as u64);
            to.push(piece.stop as u64);
        }
        // No rows are left of it or some: of the last batch, in either case.
        let rest = self.rest.as_ref().filter(|rest| rest.rows() > 0);
        to.push(rest.map_or(u64::MAX, |rest| rest.start as u64));
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.turn = from.index(self.rebatch.sizes.len() - 1, "which size is next")?;
        self.ended = from.flag()?;
        let mut cuts = Vec::new();
        for _ in 0..from.number()? {
            cuts.push((from.number()? as usize, from.number()? as usize));
        }
        let rest = from.number()?;
        let rest = Some(rest).filter(|&rest| rest != u64::MAX);
        let saved = SavedLog::read(from)?;
        let held = cuts.len().max(usize::from(rest.is_some()));
        if saved.items() != held as u64 {
            return Err(unfit("the batches that are being cut are others"));
        }
        let (leaves, pieces) = (&self.leaves, &mut self.pieces);
        pieces.clear();
        let mut last = None;
        let mut cuts = cuts.into_iter();
        self.replay.restore(&saved, &mut *self.input, WantedItems::All, &mut |batch| {
            let whole = RowPiece::whole(batch, leaves)?;
            if let Some((start, stop)) = cuts.next() {
                if start > stop || stop > whole.stop {
                    return Err(unfit("a batch that is being cut has fewer rows"));
                }
                pieces.push(RowPiece { batch: whole.batch.clone(), start, stop });
            }
            last = Some(whole);
            Ok(())
        })?;
        self.rest = match (last, rest) {
            (Some(whole), Some(start)) if start < whole.stop as u64 => {
                Some(RowPiece { start: start as usize, ..whole })
            }
            (_, None) => None,
            _ => return Err(unfit("the batch that is being cut has fewer rows")),
        };
        Ok(())
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items);
    }

    fn input(&mut self) -> Option<&mut dyn Pass<Value>> {
        Some(&mut *self.input)
    }
}

/// Makes a tensor without rows.
fn empty(spec: Option<&LeafSpec>, slot: &mut LeafBuffer<'_>) -> Result<()> {
    let spec = spec.ok_or_else(|| Error::Internal("a tensor without a spec".into()))?;
    slot.own(spec.dtype, spec.empty_shape()?, 0).map(drop)
}

/// Copies `rows` rows in pieces to a tensor.
fn join(
    pieces: &[RowPiece],
    leaf: Leaf<'_>,
    rows: usize,
    slot: &mut LeafBuffer<'_>,
    window: &mut Window,
) -> Result<()> {
    let first = leaf.of(&pieces[0].batch)?;
    slot.own(first.dtype(), Shape::new(&first.shape().with_size(0, rows))?, 0)?;
    let target = slot.tensor();
    let mut position = 0;
    for piece in pieces {
        let source = leaf.of(&piece.batch)?;
        let (from, from_offset) = source.layout().slice(0, piece.start, piece.stop, 1)?;
        let (to, to_offset) = target.layout().slice(0, position, position + piece.rows(), 1)?;
        let copied = window.copy((source, from, from_offset), (target, to, to_offset));
        if lacks_memory(&copied) {
            return copied;
        }
        copied.map_err(|error| {
            Error::invalid("dataset", format!("batches that are to be joined differ: {error}"))
        })?;
        position += piece.rows();
    }
    Ok(())
}
