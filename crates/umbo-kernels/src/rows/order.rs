//! The rows of a table that were named, and the entries that name each row.
//!
//! The order depends only on the names: rows ascend, and the entries of one row follow each other
//! in the order in which they were added.

use std::collections::TryReserveError;
use std::ops::Range;

/// The most bits of the row numbers that one pass of the sort uses.
const MOST_BITS: u32 = 11;

/// Fewer entries than this are sorted by comparisons, which is faster for them than counting
/// digits.
const FEW: usize = 128;

/// Row numbers, sorted. Each has the number of its entry. The memory is kept when they are cleared.
#[derive(Debug, Default)]
pub struct RowOrder {
    entries: Vec<OrderEntry>,
    /// Memory for sorting: as many entries again.
    spare: Vec<OrderEntry>,
    /// Memory for sorting: for each digit the place of its next entry.
    places: Vec<usize>,
    /// The positions at which the entries of each row begin, and the end of those of the last row.
    bounds: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct OrderEntry {
    row: usize,
    number: usize,
}

/// An index that is not a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchRow {
    /// The position among the indices that were passed.
    pub position: usize,
    /// The index.
    pub index: i64,
}

/// Fails with the first of `indices` that is not in [0, `rows`).
pub fn check(indices: &[i64], rows: usize) -> Result<(), NoSuchRow> {
    let wrong = |index: &i64| usize::try_from(*index).map_or(true, |row| row >= rows);
    match indices.iter().position(wrong) {
        Some(position) => Err(NoSuchRow {
            position,
            index: indices[position],
        }),
        None => Ok(()),
    }
}

impl RowOrder {
    /// Removes all entries and reserves memory for `entries` of them.
    pub fn start(&mut self, entries: usize) -> Result<(), TryReserveError> {
        self.entries.clear();
        self.bounds.clear();
        self.entries.try_reserve(entries)?;
        // It keeps its contents, so that they need not be made again.
        let missing = entries.saturating_sub(self.spare.len());
        self.spare.try_reserve(missing)?;
        self.places.clear();
        self.places.try_reserve(1 << MOST_BITS)?;
        self.bounds.try_reserve(entries.saturating_add(1))
    }

    /// Adds entries that name `rows`. Their numbers follow those of the entries before.
    pub fn add_rows(&mut self, rows: &[usize]) {
        let first = self.entries.len();
        let entries = rows.iter().enumerate();
        self.entries
            .extend(entries.map(|(position, &row)| OrderEntry {
                row,
                number: first + position,
            }));
    }

