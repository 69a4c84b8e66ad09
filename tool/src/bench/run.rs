//! `umbo bench run`: measures the cost of a step that does nothing.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::collectives::ReduceOp;
use umbo_core::error::Result;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

use super::Asked;
use super::plot::Plot;
use super::table::{Row, as_json, as_table, spans};
use crate::Report;
use crate::arguments::{PAUSE_US, REPLICAS, ROUNDS, file, number};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench run [OPTIONS]

Measures an empty run, right after another one and after a pause, and the all-reduce of one
number; in the same rounds the two probes: a hand-off between two threads that spin, there and
back, and one to a thread that sleeps.

Options:
      --replicas N   replicas on logical CPUs (1 to 1024; default: 2)
      --rounds N     rounds, each of 20 samples, or of one after a pause (1 to 100000; default: 200)
      --idle-us N    microseconds of the pause (0 to 10000000; default: 2000)
      --deadline     measure runs with a deadline too
      --json         print one JSON object for each row
      --plot FILE    draw the microseconds of each row and of its probe (.svg)
  -h, --help         show this help
";

/// The number of samples in a round of each row that needs no pause.
const SAMPLES: usize = 20;
/// The number of unmeasured calls before those samples, so that all threads are awake.
const WARM_UP: usize = 20;

const HAND_OFF: &str = "hand-off, spinning";
const WAKE: &str = "hand-off, sleeping";

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut replicas = 2;
    let mut rounds = 200;
    let mut idle_us = 2000;
    let mut deadline = false;
    let mut json = false;
    let mut plot = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("replicas") => replicas = number(arguments, "replicas", REPLICAS)?,
            Long("rounds") => rounds = number(arguments, "rounds", ROUNDS)?,
            Long("idle-us") => idle_us = number(arguments, "idle-us", PAUSE_US)?,
            Long("deadline") => deadline = true,
            Long("json") => json = true,
            Long("plot") => plot = Some(file(arguments, "plot")?),
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    let plot = plot.as_deref().map(Plot::create).transpose()?;
    Ok(Asked::measuring(move || {
        let rows = measure(replicas, rounds, Duration::from_micros(idle_us), deadline)?;
        if let Some(plot) = plot {
            let title = format!("umbo bench run, {replicas} replicas: medians to 99th percentiles");
            plot.durations(&title, &spans(&rows))?;
        }
        Ok(Report::fine(if json {
            as_json(
                &rows,
                rounds,
                &json!({ "replicas": replicas, "idle_us": idle_us }),
            )
        } else {
            as_table(&rows)
        }))
    }))
}

/// A callback that does nothing.
fn empty(context: &ReplicaContext) -> Result<Option<Value>> {
    black_box(context.replica());
    Ok(None)
}

/// A callback that adds up a number of each replica.
fn sum_of_ones(context: &ReplicaContext) -> Result<Option<Value>> {
    let one = Value::Tensor(Tensor::scalar(1.0f32)?);
    black_box(context.all_reduce(ReduceOp::Sum, one)?);
    Ok(None)
}

fn measure(replicas: usize, rounds: usize, idle: Duration, deadline: bool) -> Result<Vec<Row>> {
    let options = Options {
        cpu_replicas: replicas,
        ..Options::default()
    };
    let strategy = Strategy::new(&options)?;
    let owned: Arc<ReplicaFunction> = Arc::new(empty);
    let mut empty_run = || strategy.run(&empty, None).map(drop);
    let mut late_run = || {
        let deadline = Some(Instant::now() + Duration::from_secs(3600));
        let limits = Limits {
            deadline,
            ..Limits::default()
        };
        strategy
            .run_within(Arc::clone(&owned), None, limits, None)
            .map(drop)
    };
    let mut all_reduce = || strategy.run(&sum_of_ones, None).map(drop);
    let partner = Partner::new();
    let mut hand_off = || {
        partner.hand_off();
        Ok(())
    };

    let mut rows = [
        Row::new(HAND_OFF, None),
        Row::new(WAKE, None),
        Row::new("empty run", Some(HAND_OFF)),
        Row::new("empty run after a pause", Some(WAKE)),
        Row::new("all-reduce of a number", Some(HAND_OFF)),
        Row::new("with a deadline", Some(WAKE)),
        Row::new("with one after a pause", Some(WAKE)),
    ];
    for _ in 0..rounds {
        // The partner spins only here, because it would take a processor from the replicas.
        partner.spin(true);
        busy(&mut rows[0], &mut hand_off)?;
        partner.spin(false);
        thread::sleep(idle);
        rows[1].add(timed(&mut hand_off)?);
        busy(&mut rows[2], &mut empty_run)?;
        thread::sleep(idle);
        rows[3].add(timed(&mut empty_run)?);
        busy(&mut rows[4], &mut all_reduce)?;
        if deadline {
            busy(&mut rows[5], &mut late_run)?;
            thread::sleep(idle);
            rows[6].add(timed(&mut late_run)?);
        }
    }
    let shown = if deadline { rows.len() } else { rows.len() - 2 };
    Ok(rows.into_iter().take(shown).collect())
}

fn timed(work: &mut impl FnMut() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn busy(row: &mut Row, work: &mut impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..WARM_UP {
        work()?;
    }
    for _ in 0..SAMPLES {
        row.add(timed(work)?);
    }
    Ok(())
}

/// A thread that replies to numbers. It measures the least cost of dispatching to one thread.
struct Partner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    asked: CachePadded<AtomicU64>,
    answered: CachePadded<AtomicU64>,
    spinning: AtomicBool,
    ended: AtomicBool,
}

impl Partner {
    fn new() -> Partner {
        let shared = Arc::new(Shared::default());
        let partner = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut answered = 0;
            while !partner.ended.load(Ordering::Acquire) {
                let asked = partner.asked.load(Ordering::Acquire);
                if asked != answered {
                    answered = asked;
                    partner.answered.store(answered, Ordering::Release);
                } else if partner.spinning.load(Ordering::Relaxed) {
                    spin_loop();
                } else {
                    thread::park();
                }
            }
        });
        Partner {
            shared,
            thread: Some(thread),
        }
    }

    fn spin(&self, spin: bool) {
        self.shared.spinning.store(spin, Ordering::Relaxed);
        self.wake();
        self.hand_off();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn hand_off(&self) {
        let number = self.shared.asked.load(Ordering::Relaxed) + 1;
        self.shared.asked.store(number, Ordering::Release);
        if !self.shared.spinning.load(Ordering::Relaxed) {
            self.wake();
        }
        while self.shared.answered.load(Ordering::Acquire) != number {
            spin_loop();
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}
