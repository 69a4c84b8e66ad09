//! The report of a trace. It is the report that the library would have made of the steps in it.

use std::collections::BTreeMap;

use umbo_core::diagnose::advice;
use umbo_core::diagnose::processes::Other;
use umbo_core::diagnose::report::{Clocks, ReplicaSample, Setup, StepSample};
use umbo_core::diagnose::summary::Summary;
use umbo_core::observe::phase::{ByPhase, Phase};

use super::file::{Span, Trace};

/// The steps of one strategy of one process.
#[derive(Default)]
struct Steps {
    setup: Setup,
    steps: Vec<StepSample>,
    replicas: Vec<ReplicaSample>,
}

/// The report on the trace, and whether it has no advice.
pub fn report(trace: &Trace) -> (String, bool) {
    let strategies = strategies(trace);
    let mut text = String::new();
    let mut fine = true;
    if !trace.whole {
        text.push_str("The trace has no end: its process died, or it is still being written.\n\n");
    }
    if trace.dropped > 0 {
        text.push_str(&format!(
            "The trace lacks {} events: it may not have more.\n\n",
            trace.dropped
        ));
    }
    if strategies.is_empty() {
        text.push_str("No step of a strategy is in the trace.\n");
    }
    let callers: Vec<u64> = trace
        .spans
        .iter()
        .filter(|span| span.category == "step")
        .map(|span| span.thread)
        .collect();
    let is_other = |thread: u32| !callers.contains(&thread.into());
    let others = trace
        .others
        .iter()
        .filter(|&&(thread, ..)| is_other(thread));
    let others: Vec<Other> = others
        .map(|(thread, name, nanoseconds)| Other {
            thread: *thread,
            name: name.clone(),
            nanoseconds: *nanoseconds,
        })
        .collect();
    for ((process, strategy), steps) in &strategies {
        let mut summary = Summary::of(steps.setup, &steps.steps, &steps.replicas);
        summary.others.clone_from(&others);
        summary.load = trace.load;
        summary.own_on_processor = steps.replicas.iter().map(at_work).sum();
        let advice = advice::of(&summary);
        fine &= advice.is_empty();
        let title = match strategies.keys().any(|(other, _)| other != process) {
            true => format!("Process {process}, strategy {strategy}"),
            false => format!("Strategy {strategy}"),
        };
        text.push_str(&format!("{title}: {}\n", advice::report(&summary, &advice)));
    }
    (text, fine)
}

/// How long a callback worked: the time on a processor, if that is known.
fn at_work(replica: &ReplicaSample) -> u64 {
    replica
        .clocks
        .map_or(replica.wall, |clocks| clocks.on_processor)
}

/// The steps of all strategies, by process and number. Steps are left out if some of their replicas
/// are not in the trace.
fn strategies(trace: &Trace) -> BTreeMap<(u64, u64), Steps> {
    let mut replicas: BTreeMap<(u64, u64, u64), BTreeMap<u64, ReplicaSample>> = BTreeMap::new();
    for span in trace
        .spans
        .iter()
        .filter(|span| span.arguments.contains_key("wall_ns"))
    {
        let place = (span.process, span.number("strategy"), span.number("step"));
        replicas
            .entry(place)
            .or_default()
            .insert(span.number("replica"), replica(span));
    }
    let mut found: BTreeMap<(u64, u64), Steps> = BTreeMap::new();
    for span in trace
        .spans
        .iter()
        .filter(|span| span.category == "step" && span.name == "step")
    {
        let strategy = span.number("strategy");
        let count = span.number("replicas");
        let Some(of_step) = replicas.get(&(span.process, strategy, span.number("step"))) else {
            continue;
        };
        if count == 0 || of_step.len() as u64 != count {
            continue;
        }
        let small = |name| u32::try_from(span.number(name)).unwrap_or(0);
        let steps = found.entry((span.process, strategy)).or_default();
        steps.setup = Setup {
            replicas: small("replicas"),
            devices: small("devices"),
            cpu_devices: small("cpu_devices"),
            processors: small("processors"),
        };
        steps.steps.push(StepSample {
            period: span.number("period_ns"),
            run: span.number("run_ns"),
            before: phases(span, "before_"),
            central: phases(span, ""),
            updated: span.number("updated_bytes"),
        });
        steps.replicas.extend(of_step.values());
    }
    found
}

fn replica(span: &Span) -> ReplicaSample {
    let clocks = span
        .arguments
        .contains_key("on_processor_ns")
        .then(|| Clocks {
            on_processor: span.number("on_processor_ns"),
            ready: span.number("ready_ns"),
        });
    ReplicaSample {
        begun: span.number("begun_ns"),
        wall: span.number("wall_ns"),
        spent: phases(span, ""),
        clocks,
    }
}

fn phases(span: &Span, prefix: &str) -> ByPhase<u64> {
    Phase::ALL.map(|phase| span.number(&format!("{prefix}{}_ns", phase.name())))
}
