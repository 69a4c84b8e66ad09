use std::sync::atomic::{AtomicBool, AtomicU64};

use umbo::executor::pieces::Pieces;
use umbo::kernels::cuda::{self, Gradient, Launcher, Measured, Place, TableRows, Update};
use umbo::kernels::dtype::DType;
use umbo::kernels::instruction_set::Instructions;
use umbo::kernels::update::accumulate::accumulate;
use umbo::kernels::update::measure::{ChunkSums, Chunks, Squares};
use umbo::kernels::update::pass::{Pass, Rows};
use umbo::kernels::update::weighted_sum::{Clipping, Contribution, WeightedSum};
use umbo::optimizer::rule::{Scalars, UpdateRule};

use crate::SIZES;
use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::rules::{operands, rules, scalars};

const PAIRS: [(DType, DType); 4] = [
    (DType::Float32, DType::Float32),
    (DType::Float32, DType::BFloat16),
    (DType::Float32, DType::Float16),
    (DType::Float64, DType::Float64),
];

/// What the gradient of a variable is made of, here and on a machine.
struct Sources {
    dtype: DType,
    gradient_dtype: DType,
    elements: usize,
    buffers: Vec<Memory>,
    factors: Vec<f64>,
    accumulated: Option<Memory>,
    divisor: f64,
    on_machine: Vec<cuda::Contribution>,
    accumulated_on_machine: Option<Place>,
}

impl Sources {
    fn new(
        machine: &dyn Machine,
        (dtype, gradient_dtype): (DType, DType),
        elements: usize,
        replicas: usize,
        tame: bool,
        noise: &mut Noise,
    ) -> Sources {
        let mut element = |dtype| if tame { noise.tame(dtype) } else { noise.element(dtype) };
        let buffers: Vec<Memory> = (0..replicas)
            .map(|_| {
                Memory::new(gradient_dtype, &[elements], Lie::Dense, || element(gradient_dtype))
            })
            .collect();
        let accumulated =
            Memory::new(DType::Float64, &[elements], Lie::Dense, || element(DType::Float64));
        let accumulated = (noise.below(3) == 0).then_some(accumulated);
        let factors: Vec<f64> =
            (0..replicas).map(|_| [1.0, 1.0 / 3.0, -2.5e-3, 1e30][noise.below(4)]).collect();
        let divisor = [1.0, 4.0, 3.0, 0.1, 1e-310, f64::from_bits(1)][noise.below(6)];
        let on_machine = buffers
            .iter()
            .zip(&factors)
            .map(|(buffer, &factor)| cuda::Contribution {
                gradient: buffer.on(machine).address,
                factor,
            })
            .collect();
        let accumulated_on_machine = accumulated.as_ref().map(|sum| sum.on(machine));
        Sources {
            dtype,
            gradient_dtype,
            elements,
            buffers,
            factors,
            accumulated,
            divisor,
            on_machine,
            accumulated_on_machine,
        }
    }

    fn contributions(&self) -> Vec<Contribution<'_>> {
        let both = self.buffers.iter().zip(&self.factors);
        both.map(|(buffer, &factor)| Contribution { gradient: buffer.span(), factor }).collect()
    }

    fn gradient(&self) -> Gradient<'_> {
        Gradient {
            dtype: self.dtype,
            elements: self.elements as u64,
            gradient_dtype: self.gradient_dtype,
            contributions: &self.on_machine,
            accumulated: self.accumulated_on_machine.as_ref().map(|place| place.address),
            divisor: self.divisor,
        }
    }

    fn describe(&self) -> String {
        format!(
            "{} elements of {}, {} gradients of {} with {:?}, accumulated {}, divisor {}",
            self.elements,
            self.dtype,
            self.buffers.len(),
            self.gradient_dtype,
            self.factors,
            self.accumulated.is_some(),
            self.divisor
        )
    }
}

