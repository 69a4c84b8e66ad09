//! What functions that an iterator calls may do with iterators: every place where the caller's code
//! runs, with every call that it may make there, over every kind of pipeline. Each combination gets
//! an answer, and none hangs.

mod calls;

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use calls::{last_message, made, ok, refused};
use umbo::ffi::*;

/// Far longer than a combination takes; only what hangs is found by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many elements a pass has.
const ELEMENTS: usize = 6;

/// Where the caller's code runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
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
enum Action {
    Next,
    Reset,
    SavePosition,
    RestorePosition,
    Release,
    ElementSpec,
    AnotherIterator,
    RunStep,
}

/// What the iterator iterates over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Prefetched,
    Parallel,
    Distributed,
    ShuffledAndCached,
}

const PLACES: [Place; 9] = [
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

const ACTIONS: [Action; 8] = [
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
struct Case {
    place: Place,
    action: Action,
    /// Whether the action is still to be taken. It is taken once.
    armed: AtomicBool,
    strategy: AtomicPtr<umbo_strategy>,
    dataset: AtomicPtr<umbo_dataset>,
    distributed: AtomicPtr<umbo_distributed_dataset>,
    iterator: AtomicPtr<umbo_iterator>,
    /// A place in the middle of a pass.
    position: Mutex<CString>,
    /// Whether the program begins with going there.
    restores: bool,
    /// What came of the action.
    outcome: Mutex<Option<(umbo_status, String)>>,
}

impl Case {
    fn user_data(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn at(&self, place: Place) {
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
                    umbo_iterator_release(iterator);
                    UMBO_OK
                }
                Action::ElementSpec => {
                    let mut spec = ptr::null_mut();
                    let status = umbo_iterator_element_spec(iterator, &raw mut spec);
                    umbo_element_spec_release(spec);
                    status
                }
                Action::AnotherIterator => {
                    let (status, another) = self.start();
                    if status != UMBO_OK {
                        return status;
                    }
                    let status = draw(another).0;
                    umbo_iterator_release(another);
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
    fn restore(&self) -> umbo_status {
        let iterator = self.iterator.load(Ordering::SeqCst);
        let position = self.position.lock().unwrap().clone();
        // SAFETY: the handle may be stale; the text is one.
        unsafe { umbo_iterator_restore_position(iterator, position.as_ptr()) }
    }

    /// A new iterator.
    fn start(&self) -> (umbo_status, *mut umbo_iterator) {
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
fn draw(iterator: *mut umbo_iterator) -> (umbo_status, bool) {
    let mut element = ptr::null_mut();
    // SAFETY: the handle may be stale; the output is a variable.
    let status = unsafe { umbo_iterator_next(iterator, &raw mut element) };
    // SAFETY: the element is ours; NULL is fine.
    unsafe { umbo_value_release(element) };
    (status, !element.is_null())
}

/// Where an iterator is.
fn save(iterator: *mut umbo_iterator) -> (umbo_status, CString) {
    let (mut text, mut length) = (vec![0u8; 4096], 0);
    // SAFETY: the handle may be stale; the outputs are variables.
    let status = unsafe {
        umbo_iterator_save_position(iterator, text.as_mut_ptr().cast(), text.len(), &raw mut length)
    };
    text.truncate(length);
    (status, CString::new(text).unwrap())
}

/// # Safety
/// `user_data` leads to the case, as for all of the callbacks.
unsafe fn case<'a>(user_data: *mut c_void) -> &'a Case {
    // SAFETY: the promise is the same.
    unsafe { &*user_data.cast::<Case>() }
}

unsafe extern "C-unwind" fn begin(user_data: *mut c_void, pass: *mut *mut c_void) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the pass.
    unsafe {
        case(user_data).at(Place::Begin);
        *pass = Box::into_raw(Box::new(0usize)).cast();
    }
    UMBO_OK
}

static NUMBERS: [i64; 2] = [1, 2];

unsafe extern "C-unwind" fn next(
    pass: *mut c_void,
    user_data: *mut c_void,
    element: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the pass is what `begin` made; the memory of the tensor is static; the library gives a
    // place for the element.
    unsafe {
        case(user_data).at(Place::Next);
        let count = &mut *pass.cast::<usize>();
        if *count == ELEMENTS {
            return UMBO_OK;
        }
        *count += 1;
        let shape = [2i64];
        let tensor = made(|out| {
            umbo_tensor_from_memory(
                UMBO_DTYPE_INT64,
                1,
                shape.as_ptr(),
                ptr::null(),
                NUMBERS.as_ptr().cast_mut().cast(),
                ptr::null(),
                user_data,
                Some(element_destroy),
                out,
            )
        });
        *element = made(|out| umbo_value_from_tensor(tensor, out));
        umbo_tensor_release(tensor);
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn reset(pass: *mut c_void, user_data: *mut c_void) -> umbo_status {
    // SAFETY: the pass is what `begin` made.
    unsafe {
        case(user_data).at(Place::Reset);
        *pass.cast::<usize>() = 0;
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn end(pass: *mut c_void, user_data: *mut c_void) {
    // SAFETY: the pass is what `begin` made and is given to this once.
    unsafe {
        case(user_data).at(Place::End);
        drop(Box::from_raw(pass.cast::<usize>()));
    }
}

unsafe extern "C-unwind" fn element_destroy(user_data: *mut c_void) {
    // SAFETY: the library gives back the user data.
    unsafe { case(user_data).at(Place::ElementDestroy) };
}

unsafe extern "C-unwind" fn source_destroy(user_data: *mut c_void) {
    // SAFETY: as above.
    unsafe { case(user_data).at(Place::SourceDestroy) };
}

unsafe fn mapped(
    place: Option<Place>,
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the result.
    unsafe {
        if let Some(place) = place {
            case(user_data).at(place);
        }
        umbo_value_retain(element, result)
    }
}

unsafe extern "C-unwind" fn map(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(Some(Place::Map), element, user_data, result) }
}

unsafe extern "C-unwind" fn parallel_map(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(Some(Place::ParallelMap), element, user_data, result) }
}

unsafe extern "C-unwind" fn same(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(None, element, user_data, result) }
}

unsafe extern "C-unwind" fn dataset_function(
    _context: *const umbo_input_context,
    user_data: *mut c_void,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the dataset.
    unsafe {
        case(user_data).at(Place::DatasetFunction);
        umbo_dataset_from_range(0, 4, 1, dataset)
    }
}

unsafe extern "C-unwind" fn nothing(
    _context: *mut umbo_replica_context,
    _arguments: *const umbo_value,
    _user_data: *mut c_void,
    _result: *mut *mut umbo_value,
) -> umbo_status {
    UMBO_OK
}

unsafe fn build(case: &Case, kind: Kind) {
    let user_data = case.user_data();
    let generator = umbo_generator {
        struct_size: size_of::<umbo_generator>(),
        begin: Some(begin),
        next: Some(next),
        // Without a function to reset it, a pass is ended and another begun.
        reset: (case.place != Place::End).then_some(reset as _),
        end: Some(end),
    };
    // SAFETY: handles are ours, callbacks fit their user data, outputs are variables; all zero is a
    // value of the option structs.
    unsafe {
        let mut strategy_options: umbo_strategy_options = std::mem::zeroed();
        strategy_options.struct_size = size_of::<umbo_strategy_options>();
        strategy_options.cpu_replicas = 2;
        let strategy = made(|out| umbo_strategy_create(&strategy_options, out));
        case.strategy.store(strategy, Ordering::SeqCst);
        let spec =
            made(|out| umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 1, [2i64].as_ptr(), out));
        let destroy: umbo_destroy_fn = Some(source_destroy);
        let mut dataset =
            made(|out| umbo_dataset_from_generator(spec, &generator, user_data, destroy, out));
        umbo_element_spec_release(spec);
        let mut four_at_once: umbo_map_options = std::mem::zeroed();
        four_at_once.struct_size = size_of::<umbo_map_options>();
        four_at_once.parallel_calls = 4;
        let mut add_map = |function: umbo_map_fn, options: *const umbo_map_options| {
            ok(umbo_dataset_map(&raw mut dataset, function, user_data, None, options));
        };
        match case.place {
            Place::Map => add_map(Some(map), ptr::null()),
            Place::ParallelMap => add_map(Some(parallel_map), &four_at_once),
            _ => {}
        }
        match kind {
            Kind::Plain => {}
            Kind::Parallel => add_map(Some(same), &four_at_once),
            Kind::Prefetched => {
                ok(umbo_dataset_prefetch(&raw mut dataset, 3));
            }
            Kind::Distributed => {
                let mut options: umbo_distribute_options = std::mem::zeroed();
                options.struct_size = size_of::<umbo_distribute_options>();
                options.per_replica_buffer_size = 2;
                let distributed = made(|out| {
                    umbo_strategy_distribute_dataset(strategy, dataset, &raw const options, out)
                });
                case.distributed.store(distributed, Ordering::SeqCst);
            }
            Kind::ShuffledAndCached => {
                let mut options: umbo_shuffle_options = std::mem::zeroed();
                options.struct_size = size_of::<umbo_shuffle_options>();
                options.buffer_size = 3;
                ok(umbo_dataset_shuffle(&raw mut dataset, &options));
                ok(umbo_dataset_cache(&raw mut dataset));
            }
        }
        case.dataset.store(dataset, Ordering::SeqCst);
        let (status, other) = case.start();
        ok(status);
        ok(draw(other).0);
        ok(draw(other).0);
        let (status, position) = save(other);
        ok(status);
        umbo_iterator_release(other);
        *case.position.lock().unwrap() = position;
        case.armed.store(true, Ordering::SeqCst);
        let (status, iterator) = case.start();
        ok(status);
        case.iterator.store(iterator, Ordering::SeqCst);
    }
}

/// Uses the iterator as a program does, and gives the statuses that its calls had.
unsafe fn use_iterator(case: &Case) -> Vec<umbo_status> {
    let iterator = case.iterator.load(Ordering::SeqCst);
    let mut statuses = Vec::new();
    // SAFETY: the iterator may be stale, which the library notices; all else is as for `build`.
    unsafe {
        if case.place == Place::DatasetFunction {
            let mut distributed = ptr::null_mut();
            statuses.push(umbo_strategy_distribute_datasets_from_function(
                case.strategy.load(Ordering::SeqCst),
                Some(dataset_function),
                case.user_data(),
                ptr::null(),
                &raw mut distributed,
            ));
            umbo_distributed_dataset_release(distributed);
        }
        if case.restores {
            statuses.push(case.restore());
        }
        for elements in [4, 2 * ELEMENTS, 1] {
            statuses.extend((0..elements).map(|_| draw(iterator).0));
            statuses.push(umbo_iterator_reset(iterator));
        }
        umbo_distributed_dataset_release(case.distributed.load(Ordering::SeqCst));
        umbo_dataset_release(case.dataset.load(Ordering::SeqCst));
        umbo_iterator_release(iterator);
        umbo_strategy_release(case.strategy.load(Ordering::SeqCst));
    }
    statuses
}

/// What is wrong with how a combination went.
fn complaint(case: &Case, statuses: &[umbo_status]) -> Option<String> {
    let Some((status, message)) = case.outcome.lock().unwrap().clone() else {
        return Some("the place was not reached".into());
    };
    let within = !matches!(
        case.place,
        Place::ElementDestroy | Place::SourceDestroy | Place::DatasetFunction
    );
    let allowed: &[umbo_status] = match case.action {
        Action::Next | Action::Reset | Action::SavePosition | Action::RestorePosition if within => {
            &[UMBO_STATUS_FAILED_PRECONDITION]
        }
        // The release of an element may be the iterator's doing or not.
        Action::Next | Action::Reset | Action::SavePosition | Action::RestorePosition
            if case.place == Place::ElementDestroy =>
        {
            &[UMBO_OK, UMBO_STATUS_FAILED_PRECONDITION]
        }
        // The source outlives the handles.
        _ if case.place == Place::SourceDestroy => &[UMBO_OK, UMBO_STATUS_INVALID_ARGUMENT],
        _ => &[UMBO_OK],
    };
    if !allowed.contains(&status) {
        return Some(format!("the action gave {status}, not one of {allowed:?}: {message}"));
    }
    if status == UMBO_STATUS_FAILED_PRECONDITION && !message.contains("wait for itself") {
        return Some(format!("the message does not say what goes on: {message}"));
    }
    // A handle that was released gives INVALID_ARGUMENT from then on.
    let released = case.action == Action::Release;
    let fine = |status| status == UMBO_OK || (released && status == UMBO_STATUS_INVALID_ARGUMENT);
    let bad = statuses.iter().position(|&status| !fine(status))?;
    Some(format!("call {bad} of the program gave {}", statuses[bad]))
}

fn check(kind: Kind) {
    let mut complaints = Vec::new();
    for place in PLACES {
        for (action, restores) in ACTIONS.into_iter().flat_map(|a| [(a, false), (a, true)]) {
            let (done, finished) = channel();
            // Leaked where it hangs; the callbacks have its address.
            let case = Arc::new(Case {
                place,
                action,
                armed: AtomicBool::new(false),
                strategy: AtomicPtr::default(),
                dataset: AtomicPtr::default(),
                distributed: AtomicPtr::default(),
                iterator: AtomicPtr::default(),
                position: Mutex::default(),
                restores,
                outcome: Mutex::new(None),
            });
            let of_thread = Arc::clone(&case);
            std::thread::spawn(move || {
                // SAFETY: the case outlives the thread and everything that it makes.
                let statuses = unsafe {
                    build(&of_thread, kind);
                    use_iterator(&of_thread)
                };
                let _ = done.send(statuses);
            });
            let what = format!("{place:?}, {action:?}, restored: {restores}");
            match finished.recv_timeout(PATIENCE) {
                Ok(statuses) => {
                    if let Some(complaint) = complaint(&case, &statuses) {
                        complaints.push(format!("{what}: {complaint}"));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    std::mem::forget(Arc::clone(&case));
                    complaints.push(format!("{what}: hangs"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    complaints.push(format!("{what}: panicked"));
                }
            }
        }
    }
    let all = 2 * PLACES.len() * ACTIONS.len();
    assert!(
        complaints.is_empty(),
        "{kind:?}, {} of {all}:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn over_a_plain_pipeline() {
    check(Kind::Plain);
}

#[test]
fn over_a_prefetched_pipeline() {
    check(Kind::Prefetched);
}

#[test]
fn over_a_parallel_pipeline() {
    check(Kind::Parallel);
}

#[test]
fn over_a_distributed_pipeline() {
    check(Kind::Distributed);
}

#[test]
fn over_a_shuffled_and_cached_pipeline() {
    check(Kind::ShuffledAndCached);
}

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
        umbo_tensor_release(tensor);
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
        umbo_element_spec_release(spec);
        let iterator = made(|out| umbo_iterator_from_dataset(dataset, out));
        umbo_dataset_release(dataset);
        let shared = AtomicPtr::new(iterator);
        let thread = std::thread::spawn(move || draw(shared.into_inner()));
        arrival.recv_timeout(PATIENCE).unwrap();
        umbo_iterator_release(iterator);
        let mut element = ptr::null_mut();
        let status = umbo_iterator_next(iterator, &raw mut element);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "the handle was released");
        assert!(!meeting.ended.load(Ordering::SeqCst));
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), (UMBO_OK, true));
        assert!(meeting.ended.load(Ordering::SeqCst));
    }
}
