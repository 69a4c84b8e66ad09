//! `umbo bench watch`: measures the cost of measuring steps and of tracing them.

use std::fmt::Write;
use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::diagnose::trace;
use umbo_core::error::Result;
use umbo_core::observe::{self, Phase};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};

use super::Asked;
use crate::arguments::{PAUSE_US, REPLICAS, ROUNDS, STEPS, number};
use crate::failure::Failure;
use crate::{Report, json_text};

pub const HELP: &str = "\
Usage: umbo bench watch [OPTIONS]

Measures steps whose replicas compute for some microseconds: unwatched, with the steps measured
(umbo_strategy_measure_steps), and with a trace. Rounds take turns, so that all three see the same
machine; shown are the medians of the rounds and of what each adds in its round. Steps that take
more than four times the median are taken as interrupted by the system and left out. The trace goes
to a file in the folder for temporary files, which is removed.

Options:
      --replicas N   replicas on logical CPUs (1 to 1024; default: 2)
      --work-us N    microseconds of work for each replica in a step (0 to 10000000; default: 16)
      --rounds N     rounds (1 to 100000; default: 100)
      --steps N      steps of each kind in a round (1 to 1000000; default: 500)
      --json         print one JSON object
  -h, --help         show this help
";

/// If a step takes this many times as long as the median, the system has interrupted it.
const INTERRUPTED: f64 = 4.0;

/// The number of spans that are opened and closed to time an unobserved span.
const SPANS: u32 = 1_000_000;

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut replicas = 2;
    let mut work_us = 16;
    let mut rounds = 100;
    let mut steps = 500;
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("replicas") => replicas = number(arguments, "replicas", REPLICAS)?,
            Long("work-us") => work_us = number(arguments, "work-us", PAUSE_US)?,
            Long("rounds") => rounds = number(arguments, "rounds", ROUNDS)?,
            Long("steps") => steps = number(arguments, "steps", STEPS)?,
            Long("json") => json = true,
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Asked::measuring(move || {
        let measured = measure(replicas, Duration::from_micros(work_us), rounds, steps)?;
        Ok(Report::fine(if json {
            json_text(&as_json(&measured))
        } else {
            as_table(&measured)
        }))
    }))
}

/// How the steps of a row are observed.
#[derive(Clone, Copy, PartialEq)]
enum Watched {
    Not,
    Measured,
    Traced,
}

struct Figures {
    /// The time of a step of each kind, in nanoseconds.
    steps: [f64; 3],
    /// The times that measuring and tracing add, as parts of the step's time.
    added: [f64; 2],
    /// The time of an unobserved span, in nanoseconds.
    span: f64,
    seen: u64,
    measured: u64,
}

/// The mean of the times below `longest`: steps that the system has interrupted say nothing about
/// the library.
fn mean_below(longest: f64, times: &[f64]) -> f64 {
    let whole: Vec<f64> = times
        .iter()
        .copied()
        .filter(|&time| time < longest)
        .collect();
    whole.iter().sum::<f64>() / whole.len().max(1) as f64
}

/// The times of `steps` steps, in nanoseconds.
fn times_of(steps: usize, mut step: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    // All of the first steps are measured, and the first event allocates a buffer.
    for _ in 0..steps.min(64) {
        step()?;
    }
    let timed = |_| {
        let start = Instant::now();
        step()?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    (0..steps).map(timed).collect()
}

/// The time of a span that nobody watches, in nanoseconds.
fn time_of_span() -> f64 {
    let start = Instant::now();
    for _ in 0..SPANS {
        drop(black_box(observe::span(black_box(Phase::Copy))));
    }
    start.elapsed().as_nanos() as f64 / f64::from(SPANS)
}

fn measure(replicas: usize, work: Duration, rounds: usize, steps: usize) -> Result<Figures> {
    let options = Options {
        cpu_replicas: replicas,
        ..Options::default()
    };
    let strategy = Strategy::new(&options)?;
    let callback = |_: &ReplicaContext| {
        let start = Instant::now();
        while start.elapsed() < work {
            spin_loop();
        }
        Ok(None)
    };
    let path = std::env::temp_dir().join(format!("umbo-bench-{}.json", std::process::id()));
    let mut times = [const { Vec::new() }; 3];
    let mut taken = [const { Vec::new() }; 3];
    let mut seen = 0;
    let mut counted = 0;
    for round in 0..rounds {
        // Each kind is first as often as the others.
        for at in 0..3 {
            let kind = (round + at) % 3;
            let watched = [Watched::Not, Watched::Measured, Watched::Traced][kind];
            strategy.measure_steps(watched == Watched::Measured)?;
            if watched == Watched::Traced {
                trace::start(&path, trace::MOST_EVENTS)?;
            }
            taken[kind] = times_of(steps, || strategy.run(&callback, None).map(drop))?;
            match watched {
                Watched::Not => {}
                Watched::Measured => {
                    let summary = strategy.step_report()?.summary;
                    (seen, counted) = (seen + summary.seen, counted + summary.measured);
                }
                Watched::Traced => drop(trace::stop()?),
            }
        }
        let longest = INTERRUPTED * median(taken[0].clone());
        for (times, taken) in times.iter_mut().zip(&taken) {
            times.push(mean_below(longest, taken));
        }
    }
    // Only the file that this function has made is removed. If it no longer exists, that is no
    // problem.
    let _ = std::fs::remove_file(&path);
    strategy.measure_steps(false)?;
    let added = [1, 2].map(|kind| {
        let pairs = times[kind].iter().zip(&times[0]);
        median(pairs.map(|(watched, not)| watched / not - 1.0).collect())
    });
    let steps = times.map(median);
    Ok(Figures {
        steps,
        added,
        span: time_of_span(),
        seen,
        measured: counted,
    })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn as_json(figures: &Figures) -> serde_json::Value {
    let Figures {
        steps,
        added,
        span,
        seen,
        measured,
    } = figures;
    json!({
        "step_ns": steps[0],
        "measured_step_ns": steps[1],
        "traced_step_ns": steps[2],
        "measuring_adds": added[0],
        "tracing_adds": added[1],
        "unwatched_span_ns": span,
        "steps": seen,
        "steps_measured": measured,
    })
}

fn as_table(figures: &Figures) -> String {
    let Figures {
        steps,
        added,
        span,
        seen,
        measured,
    } = figures;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<12} {:>12} {:>10}", "", "a step", "adds");
    let _ = writeln!(text, "{:<12} {:>9.2} \u{b5}s", "unwatched", steps[0] / 1e3);
    for (name, at) in [("measured", 1), ("traced", 2)] {
        let percent = 100.0 * added[at - 1];
        let _ = writeln!(
            text,
            "{name:<12} {:>9.2} \u{b5}s {percent:>8.2} %",
            steps[at] / 1e3
        );
    }
    let _ = writeln!(
        text,
        "\nOf {seen} steps that were to be measured, {measured} were."
    );
    let _ = writeln!(text, "A span that nobody watches takes {span:.2} ns.");
    text
}
