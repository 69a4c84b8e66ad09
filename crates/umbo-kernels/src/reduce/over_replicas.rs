//! Element-wise reduction over replicas: one pass over all inputs, in replica order.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::copy::layouts::tiles;
use crate::dtype::{DType, Element, for_numeric, for_ordered, for_wrapping};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, keep_to_blocks};
use crate::layout::Shape;
use crate::reduce::extremes::Extreme;
use crate::reduce::reduction::{MAX_ADDENDS, Mean, ReduceOp, ReductionLoop, Sum};
use crate::streaming::{self, LINE};
use crate::strided::{Runs, TILE};
use crate::view::{View, ViewMut};
use umbo_base::error::{Error, Result};
use umbo_executor::workers;

/// The least number of elements of one reduction that one worker works on. For the narrowest type
/// this is a cache line.
const BLOCK: usize = 64;

/// A reduction over replicas that is checked but not yet started.
pub struct Planned<'a> {
    op: ReduceOp,
    inputs: Cow<'a, [View<'a>]>,
    output: ViewMut<'a>,
}

impl<'a> Planned<'a> {
    /// The sum, the mean or an extreme of `inputs`, element by element, written to `output`. Inputs
    /// are added from the first to the last in a wide accumulator that is rounded once (see
    /// [`ReductionLoop`]). So the result depends only on their values and their order.
    ///
    /// Fails with INVALID_ARGUMENT if there is no input or more than 2^15, if shapes or dtypes
    /// differ, if the output's dtype is not that of the result, and for a sum or mean of bool.
    pub fn new(
        op: ReduceOp,
        inputs: impl Into<Cow<'a, [View<'a>]>>,
        output: ViewMut<'a>,
    ) -> Result<Planned<'a>> {
        let inputs = inputs.into();
        let kinds = inputs
            .iter()
            .map(|input| (input.dtype(), input.layout().shape));
        check_operands(op, kinds, (output.dtype(), output.layout().shape))?;
        Ok(Planned { op, inputs, output })
    }

    fn elements(&self) -> usize {
        self.output.layout().shape.elements()
    }

    fn bytes_per_element(&self) -> usize {
        self.inputs.len() * self.inputs[0].dtype().size() + self.output.dtype().size()
    }

    fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.bytes_per_element())
    }

    /// Runs one worker's part. No other worker has it.
    fn run(&self, instructions: Instructions, range: Range<usize>, streaming: bool) {
        let dtype = self.inputs[0].dtype();
        match self.op {
            ReduceOp::Sum => for_wrapping!(dtype, T => {
                reduce::<Sum<T>, { in_lines::<T>(1) }, { in_lines::<T>(2) }>(
                    instructions, &self.inputs, &self.output, range, streaming,
                )
            }, else unreachable!("bool was refused")),
            ReduceOp::Mean => for_numeric!(dtype, T => {
                reduce::<Mean<T>, { in_lines::<T>(1) }, { in_lines::<T>(2) }>(
                    instructions, &self.inputs, &self.output, range, streaming,
                )
            }, else unreachable!("bool was refused")),
            ReduceOp::Min => for_ordered!(dtype, T => {
                reduce::<Extreme<T, false>, { in_lines::<T>(1) }, { in_lines::<T>(2) }>(
                    instructions, &self.inputs, &self.output, range, streaming,
                )
            }),
            ReduceOp::Max => for_ordered!(dtype, T => {
                reduce::<Extreme<T, true>, { in_lines::<T>(1) }, { in_lines::<T>(2) }>(
                    instructions, &self.inputs, &self.output, range, streaming,
                )
            }),
        }
    }
}

