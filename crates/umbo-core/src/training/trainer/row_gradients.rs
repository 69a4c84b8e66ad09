//! The gradients of single rows of arrays, such as embedding tables: a replica adds to the row that
//! it wants, and each row is zero at first.

use umbo_base::error::{Result, memory};
use umbo_optim::Gradients;
use umbo_strategy::ReplicaContext;

/// About so many numbers lie in one block.
const BLOCK: usize = 1 << 14;

/// The rows of all arrays to which one replica has added in a step. Memory is kept from step to
/// step.
pub(super) struct RowGradients {
    /// For each array its rows; none for an array whose gradient is dense.
    arrays: Vec<Option<RowTable>>,
}

impl RowGradients {
    /// Tables for arrays that have `rows` rows of `length` numbers each.
    pub(super) fn new(arrays: &[Option<RowShape>]) -> RowGradients {
        let arrays = arrays.iter().map(|shape| shape.map(RowTable::new));
        RowGradients {
            arrays: arrays.collect(),
        }
    }

    /// The gradient of a row of array `array`.
    ///
    /// OUT_OF_RANGE: no such array or row. INVALID_ARGUMENT: an array whose gradient is dense.
    #[inline]
    pub(super) fn row(&mut self, array: usize, row: i64) -> Result<&mut [f32]> {
        let count = self.arrays.len();
        let Some(table) = self.arrays.get_mut(array) else {
            return Err(out_of_range!(
                "array",
                "{array} is not in [0, {count}), the arrays of the trainer"
            ));
        };
        let Some(table) = table else {
            return Err(invalid!(
                "array",
                "{array}, whose gradient is one array (gradients[{array}] of the rows); give the \
                 parameters a row_length to add to single rows"
            ));
        };
        table.row(row)
    }

    /// Calls `each` with the position and the gradient of each of these rows of array `array`. If
    /// one is refused, it is called for none.
    ///
    /// As [`RowGradients::row`].
    pub(super) fn rows(
        &mut self,
        array: usize,
        rows: &[i64],
        mut each: impl FnMut(usize, &mut [f32]),
    ) -> Result<()> {
        if let Some(Some(table)) = self.arrays.get(array) {
            rows.iter().try_for_each(|&row| table.check(row))?;
        }
        for (at, &row) in rows.iter().enumerate() {
            each(at, self.row(array, row)?);
        }
        Ok(())
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.arrays.iter_mut().flatten().for_each(RowTable::clear);
    }

    /// Adds all rows to the replica's gradients.
    pub(super) fn add_to(
        &self,
        gradients: &std::sync::Arc<Gradients>,
        context: &ReplicaContext,
    ) -> Result<()> {
        let (replica, step) = gradients.join_current_step(context)?;
        for (index, table) in self.arrays.iter().enumerate() {
            if let Some(table) = table {
                let rows = (0..table.numbers.len()).map(|at| table.at(at));
                gradients.add_row_copies(replica, step, index, &table.numbers, rows)?;
            }
        }
        Ok(())
    }
}

/// The rows of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// How many rows it has.
    pub rows: usize,
    /// How many numbers a row has, 1 or more.
    pub length: usize,
}

/// The rows of one array, found by their number in a table with open addressing. Blocks never move,
/// so that a row stays where it is until the table is cleared.
struct RowTable {
    shape: RowShape,
    /// The numbers of the rows, in the order in which they came.
    numbers: Vec<i64>,
    /// One more than the position in `numbers`, 0 where there is none. Its size is a power of two,
    /// and at most half of it is used.
    places: Vec<u32>,
    /// How far a hash is shifted to be a position in `places`.
    shift: u32,
    rows_per_block: usize,
    blocks: Vec<Vec<f32>>,
}

impl RowTable {
    fn new(shape: RowShape) -> RowTable {
        RowTable {
            shape,
            numbers: Vec::new(),
            places: Vec::new(),
            shift: u64::BITS,
            rows_per_block: (BLOCK / shape.length).max(1),
            blocks: Vec::new(),
        }
    }

    fn row(&mut self, row: i64) -> Result<&mut [f32]> {
        self.check(row)?;
        let at = match self.find(row) {
            Ok(at) => at,
            Err(place) => self.insert(row, place)?,
        };
        let length = self.shape.length;
        let start = at % self.rows_per_block * length;
        Ok(&mut self.blocks[at / self.rows_per_block][start..start + length])
    }

