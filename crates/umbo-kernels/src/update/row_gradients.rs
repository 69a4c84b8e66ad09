//! Making the gradients of rows of a table from the contributions to them.
//!
//! A sum stays in registers from the first entry of its row to the gradient, which alone is
//! written. The bits are those of gradients of sums that were written before
//! ([`RowSums::write_tile`]).

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::float::gradient_element::GradientElement;
use crate::float::lanes::{self, BLOCK, Products, Term};
use crate::float::real::{Real, for_gradient, for_real};
use crate::instruction_set::{InstructionSet, Instructions, Kernel, dispatch, widest_for};
use crate::prefetch::prefetch;
use crate::rows::sum::RowSums;
use crate::update::finite_mask::FiniteMask;
use crate::update::gradients::{are_finite, has_exact_products, is_short, rounded};
use crate::update::pass::TILE;
use crate::update::weighted_sum::{Finish, Scale, WeightedSum};

/// The most entries that are looked up, and asked for, before the rows that they name are added up.
/// The sum of a row with more entries is written between.
const MOST_TERMS: usize = 128;

impl RowSums<'_> {
    /// Writes the elements `columns` of the gradients of the rows at these positions to the memory
    /// from `to` on, one row after the other, on this thread. `sum` makes them of sums, and has
    /// their type. Sets `not_finite` if an element is not.
    ///
    /// Writes nothing and returns `false` if there is no loop for this: for rows of few elements,
    /// sums that start from earlier runs, and divisors without a reciprocal.
    ///
    /// # Safety
    /// There are such rows and columns, and the memory, which nobody else uses, has room for them.
    pub(super) unsafe fn write_gradients(
        &self,
        instructions: Instructions,
        sum: &WeightedSum<'_>,
        positions: Range<usize>,
        columns: Range<usize>,
        to: *mut u8,
        not_finite: Option<&AtomicBool>,
    ) -> bool {
        let can_run = instructions.has_special_loops() && self.is_fresh();
        if !can_run || !(BLOCK..=TILE).contains(&columns.len()) {
            return false;
        }
        for_real!(sum.dtype, T => {
            let finish = sum.finish::<T>();
            let Scale::Multiply(reciprocal) = finish.scale else {
                return false;
            };
            for_gradient!(T, self.dtype(), G => {
                let way = GradientMethod::new::<G>(self, finish, reciprocal);
                let element = PhantomData::<G>;
                let to = to.cast::<T>();
                let tile = GradientTile {
                    sums: self, way, positions, columns, to, not_finite, element,
                };
                dispatch(instructions, tile);
            });
        });
        true
    }
}

/// The gradients of some columns of some rows. The contributions are of type `G`, and the code that
/// creates it ensures what [`RowSums::write_gradients`] demands.
struct GradientTile<'a, G, T> {
    sums: &'a RowSums<'a>,
    way: GradientMethod<T>,
    positions: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
    not_finite: Option<&'a AtomicBool>,
    element: PhantomData<G>,
}

/// The place of the next row's gradient.
struct RowWriter<T> {
    to: *mut T,
    /// The elements of a row: a block or more.
    width: usize,
    traces: FiniteMask<T>,
}

/// Writes a row, whose blocks are `$block` from element `$start` on, with the writer. It is no
/// function with a closure, which would be compiled for the baseline.
macro_rules! write_blocks {
    ($writer:ident, $start:ident => $block:expr) => {{
        let last = $writer.width - BLOCK;
        let mut $start = 0;
        loop {
            // SAFETY: the terms and the memory have these elements, as the creator of the tile
            // ensures.
            unsafe {
                let block: [T; BLOCK] = $block;
                $writer.traces.see_block(block);
                $writer.to.add($start).cast::<[T; BLOCK]>().write(block);
            }
            if $start == last {
                break;
            }
            // The last block begins in the one before, unless the row ends with it.
            $start = last.min($start + BLOCK);
        }
        $writer.to = $writer.to.wrapping_add($writer.width);
    }};
}

