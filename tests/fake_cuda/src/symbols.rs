//! Functions of this library by name.

use std::ffi::{CString, c_void};

/// The function as the newest interface has it: its versions carry `_v2` and `_v3`.
pub fn find(name: &str) -> Option<*mut c_void> {
    let mut here = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `find` is an address of this library and `here` a place for what is known of it.
    let known = unsafe { libc::dladdr(find as *const c_void, &mut here) };
    if known == 0 || here.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is that of this library, which is loaded: nothing is started by it.
    let library = unsafe { libc::dlopen(here.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    let found = ["_v3", "_v2", ""].iter().find_map(|version| {
        let name = CString::new(format!("{name}{version}")).ok()?;
        // SAFETY: the library is open and the name ends with a zero.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    });
    // SAFETY: it pairs with the `dlopen` above.
    unsafe { libc::dlclose(library) };
    found
}
