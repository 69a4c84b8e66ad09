//! What functions that an iterator calls may do with iterators: every place where the caller's code
//! runs, with every call that it may make there, over every kind of pipeline. Each combination gets
//! an answer, and none hangs.

mod case;
mod pipelines;
mod released;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use umbo::ffi::*;

use case::{ACTIONS, Action, Case, PLACES, Place, draw};
use pipelines::{ELEMENTS, Kind, build, dataset_function};

/// Far longer than a combination takes; only what hangs is found by it.
const PATIENCE: Duration = Duration::from_secs(60);

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
            umbo_release(distributed.cast(), UMBO_HANDLE_DISTRIBUTED_DATASET);
        }
        if case.restores {
            statuses.push(case.restore());
        }
        for elements in [4, 2 * ELEMENTS, 1] {
            statuses.extend((0..elements).map(|_| draw(iterator).0));
            statuses.push(umbo_iterator_reset(iterator));
        }
        umbo_release(
            case.distributed.load(Ordering::SeqCst).cast(),
            UMBO_HANDLE_DISTRIBUTED_DATASET,
        );
        umbo_release(case.dataset.load(Ordering::SeqCst).cast(), UMBO_HANDLE_DATASET);
        umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
        umbo_release(case.strategy.load(Ordering::SeqCst).cast(), UMBO_HANDLE_STRATEGY);
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
fn every_place_and_call_over_every_pipeline_gets_an_answer() {
    use Kind::*;
    [Plain, Prefetched, Parallel, Distributed, ShuffledAndCached].into_iter().for_each(check);
}