impl<G: GradientElement, T: Real> Kernel for GradientTile<'_, G, T> {
    const WIDEST: InstructionSet = widest_for::<T>();
    const IS_SPECIAL: bool = true;

    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let sums = self.sums;
        let positions = self.positions.clone();
        let mut writer = RowWriter {
            to: self.to,
            width: self.columns.len(),
            traces: FiniteMask::new(),
        };
        let mut terms = [(0.0, std::ptr::null::<G>()); MOST_TERMS];
        let mut position = positions.start;
        while position < positions.end {
            let first = sums.entries_of(position).start;
            let mut next = position;
            while next < positions.end && sums.entries_of(next).end - first <= MOST_TERMS {
                next += 1;
            }
            if next == position {
                next += 1;
                self.write_long(instructions, position, &mut writer);
            } else {
                let count = sums.entries_of(next - 1).end - first;
                self.look_up(first, &mut terms[..count]);
                for position in position..next {
                    let entries = sums.entries_of(position);
                    let terms = &terms[entries.start - first..entries.end - first];
                    self.way.write_row(instructions, terms, &mut writer);
                }
            }
            position = next;
        }
        writer.traces.note(self.not_finite);
    }
}

impl<G: GradientElement, T: Real> GradientTile<'_, G, T> {
    /// Finds the terms of the sorted entries from `first` on, and asks for them.
    #[inline(always)]
    fn look_up(&self, first: usize, terms: &mut [Term<G>]) {
        let bytes = self.columns.len() * size_of::<G>();
        for (entry, term) in terms.iter_mut().enumerate() {
            let found = self.sums.fresh_term::<G>(first + entry);
            let (factor, row) = found.expect("sums without earlier runs have fresh entries alone");
            let row = row.wrapping_add(self.columns.start);
            prefetch(row.cast(), bytes);
            *term = (factor, row);
        }
    }

    /// Writes the gradient of a row with more terms than are looked up together.
    #[inline(always)]
    fn write_long(&self, instructions: Instructions, position: usize, writer: &mut RowWriter<T>) {
        let mut sum = MaybeUninit::<[f64; TILE]>::uninit();
        let row = sum.as_mut_ptr().cast::<f64>();
        let rows = position..position + 1;
        let columns = self.columns.clone();
        // SAFETY: the memory has room for the columns, which are at most a tile.
        unsafe {
            self.sums
                .write_tile_of::<G>(instructions, rows, columns, row)
        };
        let terms = &[(1.0, row.cast_const())];
        let way = self.way;
        write_blocks!(writer, start => way.added(instructions, terms, Products::Exact, start));
    }
}

/// A block of a term's elements in the type of the gradient, which can represent all of them.
///
/// # Safety
/// The term has these elements, which can be read.
#[inline(always)]
unsafe fn read<G: GradientElement, T: Real>(
    instructions: Instructions,
    term: &Term<G>,
    start: usize,
) -> [T; BLOCK] {
    // SAFETY: the caller's promise.
    let elements = unsafe { term.1.wrapping_add(start).cast::<[G; BLOCK]>().read() };
    rounded(G::widened(instructions, elements), |element| element)
}

/// How gradients are made, in registers.
#[derive(Clone, Copy)]
struct GradientMethod<T> {
    finish: Finish<T>,
    reciprocal: f64,
    /// Clipping only multiplies.
    only_multiplies: bool,
    products: Products,
    /// The factor of one term, and of two, that are added in their own type.
    short: [Option<T>; 2],
}

impl<T: Real> GradientMethod<T> {
    fn new<G: GradientElement>(
        sums: &RowSums<'_>,
        finish: Finish<T>,
        reciprocal: f64,
    ) -> GradientMethod<T> {
        let mut factors = sums.factors();
        let first = sums.factors().next().unwrap_or(0.0);
        let short = |terms| {
            let is_short = is_short::<T>(first, terms, reciprocal)
                && sums.factors().all(|factor| factor == first);
            is_short.then(|| T::from_f64(first * reciprocal))
        };
        GradientMethod {
            finish,
            reciprocal,
            only_multiplies: finish.only_multiplies(),
            products: match factors.all(has_exact_products::<G>) {
                true => Products::Exact,
                false => Products::Rounded,
            },
            short: [short(1), short(2)],
        }
    }

