//! Products of matrices have the bits that their order of additions says, with any instructions and
//! number of workers; orthogonal matrices are what an iteration in float64 gives.

use umbo_executor::workers;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::matrix::orthogonal::{NewtonSchulz, Orthogonalization};
use umbo_kernels::matrix::product::{DEPTH, Matrix, Product, Products};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The kinds of numbers of a factor.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// About 1.
    Usual,
    /// Any bits: numbers of all sizes, infinities and NaN.
    Any,
    /// Small enough for products and sums that are subnormal.
    Tiny,
    /// Few bits, so that sums lie halfway between two numbers, or cancel.
    Coarse,
}

impl Numbers {
    const ALL: [Numbers; 4] = [Numbers::Usual, Numbers::Any, Numbers::Tiny, Numbers::Coarse];

    fn draw(self, random: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
        let mut one = || {
            let bits: u32 = random.random();
            let usual = (f64::from(bits) / f64::from(1_u32 << 31) - 1.0) as f32;
            match self {
                Numbers::Usual => usual,
                Numbers::Any => f32::from_bits(bits),
                Numbers::Tiny => usual * 1e-22,
                Numbers::Coarse => f32::from_bits(bits & 0x8300_0fff | 0x3c80_0000),
            }
        };
        (0..count).map(|_| one()).collect()
    }
}

/// The product by the definition: fused multiply-adds in order within blocks, then the blocks.
fn defined(product: &Product<'_>) -> Vec<f32> {
    let Product { left, right, .. } = product;
    let mut all = Vec::new();
    for row in 0..left.rows() {
        for column in 0..right.columns() {
            let sum = |first: usize| {
                let block = first..left.columns().min(first + DEPTH);
                block.fold(0.0_f32, |sum, at| {
                    left.at(row, at).mul_add(right.at(at, column), sum)
                })
            };
            let mut result = product.factor * sum(0);
            if let Some((weight, base)) = product.base {
                result += weight * base.at(row, column);
            }
            for first in (DEPTH..left.columns()).step_by(DEPTH) {
                result += product.factor * sum(first);
            }
            all.push(result);
        }
    }
    all
}

/// The bits of numbers; those of all NaN are one.
fn bits(numbers: &[f32]) -> Vec<u32> {
    let of_one = |number: &f32| match number.is_nan() {
        true => f32::NAN.to_bits(),
        false => number.to_bits(),
    };
    numbers.iter().map(of_one).collect()
}

/// Calls `run` with one worker and with several, who take part in the smallest work.
fn with_workers(mut run: impl FnMut(usize)) {
    workers::fix_costs(Some(workers::Costs::NONE));
    for count in [1, 2, 3] {
        workers::set_count(count).unwrap();
        run(count);
    }
    workers::fix_costs(None);
}

#[test]
fn products_have_the_bits_of_their_definition() {
    let mut random = ChaCha8Rng::seed_from_u64(49);
    let sizes = [
        [1, 1, 1],
        [3, 0, 2],
        [6, 16, 16],
        [7, 17, 5],
        [13, 300, 33],
        [200, 9, 530],
        [2, 520, 1],
    ];
    let mut products = Products::default();
    with_workers(|workers| {
        products.reserve().unwrap();
        for [rows, depth, columns] in sizes {
            for numbers in Numbers::ALL {
                let mut draw = |count| numbers.draw(&mut random, count);
                let left = draw(rows * depth);
                let right = draw(depth * columns);
                let base = draw(rows * columns);
                let case: u32 = random.random();
                let left = match case & 1 {
                    0 => Matrix::new(&left, rows, depth),
                    _ => Matrix::new(&left, depth, rows).transposed(),
                };
                let right = match case & 2 {
                    0 => Matrix::new(&right, depth, columns),
                    _ => Matrix::new(&right, columns, depth).transposed(),
                };
                let base = match case & 4 {
                    0 => Matrix::new(&base, rows, columns),
                    _ => Matrix::new(&base, columns, rows).transposed(),
                };
                let product = Product {
                    left,
                    right,
                    factor: [1.0, 2.0315][(case >> 3 & 1) as usize],
                    base: (case & 16 == 0).then_some((-4.775, base)),
                };
                let expected = bits(&defined(&product));
                for instructions in Instructions::all() {
                    let mut found = vec![f32::NAN; rows * columns];
                    products.write(instructions, &product, &mut found);
                    assert!(
                        bits(&found) == expected,
                        "{instructions:?} {workers} {rows} {depth} {columns} {numbers:?} {case:b}"
                    );
                }
            }
        }
    });
}

