//! `umbo bench devices`: measures the cost of more replicas than devices, which take turns on the
//! devices.

use std::fmt::Write;

use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::error::Result;
use umbo_core::strategy::Options;

use super::Asked;
use super::compared::{Row, Training, measure};
use super::memory::quantile;
use crate::arguments::{PARAMETERS, REPLICAS, ROUNDS, STEPS, WORK_US, number, numbers};
use crate::failure::Failure;
use crate::{Report, json_text};

pub const HELP: &str = "\
Usage: umbo bench devices [OPTIONS]

Measures whole steps, a run with gradients and their update, with one replica on each of some
compute devices, and with more replicas in sync that share the devices and the same work
(replicas_in_sync of umbo_strategy_options). The work is arithmetic on numbers in the first cache.
Rounds take turns; shown are medians of the rounds, how many times as long a step takes with more
replicas, with the quartiles over the rounds, and the bytes of gradients.

Options:
      --devices N           compute devices, logical CPUs (1 to 1024; default: 2)
      --replicas-in-sync N  replicas that share them, at least as many (1 to 1024; default: 12)
      --work-us LIST        work of a step, in microseconds of one processor
                            (0.1 to 1000000; default: 200,2000,20000)
      --parameters N        numbers in the variable that is updated (1 to 1000000000; default:
                            100000)
      --rounds N            rounds (1 to 100000; default: 40)
      --steps N             steps of each kind in a round, after as many unmeasured ones
                            (1 to 1000000; default: 10)
      --json                print one JSON object
  -h, --help                show this help
";

struct Sharing {
    devices: usize,
    in_sync: usize,
    work_us: Vec<f64>,
    parameters: usize,
    rounds: usize,
    steps: usize,
}

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut asked = Sharing {
        devices: 2,
        in_sync: 12,
        work_us: vec![200.0, 2000.0, 20_000.0],
        parameters: 100_000,
        rounds: 40,
        steps: 10,
    };
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("devices") => asked.devices = number(arguments, "devices", REPLICAS)?,
            Long("replicas-in-sync") => {
                asked.in_sync = number(arguments, "replicas-in-sync", REPLICAS)?;
            }
            Long("work-us") => asked.work_us = numbers(arguments, "work-us", WORK_US)?,
            Long("parameters") => asked.parameters = number(arguments, "parameters", PARAMETERS)?,
            Long("rounds") => asked.rounds = number(arguments, "rounds", ROUNDS)?,
            Long("steps") => asked.steps = number(arguments, "steps", STEPS)?,
            Long("json") => json = true,
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Asked::measuring(move || {
        let measured = measured(&asked)?;
        Ok(Report::fine(match json {
            true => json_text(&as_json(&asked, &measured)),
            false => as_table(&asked, &measured),
        }))
    }))
}

struct Measured {
    /// The rows. In each, the first training has a replica on each device, and the second one has
    /// all replicas that share them.
    rows: Vec<Row>,
    /// The bytes of gradients, with one replica on each device and with all replicas.
    gradients: [usize; 2],
}

fn measured(asked: &Sharing) -> Result<Measured> {
    let training = |replicas_in_sync| {
        let options = Options {
            cpu_replicas: asked.devices,
            replicas_in_sync,
            ..Options::default()
        };
        Training::new(&options, asked.parameters)
    };
    let apart = training(0)?;
    let shared = training(asked.in_sync)?;
    let work_us = asked.work_us.iter().copied();
    let rows = measure(&apart, &shared, work_us, asked.rounds, asked.steps)?;
    let bytes = |training: &Training| training.replicas() * asked.parameters * size_of::<f32>();
    Ok(Measured {
        rows,
        gradients: [bytes(&apart), bytes(&shared)],
    })
}

fn as_table(asked: &Sharing, measured: &Measured) -> String {
    let [of_apart, of_shared] =
        [asked.devices, asked.in_sync].map(|count| format!("{count} replicas us"));
    let mut text = format!(
        "{:>9}{of_apart:>17}{of_shared:>17}{:>8}{:>18}\n",
        "work us", "times", "quartiles"
    );
    for row in &measured.rows {
        let [apart, shared] = [&row.first, &row.second].map(|times| quantile(times, 0.5));
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| row.second_to_first(share));
        let quartiles = format!("{low:.3} to {high:.3}");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>9.0}{apart:>17.1}{shared:>17.1}{middle:>8.3}{quartiles:>18}",
            row.work_us
        );
    }
    let [apart, shared] = measured.gradients;
    text + &format!(
        "on {} compute devices; gradients of {apart} bytes and of {shared}\n",
        asked.devices
    )
}

fn as_json(asked: &Sharing, measured: &Measured) -> serde_json::Value {
    let of_row = |row: &Row| {
        json!({
            "work_us": row.work_us,
            "apart_us": quantile(&row.first, 0.5),
            "shared_us": quantile(&row.second, 0.5),
            "times": row.second_to_first(0.5),
            "times_quartiles": [row.second_to_first(0.25), row.second_to_first(0.75)],
        })
    };
    json!({
        "devices": asked.devices,
        "replicas_in_sync": asked.in_sync,
        "parameters": asked.parameters,
        "rounds": asked.rounds,
        "gradient_bytes": measured.gradients,
        "rows": measured.rows.iter().map(of_row).collect::<Vec<_>>(),
    })
}
