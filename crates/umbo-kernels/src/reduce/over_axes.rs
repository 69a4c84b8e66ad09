//! Reduction over axes of each replica's part, then over replicas.
//!
//! The order of additions depends only on the shapes. The elements of one result are numbered in
//! row-major order. Tiles of 1024 elements are added in 16 interleaved lanes, and the lanes are
//! added in halves. Tiles are added in order within a chunk, chunks within a part, and parts in
//! replica order. The result does not depend on which threads compute which chunks, or on the order
//! in which memory is walked.

use std::mem::MaybeUninit;
use std::ops::Range;

use half::{bf16, f16};
use parking_lot::Mutex;

use crate::dtype::DType;
use crate::float::half_precision::{f64_to_bf16, f64_to_f16};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::layout::{Layout, MAX_RANK};
use crate::reduce::addends::{Key, Number, for_small};
use crate::reduce::extremes::Ordered;
use crate::reduce::over_replicas::check_output;
use crate::reduce::reduction::ReduceOp;
use crate::strided::Runs;
use crate::update::chunks::{Chunks, MOST_CHUNKS, TILE};
use crate::view::{View, ViewMut};
use umbo_base::error::Result;
use umbo_executor::workers;

/// The axes that are reduced.
pub type AxisMask = [bool; MAX_RANK];

/// Interleaved sums within a tile: two vectors of float64 for AVX-512.
const LANES: usize = 16;

/// The number of results that are computed next to each other.
const COLUMNS: usize = 64;

/// Writes the sum, the mean or an extreme over the `reduced` axes of all `inputs`, and over the
/// inputs, to `output`. The shape of `output` is that of the other axes. The mean divides by the
/// number of elements that were added, over all inputs; an empty input adds nothing to it. All
/// floats accumulate in float64. Integers wrap (SUM) or are added exactly (MEAN). The result is
/// rounded once.
///
/// Fails with INVALID_ARGUMENT if there is no input, if inputs differ in dtype, rank or the sizes
/// of axes that are not reduced, if the output does not fit, for a sum or mean of bool, and for an
/// extreme of no elements.
pub fn reduce_over_axes(
    instructions: Instructions,
    op: ReduceOp,
    inputs: &[View],
    reduced: &AxisMask,
    output: &mut ViewMut,
) -> Result<()> {
    let first = inputs
        .first()
        .ok_or_else(|| invalid!("value", "no components"))?;
    check_output(op, first.dtype(), output.dtype())?;
    let mut parts = Vec::with_capacity(inputs.len());
    for input in inputs {
        let part = AxesInput::new(input, reduced)?;
        if input.dtype() != first.dtype() || part.kept() != &*output.layout().shape {
            return Err(invalid!(
                "value",
                "a component of {} and shape {} does not reduce to the output's shape {}",
                input.dtype(),
                input.layout().shape,
                output.layout().shape
            ));
        }
        parts.push(part);
    }

    // Empty parts may have counts whose sum overflows an integer. A float64 is precise enough for
    // the sum.
    let count: f64 = parts.iter().map(|part| part.count as f64).sum();
    match op {
        ReduceOp::Min => return choose::<false>(instructions, op, &parts, output),
        ReduceOp::Max => return choose::<true>(instructions, op, &parts, output),
        ReduceOp::Sum | ReduceOp::Mean => {}
    }
    // The same loops serve SUM and MEAN, which differ in what becomes of a sum. A float divided by
    // one is the float.
    let divisor = if op == ReduceOp::Sum { 1.0 } else { count };
    macro_rules! reduce {
        ($number:ty, $result:ty, |$sum:ident| $finish:expr) => {
            reduce::<$number>(instructions, &parts, output, &|sums, results| {
                let results = results.cast::<$result>();
                for (column, &$sum) in sums.iter().enumerate() {
                    // SAFETY: the caller of the closure guarantees memory for as many results as
                    // there are sums.
                    unsafe { results.add(column).write($finish) };
                }
            })
        };
    }
    use DType as D;
    match (op, first.dtype()) {
        (_, D::Float16) => reduce!(f32, f16, |sum| f64_to_f16(sum / divisor)),
        (_, D::BFloat16) => reduce!(f32, bf16, |sum| f64_to_bf16(sum / divisor)),
        (_, D::Float32) => reduce!(f32, f32, |sum| (sum / divisor) as f32),
        (_, D::Float64) => reduce!(f64, f64, |sum| sum / divisor),
        (ReduceOp::Sum, D::Int8 | D::UInt8) => reduce!(i64, u8, |sum| sum as u8),
        (ReduceOp::Sum, D::Int16 | D::UInt16) => reduce!(i64, u16, |sum| sum as u16),
        (ReduceOp::Sum, D::Int32 | D::UInt32) => reduce!(i64, u32, |sum| sum as u32),
        (ReduceOp::Sum, D::Int64 | D::UInt64) => reduce!(i64, i64, |sum| sum),
        // A float64 has more than twice the digits of a float32, so a quotient of numbers that
        // float32 holds exactly may be rounded to it first.
        (ReduceOp::Mean, D::Int8 | D::UInt8 | D::Int16 | D::UInt16) => {
            reduce!(i64, f32, |sum| (sum as f64 / divisor) as f32)
        }
        (ReduceOp::Mean, D::Int32 | D::UInt32 | D::Int64 | D::UInt64) => {
            reduce!(i128, f64, |sum| sum as f64 / divisor)
        }
        (ReduceOp::Min | ReduceOp::Max, _) => unreachable!("they were chosen"),
        (_, D::Bool) => unreachable!("`check_output` refused it"),
    }
    Ok(())
}

