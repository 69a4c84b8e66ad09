//! Batches cut anew.

use std::sync::Arc;

use crate::error::{Error, Result, memory};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::{Frame, LeafBuffer, Pool};
use crate::input::held::lacks_memory;
use crate::input::leaves::{Leaf, Leaves};
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::{Pass, Stage};
use crate::input::trail::{Saved, Trail, Wanted};
use crate::input::window::Window;
use crate::tensor::{Shape, Tensor};
use crate::values::Value;

impl Dataset {
    /// The rows of all batches as one stream, cut into batches of `sizes`, over and over again. A
    /// size of 0 makes a batch without rows. The last batch is smaller if rows are left over, and
    /// nothing follows it; with `drop_remainder` they are left out. Batches that lie within one of the dataset's are views
    /// of it, others are copied.
    ///
    /// INVALID_ARGUMENT: no sizes, a negative one, none above 0, elements with a scalar. While
    /// iterating, INVALID_ARGUMENT if the tensors of an element differ in their number of rows, or
    /// batches to be joined in anything else (what was taken is left out then), and
    /// RESOURCE_EXHAUSTED if there is no memory for a batch.
    pub fn rebatch(&self, sizes: &[i64], drop_remainder: bool) -> Result<Dataset> {
        let wrong = |problem: String| Error::invalid("sizes", problem);
        let given = memory::collect(sizes.iter().map(|&size| Ok(size)), "sizes")?;
        let again = move |input: &Dataset| input.rebatch(&given, drop_remainder);
        let sizes = sizes
            .iter()
            .map(|&size| usize::try_from(size).map_err(|_| wrong(format!("{size} is negative"))));
        let sizes = memory::collect(sizes, "sizes")?;
        let Some(&first) = sizes.first() else {
            return Err(wrong("none; give one or more".into()));
        };
        if sizes.iter().all(|&size| size == 0) {
            return Err(wrong("all are 0; batches of no rows never reach the end".into()));
        }
        let same = drop_remainder && sizes.iter().all(|&size| size == first);
        let spec = self.element_spec().map(&mut |leaf| {
            let Some((_, row)) = leaf.shape.split_first() else {
                return Err(Error::invalid(
                    "dataset",
                    format!("its elements contain a scalar ({leaf}), which has no rows"),
                ));
            };
            let shape = std::iter::once(same.then_some(first)).chain(row.iter().copied());
            Ok(ElementSpec::Leaf(LeafSpec { dtype: leaf.dtype, shape: shape.collect() }))
        })?;
        let rows = sizes.iter().all(|&size| size == first).then_some(first);
        let cardinality = match self.cardinality() {
            Cardinality::Endless => Cardinality::Endless,
            _ => Cardinality::Unknown,
        };
        let stage = Rebatch {
            sizes: Arc::new(sizes),
            drop_remainder,
            spec: spec.clone(),
            input: self.stream(),
        };
        let kind = Kind::Stream(Arc::new(stage));
        let cut = Dataset::new(spec, cardinality, kind).made_of([self])?;
        Ok(cut.batched_anew(self).remade_of(self, again).of_batches(rows))
    }
}

struct Rebatch {
    sizes: Arc<Vec<usize>>,
    drop_remainder: bool,
    spec: ElementSpec,
    input: Arc<dyn Stage<Value>>,
}

impl Stage<Value> for Rebatch {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        Ok(Box::new(RebatchPass {
            sizes: Arc::clone(&self.sizes),
            drop_remainder: self.drop_remainder,
            leaves: Leaves::of(&self.spec),
            spec: self.spec.clone(),
            turn: 0,
            ended: false,
            rest: None,
            pieces: Vec::new(),
            trail: Trail::default(),
            window: Window::new()?,
            input: self.input.start()?,
            pool: Pool::new(),
        }))
    }

    fn describe(&self, to: &mut Description) {
        let remainder = if self.drop_remainder { ", without a smaller last one" } else { "" };
        to.stage(format!("batches cut anew to {:?}{remainder}", self.sizes));
        self.input.describe(to);
    }
}

struct RebatchPass {
    sizes: Arc<Vec<usize>>,
    drop_remainder: bool,
    spec: ElementSpec,
    leaves: Leaves,
    /// Which of the sizes is next.
    turn: usize,
    /// Whether the rows have run out: no batch follows a smaller one, also if its size would be 0.
    ended: bool,
    /// What is left of the batch that is being cut.
    rest: Option<Piece>,
    /// What the next batch consists of, as far as it has been cut. It stays if the input fails, or if there
    /// is no memory for the batch.
    pieces: Vec<Piece>,
    /// The way to the batches that the pieces and the rest are cut of, each once.
    trail: Trail,
    window: Window,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
}