/// Carries out all reductions and divides the work of all of them between the workers at once: the
/// workers are started one time, however many reductions there are. No output shares memory with an
/// input or another output.
pub fn reduce_over_replicas(instructions: Instructions, all: &mut [Planned]) {
    let all = &*all;
    let bytes = all
        .iter()
        .map(Planned::bytes)
        .fold(0, usize::saturating_add);
    let streaming = streaming::pays(bytes);
    if let [one] = all {
        workers::for_each_range(one.elements(), one.bytes_per_element(), &|range| {
            one.run(instructions, range, streaming);
        });
        return;
    }
    let blocks = |planned: &Planned| planned.elements().div_ceil(BLOCK);
    let total: usize = all.iter().map(blocks).sum();
    workers::for_each_task(total, bytes / total.max(1), &|range| {
        let mut end = 0;
        for planned in all {
            let start = end;
            end += blocks(planned);
            let first = range.start.max(start);
            let last = range.end.min(end);
            if first < last {
                let last = planned.elements().min((last - start) * BLOCK);
                planned.run(instructions, (first - start) * BLOCK..last, streaming);
            }
        }
    });
}

/// Checks that the inputs of a reduction have one dtype and one shape, and that the output has
/// those of the result.
pub(crate) fn check_operands(
    op: ReduceOp,
    mut inputs: impl ExactSizeIterator<Item = (DType, Shape)>,
    output: (DType, Shape),
) -> Result<()> {
    if inputs.len() > MAX_ADDENDS {
        let problem = format!(
            "{} components; at most {MAX_ADDENDS} are reduced",
            inputs.len()
        );
        return Err(Error::invalid("value", problem));
    }
    let first = inputs
        .next()
        .ok_or_else(|| invalid!("value", "no components"))?;
    if !inputs.all(|input| input == first) {
        return Err(invalid!("value", "the components differ in dtype or shape"));
    }
    check_output(op, first.0, output.0)?;
    match output.1 == first.1 {
        true => Ok(()),
        false => Err(invalid!(
            "output",
            "shape {}; the result has {}",
            output.1,
            first.1
        )),
    }
}

/// The dtype of a reduction of elements of type `dtype`.
///
/// Fails with INVALID_ARGUMENT for a sum or mean of bool.
pub fn result_dtype(op: ReduceOp, dtype: DType) -> Result<DType> {
    let mean = || {
        dtype.mean_dtype().ok_or_else(|| {
            invalid!(
                "value",
                "bool values have no {}; reduce them by MIN (all) or MAX (any), or convert them to \
                 numbers first",
                op.name()
            )
        })
    };
    match op {
        ReduceOp::Sum => mean().map(|_| dtype),
        ReduceOp::Mean => mean(),
        ReduceOp::Min | ReduceOp::Max => Ok(dtype),
    }
}

/// Checks that the output has the dtype of the result.
pub(super) fn check_output(op: ReduceOp, dtype: DType, output: DType) -> Result<()> {
    let expected = result_dtype(op, dtype)?;
    if output != expected {
        return Err(invalid!(
            "output",
            "{output}; the {} of {dtype} is {expected}",
            op.name()
        ));
    }
    Ok(())
}

/// How many elements fill `lines` cache lines.
const fn in_lines<T>(lines: usize) -> usize {
    lines * LINE / size_of::<T>()
}

/// The widest instructions for a reduction. AVX-512 brings nothing to float64 and to integers,
/// whose loops wait for memory, and float16's conversions are those of AVX2. Counts have 32 bits:
/// few trainings need other integers. Those of MIN and MAX wait for memory with AVX2, too.
const fn widest<K: ReductionLoop>() -> InstructionSet {
    match K::Input::DTYPE {
        DType::Float32 | DType::BFloat16 if !K::IS_CHOICE => InstructionSet::Avx512,
        DType::Float32 | DType::BFloat16 => InstructionSet::Avx2,
        DType::Float16 | DType::Float64 | DType::Int32 | DType::UInt32 => InstructionSet::Avx2,
        _ => InstructionSet::Baseline,
    }
}

