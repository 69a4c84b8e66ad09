use umbo_core::kernels::copy::combine::combine;
use umbo_core::kernels::copy::layouts::copy;
use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::float::half_precision::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f64_to_bf16, f64_to_f16,
};
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::KernelLauncher;

use crate::machine::{Machine, on_every_machine};
use crate::memory::{LIES, Lie, Memory, Noise};
use crate::{SIZES, share};

const FLOATS: [DType; 4] = [
    DType::Float16,
    DType::BFloat16,
    DType::Float32,
    DType::Float64,
];

/// Shapes with the number of elements of every size, and some of several axes.
fn shapes() -> Vec<Vec<usize>> {
    let mut shapes: Vec<Vec<usize>> = SIZES.iter().map(|&size| vec![size]).collect();
    shapes.extend([
        vec![],
        vec![1, 1, 7],
        vec![3, 0, 5],
        vec![31, 33],
        vec![4, 64, 8],
        vec![2, 3, 1, 5, 2, 3, 2, 4],
    ]);
    shapes
}

fn copies_between_all_layouts(machine: &dyn Machine) {
    let mut noise = Noise::new(1);
    let mut launcher = KernelLauncher::new(machine);
    for dtype in DType::ALL {
        for (turn, shape) in shapes().into_iter().enumerate() {
            let lies = LIES.into_iter().flat_map(|lie| LIES.map(|to| (lie, to)));
            for (from_lie, to_lie) in share(machine, turn + dtype as usize, lies) {
                launcher = launcher.with_few_chunks(to_lie == Lie::Shifted);
                let from = Memory::noise(dtype, &shape, from_lie, &mut noise);
                let mut to = Memory::noise(dtype, &shape, to_lie, &mut noise);
                let places = (from.on(machine), to.on(machine));
                // SAFETY: nobody else has the memory.
                unsafe { launcher.copy(&[places]).unwrap() };
                copy(Instructions::chosen(), &from.view(), &mut to.view_mut()).unwrap();
                let case = || format!("{dtype} {shape:?} from {from_lie:?} to {to_lie:?}");
                to.check(machine, &places.1, &case);
            }
        }
    }
}

fn a_list_of_copies(machine: &dyn Machine) {
    let mut noise = Noise::new(2);
    let mut from = Vec::new();
    let mut to = Vec::new();
    for (position, size) in [0, 1, 5000, 0, 1024, 1025, 3].into_iter().enumerate() {
        let dtype = DType::ALL[position % DType::ALL.len()];
        from.push(Memory::noise(
            dtype,
            &[size],
            LIES[position % 4],
            &mut noise,
        ));
        to.push(Memory::noise(
            dtype,
            &[size],
            LIES[position % 3],
            &mut noise,
        ));
    }
    let pairs: Vec<_> = from
        .iter()
        .zip(&to)
        .map(|(from, to)| (from.on(machine), to.on(machine)))
        .collect();
    // SAFETY: nobody else has the memory.
    unsafe { KernelLauncher::new(machine).copy(&pairs).unwrap() };
    for ((from, to), (_, place)) in from.iter().zip(&mut to).zip(&pairs) {
        copy(Instructions::chosen(), &from.view(), &mut to.view_mut()).unwrap();
        to.check(machine, place, &|| {
            format!("{:?} of {}", to.layout, to.dtype)
        });
    }
}

