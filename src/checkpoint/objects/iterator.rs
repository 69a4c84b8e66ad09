//! Iterators: the position of a pass over a dataset.

use std::sync::Arc;

use crate::checkpoint::saveable::{
    Changes, Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable,
};
use crate::error::Result;
use crate::input::PassIterator;

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

    fn save(&self, _names: &Names, record: &mut ObjectRecord) -> Result<()> {
        record.property("position", self.0.save_position()?);
        Ok(())
    }

    fn prepare<'a>(&'a self, _names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let position = saved.read_property("position", |json| json.as_str().map(str::to_owned));
        Ok(position
            .map(|position| Box::new(NewPlace { iterator: &self.0, position, before: None }) as _))
    }
}

struct NewPlace<'a> {
    iterator: &'a PassIterator,
    position: String,
    /// The iterator's old position, once it has been moved.
    before: Option<String>,
}

impl PreparedRestore for NewPlace<'_> {
    fn begin(&mut self) -> Result<()> {
        let before = self.iterator.save_position()?;
        self.iterator.restore_position(&self.position)?;
        self.before = Some(before);
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.before.take().map_or(Ok(()), |before| self.iterator.restore_position(&before))
    }

    fn commit(self: Box<Self>, _changes: &Changes<'_>) -> Result<()> {
        Ok(())
    }
}
