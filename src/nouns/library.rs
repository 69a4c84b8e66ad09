//! The library as a whole: its version, what it can do here, what is in use.

use crate::machinery::hazard;
use crate::machinery::prelude::*;
use umbo_core::device::registry;
use umbo_core::executor::{shutdown, workers};
use umbo_core::observe::log::{self, Level};
use umbo_core::strategy::context;
use umbo_core::tensor::blocks;

/// How important a log message is.
pub type umbo_log_level = i32;

/// A failure that no call returns.
pub const UMBO_LOG_ERROR: umbo_log_level = 201;
/// It works, but probably not as intended.
pub const UMBO_LOG_WARNING: umbo_log_level = 202;
/// The library's set-up.
pub const UMBO_LOG_INFO: umbo_log_level = 203;
/// Details for finding a fault.
pub const UMBO_LOG_DEBUG: umbo_log_level = 204;

constants! { Level {
    UMBO_LOG_ERROR = Error, UMBO_LOG_WARNING = Warning, UMBO_LOG_INFO = Info,
    UMBO_LOG_DEBUG = Debug,
} }

/// Receives a log message, which lives until the function returns. Several threads may call it at
/// the same time.
pub type umbo_log_fn = Option<
    unsafe extern "C-unwind" fn(
        level: umbo_log_level,
        message: *const c_char,
        user_data: *mut c_void,
    ),
>;

/// Gets the version of the loaded library, such as "0.1.0". UMBO_VERSION is that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Gets the version of the loaded library: major * 1000000 + minor * 1000 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_version_number() -> u32 {
    let number = |text: &str| text.parse().unwrap_or(0);
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

/// Sets where log messages go, in place of standard error.
///
/// @param[in] level The last level that is sent: UMBO_LOG_WARNING sends warnings and errors.
/// @param[in] callback `callback` may be NULL: standard error again.
/// @param[in] destroy Releases `user_data` after the last call of the callback, and if this
///   function fails. May be NULL.
///
/// Without a callback, warnings and errors that no call returns go to standard error: lines that
/// begin with "umbo: ", each message once, 65 at most. The environment variable UMBO_LOG (off,
/// error, warning, info, debug, or 0 to 4) replaces `level`; without a callback it has all messages
/// up to that level written. It is read when the first strategy is made or the first message comes.
/// A strict strategy turns warnings into failures.
#[c_call(owned(user_data, destroy), constant(level))]
pub fn umbo_set_log_callback(
    level: umbo_log_level,
    callback: umbo_log_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    let Some(callback) = callback else {
        log::clear_sink();
        return Ok(());
    };
    let user_data = Arc::new(user_data);
    let sink = move |level: Level, message: &str| {
        let message = c_string(message);
        let user_data = Arc::clone(&user_data);
        // The callback may open a scope, or release a handle that is in use where the message comes
        // from.
        hazard::call_when_unused(move || {
            // SAFETY: the caller gave the callback for this; message and user data live until the
            // call is over.
            let call = || unsafe { callback(level.to_c(), message.as_ptr(), user_data.pointer()) };
            log::call_sink(|| callback::run_infallible(call));
        });
    };
    log::set_sink(level, Box::new(sink));
}

/// Sets the number of threads for central work: reductions, updates, copies.
///
/// @param[in] count 1 to 1024, the calling thread included. By default the number of processors
///   of the process, or what the quota of its cgroup grants, if that is less.
///
/// The number holds from the next operation on. Results do not depend on it.
#[c_call(counted(count))]
pub fn umbo_set_worker_count(count: i64) {
    workers::set_count(count as usize)
}

/// Ends the threads that no object needs, and frees memory that the library keeps for reuse.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: strategies or iterators have threads (the message says
///   how many; release them first, and before that umbo_strategy_synchronize() waits for late
///   callbacks), or another call uses the threads. Then none has ended.
///
/// It is meant for programs that look for leaks, and for plugins before they are unloaded. It waits
/// until the threads have ended and GPUs have finished what was queued. Later calls start threads
/// again.
///
/// Before all else, and even if it fails, it forgets this thread's last error, and releases what
/// ended threads have left behind: the payloads of their last errors, and the scopes that they had
/// not left. A thread that ends itself runs no code of the program: that may be gone by then. Other
/// threads that use a plugin call umbo_clear_last_error().
#[unsafe(no_mangle)]
pub extern "C" fn umbo_shutdown() -> umbo_status {
    boundary("umbo_shutdown", || {
        status::forget_all();
        context::release_left_behind();
        shutdown::shut_down()?;
        blocks::release_kept();
        registry::release_kept();
        Ok(())
    })
}

/// Gets the number of handles that are not released, without those that callbacks borrow.
///
/// @param[in] type UMBO_HANDLE_ANY counts all.
#[c_call(out(count))]
pub fn umbo_live_handles(r#type: umbo_handle_type, count: *mut i64) {
    count.write(handle::live(kind_selection(r#type)?));
}
