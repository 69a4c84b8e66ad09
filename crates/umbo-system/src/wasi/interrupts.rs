//! There are no signals: an interrupt ends the runtime, and the program with it.

use std::io;

/// Nothing is to be watched.
pub fn begin() -> io::Result<()> {
    Ok(())
}

/// Nothing was watched.
pub fn end() {}
