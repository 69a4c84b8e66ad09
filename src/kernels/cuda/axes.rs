//! Reduction over axes of each replica's part, then over replicas.

use crate::error::{Error, Result};
use crate::kernels::cuda::place::{GpuPlace, GpuRuns, divisor};
use crate::kernels::cuda::queue::{
    Address, KernelLauncher, KernelQueue, LaunchBlocks, Plain, THREADS, argument, blocks_of,
};
use crate::kernels::dtype::DType;
use crate::kernels::layout::MAX_RANK;
use crate::kernels::reduce::over_axes::{self, AxisMask, chunk_size};
use crate::kernels::reduce::over_replicas::result_dtype;
use crate::kernels::reduce::reduction::ReduceOp;

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct AxesPart {
    data: Address,
    count: u64,
    tiles: u64,
    tiles_of_chunk: u64,
    chunks: u64,
    first_tile: u64,
    first_chunk: u64,
    across: u64,
    tiles_factor: u64,
    results_factor: u64,
    tiles_shift: u32,
    results_shift: u32,
    runs: GpuRuns,
}

const _: () = assert!(size_of::<AxesPart>() == 320);

// SAFETY: numbers and plain data whose sizes add up to that of the whole, as asserted.
unsafe impl Plain for AxesPart {}

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct AxesOutput {
    data: Address,
    results: u64,
    count: f64,
    mean: u32,
    dtype: u32,
    runs: GpuRuns,
}

const _: () = assert!(size_of::<AxesOutput>() == 264);

// SAFETY: as above.
unsafe impl Plain for AxesOutput {}

/// Tiles that a block adds up.
const TILES_OF_BLOCK: u64 = 16;

/// Up to so many elements of a result, tiles of their own would cost more than they gain.
const FEW_ELEMENTS: u64 = 32;

/// The kernels of one kind of elements.
struct KernelNames {
    tiles: &'static str,
    chunks: &'static str,
    results: &'static str,
    direct: &'static str,
    /// Bytes of a sum.
    sum: u64,
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues the sum or the mean over the `reduced` axes of all `inputs`, and over the inputs. The
    /// bits are those of
    /// [`reduce_over_axes`](crate::kernels::reduce::over_axes::reduce_over_axes).
    ///
    /// Fails with INVALID_ARGUMENT if there is no input or more than 65535, if inputs differ in
    /// dtype, rank or the sizes of axes that are not reduced, if the output does not fit, and for
    /// bool.
    ///
    /// # Safety
    /// The inputs may be read and the output written when the work that is queued here comes to it,
    /// by nobody else at the same time.
    pub unsafe fn reduce_over_axes(
        &mut self,
        op: ReduceOp,
        inputs: &[GpuPlace],
        reduced: &AxisMask,
        output: &GpuPlace,
    ) -> Result<()> {
        let parts = checked(op, inputs, reduced, output)?;
        let results = output.elements();
        if results == 0 {
            return Ok(());
        }
        let kernels = kernels(op, inputs[0].dtype);
        let last = parts[parts.len() - 1];
        let (tiles, chunks) = (
            last.first_tile + last.tiles.saturating_mul(results),
            last.first_chunk + last.chunks.saturating_mul(results),
        );
        self.table.clear();
        let at = self.table.begin::<AxesPart>(parts.len())?;
        parts.iter().for_each(|part| self.table.push(*part));
        let output_at = self.table.begin::<AxesOutput>(1)?;
        self.table.push(AxesOutput {
            data: output.address,
            results,
            // Empty parts may hide counts whose sum overflows; a float64 holds them well enough.
            count: parts.iter().map(|part| part.count as f64).sum(),
            mean: u32::from(op == ReduceOp::Mean),
            dtype: output.dtype as u32,
            runs: GpuRuns::new(&output.layout),
        });
        let table = self.queue.upload(self.table.bytes())?;
        let (mut at, mut output_at) = (table + at, table + output_at);
        let (mut count, mut results_argument) = (parts.len() as u64, results);
        let of_results = LaunchBlocks { blocks: blocks_of(results, THREADS.into())?, rows: 1 };
        let across = parts.iter().all(|part| part.across != 0);
        let longest = parts.iter().map(|part| part.count).max().unwrap_or(0);
        let in_one_chunk = parts.iter().all(|part| part.chunks <= 1);
        if (across && in_one_chunk && results >= self.thresholds.many_results)
            || longest <= FEW_ELEMENTS
        {
            let mut arguments = [argument(&mut at), argument(&mut count), argument(&mut output_at)];
            // SAFETY: the caller's promise, and the arguments are the kernel's.
            return unsafe { self.queue.launch(kernels.direct, of_results, &mut arguments) };
        }
        let sums = tiles.saturating_add(chunks).saturating_mul(kernels.sum);
        let sums = usize::try_from(sums).unwrap_or(usize::MAX);
        let mut tile_sums = self.queue.scratch(sums)?;
        let mut chunk_sums = tile_sums + tiles * kernels.sum;
        let grid = |items: u64, of_block: u64| {
            Ok::<_, Error>(LaunchBlocks {
                blocks: blocks_of(items, of_block)?,
                rows: parts.len() as u32,
            })
        };
        let most = |of: fn(&AxesPart) -> u64| parts.iter().map(of).max().unwrap_or(0) * results;
        let of_tiles = grid(most(|part| part.tiles), TILES_OF_BLOCK)?;
        let of_chunks = grid(most(|part| part.chunks), THREADS.into())?;
        // SAFETY: the caller's promise, and the arguments are the kernels'.
        unsafe {
            self.queue.launch(
                kernels.tiles,
                of_tiles,
                &mut [argument(&mut at), argument(&mut results_argument), argument(&mut tile_sums)],
            )?;
            self.queue.launch(
                kernels.chunks,
                of_chunks,
                &mut [
                    argument(&mut at),
                    argument(&mut results_argument),
                    argument(&mut tile_sums),
                    argument(&mut chunk_sums),
                ],
            )?;
            self.queue.launch(
                kernels.results,
                of_results,
                &mut [
                    argument(&mut at),
                    argument(&mut count),
                    argument(&mut chunk_sums),
                    argument(&mut output_at),
                ],
            )
        }
    }
}

