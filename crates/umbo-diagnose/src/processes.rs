//! Measures which threads of the process use its processors.

use std::collections::HashMap;

use umbo_base::observe::own_threads;
use umbo_system::usage::{self, ThreadTime};

/// The processor time of each thread of the process at some moment.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// The times by the system's ids of the threads.
    threads: HashMap<u32, u64>,
}

/// A thread that does not belong to the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// The system's id of the thread.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// The time for which it was on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

impl Usage {
    /// The processor time of the threads until now.
    pub fn now() -> Usage {
        Usage {
            threads: usage::threads()
                .map(|time| (time.thread, time.nanoseconds))
                .collect(),
        }
    }

    /// The processor time since then of threads that are neither the library's nor among `callers`,
    /// the thread that used most first, and that of all other threads together, in nanoseconds.
    pub fn since(&self, callers: &[u32]) -> (Vec<Other>, u64) {
        let (mut others, mut of_callers) = (Vec::new(), 0);
        let of_library = own_threads::numbers();
        for ThreadTime {
            thread,
            nanoseconds: used,
        } in usage::threads()
        {
            let nanoseconds = used.saturating_sub(self.threads.get(&thread).copied().unwrap_or(0));
            let Some(name) = usage::thread_name(thread).filter(|_| nanoseconds > 0) else {
                continue;
            };
            if callers.contains(&thread) || of_library.contains(&thread) {
                of_callers += nanoseconds;
                continue;
            }
            // A thread has the name of the thread that started it, until it gets one of its own.
            let name = match name.starts_with("umbo-") {
                true => format!("started by {name}"),
                false => name,
            };
            others.push(Other {
                thread,
                name,
                nanoseconds,
            });
        }
        others.sort_by_key(|other| std::cmp::Reverse(other.nanoseconds));
        (others, of_callers)
    }
}
