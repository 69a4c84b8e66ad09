//! `umbo bench break-even`: from how much work on a step is faster on several replicas than on one.

mod chart;
pub mod work;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lexopt::Arg::{Long, Short};
use lexopt::ValueExt;
use serde_json::json;
use umbo::error::Result;
use umbo::optimizer::{GradientMode, Gradients, Optimizer, apply};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::DType;

use super::memory::quantile;
use super::model::{What, gradients};
use super::rules::rule_of;
use crate::Report;
use crate::drawing::Page;
use work::Work;

pub const HELP: &str = "\
Usage: umbo bench break-even [OPTIONS]

Measures whole steps, a run with gradients and their update, on one replica and on several that share
the same work, for more and more work. The work is arithmetic on numbers in the first cache. Rounds
take turns between one replica and several; shown are medians of the rounds, how many times as fast
several are, with the quartiles over the rounds, and the work at which they are even.

Options:
      --replicas N     replicas on logical CPUs to compare with one, 2 or more (default: 2)
      --from-us N      least work of a step, in microseconds of one processor (default: 1)
      --to-us N        most work (default: 256). In between it doubles every second time
      --parameters N   numbers in the variable that is updated (default: 1024)
      --rounds N       rounds (default: 40)
      --steps N        steps of each kind in a round, after as many unmeasured ones (default: 60)
      --json           print one JSON object for each row
      --plot FILE      draw how many times as fast several replicas are (.svg or .png)
  -h, --help           show this help
";

struct Asked {
    replicas: usize,
    from_us: f64,
    to_us: f64,
    parameters: usize,
    rounds: usize,
    steps: usize,
}

pub fn run(mut arguments: lexopt::Parser) -> std::result::Result<Report, lexopt::Error> {
    let mut asked =
        Asked { replicas: 2, from_us: 1.0, to_us: 256.0, parameters: 1024, rounds: 40, steps: 60 };
    let (mut json, mut plot) = (false, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("replicas") => asked.replicas = arguments.value()?.parse_with(several)?,
            Long("from-us") => asked.from_us = arguments.value()?.parse_with(microseconds)?,
            Long("to-us") => asked.to_us = arguments.value()?.parse_with(microseconds)?,
            Long("parameters") => asked.parameters = arguments.value()?.parse_with(at_least_one)?,
            Long("rounds") => asked.rounds = arguments.value()?.parse_with(at_least_one)?,
            Long("steps") => asked.steps = arguments.value()?.parse_with(at_least_one)?,
            Long("json") => json = true,
            Long("plot") => plot = Some(Page::create(Path::new(&arguments.value()?))?),
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            other => return Err(other.unexpected()),
        }
    }
    if asked.to_us < asked.from_us {
        return Err("--to-us is less than --from-us; give at least as much".into());
    }
    let rows = measure(&asked).map_err(|error| error.to_string())?;
    let even = even(&rows);
    if let Some(page) = plot {
        page.write(chart::draw(asked.replicas, &rows, even))?;
    }
    let text = if json { as_json(&asked, &rows, even) } else { as_table(&asked, &rows, even) };
    Ok(Report::fine(text))
}

fn several(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|&count| count > 1).ok_or(format!("'{text}'; give 2 or more"))
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or(format!("'{text}'; give 1 or more"))
}

fn microseconds(text: &str) -> std::result::Result<f64, String> {
    let problem = || format!("'{text}' is no time; give microseconds, 0.1 to 1000000");
    text.parse().ok().filter(|us| (0.1..=1e6).contains(us)).ok_or_else(problem)
}

/// Steps with the same work on one replica and on several.
pub struct Row {
    /// What one processor needs for the work, in microseconds.
    work_us: f64,
    /// A step on one replica and on several, in microseconds, for each round.
    one: Vec<f64>,
    many: Vec<f64>,
}

impl Row {
    /// How many times as fast several replicas were, at the quartile of the rounds that `share` names.
    fn ratio(&self, share: f64) -> f64 {
        let pairs = self.one.iter().zip(&self.many);
        quantile(&pairs.map(|(one, many)| one / many).collect::<Vec<_>>(), share)
    }
}

