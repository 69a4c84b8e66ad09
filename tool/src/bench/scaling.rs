//! `umbo bench scaling`: measures steps with known work over several processes, which
//! `docs/scale.py` predicts.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::mpi;
use umbo_core::error::Result;
use umbo_core::optimizer::{GradientMode, Gradients, Optimizer, apply};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};

use super::Asked;
use super::memory::quantile;
use super::model::{What, gradients};
use super::rules::rule_of;
use super::work::Work;
use crate::Report;
use crate::arguments::{Bytes, STEPS, number};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: mpirun -n PROCESSES umbo bench scaling [OPTIONS]

Measures whole steps of a training over processes with one replica each: a run that does a fixed
amount of arithmetic in the first cache, and an update by SGD with gradients of a given size. Every
process does as much as one alone. Shown are medians of rank 0, whose steps end with those of the
others. scripts/check_scaling.py compares them with what docs/scale.py says. The MPI library needs
the standard ABI, as for 'umbo bench exchange'.

Options:
      --bytes SIZE      bytes of all gradients (64 to 64G; default: 16M)
      --compute-ms N    milliseconds of arithmetic in a step, as this machine does it alone
                        (0.01 to 10000; default: 20)
      --work N          the same as a number of units, which another run has shown
                        (1 to 1000000000000)
      --steps N         steps, after a tenth as many that are not counted (1 to 1000000; default:
                        60)
      --json            print one JSON object
  -h, --help            show this help
";

/// The number of variables of the gradients.
const VARIABLES: usize = 8;

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut bytes = Bytes(16 << 20);
    let mut compute_ms = 20.0;
    let mut work = None;
    let mut steps = 60;
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("bytes") => bytes = number(arguments, "bytes", Bytes::BLOCKS)?,
            Long("compute-ms") => compute_ms = number(arguments, "compute-ms", 0.01..=1e4)?,
            Long("work") => work = Some(number(arguments, "work", 1..=1_000_000_000_000u64)?),
            Long("steps") => steps = number(arguments, "steps", STEPS)?,
            Long("json") => json = true,
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Asked::measuring(move || {
        let units = work.unwrap_or_else(|| (compute_ms * 1e3 / Work::unit_us()).max(1.0) as u64);
        let Some(measured) = measure(bytes.0, units, steps)? else {
            return Ok(Report::fine(""));
        };
        Ok(Report::fine(if json {
            measured.as_json()
        } else {
            measured.as_table()
        }))
    }))
}

/// The medians over the steps, in milliseconds.
struct Measured {
    processes: usize,
    bytes: usize,
    work: u64,
    step: f64,
    /// The time of this process's arithmetic.
    compute: f64,
    /// The time of the call that updates, including all communication between the processes for
    /// it.
    apply: f64,
}

/// Measures. Returns nothing on ranks other than the first.
fn measure(bytes: usize, units: u64, steps: usize) -> Result<Option<Measured>> {
    let communicator: Arc<dyn Communicator> = Arc::new(mpi::world(&mpi::MpiOptions::default())?);
    let rank = communicator.rank();
    let processes = communicator.size();
    let strategy = Strategy::new(&Options {
        cpu_replicas: 1,
        communicator: Some(Arc::clone(&communicator)),
        // If threads were bound, every process would bind its replica to the same processor.
        bind_threads: false,
        ..Options::default()
    })?;
    let benchmark = What::plain(1, bytes, VARIABLES);
    let training = Training {
        gradients: gradients(&strategy, &benchmark, VARIABLES)?,
        optimizer: Optimizer::new(strategy.id(), rule_of(benchmark.rule), 1e-3)?,
        strategy,
        work: Work::new(units),
    };
    let mut times = [const { Vec::new() }; 3];
    for step in 0..steps + steps.div_ceil(10) {
        let taken = training.step()?;
        if step >= steps.div_ceil(10) {
            times
                .iter_mut()
                .zip(taken)
                .for_each(|(times, time)| times.push(time));
        }
    }
    let [step, compute, apply] = times.map(|times| quantile(&times, 0.5));
    let work = units;
    Ok((rank == 0).then_some(Measured {
        processes,
        bytes,
        work,
        step,
        compute,
        apply,
    }))
}

struct Training {
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    strategy: Strategy,
    work: Work,
}

impl Training {
    /// The times of a step, its arithmetic and its update, in milliseconds.
    fn step(&self) -> Result<[f64; 3]> {
        let nanoseconds = AtomicU64::new(0);
        let callback = |context: &ReplicaContext| {
            let start = Instant::now();
            self.work.execute();
            let taken = start.elapsed().as_nanos();
            nanoseconds.store(u64::try_from(taken).unwrap_or(u64::MAX), Ordering::Relaxed);
            for index in 0..self.gradients.variables().len() {
                // The contents from the first step are kept.
                self.gradients
                    .view_in(context, index, GradientMode::Overwrite)?;
            }
            self.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        let start = Instant::now();
        self.strategy.run(&callback, None)?;
        let ran = start.elapsed();
        apply(&self.optimizer, &self.gradients)?;
        let all = start.elapsed();
        let compute = nanoseconds.load(Ordering::Relaxed) as f64 / 1e6;
        Ok([
            all.as_secs_f64() * 1e3,
            compute,
            (all - ran).as_secs_f64() * 1e3,
        ])
    }
}

impl Measured {
    fn as_json(&self) -> String {
        let object = json!({
            "benchmark": "scaling",
            "processes": self.processes,
            "bytes": self.bytes,
            "work": self.work,
            "step_ms": self.step,
            "compute_ms": self.compute,
            "apply_ms": self.apply,
        });
        object.to_string() + "\n"
    }

    fn as_table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>10} {:>10} {:>11} {:>11} {:>11}",
            "processes", "MiB", "step ms", "compute ms", "update ms"
        );
        let _ = writeln!(
            text,
            "{:>10} {:>10.2} {:>11.2} {:>11.2} {:>11.2}",
            self.processes,
            self.bytes as f64 / f64::from(1 << 20),
            self.step,
            self.compute,
            self.apply
        );
        let _ = writeln!(
            text,
            "\n{} units of arithmetic in each step (--work).",
            self.work
        );
        text
    }
}
