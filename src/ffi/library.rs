//! The library as a whole: its version, what it can do here, what is in use.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

use super::boundary::{boundary, boundary_in_need, constant, out};
use super::callback::{UserData, umbo_destroy_fn};
use super::handle;
use super::object::{kind_selection, umbo_handle_type};
use super::status::umbo_status;
use super::text::{c_string, text};
use crate::error::Error;
use crate::executor::shutdown;
use crate::executor::thread::Uncancelled;
use crate::executor::workers;
use crate::observe::log::{self, Level};
use crate::tensor::blocks;

/// How important a log message is.
pub type umbo_log_level = i32;

/// Something failed that no caller hears of otherwise.
pub const UMBO_LOG_ERROR: umbo_log_level = 1;
/// It works, but probably not as meant.
pub const UMBO_LOG_WARNING: umbo_log_level = 2;
/// What was set up and how.
pub const UMBO_LOG_INFO: umbo_log_level = 3;
/// Details, for a search for a fault.
pub const UMBO_LOG_DEBUG: umbo_log_level = 4;

/// Receives a log message, which lives as long as the call. May be called from several threads at
/// the same time.
pub type umbo_log_fn = Option<
    unsafe extern "C-unwind" fn(
        level: umbo_log_level,
        message: *const c_char,
        user_data: *mut c_void,
    ),
>;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is not a number"),
    }
}

const VERSION_NUMBER: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// The version of the library that is loaded, such as "0.1.0". Compare with UMBO_VERSION, the
/// header's. Lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The version of the library that is loaded as one number, major * 1000000 + minor * 1000 +
/// patch. Compare with UMBO_VERSION_NUMBER, the header's.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version_number() -> u32 {
    VERSION_NUMBER
}

/// How the library was built, as one JSON object: "version", "target", "profile". Lives as long
/// as the process.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_build_info() -> *const c_char {
    static INFO: OnceLock<CString> = OnceLock::new();
    let info = INFO.get_or_init(|| {
        let info = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "target": env!("UMBO_TARGET"),
            "profile": env!("UMBO_PROFILE"),
        });
        c_string(&info.to_string())
    });
    info.as_ptr()
}

/// The optional features that work.
const FEATURES: &[&str] = &[];

/// Whether a feature works here and now: `result` gets 1 or 0. "cuda": GPUs can be devices of a
/// strategy, which they cannot in this version, whatever driver and devices there are
/// (umbo_device_count() counts them). 0 for a name that this version does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_has_feature(name: *const c_char, result: *mut i32) -> umbo_status {
    boundary("umbo_has_feature", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (result, name) = unsafe { (out(result, "result")?, text(name, "name")?) };
        result.write(FEATURES.contains(&name).into());
        Ok(())
    })
}

/// Sends log messages up to the level `most_verbose` to `callback`, in place of the one before.
/// NULL sends them nowhere, as it is at the start. `destroy` (or NULL) releases `user_data` when
/// the callback is replaced and its last call is over, and also if this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_set_log_callback(
    most_verbose: umbo_log_level,
    callback: umbo_log_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) -> umbo_status {
    // SAFETY: the caller gives the user data and its function away.
    let user_data = unsafe { UserData::new(user_data, destroy) };
    boundary("umbo_set_log_callback", move || {
        let Some(callback) = callback else {
            log::clear_sink();
            return Ok(());
        };
        let valid = "UMBO_LOG_ERROR (1) to UMBO_LOG_DEBUG (4)";
        let level = constant(most_verbose, Level::from_code(most_verbose), "most_verbose", valid)?;
        let sink = move |level: Level, message: &str| {
            let message = c_string(message);
            let _uncancelled = Uncancelled::new();
            // SAFETY: the caller gave the callback for this, with the user data that lives as long
            // as this closure; the message lives until the call is over.
            unsafe { callback(level as i32, message.as_ptr(), user_data.pointer()) }
        };
        log::set_sink(level, Box::new(sink));
        Ok(())
    })
}

/// Sets how many threads do central work (reductions, updates, copies), the calling one included.
/// The start is the number of processors that the process may use. Results do not depend on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_set_worker_count(count: i64) -> umbo_status {
    boundary("umbo_set_worker_count", || {
        let count = usize::try_from(count)
            .map_err(|_| Error::invalid("count", format!("{count}; 1 or more are expected")))?;
        workers::set_count(count)
    })
}

/// How many threads do central work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_worker_count(count: *mut i64) -> umbo_status {
    boundary("umbo_worker_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(workers::count() as i64);
        Ok(())
    })
}

/// Ends the threads of the library that no object needs (those for central work, and those that share
/// heavy computations such as the equivalence check's), waits for their end, and gives kept memory
/// back: for programs that look for leaks or are about to unload the library. Whatever is called
/// afterwards starts what it needs anew. The threads of replicas, of prefetching and of parallel maps
/// end with the strategies and iterators that have them.
///
/// FAILED_PRECONDITION, and nothing has ended, while strategies or iterators have threads (the
/// message says how many; release them first), while another call uses the threads that would be
/// ended, and in a function that central work calls.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_shutdown() -> umbo_status {
    boundary("umbo_shutdown", || {
        shutdown::shut_down()?;
        blocks::release_kept();
        Ok(())
    })
}

/// How many handles of a type are in use: made and not yet released. UMBO_HANDLE_ANY counts all.
/// A program that releases all it makes sees 0 at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_live_handles(
    r#type: umbo_handle_type,
    count: *mut i64,
) -> umbo_status {
    boundary_in_need("umbo_live_handles", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(handle::live(kind_selection(r#type)?));
        Ok(())
    })
}