/// Reduces one worker's part. `ONE` and `TWO` are the numbers of elements of an input in one cache
/// line and in two.
fn reduce<K: ReductionLoop, const ONE: usize, const TWO: usize>(
    instructions: Instructions,
    inputs: &[View],
    output: &ViewMut,
    range: Range<usize>,
    streaming: bool,
) {
    let runs = Runs::new(output.layout());
    let dense = runs.is_dense()
        && inputs
            .iter()
            .all(|input| Runs::new(input.layout()).is_dense());
    // Rare reductions have no such loop.
    if const { !matches!(widest::<K>(), InstructionSet::Baseline) }
        && dense
        && instructions.has_special_loops()
        && few::<K, ONE, TWO>(instructions, inputs, output, &range, streaming)
    {
        return;
    }
    let kind = PhantomData::<K>;
    let output = output.data();
    let runs = &runs;
    dispatch(
        instructions,
        Tiles {
            inputs,
            output,
            runs,
            streaming,
            range,
            kind,
        },
    );
}

/// Reduces up to eight dense inputs in one loop over all of them. Returns whether it did.
fn few<K: ReductionLoop, const ONE: usize, const TWO: usize>(
    instructions: Instructions,
    inputs: &[View],
    output: &ViewMut,
    range: &Range<usize>,
    streaming: bool,
) -> bool {
    macro_rules! exactly {
        ($($count:literal: $block:ident)*) => {
            match inputs.len() {
                $($count => {
                    // SAFETY: the output's view guarantees exclusive elements. The worker that has
                    // their range writes all of them; they need not be initialised.
                    let output = unsafe {
                        let first = output.data().cast::<MaybeUninit<K::Output>>().add(range.start);
                        std::slice::from_raw_parts_mut(first, range.len())
                    };
                    // SAFETY: the inputs are dense and of this element type (as `Planned::new`
                    // found). Their views guarantee that nobody writes them meanwhile.
                    let part = |replica: usize| unsafe { dense_part(&inputs[replica], range) };
                    let inputs = std::array::from_fn(part);
                    dispatch(instructions, Few::<K, $count, $block> { inputs, output, streaming });
                    true
                })*
                _ => false,
            }
        };
    }
    exactly! { 1: TWO 2: TWO 3: ONE 4: ONE 5: ONE 6: ONE 7: ONE 8: ONE }
}

/// A range of a dense view.
///
/// # Safety
/// The view is dense, its elements are of type `T`, and the range lies in it.
unsafe fn dense_part<'a, T>(view: &'a View, range: &Range<usize>) -> &'a [T] {
    // SAFETY: the caller's promise. The view guarantees that the elements may be read while it is
    // used.
    unsafe { std::slice::from_raw_parts(view.data().cast::<T>().add(range.start), range.len()) }
}

/// All inputs in one loop, which takes `N` elements of each input at a time: one cache line or two.
/// With eight inputs, several lines of each are slower by a quarter; with two inputs, one line is
/// slower when the caches hold the inputs. The slices are equally long.
struct Few<'a, K: ReductionLoop, const R: usize, const N: usize> {
    inputs: [&'a [K::Input]; R],
    output: &'a mut [MaybeUninit<K::Output>],
    streaming: bool,
}

impl<K: ReductionLoop, const R: usize, const N: usize> Kernel for Few<'_, K, R, N> {
    const WIDEST: InstructionSet = widest::<K>();
    const IS_SPECIAL: bool = true;

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let Few {
            inputs,
            output,
            streaming,
        } = self;
        // Whole lines are streamed. A block that begins at a line is a number of whole lines.
        let ahead = (output.as_ptr().addr().wrapping_neg() % LINE) / size_of::<K::Output>();
        let ahead = if streaming {
            ahead.min(output.len())
        } else {
            0
        };
        let blocks = (output.len() - ahead) / N;
        for block in 0..blocks {
            let start = ahead + block * N;
            // SAFETY: all of the slices are as long as the output, and the block ends within it.
            let (inputs, output) = unsafe {
                let part = |slice: &[K::Input]| &*slice.as_ptr().add(start).cast();
                (
                    inputs.map(part),
                    &mut *output.as_mut_ptr().add(start).cast(),
                )
            };
            // The sums have their own memory, so that no store to them can be a store to an input.
            let mut sums = Aligned([MaybeUninit::uninit(); N]);
            K::block::<R, N>(instructions, inputs, &mut sums.0);
            if streaming {
                stream_block(instructions, &sums, output);
            } else {
                *output = sums.0;
            }
            keep_to_blocks();
        }
        for part in [0..ahead, ahead + blocks * N..output.len()] {
            let inputs = inputs.map(|input| &input[part.clone()]);
            few_slices::<K, R>(inputs, &mut output[part.clone()]);
        }
        streaming::finish();
    }
}

