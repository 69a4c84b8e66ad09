//! One combination: where the caller's code runs, what it does there, and what came of it.

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use umbo::ffi::*;

use super::pipelines::nothing;
use crate::calls::last_message;

/// Where the caller's code runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Begin,
    Next,
    Reset,
    End,
    Map,
    ParallelMap,
    /// The release of an element's memory.
    ElementDestroy,
    /// The release of the generator's user data.
    SourceDestroy,
    /// A function that makes a dataset.
    DatasetFunction,
}

/// What it does there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Next,
    Reset,
    SavePosition,
    RestorePosition,
    Release,
    ElementSpec,
    AnotherIterator,
    RunStep,
}

pub const PLACES: [Place; 9] = [
    Place::Begin,
    Place::Next,
    Place::Reset,
    Place::End,
    Place::Map,
    Place::ParallelMap,
    Place::ElementDestroy,
    Place::SourceDestroy,
    Place::DatasetFunction,
];

pub const ACTIONS: [Action; 8] = [
    Action::Next,
    Action::Reset,
    Action::SavePosition,
    Action::RestorePosition,
    Action::Release,
    Action::ElementSpec,
    Action::AnotherIterator,
    Action::RunStep,
];

/// One combination: what the callbacks are given.
pub struct Case {
    pub place: Place,
    pub action: Action,
    /// Whether the action is still to be taken. It is taken once.
    pub armed: AtomicBool,
    pub strategy: AtomicPtr<umbo_strategy>,
    pub dataset: AtomicPtr<umbo_dataset>,
    pub distributed: AtomicPtr<umbo_distributed_dataset>,
    pub iterator: AtomicPtr<umbo_iterator>,
    /// A place in the middle of a pass.
    pub position: Mutex<CString>,
    /// Whether the program begins with going there.
    pub restores: bool,
    /// What came of the action.
    pub outcome: Mutex<Option<(umbo_status, String)>>,
}

impl Case {
    pub fn user_data(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    pub fn at(&self, place: Place) {
        if place == self.place && self.armed.swap(false, Ordering::SeqCst) {
            umbo_clear_last_error();
            let status = self.act();
            *self.outcome.lock().unwrap() = Some((status, last_message()));
            umbo_clear_last_error();
        }
    }

    fn act(&self) -> umbo_status {
        let iterator = self.iterator.load(Ordering::SeqCst);
        // SAFETY: handles may be stale, which the library notices; outputs are variables.
        unsafe {
            match self.action {
                Action::Next => draw(iterator).0,
                Action::Reset => umbo_iterator_reset(iterator),
                Action::SavePosition => save(iterator).0,
                Action::RestorePosition => self.restore(),
                Action::Release => {
                    umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
                    UMBO_OK
                }
                Action::ElementSpec => {
                    let mut spec = ptr::null_mut();
                    let status = umbo_iterator_element_spec(iterator, &raw mut spec);
                    umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
                    status
                }
                Action::AnotherIterator => {
                    let (status, another) = self.start();
                    if status != UMBO_OK {
                        return status;
                    }
                    let status = draw(another).0;
                    umbo_release(another.cast(), UMBO_HANDLE_ITERATOR);
                    status
                }
                Action::RunStep => umbo_strategy_run(
                    self.strategy.load(Ordering::SeqCst),
                    Some(nothing),
                    ptr::null_mut(),
                    ptr::null(),
                    ptr::null(),
                    ptr::null_mut(),
                ),
            }
        }
    }

    /// Takes the iterator to the middle of the pass.
    pub fn restore(&self) -> umbo_status {
        let iterator = self.iterator.load(Ordering::SeqCst);
        let position = self.position.lock().unwrap().clone();
        // SAFETY: the handle may be stale; the text is one.
        unsafe { umbo_iterator_restore_position(iterator, position.as_ptr()) }
    }

    /// A new iterator.
    pub fn start(&self) -> (umbo_status, *mut umbo_iterator) {
        let mut iterator = ptr::null_mut();
        let distributed = self.distributed.load(Ordering::SeqCst);
        // SAFETY: handles may be stale; the output is a variable.
        let status = unsafe {
            match distributed.is_null() {
                true => umbo_iterator_from_dataset(
                    self.dataset.load(Ordering::SeqCst),
                    &raw mut iterator,
                ),
                false => umbo_iterator_from_distributed_dataset(distributed, &raw mut iterator),
            }
        };
        (status, iterator)
    }
}

/// The status of a `next`, and whether there was an element.
pub fn draw(iterator: *mut umbo_iterator) -> (umbo_status, bool) {
    let mut element = ptr::null_mut();
    // SAFETY: the handle may be stale; the output is a variable.
    let status = unsafe { umbo_iterator_next(iterator, &raw mut element) };
    // SAFETY: the element is ours; NULL is fine.
    unsafe { umbo_release(element.cast(), UMBO_HANDLE_VALUE) };
    (status, !element.is_null())
}

/// Where an iterator is.
pub fn save(iterator: *mut umbo_iterator) -> (umbo_status, CString) {
    let (mut text, mut length) = (vec![0u8; 4096], 0);
    // SAFETY: the handle may be stale; the outputs are variables.
    let status = unsafe {
        umbo_iterator_save_position(iterator, text.as_mut_ptr().cast(), text.len(), &raw mut length)
    };
    text.truncate(length);
    (status, CString::new(text).unwrap())
}