    /// Adds entries that name the indices of a table of `rows` rows. The indices are checked while
    /// they are copied: later changes of their memory have no effect.
    pub fn add_indices(&mut self, indices: &[i64], rows: usize) -> Result<(), NoSuchRow> {
        let first = self.entries.len();
        for (position, &index) in indices.iter().enumerate() {
            match usize::try_from(index) {
                Ok(row) if row < rows => self.entries.push(OrderEntry {
                    row,
                    number: first + position,
                }),
                _ => return Err(NoSuchRow { position, index }),
            }
        }
        Ok(())
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Sorts the entries. All name rows below `rows`. Nothing is allocated.
    pub fn sort(&mut self, rows: usize) {
        if self.entries.len() < FEW {
            self.entries.sort_unstable();
        } else {
            // The passes share the bits equally, so that none has more digits than it needs.
            let bits = usize::BITS - rows.saturating_sub(1).leading_zeros();
            let digit = bits.div_ceil(bits.div_ceil(MOST_BITS).max(1)).max(1);
            for shift in (0..bits).step_by(digit as usize) {
                self.sort_by_digit(shift, digit);
            }
        }
        self.find_bounds();
    }

    /// Sorts by `bits` bits of the rows, from bit `shift` on, and keeps the order of entries in
    /// which these bits are equal.
    fn sort_by_digit(&mut self, shift: u32, bits: u32) {
        let RowOrder {
            entries,
            spare,
            places,
            ..
        } = self;
        let mask = (1 << bits) - 1;
        let digit = |entry: &OrderEntry| (entry.row >> shift) & mask;
        places.clear();
        places.resize(mask + 1, 0);
        entries.iter().for_each(|entry| places[digit(entry)] += 1);
        let mut sum = 0;
        for place in places.iter_mut() {
            sum += std::mem::replace(place, sum);
        }
        spare.resize(entries.len(), OrderEntry::default());
        for entry in &*entries {
            let place = &mut places[digit(entry)];
            spare[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(entries, spare);
    }

    /// Finds where the entries of each row begin. Nothing is decided by a branch, which processors
    /// would mispredict as often as not.
    fn find_bounds(&mut self) {
        let RowOrder {
            entries, bounds, ..
        } = self;
        bounds.resize(entries.len() + 1, 0);
        let mut rows = 0;
        let mut before = usize::MAX;
        for (position, entry) in entries.iter().enumerate() {
            // The next one takes the place of a bound that is none.
            bounds[rows] = position;
            rows += usize::from(entry.row != before);
            before = entry.row;
        }
        bounds[rows] = entries.len();
        bounds.truncate(rows + 1);
    }

    /// The number of different rows that were named. The entries are sorted.
    pub fn rows(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// The `position`-th of the named rows.
    pub fn row(&self, position: usize) -> usize {
        self.entries[self.bounds[position]].row
    }

    /// The range, in the sorted entries, of those that name this row.
    pub fn entries_of(&self, position: usize) -> Range<usize> {
        self.bounds[position]..self.bounds[position + 1]
    }

    /// The number of a sorted entry, or `None` past the last. Within one row the numbers ascend.
    pub fn number(&self, entry: usize) -> Option<usize> {
        self.entries.get(entry).map(|entry| entry.number)
    }

    /// The positions of the rows whose first entry lies in a range of the sorted entries. Ranges
    /// that do not overlap share no row.
    pub fn rows_within(&self, entries: Range<usize>) -> Range<usize> {
        let firsts = &self.bounds[..self.rows()];
        let position = |entry: usize| firsts.partition_point(|&first| first < entry);
        position(entries.start)..position(entries.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(indices: &[i64], rows: usize) -> Vec<(usize, Vec<usize>)> {
        sorted_in(&mut RowOrder::default(), indices, rows)
    }

    fn sorted_in(order: &mut RowOrder, indices: &[i64], rows: usize) -> Vec<(usize, Vec<usize>)> {
        order.start(indices.len()).unwrap();
        order.add_indices(indices, rows).unwrap();
        order.sort(rows);
        let numbers = |row| {
            order
                .entries_of(row)
                .filter_map(|entry| order.number(entry))
                .collect()
        };
        (0..order.rows())
            .map(|row| (order.row(row), numbers(row)))
            .collect()
    }

    #[test]
    fn entries_of_a_row_keep_their_order() {
        let expected = [(1, vec![1, 4]), (5, vec![0, 2, 3]), (9, vec![5])];
        assert_eq!(sorted(&[5, 1, 5, 5, 1, 9], 10), expected);
        assert_eq!(sorted(&[], 10), []);
        assert_eq!(sorted(&[0, 0], 1), [(0, vec![0, 1])]);
    }

    #[test]
    fn many_entries_are_sorted_as_few_are() {
        for rows in [
            1usize,
            2,
            1000,
            1 << 11,
            (1 << 11) + 1,
            1 << 30,
            usize::MAX >> 1,
        ] {
            let row = |index: i64| index.wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 % rows as u64;
            // One order for all, which uses its memory again.
            let mut order = RowOrder::default();
            for entries in [3000, FEW as i64, 2 * FEW as i64, 1, 2999] {
                let indices = (0..entries).map(|index| row(index % 1700) as i64);
                let indices: Vec<i64> = indices.collect();
                let mut expected = std::collections::BTreeMap::<usize, Vec<usize>>::new();
                for (number, &index) in indices.iter().enumerate() {
                    expected.entry(index as usize).or_default().push(number);
                }
                assert_eq!(
                    sorted_in(&mut order, &indices, rows),
                    expected.into_iter().collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn ranges_of_entries_cover_every_row_once() {
        let mut order = RowOrder::default();
        order.start(6).unwrap();
        order.add_rows(&[3, 3, 3, 3, 4, 7]);
        order.sort(8);
        for parts in 1..=6 {
            let bounds: Vec<usize> = (0..=parts).map(|part| part * 6 / parts).collect();
            let ranges = bounds
                .windows(2)
                .map(|pair| order.rows_within(pair[0]..pair[1]));
            assert_eq!(ranges.flatten().collect::<Vec<_>>(), [0, 1, 2], "{parts}");
        }
    }

    #[test]
    fn indices_out_of_range_are_found() {
        for (indices, position) in [([0, 4, -1], 1), ([3, 0, -1], 2), ([i64::MIN, 0, 0], 0)] {
            let wrong = NoSuchRow {
                position,
                index: indices[position],
            };
            assert_eq!(check(&indices, 4), Err(wrong));
            let mut order = RowOrder::default();
            order.start(3).unwrap();
            assert_eq!(order.add_indices(&indices, 4), Err(wrong));
        }
        assert_eq!(check(&[0, 3], 4), Ok(()));
        assert!(check(&[0], 0).is_err());
    }
}
