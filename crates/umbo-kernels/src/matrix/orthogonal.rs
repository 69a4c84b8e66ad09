//! The orthogonal matrix near a matrix, by an iteration of Newton and Schulz.
//!
//! An odd polynomial of a matrix is that polynomial of its singular values. A few steps of one that
//! is steep at 0 and stays around 1 bring all singular values near 1, with products alone (Jordan
//! et al., "Muon: An optimizer for hidden layers in neural networks", 2024).

use crate::float::real::{Real, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch};
use crate::matrix::product::{Matrix, Product, Products};
use crate::view::SpanMut;
use umbo_base::error::{Result, memory};

/// The iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewtonSchulz {
    /// The coefficients of X, X³ and X⁵.
    pub coefficients: [f32; 3],
    /// The number of steps.
    pub steps: usize,
    /// The least number by which a matrix is divided before the first step.
    pub epsilon: f32,
}

impl NewtonSchulz {
    /// Five steps, with the coefficients that Muon's authors found.
    pub const MUON: NewtonSchulz = NewtonSchulz {
        coefficients: [3.4445, -4.7750, 2.0315],
        steps: 5,
        epsilon: 1e-7,
    };
}

/// The memory of an iteration.
#[derive(Debug, Default)]
pub struct Orthogonalization {
    products: Products,
    /// The matrix, and its next form.
    forms: [Vec<f32>; 2],
    /// The products of the rows, and the polynomial of them.
    squares: [Vec<f32>; 2],
}

impl Orthogonalization {
    /// Reserves memory for a matrix of so many rows and columns, and any that needs no more.
    ///
    /// Fails with RESOURCE_EXHAUSTED, and can then be called again.
    pub fn reserve(&mut self, rows: usize, columns: usize) -> Result<()> {
        self.products.reserve()?;
        let side = rows.min(columns);
        let sizes = [rows.saturating_mul(columns), side.saturating_mul(side)];
        for (memory, size) in [&mut self.forms, &mut self.squares].into_iter().zip(sizes) {
            for elements in memory {
                let missing = size.saturating_sub(elements.len());
                memory::reserve(elements, missing, "elements of an orthogonal matrix")?;
                elements.resize(size.max(elements.len()), 0.0);
            }
        }
        Ok(())
    }

    /// The elements of the matrix, one row behind the other, to be written before
    /// [`Orthogonalization::run`]. Asserted: there is memory for them.
    pub fn elements(&mut self, rows: usize, columns: usize) -> &mut [f32] {
        &mut self.forms[0][..rows * columns]
    }

    /// The orthogonal matrix near the one whose elements were written. Allocates nothing. Its bits
    /// depend neither on the workers nor on the instruction set. Asserted: memory is reserved.
    pub fn run(
        &mut self,
        instructions: Instructions,
        iteration: &NewtonSchulz,
        (rows, columns): (usize, usize),
    ) -> Matrix<'_> {
        let count = rows * columns;
        let mut norm = 0.0;
        dispatch(
            instructions,
            SquaredNorm {
                elements: &self.forms[0][..count],
                sum: &mut norm,
            },
        );
        let divisor = (norm.sqrt() as f32).max(iteration.epsilon);
        for element in &mut self.forms[0][..count] {
            *element /= divisor;
        }
        // The products of the shorter rows or columns are the smaller matrix.
        let is_tall = rows > columns;
        let side = rows.min(columns);
        let length = rows.max(columns);
        for step in 0..iteration.steps {
            let [x, next] = &mut self.forms;
            let x = match is_tall && step == 0 {
                true => Matrix::new(&x[..count], rows, columns).transposed(),
                false => Matrix::new(&x[..count], side, length),
            };
            self.products.step(
                instructions,
                &iteration.coefficients,
                x,
                &mut self.squares,
                &mut next[..count],
            );
            self.forms.swap(0, 1);
        }
        let result = &self.forms[0][..count];
        match is_tall && iteration.steps > 0 {
            true => Matrix::new(result, side, length).transposed(),
            false => Matrix::new(result, rows, columns),
        }
    }
}

impl Orthogonalization {
    /// Replaces the matrix in `elements`, one row behind the other, by `factor` times the
    /// orthogonal one near it. It is computed in float32, whatever the type. Asserted: there are as
    /// many elements, and memory is reserved.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements during the call.
    pub unsafe fn replace(
        &mut self,
        instructions: Instructions,
        iteration: &NewtonSchulz,
        (rows, columns): (usize, usize),
        factor: f32,
        elements: &SpanMut<'_>,
    ) {
        assert_eq!(rows.checked_mul(columns), Some(elements.elements()));
        for_real!(elements.dtype(), T => {
            // SAFETY: the span is of this type and length, and the caller promises the rest.
            let elements = unsafe {
                std::slice::from_raw_parts_mut(elements.data().cast::<T>(), elements.elements())
            };
            for (to, from) in self.elements(rows, columns).iter_mut().zip(&*elements) {
                *to = Real::to_f64(*from) as f32;
            }
            let result = self.run(instructions, iteration, (rows, columns));
            let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            for (to, (row, column)) in elements.iter_mut().zip(places) {
                *to = T::from_f64((factor * result.at(row, column)).into());
            }
        });
    }
}

impl Products {
    /// One step: a·X + (b·S + c·S²)·X for S = X·Xᵀ.
    fn step(
        &mut self,
        instructions: Instructions,
        &[a, b, c]: &[f32; 3],
        x: Matrix<'_>,
        [square, polynomial]: &mut [Vec<f32>; 2],
        next: &mut [f32],
    ) {
        let side = x.rows();
        let square = &mut square[..side * side];
        let polynomial = &mut polynomial[..side * side];
        let of_rows = Product {
            left: x,
            right: x.transposed(),
            factor: 1.0,
            base: None,
        };
        self.write(instructions, &of_rows, square);
        let square = Matrix::new(square, side, side);
        let of_squares = Product {
            left: square,
            right: square,
            factor: c,
            base: Some((b, square)),
        };
        self.write(instructions, &of_squares, polynomial);
        let of_polynomial = Product {
            left: Matrix::new(polynomial, side, side),
            right: x,
            factor: 1.0,
            base: Some((a, x)),
        };
        self.write(instructions, &of_polynomial, next);
    }
}

/// The lanes in which squares are added up.
const LANES: usize = 16;

/// The sum of the squares of all elements, in float64: in interleaved lanes, which are added in
/// order.
struct SquaredNorm<'a> {
    elements: &'a [f32],
    sum: &'a mut f64,
}

impl Kernel for SquaredNorm<'_> {
    const WIDEST: InstructionSet = InstructionSet::Avx2;

    #[inline(always)]
    fn run(self, _: Instructions) {
        let (blocks, last) = self.elements.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        let square = |element: &f32| f64::from(*element) * f64::from(*element);
        for block in blocks {
            for (lane, element) in lanes.iter_mut().zip(block) {
                *lane += square(element);
            }
        }
        for (lane, element) in lanes.iter_mut().zip(last) {
            *lane += square(element);
        }
        *self.sum = lanes.iter().sum();
    }
}
