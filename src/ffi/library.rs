//! The library as a whole: its version, what it can do here, what is in use.

use std::ffi::CStr;

use super::prelude::*;
use crate::device::cuda::gpu;
use crate::executor::shutdown;
use crate::executor::workers;
use crate::observe::log::{self, Level};
use crate::tensor::blocks;

/// How important a log message is.
pub type umbo_log_level = i32;

/// Something failed, and no caller is told of it in another way.
pub const UMBO_LOG_ERROR: umbo_log_level = 1;
/// It works, but probably not as the program means it.
pub const UMBO_LOG_WARNING: umbo_log_level = 2;
/// What the library has set up, and how.
pub const UMBO_LOG_INFO: umbo_log_level = 3;
/// Details for those who look for a fault.
pub const UMBO_LOG_DEBUG: umbo_log_level = 4;

constants! { Level {
    UMBO_LOG_ERROR = Level::Error, UMBO_LOG_WARNING = Level::Warning,
    UMBO_LOG_INFO = Level::Info, UMBO_LOG_DEBUG = Level::Debug,
} }

/// Receives a log message.
///
/// @param[in] level How important the message is.
/// @param[in] message The message in UTF-8, which lives until the function returns.
/// @param[in] user_data What was given to umbo_set_log_callback().
///
/// Several threads may call it at the same time.
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

/// Gives the version of the library that is loaded, such as "0.1.0".
///
/// @return The version, a text that lives as long as the process.
///
/// UMBO_VERSION is the version of the header. A program can compare the two.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Gives the version of the library that is loaded, as one number.
///
/// @return major * 1000000 + minor * 1000 + patch.
///
/// UMBO_VERSION_NUMBER is the version of the header. A program can compare the two.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version_number() -> u32 {
    VERSION_NUMBER
}

/// Sends log messages to a function of the program.
///
/// @param[in] most_verbose The last level that is sent: UMBO_LOG_WARNING sends warnings and errors.
/// @param[in] callback Receives the messages. `callback` may be NULL: messages then go to standard error
///   again, as if none had been set.
/// @param[in] user_data What `callback` is given.
/// @param[in] destroy Releases `user_data`: after the callback has been replaced and its last call
///   is over, and also if this function fails. NULL: nothing to release.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `most_verbose` is none of the levels.
///
/// The new callback takes the place of the one that was set before. While there is none, warnings and
/// errors go to standard error: a line each that begins with "umbo: ", no message twice, and 65 at
/// most. To have no messages, set a callback that does nothing.
///
/// The environment variable UMBO_LOG is read when the first strategy is made or the first message
/// comes. It is off, error, warning, info or debug, or a number from 0 to 4, and takes the place of
/// `most_verbose` for all callbacks. Without a callback it has all messages up to that level written
/// to standard error, also those that come again; off and 0 have none written.
#[c_call(gives(user_data, destroy), constant(most_verbose))]
pub fn umbo_set_log_callback(
    most_verbose: umbo_log_level,
    callback: umbo_log_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    let Some(callback) = callback else {
        log::clear_sink();
        return Ok(());
    };
    let sink = move |level: Level, message: &str| {
        let message = c_string(message);
        // SAFETY: the caller gave the callback for this, with the user data that lives as long
        // as this closure; the message lives until the call is over.
        unsafe { callback(level.to_c(), message.as_ptr(), user_data.pointer()) }
    };
    log::set_sink(most_verbose, Box::new(sink));
}

/// Sets how many threads do central work: reductions, updates, copies.
///
/// @param[in] count The number of threads, 1 to 1024. The calling thread is one of them.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is less than 1 or more than 1024.
///
/// At the start of the process, the number is that of the processors that the process may use. A
/// new number counts from the next operation on. The call does not wait. Results do not depend on
/// the number.
#[c_call(counted(count))]
pub fn umbo_set_worker_count(count: i64) {
    workers::set_count(count as usize)
}

/// Ends the threads that no object needs, and gives kept memory back.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: strategies or iterators have threads (the message
///   says how many; release these objects first), another call uses the threads that are to be ended, or the
///   caller is a function that central work calls. No thread has ended then.
///
/// The threads are those for central work and those that share heavy computations, such as the
/// equivalence check's. The call waits until they have ended. It is meant for programs that look
/// for leaks or are about to unload the library. Later calls start the threads that they need
/// again. The threads of replicas, of prefetching and of parallel maps end with the strategies and
/// iterators that own them. The memory is that of the host and of GPUs which the library has free but keeps
/// to use it again; the call waits for what was queued on GPUs.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_shutdown() -> umbo_status {
    boundary("umbo_shutdown", || {
        shutdown::shut_down()?;
        blocks::release_kept();
        gpu::release_kept();
        Ok(())
    })
}

/// Counts the handles that are in use: made and not yet released.
///
/// @param[in] type Which handles are counted. UMBO_HANDLE_ANY counts all.
/// @param[out] count How many there are.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, or `count` is a null
///   pointer.
///
/// A program that releases all that it makes sees 0 at its end. What callbacks are lent does not
/// count.
#[c_call(out(count))]
pub fn umbo_live_handles(r#type: umbo_handle_type, count: *mut i64) {
    count.write(handle::live(kind_selection(r#type)?));
}