/// One variable's update, here and on a machine.
struct Case {
    rule: usize,
    scalars: Scalars,
    sources: Sources,
    clipping: Clipping,
    l2: f64,
    operands: Vec<Memory>,
    places: Vec<Place>,
    slots: Vec<u64>,
    copies: [Option<(Memory, Place)>; 2],
    flag: u64,
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
        let (dtype, elements) = (sources.dtype, sources.elements);
        let operands = operands(&*rules[rule], dtype, elements, tame, noise);
        let places: Vec<Place> = operands.iter().map(|operand| operand.on(machine)).collect();
        let slots = places[1..].iter().map(|place| place.address).collect();
        let copies = [DType::Float16, DType::BFloat16].map(|copy| {
            (dtype == DType::Float32 && noise.below(2) == 0).then(|| {
                let copy = Memory::noise(copy, &[elements], Lie::Dense, noise);
                let place = copy.on(machine);
                (copy, place)
            })
        });
        let clipping = match noise.below(4) {
            0 => Clipping { factor: 0.3, limit: f64::INFINITY },
            1 => Clipping { factor: 1e-41, limit: 0.25 },
            _ => Clipping::NONE,
        };
        let l2 = [0.0, 0.0, 1e-3][noise.below(3)];
        let flag = machine.memory(&[0; 4]);
        let scalars = scalars(&*rules[rule], noise.below(3) * 7);
        Case { rule, scalars, sources, clipping, l2, operands, places, slots, copies, flag }
    }

    fn update<'a>(&'a self, rule: &dyn UpdateRule) -> Update<'a> {
        Update {
            gradient: self.sources.gradient(),
            clipping: self.clipping,
            l2: self.l2,
            step: rule.step(&self.scalars).unwrap(),
            weights: self.places[0].address,
            slots: &self.slots,
            copies: self.copies.each_ref().map(|copy| copy.as_ref().map(|copy| copy.1.address)),
            rows: None,
            not_finite: Some(self.flag),
        }
    }

    /// Updates on the CPU, and compares.
    fn check(mut self, machine: &dyn Machine, rule: &dyn UpdateRule) {
        let not_finite = AtomicBool::new(false);
        {
            let contributions = self.sources.contributions();
            let mut spans: Vec<_> = self.operands.iter_mut().map(Memory::span_mut).collect();
            let slots = spans.split_off(1);
            let [f16s, bf16s] = &mut self.copies;
            let spans_of_copies =
                [f16s, bf16s].map(|copy| copy.as_mut().map(|copy| copy.0.span_mut()));
            let copies = spans_of_copies.each_ref().map(Option::as_ref);
            let divisor = self.sources.divisor;
            let instructions = Instructions::chosen();
            // SAFETY: nobody else has the operands.
            let pass =
                unsafe { Pass::new(instructions, &spans[0], &slots, &contributions, divisor) };
            let pass = pass
                .starting_from(self.sources.accumulated.as_ref().map(Memory::span))
                .clipped(self.clipping)
                .with_l2(self.l2);
            if rule.measures() {
                self.scalars = rule.measure(self.scalars, &pass);
            }
            rule.update(&self.scalars, &pass.with_copies(&copies, false).noting(&not_finite));
        }
        let what = format!(
            "{} of {}, {:?}, l2 {}",
            rule.name(),
            self.sources.describe(),
            self.clipping,
            self.l2
        );
        for (position, (operand, place)) in self.operands.iter().zip(&self.places).enumerate() {
            operand.check(machine, place, &|| format!("operand {position} of {what}"));
        }
        for (copy, place) in self.copies.iter().flatten() {
            copy.check(machine, place, &|| format!("the {} copy of {what}", copy.dtype));
        }
        let flag = machine.read(self.flag, 4) != [0; 4];
        assert_eq!(flag, not_finite.into_inner(), "finiteness of {what}");
    }
}

fn every_rule_dtype_size_and_number_of_replicas(machine: &dyn Machine) {
    let (mut noise, rules) = (Noise::new(41), rules());
    let mut launcher = Launcher::new(machine);
    for (rule, pair) in (0..rules.len()).flat_map(|rule| PAIRS.map(|pair| (rule, pair))) {
        for (position, size) in SIZES.into_iter().enumerate() {
            for (round, tame) in [true, true, false].into_iter().enumerate() {
                let replicas = (position + 4 * round + rule) % 9;
                let sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
                let case = Case::new(machine, &rules, rule, sources, tame, &mut noise);
                launcher = launcher.with_slow_float64(round % 2 == 1 || noise.below(2) == 0);
                // SAFETY: nobody else has the memory.
                unsafe { launcher.update(&[case.update(&*rules[rule])]).unwrap() };
                case.check(machine, &*rules[rule]);
            }
        }
    }
}

