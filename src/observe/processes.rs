//! Measures which threads of the process use its processors.

use std::collections::HashMap;
use std::fs;

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
    /// How long it was on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

impl Usage {
    /// The processor time of the threads until now.
    pub fn now() -> Usage {
        Usage { threads: threads().collect() }
    }

    /// The processor time since then of threads that are neither the library's nor among `callers`. The thread that
    /// used most comes first.
    pub fn of_others(&self, callers: &[u32]) -> Vec<Other> {
        let mut others: Vec<Other> = threads()
            .filter(|(thread, _)| !callers.contains(thread))
            .filter_map(|(thread, used)| {
                let before = self.threads.get(&thread).copied().unwrap_or(0);
                let nanoseconds = used.saturating_sub(before);
                let name = name_of(thread)?;
                (nanoseconds > 0 && !name.starts_with("umbo-")).then_some(Other {
                    thread,
                    name,
                    nanoseconds,
                })
            })
            .collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.nanoseconds));
        others
    }

    /// The processor time since then of the library's threads and `callers`, in nanoseconds.
    pub fn of_library(&self, callers: &[u32]) -> u64 {
        let own = |&(thread, _): &(u32, u64)| {
            callers.contains(&thread)
                || name_of(thread).is_some_and(|name| name.starts_with("umbo-"))
        };
        let used = |(thread, used): (u32, u64)| {
            used.saturating_sub(self.threads.get(&thread).copied().unwrap_or(0))
        };
        threads().filter(own).map(used).sum()
    }
}

/// The id and the processor time of each thread of the process. It is empty if the system does not report them.
fn threads() -> impl Iterator<Item = (u32, u64)> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let thread: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((thread, text.split_ascii_whitespace().next()?.parse().ok()?))
    })
}

fn name_of(thread: u32) -> Option<String> {
    let name = fs::read(format!("/proc/self/task/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
