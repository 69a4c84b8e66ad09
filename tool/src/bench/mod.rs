//! `umbo bench`: measures the library on this machine.

mod break_even;
mod compared;
mod copies;
mod device;
mod devices;
mod exchange;
mod gather;
mod input;
mod machine;
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
use machine::{Watch, annotate};

pub const HELP: &str = "\
Usage: umbo bench BENCHMARK [OPTIONS]

Measures the library on this machine, together with probes of what the machine can do at best, and
says how busy other processes were meanwhile.

Benchmarks:
  run      what a step costs that does nothing
  reduce   sums and means over replicas, against the speed of memory
  gather   concatenations, against the speed of memory
  input    batches on their way to the replicas, against the speed of a copy
  update   optimizers' updates from all replicas' gradients, against the speed of memory
  rows     the same of some rows of a table, against the speed of memory for as many bytes
  workers  small updates with the number of threads that the library chooses, and with others
  watch    what measuring steps and tracing them costs
  break-even from how much work on a step is faster on several replicas than on one
  devices  what it costs that replicas share compute devices
  exchange gradients of several processes on their way to one sum, over MPI, against MPI_Allreduce
  scaling  steps of a training of known work over processes, which 'umbo scale' predicts

Options:
  -h, --help   show this help; after a benchmark, that benchmark's
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    match arguments.next()? {
        None => Err("which benchmark?".into()),
        Some(Short('h') | Long("help")) => Ok(Report::fine(HELP)),
        Some(Value(benchmark)) => {
            machine::warn_if_busy();
            let watch = Watch::begin();
            let mut report = match benchmark.to_str() {
                Some("run") => run::run(arguments),
                Some("reduce") => reduce::run(arguments),
                Some("gather") => gather::run(arguments),
                Some("input") => input::run(arguments),
                Some("update") => update::run(arguments),
                Some("workers") => workers::run(arguments),
                Some("rows") => rows::run(arguments),
                Some("watch") => watch::run(arguments),
                Some("break-even") => break_even::run(arguments),
                Some("devices") => devices::run(arguments),
                Some("exchange") => exchange::run(arguments),
                Some("scaling") => scaling::run(arguments),
                _ => {
                    let names: Vec<&str> = HELPS.iter().map(|(name, _)| *name).collect();
                    let benchmark = benchmark.to_string_lossy();
                    let names = names.join(", ");
                    Err(format!("unknown benchmark '{benchmark}'; there are {names}").into())
                }
            }?;
            if !report.text.is_empty() && !report.text.starts_with("Usage") {
                report.text = annotate(report.text, watch.others());
            }
            Ok(report)
        }
        Some(other) => Err(other.unexpected()),
    }
}

/// The benchmarks with their helps.
pub const HELPS: [(&str, &[&str]); 12] = [
    ("run", &[run::HELP]),
    ("reduce", &[reduce::HELP, device::HELP, memory::OPTIONS_HELP]),
    ("gather", &[gather::HELP, memory::OPTIONS_HELP]),
    ("input", &[input::HELP]),
    ("update", &[update::HELP, device::HELP, memory::OPTIONS_HELP]),
    ("rows", &[rows::HELP, memory::OPTIONS_HELP]),
    ("workers", &[workers::HELP, memory::OPTIONS_HELP]),
    ("watch", &[watch::HELP]),
    ("break-even", &[break_even::HELP]),
    ("devices", &[devices::HELP]),
    ("exchange", &[exchange::HELP]),
    ("scaling", &[scaling::HELP]),
];

/// How many replicas are asked for; 0 would stand for the default.
fn number_of_replicas(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no number of replicas; give 1 or more")),
        Ok(replicas) => Ok(replicas),
    }
}
