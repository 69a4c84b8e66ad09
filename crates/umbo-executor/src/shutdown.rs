//! Ends all threads, for programs that unload the library or search for leaks.

use super::thread::{self, Purpose};
use super::{computing, workers};
use umbo_base::error::{Error, Result};

/// Ends the threads that no object needs, and waits until they have ended. If threads are needed
/// later, they are started again.
///
/// FAILED_PRECONDITION, and nothing is ended, while objects have threads of their own, and during
/// central work or heavy computations, on whatever thread.
pub fn shut_down() -> Result<()> {
    let mut alive = Vec::new();
    for (purpose, threads, advice) in [
        (
            Purpose::Replica,
            "replica threads",
            "release their strategies, and let late callbacks return",
        ),
        (
            Purpose::Prefetch,
            "prefetching threads",
            "release their iterators",
        ),
        (
            Purpose::Checkpoint,
            "threads that write checkpoints",
            "release their managers",
        ),
        (
            Purpose::Pool,
            "threads of parallel maps",
            "release their iterators",
        ),
    ] {
        match thread::alive(purpose) {
            0 => {}
            count => alive.push(format!("{threads} ({count}): {advice}")),
        }
    }
    if !alive.is_empty() {
        return Err(Error::precondition(format!(
            "threads of objects that are alive: {}",
            alive.join("; ")
        )));
    }
    let in_use = |purpose: &str| {
        Error::precondition(format!(
            "the threads for {purpose} are in use by another call; call this after it has returned"
        ))
    };
    let Some(computing) = computing::idle() else {
        return Err(in_use("heavy computations"));
    };
    if !workers::end() {
        return Err(in_use("central work"));
    }
    computing.end();
    Ok(())
}
