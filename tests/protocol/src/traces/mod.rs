//! A checker of traces. Builds with debug assertions write a line for each transition of a step
//! (`crates/umbo-strategy/src/step/trace.rs`); a trace is refused at the first transition that
//! comes where the step cannot take it.

use std::collections::{BTreeMap, HashMap};

mod tests;

/// The phase of a replica's callback.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Posted,
    Computing,
    Waiting,
    Returned,
}

/// The record of a run, or of a nested one.
struct Record {
    /// 0 for a run, 1 for one in its merge function, and so on.
    depth: usize,
    phases: Vec<Phase>,
    /// The coordinator serves a merge call, and has not answered it.
    is_serving: bool,
    has_failed: bool,
    /// A replica has seen, or the coordinator has noted, that the record is abandoned.
    is_abandoned: bool,
    /// The coordinator has left the abandoned record.
    has_left: bool,
}

struct Step {
    number: u64,
    /// The step was committed or rolled back.
    is_concluded: bool,
    must_fail: bool,
    /// The open records with their addresses, from the outermost to the innermost.
    open: Vec<(usize, Record)>,
}

/// A strategy of one process, which is one rank.
#[derive(Default)]
struct Strategy {
    /// The number of the last step.
    last: u64,
    step: Option<Step>,
    /// Abandoned records that are not yet drained, by their addresses.
    late: HashMap<usize, Record>,
}

/// A line of a trace.
struct Line<'a> {
    strategy: u64,
    step: u64,
    record: usize,
    depth: usize,
    replicas: usize,
    event: &'a str,
    replica: usize,
    failed: bool,
}

type Checked = Result<(), &'static str>;

fn demand(holds: bool, message: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(message) }
}

impl Strategy {
    fn accept(&mut self, line: &Line<'_>) -> Checked {
        match line.event {
            "Begin" => self.begin(line),
            "Open" => self.open(line),
            "Finish" => self.finish(line),
            "Abandon" => self.abandon(line),
            "Commit" | "RollBack" => self.conclude(line),
            "End" => self.end(line),
            "Leave" => self.leave(line),
            "Drain" => self.drain(line),
            "Serve" | "Answer" => self.serve(line),
            _ => self.record(line)?.accept(line),
        }
    }

