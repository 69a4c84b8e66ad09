//! Whether this process is strict. In a strict process, warnings about probable mistakes are
//! errors.
//!
//! The options of a strategy can also make it strict. This setting is for whole processes, and for
//! objects that do not belong to a strategy.

use super::log::{self, Level};
use super::switch::Switch;
use crate::error::{Error, Result};

/// The environment variable that makes every strategy of the process strict.
pub const VARIABLE: &str = "UMBO_STRICT";

/// The setting, whose invalid values are warned of.
pub static STRICT: Switch = Switch::new(
    VARIABLE,
    "1 makes every strategy strict, 0 leaves it to their options",
);

/// Whether the environment makes this process strict.
pub fn is_on() -> bool {
    STRICT.is_on()
}

/// Reports something that works, but is probably a mistake of the program. It is a warning or, if
/// `is_strict` or the process is strict, an error, which `error` makes of the text.
pub fn warn_or_fail(
    is_strict: bool,
    error: impl FnOnce(String) -> Error,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if is_strict || is_on() {
        return Err(error(format!("strict mode: {}", message())));
    }
    log::log(Level::Warning, message);
    Ok(())
}