    /// Writes the gradient of a row with these terms, which can be read.
    #[inline(always)]
    fn write_row<G: GradientElement>(
        self,
        instructions: Instructions,
        terms: &[Term<G>],
        writer: &mut RowWriter<T>,
    ) {
        match (terms, self.short) {
            ([only], [Some(scale), _]) => write_blocks!(writer, start => {
                self.scaled(added_to_zero(read(instructions, only, start)), scale)
            }),
            ([one, other], [_, Some(scale)]) => write_blocks!(writer, start => {
                let mut sum = added_to_zero(read(instructions, one, start));
                let other: [T; BLOCK] = read(instructions, other, start);
                for index in 0..BLOCK {
                    sum[index] = sum[index] + other[index];
                }
                // The sum of two numbers may be past the type's range when their mean is not.
                match are_finite(&sum) {
                    true => self.scaled(sum, scale),
                    false => self.added_apart(terms, start),
                }
            }),
            _ => write_blocks!(writer, start => {
                self.added(instructions, terms, self.products, start)
            }),
        }
    }

    /// The gradient of the block from `start` on, added up in float64.
    ///
    /// # Safety
    /// The terms have these elements, which can be read.
    #[inline(always)]
    unsafe fn added<G: GradientElement>(
        self,
        instructions: Instructions,
        terms: &[Term<G>],
        products: Products,
        start: usize,
    ) -> [T; BLOCK] {
        let from_here = |&(factor, row): &Term<G>| (factor, row.wrapping_add(start));
        let terms = terms.iter().map(from_here);
        let reciprocal = self.reciprocal;
        // SAFETY: the caller's promise.
        let block = unsafe {
            lanes::weighted_sum::<G, T, BLOCK>(
                instructions,
                0.0,
                terms.clone(),
                products,
                reciprocal,
            )
        };
        let block = block.unwrap_or_else(|| {
            let mut sum = [0.0; BLOCK];
            for (factor, row) in terms {
                // SAFETY: as above.
                let elements = unsafe { row.cast::<[G; BLOCK]>().read() };
                for (sum, element) in sum.iter_mut().zip(G::widened(instructions, elements)) {
                    *sum += factor * element;
                }
            }
            rounded(sum, |sum| sum * reciprocal)
        });
        self.clipped(block)
    }

    /// The same, as a call that is not inlined, for rare blocks.
    ///
    /// # Safety
    /// As for [`GradientMethod::added`].
    #[cold]
    #[inline(never)]
    unsafe fn added_apart<G: GradientElement>(
        &self,
        terms: &[Term<G>],
        start: usize,
    ) -> [T; BLOCK] {
        // SAFETY: the caller's promise.
        unsafe { self.added(Instructions::BASELINE, terms, self.products, start) }
    }

    #[inline(always)]
    fn scaled(self, mut sum: [T; BLOCK], scale: T) -> [T; BLOCK] {
        for element in &mut sum {
            *element = *element * scale;
        }
        self.clipped(sum)
    }

    #[inline(always)]
    fn clipped(self, mut gradient: [T; BLOCK]) -> [T; BLOCK] {
        if !self.only_multiplies {
            return self.finish.clipped(gradient);
        }
        let factor = self.finish.factors[0];
        for element in &mut gradient {
            *element = *element * factor;
        }
        gradient
    }
}

/// The elements, added to 0, where sums of rows begin: −0 becomes 0.
#[inline(always)]
fn added_to_zero<T: Real>(mut elements: [T; BLOCK]) -> [T; BLOCK] {
    let zero = T::from_f64(0.0);
    for element in &mut elements {
        *element = zero + *element;
    }
    elements
}

#[cfg(test)]
mod tests;
