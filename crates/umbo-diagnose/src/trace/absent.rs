//! The stand-in for the trace in a library without the feature `trace`: functions that fail with
//! UNIMPLEMENTED.

#[expect(dead_code, reason = "nobody writes what is measured")]
mod entry;

use std::path::Path;

pub use entry::Account;
pub(crate) use entry::{Detail, Entry};

use umbo_base::error::{Error, Result};

/// The number of events of a trace by default.
pub const MOST_EVENTS: u64 = 4_000_000;

/// Fails: there is nothing that would write the file.
pub fn start(_path: &Path, _most: u64) -> Result<()> {
    refused()
}

/// Fails: no trace is written.
pub fn stop() -> Result<Account> {
    refused()
}

/// Records nothing: no trace is written.
pub(crate) fn record(_entry: Entry) {}

fn refused<T>() -> Result<T> {
    Err(Error::left_out("the trace", "trace"))
}

/// The program's own spans.
pub mod program {
    /// Begins nothing.
    pub fn begin(_name: &str) {}

    /// Ends nothing.
    pub fn end() {}
}