/// The parts, if they fit.
fn checked(
    op: ReduceOp,
    inputs: &[GpuPlace],
    reduced: &AxisMask,
    output: &GpuPlace,
) -> Result<Vec<AxesPart>> {
    let first = inputs.first().ok_or_else(|| Error::invalid("value", "no components"))?;
    if inputs.len() > u16::MAX.into() {
        let problem = format!("{} components; at most {} are reduced", inputs.len(), u16::MAX);
        return Err(Error::invalid("value", problem));
    }
    let expected = result_dtype(op, first.dtype)?;
    if output.dtype != expected {
        let problem =
            format!("{}; the {} of {} is {expected}", output.dtype, op.name(), first.dtype);
        return Err(Error::invalid("output", problem));
    }
    let mut parts = Vec::with_capacity(inputs.len());
    let results = output.elements();
    let (results_factor, results_shift) = divisor(results);
    let (mut first_tile, mut first_chunk) = (0u64, 0u64);
    for input in inputs {
        let layout = &input.layout;
        let rank = layout.shape.rank();
        let kept = || (0..rank).filter(|&axis| !reduced[axis]);
        let fits = input.dtype == first.dtype
            && kept().count() == output.layout.shape.rank()
            && kept()
                .zip(output.layout.shape.iter())
                .all(|(axis, &size)| layout.shape[axis] == size);
        if !fits {
            return Err(Error::invalid(
                "value",
                format!(
                    "a component of {} and shape {} does not reduce to the output's shape {}",
                    input.dtype, layout.shape, output.layout.shape
                ),
            ));
        }
        let gone = || (0..rank).filter(|&axis| reduced[axis]);
        let count = gone().map(|axis| layout.shape[axis]).product::<usize>();
        let nearest = |axes: &mut dyn Iterator<Item = usize>| {
            let sized = axes.filter(|&axis| layout.shape[axis] > 1);
            sized.map(|axis| layout.strides()[axis]).min().unwrap_or(isize::MAX)
        };
        // Neighbouring threads should have neighbours in memory.
        let across = results >= TILES_OF_BLOCK && nearest(&mut kept()) < nearest(&mut gone());
        let mut axes = [0; MAX_RANK];
        let order: &mut dyn Iterator<Item = usize> =
            if across { &mut gone().chain(kept()) } else { &mut kept().chain(gone()) };
        axes.iter_mut().zip(order).for_each(|(to, axis)| *to = axis);
        let of_chunk = (chunk_size(count) / over_axes::TILE) as u64;
        let tiles = count.div_ceil(over_axes::TILE) as u64;
        let (tiles_factor, tiles_shift) = divisor(tiles);
        let part = AxesPart {
            data: input.address,
            count: count as u64,
            tiles,
            tiles_of_chunk: of_chunk,
            chunks: tiles.div_ceil(of_chunk),
            first_tile,
            first_chunk,
            across: u64::from(across),
            tiles_factor,
            results_factor,
            tiles_shift,
            results_shift,
            runs: GpuRuns::new(&layout.transpose(&axes[..rank])?),
        };
        first_tile = first_tile.saturating_add(part.tiles.saturating_mul(results));
        first_chunk = first_chunk.saturating_add(part.chunks.saturating_mul(results));
        parts.push(part);
    }
    Ok(parts)
}

/// The kernels for elements of a type; `checked` refused bool.
fn kernels(op: ReduceOp, dtype: DType) -> KernelNames {
    macro_rules! kernels {
        ($elements:literal, $sums:literal, $bytes:literal) => {
            KernelNames {
                tiles: concat!("umbo_axes_tiles_", $elements),
                direct: concat!("umbo_axes_direct_", $elements),
                chunks: concat!("umbo_axes_chunks_", $sums),
                results: concat!("umbo_axes_results_", $sums),
                sum: $bytes,
            }
        };
    }
    match (dtype, op) {
        (DType::Float16, _) => kernels!("f16", "double", 8),
        (DType::BFloat16, _) => kernels!("bf16", "double", 8),
        (DType::Float32, _) => kernels!("f32", "double", 8),
        (DType::Float64, _) => kernels!("f64", "double", 8),
        (DType::Int8, _) => kernels!("i8", "integer", 8),
        (DType::UInt8 | DType::Bool, _) => kernels!("u8", "integer", 8),
        (DType::Int16, _) => kernels!("i16", "integer", 8),
        (DType::UInt16, _) => kernels!("u16", "integer", 8),
        (DType::Int32, _) => kernels!("i32", "integer", 8),
        (DType::UInt32, _) => kernels!("u32", "integer", 8),
        (DType::Int64 | DType::UInt64, ReduceOp::Sum) => kernels!("64", "integer", 8),
        (DType::Int64, ReduceOp::Mean) => kernels!("i64_mean", "large", 16),
        (DType::UInt64, ReduceOp::Mean) => kernels!("u64_mean", "large", 16),
    }
}
