//! The library as a whole: its version, what it can do here, what is in use.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use super::boundary::{boundary, out};
use super::handle;
use super::object::{kind_selection, umbo_handle_type};
use super::status::umbo_status;
use super::text::c_string;

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

/// How many handles of a type are in use: made and not yet released. UMBO_HANDLE_ANY counts all.
/// A program that releases all it makes sees 0 at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_live_handles(
    r#type: umbo_handle_type,
    count: *mut i64,
) -> umbo_status {
    boundary(|| {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(handle::live(kind_selection(r#type)?));
        Ok(())
    })
}
