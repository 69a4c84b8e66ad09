//! Names live as long as what they are names of: making and releasing objects with ever new names
//! leaves nothing behind, and asking for a name allocates nothing.

use std::ffi::{CStr, CString};
use std::ptr;

use umbo::*;

use crate::calls::made;

/// Makes a variable and a struct with a name of their own, reads the name back and lets go.
fn once(number: usize, tensor: *mut umbo_tensor, field: *mut umbo_value) {
    let name = CString::new(format!("layer_{number}/weights/of/a/model/with/long/names")).unwrap();
    let mut names = [ptr::null(); 2];
    // SAFETY: all pointers lead to locals, and handles are used before they are released.
    unsafe {
        let strategy = ptr::null_mut();
        let options = ptr::null();
        let variable =
            made(|out| umbo_variable_create(strategy, name.as_ptr(), tensor, options, out));
        let fields = [name.as_ptr()];
        let items = [field];
        let nest = made(|out| umbo_value_create_struct(1, fields.as_ptr(), items.as_ptr(), out));
        let mut info = umbo_variable_info::default();
        // The first call makes the device's name, which is kept.
        assert_eq!(umbo_variable_get_info(variable, &mut info), 0);
        let before = crate::allocator::of_this_thread();
        assert_eq!(umbo_variable_get_info(variable, &mut info), 0);
        names[0] = info.name;
        assert_eq!(umbo_value_field_name(nest, 0, &mut names[1]), 0);
        assert_eq!(
            crate::allocator::of_this_thread(),
            before,
            "asking for a name allocates"
        );
        for known in names {
            assert_eq!(CStr::from_ptr(known), name.as_c_str());
        }
        umbo_release(nest.cast(), UMBO_HANDLE_VALUE);
        umbo_release(variable.cast(), UMBO_HANDLE_VARIABLE);
    }
}

/// What the process's allocator has given out and not got back.
fn in_use() -> usize {
    // SAFETY: it only reads the allocator's counts.
    let counts = unsafe { libc::mallinfo2() };
    counts.uordblks + counts.hblkhd
}

#[test]
fn names_go_with_what_they_name() {
    let true = crate::is_alone(names_go_with_what_they_name) else {
        return;
    };
    let shape = [1i64];
    let dtype = UMBO_DTYPE_FLOAT32;
    let device = ptr::null();
    // SAFETY: all pointers lead to locals or are NULL.
    let tensor =
        made(|out| unsafe { umbo_tensor_create_zeros(dtype, 1, shape.as_ptr(), device, out) });
    // SAFETY: as above.
    let field = made(|out| unsafe { umbo_value_from_tensor(tensor, out) });
    // What is made once, and what is kept for the next variable.
    (0..1_000).for_each(|number| once(number, tensor, field));
    let before = in_use();
    (1_000..101_000).for_each(|number| once(number, tensor, field));
    let grown = in_use().saturating_sub(before);
    assert!(
        grown < 64 << 10,
        "{grown} bytes are left of 100000 variables and structs"
    );
    // SAFETY: the handles are this test's.
    unsafe {
        umbo_release(field.cast(), UMBO_HANDLE_VALUE);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
}
