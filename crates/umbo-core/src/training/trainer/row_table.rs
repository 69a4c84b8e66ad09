//! The rows of one array that a replica has asked for in a call, found by their number in a table
//! with open addressing, which programs read themselves.

#![expect(
    unsafe_code,
    reason = "rows lie in the memory of gradients, whose replica writes it"
)]

use std::ptr;

use umbo_base::error::{Result, memory};

/// An array of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// How many rows it has.
    pub rows: usize,
    /// How many numbers a row has, 1 or more.
    pub length: usize,
}

/// A place of a table, as C programs read it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowPlace {
    /// The number of the row.
    pub row: i64,
    /// The memory to which its gradient is added. NULL: no row is here.
    pub gradient: *mut f32,
}

/// A table, as C programs read it. The search for a row begins at `row * multiplier >> shift` and
/// looks at one place after the other, up to one without a row. There is always one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowPlaces {
    /// The number of the call that the rows are of.
    pub call: u64,
    /// The places: one more than `mask`, a power of two.
    pub places: *const RowPlace,
    /// See there.
    pub multiplier: u64,
    /// See there.
    pub shift: u64,
    /// The largest position of a place.
    pub mask: u64,
}

impl RowPlaces {
    /// A table in which no row is found.
    pub(super) const NONE: RowPlaces = RowPlaces {
        call: 0,
        places: ptr::null(),
        multiplier: 0,
        shift: 0,
        mask: 0,
    };
}

/// Neighbours lie apart by the upper bits of a product with the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The least number of places.
const LEAST: usize = 64;

/// Memory for rows that are asked for next: all numbers of one row, then those of the others.
#[derive(Clone, Copy)]
pub(super) struct Room {
    next: *mut f32,
    rows: usize,
}

impl Room {
    pub(super) const NONE: Room = Room {
        next: ptr::null_mut(),
        rows: 0,
    };

    /// # Safety
    /// The table that gets it may write so many rows from `next` on until it is cleared.
    pub(super) unsafe fn new(next: *mut f32, rows: usize) -> Room {
        Room { next, rows }
    }
}

/// The rows of one array. Memory is kept from call to call.
pub(super) struct RowTable {
    shape: RowShape,
    /// The numbers of the rows, in the order in which they were asked for.
    numbers: Vec<i64>,
    /// Of each row one, and at least as many without.
    places: Vec<RowPlace>,
    /// The table of a program, over `places`.
    shown: RowPlaces,
    room: Room,
    /// The most rows of a call.
    most: usize,
}

// SAFETY: its pointers lead to its own memory, and to that of gradients, which only the thread that
// owns the table writes.
unsafe impl Send for RowTable {}

impl RowTable {
    pub(super) fn new(shape: RowShape) -> RowTable {
        RowTable {
            shape,
            numbers: Vec::new(),
            places: Vec::new(),
            shown: RowPlaces::NONE,
            room: Room::NONE,
            most: 0,
        }
    }

    /// The table of a program in call `call`.
    pub(super) fn shown(&self, call: u64) -> RowPlaces {
        match self.places.is_empty() {
            true => RowPlaces::NONE,
            false => RowPlaces { call, ..self.shown },
        }
    }

    /// The numbers of the rows that were asked for.
    pub(super) fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// How many rows there is to be room for when that is used up: all of the call, if it has as
    /// many as the largest one before; else about so many numbers.
    pub(super) fn wanted_room(&self, numbers: usize) -> usize {
        let wanted = match self.numbers.len() {
            0 => self.most,
            used => used,
        };
        let least = (numbers / self.shape.length).max(1);
        wanted.max(least).min(self.shape.rows - self.numbers.len())
    }

    /// The memory to which the gradient of a row is added, if the call has asked for it before, or
    /// nothing has to grow for it.
    #[inline]
    pub(super) fn usual(&mut self, row: i64) -> Option<*mut f32> {
        let is_row = usize::try_from(row).is_ok_and(|row| row < self.shape.rows);
        if !is_row || self.places.is_empty() {
            return None;
        }
        let place = self.find(row);
        let found = self.places[place].gradient;
        if !found.is_null() {
            return Some(found);
        }
        let has_room = self.room.rows > 0 && self.numbers.len() < self.numbers.capacity();
        (has_room && self.has_places()).then(|| self.insert(row, place))
    }

