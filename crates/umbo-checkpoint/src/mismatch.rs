//! Differences between a file and the objects that are to be restored from it.

use crate::reader::CheckpointFile;
use umbo_base::error::{Error, Result};

/// Fails with all differences, if there are any.
pub(super) fn refuse(file: &CheckpointFile<'_>, mismatches: &[String]) -> Result<()> {
    if mismatches.is_empty() {
        return Ok(());
    }
    let (count, noun) = match mismatches.len() {
        1 => (1, "mismatch"),
        count => (count, "mismatches"),
    };
    let list: String = mismatches
        .iter()
        .map(|mismatch| format!("\n  {mismatch}"))
        .collect();
    let path = file.path().display();
    let problem = format!("'{path}' does not fit, and nothing was changed; {count} {noun}:{list}");
    Err(Error::invalid(file.argument(), problem))
}
