use umbo::kernels::cuda::KernelLauncher;
use umbo::kernels::dtype::DType;
use umbo::kernels::instruction_set::Instructions;
use umbo::kernels::layout::MAX_RANK;
use umbo::kernels::reduce::over_axes::{AxisMask, reduce_over_axes};
use umbo::kernels::reduce::over_replicas::result_dtype;
use umbo::kernels::reduce::reduction::ReduceOp;

use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::{share, thresholds};

const OPERATIONS: [ReduceOp; 2] = [ReduceOp::Sum, ReduceOp::Mean];

fn mask(axes: &[usize]) -> AxisMask {
    let mut mask = [false; MAX_RANK];
    axes.iter().for_each(|&axis| mask[axis] = true);
    mask
}

/// Reduces inputs of these shapes on the CPU and on a machine, and compares.
#[expect(clippy::too_many_arguments, reason = "what a case is made of")]
fn check(
    machine: &dyn Machine,
    op: ReduceOp,
    dtype: DType,
    shapes: &[Vec<usize>],
    axes: &[usize],
    lies: (Lie, Lie),
    few_are_many: bool,
    mut element: impl FnMut() -> u64,
) {
    let inputs: Vec<Memory> =
        shapes.iter().map(|shape| Memory::new(dtype, shape, lies.0, &mut element)).collect();
    let kept: Vec<usize> = (0..shapes[0].len())
        .filter(|axis| !axes.contains(axis))
        .map(|axis| shapes[0][axis])
        .collect();
    let mut output = Memory::new(result_dtype(op, dtype).unwrap(), &kept, lies.1, &mut element);
    let places: Vec<_> = inputs.iter().map(|input| input.on(machine)).collect();
    let place = output.on(machine);
    let reduced = mask(axes);
    // SAFETY: nobody else has the memory.
    unsafe {
        let mut launcher = KernelLauncher::new(machine).with_thresholds(thresholds(few_are_many));
        launcher.reduce_over_axes(op, &places, &reduced, &place).unwrap();
    }
    let views: Vec<_> = inputs.iter().map(Memory::view).collect();
    let instructions = Instructions::chosen();
    reduce_over_axes(instructions, op, &views, &reduced, &mut output.view_mut()).unwrap();
    let case = || format!("{} of {dtype} {shapes:?} over {axes:?}, {lies:?}", op.name());
    output.check(machine, &place, &case);
}

/// Half of the time elements that nothing swallows.
fn elements(noise: &mut Noise, dtype: DType) -> impl FnMut() -> u64 {
    let tame = noise.below(2) == 0;
    move || if tame { noise.tame(dtype) } else { noise.element(dtype) }
}

fn every_operation_and_dtype(machine: &dyn Machine) {
    let mut noise = Noise::new(21);
    // A lane takes every 16th number, four at a time as long as there are four: of 115 numbers it has 8 or 7.
    let cases: [(&[usize], &[usize]); 13] = [
        (&[0], &[0]),
        (&[1], &[0]),
        (&[17], &[0]),
        (&[1039], &[0]),
        (&[17_000], &[0]),
        (&[115, 33], &[0]),
        (&[40, 115], &[1]),
        (&[3, 70, 5], &[0, 2]),
        (&[3, 70, 5], &[1]),
        (&[2, 3, 17, 4], &[2]),
        (&[1100, 20], &[0]),
        (&[20, 1100], &[1]),
        (&[4, 6], &[]),
    ];
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for (turn, (op, (shape, axes))) in
            OPERATIONS.into_iter().flat_map(|op| cases.map(|case| (op, case))).enumerate()
        {
            let lies = [
                (Lie::Dense, Lie::Dense),
                (Lie::Transposed, Lie::Shifted),
                (Lie::Spaced, Lie::Transposed),
            ];
            for lies in share(machine, turn + dtype as usize, lies) {
                // Only where there are other axes does a thread have a result.
                for few_are_many in [false, true].into_iter().take(shape.len().min(2)) {
                    let element = elements(&mut noise, dtype);
                    check(machine, op, dtype, &[shape.to_vec()], axes, lies, few_are_many, element);
                }
            }
        }
    }
}

