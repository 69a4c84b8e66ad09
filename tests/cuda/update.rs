use std::sync::atomic::AtomicBool;

use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::{
    self, DevicePlace, DeviceUpdate, Gradient, KernelLauncher, TableRows,
};
use umbo_core::kernels::update::pass::UpdatePass;
use umbo_core::kernels::update::weighted_sum::Clipping;
use umbo_core::optimizer::rules::{Scalars, UpdateRule};

use crate::SIZES;
use crate::machine::{Machine, on_every_machine};
use crate::memory::{Memory, Noise};
use crate::rules::{operands, rules, scalars};
use crate::sources::{PAIRS, Sources};

/// One variable's update, here and on a machine.
struct Case {
    rule: usize,
    scalars: Scalars,
    sources: Sources,
    clipping: Clipping,
    l2: f64,
    operands: Vec<Memory>,
    places: Vec<DevicePlace>,
    slots: Vec<u64>,
    flag: Option<u64>,
}

impl Case {
    fn new(
        machine: &dyn Machine,
        rules: &[Box<dyn UpdateRule>],
        rule: usize,
        sources: Sources,
        tame: bool,
        noise: &mut Noise,
    ) -> Case {
        let dtype = sources.dtype;
        let elements = sources.elements;
        let operands = operands(&*rules[rule], dtype, elements, tame, noise);
        let places: Vec<DevicePlace> = operands.iter().map(|operand| operand.on(machine)).collect();
        let slots = places[1..].iter().map(|place| place.address).collect();
        let clipping = match noise.below(4) {
            0 => Clipping {
                factor: 0.3,
                limit: f64::INFINITY,
            },
            1 => Clipping {
                factor: 1e-41,
                limit: 0.25,
            },
            _ => Clipping::NONE,
        };
        let l2 = [0.0, 0.0, 1e-3][noise.below(3)];
        let flag = (noise.below(4) > 0).then(|| machine.memory(&[0; 4]));
        let scalars = scalars(&*rules[rule], noise.below(3) * 7);
        Case {
            rule,
            scalars,
            sources,
            clipping,
            l2,
            operands,
            places,
            slots,
            flag,
        }
    }

    fn update(&self) -> DeviceUpdate<'_> {
        DeviceUpdate {
            gradient: self.sources.gradient(),
            clipping: self.clipping,
            l2: self.l2,
            step: self.scalars.step,
            weights: self.places[0].address,
            slots: &self.slots,
            rows: None,
            not_finite: self.flag,
        }
    }

    /// Updates on the CPU, and compares.
    fn check(mut self, machine: &dyn Machine, rule: &dyn UpdateRule) {
        let not_finite = AtomicBool::new(false);
        {
            let contributions = self.sources.contributions();
            let mut spans: Vec<_> = self.operands.iter_mut().map(Memory::span_mut).collect();
            let slots = spans.split_off(1);
            let divisor = self.sources.divisor;
            let instructions = Instructions::chosen();
            // SAFETY: nobody else has the operands.
            let pass = unsafe {
                UpdatePass::new(instructions, &spans[0], &slots, &contributions, divisor)
            };
            let pass = pass
                .starting_from(self.sources.accumulated.as_ref().map(Memory::span))
                .clipped(self.clipping)
                .with_l2(self.l2);
            if rule.measures() {
                self.scalars = rule.measure(self.scalars, &pass);
            }
            rule.update(&self.scalars, &pass.noting(&not_finite));
        }
        let case = format!(
            "{} of {}, {:?}, l2 {}",
            rule.name(),
            self.sources.describe(),
            self.clipping,
            self.l2
        );
        for (position, (operand, place)) in self.operands.iter().zip(&self.places).enumerate() {
            operand.check(machine, place, &|| format!("operand {position} of {case}"));
        }
        if let Some(flag) = self.flag {
            let flag = machine.read(flag, 4) != [0; 4];
            assert_eq!(flag, not_finite.into_inner(), "finiteness of {case}");
        }
    }
}

fn every_rule_dtype_size_and_number_of_replicas(machine: &dyn Machine) {
    let mut noise = Noise::new(41);
    let rules = rules();
    let mut launcher = KernelLauncher::new(machine);
    for (rule, pair) in (0..rules.len()).flat_map(|rule| PAIRS.map(|pair| (rule, pair))) {
        for (position, size) in SIZES.into_iter().enumerate() {
            for (round, tame) in [true, true, false].into_iter().enumerate() {
                let replicas = (position + 4 * round + rule) % 9;
                let sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
                let case = Case::new(machine, &rules, rule, sources, tame, &mut noise);
                launcher = launcher.with_few_chunks((position + round / 2 + rule) % 2 == 0);
                // SAFETY: nobody else has the memory.
                unsafe { launcher.update(&[case.update()]).unwrap() };
                case.check(machine, &*rules[rule]);
            }
        }
    }
}