/// The iteration in float64.
fn iterated(elements: &[f32], rows: usize, columns: usize) -> Vec<f64> {
    let transposed = |x: &[f64], rows: usize, columns: usize| -> Vec<f64> {
        let index = |at: usize| at % rows * columns + at / rows;
        (0..rows * columns).map(|at| x[index(at)]).collect()
    };
    let times = |left: &[f64], right: &[f64], rows: usize, columns: usize| -> Vec<f64> {
        let depth = left.len() / rows;
        let one = |at: usize| {
            let of_row = left[at / columns * depth..].iter().take(depth);
            of_row
                .zip(right[at % columns..].iter().step_by(columns))
                .map(|(left, right)| left * right)
                .sum()
        };
        (0..rows * columns).map(one).collect()
    };
    let elements: Vec<f64> = elements.iter().map(|&element| element.into()).collect();
    let norm = elements
        .iter()
        .map(|element| element * element)
        .sum::<f64>();
    let divisor = norm.sqrt().max(1e-7);
    let mut x: Vec<f64> = elements.iter().map(|element| element / divisor).collect();
    for _ in 0..5 {
        let across = transposed(&x, rows, columns);
        let square = times(&x, &across, rows, rows);
        let fourth = times(&square, &square, rows, rows);
        let both = square.iter().zip(&fourth);
        let polynomial: Vec<f64> = both.map(|(s, f)| -4.775 * s + 2.0315 * f).collect();
        let added = times(&polynomial, &x, rows, columns);
        let both = x.iter().zip(&added);
        x = both.map(|(x, added)| 3.4445 * x + added).collect();
    }
    x
}

#[test]
fn orthogonal_matrices_are_those_of_the_iteration() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut memory = Orthogonalization::default();
    with_workers(|workers| {
        for (rows, columns) in [(1, 1), (5, 5), (3, 40), (70, 31), (1, 9), (9, 1), (40, 300)] {
            memory.reserve(rows, columns).unwrap();
            let elements = Numbers::Usual.draw(&mut random, rows * columns);
            let expected = iterated(&elements, rows, columns);
            let mut first = None;
            for instructions in Instructions::all() {
                memory.elements(rows, columns).copy_from_slice(&elements);
                let iteration = NewtonSchulz::MUON;
                let result = memory.run(instructions, &iteration, (rows, columns));
                assert_eq!((result.rows(), result.columns()), (rows, columns));
                let found: Vec<f32> = (0..rows * columns)
                    .map(|at| result.at(at / columns, at % columns))
                    .collect();
                for (found, expected) in found.iter().zip(&expected) {
                    let difference = (f64::from(*found) - expected).abs();
                    assert!(difference < 2e-5, "{rows} {columns}: {found} {expected}");
                }
                let first = first.get_or_insert_with(|| bits(&found));
                assert!(bits(&found) == *first, "{instructions:?} {workers}");
            }
        }
    });
}

#[test]
fn the_orthogonal_matrix_of_zeros_is_zeros_and_no_step_only_divides() {
    let mut memory = Orthogonalization::default();
    memory.reserve(3, 2).unwrap();
    memory.elements(3, 2).fill(0.0);
    let result = memory.run(Instructions::chosen(), &NewtonSchulz::MUON, (3, 2));
    assert_eq!(result.at(2, 1), 0.0);
    let none = NewtonSchulz {
        steps: 0,
        ..NewtonSchulz::MUON
    };
    let elements = memory.elements(3, 2);
    elements.copy_from_slice(&[0.0, 1.0, 2.0, 0.0, 4.0, 10.0]);
    let result = memory.run(Instructions::chosen(), &none, (3, 2));
    assert_eq!(result.at(0, 1), 1.0 / 11.0);
    assert_eq!(result.at(2, 1), 10.0 / 11.0);
}
