//! What the library is, and what it can do here.

use std::ffi::CString;
use std::sync::OnceLock;

use crate::machinery::prelude::*;
use umbo_core::device::{DeviceKind, registry};
use umbo_core::executor::workers;

/// Gets how the library was built: a JSON object with "version", "target" and "profile".
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

/// Gets whether an optional feature works here and now.
///
/// @param[in] name "cuda": there is a GPU that can be a device of a strategy. Others: 0.
/// @param[out] result 1 or 0.
#[c_call(out(result), text(name))]
pub fn umbo_has_feature(name: *const c_char, result: *mut i32) {
    let works = name == "cuda" && registry::REGISTRY.physical_count(DeviceKind::Gpu) > 0;
    result.write(works.into());
}

/// Gets the number of threads for central work, the calling one included. Small operations use
/// fewer.
#[c_call(out(count))]
pub fn umbo_worker_count(count: *mut i64) {
    count.write(workers::count() as i64);
}
