//! Updates of rows that add up the contributions themselves, against updates of all elements of the
//! named rows alone, by sums of a plain loop. Cases are drawn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use umbo_executor::pieces::Pieces;
use umbo_kernels::dtype::Element;
use umbo_kernels::float::gradient_element::GradientElement;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::rows::order::RowOrder;
use umbo_kernels::rows::sum::{RowPart, RowSums};
use umbo_kernels::update::pass::{PassRows, RowGradients, UpdatePass};
use umbo_kernels::update::rules::{RuleKind, RuleStep};
use umbo_kernels::update::weighted_sum::Clipping;
use umbo_kernels::view::{Span, SpanMut};

/// A generator of numbers (SplitMix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<C: Copy>(&mut self, choices: &[C]) -> C {
        choices[self.below(choices.len())]
    }

    /// Between -1 and 1.
    fn number(&mut self) -> f64 {
        self.below(1 << 20) as f64 / (1 << 19) as f64 - 1.0
    }

    fn numbers<T: GradientElement>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::rounded(self.number())).collect()
    }
}

/// A table, and what some replicas add to its rows.
struct Case<G> {
    table: usize,
    width: usize,
    /// The sums of earlier runs: rows, ascending, and their elements.
    before: Option<(Vec<usize>, Vec<f64>)>,
    /// Of each part the rows, their elements, and its factor.
    parts: Vec<(Vec<usize>, Vec<G>, f64)>,
    divisor: f64,
    clipping: Clipping,
    l2: f64,
    /// How many workers share the pass.
    workers: usize,
}

impl<G: GradientElement> Case<G> {
    fn draw(noise: &mut Noise) -> Case<G> {
        let table = noise.of(&[1, 2, 7, 40, 300]);
        let width = noise.of(&[1, 2, 15, 16, 17, 32, 63, 100, 128, 300, 511, 512, 513, 1100]);
        let most = noise.of(&[0, 1, 3, 20, 60]);
        let of_all = noise.below(4) == 0;
        let part = |noise: &mut Noise| {
            // No rows, all rows, or rows that may come several times.
            let rows: Vec<usize> = match noise.below(6) {
                0 => Vec::new(),
                _ if of_all => (0..table).rev().collect(),
                _ => (0..noise.below(most + 1))
                    .map(|_| noise.below(table))
                    .collect(),
            };
            let values = noise.numbers(rows.len() * width);
            (rows, values, noise.of(&[1.0, 3.0, 0.1, 1e-3]))
        };
        let count = noise.below(5);
        let parts: Vec<_> = (0..count).map(|_| part(noise)).collect();
        let before = (count == 0 || noise.below(3) == 0).then(|| {
            let rows: Vec<usize> = (0..table).filter(|_| noise.below(2) == 0).collect();
            let sums = noise.numbers(rows.len() * width);
            (rows, sums)
        });
        Case {
            table,
            width,
            before,
            parts,
            divisor: noise.of(&[1.0, 4.0, 7.0]),
            clipping: Clipping {
                factor: noise.of(&[1.0, -1.0, 0.3, 1e-40]),
                limit: noise.of(&[f64::INFINITY, 0.05]),
            },
            l2: noise.of(&[0.0, 0.01]),
            workers: 1 + noise.below(4),
        }
    }

    /// The sums of the named rows, by a plain loop.
    fn sums(&self) -> BTreeMap<usize, Vec<f64>> {
        let mut sums = BTreeMap::new();
        let before = self.before.as_ref();
        for (at, &row) in before.iter().flat_map(|(rows, _)| rows.iter().enumerate()) {
            let values = &before.unwrap().1[at * self.width..][..self.width];
            let zeros = || vec![0.0; self.width];
            let sum: &mut Vec<f64> = sums.entry(row).or_insert_with(zeros);
            sum.iter_mut()
                .zip(values)
                .for_each(|(sum, one)| *sum += one);
        }
        for (rows, values, factor) in &self.parts {
            for (at, &row) in rows.iter().enumerate() {
                let zeros = || vec![0.0; self.width];
                let sum: &mut Vec<f64> = sums.entry(row).or_insert_with(zeros);
                for (sum, value) in sum.iter_mut().zip(&values[at * self.width..]) {
                    let [value] = G::widened(Instructions::BASELINE, [*value]);
                    *sum += factor * value;
                }
            }
        }
        sums
    }

