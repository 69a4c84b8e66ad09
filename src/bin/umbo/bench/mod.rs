//! `umbo bench`: measures the library on this machine.

mod run;
mod table;

use lexopt::Arg::{Long, Short, Value};

use crate::Report;

const HELP: &str = "\
Usage: umbo bench BENCHMARK [OPTIONS]

Measures the library on this machine, together with probes of what the machine can do at best.

Benchmarks:
  run   what a step costs that does nothing

Options:
  -h, --help   show this help; after a benchmark, that benchmark's
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    match arguments.next()? {
        None => Err("which benchmark?".into()),
        Some(Short('h') | Long("help")) => Ok(Report::fine(HELP)),
        Some(Value(benchmark)) => match benchmark.to_str() {
            Some("run") => run::run(arguments),
            _ => Err(format!("unknown benchmark '{}'", benchmark.to_string_lossy()).into()),
        },
        Some(other) => Err(other.unexpected()),
    }
}