/// MIN; if `LARGEST` is true, MAX.
fn choose<const LARGEST: bool>(
    instructions: Instructions,
    op: ReduceOp,
    parts: &[AxesInput<'_>],
    output: &ViewMut,
) -> Result<()> {
    if parts.iter().all(|part| part.count == 0) && output.layout().shape.elements() > 0 {
        return Err(invalid!(
            "value",
            "all components are empty along the reduced axes, and no elements have no {}; give it \
             an element on one replica, or leave the reduction out",
            op.name()
        ));
    }
    macro_rules! choose {
        ($key:ty, $element:ty) => {
            reduce::<Key<$key, LARGEST>>(instructions, parts, output, &|keys, results| {
                let results = results.cast::<$element>();
                for (column, &Key(key)) in keys.iter().enumerate() {
                    let key = key as <$element as Ordered>::Key;
                    // SAFETY: the caller of the closure guarantees memory for as many results as
                    // there are keys.
                    unsafe {
                        results
                            .add(column)
                            .write(<$element>::of_key::<LARGEST>(key))
                    };
                }
            })
        };
    }
    let dtype = parts[0].view.dtype();
    match dtype {
        DType::Float32 => choose!(f32, f32),
        DType::Float64 => choose!(f64, f64),
        DType::Int64 => choose!(i64, i64),
        DType::UInt64 => choose!(i64, u64),
        small => for_small!(small, T => choose!(i32, T)),
    }
    Ok(())
}

/// One replica's input.
struct AxesInput<'a> {
    view: &'a View<'a>,
    /// The layout with the kept axes first and the reduced axes after them.
    layout: Layout,
    kept_axes: usize,
    /// The number of elements one result has.
    count: usize,
    /// The runs, in the order of `walk`.
    runs: Runs,
    walk: Walk,
}

/// The order in which memory is walked. It does not change the order of additions.
#[derive(Clone, Copy)]
enum Walk {
    /// Result by result: position `result * count + element`.
    Results,
    /// Across neighbouring results: position `element * results + result`.
    Across { results: usize },
}

