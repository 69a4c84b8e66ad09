//! Strings of the caller in a checkpoint, and in a file that nobody has loaded.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::bundle::Checkpoint;
use crate::objects::string::{KIND, SavedString, StringCell, StringValue};
use crate::reader::CheckpointFile;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::text::with_article;
use umbo_input::sources::file::damaged;

impl Checkpoint {
    /// Sets a string of the caller, and adds it if it does not exist.
    ///
    /// INVALID_ARGUMENT: longer than [`crate::LONGEST_STRING`], with a NUL in it, or a name that
    /// another object has.
    pub fn set_string(&self, name: &str, string: &str) -> Result<()> {
        let StringValue(string) = StringValue::try_from(string.to_owned())
            .map_err(|problem| Error::invalid("string", problem))?;
        let known = self.entry(name);
        if let Some(cell) = known.as_ref().and_then(|object| object.string()) {
            *cell.lock() = string;
            return Ok(());
        }
        self.add(name, Arc::new(StringCell(Mutex::new(string))))
    }

    /// A string of the caller, as it was last set or restored.
    pub fn string(&self, name: &str) -> Result<String> {
        let known = self.entry(name);
        let string = known
            .as_ref()
            .and_then(|object| object.string())
            .map(|cell| cell.lock().clone());
        string.ok_or_else(|| {
            Error::NotFound(format!(
                "name: no string '{name}' was set in this checkpoint"
            ))
        })
    }
}

/// The string that was saved as `name` in the checkpoint at `path`, of which only the header is
/// read, and nothing else is restored.
///
/// NOT_FOUND: the file has no object of this name. INVALID_ARGUMENT: no string, or a file that is
/// not a checkpoint. Otherwise as for [`CheckpointFile::open`].
pub fn saved_string(path: &Path, name: &str) -> Result<String> {
    let file = CheckpointFile::open_one(path)?;
    file.own()?;
    let Some((saved, _)) = file.object(name) else {
        let path = path.display();
        return Err(Error::NotFound(format!(
            "name: '{path}' has no string '{name}'"
        )));
    };
    if saved.kind != KIND {
        return Err(invalid!(
            "name",
            "'{name}' is {} in '{}', and not a string",
            with_article(&saved.kind),
            path.display()
        ));
    }
    SavedString::deserialize(&saved.properties)
        .map(|SavedString { value }| value.0)
        .map_err(|error| damaged(path, format!("string '{name}' is not valid: {error}")))
}
