//! Reduction over axes of each replica's part, then over replicas.
//!
//! The order of additions depends only on the shapes. The elements of one result are numbered in row-major order.
//! Tiles of 1024 elements are added in 16 interleaved lanes, and the lanes are added in halves. Tiles are added in
//! order within a chunk, chunks within a part, and parts in replica order. The result does not depend on which
//! threads compute which chunks, or on the order in which memory is walked.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::Result;
use crate::executor::workers;
use crate::kernels::dtype::{Element, for_numeric, for_wrapping};
use crate::kernels::instruction_set::{
    InstructionSet, Instructions, Kernel, dispatch, widest_unless_rare,
};
use crate::kernels::layout::{Layout, MAX_RANK};
use crate::kernels::reduce::over_replicas::{check_output, not_reducible};
use crate::kernels::reduce::reduction::{MeanOverAxes, ReduceOp, ReductionLoop, SumOverAxes};
use crate::kernels::strided::Runs;
use crate::kernels::update::chunks::{Chunks, MOST_CHUNKS, TILE};
use crate::kernels::view::{View, ViewMut};

/// Which axes are reduced.
pub type AxisMask = [bool; MAX_RANK];

/// Interleaved sums within a tile: two vectors of float64 for AVX-512.
const LANES: usize = 16;

/// How many results are computed next to each other.
const COLUMNS: usize = 64;

/// Writes the sum or the mean over the `reduced` axes of all `inputs`, and over the inputs, to `output`. The shape of
/// `output` is that of the other axes. The mean divides by the number of elements that were added, over all inputs;
/// an empty input adds nothing to it. All floats accumulate in float64. Integers wrap (SUM) or are added exactly
/// (MEAN). The result is rounded once.
///
/// Fails with INVALID_ARGUMENT if there is no input, if inputs differ in dtype, rank or the sizes
/// of axes that are not reduced, if the output does not fit, and for bool.
pub fn reduce_over_axes(
    instructions: Instructions,
    op: ReduceOp,
    inputs: &[View],
    reduced: &AxisMask,
    output: &mut ViewMut,
) -> Result<()> {
    let first = inputs.first().ok_or_else(|| invalid!("value", "no components"))?;
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
    let dtype = first.dtype();
    match op {
        ReduceOp::Sum => for_wrapping!(
            dtype,
            T => reduce::<SumOverAxes<T>>(instructions, &parts, output),
            else return Err(not_reducible())
        ),
        ReduceOp::Mean => for_numeric!(
            dtype,
            T => reduce::<MeanOverAxes<T>>(instructions, &parts, output),
            else return Err(not_reducible())
        ),
    }
    Ok(())
}

/// One replica's input.
struct AxesInput<'a> {
    view: &'a View<'a>,
    /// The layout with the kept axes first and the reduced axes after them.
    layout: Layout,
    kept_axes: usize,
    /// How many elements one result has.
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
            sized.map(|axis| by_result.strides()[axis]).min().unwrap_or(isize::MAX)
        };
        let across = results >= 16 && nearest(0..kept_axes) < nearest(kept_axes..rank);
        let (runs, walk) = if across {
            axes[..rank].rotate_left(kept_axes);
            (Runs::new(&layout.transpose(&axes[..rank])?), Walk::Across { results })
        } else {
            (Runs::new(&by_result), Walk::Results)
        };
        Ok(AxesInput { view, layout: by_result, kept_axes, count, runs, walk })
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

