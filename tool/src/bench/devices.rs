//! `umbo bench devices`: what it costs that more replicas than there are devices take turns on them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use lexopt::Arg::{Long, Short};
use lexopt::ValueExt;
use serde_json::json;
use umbo::error::Result;
use umbo::optimizer::{GradientMode, Gradients, Optimizer, apply};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::DType;

use super::break_even::work::Work;
use super::memory::quantile;
use super::model::{What, gradients};
use super::rules::rule_of;
use crate::{Report, json_text};

pub const HELP: &str = "\
Usage: umbo bench devices [OPTIONS]

Measures whole steps, a run with gradients and their update, with one replica on each of some compute
devices, and with more replicas in sync that share the devices and the same work (replicas_in_sync of
umbo_strategy_options). The work is arithmetic on numbers in the first cache. Rounds take turns; shown
are medians of the rounds, how many times as long a step takes with more replicas, with the quartiles
over the rounds, and the bytes of gradients.

Options:
      --devices N           compute devices, logical CPUs (default: 2)
      --replicas-in-sync N  replicas that share them (default: 12)
      --work-us LIST        work of a step, in microseconds of one processor (default: 200,2000,20000)
      --parameters N        numbers in the variable that is updated (default: 100000)
      --rounds N            rounds (default: 40)
      --steps N             steps of each kind in a round, after as many unmeasured ones (default: 10)
      --json                print one JSON object
  -h, --help                show this help
";

struct Asked {
    devices: usize,
    in_sync: usize,
    work_us: Vec<f64>,
    parameters: usize,
    rounds: usize,
    steps: usize,
}

pub fn run(mut arguments: lexopt::Parser) -> std::result::Result<Report, lexopt::Error> {
    let mut asked = Asked {
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
            Long("devices") => asked.devices = arguments.value()?.parse_with(at_least_one)?,
            Long("replicas-in-sync") => {
                asked.in_sync = arguments.value()?.parse_with(at_least_one)?;
            }
            Long("work-us") => asked.work_us = arguments.value()?.parse_with(times)?,
            Long("parameters") => asked.parameters = arguments.value()?.parse_with(at_least_one)?,
            Long("rounds") => asked.rounds = arguments.value()?.parse_with(at_least_one)?,
            Long("steps") => asked.steps = arguments.value()?.parse_with(at_least_one)?,
            Long("json") => json = true,
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            other => return Err(other.unexpected()),
        }
    }
    let measured = measure(&asked).map_err(|error| error.to_string())?;
    Ok(Report::fine(match json {
        true => json_text(&as_json(&asked, &measured)),
        false => as_table(&asked, &measured),
    }))
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or(format!("'{text}'; give 1 or more"))
}

fn times(text: &str) -> std::result::Result<Vec<f64>, String> {
    let problem = |text: &str| format!("'{text}' is no time; give microseconds, 0.1 to 1000000");
    let time = |text: &str| {
        let time = text.parse().ok().filter(|us| (0.1..=1e6).contains(us));
        time.ok_or_else(|| problem(text))
    };
    text.split(',').map(time).collect()
}

/// Steps with the same work.
struct Row {
    work_us: f64,
    /// A step with a replica on each device, and with all that share them, in microseconds, for each round.
    apart: Vec<f64>,
    shared: Vec<f64>,
}

impl Row {
    /// How many times as long a step takes, at the quartile of the rounds that `share` names.
    fn ratio(&self, share: f64) -> f64 {
        let pairs = self.shared.iter().zip(&self.apart);
        quantile(&pairs.map(|(shared, apart)| shared / apart).collect::<Vec<_>>(), share)
    }
}

struct Measured {
    rows: Vec<Row>,
    /// Bytes of gradients, with a replica on each device and with all.
    gradients: [usize; 2],
}

/// A training of which each step does some work.
struct Training {
    strategy: Strategy,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(devices: usize, in_sync: usize, parameters: usize) -> Result<Training> {
        let options =
            Options { cpu_replicas: devices, replicas_in_sync: in_sync, ..Options::default() };
        let strategy = Strategy::new(&options)?;
        let what = What {
            dtype: DType::Float32,
            gradient: None,
            copy: None,
            clip: false,
            rule: "sgd",
            replicas: strategy.num_replicas(),
            bytes: parameters * size_of::<f32>(),
            variables: 1,
        };
        let gradients = gradients(&strategy, &what, 1)?;
        let optimizer = Optimizer::new(strategy.id(), rule_of(what.rule)?, 1e-3)?;
        Ok(Training { strategy, gradients, optimizer })
    }

    fn step(&self, work: Work) -> Result<()> {
        let replicas = self.strategy.num_replicas();
        let step = |context: &ReplicaContext| {
            // Its buffer is made zero, by the thread that would write it.
            self.gradients.view_in(context, 0, GradientMode::Add)?;
            work.of(context.replica(), replicas).execute();
            self.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        self.strategy.run(&step, None)?;
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    /// The median of so many steps, in microseconds, after as many that wake all threads.
    fn steps(&self, work: Work, steps: usize) -> Result<f64> {
        for _ in 0..steps {
            self.step(work)?;
        }
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            let start = Instant::now();
            self.step(work)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(quantile(&times, 0.5))
    }
}

fn measure(asked: &Asked) -> Result<Measured> {
    let apart = Training::new(asked.devices, 0, asked.parameters)?;
    let shared = Training::new(asked.devices, asked.in_sync, asked.parameters)?;
    let unit_us = Work::unit_us();
    let new = |&us: &f64| {
        let units = (us / unit_us).round().max(1.0) as u64;
        let work_us = units as f64 * unit_us;
        (Work::new(units), Row { work_us, apart: Vec::new(), shared: Vec::new() })
    };
    let mut rows: Vec<(Work, Row)> = asked.work_us.iter().map(new).collect();
    for round in 0..asked.rounds {
        for (work, row) in &mut rows {
            // Each comes first as often as the other.
            for at in 0..2 {
                if (round + at) % 2 == 0 {
                    row.apart.push(apart.steps(*work, asked.steps)?);
                } else {
                    row.shared.push(shared.steps(*work, asked.steps)?);
                }
            }
        }
    }
    let bytes = |of: &Training| of.strategy.num_replicas() * asked.parameters * size_of::<f32>();
    Ok(Measured {
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        gradients: [bytes(&apart), bytes(&shared)],
    })
}

fn as_table(asked: &Asked, measured: &Measured) -> String {
    let [of_apart, of_shared] =
        [asked.devices, asked.in_sync].map(|count| format!("{count} replicas us"));
    let mut text =
        format!("{:>9}{of_apart:>17}{of_shared:>17}{:>8}{:>18}\n", "work us", "times", "quartiles");
    for row in &measured.rows {
        let [apart, shared] = [&row.apart, &row.shared].map(|times| quantile(times, 0.5));
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| row.ratio(share));
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

fn as_json(asked: &Asked, measured: &Measured) -> serde_json::Value {
    let of_row = |row: &Row| {
        json!({
            "work_us": row.work_us,
            "apart_us": quantile(&row.apart, 0.5),
            "shared_us": quantile(&row.shared, 0.5),
            "times": row.ratio(0.5),
            "times_quartiles": [row.ratio(0.25), row.ratio(0.75)],
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
