//! Simulates one training and prints what became of it, as a JSON object.

#![deny(unsafe_code)]

use std::process::ExitCode;

use lexopt::Arg::{Long, Short};
use lexopt::ValueExt;
use serde_json::json;
use simulation::counts::Kind;
use simulation::network::Network;
use simulation::training::{Setting, Simulated};

const HELP: &str = "\
Usage: simulation [OPTIONS]

Simulates steps of a training in virtual time, with the library's own code on a thread for each
rank. scripts/simulate.py compares many of them with docs/scale.py.

Options:
      --ranks N         ranks, of one replica each (default: 8)
      --variables N     variables (default: 16)
      --bytes N         bytes of all variables together, of float32 (default: 1048576)
      --steps N         steps, after one that is not counted (default: 2)
      --compute-us X    microseconds that a rank computes in a step (default: 0)
      --latency-us X    microseconds from one rank to another (default: 10)
      --gbits X         gigabits a second into and out of a rank (default: 100)
      --message-us X    microseconds that a rank spends on a message (default: 1)
      --spread X        drawn numbers lie within this part of their mean (default: 0.2)
      --seed N          what is drawn depends on it (default: 1)
      --uneven          ranks have different numbers of examples
  -h, --help            show this help
";

fn main() -> ExitCode {
    match simulated() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("simulation: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn simulated() -> Result<String, Box<dyn std::error::Error>> {
    let Some(setting) = read()? else {
        return Ok(HELP.trim_end().to_owned());
    };
    let simulated = setting.simulate().map_err(|error| error.to_string())?;
    Ok(report(&setting, &simulated).to_string())
}

fn read() -> Result<Option<Setting>, lexopt::Error> {
    let network = Network {
        latency_us: 10.0,
        gbits: 100.0,
        message_us: 1.0,
        spread: 0.2,
        seed: 1,
    };
    let mut setting = Setting {
        network,
        ranks: 8,
        variables: 16,
        bytes: 1 << 20,
        compute_us: 0.0,
        steps: 2,
        uneven: false,
        failing: None,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("ranks") => setting.ranks = arguments.value()?.parse()?,
            Long("variables") => setting.variables = arguments.value()?.parse()?,
            Long("bytes") => setting.bytes = arguments.value()?.parse()?,
            Long("steps") => setting.steps = arguments.value()?.parse()?,
            Long("compute-us") => setting.compute_us = arguments.value()?.parse()?,
            Long("latency-us") => setting.network.latency_us = arguments.value()?.parse()?,
            Long("gbits") => setting.network.gbits = arguments.value()?.parse()?,
            Long("message-us") => setting.network.message_us = arguments.value()?.parse()?,
            Long("spread") => setting.network.spread = arguments.value()?.parse()?,
            Long("seed") => setting.network.seed = arguments.value()?.parse()?,
            Long("uneven") => setting.uneven = true,
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(setting))
}

/// Numbers are of one step.
fn report(setting: &Setting, simulated: &Simulated) -> serde_json::Value {
    let kinds = Kind::ALL.map(|(kind, name)| {
        let most = simulated.most.of(kind);
        let total = simulated.total.of(kind);
        let per_step = |number: u64| number as f64 / setting.steps as f64;
        json!({
            "kind": name,
            "calls": per_step(most.calls),
            "messages": per_step(most.messages),
            "bytes": per_step(most.bytes),
            "messages_of_all": per_step(total.messages),
            "bytes_of_all": per_step(total.bytes),
        })
    });
    json!({
        "ranks": setting.ranks,
        "variables": setting.variables,
        "bytes": setting.bytes,
        "seed": setting.network.seed,
        "step_us": simulated.step as f64 / 1e6,
        "kinds": kinds,
        "memory": simulated.memory,
        "memory_needed": setting.memory_needed(),
        "work_us": simulated.work as f64 / 1e3,
        "fingerprint": format!("{:016x}", simulated.fingerprint),
    })
}
