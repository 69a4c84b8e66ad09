//! Messages that say what would be right, for mistakes that newcomers made.

use std::ptr;

use umbo::*;

use super::alone;

use super::calls::{last_message, made, refused};

fn strategy() -> *mut umbo_strategy {
    let options = umbo_strategy_options {
        cpu_replicas: 2,
        ..Default::default()
    };
    // SAFETY: the options are there, and the output is a variable.
    made(|out| unsafe { umbo_strategy_create(&options, out) })
}

fn zeros(dtype: umbo_dtype, shape: &[i64]) -> *mut umbo_tensor {
    let rank = shape.len() as i32;
    // SAFETY: the shape has so many sizes, and the output is a variable.
    made(|out| unsafe { umbo_tensor_create_zeros(dtype, rank, shape.as_ptr(), ptr::null(), out) })
}

/// A call that is to fail, with all that its message has to say.
#[track_caller]
fn advises(status: umbo_status, expected: umbo_status, words: &[&str]) {
    for words in words {
        refused(status, expected, &[words]);
    }
}

#[test]
fn sizes_beyond_memory_are_named() {
    let _alone = alone();
    let refusal = |shape: &[i64], words: &[&str]| {
        let mut tensor = ptr::null_mut();
        let rank = shape.len() as i32;
        let dtype = UMBO_DTYPE_INT8;
        let device = ptr::null();
        // SAFETY: the shape has so many sizes, and the output is a variable.
        let status =
            unsafe { umbo_tensor_create_zeros(dtype, rank, shape.as_ptr(), device, &mut tensor) };
        assert!(status != UMBO_OK && tensor.is_null());
        let message = last_message();
        assert!(
            words.iter().all(|words| message.contains(words)),
            "{message}"
        );
    };
    refusal(&[i64::MAX], &["memory"]);
    // More than the processor can address.
    refusal(
        &[1 << 52],
        &[
            "not enough memory: 4503599627370496 bytes on CPU:0",
            "are available",
        ],
    );
    let empty = "has no elements, but those of one of its other sizes lie further apart";
    refusal(
        &[1 << 62, 0, 1 << 62],
        &["shape: [4611686018427387904, 0, ", empty],
    );
}

#[test]
fn numbers_of_bytes_say_what_type_would_have_so_many() {
    let _alone = alone();
    let tensor = zeros(UMBO_DTYPE_FLOAT32, &[2]);
    let mut room = [0.0f64; 2];
    let mut copy = |bytes: usize, words: &[&str]| {
        // SAFETY: the room has 16 bytes, and nothing is written.
        let status = unsafe { umbo_tensor_download(tensor, room.as_mut_ptr().cast(), bytes) };
        advises(status, UMBO_STATUS_INVALID_ARGUMENT, words);
    };
    copy(
        16,
        &[
            "bytes: 16; shape [2] of float32 has 8",
            "16 would be as many elements of float64 or",
        ],
    );
    copy(
        4,
        &["4 would be as many elements of float16 or bfloat16 or int16 or uint16"],
    );
    copy(12, &["bytes: 12; shape [2] of float32 has 8"]);
    assert!(
        !last_message().contains("as many elements"),
        "{}",
        last_message()
    );
    // SAFETY: the handle is the test's.
    unsafe { umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR) };
}

/// What transformations take is the address of a handle. A handle in its place has an address's
/// type only by a cast, or in C with a warning.
#[test]
fn a_handle_in_the_place_of_its_address() {
    let _alone = alone();
    // Of some handles the number is a multiple of 8, as addresses are.
    for _ in 0..16 {
        // SAFETY: handles are live, the output is a variable, and no call gets so far as to write.
        unsafe {
            let numbers = zeros(UMBO_DTYPE_FLOAT32, &[4]);
            let value = made(|out| umbo_value_from_tensor(numbers, out));
            let dataset = made(|out| umbo_dataset_from_tensor_slices(value, out));
            advises(
                umbo_dataset_batch(dataset.cast(), 2, 0),
                UMBO_STATUS_INVALID_ARGUMENT,
                &[
                    "dataset: is a dataset handle itself",
                    "the address of the dataset's handle is expected",
                ],
            );
            let strategy = strategy();
            advises(
                umbo_strategy_fingerprint(strategy, strategy.cast()),
                UMBO_STATUS_INVALID_ARGUMENT,
                &[
                    "is a strategy handle itself",
                    "a place for the output is expected",
                ],
            );
            umbo_release(strategy.cast(), UMBO_HANDLE_STRATEGY);
            // The address in the place of a handle.
            let address: *const *mut umbo_dataset = &dataset;
            let mut iterator = ptr::null_mut();
            advises(
                umbo_iterator_from_dataset(address.cast(), &mut iterator),
                UMBO_STATUS_INVALID_ARGUMENT,
                &[
                    "dataset: 0x",
                    "is not a handle of this library",
                    "not its address",
                ],
            );
            advises(
                umbo_dataset_batch(ptr::null_mut(), 2, 0),
                UMBO_STATUS_INVALID_ARGUMENT,
                &["dataset: is NULL; the address of the dataset's handle is expected"],
            );
            umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
            umbo_release(value.cast(), UMBO_HANDLE_VALUE);
            umbo_release(numbers.cast(), UMBO_HANDLE_TENSOR);
        }
    }
}

#[test]
fn a_table_that_is_viewed_like_a_dense_variable() {
    let _alone = alone();
    unsafe extern "C-unwind" fn step(
        context: *mut umbo_replica_context,
        _: *const umbo_value,
        gradients: *mut std::ffi::c_void,
        _: *mut *mut umbo_value,
    ) -> umbo_status {
        // SAFETY: all bytes zero is a view, and the handles are those of the test.
        unsafe {
            let mut view: umbo_view = std::mem::zeroed();
            umbo_gradients_view(gradients.cast(), context, 0, UMBO_GRADIENT_ADD, &mut view)
        }
    }
    let s = strategy();
    let table = zeros(UMBO_DTYPE_FLOAT32, &[4, 2]);
    // SAFETY: handles are live, structs may be zero, and outputs are variables.
    unsafe {
        let variable =
            made(|out| umbo_variable_create(s, c"table".as_ptr(), table, ptr::null(), out));
        let options = umbo_gradients_options {
            row_sparse: &1,
            ..Default::default()
        };
        let gradients =
            made(|out| umbo_gradients_create(s, 1, &variable, UMBO_LOSS_SUM, &options, out));
        let mut result = ptr::null_mut();
        let status = umbo_strategy_run(
            s,
            Some(step),
            ptr::null(),
            gradients.cast(),
            ptr::null(),
            &mut result,
        );
        advises(
            status,
            UMBO_STATUS_FAILED_PRECONDITION,
            &["umbo_gradients_view", "add_rows"],
        );
        umbo_release(gradients.cast(), UMBO_HANDLE_GRADIENTS);
        umbo_release(variable.cast(), UMBO_HANDLE_VARIABLE);
        umbo_release(table.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
}
