//! The library's build, and its abilities on this machine.

use std::ffi::CString;
use std::sync::OnceLock;

use crate::machinery::prelude::*;
use umbo_core::device::{DeviceKind, registry};
use umbo_core::executor::workers;

/// The names of the optional parts that the library was built with.
fn features() -> Vec<&'static str> {
    let mut features = umbo_core::features();
    if cfg!(feature = "tensorflow") {
        features.push("tensorflow");
    }
    features.sort_unstable();
    features
}

/// Gets how the library was built: a JSON object with "version", "target", "profile" and
/// "features", the names of the optional parts that it has.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_build_info() -> *const c_char {
    static INFO: OnceLock<CString> = OnceLock::new();
    let info = INFO.get_or_init(|| {
        let info = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "target": env!("UMBO_TARGET"),
            "profile": env!("UMBO_PROFILE"),
            "features": features(),
        });
        c_string(&info.to_string())
    });
    info.as_ptr()
}

/// Gets whether the library has an optional feature.
///
/// @param[in] name "cuda": there is a GPU that can be a device of a strategy. Others: the library
///   was built with "checkpoints", "checks" of steps, "files" of arrays, communicators over "mpi"
///   and over "nccl", which need not be installed, strategies over several "ranks", "rules-extra"
///   (all but SGD, momentum, Adam and AdamW), "tensorflow" (tensorflow.h), the "trace", "vectors"
///   (loops for AVX2 and AVX-512). What is not known: 0.
/// @param[out] result 1 or 0.
///
/// Functions of a part that the library was built without fail with UMBO_STATUS_UNIMPLEMENTED.
#[c_call(out(result), text(name))]
pub fn umbo_build_has_feature(name: *const c_char, result: *mut i32) {
    let has = match name {
        "cuda" => registry::REGISTRY.physical_count(DeviceKind::Gpu) > 0,
        name => features().contains(&name),
    };
    result.write(has.into());
}

/// Gets the number of threads for central work, the calling one included. Small operations use
/// fewer.
#[c_call(out(count))]
pub fn umbo_worker_count(count: *mut i64) {
    count.write(workers::count() as i64);
}
