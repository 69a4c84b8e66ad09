//! `umbo scale`: what a training would gain from more processes.

mod chart;
mod model;

use std::fmt::Write;
use std::ops::RangeInclusive;

use lexopt::Arg::{Long, Short};
use serde_json::json;

use crate::arguments::{file, number, numbers};
use crate::drawing::Page;
use crate::failure::Failure;
use crate::{Report, json_text};
use model::Constants;

pub const HELP: &str = "\
Usage: umbo scale [OPTIONS]

Says how long a step takes with 1 to 10,000 processes that each have as many examples as ever, and from
how many on less than half of each is of use. It is a model (docs/scaling.md); its constants are
measured: --compute-ms by the program's own rate, --update-gbs by 'umbo bench update', --message-us by
'umbo bench exchange' with small sizes, which also measures votes.

Options:
      --gradient-mb N    megabytes of all gradients (0.000001 to 1000000; default: 100)
      --compute-ms N     what the replicas of a process compute in a step (0.000001 to 1000000; default: 100)
      --input-ms N       what making a process's own part of a batch takes, beside the computation
                         (0 to 1000000; default: 0)
      --own-input        processes make only their own parts; else each makes whole batches
      --update-gbs N     gigabytes of gradients that a process applies in a second
                         (0.000001 to 1000000; default: 5)
      --message-us N     microseconds that a process spends on a message (0 to 1000000; default: 1)
      --latency-us N     microseconds from one process to another (0 to 1000000; default: 10)
      --votes N          meetings of the ranks in a step, each of which is a vote (0 to 1000; default: 5)
      --processes LIST   numbers of processes to show
                         (1 to 10000; default: 1,2,4,8,16,64,256,1000,4000,10000)
      --gbits LIST       gigabits a second between machines (0.000001 to 1000000; default: 10,100,400)
      --per-machine N    sum on each machine of so many processes first (1 to 10000; default: 1, do not)
      --memory-gbs N     gigabytes a second between processes of a machine
                         (0.000001 to 1000000; default: 5)
      --overlap N        exchange beside this part of the computation (0 to 1; default: 0)
      --plot FILE        draw the efficiency over the number of processes (.svg or .png)
      --json             print one JSON object
  -h, --help             show this help
";

/// More are not asked about.
const MOST: u32 = 10_000;
/// The rows of the table.
const ROWS: [u32; 10] = [1, 2, 4, 8, 16, 64, 256, 1000, 4000, MOST];

/// Amounts and rates, in the units of their options, that cannot be 0.
const SOME: RangeInclusive<f64> = 1e-6..=1e6;
/// Those that can.
const ANY: RangeInclusive<f64> = 0.0..=1e6;

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    let arguments = &mut arguments;
    let mut constants = Constants {
        bytes: 100e6,
        compute: 0.1,
        input: 0.0,
        own_input: false,
        update_rate: 5e9,
        message: 1e-6,
        latency: 10e-6,
        votes: 5.0,
        wire: 0.0,
        per_machine: 1.0,
        memory_rate: 5e9,
        overlap: 0.0,
    };
    let mut gigabits = vec![10.0, 100.0, 400.0];
    let mut rows = ROWS.to_vec();
    let (mut plot, mut as_json) = (None, false);
    while let Some(argument) = arguments.next()? {
        let name = match argument {
            Long(name) => name.to_owned(),
            Short('h') => "help".to_owned(),
            other => return Err(other.unexpected().into()),
        };
        let mut amount = |range, unit: f64| number(arguments, &name, range).map(|it| it * unit);
        match name.as_str() {
            "gradient-mb" => constants.bytes = amount(SOME, 1e6)?,
            "compute-ms" => constants.compute = amount(SOME, 1e-3)?,
            "input-ms" => constants.input = amount(ANY, 1e-3)?,
            "update-gbs" => constants.update_rate = amount(SOME, 1e9)?,
            "message-us" => constants.message = amount(ANY, 1e-6)?,
            "latency-us" => constants.latency = amount(ANY, 1e-6)?,
            "votes" => constants.votes = number(arguments, "votes", 0..=1000u32)?.into(),
            "per-machine" => {
                constants.per_machine = number(arguments, "per-machine", 1..=MOST)?.into();
            }
            "memory-gbs" => constants.memory_rate = amount(SOME, 1e9)?,
            "overlap" => constants.overlap = amount(0.0..=1.0, 1.0)?,
            "gbits" => gigabits = numbers(arguments, "gbits", SOME)?,
            "processes" => rows = numbers(arguments, "processes", 1..=MOST)?,
            "plot" => plot = Some(file(arguments, "plot")?),
            "json" => as_json = true,
            "own-input" => constants.own_input = true,
            "help" => return Ok(Report::fine(HELP)),
            _ => return Err(Long(&name).unexpected().into()),
        }
    }
    let networks: Vec<Network> = gigabits
        .iter()
        .map(|&gigabits| Network {
            gigabits,
            constants: Constants { wire: gigabits * 1e9 / 8.0, ..constants },
        })
        .collect();
    if let Some(plot) = plot {
        Page::create(&plot)?.write(chart::draw(&networks))?;
    }
    let text = if as_json { json_of(&networks, &rows) } else { table_of(&networks, &rows) };
    Ok(Report::fine(text))
}