fn a_list_of_variables_of_all_kinds(machine: &dyn Machine) {
    let (mut noise, rules) = (Noise::new(42), rules());
    let cases: Vec<Case> = (0..60)
        .map(|_| {
            let (pair, rule) = (PAIRS[noise.below(4)], noise.below(rules.len()));
            let size = [0, 1, 7, 1024, 1025, 20_000][noise.below(6)];
            let sources = Sources::new(machine, pair, size, noise.below(9), true, &mut noise);
            Case::new(machine, &rules, rule, sources, true, &mut noise)
        })
        .collect();
    let updates: Vec<_> = cases.iter().map(|case| case.update(&*rules[case.rule])).collect();
    let mut launcher = Launcher::new(machine).with_slow_float64(true);
    // SAFETY: nobody else has the memory.
    unsafe { launcher.update(&updates).unwrap() };
    for case in cases {
        let rule = &rules[case.rule];
        case.check(machine, &**rule);
    }
}

/// Rows of a table are updated by sums of their own, and others are left alone.
fn rows_of_tables(machine: &dyn Machine) {
    let (mut noise, rules) = (Noise::new(43), rules());
    for rule in rules.iter().filter(|rule| rule.is_elementwise()) {
        for dtype in [DType::Float32, DType::Float64] {
            for (table, width) in [(1, 1), (9, 1), (50, 3), (300, 16), (70, 33), (3, 2500), (5, 0)]
            {
                let numbers: Vec<usize> = (0..table).filter(|_| noise.below(3) > 0).collect();
                let elements = numbers.len() * width;
                let sums = Memory::new(DType::Float64, &[elements], Lie::Dense, || {
                    noise.tame(DType::Float64)
                });
                let mut operands = operands(&**rule, dtype, table * width, true, &mut noise);
                let places: Vec<Place> = operands.iter().map(|o| o.on(machine)).collect();
                let slots: Vec<u64> = places[1..].iter().map(|place| place.address).collect();
                let mut copy =
                    Memory::noise(DType::BFloat16, &[table * width], Lie::Dense, &mut noise);
                let copy_place = copy.on(machine);
                let has_copy = dtype == DType::Float32;
                let flag = machine.memory(&[0; 4]);
                let scalars = scalars(&**rule, 5);
                let update = Update {
                    gradient: Gradient {
                        dtype,
                        elements: elements as u64,
                        gradient_dtype: dtype,
                        contributions: &[],
                        accumulated: Some(sums.on(machine).address),
                        divisor: 3.0,
                    },
                    clipping: Clipping { factor: 0.5, limit: 2.0 },
                    l2: 1e-3,
                    step: rule.step(&scalars).unwrap(),
                    weights: places[0].address,
                    slots: &slots,
                    copies: [None, has_copy.then_some(copy_place.address)],
                    rows: Some(TableRows { numbers: &numbers, elements: width as u64, of: table }),
                    not_finite: Some(flag),
                };
                // SAFETY: nobody else has the memory.
                unsafe { Launcher::new(machine).update(&[update]).unwrap() };
                {
                    let mut spans: Vec<_> = operands.iter_mut().map(Memory::span_mut).collect();
                    let slots = spans.split_off(1);
                    let rows = Rows { numbers: &numbers, elements: width };
                    let copy = copy.span_mut();
                    let copies = [has_copy.then_some(&copy)];
                    let instructions = Instructions::chosen();
                    // SAFETY: nobody else has the operands.
                    let pass = unsafe {
                        Pass::at_rows(instructions, &spans[0], &slots, rows, sums.span(), 3.0)
                    };
                    let pass = pass.clipped(update.clipping).with_l2(update.l2);
                    rule.update(&scalars, &pass.with_copies(&copies, false));
                }
                let case = || format!("{} of {dtype}, {table} by {width}", rule.name());
                for (operand, place) in operands.iter().zip(&places) {
                    operand.check(machine, place, &case);
                }
                copy.check(machine, &copy_place, &case);
            }
        }
    }
}

