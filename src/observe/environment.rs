//! What the environment asks for: `UMBO_LOG` and `UMBO_TRACE`.

#![expect(unsafe_code, reason = "the end of the process is noticed by a function of C's")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::log::{self, Level};
use super::trace;

/// Does what the environment asks for, once in a process. Called where a program begins to use the
/// library. No thread waits for another one here, which in the child of a fork may be missing.
pub fn obey() {
    static TRACE_IS_BEGUN: AtomicBool = AtomicBool::new(false);
    if TRACE_IS_BEGUN.load(Ordering::Acquire) {
        return;
    }
    obey_log();
    if !TRACE_IS_BEGUN.swap(true, Ordering::AcqRel)
        && let Some(given) = std::env::var_os("UMBO_TRACE").filter(|given| !given.is_empty())
    {
        let path = path(&given, std::process::id());
        match trace::start(&path, trace::MOST_EVENTS) {
            Ok(()) => at_exit(),
            Err(error) => log::log_anyway(
                Level::Warning,
                &format!(
                    "UMBO_TRACE: no trace is written: {error}; give the name of a file that can be \
                     made, where %p stands for the number of the process"
                ),
            ),
        }
    }
}

/// Has the log do what the environment asks for, once in a process.
pub(super) fn obey_log() {
    static LEVEL_IS_SET: AtomicBool = AtomicBool::new(false);
    // Set by each of the threads that come first at the same time, so that none begins without it.
    if LEVEL_IS_SET.load(Ordering::Acquire) {
        return;
    }
    let level = std::env::var_os("UMBO_LOG").map(|given| level(&given));
    match level {
        Some(Ok(level)) => log::set_level_of_environment(level),
        _ => log::keep_level(),
    }
    if let (false, Some(Err(warning))) = (LEVEL_IS_SET.swap(true, Ordering::AcqRel), level) {
        log::log_anyway(Level::Warning, &warning);
    }
}

/// The level that a text names; `None` for no messages.
fn level(given: &OsStr) -> Result<Option<Level>, String> {
    let text = given.to_string_lossy();
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "off" | "none" | "0" => Ok(None),
        "error" | "1" => Ok(Some(Level::Error)),
        "warning" | "warn" | "2" => Ok(Some(Level::Warning)),
        "info" | "3" => Ok(Some(Level::Info)),
        "debug" | "4" => Ok(Some(Level::Debug)),
        _ => Err(format!(
            "UMBO_LOG is '{}'; off, error, warning, info and debug are possible, or 0 to 4. It is as \
             if it were not set",
            text.chars().take(80).collect::<String>()
        )),
    }
}

/// The path with the number of the process in place of `%p`.
fn path(given: &OsStr, process: u32) -> PathBuf {
    match given.to_str() {
        Some(text) => PathBuf::from(text.replace("%p", &process.to_string())),
        None => PathBuf::from(given),
    }
}

/// Has the trace ended with the process, so that its last events are in the file.
fn at_exit() {
    extern "C" fn end() {
        // A panic must not leave this function; what the trace lacks then is its last events.
        let _ = std::panic::catch_unwind(trace::stop);
    }
    // SAFETY: the function may be called when the process ends, or the library is unloaded: it uses
    // nothing but the library's own memory, and no thread of its own is left that it would wait for.
    unsafe { libc::atexit(end) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        for (text, expected) in [
            ("off", None),
            ("0", None),
            ("", None),
            ("error", Some(Level::Error)),
            ("Warning", Some(Level::Warning)),
            ("WARN", Some(Level::Warning)),
            (" info ", Some(Level::Info)),
            ("3", Some(Level::Info)),
            ("debug", Some(Level::Debug)),
        ] {
            assert_eq!(level(OsStr::new(text)), Ok(expected), "{text}");
        }
        for text in ["verbose", "5", "-1", "debug,info"] {
            let warning = level(OsStr::new(text)).unwrap_err();
            assert!(warning.contains(text) && warning.contains("off, error"), "{warning}");
        }
    }

    #[test]
    fn the_number_of_the_process_can_be_in_the_path() {
        let of = |text: &str| path(OsStr::new(text), 42).display().to_string();
        assert_eq!(of("trace-%p.json"), "trace-42.json");
        assert_eq!(of("/tmp/%d/trace.json"), "/tmp/%d/trace.json");
    }
}
