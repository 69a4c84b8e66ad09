//! Sums of float32 without float64 have the bits of those with it.

use umbo::kernels::cuda::{self, Gradient, Launcher, Reduction};
use umbo::kernels::dtype::DType;
use umbo::kernels::instruction_set::Instructions;
use umbo::kernels::reduce::over_replicas::{Planned, reduce_over_replicas};
use umbo::kernels::reduce::reduction::ReduceOp;
use umbo::kernels::update::weighted_sum::{Contribution, WeightedSum};

use crate::machine::{Host, Machine, on_every_machine, recomputed};
use crate::memory::{Lie, Memory, Noise};

const ELEMENTS: usize = 12_000;

/// Tuples that are hard to round: `replicas` numbers that are added up, many times.
fn tuples(replicas: usize, kind: usize, noise: &mut Noise) -> Vec<Memory> {
    let mut columns = vec![Vec::with_capacity(ELEMENTS); replicas];
    for _ in 0..ELEMENTS {
        let any = |noise: &mut Noise| f32::from_bits(noise.element(DType::Float32) as u32);
        // Between 1 and 2, with either sign, and times a power of two.
        let near = |noise: &mut Noise, spread: usize| {
            let bits = (noise.next() as u32 & 0x807f_ffff) | 127 << 23;
            f32::from_bits(bits) * 2f32.powi(noise.below(spread + 1) as i32 - spread as i32 / 2)
        };
        let mut tuple: Vec<f32> = match kind {
            0 => (0..replicas).map(|_| any(noise)).collect(),
            // Of like magnitude: exact sums, often just in the middle of two numbers.
            1 => (0..replicas).map(|_| near(noise, 2)).collect(),
            2 => (0..replicas).map(|_| near(noise, 60)).collect(),
            // Half a place of the first, and hardly more or less; below a power of two, half of that.
            3 => {
                let mut first = near(noise, 10);
                let mut half = f32::from_bits((first.to_bits() & 0x7f80_0000) - (24 << 23));
                if noise.below(2) == 0 {
                    first = f32::from_bits(first.to_bits() & 0xff80_0000);
                    half = first * -(2f32.powi(-25));
                }
                let mut rest = half;
                (0..replicas)
                    .map(|position| {
                        let term = if position == 0 { first } else { rest };
                        if position > 0 {
                            let sign = [1.0, -1.0][noise.below(2)];
                            rest *= sign * 2f32.powi(-(noise.below(40) as i32));
                        }
                        term
                    })
                    .collect()
            }
            // What cancels, but for something small.
            4 => {
                let mut tuple: Vec<f32> = (0..replicas).map(|_| near(noise, 8)).collect();
                for position in (1..replicas).step_by(2) {
                    tuple[position] = -tuple[position - 1];
                }
                if replicas > 2 {
                    tuple[replicas - 1] = near(noise, 8) * 2f32.powi(-(noise.below(50) as i32));
                }
                tuple
            }
            // Zeros of both signs, and few others.
            5 => (0..replicas)
                .map(|_| match noise.below(8) {
                    0 => near(noise, 4),
                    sign => f32::from_bits((sign as u32 & 1) << 31),
                })
                .collect(),
            // Around what is denormal, and around what is too large.
            6 => (0..replicas).map(|_| near(noise, 4) * 2f32.powi(-126)).collect(),
            7 => (0..replicas).map(|_| near(noise, 4) * 2f32.powi(125)).collect(),
            // So small that, once divided by much, some have few places left.
            10 => (0..replicas).map(|_| near(noise, 20) * 2f32.powi(-58)).collect(),
            // Few digits.
            8 => (0..replicas).map(|_| (noise.below(512) as f32 - 256.0) / 64.0).collect(),
            // A sum that is in the middle of two numbers once it is divided by three.
            _ => {
                let middle = (noise.next() as u32 & 0x1ff_ffff) | 0x100_0001;
                let mut left = 3 * i64::from(middle);
                (0..replicas)
                    .map(|position| {
                        let last = position + 1 == replicas;
                        let most = if last { left } else { left / 2 };
                        let term = most as f32;
                        left -= term as i64;
                        term
                    })
                    .collect()
            }
        };
        let turn = noise.below(replicas);
        tuple.rotate_left(turn);
        columns.iter_mut().zip(tuple).for_each(|(column, number)| column.push(number));
    }
    columns
        .into_iter()
        .map(|column| {
            let mut numbers = column.into_iter();
            Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || {
                numbers.next().unwrap_or(0.0).to_bits().into()
            })
        })
        .collect()
}

