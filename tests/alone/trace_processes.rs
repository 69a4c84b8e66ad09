//! The trace and the process that writes it: it crashes, forks, or is told to by its environment.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;
use umbo_core::diagnose::trace::{self, program};
use umbo_core::observe;
use umbo_core::strategy::Strategy;

use crate::trace::{Trace, file, strategy};

/// Runs this program with a test of it alone, as a child that does what `role` says.
fn child(role: &str, path: &PathBuf, variables: &[(&str, &str)]) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "trace_processes::what_children_do",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("UMBO_TEST_ROLE", role)
        .env("UMBO_TEST_FILE", path)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// Does nothing unless it is a child.
#[test]
fn what_children_do() {
    let Ok(role) = std::env::var("UMBO_TEST_ROLE") else {
        return;
    };
    let path = PathBuf::from(std::env::var("UMBO_TEST_FILE").unwrap());
    let strategy_of = || strategy(2);
    let steps = |strategy: &Strategy, count: usize| {
        for _ in 0..count {
            strategy.run(&|_| Ok(None), None).unwrap();
        }
    };
    match role.as_str() {
        "crash" => {
            let strategy = strategy_of();
            trace::start(&path, trace::MOST_EVENTS).unwrap();
            steps(&strategy, 10_000);
            std::process::abort();
        }
        "fork" => {
            let strategy = strategy_of();
            trace::start(&path, trace::MOST_EVENTS).unwrap();
            steps(&strategy, 5);
            // SAFETY: the child does nothing but what is tested, and ends at once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                program::begin("of the child");
                program::end();
                let off = !observe::trace::is_on() && trace::stop().is_err();
                // With what runs at the end of a process.
                std::process::exit(i32::from(!off));
            }
            let mut status = 0;
            // SAFETY: it is a child of this process.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
            steps(&strategy, 5);
            trace::stop().unwrap();
        }
        "environment" => steps(&strategy_of(), 5),
        _ => unreachable!("{role}"),
    }
}

#[test]
fn a_crash_leaves_what_was_written() {
    let true = crate::is_alone(a_crash_leaves_what_was_written) else {
        return;
    };
    let path = file("crash");
    let output = child("crash", &path, &[]);
    assert!(!output.status.success());
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Every line is whole, so that it only lacks its end.
    let whole = format!("{}]", text.trim_end().trim_end_matches(','));
    let events: Vec<Json> = serde_json::from_str(&whole).unwrap();
    let steps = events
        .iter()
        .filter(|event| event["name"] == "step")
        .count();
    assert!(steps >= 1000, "{steps}");
}

#[test]
fn the_child_of_a_fork_writes_nothing() {
    let true = crate::is_alone(the_child_of_a_fork_writes_nothing) else {
        return;
    };
    let path = file("fork");
    let output = child("fork", &path, &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = Trace::read(&path);
    assert_eq!(trace.spans("step").len(), 10);
    assert!(trace.spans("of the child").is_empty());
}

#[test]
fn the_environment_asks_for_a_trace() {
    let true = crate::is_alone(the_environment_asks_for_a_trace) else {
        return;
    };
    let path = file("environment");
    let folder = path.with_extension("folder");
    std::fs::create_dir_all(&folder).unwrap();
    let pattern = folder.join("%p.json");
    let pattern = pattern.to_str().unwrap();
    let output = child("environment", &path, &[("UMBO_TRACE", pattern)]);
    assert!(output.status.success(), "{output:?}");
    let written = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let written: Vec<PathBuf> = written.collect();
    let [file] = &written[..] else {
        panic!("{written:?}")
    };
    let process = file.file_stem().unwrap().to_str().unwrap();
    assert!(process.parse::<u32>().is_ok(), "{process}");
    let trace = Trace::read(file);
    std::fs::remove_dir(&folder).unwrap();
    // Its end is written when the process ends.
    assert_eq!(trace.spans("step").len(), 5);
    assert_eq!(trace.summary()["dropped"], 0);
}

#[test]
fn an_environment_that_makes_no_sense_is_a_warning() {
    let true = crate::is_alone(an_environment_that_makes_no_sense_is_a_warning) else {
        return;
    };
    let path = file("nonsense");
    let output = child(
        "environment",
        &path,
        &[("UMBO_TRACE", "/nowhere/trace.json")],
    );
    assert!(output.status.success(), "{output:?}");
    let messages = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = messages
        .lines()
        .filter(|line| line.starts_with("umbo: "))
        .collect();
    assert_eq!(lines.len(), 1, "{messages}");
    assert!(
        lines[0].contains("UMBO_TRACE: no trace is written"),
        "{}",
        lines[0]
    );
    let quiet = child("environment", &path, &[("UMBO_TRACE", "")]);
    assert!(quiet.status.success());
    assert!(!String::from_utf8(quiet.stderr).unwrap().contains("umbo: "));
}