/// A training of which each step does some work.
struct Training {
    strategy: Strategy,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(replicas: usize, parameters: usize) -> Result<Training> {
        let strategy = Strategy::new(&Options { cpu_replicas: replicas, ..Options::default() })?;
        let what = What {
            dtype: DType::Float32,
            gradient: None,
            copy: None,
            clip: false,
            rule: "sgd",
            replicas,
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

fn measure(asked: &Asked) -> Result<Vec<Row>> {
    let one = Training::new(1, asked.parameters)?;
    let many = Training::new(asked.replicas, asked.parameters)?;
    let unit_us = Work::unit_us();
    let mut amounts: Vec<u64> = amounts(asked.from_us, asked.to_us)
        .map(|us| (us / unit_us).round().max(1.0) as u64)
        .collect();
    // Less than a unit there is not.
    amounts.dedup();
    let new = |units: u64| {
        let row = Row { work_us: units as f64 * unit_us, one: Vec::new(), many: Vec::new() };
        (Work::new(units), row)
    };
    let mut rows: Vec<(Work, Row)> = amounts.into_iter().map(new).collect();
    for round in 0..asked.rounds {
        for (work, row) in &mut rows {
            // Each comes first as often as the other.
            for at in 0..2 {
                if (round + at) % 2 == 0 {
                    row.one.push(one.steps(*work, asked.steps)?);
                } else {
                    row.many.push(many.steps(*work, asked.steps)?);
                }
            }
        }
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// From the least to the most, each by the square root of two more.
fn amounts(from: f64, to: f64) -> impl Iterator<Item = f64> {
    // What rounding has taken away does not leave the last one out.
    (0..)
        .map(move |step| from * 2f64.powf(f64::from(step) / 2.0))
        .take_while(move |&us| us < to * 1.01)
}

/// Where several replicas and one are even.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Even {
    /// Several are faster from so many microseconds of work on.
    At(f64),
    /// They are faster with all the work that was measured.
    Always,
    /// They are not faster with the most work that was measured.
    Never,
}

impl Even {
    fn microseconds(self) -> Option<f64> {
        match self {
            Even::At(us) => Some(us),
            Even::Always | Even::Never => None,
        }
    }
}

/// Behind the last row in which several replicas were no faster: between two rows, where the line through their ratios
/// over the logarithm of the work meets 1.
fn even(rows: &[Row]) -> Even {
    let ratios: Vec<(f64, f64)> = rows.iter().map(|row| (row.work_us, row.ratio(0.5))).collect();
    let Some(last) = ratios.iter().rposition(|&(_, ratio)| ratio <= 1.0) else {
        return Even::Always;
    };
    let Some(&(above_us, above)) = ratios.get(last + 1) else { return Even::Never };
    let (below_us, below) = ratios[last];
    let share = (1.0 - below) / (above - below);
    Even::At(below_us * (above_us / below_us).powf(share))
}

fn as_table(asked: &Asked, rows: &[Row], even: Even) -> String {
    let Asked { replicas, .. } = asked;
    let several = format!("{replicas} replicas");
    let mut text = format!(
        "{:>9}{:>14}{several:>14}{:>12}{:>16}\n",
        "work us", "1 replica us", "times", "quartiles"
    );
    for row in rows {
        let [one, many] = [&row.one, &row.many].map(|times| quantile(times, 0.5));
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| row.ratio(share));
        let quartiles = format!("{low:.2} to {high:.2}");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>9.2}{one:>14.2}{many:>14.2}{middle:>12.2}{quartiles:>16}",
            row.work_us
        );
    }
    let least = rows.first().map_or(f64::NAN, |row| row.work_us);
    let most = rows.last().map_or(f64::NAN, |row| row.work_us);
    text += &match even {
        Even::At(us) => {
            format!(
                "\n{replicas} replicas are faster than one from {us:.1} us of work in a step on.\n"
            )
        }
        Even::Always => {
            format!(
                "\n{replicas} replicas are faster than one from the least work on, {least:.1} us.\n"
            )
        }
        Even::Never => {
            format!("\n{replicas} replicas are not faster than one with {most:.1} us of work.\n")
        }
    };
    text
}

fn as_json(asked: &Asked, rows: &[Row], even: Even) -> String {
    let line = |row: &Row| {
        let object = json!({
            "benchmark": "break-even",
            "replicas": asked.replicas,
            "parameters": asked.parameters,
            "rounds": asked.rounds,
            "work_us": row.work_us,
            "one_us": quantile(&row.one, 0.5),
            "several_us": quantile(&row.many, 0.5),
            "ratio": row.ratio(0.5),
            "ratio_lower_quartile": row.ratio(0.25),
            "ratio_upper_quartile": row.ratio(0.75),
            "even_us": even.microseconds(),
        });
        format!("{object}\n")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(work_us: f64, one: f64, many: f64) -> Row {
        Row { work_us, one: vec![one], many: vec![many] }
    }

    #[test]
    fn the_crossing_lies_between_the_rows_around_it() {
        // Ratios of 0.5, 0.8 and 1.2: in the middle between 4 and 16, as logarithms go.
        let rows = [row(1.0, 1.0, 2.0), row(4.0, 4.0, 5.0), row(16.0, 12.0, 10.0)];
        let Even::At(us) = even(&rows) else { panic!("no crossing") };
        assert!((us - 8.0).abs() < 1e-9, "{us}");
        // What was faster once by chance does not count.
        let rows = [row(1.0, 2.0, 1.0), row(4.0, 4.0, 5.0), row(16.0, 12.0, 10.0)];
        assert_eq!(even(&rows), Even::At(us));
        assert_eq!(even(&rows[..1]), Even::Always);
        assert_eq!(even(&rows[..2]), Even::Never);
    }

    #[test]
    fn quartiles_are_of_the_rounds() {
        let row = Row { work_us: 1.0, one: vec![1.0, 4.0, 9.0], many: vec![1.0, 2.0, 3.0] };
        assert_eq!([0.25, 0.5, 0.75].map(|share| row.ratio(share)), [1.5, 2.0, 2.5]);
    }

    #[test]
    fn amounts_reach_from_the_first_to_the_last() {
        let amounts: Vec<f64> = amounts(1.0, 4.0).collect();
        assert_eq!(amounts.len(), 5);
        assert!((amounts[4] - 4.0).abs() < 1e-9, "{amounts:?}");
    }

    #[test]
    fn the_crossing_is_said() {
        let asked =
            Asked { replicas: 2, from_us: 1.0, to_us: 4.0, parameters: 8, rounds: 1, steps: 1 };
        let rows = [row(4.0, 4.0, 5.0), row(16.0, 12.0, 10.0)];
        let said = as_table(&asked, &rows, even(&rows));
        assert!(said.contains("2 replicas are faster than one from 8.0 us of work"), "{said}");
        let said = as_table(&asked, &rows[1..], even(&rows[1..]));
        assert!(said.contains("from the least work on, 16.0 us"), "{said}");
        let said = as_table(&asked, &rows[..1], even(&rows[..1]));
        assert!(said.contains("not faster than one with 4.0 us"), "{said}");
    }
}