/// A block that stays in the first cache.
#[repr(align(64))]
struct Aligned<T, const N: usize>([MaybeUninit<T>; N]);

/// Writes a block past the caches to a place that begins at a line.
#[inline(always)]
fn stream_block<T, const N: usize>(
    instructions: Instructions,
    from: &Aligned<T, N>,
    to: &mut [MaybeUninit<T>; N],
) {
    const { assert!((N * size_of::<T>()).is_multiple_of(LINE)) };
    debug_assert!(to.as_ptr().addr().is_multiple_of(LINE));
    for line in 0..N * size_of::<T>() / LINE {
        // SAFETY: the block is whole lines, as asserted. It does not overlap with the target, which
        // the caller found to begin at a line.
        unsafe {
            streaming::write_line(
                instructions,
                from.0.as_ptr().cast::<[u8; LINE]>().add(line),
                to.as_mut_ptr().cast::<[u8; LINE]>().add(line),
            );
        }
    }
}

/// A separate function, from which the compiler can see that `output` overlaps with nothing.
#[inline(always)]
fn few_slices<K: ReductionLoop, const R: usize>(
    inputs: [&[K::Input]; R],
    output: &mut [MaybeUninit<K::Output>],
) {
    for (position, output) in output.iter_mut().enumerate() {
        output.write(K::element(inputs.map(|input| input[position])));
    }
}

/// Any number of inputs with any strides. It works on a tile of sums at a time, and adds one input
/// after the other to it. The order of additions is that of `Few`.
struct Tiles<'a, K: ReductionLoop> {
    inputs: &'a [View<'a>],
    output: *mut u8,
    runs: &'a Runs,
    streaming: bool,
    range: Range<usize>,
    kind: PhantomData<K>,
}

impl<K: ReductionLoop> Kernel for Tiles<'_, K> {
    const WIDEST: InstructionSet = widest::<K>();

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let count = self.inputs.len() as f64;
        let stream_tiles = self.streaming && self.runs.is_dense();
        let mut sums = [K::ZERO; TILE];
        let mut buffer = [MaybeUninit::<K::Input>::uninit(); TILE];
        let mut results = [MaybeUninit::<K::Output>::uninit(); TILE];
        for tile in tiles(self.range) {
            let sums = &mut sums[..tile.len()];
            for (replica, input) in self.inputs.iter().enumerate() {
                let runs = Runs::new(input.layout());
                // SAFETY: the view's elements are of this type and may be read, and the tile lies
                // in it; gathering fills the buffer.
                let elements = unsafe {
                    if runs.is_dense() {
                        dense_part(input, &tile)
                    } else {
                        let buffer = &mut buffer[..tile.len()];
                        let to = buffer.as_mut_ptr().cast();
                        runs.gather(input.data(), size_of::<K::Input>(), tile.clone(), to);
                        buffer.assume_init_ref()
                    }
                };
                for (sum, &element) in sums.iter_mut().zip(elements) {
                    let element = K::widen(element);
                    *sum = if replica == 0 {
                        element
                    } else {
                        K::add(*sum, element)
                    };
                }
            }
            let results = &mut results[..tile.len()];
            for (result, &sum) in results.iter_mut().zip(sums.iter()) {
                result.write(K::finish(sum, count));
            }
            // SAFETY: the results were just written. The output may be written, and no other worker
            // has this tile.
            unsafe {
                let from = results.as_ptr().cast();
                let size = size_of::<K::Output>();
                if stream_tiles {
                    let to = self.output.add(tile.start * size);
                    streaming::write(instructions, from, to, size_of_val(results));
                } else {
                    self.runs.scatter(self.output, size, tile, from);
                }
            }
        }
        streaming::finish();
    }
}
