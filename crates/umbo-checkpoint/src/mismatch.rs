//! Differences between a file and the objects that are to be restored from it.

use std::path::Path;

use umbo_base::error::{Error, Result};

/// Fails with all differences, if there are any.
pub(super) fn refuse(path: &Path, mismatches: &[String]) -> Result<()> {
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
    let path = path.display();
    let problem = format!("'{path}' does not fit, and nothing was changed; {count} {noun}:{list}");
    Err(Error::invalid("path", problem))
}