/// The gradient of these buffers, on a machine that does without float64 where it can, and here.
fn check_gradient(machine: &dyn Machine, buffers: &[Memory], factors: &[f64], divisor: f64) {
    let on_machine: Vec<cuda::Contribution> = buffers
        .iter()
        .zip(factors)
        .map(|(buffer, &factor)| cuda::Contribution {
            gradient: buffer.on(machine).address,
            factor,
        })
        .collect();
    let mut target = Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || 0);
    let place = target.on(machine);
    let gradient = Gradient {
        dtype: DType::Float32,
        elements: ELEMENTS as u64,
        gradient_dtype: DType::Float32,
        contributions: &on_machine,
        accumulated: None,
        divisor,
    };
    let mut launcher = Launcher::new(machine).with_slow_float64(true);
    // SAFETY: nobody else has the memory.
    unsafe { launcher.write_gradients(&[(gradient, place.address)]).unwrap() };
    let contributions: Vec<Contribution<'_>> = buffers
        .iter()
        .zip(factors)
        .map(|(buffer, &factor)| Contribution { gradient: buffer.span(), factor })
        .collect();
    let sum = WeightedSum::new(DType::Float32, ELEMENTS, &contributions, divisor);
    // SAFETY: nobody else has the memory.
    unsafe { sum.write_to(Instructions::chosen(), &target.span_mut()) };
    target.check(machine, &place, &|| format!("{factors:?}, divided by {divisor}"));
}

fn check_reduction(machine: &dyn Machine, buffers: &[Memory], op: ReduceOp) {
    let mut output = Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || 0);
    let inputs: Vec<_> = buffers.iter().map(|buffer| buffer.on(machine)).collect();
    let place = output.on(machine);
    let mut launcher = Launcher::new(machine).with_slow_float64(true);
    // SAFETY: nobody else has the memory.
    unsafe {
        launcher.reduce_over_replicas(&[Reduction { op, inputs: &inputs, output: place }]).unwrap();
    }
    let views = buffers.iter().map(Memory::view).collect();
    let planned = Planned::new(op, views, output.view_mut()).unwrap();
    reduce_over_replicas(Instructions::chosen(), &mut [planned]);
    output.check(machine, &place, &|| format!("{} of {}", op.name(), buffers.len()));
}

const KINDS: usize = 11;

/// More than a million tuples.
fn sums_that_are_hard_to_round(machine: &dyn Machine) {
    let mut noise = Noise::new(61);
    let cases = (1..=8).flat_map(|replicas| (0..KINDS).map(move |kind| (replicas, kind)));
    for (replicas, kind) in cases {
        let buffers = tuples(replicas, kind, &mut noise);
        check_reduction(machine, &buffers, ReduceOp::Sum);
        check_reduction(machine, &buffers, ReduceOp::Mean);
        let weights: [&[f64]; 5] =
            [&[1.0], &[1.0 / 3.0], &[31.0, 32.0], &[-2.0, 0.25], &[1.0 / 7.0, 1e-9]];
        for (round, weights) in weights.into_iter().enumerate() {
            let factors: Vec<f64> = weights.iter().copied().cycle().take(replicas).collect();
            let divisor = match kind {
                10 => (1u64 << 40) as f64 / [1.0, 3.0][round % 2],
                _ => [1.0, 3.0, 4.0, replicas as f64, 62.0][(round + replicas + kind) % 5],
            };
            check_gradient(machine, &buffers, &factors, divisor);
        }
    }
}

/// The ordinary case does without float64, or this would be of no use; the hard ones do not.
#[test]
fn few_ordinary_sums_need_float64() {
    let (machine, mut noise) = (Host::default(), Noise::new(62));
    recomputed();
    for replicas in [1, 2, 4, 8] {
        let buffers: Vec<Memory> = (0..replicas)
            .map(|_| {
                Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || noise.tame(DType::Float32))
            })
            .collect();
        let ones = vec![1.0; replicas];
        check_gradient(&machine, &buffers, &ones, replicas as f64);
        check_reduction(&machine, &buffers, ReduceOp::Mean);
        let share = recomputed() as f64 / (2 * ELEMENTS) as f64;
        assert!(share < 0.002, "{replicas} replicas: {share}");
        println!("{replicas} replicas: {:.4}% of the sums are added in float64", 100.0 * share);
    }
    for (replicas, kind) in [(2, 0), (4, 2), (3, 3), (3, 9)] {
        let buffers = tuples(replicas, kind, &mut noise);
        check_gradient(&machine, &buffers, &vec![1.0; replicas], 3.0);
        assert!(recomputed() > 0, "{replicas} of kind {kind}");
    }
}

on_every_machine! { sums_that_are_hard_to_round }
