//! Traces of steps that the library has written, line by line
//! (`crates/umbo-strategy/src/step/trace.rs`), against the transitions that a step has.

use std::collections::{BTreeMap, HashMap};
use std::{env, fs};

/// The phase of a replica.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Posted,
    Computing,
    Waiting,
    Returned,
}

/// A record of a step: that of the run, or of a nested one.
struct Record {
    depth: usize,
    phases: Vec<Phase>,
    is_serving: bool,
    has_failed: bool,
    /// A replica has seen, or the coordinator has said, that the record is abandoned.
    seen_abandoned: bool,
    has_left: bool,
}

struct Step {
    number: u64,
    is_concluded: bool,
    /// Nothing of it may be committed.
    must_fail: bool,
    /// Records that are open, by their addresses, from the outermost to the innermost.
    open: Vec<(usize, Record)>,
}

/// A strategy of one process, which is one rank.
#[derive(Default)]
struct Strategy {
    last: u64,
    step: Option<Step>,
    late: HashMap<usize, Record>,
}

/// A line of a trace.
struct Line<'a> {
    step: u64,
    record: usize,
    depth: usize,
    replicas: usize,
    event: &'a str,
    replica: usize,
    failed: bool,
}

type Checked = Result<(), &'static str>;

fn demand(holds: bool, otherwise: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

impl Strategy {
    fn accept(&mut self, line: &Line<'_>) -> Checked {
        match line.event {
            "Begin" => {
                demand(self.step.is_none(), "two steps are open")?;
                demand(self.late.is_empty(), "a step begins while one is late")?;
                demand(line.step > self.last, "a step's number is no new one")?;
                self.last = line.step;
                self.step = Some(Step {
                    number: line.step,
                    is_concluded: false,
                    must_fail: false,
                    open: Vec::new(),
                });
                Ok(())
            }
            "Open" => self.open(line),
            "Commit" | "RollBack" | "End" => self.conclude(line),
            "Finish" | "Abandon" => self.end_record(line),
            "Leave" | "Drain" => self.drain(line),
            _ => self.record(line)?.accept(line),
        }
    }

    fn step(&mut self, line: &Line<'_>) -> Result<&mut Step, &'static str> {
        let step = self.step.as_mut().filter(|step| step.number == line.step);
        step.ok_or("no such step is open")
    }

    fn record(&mut self, line: &Line<'_>) -> Result<&mut Record, &'static str> {
        if self.late.contains_key(&line.record) {
            return self
                .late
                .get_mut(&line.record)
                .ok_or("no such record is late");
        }
        let mut known = self.step(line)?.open.iter_mut();
        let found = known.find(|(at, _)| *at == line.record);
        found
            .map(|(_, record)| record)
            .ok_or("no such record is open")
    }

    fn open(&mut self, line: &Line<'_>) -> Checked {
        let step = self.step(line)?;
        demand(!step.is_concluded, "a record opens after the outcome")?;
        // A change of central state is a step without a record, in whose function runs are nested.
        let inner = step.open.last().map(|(_, outer)| outer.depth + 1);
        let fits = inner.map_or(line.depth < 2, |inner| inner == line.depth);
        demand(fits, "a record opens at another depth")?;
        let serves = step.open.last().is_none_or(|(_, outer)| outer.is_serving);
        demand(serves, "a nested record opens outside of a merge call")?;
        let record = Record {
            depth: line.depth,
            phases: vec![Phase::Posted; line.replicas],
            is_serving: false,
            has_failed: false,
            seen_abandoned: false,
            has_left: false,
        };
        step.open.push((line.record, record));
        Ok(())
    }

    fn end_record(&mut self, line: &Line<'_>) -> Checked {
        let step = self.step(line)?;
        let (at, mut record) = step.open.pop().ok_or("no record is open")?;
        demand(at == line.record, "another record is the innermost one")?;
        demand(!record.is_serving, "a record ends in its merge call")?;
        if line.event == "Finish" {
            let returned = record.phases.iter().all(|&phase| phase == Phase::Returned);
            demand(returned, "a record finishes before its callbacks")?;
            demand(!record.seen_abandoned, "an abandoned record finishes")?;
            step.must_fail |= record.has_failed && record.depth == 0;
            return Ok(());
        }
        step.must_fail = true;
        record.seen_abandoned = true;
        self.late.insert(at, record);
        Ok(())
    }

    fn conclude(&mut self, line: &Line<'_>) -> Checked {
        let step = self.step(line)?;
        demand(step.open.is_empty(), "a step ends while a record is open")?;
        if line.event == "End" {
            demand(step.is_concluded, "a step ends without an outcome")?;
            self.step = None;
            return Ok(());
        }
        demand(!step.is_concluded, "a step has two outcomes")?;
        let commits = line.event == "Commit";
        demand(!(commits && step.must_fail), "a failure is committed")?;
        step.is_concluded = true;
        Ok(())
    }

    fn drain(&mut self, line: &Line<'_>) -> Checked {
        let late = self.late.get_mut(&line.record);
        let record = late.ok_or("no such record is late")?;
        if line.event == "Leave" {
            demand(!record.has_left, "a coordinator leaves twice")?;
            record.has_left = true;
            return Ok(());
        }
        demand(record.has_left, "a drained record has its coordinator")?;
        let returned = record.phases.iter().all(|&phase| phase == Phase::Returned);
        demand(returned, "a drained record has callbacks")?;
        let depth = record.depth;
        self.late.remove(&line.record);
        let inner = self.late.values().any(|late| late.depth > depth);
        demand(!inner, "a record is drained before one inside of it")
    }
}

impl Record {
    fn accept(&mut self, line: &Line<'_>) -> Checked {
        match line.event {
            "Serve" => {
                let has = |phase: Phase| self.phases.contains(&phase);
                let computes = has(Phase::Computing) || has(Phase::Posted);
                demand(!computes, "a merge call is served while a replica computes")?;
                demand(has(Phase::Waiting), "no replica waits")?;
                demand(!self.seen_abandoned, "an abandoned record is served")?;
                demand(!self.is_serving, "a merge call is served inside of itself")?;
                self.is_serving = true;
                return Ok(());
            }
            "Answer" => {
                demand(self.is_serving, "an answer without a question")?;
                self.is_serving = false;
                let waiting = self.phases.iter_mut().filter(|it| **it == Phase::Waiting);
                waiting.for_each(|it| *it = Phase::Computing);
                return Ok(());
            }
            _ => {}
        }
        let phase = self.phases.get_mut(line.replica);
        let phase = phase.ok_or("no such replica")?;
        let (from, to) = match line.event {
            "Start" => (Phase::Posted, Phase::Computing),
            "Arrive" => (Phase::Computing, Phase::Waiting),
            "Return" => (Phase::Computing, Phase::Returned),
            _ => return Err("no such event"),
        };
        if *phase == Phase::Waiting && !self.is_serving && line.event != "Start" {
            // The replica was not answered, so it has seen that nobody will.
            self.seen_abandoned = true;
            *phase = Phase::Computing;
        }
        demand(*phase == from, "a replica is elsewhere")?;
        *phase = to;
        self.has_failed |= line.failed;
        Ok(())
    }
}

fn parse(line: &str) -> Option<(u64, Line<'_>)> {
    let mut words = line.splitn(6, ' ');
    let strategy = words.next()?.parse().ok()?;
    let step = words.next()?.parse().ok()?;
    let record = words.next()?.parse().ok()?;
    let depth = words.next()?.parse().ok()?;
    let replicas = words.next()?.parse().ok()?;
    let event = words.next()?;
    let (event, rest) = event.split_once('(').unwrap_or((event, "0)"));
    let mut rest = rest.trim_end_matches(')').split(", ");
    let replica = rest.next()?.parse().ok()?;
    let failed = rest.next() == Some("true");
    let line = Line {
        step,
        record,
        depth,
        replicas,
        event,
        replica,
        failed,
    };
    Some((strategy, line))
}

/// Checks a trace; returns the number of its steps.
fn check(trace: &str) -> Result<usize, String> {
    let mut strategies: BTreeMap<u64, Strategy> = BTreeMap::new();
    let mut steps = 0;
    for (number, text) in trace.lines().enumerate() {
        let at = || format!("line {}: {text}", number + 1);
        let (strategy, line) = parse(text).ok_or_else(at)?;
        let accepted = strategies.entry(strategy).or_default().accept(&line);
        accepted.map_err(|why| format!("{}: {why}", at()))?;
        steps += usize::from(line.event == "Begin");
    }
    Ok(steps)
}

/// A step with a merge call and a nested run, one that is abandoned in its nested run, and one that
/// fails.
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
";

/// A trace without one of its lines, or with one twice, is no trace; nor is one that commits what
/// has failed.
#[test]
fn wrong_traces_are_refused() {
    let lines: Vec<&str> = SAMPLE.lines().collect();
    assert_eq!(check(SAMPLE), Ok(3));
    let last = lines.len() - 1;
    for at in 0..last {
        let mut less = lines.clone();
        let line = less.remove(at);
        assert!(check(&less.join("\n")).is_err(), "without {line}");
        let mut more = lines.clone();
        more.insert(at, line);
        assert!(check(&more.join("\n")).is_err(), "twice {line}");
    }
    let begin = "1 4 0 0 0 Begin\n1 4 9 0 1 Open\n1 4 9 0 1 Start(0)\n1 4 9 0 1 ";
    for end in ["Return(0, true)\n1 4 9 0 1 Finish", "Abandon"] {
        let trace = format!("{begin}{end}\n");
        assert_eq!(check(&trace), Ok(1));
        assert!(check(&format!("{trace}1 4 0 0 0 Commit\n")).is_err());
    }
}

/// The traces in the folder that `STEP_TRACES` names, which `make test-protocol` has had tests
/// write.
#[test]
fn all_recorded_traces_are_accepted() {
    let Some(folder) = env::var_os("STEP_TRACES") else {
        return;
    };
    let (mut traces, mut steps, mut lines) = (0, 0, 0);
    let mut refused = Vec::new();
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let trace = fs::read_to_string(&path).unwrap();
        match check(&trace) {
            Ok(found) => steps += found,
            Err(why) => refused.push(format!("{}: {why}", path.display())),
        }
        (traces, lines) = (traces + 1, lines + trace.lines().count());
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    println!("{traces} traces of {steps} steps, {lines} transitions: all accepted");
    assert!(steps > 0, "no traces in {}", folder.display());
}