    /// Refuses a row that there is not.
    pub(super) fn check(&self, row: i64) -> Result<()> {
        if usize::try_from(row).is_ok_and(|row| row < self.shape.rows) {
            return Ok(());
        }
        let rows = self.shape.rows;
        Err(out_of_range!(
            "row",
            "{row} is not in [0, {rows}), the rows of the array"
        ))
    }

    /// The memory to which the gradient of a row is added, which the array has. `more` makes room.
    pub(super) fn row(
        &mut self,
        row: i64,
        more: impl FnOnce(&RowTable) -> Result<Room>,
    ) -> Result<*mut f32> {
        if let Some(found) = self.usual(row) {
            return Ok(found);
        }
        if self.places.is_empty() || !self.has_places() {
            self.grow()?;
        }
        memory::reserve(&mut self.numbers, 1, "rows of a gradient")?;
        if self.room.rows == 0 {
            self.room = more(self)?;
        }
        let place = self.find(row);
        Ok(self.insert(row, place))
    }

    /// Whether there are places for one more row: half of them stay free, unless each row of the
    /// array has its own.
    fn has_places(&self) -> bool {
        self.places.len() > self.shape.rows || (self.numbers.len() + 1) * 2 <= self.places.len()
    }

    /// The place of a row, or the one where it belongs.
    #[inline]
    fn find(&self, row: i64) -> usize {
        let RowPlaces {
            multiplier,
            shift,
            mask,
            ..
        } = self.shown;
        let mut place = (row as u64).wrapping_mul(multiplier) >> shift;
        loop {
            let there = &self.places[place as usize];
            if there.gradient.is_null() || there.row == row {
                return place as usize;
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn insert(&mut self, row: i64, place: usize) -> *mut f32 {
        let gradient = self.room.next;
        // SAFETY: there is room for this row, which only the thread that owns the table writes.
        unsafe { gradient.write_bytes(0, self.shape.length) };
        self.room.next = gradient.wrapping_add(self.shape.length);
        self.room.rows -= 1;
        self.numbers.push(row);
        self.places[place] = RowPlace { row, gradient };
        gradient
    }

    /// Doubles the places. When there are more than the array has rows, each row has its own.
    #[cold]
    fn grow(&mut self) -> Result<()> {
        let size = (self.places.len() * 2).max(LEAST);
        let none = RowPlace {
            row: 0,
            gradient: ptr::null_mut(),
        };
        let places = memory::filled(size, none, "places of rows of a gradient")?;
        let before = std::mem::replace(&mut self.places, places);
        let bits = size.trailing_zeros();
        let shift = u64::BITS - bits;
        self.shown = RowPlaces {
            call: 0,
            places: self.places.as_ptr(),
            multiplier: match size > self.shape.rows {
                true => 1 << shift,
                false => GOLDEN,
            },
            shift: shift.into(),
            mask: size as u64 - 1,
        };
        for there in before.iter().filter(|there| !there.gradient.is_null()) {
            let place = self.find(there.row);
            self.places[place] = *there;
        }
        Ok(())
    }

    /// Forgets all rows, and the room for others.
    pub(super) fn clear(&mut self) {
        self.most = self.most.max(self.numbers.len());
        self.room = Room::NONE;
        if self.numbers.len() * 4 > self.places.len() {
            for place in &mut self.places {
                place.gradient = ptr::null_mut();
            }
            self.numbers.clear();
            return;
        }
        let mask = self.shown.mask as usize;
        for at in 0..self.numbers.len() {
            let row = self.numbers[at];
            let first = (row as u64).wrapping_mul(self.shown.multiplier) >> self.shown.shift;
            let mut place = first as usize;
            // Places of rows that are forgotten already still have their numbers.
            while self.places[place].row != row || self.places[place].gradient.is_null() {
                place = (place + 1) & mask;
            }
            self.places[place].gradient = ptr::null_mut();
        }
        self.numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A table with memory of its own, whose blocks stay where they are.
    struct Owned {
        table: RowTable,
        blocks: Vec<Vec<f32>>,
    }

    impl Owned {
        fn new(rows: usize, length: usize) -> Owned {
            Owned {
                table: RowTable::new(RowShape { rows, length }),
                blocks: Vec::new(),
            }
        }

        fn add(&mut self, row: i64, value: f32) -> *mut f32 {
            let Owned { table, blocks } = self;
            let length = table.shape.length;
            let found = table.row(row, |table| {
                let rows = table.wanted_room(50);
                blocks.push(vec![7.0; rows * length]);
                let first = blocks.last_mut().map(|block| block.as_mut_ptr());
                // SAFETY: the block is dropped after the table.
                Ok(unsafe { Room::new(first.unwrap_or(ptr::null_mut()), rows) })
            });
            let found = found.unwrap();
            // SAFETY: a row has `length` numbers.
            unsafe { *found.add(length - 1) += value };
            found
        }

        /// The place of a row, found as programs do.
        fn shown(&self, call: u64, row: i64) -> *mut f32 {
            let shown = self.table.shown(call);
            let mut place = (row as u64).wrapping_mul(shown.multiplier) >> shown.shift;
            loop {
                // SAFETY: there are as many places.
                let there = unsafe { *shown.places.add(place as usize) };
                if there.gradient.is_null() || there.row == row {
                    return there.gradient;
                }
                place = (place + 1) & shown.mask;
            }
        }
    }

    /// Sums over random rows, in calls of different sizes, are those of a map.
    #[test]
    fn rows_add_up_like_those_of_a_map() {
        for (rows, length) in [
            (1, 1),
            (7, 3),
            (64, 2),
            (1000, 20),
            (100_000, 1),
            (3, 40_000),
        ] {
            let mut owned = Owned::new(rows, length);
            let mut state = 1u64;
            for call in [0, 1, 5, 2, 3, 4, 6, 1] {
                owned.table.clear();
                let mut expected = BTreeMap::new();
                let mut order = Vec::new();
                for _ in 0..call * call * 40 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let row = ((state >> 33) % rows as u64) as i64;
                    let place = owned.add(row, row as f32 + 0.5);
                    let before = expected.entry(row).or_insert_with(|| {
                        order.push(row);
                        (place, 0.0)
                    });
                    assert_eq!(before.0, place);
                    before.1 += row as f32 + 0.5;
                }
                assert_eq!(owned.table.numbers(), order);
                for (row, (place, sum)) in expected {
                    assert_eq!(owned.shown(call, row), place);
                    // SAFETY: a row has `length` numbers.
                    let found = unsafe { std::slice::from_raw_parts(place, length) };
                    assert_eq!(found[length - 1], sum);
                    assert!(found[..length - 1].iter().all(|&other| other == 0.0));
                }
                if call > 0 {
                    for row in [-1, rows as i64, i64::MIN, i64::MAX] {
                        assert!(owned.shown(call, row).is_null(), "{row} of {rows}");
                    }
                }
            }
        }
    }

    /// As many rows as in an earlier call need no more memory.
    #[test]
    fn memory_is_kept() {
        let mut owned = Owned::new(5000, 9);
        for call in 0..3 {
            owned.table.clear();
            owned.blocks.clear();
            for row in 0..5000 {
                owned.add(row * 31 % 5000, 1.0);
            }
            assert_eq!(owned.blocks.len() > 1, call == 0, "{}", owned.blocks.len());
        }
    }

    #[test]
    fn rows_that_there_are_not_are_refused() {
        let mut table = RowTable::new(RowShape { rows: 3, length: 2 });
        for row in [3, -1, i64::MIN, i64::MAX] {
            let error = table.check(row).unwrap_err().to_string();
            let says = format!("row: {row} is not in [0, 3)");
            assert!(error.contains(&says), "{error}");
            assert!(table.usual(row).is_none());
        }
        assert!(table.check(2).is_ok());
    }
}
