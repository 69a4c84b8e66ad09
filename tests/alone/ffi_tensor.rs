//! Library, device and tensor functions as a C program calls them.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::ffi::*;

fn message() -> String {
    // SAFETY: the message is a text that no call replaces meanwhile.
    unsafe { CStr::from_ptr(umbo_last_error_message()) }.to_str().unwrap().to_owned()
}

fn tensor_of(data: &[f32], shape: &[i64]) -> *mut umbo_tensor {
    let mut tensor = ptr::null_mut();
    let (rank, device) = (shape.len() as i32, c"CPU:0".as_ptr());
    // SAFETY: the arrays have as many elements as rank and shape say.
    let status = unsafe {
        let data = data.as_ptr().cast();
        umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, rank, shape.as_ptr(), data, device, &mut tensor)
    };
    assert_eq!(status, UMBO_OK, "{}", message());
    tensor
}

#[test]
fn bad_arguments_are_named() {
    let true = crate::is_alone(bad_arguments_are_named) else { return };
    let mut tensor = ptr::null_mut();
    // SAFETY: what the calls may read is there.
    unsafe {
        let mut zeros = |dtype, rank, shape: *const i64, device: *const c_char| {
            let status = umbo_tensor_create_zeros(dtype, rank, shape, device, &mut tensor);
            assert_ne!(status, UMBO_OK);
            message()
        };
        let shape = [2i64, -3].as_ptr();
        assert_eq!(
            zeros(UMBO_DTYPE_FLOAT32, 2, shape, ptr::null()),
            "umbo_tensor_create_zeros: shape: dimension 1 is -3; sizes are 0 or more"
        );
        assert_eq!(
            zeros(14, 1, shape, ptr::null()),
            "umbo_tensor_create_zeros: dtype: 14; valid are UMBO_DTYPE_FLOAT16 (1) to UMBO_DTYPE_BOOL (13)"
        );
        assert_eq!(
            zeros(UMBO_DTYPE_INT8, 9, shape, ptr::null()),
            "umbo_tensor_create_zeros: ndim: 9; valid are 0 to 8"
        );
        assert_eq!(
            zeros(UMBO_DTYPE_INT8, 1, ptr::null(), ptr::null()),
            "umbo_tensor_create_zeros: shape: is NULL; an array is expected"
        );
        assert!(
            zeros(UMBO_DTYPE_INT8, 1, shape, c"CPU:4000".as_ptr())
                .starts_with("umbo_tensor_create_zeros: device: ")
        );
        assert!(zeros(UMBO_DTYPE_INT8, 1, &i64::MAX, ptr::null()).contains("memory"));
        // More than the processor can address.
        let much = zeros(UMBO_DTYPE_INT8, 1, &(1 << 52), ptr::null());
        let words =
            "umbo_tensor_create_zeros: there is not enough memory: 4503599627370496 bytes on CPU:0";
        assert!(much.starts_with(words), "{much}");
        assert!(much.ends_with(" are available"), "{much}");
        let empty = [1i64 << 62, 0, 1 << 62].as_ptr();
        assert_eq!(
            zeros(UMBO_DTYPE_INT8, 3, empty, ptr::null()),
            "umbo_tensor_create_zeros: shape: [4611686018427387904, 0, 4611686018427387904] has no \
             elements, but those of one of its other sizes lie further apart than memory can address"
        );
        assert!(tensor.is_null());

        let tensor = tensor_of(&[1.], &[]);
        let mut eight_bytes = 0u64;
        assert_eq!(
            umbo_tensor_copy_to_host(tensor, ptr::null_mut(), 4),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            umbo_tensor_copy_to_host(tensor, (&raw mut eight_bytes).cast(), 8),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        let wrong = "umbo_tensor_copy_to_host: bytes: 8; shape [] of float32 has 4; 8 would be as many \
                     elements of float64 or int64 or uint64";
        assert_eq!(message(), wrong);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(ptr::null(), UMBO_HANDLE_TENSOR);
        let mut another: *mut umbo_tensor = ptr::null_mut();
        assert_eq!(
            umbo_retain(tensor.cast(), UMBO_HANDLE_TENSOR, (&raw mut another).cast()),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert!(message().starts_with("umbo_retain: tensor: the handle was released"));
    }
}

#[test]
fn devices_are_counted_and_split() {
    let true = crate::is_alone(devices_are_counted_and_split) else { return };
    // SAFETY: the outputs are variables.
    unsafe {
        assert_eq!(
            umbo_set_logical_device_count(3, 0, 1, ptr::null()),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            message(),
            "umbo_set_logical_device_count: type: 3; valid are UMBO_DEVICE_CPU (1) and UMBO_DEVICE_GPU (2)"
        );
        assert_eq!(umbo_set_logical_device_count(UMBO_DEVICE_CPU, 0, 3, ptr::null()), UMBO_OK);
        let mut info = umbo_device_info::default();
        assert_eq!(umbo_device_get_info(c"cpu:2".as_ptr(), &mut info), UMBO_OK, "{}", message());
        assert_eq!((info.physical_count, info.logical_count), (1, 3));
        assert!(!info.name.is_null() && info.total_bytes >= info.available_bytes);
        assert!(info.available_bytes > 0);
        assert_eq!(umbo_device_get_info(c"cpu:3".as_ptr(), &mut info), UMBO_OK, "{}", message());
        assert!(info.name.is_null() && info.device.ordinal == 3 && info.logical_count == 3);
        assert_eq!((info.total_bytes, info.available_bytes), (0, 0));
        assert_eq!(
            umbo_set_logical_device_count(UMBO_DEVICE_CPU, 0, 0, ptr::null()),
            UMBO_STATUS_INVALID_ARGUMENT
        );
        assert_eq!(
            umbo_set_logical_device_count(UMBO_DEVICE_CPU, 1, 1, ptr::null()),
            UMBO_STATUS_NOT_FOUND
        );
    }
}

struct Log {
    lines: Mutex<Vec<String>>,
    destroyed: AtomicUsize,
}

unsafe extern "C-unwind" fn keep_line(
    level: umbo_log_level,
    text: *const c_char,
    user_data: *mut c_void,
) {
    // SAFETY: the test passes a `Log`, and the library a text.
    let (log, text) = unsafe { (&*user_data.cast::<Log>(), CStr::from_ptr(text)) };
    log.lines.lock().unwrap().push(format!("{level} {}", text.to_str().unwrap()));
}

unsafe extern "C-unwind" fn log_is_unused(user_data: *mut c_void) {
    // SAFETY: the test passes a `Log`.
    unsafe { &*user_data.cast::<Log>() }.destroyed.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_bad_release_is_logged() {
    let true = crate::is_alone(a_bad_release_is_logged) else { return };
    let log = Log { lines: Mutex::new(Vec::new()), destroyed: AtomicUsize::new(0) };
    let user_data = ptr::from_ref(&log).cast_mut().cast::<c_void>();
    // SAFETY: the log lives until its callback was replaced and destroyed.
    unsafe {
        let set = |level, callback| {
            umbo_set_log_callback(level, callback, user_data, Some(log_is_unused))
        };
        assert_eq!(set(9, Some(keep_line)), UMBO_STATUS_INVALID_ARGUMENT);
        assert_eq!(log.destroyed.load(Ordering::SeqCst), 1);
        assert_eq!(set(UMBO_LOG_ERROR, Some(keep_line)), UMBO_OK);
        umbo_release(ptr::without_provenance(0xdead_0000_0000_0001), UMBO_HANDLE_TENSOR);
        assert_eq!(set(UMBO_LOG_ERROR, None), UMBO_OK);
        assert_eq!(log.destroyed.load(Ordering::SeqCst), 3);
    }
    let wanted = "1 umbo_release: tensor: 0xdead000000000001 is not a handle of this library, nor should \
         it be the address of one";
    assert!(log.lines.lock().unwrap().iter().any(|line| line == wanted));
}