    fn step(&mut self, line: &Line<'_>) -> Result<&mut Step, &'static str> {
        let step = self.step.as_mut().filter(|step| step.number == line.step);
        step.ok_or("the step is not open")
    }

    /// The record of a line, which is open or late.
    fn record(&mut self, line: &Line<'_>) -> Result<&mut Record, &'static str> {
        let step = self.step.as_mut().filter(|step| step.number == line.step);
        let mut open = step.into_iter().flat_map(|step| &mut step.open);
        let late = self.late.get_mut(&line.record);
        late.or_else(|| Some(&mut open.find(|(address, _)| *address == line.record)?.1))
            .ok_or("the record is neither open nor late")
    }

    fn begin(&mut self, line: &Line<'_>) -> Checked {
        let is_open = self.step.is_some();
        demand(!is_open, "a step begins while another one is open")?;
        let is_draining = !self.late.is_empty();
        demand(
            !is_draining,
            "a step begins before an abandoned one is drained",
        )?;
        demand(line.step > self.last, "step numbers must increase")?;
        self.last = line.step;
        self.step = Some(Step {
            number: line.step,
            is_concluded: false,
            must_fail: false,
            open: Vec::new(),
        });
        Ok(())
    }

    fn open(&mut self, line: &Line<'_>) -> Checked {
        let step = self.step(line)?;
        demand(!step.is_concluded, "a record opens after the outcome")?;
        match step.open.last() {
            Some((_, outer)) => {
                demand(
                    line.depth == outer.depth + 1,
                    "a nested record is not one deeper",
                )?;
                demand(
                    outer.is_serving,
                    "a nested record opens outside a merge call",
                )?;
            }
            // A change of central state is a step without a record. The runs in its function have
            // depth 1.
            None => demand(line.depth < 2, "the outermost record has a depth above 1")?,
        }
        let record = Record {
            depth: line.depth,
            phases: vec![Phase::Posted; line.replicas],
            is_serving: false,
            has_failed: false,
            is_abandoned: false,
            has_left: false,
        };
        step.open.push((line.record, record));
        Ok(())
    }

    /// Takes the innermost record, which the coordinator finishes or abandons.
    fn close(&mut self, line: &Line<'_>) -> Result<Record, &'static str> {
        let (address, record) = self.step(line)?.open.pop().ok_or("no record is open")?;
        demand(
            address == line.record,
            "another record is the innermost one",
        )?;
        demand(
            !record.is_serving,
            "a record ends before its merge call is answered",
        )?;
        Ok(record)
    }

    fn finish(&mut self, line: &Line<'_>) -> Checked {
        let record = self.close(line)?;
        demand(
            record.has_returned(),
            "a record finishes before its callbacks return",
        )?;
        demand(!record.is_abandoned, "an abandoned record finishes")?;
        // A merge function may succeed although its nested run has failed.
        self.step(line)?.must_fail |= record.has_failed && record.depth == 0;
        Ok(())
    }

    fn abandon(&mut self, line: &Line<'_>) -> Checked {
        let mut record = self.close(line)?;
        record.is_abandoned = true;
        self.step(line)?.must_fail = true;
        self.late.insert(line.record, record);
        Ok(())
    }

    fn conclude(&mut self, line: &Line<'_>) -> Checked {
        let step = self.step(line)?;
        demand(
            step.open.is_empty(),
            "a step is concluded while a record is open",
        )?;
        demand(!step.is_concluded, "a step is concluded twice")?;
        let commits = line.event == "Commit";
        demand(!(commits && step.must_fail), "a failed step is committed")?;
        step.is_concluded = true;
        Ok(())
    }

    fn end(&mut self, line: &Line<'_>) -> Checked {
        let is_concluded = self.step(line)?.is_concluded;
        demand(
            is_concluded,
            "a step ends before it is committed or rolled back",
        )?;
        self.step = None;
        Ok(())
    }

    /// The coordinator serves a merge call or answers it, which it does after its nested runs.
    fn serve(&mut self, line: &Line<'_>) -> Checked {
        let mut late = self.late.values();
        let is_in_nested = late.any(|late| late.depth > line.depth && !late.has_left);
        demand(
            !is_in_nested,
            "the coordinator is in a nested run that was abandoned",
        )?;
        let innermost = self.step(line)?.open.last_mut();
        let (address, record) = innermost.ok_or("no record is open")?;
        demand(
            *address == line.record,
            "another record is the innermost one",
        )?;
        if line.event == "Serve" {
            record.serve()
        } else {
            record.answer()
        }
    }

    fn leave(&mut self, line: &Line<'_>) -> Checked {
        let record = self.late.get_mut(&line.record);
        let record = record.ok_or("a coordinator leaves a record that is not late")?;
        demand(!record.has_left, "a coordinator leaves twice")?;
        let is_outermost = record.depth == 0;
        demand(
            !(is_outermost && self.step.is_some()),
            "a coordinator leaves an open step",
        )?;
        record.has_left = true;
        Ok(())
    }

    fn drain(&mut self, line: &Line<'_>) -> Checked {
        let record = self.late.remove(&line.record);
        let record = record.ok_or("a record that is not late is drained")?;
        demand(
            record.has_left,
            "a record is drained before its coordinator leaves",
        )?;
        demand(
            record.has_returned(),
            "a record is drained before its callbacks return",
        )?;
        let mut others = self.late.values();
        let is_innermost = others.all(|other| other.depth <= record.depth);
        demand(is_innermost, "a record is drained before one nested in it")
    }
}

impl Record {
    fn has(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }

    fn has_returned(&self) -> bool {
        self.phases.iter().all(|&phase| phase == Phase::Returned)
    }

    fn accept(&mut self, line: &Line<'_>) -> Checked {
        match line.event {
            "Start" => self.advance(line, Phase::Posted, Phase::Computing),
            "Arrive" => self.advance(line, Phase::Computing, Phase::Waiting),
            "Return" => self.advance(line, Phase::Computing, Phase::Returned),
            _ => Err("the event is unknown"),
        }
    }

    fn serve(&mut self) -> Checked {
        let computes = self.has(Phase::Computing) || self.has(Phase::Posted);
        demand(!computes, "a merge call is served while a replica computes")?;
        demand(
            self.has(Phase::Waiting),
            "a merge call is served before a replica waits",
        )?;
        demand(!self.is_abandoned, "an abandoned record is served")?;
        demand(!self.is_serving, "a merge call is served twice")?;
        self.is_serving = true;
        Ok(())
    }

    fn answer(&mut self) -> Checked {
        demand(
            self.is_serving,
            "a merge call is answered before it is served",
        )?;
        self.is_serving = false;
        for phase in &mut self.phases {
            if *phase == Phase::Waiting {
                *phase = Phase::Computing;
            }
        }
        Ok(())
    }

    /// The callback of a replica passes from one phase to another.
    fn advance(&mut self, line: &Line<'_>, from: Phase, to: Phase) -> Checked {
        let phase = self.phases.get_mut(line.replica);
        let phase = phase.ok_or("the record has fewer replicas")?;
        if *phase == Phase::Waiting && !self.is_serving {
            // Without an answer, a replica leaves its merge call only if the record is abandoned.
            // It may see that before the coordinator notes it.
            self.is_abandoned = true;
            *phase = Phase::Computing;
        }
        demand(*phase == from, "the replica is in another phase")?;
        *phase = to;
        self.has_failed |= line.failed;
        Ok(())
    }
}

/// Reads a line: strategy, step, record, depth, replicas, then the event with its arguments, if it
/// has any: the replica, and whether its callback has failed.
fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.splitn(6, ' ');
    let strategy = words.next()?.parse().ok()?;
    let step = words.next()?.parse().ok()?;
    let record = words.next()?.parse().ok()?;
    let depth = words.next()?.parse().ok()?;
    let replicas = words.next()?.parse().ok()?;
    let event = words.next()?;
    let (event, arguments) = event.split_once('(').unwrap_or((event, "0)"));
    let mut arguments = arguments.strip_suffix(')')?.split(", ");
    let replica = arguments.next()?.parse().ok()?;
    let failed = arguments.next() == Some("true");
    Some(Line {
        strategy,
        step,
        record,
        depth,
        replicas,
        event,
        replica,
        failed,
    })
}

/// Checks a trace; returns the number of its steps.
fn check(trace: &str) -> Result<usize, String> {
    let mut strategies: BTreeMap<u64, Strategy> = BTreeMap::new();
    let mut steps = 0;
    for (number, text) in trace.lines().enumerate() {
        let refused = |why: &str| format!("line {}: {text}: {why}", number + 1);
        let line = parse(text).ok_or_else(|| refused("the line cannot be read"))?;
        let strategy = strategies.entry(line.strategy).or_default();
        strategy.accept(&line).map_err(refused)?;
        steps += usize::from(line.event == "Begin");
    }
    Ok(steps)
}