fn reduce<K: ReductionLoop>(instructions: Instructions, parts: &[AxesInput<'_>], output: &ViewMut) {
    let results = output.layout().shape.elements();
    // Empty parts may have counts whose sum overflows an integer. A float64 is precise enough for the sum.
    let count: f64 = parts.iter().map(|part| part.count as f64).sum();
    let runs = Runs::new(output.layout());
    let write = |columns: Range<usize>, sums: &[K::Accumulator]| {
        let mut values = [MaybeUninit::<K::Output>::uninit(); COLUMNS];
        let values = &mut values[..columns.len()];
        for (value, &sum) in values.iter_mut().zip(sums) {
            value.write(K::finish(sum, count));
        }
        // SAFETY: the values were just written. The output's view guarantees that it may be written, and no two calls
        // have a column in common.
        unsafe { runs.scatter(output.data().cast(), columns, values.assume_init_ref()) };
    };
    let longest = parts.iter().map(|part| part.chunks().count()).max().unwrap_or(0);
    if longest > 1 && results < COLUMNS * workers::count() {
        for columns in blocks(0..results) {
            let sums = by_chunks::<K>(instructions, parts, &columns);
            write(columns, &sums);
        }
        return;
    }
    let bytes = parts.iter().map(|part| part.count).fold(0usize, usize::saturating_add);
    let bytes = bytes.saturating_mul(size_of::<K::Input>()).saturating_add(size_of::<K::Output>());
    workers::for_each_range(results, bytes, &|range| {
        for columns in blocks(range) {
            let mut sums = [K::ZERO; COLUMNS];
            for part in parts {
                let mut part_sums = [K::ZERO; COLUMNS];
                for chunk in 0..part.chunks().count() {
                    let mut chunk_sums = [K::ZERO; COLUMNS];
                    let chunk_sums = &mut chunk_sums[..columns.len()];
                    sum_chunk::<K>(instructions, part, &columns, chunk, chunk_sums);
                    add_to::<K>(&mut part_sums, chunk_sums);
                }
                add_to::<K>(&mut sums, &part_sums[..columns.len()]);
            }
            write(columns, &sums);
        }
    });
}

/// Reduces to few results of many elements each: the workers divide the chunks between them.
fn by_chunks<K: ReductionLoop>(
    instructions: Instructions,
    parts: &[AxesInput<'_>],
    columns: &Range<usize>,
) -> [K::Accumulator; COLUMNS] {
    /// The workers' results. Each worker writes those of its own chunks.
    struct ResultRows<A>(*mut [A; COLUMNS]);
    // SAFETY: the pointer is used for rows that no two threads have in common.
    unsafe impl<A: Send> Sync for ResultRows<A> {}
    impl<A> ResultRows<A> {
        fn row(&self, chunk: usize) -> *mut [A; COLUMNS] {
            self.0.wrapping_add(chunk)
        }
    }

    let mut sums = [K::ZERO; COLUMNS];
    for part in parts {
        let mut chunk_sums = [[K::ZERO; COLUMNS]; MOST_CHUNKS];
        let rows = ResultRows(chunk_sums.as_mut_ptr());
        let chunks = part.chunks();
        let bytes = chunks.size.saturating_mul(columns.len() * size_of::<K::Input>());
        workers::for_each_task(chunks.count(), bytes, &|range| {
            for chunk in range {
                // SAFETY: there are at most MOST_CHUNKS chunks, each in one range, and the array is
                // not used for anything else until all ranges are done.
                let row = unsafe { &mut *rows.row(chunk) };
                sum_chunk::<K>(instructions, part, columns, chunk, &mut row[..columns.len()]);
            }
        });
        let mut part_sums = [K::ZERO; COLUMNS];
        for chunk_sums in &chunk_sums[..chunks.count()] {
            add_to::<K>(&mut part_sums, &chunk_sums[..columns.len()]);
        }
        add_to::<K>(&mut sums, &part_sums[..columns.len()]);
    }
    sums
}

fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(COLUMNS).map(move |start| start..end.min(start + COLUMNS))
}

/// Adds the sums, as slices: compilers would unroll a loop over all of [`COLUMNS`] for each element type.
#[inline(always)]
fn add_to<K: ReductionLoop>(sums: &mut [K::Accumulator], more: &[K::Accumulator]) {
    for (sum, &more) in sums.iter_mut().zip(more) {
        *sum = K::add(*sum, more);
    }
}

/// Adds up one chunk of each of the results `columns` into `sums`, one sum for each, which start as zeros.
fn sum_chunk<K: ReductionLoop>(
    instructions: Instructions,
    part: &AxesInput<'_>,
    columns: &Range<usize>,
    chunk: usize,
    sums: &mut [K::Accumulator],
) {
    let elements = part.chunks().range(chunk);
    match part.walk {
        Walk::Results => dispatch(instructions, ByResult::<K> { part, columns, elements, sums }),
        Walk::Across { results } => {
            dispatch(instructions, Across::<K> { part, results, columns, elements, sums })
        }
    }
}

struct ByResult<'a, K: ReductionLoop> {
    part: &'a AxesInput<'a>,
    columns: &'a Range<usize>,
    elements: Range<usize>,
    sums: &'a mut [K::Accumulator],
}

