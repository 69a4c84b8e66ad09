//! Iterators: the position of a pass over a dataset.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::{Error, Result, Status};
use umbo_input::{PassIterator, SavedPosition};

/// An iterator, shared with the program.
pub struct SavedIterator(pub Arc<PassIterator>);

impl Saveable for SavedIterator {
    fn kind(&self) -> &'static str {
        "iterator"
    }

    fn strategy(&self) -> Option<u64> {
        self.0.distributed_for()
    }

    fn may_call_back(&self) -> bool {
        true
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let position = serde_json::to_value(self.0.position()?)
            .map_err(|error| Error::Internal(format!("a position: {error}")))?;
        match self.0.spans_ranks {
            true => record.property_of_rank("position", position),
            false => record.property("position", position),
        }
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let position = saved.property_of_rank("position", self.0.spans_ranks);
        let Some(position): Option<Json> = position else {
            return Ok(None);
        };
        let position = SavedPosition::from_json(&position);
        match position.and_then(|position| self.0.prepare(&position)) {
            Ok(prepared) => Ok(Some(PreparedRestore::Position(prepared))),
            Err(error) if error.status() == Status::InvalidArgument => {
                saved.differs(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error.within(format!("'{}'", saved.object))),
        }
    }
}
