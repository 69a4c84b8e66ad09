//! Numbers of the caller's, which the checkpoint itself keeps.

use serde_json::Value as Json;

use crate::checkpoint::saveable::{
    Changes, Names, Prepared, Record, Saveable, Saved, number, read_number,
};
use crate::error::Result;
use parking_lot::Mutex;

/// A number of the caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// Any other.
    Float(f64),
}

/// Where a number is kept.
pub struct NumberCell(pub(in crate::checkpoint) Mutex<Number>);

impl Saveable for NumberCell {
    fn kind(&self) -> &'static str {
        "number"
    }

    fn strategy(&self) -> Option<u64> {
        None
    }

    fn save(&self, _names: &Names, record: &mut Record) -> Result<()> {
        match *self.0.lock() {
            Number::Integer(value) => record.property("integer", value),
            Number::Float(value) => record.property("value", number(value)),
        }
        Ok(())
    }

    fn prepare<'a>(
        &'a self,
        _names: &Names,
        saved: &mut Saved<'_>,
    ) -> Result<Option<Box<dyn Prepared + 'a>>> {
        let here = *self.0.lock();
        let found = match here {
            Number::Integer(_) => saved.read_property("integer", Json::as_i64).map(Number::Integer),
            Number::Float(_) => saved.read_property("value", read_number).map(Number::Float),
        };
        let number = found;
        Ok(number.map(|number| Box::new(NewNumber { cell: self, number }) as _))
    }
}

struct NewNumber<'a> {
    cell: &'a NumberCell,
    number: Number,
}

impl Prepared for NewNumber<'_> {
    fn commit(self: Box<Self>, _changes: &Changes<'_>) -> Result<()> {
        *self.cell.0.lock() = self.number;
        Ok(())
    }
}
