//! Numbers of the caller, which the checkpoint itself stores.

use serde_json::Value as Json;

use crate::numbers::{Number, number, read_number};
use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use parking_lot::Mutex;
use umbo_base::error::Result;

/// The place where a number is stored.
pub struct NumberCell(pub(crate) Mutex<Number>);

impl Saveable for NumberCell {
    fn kind(&self) -> &'static str {
        "number"
    }

    fn number(&self) -> Option<&Mutex<Number>> {
        Some(&self.0)
    }

    fn save(&self, _names: &Names, record: &mut ObjectRecord) -> Result<()> {
        match *self.0.lock() {
            Number::Integer(value) => record.property("integer", value),
            Number::Float(value) => record.property("value", number(value)),
        }
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let here = *self.0.lock();
        let number = match here {
            Number::Integer(_) => saved
                .read_property("integer", Json::as_i64)
                .map(Number::Integer),
            Number::Float(_) => saved.read_property("value", read_number).map(Number::Float),
        };
        Ok(number.map(|number| {
            PreparedRestore::by(move |_| {
                *self.0.lock() = number;
                Ok(())
            })
        }))
    }
}