impl<'a> AxesInput<'a> {
    fn new(view: &'a View, reduced: &AxisMask) -> Result<AxesInput<'a>> {
        let layout = view.layout();
        let rank = layout.shape.rank();
        let mut axes = [0; MAX_RANK];
        let order = (0..rank).filter(|&axis| !reduced[axis]);
        let kept_axes = order.clone().count();
        let order = order.chain((0..rank).filter(|&axis| reduced[axis]));
        axes.iter_mut().zip(order).for_each(|(to, axis)| *to = axis);
        let by_result = layout.transpose(&axes[..rank])?;
        let count = by_result.shape[kept_axes..].iter().product();
        let results: usize = by_result.shape[..kept_axes].iter().product();

        // The walk follows neighbours in memory.
        let nearest = |axes: Range<usize>| {
            let sized = axes.filter(|&axis| by_result.shape[axis] > 1);
            sized
                .map(|axis| by_result.strides()[axis])
                .min()
                .unwrap_or(isize::MAX)
        };
        let across = results >= 16 && nearest(0..kept_axes) < nearest(kept_axes..rank);
        let (runs, walk) = if across {
            axes[..rank].rotate_left(kept_axes);
            (
                Runs::new(&layout.transpose(&axes[..rank])?),
                Walk::Across { results },
            )
        } else {
            (Runs::new(&by_result), Walk::Results)
        };
        Ok(AxesInput {
            view,
            layout: by_result,
            kept_axes,
            count,
            runs,
            walk,
        })
    }

    /// The sizes of the axes that are not reduced.
    fn kept(&self) -> &[usize] {
        &self.layout.shape[..self.kept_axes]
    }

    /// How the elements of each result are cut into chunks.
    fn chunks(&self) -> Chunks {
        Chunks::of(self.count)
    }
}

/// `finish` writes the results of some sums, of the type of `output`, to memory for as many.
fn reduce<N: Number>(
    instructions: Instructions,
    parts: &[AxesInput<'_>],
    output: &ViewMut,
    finish: &(dyn Fn(&[N::Sum], *mut u8) + Sync),
) {
    let results = output.layout().shape.elements();
    let size = output.dtype().size();
    let runs = Runs::new(output.layout());
    let write = |columns: Range<usize>, sums: &[N::Sum]| {
        let mut values = [MaybeUninit::<u64>::uninit(); COLUMNS];
        let values = values.as_mut_ptr().cast::<u8>();
        finish(&sums[..columns.len()], values);
        // SAFETY: the values were just written. The output's view guarantees that it may be
        // written, and no two calls have a column in common.
        unsafe { runs.scatter(output.data(), size, columns, values) };
    };
    let longest = parts
        .iter()
        .map(|part| part.chunks().count())
        .max()
        .unwrap_or(0);
    if longest > 1 && results < COLUMNS * workers::count() {
        for columns in blocks(0..results) {
            let sums = by_chunks::<N>(instructions, parts, &columns);
            write(columns, &sums);
        }
        return;
    }
    let bytes = parts
        .iter()
        .map(|part| part.count)
        .fold(0usize, usize::saturating_add);
    let bytes = bytes
        .saturating_mul(parts[0].view.dtype().size())
        .saturating_add(size);
    workers::for_each_range(results, bytes, &|range| {
        for columns in blocks(range) {
            let mut sums = [N::Sum::default(); COLUMNS];
            for part in parts {
                let mut part_sums = [N::Sum::default(); COLUMNS];
                for chunk in 0..part.chunks().count() {
                    let mut chunk_sums = [N::Sum::default(); COLUMNS];
                    let chunk_sums = &mut chunk_sums[..columns.len()];
                    sum_chunk::<N>(instructions, part, &columns, chunk, chunk_sums);
                    add_to::<N>(&mut part_sums, chunk_sums);
                }
                add_to::<N>(&mut sums, &part_sums[..columns.len()]);
            }
            write(columns, &sums);
        }
    });
}

/// Reduces to few results of many elements each: the workers divide the chunks between them.
fn by_chunks<N: Number>(
    instructions: Instructions,
    parts: &[AxesInput<'_>],
    columns: &Range<usize>,
) -> [N::Sum; COLUMNS] {
    let mut sums = [N::Sum::default(); COLUMNS];
    for part in parts {
        // Nobody waits: each row belongs to one chunk.
        let rows: [_; MOST_CHUNKS] =
            std::array::from_fn(|_| Mutex::new([N::Sum::default(); COLUMNS]));
        let chunks = part.chunks();
        let bytes = chunks
            .size
            .saturating_mul(columns.len() * part.view.dtype().size());
        workers::for_each_task(chunks.count(), bytes, &|range| {
            for chunk in range {
                let row = &mut rows[chunk].lock()[..columns.len()];
                sum_chunk::<N>(instructions, part, columns, chunk, row);
            }
        });
        let mut part_sums = [N::Sum::default(); COLUMNS];
        for row in &rows[..chunks.count()] {
            add_to::<N>(&mut part_sums, &row.lock()[..columns.len()]);
        }
        add_to::<N>(&mut sums, &part_sums[..columns.len()]);
    }
    sums
}

fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(COLUMNS)
        .map(move |start| start..end.min(start + COLUMNS))
}

/// Adds the sums, as slices: compilers would unroll a loop over all of [`COLUMNS`] for each element
/// type.
#[inline(always)]
fn add_to<N: Number>(sums: &mut [N::Sum], more: &[N::Sum]) {
    for (sum, &more) in sums.iter_mut().zip(more) {
        *sum = N::add(*sum, more);
    }
}

/// Adds up one chunk of each of the results `columns` into `sums`, one sum for each, which start as
/// zeros.
fn sum_chunk<N: Number>(
    instructions: Instructions,
    part: &AxesInput<'_>,
    columns: &Range<usize>,
    chunk: usize,
    sums: &mut [N::Sum],
) {
    let elements = part.chunks().range(chunk);
    dispatch(
        instructions,
        ChunkSum::<N> {
            part,
            columns,
            elements,
            sums,
        },
    );
}

struct ChunkSum<'a, N: Number> {
    part: &'a AxesInput<'a>,
    columns: &'a Range<usize>,
    elements: Range<usize>,
    sums: &'a mut [N::Sum],
}

impl<N: Number> Kernel for ChunkSum<'_, N> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        match self.part.walk {
            Walk::Results => self.by_result(),
            Walk::Across { results } => self.across(results),
        }
    }
}