impl<K: ReductionLoop> Kernel for ByResult<'_, K> {
    const WIDEST: InstructionSet = widest_unless_rare(!K::Input::DTYPE.is_float());

    #[inline(always)]
    fn run(self, _: Instructions) {
        let ByResult { part, columns, elements, sums } = self;
        let data = part.view.data().cast::<K::Input>();
        let dense = part.runs.is_dense();
        let mut buffer = [MaybeUninit::<K::Input>::uninit(); TILE];
        for (sum, result) in sums.iter_mut().zip(columns.clone()) {
            for first in elements.clone().step_by(TILE) {
                let length = TILE.min(elements.end - first);
                let position = result * part.count + first;
                // SAFETY: the view's elements are of this type and may be read, and the positions
                // lie in it; gathering fills the buffer.
                let tile = unsafe {
                    if dense {
                        std::slice::from_raw_parts(data.add(position), length)
                    } else {
                        let buffer = &mut buffer[..length];
                        part.runs.gather(data, position..position + length, buffer);
                        buffer.assume_init_ref()
                    }
                };
                *sum = K::add(*sum, sum_tile::<K>(tile));
            }
        }
    }
}

#[inline(always)]
fn sum_tile<K: ReductionLoop>(tile: &[K::Input]) -> K::Accumulator {
    let mut lanes = [K::ZERO; LANES];
    let mut rows = tile.chunks_exact(LANES);
    for row in &mut rows {
        for (lane, &element) in lanes.iter_mut().zip(row) {
            *lane = K::add(*lane, K::widen(element));
        }
    }
    for (lane, &element) in lanes.iter_mut().zip(rows.remainder()) {
        *lane = K::add(*lane, K::widen(element));
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = K::add(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

struct Across<'a, K: ReductionLoop> {
    part: &'a AxesInput<'a>,
    results: usize,
    columns: &'a Range<usize>,
    elements: Range<usize>,
    sums: &'a mut [K::Accumulator],
}

impl<K: ReductionLoop> Kernel for Across<'_, K> {
    const WIDEST: InstructionSet = widest_unless_rare(!K::Input::DTYPE.is_float());

    #[inline(always)]
    fn run(self, _: Instructions) {
        let Across { part, results, columns, elements, sums } = self;
        let data = part.view.data().cast::<K::Input>();
        let mut buffer = [MaybeUninit::<K::Input>::uninit(); COLUMNS];
        let buffer = &mut buffer[..columns.len()];
        for first in elements.clone().step_by(TILE) {
            // For each column, the lanes of sums that `sum_tile` makes.
            let mut lanes = [[K::ZERO; COLUMNS]; LANES];
            for element in first..elements.end.min(first + TILE) {
                let position = element * results + columns.start;
                // SAFETY: as in `ByResult`.
                let row = unsafe {
                    part.runs.gather(data, position..position + columns.len(), buffer);
                    buffer.assume_init_ref()
                };
                for (lane, &element) in lanes[(element - first) % LANES].iter_mut().zip(row) {
                    *lane = K::add(*lane, K::widen(element));
                }
            }
            let mut half = LANES / 2;
            while half > 0 {
                let (low, high) = lanes.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high.iter()) {
                    add_to::<K>(&mut low[..columns.len()], high);
                }
                half /= 2;
            }
            add_to::<K>(sums, &lanes[0]);
        }
    }
}
