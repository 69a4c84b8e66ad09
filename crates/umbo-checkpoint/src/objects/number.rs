//! Numbers of the caller, which the checkpoint itself stores.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::numbers::{Float, Number};
use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use parking_lot::Mutex;
use umbo_base::error::Result;

/// The place where a number is stored.
pub struct NumberCell(pub(crate) Mutex<Number>);

/// An integer of a checkpoint that counts.
pub struct Counter(pub(crate) Arc<dyn Saveable>);

impl Counter {
    /// Adds one.
    pub fn add_one(&self) {
        if let Some(number) = self.0.number()
            && let Number::Integer(count) = &mut *number.lock()
        {
            *count = count.saturating_add(1);
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SavedNumber {
    value: SavedValue,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedValue {
    Integer(i64),
    Float(Float),
}

impl Saveable for NumberCell {
    fn kind(&self) -> &'static str {
        "number"
    }

    fn number(&self) -> Option<&Mutex<Number>> {
        Some(&self.0)
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let value = match *self.0.lock() {
            Number::Integer(value) => SavedValue::Integer(value),
            Number::Float(value) => SavedValue::Float(Float(value)),
        };
        record.properties(&SavedNumber { value })
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let Some(SavedNumber { value }) = saved.properties() else {
            return Ok(None);
        };
        let number = match (*self.0.lock(), value) {
            (Number::Integer(_), SavedValue::Integer(value)) => Number::Integer(value),
            (Number::Float(_), SavedValue::Float(Float(value))) => Number::Float(value),
            (Number::Integer(_), SavedValue::Float(_)) => {
                saved.differs("it is an integer here, a floating-point number in the file");
                return Ok(None);
            }
            (Number::Float(_), SavedValue::Integer(_)) => {
                saved.differs("it is a floating-point number here, an integer in the file");
                return Ok(None);
            }
        };
        Ok(Some(PreparedRestore::by(move |_| {
            *self.0.lock() = number;
            Ok(())
        })))
    }
}
