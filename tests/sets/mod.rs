//! Tests of equal bits across instruction sets. A process chooses its set once, so a test runs in a
//! process of its own for each.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

use umbo_core::kernels::instruction_set::{Instructions, VARIABLE};

/// Where a process that runs for one set leaves its results.
const RESULTS: &str = "UMBO_TEST_RESULTS";

/// Calls `body` in one process for each instruction set that this processor has, and demands that
/// what it returns is the same in all. To be called by the test whose full name is `test`, with
/// nothing else: the processes run that test and no other.
pub fn same_in_every_set(test: &str, body: impl FnOnce() -> Vec<u8>) {
    if let Some(path) = env::var_os(RESULTS) {
        let wanted = env::var(VARIABLE).unwrap();
        assert_eq!(Instructions::chosen().set().name(), wanted);
        return fs::write(path, body()).unwrap();
    }
    let results = Instructions::all().map(|instructions| {
        let set = instructions.set().name();
        let file = format!("{}-{set}-{}", test.replace(':', "-"), process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
        let mut child = Command::new(env::current_exe().unwrap());
        child
            .args([test, "--exact", "--nocapture"])
            .env(VARIABLE, set)
            .env(RESULTS, &path);
        let output = child.output().unwrap();
        assert!(
            output.status.success(),
            "{set}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let result = fs::read(&path).unwrap_or_else(|error| panic!("{test} did not run: {error}"));
        fs::remove_file(&path).unwrap();
        assert!(!result.is_empty(), "{test} gave nothing to compare");
        (set, result)
    });
    let results: Vec<_> = results.collect();
    for (set, result) in &results {
        assert!(
            *result == results[0].1,
            "{set} differs from {}",
            results[0].0
        );
    }
}
