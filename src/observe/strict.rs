//! Whether this process is strict: what is merely suspicious elsewhere is an error here.
//!
//! A strategy can be made strict by its options, too; this is for whole processes, and for what belongs
//! to no strategy.

use super::log::{self, Level};
use super::switch::Switch;
use crate::error::{Error, Result};

/// The environment variable that makes every strategy of the process strict.
pub const VARIABLE: &str = "UMBO_STRICT";

static STRICT: Switch =
    Switch::new(VARIABLE, "1 makes every strategy strict, 0 leaves it to their options");

/// Whether the environment makes this process strict.
pub fn is_on() -> bool {
    STRICT.is_on()
}

/// What works, but probably not as the program means it: a warning, or, if `is_strict` or the process is, a
/// failure, which `error` makes of the words.
pub fn suspect(
    is_strict: bool,
    error: impl FnOnce(String) -> Error,
    what: impl FnOnce() -> String,
) -> Result<()> {
    if is_strict || is_on() {
        return Err(error(format!("strict mode: {}", what())));
    }
    log::log(Level::Warning, what);
    Ok(())
}

/// Logs a warning if the variable has a value that means nothing.
pub fn warn_of_variable() {
    STRICT.warn();
}
