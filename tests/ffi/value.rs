//! Value functions as a C program calls them.

use std::ffi::{CStr, c_char};
use std::ptr;

use umbo::ffi::*;

use super::alone;

fn message() -> String {
    // SAFETY: the message is a text that no call replaces meanwhile.
    unsafe { CStr::from_ptr(umbo_last_error_message()) }.to_str().unwrap().to_owned()
}

fn live(kind: umbo_handle_type) -> i64 {
    let mut count = -1;
    // SAFETY: the output is a variable.
    assert_eq!(unsafe { umbo_live_handles(kind, &mut count) }, UMBO_OK, "{}", message());
    count
}

/// A value that is a tensor of `rows` times 2 zeros.
fn leaf(rows: i64) -> *mut umbo_value {
    let (mut tensor, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the shape has two sizes, the outputs are variables.
    unsafe {
        let shape = [rows, 2];
        assert_eq!(
            umbo_tensor_create_zeros(
                UMBO_DTYPE_FLOAT32,
                2,
                shape.as_ptr(),
                ptr::null(),
                &mut tensor
            ),
            UMBO_OK
        );
        assert_eq!(umbo_value_from_tensor(tensor, &mut value), UMBO_OK);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    value
}

fn release(values: &[*mut umbo_value]) {
    for &value in values {
        // SAFETY: any pointer may be released.
        unsafe { umbo_release(value.cast(), UMBO_HANDLE_VALUE) };
    }
}

fn rows(value: *const umbo_value, name: *const c_char) -> Result<i64, (umbo_status, String)> {
    // SAFETY: all zero is a value of the struct; the view is a variable.
    let mut view: umbo_view = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is NULL or a text.
    match unsafe { umbo_value_view(value, name, UMBO_DTYPE_NONE, &mut view) } {
        UMBO_OK => Ok(view.shape[0]),
        status => Err((status, message())),
    }
}

#[test]
fn nests_are_built_viewed_and_taken_apart() {
    let _alone = alone();
    let (x, y) = (leaf(3), leaf(5));
    let (mut tuple, mut nest) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the arrays have as many elements as stated, the outputs are variables.
    unsafe {
        assert_eq!(umbo_value_create_tuple(2, [x.cast_const(), y].as_ptr(), &mut tuple), UMBO_OK);
        let names = [c"x".as_ptr(), c"pair".as_ptr()];
        let items = [x.cast_const(), tuple];
        assert_eq!(umbo_value_create_struct(2, names.as_ptr(), items.as_ptr(), &mut nest), UMBO_OK);
        assert_eq!(rows(nest, c"x".as_ptr()), Ok(3));
        assert_eq!(rows(nest, c"pair.1".as_ptr()), Ok(5));
        assert_eq!(rows(y, ptr::null()), Ok(5));
        assert_eq!(
            rows(nest, c"z".as_ptr()),
            Err((
                UMBO_STATUS_NOT_FOUND,
                "umbo_value_view: name: there is no field 'z'; the struct has 'x', 'pair'"
                    .to_owned()
            ))
        );
        assert_eq!(rows(nest, ptr::null()).unwrap_err().0, UMBO_STATUS_INVALID_ARGUMENT);

        let mut info = umbo_value_info::default();
        for (value, wanted) in [
            (x, (UMBO_VALUE_TENSOR, 1)),
            (tuple, (UMBO_VALUE_TUPLE, 2)),
            (nest, (UMBO_VALUE_STRUCT, 2)),
        ] {
            assert_eq!(umbo_value_get_info(value, &mut info), UMBO_OK);
            assert_eq!((info.kind, info.item_count), wanted);
        }
        let mut name = ptr::null();
        assert_eq!(umbo_value_field_name(nest, 1, &mut name), UMBO_OK);
        assert_eq!(CStr::from_ptr(name), c"pair");
        assert_eq!(umbo_value_field_name(nest, 2, &mut name), UMBO_STATUS_OUT_OF_RANGE);
        assert_eq!(umbo_value_field_name(tuple, 0, &mut name), UMBO_STATUS_INVALID_ARGUMENT);

        let (mut item, mut field) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(umbo_value_item(tuple, 1, &mut item), UMBO_OK);
        assert_eq!(umbo_value_field(nest, c"pair".as_ptr(), &mut field), UMBO_OK);
        assert_eq!(rows(item, ptr::null()), Ok(5));
        assert_eq!(rows(field, c"0".as_ptr()), Ok(3));
        let mut none = ptr::null_mut();
        assert_eq!(umbo_value_item(tuple, 2, &mut none), UMBO_STATUS_OUT_OF_RANGE);
        assert_eq!(umbo_value_item(tuple, -1, &mut none), UMBO_STATUS_OUT_OF_RANGE);
        let twice = [c"a".as_ptr(), c"a".as_ptr()];
        assert_eq!(
            umbo_value_create_struct(2, twice.as_ptr(), items.as_ptr(), &mut none),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            message(),
            "umbo_value_create_struct: names: 'a' appears twice; give each field a name of its own"
        );
        assert!(none.is_null());
        release(&[x, y, tuple, nest, item, field]);
    }
    assert_eq!(live(UMBO_HANDLE_ANY), 0);
}

#[test]
fn a_leaf_gives_back_its_very_tensor() {
    let _alone = alone();
    let value = leaf(2);
    let (mut first, mut second) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the outputs are variables.
    unsafe {
        assert_eq!(umbo_value_tensor(value, &mut first), UMBO_OK);
        assert_eq!(umbo_value_tensor(value, &mut second), UMBO_OK);
        let mut views: [umbo_view; 2] = std::mem::zeroed();
        assert_eq!(umbo_tensor_view(first, &mut views[0]), UMBO_OK);
        assert_eq!(umbo_tensor_view(second, &mut views[1]), UMBO_OK);
        assert_eq!(views[0].data, views[1].data);
        assert_eq!((live(UMBO_HANDLE_TENSOR), live(UMBO_HANDLE_VALUE)), (2, 1));
        let mut variable = ptr::null_mut();
        assert_eq!(umbo_value_variable(value, &mut variable), UMBO_STATUS_INVALID_ARGUMENT);
        assert_eq!(message(), "umbo_value_variable: value: is a tensor, not a variable");
        umbo_release(first.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(second.cast(), UMBO_HANDLE_TENSOR);
    }
    release(&[value]);
    assert_eq!(live(UMBO_HANDLE_ANY), 0);
}

#[test]
fn per_replica_values_know_their_examples() {
    let _alone = alone();
    let (first, second) = (leaf(3), leaf(0));
    let (mut both, mut wrong) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the arrays have as many elements as stated, the outputs are variables.
    unsafe {
        let components = [first.cast_const(), second];
        assert_eq!(umbo_value_create_per_replica(2, components.as_ptr(), &mut both), UMBO_OK);
        let examples = |value, replica| {
            let mut count = -7;
            let status = umbo_value_example_count(value, replica, &mut count);
            (status, count)
        };
        assert_eq!(examples(both, 0), (UMBO_OK, 3));
        assert_eq!(examples(both, 1), (UMBO_OK, 0));
        assert_eq!(examples(both, -1), (UMBO_OK, 3));
        assert_eq!(examples(both, 2), (UMBO_STATUS_OUT_OF_RANGE, -7));
        assert_eq!(examples(both, -2), (UMBO_STATUS_OUT_OF_RANGE, -7));
        assert_eq!(examples(first, -1), (UMBO_STATUS_INVALID_ARGUMENT, -7));
        assert!(rows(both, ptr::null()).unwrap_err().1.contains("per-replica"));

        let nested = [both.cast_const()];
        assert_eq!(
            umbo_value_create_per_replica(1, nested.as_ptr(), &mut wrong),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            umbo_value_create_per_replica(0, ptr::null(), &mut wrong),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            umbo_value_create_tuple(-1, ptr::null(), &mut wrong),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            umbo_value_create_tuple(1, ptr::null(), &mut wrong),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(message(), "umbo_value_create_tuple: items: is NULL; an array is expected");
        assert!(wrong.is_null());
        assert_eq!(umbo_value_create_tuple(0, ptr::null(), &mut wrong), UMBO_OK);
        release(&[first, second, both, wrong]);
    }
    assert_eq!(live(UMBO_HANDLE_ANY), 0);
}

#[test]
fn a_retained_value_outlives_its_original() {
    let _alone = alone();
    let value = leaf(4);
    let mut clone: *mut umbo_value = ptr::null_mut();
    // SAFETY: the output is a variable.
    unsafe {
        assert_eq!(umbo_retain(value.cast(), UMBO_HANDLE_VALUE, (&raw mut clone).cast()), UMBO_OK);
    }
    assert_eq!(live(UMBO_HANDLE_VALUE), 2);
    release(&[value]);
    let refused = rows(value, ptr::null()).unwrap_err().1;
    assert!(refused.starts_with("umbo_value_view: value: the handle was released"), "{refused}");
    assert_eq!(rows(clone, ptr::null()), Ok(4));
    release(&[clone]);
    assert_eq!(live(UMBO_HANDLE_ANY), 0);
}

#[test]
fn unknown_handle_types_are_refused() {
    let _alone = alone();
    let mut count = 0;
    // SAFETY: the output is a variable.
    unsafe {
        assert_eq!(umbo_live_handles(99, &mut count), UMBO_STATUS_INVALID_ARGUMENT);
        assert_eq!(umbo_live_handles(-1, &mut count), UMBO_STATUS_INVALID_ARGUMENT);
        assert_eq!(
            umbo_live_handles(UMBO_HANDLE_ANY, ptr::null_mut()),
            UMBO_STATUS_INVALID_ARGUMENT
        );
    }
    assert_eq!(message(), "umbo_live_handles: count: is NULL; a place for the output is expected");
}

fn tuple_of(items: &[*const umbo_value]) -> Result<*mut umbo_value, (umbo_status, String)> {
    let mut value = ptr::null_mut();
    // SAFETY: the array holds as many handles, the output is a variable.
    match unsafe { umbo_value_create_tuple(items.len() as i64, items.as_ptr(), &mut value) } {
        UMBO_OK => Ok(value),
        status => Err((status, message())),
    }
}

#[test]
fn nests_are_refused_when_they_would_be_too_deep() {
    let _alone = alone();
    let mut value = leaf(1);
    for depth in 1..=UMBO_MAX_NEST_DEPTH {
        let outer = tuple_of(&[value]).unwrap_or_else(|error| panic!("depth {depth}: {error:?}"));
        release(&[value]);
        value = outer;
    }
    let deeper = tuple_of(&[value]).unwrap_err();
    assert_eq!(deeper.0, UMBO_STATUS_INVALID_ARGUMENT);
    assert!(deeper.1.contains("65 deep") && deeper.1.contains("64 nests"), "{}", deeper.1);

    // The text has one line for each nest, and those of the tensor.
    let mut length = 0;
    // SAFETY: no room for the text is given, and its length is a variable.
    unsafe { umbo_value_text(value, ptr::null_mut(), 0, &mut length) };
    assert!((64 * 65 * 2..64 * 65 * 2 + 2000).contains(&length), "{length}");

    let mut dataset = ptr::null_mut();
    // SAFETY: the value is live, the outputs are variables.
    let zipped = unsafe {
        assert_eq!(umbo_dataset_from_tensors(value, &mut dataset), UMBO_OK, "{}", message());
        let mut zipped = ptr::null_mut();
        umbo_dataset_zip(1, ptr::null(), &dataset.cast_const(), &mut zipped)
    };
    assert_eq!(zipped, UMBO_STATUS_INVALID_ARGUMENT);
    assert!(message().contains("65 deep"), "{}", message());
    // SAFETY: the handle is this function's own.
    unsafe { umbo_release(dataset.cast(), UMBO_HANDLE_DATASET) };
    release(&[value]);
}

#[test]
fn nests_are_refused_when_they_would_name_one_value_too_often() {
    let _alone = alone();
    let mut value = leaf(1);
    let refused = (0..40).find_map(|_| match tuple_of(&[value, value]) {
        Ok(outer) => {
            release(&[value]);
            value = outer;
            None
        }
        Err(error) => Some(error),
    });
    let (status, message) = refused.expect("2^40 values were accepted");
    assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
    assert!(message.contains("2097151 values") && message.contains("1048576"), "{message}");
    release(&[value]);
}

#[test]
fn element_specs_are_refused_when_they_would_be_too_deep() {
    let _alone = alone();
    let mut spec = ptr::null_mut();
    let mut status = UMBO_OK;
    // SAFETY: the shape has no sizes, the outputs are variables, and each spec is released once.
    unsafe {
        assert_eq!(
            umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 0, ptr::null(), &mut spec),
            UMBO_OK
        );
        for depth in 1..=UMBO_MAX_NEST_DEPTH + 1 {
            let mut outer = ptr::null_mut();
            status = umbo_element_spec_create_tuple(1, &spec.cast_const(), &mut outer);
            assert_eq!(status == UMBO_OK, depth <= UMBO_MAX_NEST_DEPTH, "{}", message());
            if status == UMBO_OK {
                umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
                spec = outer;
            }
        }
        umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
    }
    assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
    assert!(message().contains("65 deep"), "{}", message());
}
