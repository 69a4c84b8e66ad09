//! Tests of the last failure of a thread.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::machinery::callback;
use umbo_core::error::{ReplicaFailure, ReplicaFailures};

unsafe extern "C-unwind" fn count_up(counter: *mut c_void) {
    // SAFETY: the tests pass a counter that outlives the error.
    unsafe { &*counter.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn fail(status: umbo_status, message: &CStr, counter: &AtomicUsize) -> umbo_status {
    let payload = ptr::from_ref(counter).cast_mut().cast();
    // SAFETY: a literal, and a counter that outlives the error.
    unsafe { umbo_set_last_error(status, message.as_ptr(), payload, Some(count_up)) }
}

#[test]
fn names_agree_with_the_core() {
    for status in Status::ALL {
        // SAFETY: the names are literals.
        let name = unsafe { CStr::from_ptr(umbo_status_name(status.code())) };
        assert_eq!(name.to_str().unwrap(), status.name());
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(umbo_status_name(-1)) };
    assert_eq!(name, c"UNKNOWN_STATUS");
}

#[test]
fn a_payload_travels_with_the_error_and_is_destroyed_once() {
    let destroyed = AtomicUsize::new(0);
    let error =
        callback::run(|| fail(UMBO_STATUS_DATA_LOSS, c"the tape is torn", &destroyed)).unwrap_err();
    assert_eq!(umbo_last_error_count(), 0);
    let failure = |replica, error| ReplicaFailure {
        replica,
        device: format!("CPU:{replica}"),
        error,
        stopped: replica == 1,
    };
    let status = set(
        "umbo_run",
        Error::Replicas(ReplicaFailures {
            summary: String::new(),
            overruling_status: None,
            failures: vec![
                failure(0, error),
                failure(1, Error::Cancelled("stopped".into())),
            ],
        }),
    );
    assert_eq!(
        (status, umbo_last_error_count()),
        (UMBO_STATUS_DATA_LOSS, 2)
    );
    assert_eq!(
        last_message(),
        "replica 0 (CPU:0): DATA_LOSS: the tape is torn\nreplica 1 (CPU:1): CANCELLED: stopped"
    );
    // SAFETY: all zero is a value of the struct.
    let mut info: umbo_error_info = unsafe { std::mem::zeroed() };
    info.struct_size = crate::struct_size::<umbo_error_info>();
    // SAFETY: the struct is as long as it says.
    unsafe {
        assert_eq!(umbo_last_error_at(0, &mut info), UMBO_OK);
        assert_eq!((info.status, info.replica), (UMBO_STATUS_DATA_LOSS, 0));
        assert_eq!(CStr::from_ptr(info.device), c"CPU:0");
        assert_eq!(CStr::from_ptr(info.message), c"the tape is torn");
        assert_eq!(info.payload.cast_const().cast(), &raw const destroyed);
        assert_eq!(umbo_last_error_at(2, &mut info), UMBO_STATUS_OUT_OF_RANGE);
        assert_eq!(umbo_last_error_at(-1, &mut info), UMBO_STATUS_OUT_OF_RANGE);
        assert_eq!(
            umbo_last_error_at(0, ptr::null_mut()),
            UMBO_STATUS_INVALID_ARGUMENT
        );
    }
    assert_eq!(umbo_last_error_count(), 2);
    assert_eq!(destroyed.load(Ordering::SeqCst), 0);
    umbo_clear_last_error();
    assert_eq!(destroyed.load(Ordering::SeqCst), 1);
    assert_eq!(last_message(), "");
}

#[test]
fn bad_arguments_release_the_payload_too() {
    let destroyed = AtomicUsize::new(0);
    assert_eq!(
        fail(UMBO_OK, c"fine", &destroyed),
        UMBO_STATUS_INVALID_ARGUMENT
    );
    assert_eq!(destroyed.load(Ordering::SeqCst), 1);
    assert_eq!(fail(99, c"odd", &destroyed), UMBO_STATUS_UNKNOWN);
    assert_eq!(last_message(), "status 99, which is none: odd");
    umbo_clear_last_error();
    assert_eq!(destroyed.load(Ordering::SeqCst), 2);
}

#[test]
fn a_failure_that_a_callback_passes_on_stays_whole() {
    let error = callback::run(|| set("umbo_reduce", out_of_range!("axis", "3 is too many")));
    let error = error.unwrap_err();
    assert!(matches!(error.unnamed(), Error::OutOfRange { .. }));
    // The function that the callback called is the one that failed, not the one around it.
    assert_eq!(set("umbo_run", error), UMBO_STATUS_OUT_OF_RANGE);
    assert_eq!(last_message(), "umbo_reduce: axis: 3 is too many");
    clear();
}

#[test]
fn a_payload_is_found_behind_a_name() {
    let destroyed = AtomicUsize::new(0);
    let failure = callback::run(|| fail(UMBO_STATUS_DATA_LOSS, c"the tape is torn", &destroyed));
    set("umbo_iterator_next", failure.unwrap_err());
    assert_eq!(last_message(), "umbo_iterator_next: the tape is torn");
    // SAFETY: all zero is a value of the struct.
    let mut info: umbo_error_info = unsafe { std::mem::zeroed() };
    info.struct_size = crate::struct_size::<umbo_error_info>();
    // SAFETY: the struct is as long as it says, and its message lives until the next failure.
    unsafe {
        assert_eq!(umbo_last_error_at(0, &mut info), UMBO_OK);
        assert_eq!(
            CStr::from_ptr(info.message),
            c"umbo_iterator_next: the tape is torn"
        );
    }
    assert_eq!(info.payload.cast_const().cast(), &raw const destroyed);
    umbo_clear_last_error();
    assert_eq!(destroyed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_message_that_names_a_function_already_gets_no_second_name() {
    let destroyed = AtomicUsize::new(0);
    for (said, shown) in [
        (
            c"umbo_device_parse: name: 'x' is none",
            "umbo_device_parse: name: 'x' is none",
        ),
        (
            c"umbo_ is not a name: really",
            "umbo_iterator_next: umbo_ is not a name: really",
        ),
        (
            c"name: 'x' is none",
            "umbo_iterator_next: name: 'x' is none",
        ),
    ] {
        let passed_on =
            callback::run(|| fail(UMBO_STATUS_NOT_FOUND, said, &destroyed)).unwrap_err();
        set("umbo_iterator_next", passed_on);
        assert_eq!(last_message(), shown);
    }
    clear();
    assert_eq!(destroyed.load(Ordering::SeqCst), 3);
}

#[test]
fn messages_of_earlier_failures_are_not_reused() {
    set("umbo_device_parse", Error::NotFound("stale".into()));
    let error = callback::run(|| UMBO_STATUS_NOT_FOUND).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the callback returned NOT_FOUND without a message"
    );
    let error = callback::run(|| {
        set("umbo_device_parse", Error::NotFound("handled".into()));
        UMBO_STATUS_ABORTED
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "the callback returned ABORTED without a message"
    );
    let error = callback::run(|| 77).unwrap_err();
    assert_eq!(error.status(), Status::Unknown);
    assert!(error.to_string().contains("77"), "{error}");
    assert!(callback::run(|| UMBO_OK).is_ok());
}

#[test]
fn payloads_of_ended_threads_are_released_by_later_calls() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    let leave = || {
        std::thread::spawn(|| fail(UMBO_STATUS_ABORTED, c"end", &DESTROYED))
            .join()
            .unwrap();
    };
    leave();
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 0);
    // The next payload of the same function.
    leave();
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 1);
    // Another function may be of another part of the program.
    unsafe extern "C-unwind" fn ignore(_: *mut c_void) {}
    // SAFETY: the function takes any pointer.
    unsafe {
        umbo_set_last_error(
            UMBO_STATUS_ABORTED,
            ptr::null(),
            ptr::null_mut(),
            Some(ignore),
        );
    }
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 1);
    forget_all();
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 2);
}