fn fills(machine: &dyn Machine) {
    let mut noise = Noise::new(4);
    for dtype in DType::ALL {
        for shape in shapes() {
            for lie in LIES {
                let before = Memory::noise(dtype, &shape, lie, &mut noise);
                let mut after = before.clone();
                let mut zeros = before.clone();
                let places = [before.on(machine), before.on(machine)];
                let launcher = KernelLauncher::new(machine).with_few_chunks(lie == Lie::Shifted);
                // SAFETY: nobody else has the memory.
                unsafe {
                    launcher.fill(&places[0], 1.0).unwrap();
                    launcher.fill(&places[1], 0.0).unwrap();
                }
                let one: u64 = match dtype {
                    DType::Float16 => 0x3c00,
                    DType::BFloat16 => 0x3f80,
                    DType::Float32 => 0x3f80_0000,
                    DType::Float64 => 0x3ff0 << 48,
                    _ => 1,
                };
                let ones = Memory::new(dtype, &shape, Lie::Dense, || one);
                copy(Instructions::chosen(), &ones.view(), &mut after.view_mut()).unwrap();
                umbo_core::kernels::copy::layouts::fill(&mut zeros.view_mut(), 0.0);
                after.check(machine, &places[0], &|| {
                    format!("1 in {dtype} {shape:?} {lie:?}")
                });
                zeros.check(machine, &places[1], &|| {
                    format!("0 in {dtype} {shape:?} {lie:?}")
                });
            }
        }
    }
}

/// What the CPU rounds an element to.
fn converted(from: DType, to: DType, bits: u64) -> u64 {
    use half::{bf16, f16};
    let single = match from {
        DType::Float16 => f16_to_f32(f16::from_bits(bits as u16)),
        DType::BFloat16 => bf16_to_f32(bf16::from_bits(bits as u16)),
        DType::Float32 => f32::from_bits(bits as u32),
        _ => f64::from_bits(bits) as f32,
    };
    let wide = if from == DType::Float64 {
        f64::from_bits(bits)
    } else {
        single.into()
    };
    match (from, to) {
        (DType::Float64, DType::Float16) => f64_to_f16(wide).to_bits().into(),
        (DType::Float64, DType::BFloat16) => f64_to_bf16(wide).to_bits().into(),
        (_, DType::Float16) => f32_to_f16(single).to_bits().into(),
        (_, DType::BFloat16) => f32_to_bf16(single).to_bits().into(),
        (_, DType::Float32) => single.to_bits().into(),
        _ => wide.to_bits(),
    }
}

/// Elements near the ties of a narrower type, and others.
fn near_ties(noise: &mut Noise, from: DType) -> u64 {
    let bits = noise.element(from);
    let dropped = match (from, noise.below(3)) {
        (DType::Float32, 0) => 13,
        (DType::Float32, 1) => 16,
        (DType::Float64, 0) => 29,
        (DType::Float64, 1) => 42,
        (DType::Float64, _) => 45,
        _ => return bits,
    };
    let tie = (bits >> dropped << dropped) | 1 << (dropped - 1);
    if dropped > 29 && noise.below(2) == 0 {
        // As near to it as a float32 that lies between: rounding twice would come to the tie.
        return tie
            .wrapping_add(noise.below(1 << 30) as u64)
            .wrapping_sub(1 << 29);
    }
    tie.wrapping_add(noise.below(3) as u64).wrapping_sub(1)
}

fn conversions_round_once(machine: &dyn Machine) {
    let mut noise = Noise::new(5);
    let mut launcher = KernelLauncher::new(machine);
    for (from, to) in FLOATS
        .into_iter()
        .flat_map(|from| FLOATS.map(|to| (from, to)))
    {
        for shape in shapes().into_iter().chain([vec![20_011]]) {
            for (position, lie) in LIES.into_iter().enumerate() {
                let source = Memory::new(from, &shape, lie, || near_ties(&mut noise, from));
                let to_lie = LIES[(noise.below(2) + position) % LIES.len()];
                let mut target = Memory::noise(to, &shape, to_lie, &mut noise);
                let places = (source.on(machine), target.on(machine));
                launcher = launcher.with_few_chunks(lie == Lie::Shifted);
                // SAFETY: nobody else has the memory.
                unsafe { launcher.convert(&places.0, &places.1).unwrap() };
                // The elements in order, converted one by one.
                let mut dense = Memory::new(from, &shape, Lie::Dense, || 0);
                copy(
                    Instructions::chosen(),
                    &source.view(),
                    &mut dense.view_mut(),
                )
                .unwrap();
                let mut elements = dense.bytes().chunks(from.size());
                let converted = Memory::new(to, &shape, Lie::Dense, || {
                    let mut word = [0; 8];
                    word[..from.size()].copy_from_slice(elements.next().unwrap());
                    converted(from, to, u64::from_ne_bytes(word))
                });
                copy(
                    Instructions::chosen(),
                    &converted.view(),
                    &mut target.view_mut(),
                )
                .unwrap();
                let case = || format!("{from} to {to} {shape:?} {lie:?} {to_lie:?}");
                target.check(machine, &places.1, &case);
            }
        }
    }
}