/// The same step on a network.
pub struct Network {
    pub gigabits: f64,
    pub constants: Constants,
}

fn table_of(networks: &[Network], rows: &[u32]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for network in networks {
        let _ = writeln!(text, "{} Gbit/s", network.gigabits);
        let _ = writeln!(
            text,
            "{:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
            "processes", "step ms", "compute", "exchange", "update", "vote", "efficiency"
        );
        for &processes in rows {
            let step = network.constants.step(f64::from(processes));
            let _ = writeln!(
                text,
                "{processes:>10} {:>11.2} {:>11.2} {:>11.2} {:>11.2} {:>11.3} {:>9.0} %",
                step.seconds() * 1e3,
                step.compute * 1e3,
                step.exchange * 1e3,
                step.update * 1e3,
                step.vote * 1e3,
                100.0 * network.constants.efficiency(f64::from(processes))
            );
        }
        let _ = match network.constants.stops_paying(MOST) {
            Some(processes) => {
                writeln!(text, "From {processes} processes on less than half of each is of use.\n")
            }
            None => writeln!(text, "More than half of each is of use up to {MOST} processes.\n"),
        };
    }
    text
}

fn json_of(networks: &[Network], rows: &[u32]) -> String {
    let objects: Vec<_> = networks
        .iter()
        .map(|network| {
            let rows: Vec<_> = rows
                .iter()
                .map(|&processes| {
                    let step = network.constants.step(f64::from(processes));
                    json!({
                        "processes": processes,
                        "step_ms": step.seconds() * 1e3,
                        "compute_ms": step.compute * 1e3,
                        "exchange_ms": step.exchange * 1e3,
                        "update_ms": step.update * 1e3,
                        "vote_ms": step.vote * 1e3,
                        "efficiency": network.constants.efficiency(f64::from(processes)),
                    })
                })
                .collect();
            json!({
                "gigabits": network.gigabits,
                "stops_paying": network.constants.stops_paying(MOST),
                "steps": rows,
            })
        })
        .collect();
    json_text(&json!({ "networks": objects }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> String {
        run(lexopt::Parser::from_args(words)).unwrap().text
    }

    #[test]
    fn tables_and_objects_are_of_all_networks() {
        let text = said(&["--gbits", "1,1000", "--gradient-mb", "400"]);
        assert!(text.contains("1 Gbit/s") && text.contains("1000 Gbit/s"), "{text}");
        assert!(text.contains("From 2 processes on less than half"), "{text}");
        let object: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
        assert_eq!(object["networks"].as_array().unwrap().len(), 3);
        assert_eq!(object["networks"][0]["steps"][0]["efficiency"], 1.0);
        let some: serde_json::Value =
            serde_json::from_str(&said(&["--json", "--processes", "3,8"])).unwrap();
        let steps = some["networks"][0]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0]["processes"], 3);
        assert_eq!(steps[1]["step_ms"], object["networks"][0]["steps"][3]["step_ms"]);
    }
}
