//! Updates by factored moments, in variables of many shapes.

use std::sync::atomic::AtomicBool;

use umbo_core::executor::pieces::Pieces;
use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::{
    DeviceFactoredUpdate, DeviceMoments, DevicePlace, Gradient, KernelLauncher,
};
use umbo_core::kernels::update::factored::{FactoredScalars, Moments};
use umbo_core::kernels::update::pass::UpdatePass;
use umbo_core::kernels::update::weighted_sum::Clipping;

use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::sources::{PAIRS, Sources};

/// Rows and columns around the ends of what lanes, threads, tiles and blocks do; one and several
/// matrices; variables of fewer dimensions.
const SHAPES: [&[usize]; 19] = [
    &[],
    &[7],
    &[512],
    &[1025],
    &[70_000],
    &[0, 5],
    &[5, 0],
    &[1, 1],
    &[5, 3],
    &[3, 17],
    &[40, 1],
    &[17, 512],
    &[33, 513],
    &[2, 1300],
    &[700, 2],
    &[300, 96],
    &[17, 5000],
    &[2, 3, 4],
    &[300, 2, 2],
];

/// One variable's update, here and on a machine.
struct Case {
    shape: &'static [usize],
    sources: Sources,
    scalars: FactoredScalars,
    clipping: Clipping,
    /// The weights, and the moments: of elements, or of rows and of columns.
    operands: Vec<Memory>,
    places: Vec<DevicePlace>,
    flag: Option<u64>,
}

fn factors(shape: &[usize]) -> Option<[usize; 2]> {
    match *shape {
        [.., rows, columns] => Some([rows, columns]),
        _ => None,
    }
}

impl Case {
    fn new(
        machine: &dyn Machine,
        shape: &'static [usize],
        (pair, replicas): ((DType, DType), usize),
        tame: bool,
        noise: &mut Noise,
    ) -> Case {
        let elements: usize = shape.iter().product();
        let sources = Sources::new(machine, pair, elements, replicas, tame, noise);
        let leading: usize = shape.iter().rev().skip(2).product();
        let sizes = match factors(shape) {
            Some([rows, columns]) => vec![elements, leading * rows, leading * columns],
            None => vec![elements; 2],
        };
        let mut operands: Vec<Memory> = sizes
            .into_iter()
            .map(|count| Memory::dense(pair.0, count, tame, noise))
            .collect();
        if tame {
            operands[1..].iter_mut().for_each(Memory::make_positive);
        }
        let places = operands.iter().map(|operand| operand.on(machine)).collect();
        let scalars = FactoredScalars {
            share: [1.0, 0.3][noise.below(2)],
            epsilon1: [None, Some(1e-3)][noise.below(2)],
            epsilon2: [1e-3, 3.0][noise.below(2)],
            clip_threshold: [1.0, 1.5][noise.below(2)],
            rate: 0.1 / 3.0,
            kept: [1.0, 0.99][noise.below(2)],
        };
        let clipping = Clipping {
            factor: [1.0, 0.3][noise.below(2)],
            limit: [f64::INFINITY, 0.25][noise.below(2)],
        };
        let flag = (noise.below(4) > 0).then(|| machine.memory(&[0; 4]));
        Case {
            shape,
            sources,
            scalars,
            clipping,
            operands,
            places,
            flag,
        }
    }

    fn update(&self) -> DeviceFactoredUpdate<'_> {
        let address = |index: usize| self.places[index].address;
        DeviceFactoredUpdate {
            gradient: self.sources.gradient(),
            clipping: self.clipping,
            scalars: self.scalars,
            weights: address(0),
            moments: match factors(self.shape) {
                None => DeviceMoments::Full(address(1)),
                Some(sizes) => DeviceMoments::Factored {
                    rows: address(1),
                    columns: address(2),
                    sizes: sizes.map(|size| size as u64),
                },
            },
            not_finite: self.flag,
        }
    }

    /// Updates on the CPU. Returns whether a gradient was not finite.
    fn update_here(&mut self) -> bool {
        let not_finite = AtomicBool::new(false);
        let contributions = self.sources.contributions();
        let [of_sums, of_means] = Moments::numbers(self.shape);
        let [mut sums, mut means] = [of_sums, of_means]
            .map(|count| Memory::new(DType::Float64, &[count], Lie::Dense, || u64::MAX));
        let spans: Vec<_> = self.operands.iter_mut().map(Memory::span_mut).collect();
        let (sums, means) = (sums.span_mut(), means.span_mut());
        let [weights, states @ ..] = &spans[..] else {
            unreachable!("a variable has weights");
        };
        let (moments, slots) = match factors(self.shape) {
            None => (Moments::Full, states),
            Some(sizes) => {
                let (rows, columns) = (&states[0], &states[1]);
                let moments = Moments::Factored {
                    rows,
                    columns,
                    sizes,
                };
                (moments, &states[..0])
            }
        };
        let divisor = self.sources.divisor;
        let instructions = Instructions::chosen();
        // SAFETY: nobody else has the operands.
        let pass =
            unsafe { UpdatePass::new(instructions, weights, slots, &contributions, divisor) };
        let pass = pass
            .starting_from(self.sources.accumulated.as_ref().map(Memory::span))
            .clipped(self.clipping);
        // SAFETY: nobody else has the moments and the memory of the sums.
        let step = unsafe { pass.move_moments(&self.scalars, &moments, &sums, &means) };
        let mut pieces = Pieces::default();
        pieces.push(weights.elements(), 1 << 10, 1 << 20);
        pieces.for_each_range(usize::MAX, &|range| {
            for (_, part) in range.parts() {
                let pass = pass.clone().noting(&not_finite).over(&part);
                // SAFETY: as above; the parts do not overlap.
                unsafe { step.run(&pass, &moments, &means) };
            }
        });
        drop(spans);
        not_finite.into_inner()
    }

    fn check(mut self, machine: &dyn Machine) {
        let not_finite = self.update_here();
        let case = format!(
            "{:?} of {}, {:?}, {:?}",
            self.shape,
            self.sources.describe(),
            self.scalars,
            self.clipping
        );
        for (position, (operand, place)) in self.operands.iter().zip(&self.places).enumerate() {
            operand.check(machine, place, &|| format!("operand {position} of {case}"));
        }
        if let Some(flag) = self.flag {
            let flag = machine.read(flag, 4) != [0; 4];
            assert_eq!(flag, not_finite, "finiteness of {case}");
        }
    }
}