fn replicas_of_different_lengths(machine: &dyn Machine) {
    let mut noise = Noise::new(22);
    let dense = (Lie::Dense, Lie::Dense);
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for op in OPERATIONS {
            for replicas in (1..=8).step_by(1 + machine.slowness() / 20) {
                let rows = [5, 0, 1030, 1, 17, 2048, 64, 3];
                let shapes: Vec<Vec<usize>> =
                    rows[..replicas].iter().map(|&rows| vec![rows, 18]).collect();
                for (axes, few_are_many) in [(&[0][..], false), (&[0], true), (&[0, 1], false)] {
                    let element = elements(&mut noise, dtype);
                    check(machine, op, dtype, &shapes, axes, dense, few_are_many, element);
                }
            }
        }
    }
}

/// As many results as have a thread each, and more chunks than a part is cut into at least.
fn many_results_and_many_chunks(machine: &dyn Machine) {
    let mut noise = Noise::new(23);
    for (shape, axes) in [
        (vec![33, 40_000], vec![0]),
        (vec![1030 / machine.slowness().min(20), 33_000], vec![0]),
        (vec![20_000, 2], vec![1]),
        (vec![1_200_000], vec![0]),
        (vec![17_000, 3], vec![0]),
    ] {
        // Most of an interpreter's time.
        let few = 1 + machine.slowness() / 25;
        let dtypes = [(ReduceOp::Sum, DType::Float32), (ReduceOp::Mean, DType::BFloat16)];
        for (op, dtype) in dtypes.into_iter().step_by(few) {
            let element = elements(&mut noise, dtype);
            check(
                machine,
                op,
                dtype,
                std::slice::from_ref(&shape),
                &axes,
                (Lie::Dense, Lie::Dense),
                false,
                element,
            );
        }
    }
}

/// The sums of 128 bits on both sides of what 64 hold.
fn means_of_large_integers_are_rounded_once(machine: &dyn Machine) {
    let mut noise = Noise::new(24);
    for dtype in [DType::Int64, DType::UInt64] {
        for count in [1, 2, 3, 100, 1500] {
            for kind in 0..6 {
                let element = || match kind {
                    0 => u64::MAX,
                    1 => i64::MAX as u64,
                    2 => i64::MIN as u64,
                    3 => (1 << 53) + 1,
                    4 => (noise.next() >> 1) | 1 << 62,
                    _ => noise.next(),
                };
                let lies = (Lie::Dense, Lie::Dense);
                check(machine, ReduceOp::Mean, dtype, &[vec![count]], &[0], lies, false, element);
            }
        }
    }
}

fn what_cannot_be_reduced_is_refused(machine: &dyn Machine) {
    let mut noise = Noise::new(25);
    let mut place =
        |dtype, shape: &[usize]| Memory::noise(dtype, shape, Lie::Dense, &mut noise).on(machine);
    let (float, row, boolean) =
        (place(DType::Float32, &[3, 4]), place(DType::Float32, &[4]), place(DType::Bool, &[3, 4]));
    let cases = [
        (vec![], row, "no components"),
        (vec![float, row], row, "does not reduce"),
        (vec![float], float, "does not reduce"),
        (vec![boolean], row, "bool"),
        (vec![float], boolean, "is float32"),
        (vec![float; 70_000], row, "at most"),
    ];
    for (inputs, output, what) in cases {
        let mut launcher = KernelLauncher::new(machine);
        // SAFETY: nothing is queued.
        let result =
            unsafe { launcher.reduce_over_axes(ReduceOp::Mean, &inputs, &mask(&[0]), &output) };
        let message = result.unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    }
}

on_every_machine! { every_operation_and_dtype replicas_of_different_lengths many_results_and_many_chunks means_of_large_integers_are_rounded_once what_cannot_be_reduced_is_refused }
