//! What the library is, and what it can do here.

use std::ffi::CString;
use std::sync::OnceLock;

use super::prelude::*;
use crate::device::{DeviceKind, registry};
use crate::executor::workers;

/// Tells how the library was built.
///
/// @return One JSON object with the fields "version", "target" and "profile". The text lives as
///   long as the process.
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

/// Tells whether an optional feature works here and now.
///
/// @param[in] name The name of the feature.
/// @param[out] result 1 if the feature works; 0 if it does not, and for a name that this version
///   does not know.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `name` is not a text in UTF-8, or `result` is a null
///   pointer.
///
/// There is one name so far, "cuda": there is a GPU that can be a device of a strategy.
#[c_call(out(result), text(name))]
pub fn umbo_has_feature(name: *const c_char, result: *mut i32) {
    let works = name == "cuda" && registry::physical_count(DeviceKind::Gpu) > 0;
    result.write(works.into());
}

/// Gives how many threads do central work.
///
/// @param[out] count The number of threads, including the calling one. Small operations use fewer.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `count` is a null pointer.
#[c_call(out(count))]
pub fn umbo_worker_count(count: *mut i64) {
    count.write(workers::count() as i64);
}