fn gradients_are_written(machine: &dyn Machine) {
    let mut noise = Noise::new(44);
    let mut all = Vec::new();
    for (pair, size) in PAIRS.into_iter().flat_map(|pair| SIZES.map(|size| (pair, size))) {
        let tame = noise.below(2) == 0;
        let sources = Sources::new(machine, pair, size, noise.below(9), tame, &mut noise);
        let target = Memory::noise(pair.0, &[size], Lie::Dense, &mut noise);
        let place = target.on(machine);
        all.push((sources, target, place));
    }
    let list: Vec<_> =
        all.iter().map(|(sources, _, place)| (sources.gradient(), place.address)).collect();
    // SAFETY: nobody else has the memory.
    unsafe { Launcher::new(machine).write_gradients(&list).unwrap() };
    for (sources, mut target, place) in all {
        let contributions = sources.contributions();
        let sum =
            WeightedSum::new(sources.dtype, sources.elements, &contributions, sources.divisor)
                .starting_from(sources.accumulated.as_ref().map(Memory::span));
        // SAFETY: nobody else has the memory.
        unsafe { sum.write_to(Instructions::chosen(), &target.span_mut()) };
        target.check(machine, &place, &|| sources.describe());
    }
}

fn runs_are_accumulated(machine: &dyn Machine) {
    let mut noise = Noise::new(45);
    for (pair, size) in PAIRS.into_iter().flat_map(|pair| SIZES.map(|size| (pair, size))) {
        for replicas in 1..=8 {
            let tame = noise.below(2) == 0;
            let mut sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
            let is_fresh = sources.accumulated.is_none();
            let mut sum = sources
                .accumulated
                .take()
                .unwrap_or_else(|| Memory::noise(DType::Float64, &[size], Lie::Dense, &mut noise));
            let place = sum.on(machine);
            // In place, as an apply does it.
            sources.accumulated_on_machine = (!is_fresh).then_some(place);
            let gradient = (sources.gradient(), place.address);
            // SAFETY: nobody else has the memory.
            unsafe { Launcher::new(machine).accumulate(&[gradient]).unwrap() };
            let contributions = sources.contributions();
            let mut pieces = Pieces::default();
            pieces.push(size, 64, 8);
            let span = sum.span_mut();
            pieces.for_each_share(1, &|share| {
                for (_, part) in share.parts() {
                    // SAFETY: nobody else has the sum.
                    unsafe {
                        accumulate(Instructions::chosen(), &span, is_fresh, &contributions, part)
                    };
                }
            });
            sum.check(machine, &place, &|| sources.describe());
        }
    }
}

/// Squares as the CPU measures them.
fn squares(sources: &Sources, kept: Option<&mut Memory>) -> Squares {
    let contributions = sources.contributions();
    let sum = WeightedSum::new(sources.dtype, sources.elements, &contributions, sources.divisor)
        .starting_from(sources.accumulated.as_ref().map(Memory::span));
    let chunks = Chunks::of(sources.elements);
    let sums: Vec<ChunkSums<2>> =
        (0..chunks.count()).map(|_| [const { AtomicU64::new(0) }; 2]).collect();
    let kept = kept.map(Memory::span_mut);
    let mut pieces = Pieces::default();
    pieces.push(sources.elements, chunks.size, 8);
    pieces.for_each_share(1, &|share| {
        for (_, part) in share.parts() {
            let instructions = Instructions::chosen();
            // SAFETY: nobody else has the memory.
            unsafe { sum.measure_squares(instructions, &part, &sums, kept.as_ref(), false) };
        }
    });
    Squares::of_chunks(&sums)
}

