//! Tests of what belongs to a whole process: its log, its trace, its threads, its memory. Each of
//! them runs in a process of its own, one after the other.

use std::any::type_name;
use std::env;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

#[path = "../allocator/mod.rs"]
mod allocator;
mod batched_reduce;
mod broken_pipe;
#[path = "../calls/mod.rs"]
mod calls;
mod closed_streams;
mod computing;
mod default_log;
#[path = "../together/engine.rs"]
#[expect(dead_code, reason = "a part of it serves here")]
mod engine;
#[cfg(target_arch = "x86_64")]
mod floating_point_mode;
#[path = "../fresh/mod.rs"]
mod fresh;
mod fresh_outputs;
mod helping;
mod input_allocations;
mod input_thread_failures;
mod input_threads;
mod input_warnings;
mod log_messages;
mod managed_folders;
mod many_handles;
#[cfg(target_os = "linux")]
mod name_lifetimes;
#[cfg(target_os = "linux")]
mod no_polling;
/// What the engine of the ranks asks for.
mod on_gpus {
    pub fn moves_device_memory() -> bool {
        false
    }
}
mod other_libraries;
mod report_and_trace;
mod shared_processor;
mod short_memory_of_input;
mod short_memory_over_ranks;
mod step_allocations;
mod step_report;
#[path = "../threads/mod.rs"]
mod threads;
mod trace;
mod trace_processes;
mod worker_costs;
mod worker_ranges;

/// Whether the process was made for `test`, which calls this first. If not, one is made, on whose
/// first thread the test runs while no other test of this program does, and the test has nothing
/// more to do here.
#[track_caller]
fn is_alone<T>(_test: T) -> bool {
    const TEST: &str = "UMBO_TEST_THAT_IS_ALONE";
    let (_, test) = type_name::<T>().split_once("::").unwrap();
    if env::var(TEST).is_ok_and(|chosen| chosen == test) {
        return true;
    }
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(TEST, test);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{}: {said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    false
}