    /// Refuses a row that there is not.
    #[inline]
    fn check(&self, row: i64) -> Result<()> {
        if usize::try_from(row).is_ok_and(|row| row < self.shape.rows) {
            return Ok(());
        }
        let rows = self.shape.rows;
        Err(out_of_range!(
            "row",
            "{row} is not in [0, {rows}), the rows of the array"
        ))
    }

    /// The position of a row, or the place of the table where it belongs.
    #[inline]
    fn find(&self, row: i64) -> Result<usize, usize> {
        if self.places.is_empty() {
            return Err(0);
        }
        let mask = self.places.len() - 1;
        // The upper bits of a product with the golden ratio: neighbours lie apart.
        let mut place = ((row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            match self.places[place] {
                0 => return Err(place),
                at if self.numbers[at as usize - 1] == row => return Ok(at as usize - 1),
                _ => place = (place + 1) & mask,
            }
        }
    }

    #[cold]
    fn insert(&mut self, row: i64, mut place: usize) -> Result<usize> {
        let at = self.numbers.len();
        if (at + 1) * 2 > self.places.len() {
            self.grow()?;
            place = self.find(row).unwrap_or_else(|place| place);
        }
        memory::reserve(&mut self.numbers, 1, "rows of a gradient")?;
        let start = at % self.rows_per_block * self.shape.length;
        if at / self.rows_per_block == self.blocks.len() {
            let size = self.rows_per_block.min(self.shape.rows) * self.shape.length;
            memory::reserve(&mut self.blocks, 1, "blocks of a gradient")?;
            let block = memory::filled(size, 0.0, "numbers of a gradient")?;
            self.blocks.push(block);
        } else {
            self.blocks[at / self.rows_per_block][start..start + self.shape.length].fill(0.0);
        }
        self.numbers.push(row);
        self.places[place] = at as u32 + 1;
        Ok(at)
    }

    /// Doubles the table.
    fn grow(&mut self) -> Result<()> {
        let size = (self.places.len() * 2).max(64);
        if size > u32::MAX as usize {
            return Err(memory::exhausted(size, "rows of a gradient"));
        }
        self.places = memory::filled(size, 0, "places of rows of a gradient")?;
        self.shift = u64::BITS - size.trailing_zeros();
        for at in 0..self.numbers.len() {
            if let Err(place) = self.find(self.numbers[at]) {
                self.places[place] = at as u32 + 1;
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.places.fill(0);
    }

    /// The row at a position.
    fn at(&self, at: usize) -> &[f32] {
        let start = at % self.rows_per_block * self.shape.length;
        &self.blocks[at / self.rows_per_block][start..start + self.shape.length]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn table(rows: usize, length: usize) -> RowTable {
        RowTable::new(RowShape { rows, length })
    }

    /// Sums over random rows, in steps of different sizes, are those of a map.
    #[test]
    fn rows_add_up_like_those_of_a_map() {
        for (rows, length) in [(1, 1), (7, 3), (1000, 20), (100_000, 1), (3, 40_000)] {
            let mut table = table(rows, length);
            let mut state = 1u64;
            for step in 0..6 {
                table.clear();
                let mut expected = BTreeMap::new();
                let mut order = Vec::new();
                for _ in 0..(step * step * 40) {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let row = ((state >> 33) % rows as u64) as i64;
                    table.row(row).unwrap()[length - 1] += row as f32 + 0.5;
                    *expected.entry(row).or_insert_with(|| {
                        order.push(row);
                        0.0
                    }) += row as f32 + 0.5;
                }
                assert_eq!(table.numbers, order);
                for (at, row) in order.iter().enumerate() {
                    let found = table.at(at);
                    assert_eq!(found[length - 1], expected[row]);
                    assert!(found[..length - 1].iter().all(|&other| other == 0.0));
                }
            }
        }
    }

    /// A row stays where it is while others come.
    #[test]
    fn rows_do_not_move() {
        let mut table = table(50_000, 9);
        let first = table.row(49_999).unwrap().as_ptr();
        for row in 0..50_000 {
            table.row(row).unwrap();
        }
        assert_eq!(table.row(49_999).unwrap().as_ptr(), first);
    }

    #[test]
    fn rows_that_there_are_not_are_refused() {
        let mut all = RowGradients::new(&[None, Some(RowShape { rows: 3, length: 2 })]);
        for (array, row, says) in [
            (2, 0, "array: 2 is not in [0, 2)"),
            (0, 0, "row_length"),
            (1, 3, "row: 3 is not in [0, 3)"),
            (1, -1, "row: -1 is not in [0, 3)"),
        ] {
            let error = all.row(array, row).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(all.row(1, 2).unwrap(), [0.0, 0.0]);
    }
}
