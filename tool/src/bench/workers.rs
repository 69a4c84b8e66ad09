//! `umbo bench workers`: compares applies with the number of threads that the library chooses, with
//! one, and with all, after a pause in which waiting threads have parked.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use umbo_core::error::Result;
use umbo_core::executor::workers::{self, Costs};
use umbo_core::optimizer::{Optimizer, apply};
use umbo_core::strategy::{Options as StrategyOptions, Strategy};
use umbo_core::tensor::DType;

use super::Asked;
use super::memory::{Choices, Options, quantile};
use super::model::{Model, What};
use super::rules::{names, rule_of, selves};
use crate::Report;
use crate::arguments::{PAUSE_US, number, some_of};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench workers [OPTIONS]

Measures an optimizer's apply to one variable as a training loop does it, after a pause that stands
for the replicas' computing: with one thread, with all threads however little there is to do, and
with as many as the library chooses. The three take turns. All numbers are medians, and in
how many of a hundred applies the library's choice was to share the work.

Options:
      --dtype LIST       types of elements, some of: float32, float64 (default: float32)
      --rule LIST        some of: sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, nadam,
                         radam, lion, lamb, lars, ftrl
                         (default: sgd)
      --pause-us N       microseconds of the pause (0 to 10000000; default: 200)
";

// A continued line would lose its indentation. The measurements of this benchmark have no drawing.
pub const LAST_OPTIONS_HELP: &str = "      --json             print one JSON object for each row
  -h, --help             show this help
";

/// The number of applies of each kind in a round.
const SAMPLES: usize = 20;

/// The kinds of applies, by their number of threads.
const ONE: usize = 0;
const ALL: usize = 1;
const CHOSEN: usize = 2;

const CHOICES: Choices = Choices {
    usual: &[DType::Float32],
    possible: &[DType::Float32, DType::Float64],
    devices: false,
    drawing: false,
};

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut rules = vec!["sgd"];
    let mut pause_us = 200;
    let options = Options::read(arguments, &CHOICES, |name, arguments| {
        match name {
            "rule" => rules = some_of(arguments, "rule", &selves(&names()))?,
            "pause-us" => pause_us = number(arguments, "pause-us", PAUSE_US)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(options) = options else {
        return Ok(Asked::Help);
    };
    Ok(Asked::measuring(move || {
        let rows = measure_all(&options, &rules, Duration::from_micros(pause_us))?;
        Ok(Report::fine(if options.json {
            as_json(&rows)
        } else {
            as_table(&rows)
        }))
    }))
}

fn measure_all(options: &Options, rules: &[&str], pause: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &dtype in &options.dtypes {
        for &rule in rules {
            for &replicas in &options.replicas {
                for bytes in options.sizes() {
                    let benchmark = What {
                        dtype,
                        gradient: None,
                        copy: None,
                        clip: false,
                        average: false,
                        rule,
                        replicas,
                        bytes,
                        variables: 1,
                    };
                    rows.push(measure(options.rounds, pause, &benchmark)?);
                }
            }
        }
    }
    Ok(rows)
}

/// The measurements for one size.
struct Row {
    labels: [(&'static str, Value); 4],
    /// The times in microseconds with one thread, with all threads, and with the number that the
    /// library chose.
    medians: [f64; 3],
    /// The percentage of applies whose work the library shared.
    shared: f64,
}

fn measure(rounds: usize, pause: Duration, benchmark: &What<'_>) -> Result<Row> {
    let options = StrategyOptions {
        cpu_replicas: benchmark.replicas,
        ..StrategyOptions::default()
    };
    let strategy = Strategy::new(&options)?;
    let mut model = Model::new(&strategy, benchmark, 1)?;
    let optimizer = Optimizer::new(strategy.id(), rule_of(benchmark.rule), 1e-3)?;
    model.commit()?;
    apply(&optimizer, &model.gradients)?;
    let threads = workers::count();
    let mut times = [const { Vec::new() }; 3];
    let mut shared = 0;
    // The first round does not count.
    for round in 0..=rounds {
        for kind in [ONE, ALL, CHOSEN] {
            workers::set_count(if kind == ONE { 1 } else { threads })?;
            workers::fix_costs((kind == ALL).then_some(Costs::NONE));
            for _ in 0..SAMPLES {
                model.contribute()?;
                model.commit()?;
                let begin = Instant::now();
                while begin.elapsed() < pause {
                    spin_loop();
                }
                let start = Instant::now();
                let entries = workers::entries();
                apply(&optimizer, &model.gradients)?;
                if round > 0 {
                    times[kind].push(start.elapsed().as_secs_f64() * 1e6);
                    shared += usize::from(kind == CHOSEN && workers::entries() > entries);
                }
            }
        }
    }
    workers::fix_costs(None);
    Ok(Row {
        labels: [
            ("bytes", json!(benchmark.bytes)),
            ("dtype", json!(benchmark.dtype.name())),
            ("rule", json!(benchmark.rule)),
            ("replicas", json!(benchmark.replicas)),
        ],
        medians: times.map(|times| quantile(&times, 0.5)),
        shared: 100.0 * shared as f64 / (rounds * SAMPLES) as f64,
    })
}

fn as_json(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let mut object = json!({
            "benchmark": "workers",
            "threads": workers::count(),
            "one_us": row.medians[ONE],
            "all_us": row.medians[ALL],
            "chosen_us": row.medians[CHOSEN],
            "percent_shared": row.shared,
        });
        if let Some(object) = object.as_object_mut() {
            let labels = row.labels.iter().cloned();
            object.extend(labels.map(|(name, value)| (name.to_owned(), value)));
        }
        format!("{object}\n")
    };
    rows.iter().map(line).collect()
}

fn as_table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text: String = first
        .labels
        .iter()
        .map(|(name, _)| format!("{name:>13}"))
        .collect();
    text += &format!(
        "{:>13}{:>13}{:>13}{:>13}\n",
        "one us", "all us", "chosen us", "% shared"
    );
    for row in rows {
        for (_, value) in &row.labels {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text += &format!("{value:>13}");
        }
        let [one, all, chosen] = row.medians;
        text += &format!("{one:>13.1}{all:>13.1}{chosen:>13.1}{:>13.0}\n", row.shared);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_three_numbers_of_threads() {
        let row = Row {
            labels: [
                ("bytes", json!(80_000)),
                ("dtype", json!("float32")),
                ("rule", json!("sgd")),
                ("replicas", json!(2)),
            ],
            medians: [11.0, 41.0, 12.0],
            shared: 0.0,
        };
        let line: Value = serde_json::from_str(&as_json(std::slice::from_ref(&row))).unwrap();
        assert_eq!(
            (&line["one_us"], &line["chosen_us"]),
            (&json!(11.0), &json!(12.0))
        );
        let table = as_table(&[row]);
        assert!(
            table
                .lines()
                .nth(1)
                .unwrap()
                .ends_with("11.0         41.0         12.0            0")
        );
    }
}