    /// Updates the operands by a pass that adds up, in the parts of some workers. Returns whether a
    /// gradient was not finite.
    fn update<T: Element>(
        &self,
        instructions: Instructions,
        step: RuleStep,
        operands: &mut [Vec<T>],
    ) -> bool {
        let mut order = RowOrder::default();
        let named = self.parts.iter().map(|(rows, ..)| rows.len());
        let before = self.before.as_ref();
        let entries = named.sum::<usize>() + before.map_or(0, |(rows, _)| rows.len());
        order.start(entries).unwrap();
        order.add_rows(before.map_or(&[], |(rows, _)| rows));
        let parts: Vec<RowPart<'_>> = self
            .parts
            .iter()
            .map(|(rows, values, factor)| {
                order.add_rows(rows);
                RowPart {
                    values: span(values),
                    rows: rows.len(),
                    factor: *factor,
                }
            })
            .collect();
        order.sort(self.table);
        let sums = RowSums::new(
            &order,
            before.map(|(_, sums)| span(sums)),
            &parts,
            self.width,
        );
        let numbers: Vec<usize> = (0..order.rows()).map(|at| order.row(at)).collect();
        let rows = PassRows {
            numbers: &numbers,
            elements: self.width,
        };
        let not_finite = AtomicBool::new(false);
        let mut spans: Vec<SpanMut<'_>> = operands.iter_mut().map(|one| span_mut(one)).collect();
        let slots = spans.split_off(1);
        let mut pieces = Pieces::default();
        pieces.push(order.entries(), 1, 1 << 16);
        let weights = &spans[0];
        let divisor = self.divisor;
        let gradients = RowGradients::Terms(sums);
        pieces.for_each_range(self.workers, &|range| {
            for (_, part) in range.parts() {
                // SAFETY: nobody else has the operands, and the parts share no row.
                let pass = unsafe {
                    UpdatePass::at_rows(instructions, weights, &slots, rows, gradients, divisor)
                };
                let pass = pass.clipped(self.clipping).with_l2(self.l2);
                step.run(&pass.noting(&not_finite).over(&part));
            }
        });
        not_finite.into_inner()
    }

    /// The same by a pass over all elements of the named rows alone.
    fn update_plainly<T: Element>(&self, step: RuleStep, operands: &mut [Vec<T>]) -> bool {
        let sums = self.sums();
        let of_rows = |operand: &Vec<T>| {
            let rows = sums
                .keys()
                .map(|row| &operand[row * self.width..][..self.width]);
            rows.flatten().copied().collect()
        };
        let mut compact: Vec<Vec<T>> = operands.iter().map(of_rows).collect();
        let all: Vec<f64> = sums.values().flatten().copied().collect();
        let not_finite = AtomicBool::new(false);
        {
            let mut spans: Vec<SpanMut<'_>> = compact.iter_mut().map(|one| span_mut(one)).collect();
            let slots = spans.split_off(1);
            let instructions = Instructions::BASELINE;
            // SAFETY: nobody else has the operands.
            let pass =
                unsafe { UpdatePass::new(instructions, &spans[0], &slots, &[], self.divisor) };
            let pass = pass.starting_from(Some(span(&all))).clipped(self.clipping);
            step.run(&pass.with_l2(self.l2).noting(&not_finite));
        }
        for (operand, compact) in operands.iter_mut().zip(&compact) {
            for (at, row) in sums.keys().enumerate() {
                let from = &compact[at * self.width..][..self.width];
                operand[row * self.width..][..self.width].copy_from_slice(from);
            }
        }
        not_finite.load(Ordering::Relaxed)
    }
}

fn bytes<T>(elements: &[T]) -> &[u8] {
    // SAFETY: elements of all types are bytes without padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

fn span<T: Element>(elements: &[T]) -> Span<'_> {
    Span::of_bytes(bytes(elements), T::DTYPE)
}

fn span_mut<T: Element>(elements: &mut [T]) -> SpanMut<'_> {
    let bytes = size_of_val(elements);
    // SAFETY: as above; all bytes are floats.
    let bytes = unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), bytes) };
    SpanMut::of_bytes(bytes, T::DTYPE)
}

/// All rules that update rows, in `rounds` rounds of drawn cases.
fn compare<T: GradientElement, G: GradientElement>(seed: u64, rounds: usize) {
    let mut noise = Noise(seed);
    let rules = RuleKind::ALL.iter().filter(|kind| !kind.measures());
    for (round, &kind) in (0..rounds).flat_map(|round| rules.clone().map(move |kind| (round, kind)))
    {
        let mut case = Case::<G>::draw(&mut noise);
        if round == 0
            && let Some((_, values, _)) = case.parts.first_mut()
        {
            values
                .iter_mut()
                .take(1)
                .for_each(|one| *one = G::rounded(f64::NAN));
        }
        let step = RuleStep::new(kind, (0..10).map(|_| 0.1 + noise.number().abs() / 2.0));
        let mut start: Vec<Vec<T>> = (0..=kind.states())
            .map(|_| noise.numbers(case.table * case.width))
            .collect();
        // States may be sums of squares.
        for state in &mut start[1..] {
            state.iter_mut().for_each(|one| {
                let [value] = T::widened(Instructions::BASELINE, [*one]);
                *one = T::rounded(value.abs());
            });
        }
        let mut expected = start.clone();
        let expected_flag = case.update_plainly(step, &mut expected);
        for instructions in Instructions::all() {
            let mut found = start.clone();
            let flag = case.update(instructions, step, &mut found);
            let is_same = found
                .iter()
                .zip(&expected)
                .all(|(a, b)| bytes(a) == bytes(b));
            let rows: Vec<_> = case.parts.iter().map(|(rows, ..)| rows).collect();
            assert!(
                is_same && flag == expected_flag,
                "{} of {} in round {round}: {} rows of {}, {rows:?}, with {instructions:?}",
                kind.name(),
                T::DTYPE,
                case.table,
                case.width
            );
        }
    }
}

#[test]
fn rows_of_float32() {
    compare::<f32, f32>(1, 12);
}

#[test]
fn rows_of_float64() {
    compare::<f64, f64>(2, 4);
}

#[test]
fn rows_with_16_bit_gradients() {
    compare::<f32, bf16>(3, 4);
    compare::<f32, f16>(4, 4);
}
