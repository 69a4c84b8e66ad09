//! Tests of the checker, on a sample that is altered in each line, and the check of recorded
//! traces.

use std::collections::BTreeSet;
use std::{env, fs};

use super::{check, parse};

/// The kinds of transitions.
const EVENTS: [&str; 14] = [
    "Begin", "Open", "Start", "Arrive", "Serve", "Answer", "Return", "Finish", "Abandon", "Commit",
    "RollBack", "End", "Leave", "Drain",
];

/// A step with a merge call and a nested run, one that is abandoned in its nested run, one that
/// fails, and a change of central state with a run in it.
const SAMPLE: &str = "\
1 1 0 0 0 Begin
1 1 7 0 2 Open
1 1 7 0 2 Start(0)
1 1 7 0 2 Start(1)
1 1 7 0 2 Arrive(1)
1 1 7 0 2 Arrive(0)
1 1 7 0 2 Serve
1 1 8 1 2 Open
1 1 8 1 2 Start(0)
1 1 8 1 2 Return(0, false)
1 1 8 1 2 Start(1)
1 1 8 1 2 Return(1, false)
1 1 8 1 2 Finish
1 1 7 0 2 Answer
1 1 7 0 2 Return(0, false)
1 1 7 0 2 Return(1, false)
1 1 7 0 2 Finish
1 1 0 0 0 Commit
1 1 0 0 0 End
1 2 0 0 0 Begin
1 2 7 0 1 Open
1 2 7 0 1 Start(0)
1 2 7 0 1 Arrive(0)
1 2 7 0 1 Serve
1 2 8 1 1 Open
1 2 8 1 1 Start(0)
1 2 8 1 1 Abandon
1 2 8 1 1 Leave
1 2 7 0 1 Answer
1 2 7 0 1 Abandon
1 2 0 0 0 RollBack
1 2 0 0 0 End
1 2 7 0 1 Leave
1 2 8 1 1 Return(0, true)
1 2 8 1 1 Drain
1 2 7 0 1 Return(0, true)
1 2 7 0 1 Drain
1 3 0 0 0 Begin
1 3 9 0 1 Open
1 3 9 0 1 Start(0)
1 3 9 0 1 Return(0, true)
1 3 9 0 1 Finish
1 3 0 0 0 RollBack
1 3 0 0 0 End
1 4 0 0 0 Begin
1 4 9 1 1 Open
1 4 9 1 1 Start(0)
1 4 9 1 1 Return(0, false)
1 4 9 1 1 Finish
1 4 0 0 0 Commit
1 4 0 0 0 End
";

fn event(line: &str) -> &str {
    parse(line).unwrap().event
}

/// Asserts that each altered sample is refused; `alter` changes the lines at an index, and returns
/// the events that it has changed. All kinds must be among them.
fn all_are_refused(alter: impl Fn(&mut Vec<&'static str>, usize) -> Vec<&'static str>) {
    let lines: Vec<&str> = SAMPLE.lines().collect();
    let mut events = BTreeSet::new();
    for at in 0..lines.len() {
        let mut altered = lines.clone();
        let changed = alter(&mut altered, at);
        if !changed.is_empty() {
            let found = check(&altered.join("\n"));
            assert!(found.is_err(), "{changed:?}, from line {}", at + 1);
            events.extend(changed);
        }
    }
    assert_eq!(events, BTreeSet::from(EVENTS));
}

#[test]
fn the_sample_is_accepted() {
    assert_eq!(check(SAMPLE), Ok(4));
    // Strategies do not depend on each other.
    let lines = SAMPLE.lines();
    let two: String = lines
        .map(|line| format!("{line}\n2{}\n", &line[1..]))
        .collect();
    assert_eq!(check(&two), Ok(8));
}

#[test]
fn a_trace_that_lacks_a_line_is_refused() {
    all_are_refused(|lines, at| {
        // A process may end in the middle of a step, so that the last line may be missing.
        if at + 1 == lines.len() {
            return Vec::new();
        }
        vec![event(lines.remove(at))]
    });
}

#[test]
fn a_trace_with_a_repeated_line_is_refused() {
    all_are_refused(|lines, at| {
        lines.insert(at, lines[at]);
        vec![event(lines[at])]
    });
}

/// Neighbours in the sample that may come in either order: they are of threads that do not wait for
/// each other there.
const CONCURRENT: [[&str; 2]; 7] = [
    ["1 1 7 0 2 Start(0)", "1 1 7 0 2 Start(1)"],
    ["1 1 7 0 2 Arrive(1)", "1 1 7 0 2 Arrive(0)"],
    ["1 1 8 1 2 Return(0, false)", "1 1 8 1 2 Start(1)"],
    ["1 1 7 0 2 Return(0, false)", "1 1 7 0 2 Return(1, false)"],
    ["1 2 8 1 1 Start(0)", "1 2 8 1 1 Abandon"],
    ["1 2 7 0 1 Leave", "1 2 8 1 1 Return(0, true)"],
    ["1 2 8 1 1 Drain", "1 2 7 0 1 Return(0, true)"],
];

#[test]
fn a_trace_with_two_swapped_lines_is_refused() {
    all_are_refused(|lines, at| {
        if at + 1 == lines.len() || CONCURRENT.contains(&[lines[at], lines[at + 1]]) {
            return Vec::new();
        }
        lines.swap(at, at + 1);
        vec![event(lines[at]), event(lines[at + 1])]
    });
}

#[test]
fn concurrent_lines_are_accepted_in_either_order() {
    for [first, second] in CONCURRENT {
        let pair = format!("{first}\n{second}\n");
        let swapped = SAMPLE.replacen(&pair, &format!("{second}\n{first}\n"), 1);
        assert_ne!(swapped, SAMPLE, "{pair}");
        assert_eq!(check(&swapped), Ok(4), "{pair}");
    }
}

#[test]
fn a_commit_after_a_failure_is_refused() {
    let begin = "1 4 0 0 0 Begin\n1 4 9 0 1 Open\n1 4 9 0 1 Start(0)\n1 4 9 0 1 ";
    for end in ["Return(0, true)\n1 4 9 0 1 Finish", "Abandon"] {
        let trace = format!("{begin}{end}\n");
        assert_eq!(check(&trace), Ok(1));
        assert!(check(&format!("{trace}1 4 0 0 0 RollBack\n")).is_ok());
        assert!(check(&format!("{trace}1 4 0 0 0 Commit\n")).is_err());
    }
}

/// Checks the traces in the folder that `STEP_TRACES` names; `make test-protocol` has other tests
/// write them there.
#[test]
fn all_recorded_traces_are_accepted() {
    let Some(folder) = env::var_os("STEP_TRACES") else {
        return;
    };
    let mut traces = 0;
    let mut steps = 0;
    let mut lines = 0;
    let mut refused = Vec::new();
    let mut missing = BTreeSet::from(EVENTS);
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let trace = fs::read_to_string(&path).unwrap();
        match check(&trace) {
            Ok(found) => steps += found,
            Err(why) => refused.push(format!("{}: {why}", path.display())),
        }
        missing.retain(|event| !trace.contains(&format!(" {event}")));
        traces += 1;
        lines += trace.lines().count();
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    println!("{traces} traces of {steps} steps, {lines} transitions: all accepted");
    assert!(
        missing.is_empty(),
        "transitions that no trace has: {missing:?}"
    );
}
