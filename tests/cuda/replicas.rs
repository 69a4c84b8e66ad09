use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::{DeviceReduction, KernelLauncher};
use umbo_core::kernels::reduce::over_replicas::{Planned, reduce_over_replicas, result_dtype};
use umbo_core::kernels::reduce::reduction::ReduceOp;

use crate::SIZES;
use crate::machine::{Machine, on_every_machine};
use crate::memory::{LIES, Lie, Memory, Noise};

/// Every operation with every dtype that it takes.
fn operations() -> impl Iterator<Item = (ReduceOp, DType)> {
    let all = ReduceOp::ALL.into_iter();
    let all = all.flat_map(|op| DType::ALL.map(|dtype| (op, dtype)));
    all.filter(|&(op, dtype)| result_dtype(op, dtype).is_ok())
}

/// Reduces on the CPU, and compares.
fn check(
    machine: &dyn Machine,
    op: ReduceOp,
    inputs: &[Memory],
    output: &mut Memory,
    place: &umbo_core::kernels::launch::DevicePlace,
) {
    let views: Vec<_> = inputs.iter().map(Memory::view).collect();
    let planned = Planned::new(op, views, output.view_mut()).unwrap();
    reduce_over_replicas(Instructions::chosen(), &mut [planned]);
    let case = || {
        let layout = output.layout;
        format!(
            "{} of {} {}, {layout:?}",
            op.name(),
            inputs.len(),
            inputs[0].dtype
        )
    };
    output.check(machine, place, &case);
}

fn every_operation_dtype_size_and_number_of_replicas(machine: &dyn Machine) {
    let mut noise = Noise::new(11);
    let mut launcher = KernelLauncher::new(machine);
    for (op, dtype) in operations() {
        for size in SIZES {
            for replicas in (1..=8).chain([9, 17]) {
                let inputs: Vec<Memory> = (0..replicas)
                    .map(|_| Memory::noise(dtype, &[size], Lie::Dense, &mut noise))
                    .collect();
                let result = result_dtype(op, dtype).unwrap();
                let mut output = Memory::noise(result, &[size], Lie::Dense, &mut noise);
                let places: Vec<_> = inputs.iter().map(|input| input.on(machine)).collect();
                let place = output.on(machine);
                let reduction = DeviceReduction {
                    op,
                    inputs: &places,
                    output: place,
                };
                launcher = launcher.with_few_chunks(replicas % 2 == 0);
                // SAFETY: nobody else has the memory.
                unsafe { launcher.reduce_over_replicas(&reduction).unwrap() };
                check(machine, op, &inputs, &mut output, &place);
            }
        }
    }
}

fn every_layout(machine: &dyn Machine) {
    let mut noise = Noise::new(12);
    let launcher = KernelLauncher::new(machine);
    for (op, dtype) in operations() {
        for shape in [vec![], vec![5, 7], vec![33, 31], vec![2, 3, 4, 5, 2, 2]] {
            for (lie, output_lie) in LIES.into_iter().flat_map(|lie| LIES.map(|to| (lie, to))) {
                let inputs: Vec<Memory> = [lie, Lie::Dense, output_lie]
                    .map(|lie| Memory::noise(dtype, &shape, lie, &mut noise))
                    .into();
                let result = result_dtype(op, dtype).unwrap();
                let mut output = Memory::noise(result, &shape, output_lie, &mut noise);
                let places: Vec<_> = inputs.iter().map(|input| input.on(machine)).collect();
                let place = output.on(machine);
                let reduction = DeviceReduction {
                    op,
                    inputs: &places,
                    output: place,
                };
                // SAFETY: nobody else has the memory.
                unsafe { launcher.reduce_over_replicas(&reduction).unwrap() };
                check(machine, op, &inputs, &mut output, &place);
            }
        }
    }
}

fn more_replicas_than_small_integers_are_added_exactly_in_float32(machine: &dyn Machine) {
    let mut noise = Noise::new(13);
    for dtype in [
        DType::Int8,
        DType::UInt16,
        DType::Float16,
        DType::UInt64,
        DType::Float32,
    ] {
        let inputs: Vec<Memory> = (0..300)
            .map(|_| Memory::noise(dtype, &[70], Lie::Dense, &mut noise))
            .collect();
        let result = result_dtype(ReduceOp::Mean, dtype).unwrap();
        let mut output = Memory::noise(result, &[70], Lie::Dense, &mut noise);
        let places: Vec<_> = inputs.iter().map(|input| input.on(machine)).collect();
        let place = output.on(machine);
        let reduction = DeviceReduction {
            op: ReduceOp::Mean,
            inputs: &places,
            output: place,
        };
        // SAFETY: nobody else has the memory.
        unsafe {
            KernelLauncher::new(machine)
                .reduce_over_replicas(&reduction)
                .unwrap()
        };
        check(machine, ReduceOp::Mean, &inputs, &mut output, &place);
    }
}

fn what_cannot_be_reduced_is_refused(machine: &dyn Machine) {
    let mut noise = Noise::new(15);
    let mut place =
        |dtype, shape: &[usize]| Memory::noise(dtype, shape, Lie::Dense, &mut noise).on(machine);
    let float = place(DType::Float32, &[3]);
    let longer = place(DType::Float32, &[4]);
    let integer = place(DType::Int32, &[3]);
    let boolean = place(DType::Bool, &[3]);
    let cases = [
        (vec![], float, "no components"),
        (vec![float, longer], float, "differ"),
        (vec![float, integer], float, "differ"),
        (vec![float], longer, "the result has [3]"),
        (vec![integer], integer, "float64"),
        (vec![boolean], boolean, "bool"),
        (vec![float; (1 << 15) + 1], float, "at most"),
    ];
    for (inputs, output, words) in cases {
        let reduction = DeviceReduction {
            op: ReduceOp::Mean,
            inputs: &inputs,
            output,
        };
        // SAFETY: nothing is queued.
        let result = unsafe { KernelLauncher::new(machine).reduce_over_replicas(&reduction) };
        let message = result.unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

on_every_machine! {
    every_operation_dtype_size_and_number_of_replicas
    every_layout
    more_replicas_than_small_integers_are_added_exactly_in_float32
    what_cannot_be_reduced_is_refused
}
