//! Texts for C, ended by a NUL.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::path::Path;

use parking_lot::Mutex;
use umbo_core::device::DeviceId;
use umbo_core::device::name::DeviceName;
use umbo_core::system::names;

/// A copy for C. A NUL inside would end the text early, so it becomes a visible sign.
pub(crate) fn c_string(text: &(impl fmt::Display + ?Sized)) -> CString {
    CString::new(text.to_string().replace('\0', "\u{2400}")).unwrap_or_default()
}

/// A copy of a path, which has no NUL because it came from C.
pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(names::bytes(path.as_os_str())).unwrap_or_default()
}

/// The canonical name of a device. Lives as long as the process: devices are few, and none ever
/// gets another name. Only the first call for a device allocates.
pub(crate) fn device_text(device: DeviceId) -> &'static CStr {
    static KEPT: Mutex<BTreeMap<DeviceId, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock();
    let name = || &*Box::leak(c_string(&DeviceName::local(device)).into_boxed_c_str());
    kept.entry(device).or_insert_with(name)
}

/// [`device_text`], for C.
pub(crate) fn device_name(device: DeviceId) -> *const c_char {
    device_text(device).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_kept_once() {
        assert_eq!(device_name(DeviceId::cpu(0)), device_name(DeviceId::HOST));
        assert_ne!(device_name(DeviceId::cpu(0)), device_name(DeviceId::cpu(1)));
        // SAFETY: the name is ended by a NUL and stays.
        let name = unsafe { CStr::from_ptr(device_name(DeviceId::cpu(1))) };
        assert_eq!(
            name.to_str(),
            Ok(DeviceId::cpu(1).canonical_name().as_str())
        );
        assert_eq!(c_string("a\0b").as_c_str(), c"a\u{2400}b");
    }
}