fn every_float16_and_bfloat16_is_converted(machine: &dyn Machine) {
    for from in [DType::Float16, DType::BFloat16] {
        for to in FLOATS {
            let mut bits = 0;
            let mut next = || {
                bits += 1;
                bits & 0xffff
            };
            let source = Memory::new(from, &[1 << 16], Lie::Dense, &mut next);
            let target = Memory::new(to, &[1 << 16], Lie::Dense, || 0);
            let places = (source.on(machine), target.on(machine));
            // SAFETY: nobody else has the memory.
            unsafe {
                KernelLauncher::new(machine)
                    .convert(&places.0, &places.1)
                    .unwrap()
            };
            let mut bits = 0u64;
            let expected = Memory::new(to, &[1 << 16], Lie::Dense, || {
                bits += 1;
                if bits <= 1 << 16 {
                    converted(from, to, bits & 0xffff)
                } else {
                    0
                }
            });
            expected.check(machine, &places.1, &|| format!("{from} to {to}"));
        }
    }
}

fn additions_and_subtractions_in_place(machine: &dyn Machine) {
    let mut noise = Noise::new(6);
    let mut launcher = KernelLauncher::new(machine);
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for shape in shapes() {
            let lies = LIES.into_iter().flat_map(|lie| LIES.map(|to| (lie, to)));
            for (from_lie, to_lie) in lies.step_by(1 + machine.slowness() / 5) {
                for subtracts in [false, true] {
                    launcher = launcher.with_few_chunks(subtracts);
                    let from = Memory::noise(dtype, &shape, from_lie, &mut noise);
                    let mut to = Memory::noise(dtype, &shape, to_lie, &mut noise);
                    let places = (from.on(machine), to.on(machine));
                    let source = from.view();
                    let mut target = to.view_mut();
                    // SAFETY: nobody else has the memory.
                    unsafe {
                        launcher.combine(&places.0, &places.1, subtracts).unwrap();
                    }
                    combine(Instructions::chosen(), &source, &mut target, subtracts).unwrap();
                    let case = || format!("{dtype} {shape:?} {from_lie:?} {to_lie:?} {subtracts}");
                    to.check(machine, &places.1, &case);
                }
            }
        }
    }
}

fn mismatched_operands_are_refused(machine: &dyn Machine) {
    let mut noise = Noise::new(7);
    let launcher = KernelLauncher::new(machine);
    let mut place =
        |dtype, shape: &[usize]| Memory::noise(dtype, shape, Lie::Dense, &mut noise).on(machine);
    let a = place(DType::Float32, &[3]);
    let b = place(DType::Float32, &[4]);
    let c = place(DType::Int32, &[3]);
    let d = place(DType::Bool, &[3]);
    // SAFETY: nothing is queued.
    unsafe {
        for (from, to, name) in [(a, b, "shape"), (a, c, "dtype")] {
            let message = launcher
                .copy(&[(a, a), (from, to)])
                .unwrap_err()
                .to_string();
            assert!(message.contains(name), "{message}");
        }
        assert!(
            launcher
                .combine(&d, &d, false)
                .unwrap_err()
                .to_string()
                .contains("bool")
        );
        assert!(
            launcher
                .convert(&a, &c)
                .unwrap_err()
                .to_string()
                .contains("only floats")
        );
        assert!(launcher.convert(&a, &b).is_err());
    }
}

on_every_machine! {
    copies_between_all_layouts
    a_list_of_copies
    fills
    conversions_round_once
    every_float16_and_bfloat16_is_converted
    additions_and_subtractions_in_place
    mismatched_operands_are_refused
}
