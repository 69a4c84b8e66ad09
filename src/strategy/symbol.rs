//! Names of functions, for messages.

#![expect(unsafe_code, reason = "the dynamic linker is asked")]

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::Path;

/// The name of the function at `address`: its symbol; if there is none, its offset in its file, for tools such as
/// addr2line; if that is unknown, the address.
pub(super) fn of_function(address: usize) -> String {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address is allowed, and the output is valid memory.
    let known = unsafe { libc::dladdr(address as *const _, found.as_mut_ptr()) } != 0;
    // SAFETY: zero is valid for its fields, which are pointers.
    let found = unsafe { found.assume_init() };
    let text = |text: *const libc::c_char| {
        let there = known && !text.is_null();
        // SAFETY: the texts live as long as their shared object, which stays loaded: one of its functions is about
        // to be called.
        there.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    if let Some(symbol) = text(found.dli_sname).filter(|_| found.dli_saddr as usize == address) {
        return symbol;
    }
    match text(found.dli_fname) {
        Some(file) => {
            let offset = address.wrapping_sub(found.dli_fbase as usize);
            let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy();
            format!("the function at {name}+{offset:#x}")
        }
        None => format!("the function at {address:#x}"),
    }
}
