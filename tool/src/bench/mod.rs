//! `umbo bench`: measures the library on this machine.

mod break_even;
mod compared;
mod copies;
pub mod device;
mod devices;
mod exchange;
mod gather;
mod input;
pub mod machine;
pub mod memory;
mod model;
mod plot;
mod probe;
mod reduce;
mod rows;
mod rules;
mod run;
mod scaling;
mod table;
mod update;
mod watch;
mod work;
mod workers;

use lexopt::Arg::{Long, Short, Value};

use crate::Report;
use crate::failure::Failure;
use machine::annotate;
use umbo_core::diagnose::machine::Watch;

pub const HELP: &str = "\
Usage: umbo bench BENCHMARK [OPTIONS]

Measures the library on this machine, together with probes of what the machine can do at best, and
says how busy other processes were meanwhile.

Benchmarks:
  run         the cost of a step that does nothing
  reduce      reductions over replicas, against the speed of memory
  gather      concatenations, against the speed of memory
  input       batches on their way to the replicas, against the speed of a copy
  update      optimizers' updates from all replicas' gradients, against the speed of memory
  rows        the same for some rows of a table, against the speed of memory for as many bytes
  workers     small updates with the number of threads that the library chooses, and with others
  watch       the cost of measuring steps and of a trace
  break-even  the work of a step from which several replicas are faster than one
  devices     the cost of replicas that share compute devices
  exchange    gradients of several processes on their way to one sum, compared with MPI_Allreduce
  scaling     steps of a training of known work over processes, which docs/scale.py predicts

Options:
  -h, --help  show this help; after a benchmark, that benchmark's
";

/// The work of a benchmark for a command line.
pub enum Asked {
    Help,
    Measuring(Box<dyn FnOnce() -> Result<Report, Failure>>),
}

impl Asked {
    fn measuring(measure: impl FnOnce() -> Result<Report, Failure> + 'static) -> Asked {
        Asked::Measuring(Box::new(measure))
    }
}

pub struct Benchmark {
    pub name: &'static str,
    /// The parts of the benchmark's help.
    pub helps: &'static [&'static str],
    /// Reads its command line. Nothing is measured before the whole command line is right.
    read: fn(&mut lexopt::Parser) -> Result<Asked, Failure>,
}

pub const BENCHMARKS: [Benchmark; 12] = [
    Benchmark {
        name: "run",
        helps: &[run::HELP],
        read: run::read,
    },
    Benchmark {
        name: "reduce",
        helps: &[
            reduce::HELP,
            device::HELP,
            memory::OPTIONS_HELP,
            memory::LAST_OPTIONS_HELP,
        ],
        read: reduce::read,
    },
    Benchmark {
        name: "gather",
        helps: &[
            gather::HELP,
            memory::OPTIONS_HELP,
            memory::LAST_OPTIONS_HELP,
        ],
        read: gather::read,
    },
    Benchmark {
        name: "input",
        helps: &[input::HELP],
        read: input::read,
    },
    Benchmark {
        name: "update",
        helps: &[
            update::HELP,
            device::HELP,
            memory::OPTIONS_HELP,
            memory::LAST_OPTIONS_HELP,
        ],
        read: update::read,
    },
    Benchmark {
        name: "rows",
        helps: &[rows::HELP, memory::OPTIONS_HELP, memory::LAST_OPTIONS_HELP],
        read: rows::read,
    },
    Benchmark {
        name: "workers",
        helps: &[
            workers::HELP,
            memory::OPTIONS_HELP,
            workers::LAST_OPTIONS_HELP,
        ],
        read: workers::read,
    },
    Benchmark {
        name: "watch",
        helps: &[watch::HELP],
        read: watch::read,
    },
    Benchmark {
        name: "break-even",
        helps: &[break_even::HELP],
        read: break_even::read,
    },
    Benchmark {
        name: "devices",
        helps: &[devices::HELP],
        read: devices::read,
    },
    Benchmark {
        name: "exchange",
        helps: &[exchange::HELP],
        read: exchange::read,
    },
    Benchmark {
        name: "scaling",
        helps: &[scaling::HELP],
        read: scaling::read,
    },
];

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    match arguments.next()? {
        None => Err(Failure::wrong("which benchmark?")),
        Some(Short('h') | Long("help")) => Ok(Report::fine(HELP)),
        Some(Value(name)) => {
            let Some(benchmark) = BENCHMARKS.iter().find(|each| name == each.name) else {
                let names = BENCHMARKS.map(|benchmark| benchmark.name).join(", ");
                let name = name.to_string_lossy();
                return Err(Failure::wrong(format!(
                    "unknown benchmark '{name}'; there are {names}"
                )));
            };
            match (benchmark.read)(&mut arguments)? {
                Asked::Help => Ok(Report::fine(benchmark.helps.concat())),
                Asked::Measuring(measure) => measured(measure),
            }
        }
        Some(other) => Err(other.unexpected().into()),
    }
}

/// The report of a benchmark, with the load of others in the same time.
fn measured(measure: impl FnOnce() -> Result<Report, Failure>) -> Result<Report, Failure> {
    // This begins before the check of the machine, so that even the shortest benchmark is long
    // enough for the counters.
    let watch = Watch::begin();
    machine::warn_if_busy();
    let mut report = measure()?;
    // Of several processes, only one reports.
    if !report.text.is_empty() {
        report.text = annotate(report.text, watch.load().map(|load| load.others));
    }
    Ok(report)
}
