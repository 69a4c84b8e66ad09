//! The gradients of single rows of arrays, such as embedding tables: a replica adds to the row that
//! it wants, and each row is zero at first. They lie in the memory of the gradients from the
//! beginning, where the update reads them.

#![expect(
    unsafe_code,
    reason = "rows lie in the memory of gradients, whose replica writes it"
)]

use std::sync::Arc;

use super::row_table::{Room, RowPlaces, RowShape, RowTable};
use umbo_base::error::Result;
use umbo_optim::Gradients;
use umbo_strategy::ReplicaContext;

/// There is room for about so many numbers at first.
const FIRST: usize = 1 << 14;

/// The rows of all arrays to which one replica has added in a call. Memory is kept from call to
/// call.
pub(super) struct RowGradients {
    gradients: Arc<Gradients>,
    /// The call, the replica and the step.
    call: u64,
    replica: usize,
    step: u64,
    /// For each array its rows; none for an array whose gradient is dense.
    tables: Vec<Option<RowTable>>,
    /// The same as programs read it.
    shown: Vec<RowPlaces>,
}

// SAFETY: its pointers lead to the memory of its own tables.
unsafe impl Send for RowGradients {}

impl RowGradients {
    /// Tables for the arrays of `gradients`, those with a shape being of rows.
    pub(super) fn new(gradients: &Arc<Gradients>, arrays: &[Option<RowShape>]) -> RowGradients {
        RowGradients {
            gradients: Arc::clone(gradients),
            call: 0,
            replica: 0,
            step: 0,
            tables: arrays.iter().map(|one| one.map(RowTable::new)).collect(),
            shown: vec![RowPlaces::NONE; arrays.len()],
        }
    }

    /// Begins a call of the replica in this context.
    pub(super) fn begin(&mut self, call: u64, context: &ReplicaContext) -> Result<()> {
        self.call = call;
        for (table, shown) in self.tables.iter_mut().zip(&mut self.shown) {
            if let Some(table) = table {
                table.clear();
                *shown = table.shown(call);
            }
        }
        if self.tables.iter().any(Option::is_some) {
            (self.replica, self.step) = self.gradients.join_current_step(context)?;
        }
        Ok(())
    }

    /// For each array the rows that were asked for, as programs read them.
    pub(super) fn shown(&self) -> *const RowPlaces {
        self.shown.as_ptr()
    }

    /// The memory to which the gradient of a row of array `array` is added.
    ///
    /// OUT_OF_RANGE: no such array or row. INVALID_ARGUMENT: an array whose gradient is dense.
    /// RESOURCE_EXHAUSTED.
    pub(super) fn row(&mut self, array: usize, row: i64) -> Result<*mut f32> {
        let RowGradients {
            gradients,
            replica,
            step,
            ..
        } = self;
        let count = self.tables.len();
        let Some(table) = self.tables.get_mut(array) else {
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
        table.check(row)?;
        let gradient = table.row(row, |table| {
            let rows = table.wanted_room(FIRST);
            let added = gradients.add_rows(*replica, *step, array, rows)?;
            // SAFETY: until the call ends, this replica writes the rows, which are contiguous.
            Ok(unsafe { Room::new(added.values.address().cast(), rows) })
        })?;
        self.shown[array] = table.shown(self.call);
        Ok(gradient)
    }

    /// The same if nothing is wrong and nothing has to grow.
    #[inline]
    pub(super) fn usual(&mut self, array: i64, row: i64) -> Option<*mut f32> {
        let array = usize::try_from(array).ok()?;
        self.tables.get_mut(array)?.as_mut()?.usual(row)
    }

    /// Ends the call: the gradients have the rows that it has asked for, and no others.
    pub(super) fn end(&mut self) -> Result<()> {
        for (index, table) in self.tables.iter().enumerate() {
            if let Some(table) = table {
                let replica = self.replica;
                let step = self.step;
                self.gradients
                    .number_rows(replica, step, index, table.numbers())?;
            }
        }
        self.withdraw();
        Ok(())
    }

    /// Programs find no rows any more.
    pub(super) fn withdraw(&mut self) {
        self.shown.fill(RowPlaces::NONE);
    }
}