impl<N: Number> ChunkSum<'_, N> {
    #[inline(always)]
    fn by_result(self) {
        let ChunkSum {
            part,
            columns,
            elements,
            sums,
        } = self;
        let mut buffers = ([MaybeUninit::uninit(); TILE], [MaybeUninit::uninit(); TILE]);
        for (sum, result) in sums.iter_mut().zip(columns.clone()) {
            for first in elements.clone().step_by(TILE) {
                let length = TILE.min(elements.end - first);
                let position = result * part.count + first;
                // SAFETY: the positions lie in the walk.
                let tile = unsafe { part.read(position..position + length, &mut buffers) };
                *sum = N::add(*sum, sum_tile::<N>(tile));
            }
        }
    }

    #[inline(always)]
    fn across(self, results: usize) {
        let ChunkSum {
            part,
            columns,
            elements,
            sums,
        } = self;
        let mut buffers = (
            [MaybeUninit::uninit(); COLUMNS],
            [MaybeUninit::uninit(); COLUMNS],
        );
        for first in elements.clone().step_by(TILE) {
            // For each column, the lanes of sums that `sum_tile` makes.
            let mut lanes = [[N::Sum::default(); COLUMNS]; LANES];
            for element in first..elements.end.min(first + TILE) {
                let position = element * results + columns.start;
                // SAFETY: as above.
                let row: &[N] =
                    unsafe { part.read(position..position + columns.len(), &mut buffers) };
                for (lane, &element) in lanes[(element - first) % LANES].iter_mut().zip(row) {
                    *lane = N::add(*lane, element.into());
                }
            }
            let mut half = LANES / 2;
            while half > 0 {
                let (low, high) = lanes.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high.iter()) {
                    add_to::<N>(&mut low[..columns.len()], high);
                }
                half /= 2;
            }
            add_to::<N>(sums, &lanes[0]);
        }
    }
}

/// Memory for elements that do not lie densely, and for elements that are converted.
type Buffers<N, const LENGTH: usize> = ([MaybeUninit<u64>; LENGTH], [MaybeUninit<N>; LENGTH]);

impl AxesInput<'_> {
    /// The elements at `positions`, at most as many as the buffers hold.
    ///
    /// # Safety
    /// The positions lie in the walk, and the elements are of a type that is read as this number.
    #[inline(always)]
    unsafe fn read<'b, N: Number, const LENGTH: usize>(
        &'b self,
        positions: Range<usize>,
        (raw, numbers): &'b mut Buffers<N, LENGTH>,
    ) -> &'b [N] {
        let data = self.view.data();
        let dtype = self.view.dtype();
        let numbers = &mut numbers[..positions.len()];
        // SAFETY: the caller's promise, and the view's, that its elements may be read.
        unsafe {
            if self.runs.is_dense() {
                return N::read(dtype, data.add(positions.start * dtype.size()), numbers);
            }
            let raw = raw.as_mut_ptr().cast();
            self.runs.gather(data, dtype.size(), positions, raw);
            N::read(dtype, raw, numbers)
        }
    }
}

#[inline(always)]
fn sum_tile<N: Number>(tile: &[N]) -> N::Sum {
    let (rows, rest) = tile.as_chunks::<LANES>();
    let mut sums = [N::Sum::default(); LANES];
    for row in rows {
        for lane in 0..LANES {
            sums[lane] = N::add(sums[lane], row[lane].into());
        }
    }
    // A copy: compilers keep sums in vectors that no other loop reads one by one.
    let mut lanes = sums;
    for (lane, &element) in lanes.iter_mut().zip(rest) {
        *lane = N::add(*lane, element.into());
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = N::add(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}
