//! A process that leaves tens of thousands of handles is told, once, and one that releases them is
//! not.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;

use umbo::*;

use crate::calls::{made, ok};

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C-unwind" fn listen(_: umbo_log_level, text: *const c_char, _: *mut c_void) {
    // SAFETY: the library gives a text.
    let text = unsafe { CStr::from_ptr(text) };
    SAID.lock()
        .unwrap()
        .push(text.to_string_lossy().into_owned());
}

fn another(tensor: *mut umbo_tensor) -> *mut c_void {
    // SAFETY: the handle is this test's.
    made(|out: *mut *mut c_void| unsafe {
        umbo_retain(tensor.cast(), UMBO_HANDLE_TENSOR, out.cast())
    })
}

#[test]
fn many_handles_are_warned_of_once() {
    let true = crate::is_alone(many_handles_are_warned_of_once) else {
        return;
    };
    let data = ptr::null_mut();
    let callback = Some(listen as _);
    // SAFETY: the function is of this type, and needs no data.
    ok(unsafe { umbo_set_log_callback(UMBO_LOG_WARNING, callback, data, None) });
    // SAFETY: a scalar has no shape.
    let tensor = made(|out| unsafe {
        umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, ptr::null(), ptr::null(), out)
    });
    let release = |handle: *mut c_void| {
        // SAFETY: each handle is released once.
        unsafe { umbo_release(handle, UMBO_HANDLE_TENSOR) }
    };
    (0..70_000).for_each(|_| release(another(tensor)));
    assert_eq!(*SAID.lock().unwrap(), Vec::<String>::new());
    let left: Vec<_> = (0..70_000).map(|_| another(tensor)).collect();
    let said = SAID.lock().unwrap().split_off(0);
    assert_eq!(said.len(), 1, "{said:?}");
    let words = [
        "handles are in use, of which 65",
        " are tensors and 0 are values",
    ];
    assert!(
        words.iter().all(|words| said[0].contains(words)),
        "{said:?}"
    );
    left.into_iter().for_each(release);
    let left: Vec<_> = (0..70_000).map(|_| another(tensor)).collect();
    left.into_iter().for_each(release);
    release(tensor.cast());
    assert_eq!(SAID.lock().unwrap().len(), 0);
}