fn gradients_are_measured(machine: &dyn Machine) {
    let mut noise = Noise::new(46);
    let sizes = SIZES.into_iter().chain([16_383, 16_384, 16_385, 40_000, 1_100_000]);
    let mut all = Vec::new();
    for size in sizes {
        for pair in PAIRS {
            for tame in [true, false] {
                let replicas = if size > 100_000 { 1 } else { noise.below(9) };
                let sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
                let kept = (noise.below(2) == 0).then(|| {
                    let kept = Memory::noise(pair.0, &[size], Lie::Dense, &mut noise);
                    let place = kept.on(machine);
                    (kept, place)
                });
                all.push((sources, kept));
            }
        }
    }
    let measured: Vec<_> = all
        .iter()
        .map(|(sources, kept)| Measured {
            gradient: sources.gradient(),
            kept: kept.as_ref().map(|(_, place)| place.address),
        })
        .collect();
    let results = [false, true].map(|slow| {
        let results = machine.memory(&vec![0xee; 16 * all.len()]);
        let mut launcher = Launcher::new(machine).with_slow_float64(slow);
        // SAFETY: nobody else has the memory.
        unsafe { launcher.measure(&measured, results).unwrap() };
        machine.read(results, 16 * all.len())
    });
    let both = results[0].chunks(16).zip(results[1].chunks(16));
    for ((sources, mut kept), (result, of_words)) in all.into_iter().zip(both) {
        let nan = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan();
        let same = |a, b| a == b || nan(a) && nan(b);
        let case = sources.describe();
        assert!(same(&result[..8], &of_words[..8]) && same(&result[8..], &of_words[8..]), "{case}");
        let number = |at: usize| f64::from_ne_bytes(result[8 * at..8 * at + 8].try_into().unwrap());
        let found = Squares { sum: number(0), finite: number(1) == 0.0 };
        let expected = squares(&sources, kept.as_mut().map(|(kept, _)| kept));
        assert_eq!(found.finite, expected.finite, "{}", sources.describe());
        let same = found.sum.to_bits() == expected.sum.to_bits();
        assert!(
            same || found.sum.is_nan() && expected.sum.is_nan(),
            "{found:?}, not {expected:?}, for {}",
            sources.describe()
        );
        if let Some((kept, place)) = &kept {
            kept.check(machine, place, &|| sources.describe());
        }
    }
}

fn what_does_not_fit_is_refused(machine: &dyn Machine) {
    let (mut noise, rules) = (Noise::new(47), rules());
    let pair = (DType::Float32, DType::Float32);
    let sources = Sources::new(machine, pair, 6, 0, true, &mut noise);
    let case = Case::new(machine, &rules, 3, sources, true, &mut noise);
    let right = Update { rows: None, copies: [None; 2], ..case.update(&*rules[3]) };
    let sums = machine.memory(&[0; 48]);
    let rows = |numbers: &'static [usize]| Some(TableRows { numbers, elements: 2, of: 3 });
    let of_rows = Gradient { accumulated: Some(sums), contributions: &[], ..right.gradient };
    let contribution = [cuda::Contribution { gradient: sums, factor: 1.0 }];
    let lamb = rules[10].step(&scalars(&*rules[10], 0)).unwrap();
    let cases = [
        (Update { slots: &case.slots[..1], ..right }, "slots"),
        (
            Update { gradient: Gradient { dtype: DType::Int32, ..right.gradient }, ..right },
            "gradient",
        ),
        (
            Update {
                gradient: Gradient { gradient_dtype: DType::Float64, ..right.gradient },
                ..right
            },
            "gradient",
        ),
        (
            Update {
                gradient: Gradient {
                    dtype: DType::Float64,
                    gradient_dtype: DType::Float64,
                    ..right.gradient
                },
                copies: [Some(sums), None],
                ..right
            },
            "copies",
        ),
        (Update { gradient: of_rows, rows: rows(&[0, 1]), ..right }, "one for each"),
        (Update { gradient: of_rows, rows: rows(&[0, 1, 3]), ..right }, "ascend"),
        (Update { gradient: of_rows, rows: rows(&[0, 2, 1]), ..right }, "ascend"),
        (Update { gradient: of_rows, rows: rows(&[0, 1, 1]), ..right }, "ascend"),
        (
            Update {
                gradient: Gradient { accumulated: None, ..of_rows },
                rows: rows(&[0, 1, 2]),
                ..right
            },
            "sums of their own",
        ),
        (
            Update {
                gradient: Gradient { contributions: &contribution, ..of_rows },
                rows: rows(&[0, 1, 2]),
                ..right
            },
            "sums of their own",
        ),
        (Update { gradient: of_rows, rows: rows(&[0, 1, 2]), step: lamb, ..right }, "LAMB"),
    ];
    for (wrong, what) in cases {
        // SAFETY: nothing is queued.
        let refused = unsafe { Launcher::new(machine).update(&[right, wrong]) };
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    }
    for (operand, place) in case.operands.iter().zip(&case.places) {
        operand.check(machine, place, &|| "what was refused".into());
    }
}

on_every_machine! { every_rule_dtype_size_and_number_of_replicas a_list_of_variables_of_all_kinds rows_of_tables gradients_are_written runs_are_accumulated gradients_are_measured what_does_not_fit_is_refused }
