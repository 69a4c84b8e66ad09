//! An iterator that is released while another thread waits for its element.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use umbo::ffi::*;

use super::PATIENCE;
use super::case::draw;
use super::pipelines::NUMBERS;
use crate::calls::{made, refused};

/// A generator whose first element is made while the iterator is released elsewhere.
struct Meeting {
    arrived: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
    ended: AtomicBool,
}

unsafe extern "C-unwind" fn next_after_meeting(
    _pass: *mut c_void,
    user_data: *mut c_void,
    element: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the user data lead to the meeting; the library gives a place for the element.
    unsafe {
        let meeting = &*user_data.cast::<Meeting>();
        meeting.arrived.lock().unwrap().send(()).unwrap();
        meeting.go_on.lock().unwrap().recv().unwrap();
        let (shape, data) = ([2i64], NUMBERS.as_ptr().cast());
        let tensor = made(|out| {
            umbo_tensor_from_data(UMBO_DTYPE_INT64, 1, shape.as_ptr(), data, ptr::null(), out)
        });
        *element = made(|out| umbo_value_from_tensor(tensor, out));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn end_after_meeting(_pass: *mut c_void, user_data: *mut c_void) {
    // SAFETY: the user data lead to the meeting.
    unsafe { &*user_data.cast::<Meeting>() }.ended.store(true, Ordering::SeqCst);
}

#[test]
fn an_iterator_may_be_released_while_another_thread_waits_for_its_element() {
    let (arrived, arrival) = channel();
    let (go, go_on) = channel();
    let meeting = Arc::new(Meeting {
        arrived: Mutex::new(arrived),
        go_on: Mutex::new(go_on),
        ended: AtomicBool::new(false),
    });
    let generator = umbo_generator {
        struct_size: size_of::<umbo_generator>(),
        begin: None,
        next: Some(next_after_meeting),
        reset: None,
        end: Some(end_after_meeting),
    };
    let user_data = Arc::as_ptr(&meeting).cast_mut().cast();
    // SAFETY: handles are ours, the meeting outlives the dataset, outputs are variables.
    unsafe {
        let spec =
            made(|out| umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 1, [2i64].as_ptr(), out));
        let dataset =
            made(|out| umbo_dataset_from_generator(spec, &generator, user_data, None, out));
        umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
        let iterator = made(|out| umbo_iterator_from_dataset(dataset, out));
        umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        let shared = AtomicPtr::new(iterator);
        let thread = std::thread::spawn(move || draw(shared.into_inner()));
        arrival.recv_timeout(PATIENCE).unwrap();
        umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
        let mut element = ptr::null_mut();
        let status = umbo_iterator_next(iterator, &raw mut element);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "the handle was released");
        assert!(!meeting.ended.load(Ordering::SeqCst));
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), (UMBO_OK, true));
        assert!(meeting.ended.load(Ordering::SeqCst));
    }
}
