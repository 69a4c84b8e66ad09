use umbo::kernels::cuda::{GpuPlace, GpuUpdate, Gradient, KernelLauncher, TableRows};
use umbo::kernels::dtype::DType;
use umbo::kernels::float::half_precision::{f32_to_bf16, f32_to_f16};
use umbo::kernels::update::weighted_sum::Clipping;
use umbo::optimizer::ftrl::Ftrl;
use umbo::optimizer::rule::{Rates, UpdateRule};

use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::rules::rules;
use crate::thresholds;

const ELEMENTS: usize = 2_100;
const WIDTH: usize = 3;

/// Weights in the middle between two numbers of 16 bits, and beside it.
fn near_middles(noise: &mut Noise) -> u64 {
    let bits = noise.element(DType::Float32);
    let dropped = [13, 16][noise.below(2)];
    let middle = (bits >> dropped << dropped) | 1 << (dropped - 1);
    middle.wrapping_add(noise.below(3) as u64).wrapping_sub(1) & 0xffff_ffff
}

/// A rule's updates by gradients of zero, from a state of zero and without decay, leave the weights as
/// they are, and copies are their roundings.
fn copies_are_rounded_to_even(machine: &dyn Machine) {
    let mut noise = Noise::new(61);
    let mut rules = rules();
    // This one computes weights of its state.
    let ftrl = rules.iter_mut().find(|rule| rule.name() == "ftrl").unwrap();
    *ftrl = Box::new(Ftrl::new(1.0, 0.0, 0.0, 0.0).unwrap());
    for rule in &rules {
        for (of_rows, few_are_many) in [(false, false), (false, true), (true, false)] {
            if !of_rows || !rule.measures() {
                check(machine, &**rule, of_rows, few_are_many, &mut noise);
            }
        }
    }
}

fn check(
    machine: &dyn Machine,
    rule: &dyn UpdateRule,
    of_rows: bool,
    few_are_many: bool,
    noise: &mut Noise,
) {
    let weights = Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || near_middles(noise));
    let ends: Vec<f32> = weights.view().as_slice::<f32>().unwrap().to_vec();
    let place = weights.on(machine);
    let of_state = |slot: usize| {
        let mut left = ends.iter();
        Memory::new(DType::Float32, &[ELEMENTS], Lie::Dense, || match left.next() {
            Some(weight) if rule.name() == "ftrl" && slot == 0 => (-weight).to_bits().into(),
            _ => 0,
        })
    };
    let slots: Vec<GpuPlace> =
        (0..rule.slots().len()).map(|slot| of_state(slot).on(machine)).collect();
    let slots: Vec<u64> = slots.iter().map(|place| place.address).collect();
    let of_copy = |dtype| Memory::new(dtype, &[ELEMENTS], Lie::Dense, || 0).on(machine);
    let copies = [of_copy(DType::Float16), of_copy(DType::BFloat16)];
    let zeros = Memory::new(DType::Float64, &[ELEMENTS], Lie::Dense, || 0).on(machine);
    let rates = Rates { learning_rate: 1.0, weight_decay: 0.0 };
    let scalars = rule.prepare(&rates, &rule.initial_running()).unwrap();
    let numbers: Vec<usize> = (0..ELEMENTS / WIDTH).collect();
    let rows = TableRows { numbers: &numbers, elements: WIDTH as u64, of: numbers.len() };
    let update = GpuUpdate {
        gradient: Gradient {
            dtype: DType::Float32,
            elements: ELEMENTS as u64,
            gradient_dtype: DType::Float32,
            contributions: &[],
            accumulated: Some(zeros.address),
            divisor: 1.0,
        },
        clipping: Clipping::NONE,
        l2: 0.0,
        step: scalars.step.unwrap(),
        weights: place.address,
        slots: &slots,
        copies: copies.each_ref().map(|copy| Some(copy.address)),
        rows: of_rows.then_some(rows),
        not_finite: None,
    };
    // SAFETY: nobody else has the memory.
    unsafe {
        let mut launcher = KernelLauncher::new(machine).with_thresholds(thresholds(few_are_many));
        launcher.update(&[update]).unwrap();
    }
    // LAMB's quotient of norms is not a number where one of the weights is not.
    let mut left = machine.read(place.address, 4 * ELEMENTS).into_iter();
    let found: Vec<f32> = (0..ELEMENTS)
        .map(|_| f32::from_ne_bytes(std::array::from_fn(|_| left.next().unwrap())))
        .collect();
    let unchanged = found.iter().zip(&ends).filter(|(found, end)| found == end).count();
    let case = format!("{}, rows {of_rows}, {few_are_many}", rule.name());
    assert!(rule.measures() || unchanged > ELEMENTS / 2, "{case}: {unchanged} are as they were");
    let mut left = found.iter();
    let f16s = Memory::new(DType::Float16, &[ELEMENTS], Lie::Dense, || {
        left.next().map_or(0, |&weight| f32_to_f16(weight).to_bits().into())
    });
    f16s.check(machine, &copies[0], &|| format!("the float16 copy of {case}"));
    let mut left = found.iter();
    let bf16s = Memory::new(DType::BFloat16, &[ELEMENTS], Lie::Dense, || {
        left.next().map_or(0, |&weight| f32_to_bf16(weight).to_bits().into())
    });
    bf16s.check(machine, &copies[1], &|| format!("the bfloat16 copy of {case}"));
}

on_every_machine! { copies_are_rounded_to_even }