/// Of each rule and pair of types several variables, so that every kernel finds its way in a list.
fn a_list_of_variables_of_all_kinds(machine: &dyn Machine) {
    let mut noise = Noise::new(42);
    let rules = rules();
    let kinds = (0..rules.len()).flat_map(|rule| PAIRS.map(|pair| (rule, pair)));
    let cases: Vec<Case> = kinds
        .flat_map(|kind| [kind; 2])
        .map(|(rule, pair)| {
            let size = [0, 1, 7, 1024, 1025, 5000][noise.below(6)];
            let sources = Sources::new(machine, pair, size, noise.below(9), true, &mut noise);
            Case::new(machine, &rules, rule, sources, true, &mut noise)
        })
        .collect();
    let updates: Vec<_> = cases.iter().map(|case| case.update()).collect();
    let launcher = KernelLauncher::new(machine);
    // SAFETY: nobody else has the memory.
    unsafe { launcher.update(&updates).unwrap() };
    for case in cases {
        let rule = &rules[case.rule];
        case.check(machine, &**rule);
    }
}

fn mismatched_operands_are_refused(machine: &dyn Machine) {
    let mut noise = Noise::new(47);
    let rules = rules();
    let pair = (DType::Float32, DType::Float32);
    let sources = Sources::new(machine, pair, 6, 0, true, &mut noise);
    let number = |name| rules.iter().position(|rule| rule.name() == name).unwrap();
    let case = Case::new(machine, &rules, number("adam"), sources, true, &mut noise);
    let right = DeviceUpdate {
        rows: None,
        ..case.update()
    };
    let sums = machine.memory(&[0; 48]);
    let rows = |numbers: &'static [usize]| {
        Some(TableRows {
            numbers,
            elements: 2,
            table_rows: 3,
        })
    };
    let of_rows = Gradient {
        accumulated: Some(sums),
        contributions: &[],
        ..right.gradient
    };
    let contribution = [launch::DeviceContribution {
        gradient: sums,
        factor: 1.0,
    }];
    let lamb = scalars(&*rules[number("lamb")], 0).step;
    let cases = [
        (
            DeviceUpdate {
                slots: &case.slots[..1],
                ..right
            },
            "slots",
        ),
        (
            DeviceUpdate {
                gradient: Gradient {
                    dtype: DType::Int32,
                    ..right.gradient
                },
                ..right
            },
            "gradient",
        ),
        (
            DeviceUpdate {
                gradient: Gradient {
                    gradient_dtype: DType::Float64,
                    ..right.gradient
                },
                ..right
            },
            "gradient",
        ),
        (
            DeviceUpdate {
                gradient: of_rows,
                rows: rows(&[0, 1]),
                ..right
            },
            "one for each",
        ),
        (
            DeviceUpdate {
                gradient: of_rows,
                rows: rows(&[0, 1, 3]),
                ..right
            },
            "ascend",
        ),
        (
            DeviceUpdate {
                gradient: of_rows,
                rows: rows(&[0, 2, 1]),
                ..right
            },
            "ascend",
        ),
        (
            DeviceUpdate {
                gradient: of_rows,
                rows: rows(&[0, 1, 1]),
                ..right
            },
            "ascend",
        ),
        (
            DeviceUpdate {
                gradient: Gradient {
                    accumulated: None,
                    ..of_rows
                },
                rows: rows(&[0, 1, 2]),
                ..right
            },
            "sums of their own",
        ),
        (
            DeviceUpdate {
                gradient: Gradient {
                    contributions: &contribution,
                    ..of_rows
                },
                rows: rows(&[0, 1, 2]),
                ..right
            },
            "sums of their own",
        ),
        (
            DeviceUpdate {
                gradient: of_rows,
                rows: rows(&[0, 1, 2]),
                step: lamb,
                ..right
            },
            "measures",
        ),
    ];
    for (wrong, words) in cases {
        // SAFETY: nothing is queued.
        let refused = unsafe { KernelLauncher::new(machine).update(&[right, wrong]) };
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    for (operand, place) in case.operands.iter().zip(&case.places) {
        operand.check(machine, place, &|| "what was refused".into());
    }
}

on_every_machine! {
    every_rule_dtype_size_and_number_of_replicas
    a_list_of_variables_of_all_kinds
    mismatched_operands_are_refused
}
