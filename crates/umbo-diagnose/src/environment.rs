//! The settings of the environment: `UMBO_LOG` and `UMBO_TRACE`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::trace;
use umbo_base::observe::log::{self, Level};
use umbo_system::process;

/// Applies the settings of the environment, once in a process. A program that begins to use the
/// library calls it. No thread waits for another one here, because in the child of a fork the other
/// one may be missing.
pub fn apply() {
    static TRACE_IS_BEGUN: AtomicBool = AtomicBool::new(false);
    if TRACE_IS_BEGUN.load(Ordering::Acquire) {
        return;
    }
    log::apply_environment();
    if !TRACE_IS_BEGUN.swap(true, Ordering::AcqRel)
        && let Some(given) = std::env::var_os("UMBO_TRACE").filter(|given| !given.is_empty())
    {
        let path = path(&given, umbo_system::process::id());
        match trace::start(&path, trace::MOST_EVENTS) {
            Ok(()) => at_exit(),
            Err(error) => log::log_anyway(
                Level::Warning,
                &format!(
                    "UMBO_TRACE: no trace is written: {error}; give the name of a file that can \
                     be made, where %p stands for the number of the process"
                ),
            ),
        }
    }
}

/// The path, in which the process id replaces `%p`.
fn path(given: &OsStr, process: u32) -> PathBuf {
    match given.to_str() {
        Some(text) => PathBuf::from(text.replace("%p", &process.to_string())),
        None => PathBuf::from(given),
    }
}

/// Ends the trace at the end of the process, so that its last events are in the file.
fn at_exit() {
    extern "C" fn end() {
        // A panic must not leave this function. If one occurs, the last events are missing in the
        // trace.
        let _ = std::panic::catch_unwind(trace::stop);
    }
    // It uses only the library's own memory, and no thread of the library is left for which it
    // would wait.
    process::at_exit(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_process_can_be_in_the_path() {
        let expanded = |text: &str| path(OsStr::new(text), 42).display().to_string();
        assert_eq!(expanded("trace-%p.json"), "trace-42.json");
        assert_eq!(expanded("/tmp/%d/trace.json"), "/tmp/%d/trace.json");
    }
}
