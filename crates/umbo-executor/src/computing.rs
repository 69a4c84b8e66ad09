//! Heavy computations that do not wait, shared by a thread pool of rayon.
//!
//! This module is for computations that take milliseconds or more, happen outside of steps, and
//! depend only on their arguments: comparing gradients, widening them, decompressing files. Work
//! for which microseconds matter is done by [`super::workers`]. Functions that may wait, above all
//! the caller's functions, are called by [`super::pool`].
//!
//! Only functions of the library run in this pool, and never the caller's code. Such a function
//! must not hold a lock while it calls this module, and must not wait for another thread: while a
//! thread of a work-stealing pool waits for its own work, it does other work on the same stack. At
//! most, a function waits for a disk.
//!
//! The pool belongs to the process and is private. Rayon's global pool is never started, because
//! the executor would not manage its threads. The private pool's threads are started by
//! [`thread::spawn`] when they are first needed. There are as many as processors whose time the
//! process may use, and they stay until [`super::shutdown`]. If no thread can be started (the
//! system refuses, or the process has one processor), the calling thread does the work, and a later
//! call tries again. The calling thread also does the work if it belongs to a rayon pool of the
//! program, because rayon would make it do the program's work while it waits.
//!
//! Results do not depend on which thread computes them, and are in the order of the items.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use rayon::iter::{
    IndexedParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator, ParallelIterator,
};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::affinity;
use super::thread::{self, Handle, Purpose, ThreadOptions};
use parking_lot::{Mutex, MutexGuard};
use umbo_base::error::{Error, Result, Shortage, memory};
use umbo_base::observe::log::{self, Level};

/// For fewer elements, no other thread is used.
const LEAST_ELEMENTS: usize = 16 << 10;

/// The largest number of threads.
const MOST_THREADS: usize = 256;

/// How long no pool is made after the system has refused one.
const PAUSE: Duration = Duration::from_millis(100);

/// The pool. No thread waits for it: a caller that finds it locked does its work alone.
static STATE: Mutex<ComputingState> = Mutex::new(ComputingState {
    threads: None,
    refused: None,
});

thread_local! {
    /// Whether this thread belongs to the pool.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

#[derive(Default)]
struct ComputingState {
    /// Each computing thread holds a clone, which is made under the lock.
    threads: Option<Arc<ComputingThreads>>,
    /// The time when the system last refused a pool.
    refused: Option<Instant>,
}

struct ComputingThreads {
    pool: ThreadPool,
    handles: Vec<Handle>,
}

/// Calls `function` with each of `items`, of which a thread takes at least `least` at a time.
/// `function` follows the rules of this module. Blocks until all items are done. A panic of
/// `function` reaches the caller.
pub fn for_each<T: Send>(items: &mut [T], least: usize, function: impl Fn(&mut T) + Sync) {
    in_pool(items.len() / least, |parallel| match parallel {
        true => items.par_iter_mut().with_min_len(least).for_each(&function),
        false => items.iter_mut().for_each(&function),
    });
}

/// The results of `function` for each of `items`, in their order. `size` is the number of elements,
/// or bytes, in all items together: a thread takes as many items at a time as have some ten
/// thousand. `function` follows the rules of this module. Blocks until all items are done. A panic
/// of `function` reaches the caller. RESOURCE_EXHAUSTED if there is no memory for the list, before
/// anything is computed.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    size: usize,
    function: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>> {
    let least = items
        .len()
        .saturating_mul(LEAST_ELEMENTS)
        .div_ceil(size.max(1))
        .max(1);
    let mut results = memory::list(items.len(), "results")?;
    in_pool(items.len() / least, |parallel| match parallel {
        // The results go to memory that is already allocated, and that only the thread that fills
        // it has touched.
        true => items
            .par_iter()
            .with_min_len(least)
            .map(&function)
            .collect_into_vec(&mut results),
        false => results.extend(items.iter().map(&function)),
    });
    Ok(results)
}

/// Runs `body` in the pool with true, or on the calling thread with false. Only this function runs
/// parallel iterators, so that none runs in another pool.
fn in_pool<R: Send>(items: usize, body: impl FnOnce(bool) -> R + Send) -> R {
    if items > 1 && OURS.get() {
        return body(true);
    }
    let alone = items < 2 || rayon::current_thread_index().is_some();
    match if alone { None } else { threads() } {
        Some(threads) => threads.pool.install(|| body(true)),
        None => body(false),
    }
}

/// The threads, which are started if there are none. None if they cannot be started now.
fn threads() -> Option<Arc<ComputingThreads>> {
    let count = affinity::usable().min(MOST_THREADS);
    if count < 2 {
        return None;
    }
    let mut state = STATE.try_lock()?;
    if let Some(threads) = &state.threads {
        return Some(Arc::clone(threads));
    }
    if state.refused.is_some_and(|when| when.elapsed() < PAUSE) {
        return None;
    }
    match ComputingThreads::start(count) {
        Ok(threads) => {
            state.refused = None;
            Some(Arc::clone(state.threads.insert(Arc::new(threads))))
        }
        Err(error) => {
            state.refused = Some(Instant::now());
            drop(state);
            log::log(Level::Warning, || {
                format!("heavy work is done on the calling thread: {error}")
            });
            None
        }
    }
}

impl ComputingThreads {
    fn start(count: usize) -> Result<ComputingThreads> {
        let mut handles = Vec::with_capacity(count);
        let mut refusal = None;
        let spawn = |builder: rayon::ThreadBuilder| {
            let options = ThreadOptions::new(
                format!("umbo-compute-{}", builder.index()),
                Purpose::Compute,
            );
            let body = move || {
                OURS.set(true);
                builder.run();
            };
            match thread::spawn(&options, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    refusal = Some(error);
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
            }
            Ok(())
        };
        match ThreadPoolBuilder::new()
            .num_threads(count)
            .spawn_handler(spawn)
            .build()
        {
            Ok(pool) => {
                // Each thread has now searched for work once. The first search makes crossbeam
                // allocate its data for the process.
                pool.broadcast(|_| ());
                Ok(ComputingThreads { pool, handles })
            }
            Err(error) => {
                // rayon has already signalled the threads that were started to end.
                join(handles);
                let refused = || {
                    Error::ResourceExhausted(Shortage::Refused {
                        operation: "starting a thread pool".to_owned(),
                        reason: error.to_string(),
                    })
                };
                Err(refusal.unwrap_or_else(refused))
            }
        }
    }

    /// Ends the threads and waits until they have ended.
    fn end(self) {
        drop(self.pool);
        join(self.handles);
    }
}

fn join(handles: Vec<Handle>) {
    for handle in handles {
        // A panic of a function is passed to its caller, so the thread itself does not panic.
        let _ = handle.join();
    }
}

/// The right to end the threads. While it exists, no thread computes in them.
pub(super) struct Idle(MutexGuard<'static, ComputingState>);

/// Returns the right to end the threads. None while a thread computes in them or starts them.
pub(super) fn idle() -> Option<Idle> {
    let state = STATE.try_lock()?;
    // Clones are made under the lock, so no clone is made while it is held.
    let used = state
        .threads
        .as_ref()
        .is_some_and(|threads| Arc::strong_count(threads) > 1);
    (!used).then_some(Idle(state))
}

impl Idle {
    /// Ends the threads, which later work starts anew, and waits until they have ended.
    pub(super) fn end(mut self) {
        if let Some(threads) = mem::take(&mut *self.0).threads.and_then(Arc::into_inner) {
            threads.end();
        }
    }
}