/// The shapes that a machine has time for.
fn shapes(machine: &dyn Machine) -> impl Iterator<Item = &'static [usize]> {
    let most = 100_000 / machine.slowness().min(4);
    let fits = move |shape: &&'static [usize]| shape.iter().product::<usize>() <= most;
    SHAPES.into_iter().filter(fits)
}

fn every_shape_and_type(machine: &dyn Machine) {
    let mut noise = Noise::new(61);
    let mut launcher = KernelLauncher::new(machine);
    for (at, shape) in shapes(machine).enumerate() {
        for (round, pair) in PAIRS.into_iter().enumerate() {
            let tame = (at + round) % 4 > 0;
            let replicas = (at + 2 * round) % 5;
            let case = Case::new(machine, shape, (pair, replicas), tame, &mut noise);
            launcher = launcher.with_few_chunks((at + round) % 2 == 0);
            // SAFETY: nobody else has the memory.
            unsafe { launcher.update_factored(&[case.update()]).unwrap() };
            case.check(machine);
        }
    }
}

/// So that every kernel finds its way in a list.
fn a_list_of_variables(machine: &dyn Machine) {
    let mut noise = Noise::new(62);
    for few in [false, true] {
        let cases: Vec<Case> = shapes(machine)
            .enumerate()
            .map(|(at, shape)| {
                let source = (PAIRS[at % 4], 1 + at % 3);
                Case::new(machine, shape, source, true, &mut noise)
            })
            .collect();
        let updates: Vec<_> = cases.iter().map(Case::update).collect();
        let launcher = KernelLauncher::new(machine).with_few_chunks(few);
        // SAFETY: nobody else has the memory.
        unsafe { launcher.update_factored(&updates).unwrap() };
        cases.into_iter().for_each(|case| case.check(machine));
    }
}

fn mismatched_moments_are_refused(machine: &dyn Machine) {
    let mut noise = Noise::new(63);
    let source = ((DType::Float32, DType::Float32), 1);
    let case = Case::new(machine, &[2, 3, 4], source, true, &mut noise);
    let right = case.update();
    let moments = |sizes| DeviceMoments::Factored {
        rows: case.places[1].address,
        columns: case.places[2].address,
        sizes,
    };
    let wrong_type = Gradient {
        dtype: DType::Int32,
        ..right.gradient
    };
    let sizes: [[u64; 2]; 4] = [[5, 4], [0, 4], [48, 1], [1 << 40, 1 << 40]];
    let wrong = sizes.map(|sizes| DeviceFactoredUpdate {
        moments: moments(sizes),
        ..right
    });
    let others = [DeviceFactoredUpdate {
        gradient: wrong_type,
        ..right
    }];
    for (number, wrong) in wrong.into_iter().chain(others).enumerate() {
        // SAFETY: nothing is queued.
        let refused = unsafe { KernelLauncher::new(machine).update_factored(&[right, wrong]) };
        let message = refused.unwrap_err().to_string();
        let named = if number < sizes.len() {
            "moments"
        } else {
            "gradient"
        };
        assert!(message.contains(named), "{message}");
    }
    for (operand, place) in case.operands.iter().zip(&case.places) {
        operand.check(machine, place, &|| "what was refused".into());
    }
}

on_every_machine! {
    every_shape_and_type
    a_list_of_variables
    mismatched_moments_are_refused
}