/// Rows `start` to before `stop` of a batch.
struct Piece {
    batch: Value,
    start: usize,
    stop: usize,
}

impl Piece {
    /// All rows of a batch.
    fn whole(batch: Value, leaves: &Leaves) -> Result<Piece> {
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
        Ok(Piece { batch, start: 0, stop: rows })
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
            true => self.trail.keep_last(),
            false => self.trail.clear(),
        }
    }

    /// The next piece, of `most` rows at most; nothing at the end.
    fn cut(&mut self, most: usize) -> Result<Option<Piece>> {
        while self.rest.as_ref().is_none_or(|rest| rest.rows() == 0) {
            self.rest = None;
            // The input can use again the batches that only idle elements of ours are views of.
            self.pool.release_idle();
            let Some(batch) = self.trail.next_apart(&mut *self.input)? else { return Ok(None) };
            match Piece::whole(batch, &self.leaves) {
                Ok(piece) if piece.rows() > 0 => self.rest = Some(piece),
                Ok(_) => self.trail.forget_last(),
                Err(error) => {
                    self.trail.forget_last();
                    return Err(error);
                }
            }
        }
        Ok(self.rest.as_mut().map(|rest| {
            let (batch, start) = (rest.batch.clone(), rest.start);
            rest.start += rest.rows().min(most);
            Piece { batch, start, stop: rest.start }
        }))
    }
}

impl Pass<Value> for RebatchPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let size = self.sizes[self.turn];
        let mut rows = self.pieces.iter().map(Piece::rows).sum::<usize>();
        while rows < size {
            let Some(piece) = self.cut(size - rows)? else { break };
            rows += piece.rows();
            self.pieces.push(piece);
        }
        let ends = rows < size;
        if ends && (rows == 0 || self.drop_remainder) {
            self.ended = true;
            self.let_go();
            return Ok(None);
        }
        let frame = self.pool.claim(|| Frame::new(&self.spec))?;
        let (leaves, pieces, window) = (&self.leaves, &self.pieces, &mut self.window);
        let filled = frame.fill(&mut |leaf, slot| match &pieces[..] {
            [] => empty(leaves.spec(&self.spec, leaf), slot),
            [piece] => {
                let source = leaves.tensor(&piece.batch, leaf)?;
                let (layout, offset) = source.layout().slice(0, piece.start, piece.stop, 1)?;
                slot.view(source, layout, offset)
            }
            pieces => join(pieces, leaves.at(leaf), rows, slot, window),
        });
        let element = filled.map(|()| frame.value());
        if !lacks_memory(&element) {
            self.ended = ends;
            self.let_go();
            self.turn = (self.turn + 1) % self.sizes.len();
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

    fn save(&self, to: &mut Mark) {
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
        self.trail.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.turn = from.index(self.sizes.len() - 1, "which size is next")?;
        self.ended = from.flag()?;
        let mut cuts = Vec::new();
        for _ in 0..from.number()? {
            cuts.push((from.number()? as usize, from.number()? as usize));
        }
        let rest = from.number()?;
        let rest = Some(rest).filter(|&rest| rest != u64::MAX);
        let saved = Saved::read(from)?;
        let held = cuts.len().max(usize::from(rest.is_some()));
        if saved.items() != held as u64 {
            return Err(unfit("the batches that are being cut are others"));
        }
        let (leaves, pieces) = (&self.leaves, &mut self.pieces);
        pieces.clear();
        let mut last = None;
        let mut cuts = cuts.into_iter();
        self.trail.restore(&saved, &mut *self.input, Wanted::All, &mut |batch| {
            let whole = Piece::whole(batch, leaves)?;
            if let Some((start, stop)) = cuts.next() {
                if start > stop || stop > whole.stop {
                    return Err(unfit("a batch that is being cut has fewer rows"));
                }
                pieces.push(Piece { batch: whole.batch.clone(), start, stop });
            }
            last = Some(whole);
            Ok(())
        })?;
        self.rest = match (last, rest) {
            (Some(whole), Some(start)) if start < whole.stop as u64 => {
                Some(Piece { start: start as usize, ..whole })
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

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// Makes a tensor without rows.
fn empty(spec: Option<&LeafSpec>, slot: &mut LeafBuffer<'_>) -> Result<()> {
    let spec = spec.ok_or_else(|| Error::Internal("a tensor without a spec".into()))?;
    slot.own(spec.dtype, spec.empty_shape()?, 0).map(drop)
}

/// Copies `rows` rows in pieces to a tensor.
fn join(
    pieces: &[Piece],
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
