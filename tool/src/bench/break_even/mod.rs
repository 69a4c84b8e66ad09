//! `umbo bench break-even`: finds the amount of work from which a step is faster on several
//! replicas than on one.

mod chart;

use std::fmt::Write;

use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::error::Result;
use umbo_core::strategy::Options;

use super::Asked;
use super::compared::{Row, Training, measure};
use super::memory::quantile;
use crate::Report;
use crate::arguments::{
    PARAMETERS, REPLICAS, ROUNDS, RangeEnd, STEPS, WORK_US, file, first_to_last, number,
};
use crate::drawing::Page;
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench break-even [OPTIONS]

Measures whole steps, a run with gradients and their update, on one replica and on several that
share the same work, for more and more work. The work is arithmetic on numbers in the first cache.
Rounds take turns between one replica and several; shown are medians of the rounds, how many times
as fast several are, with the quartiles over the rounds, and the work at which they are even.

Options:
      --replicas N     replicas on logical CPUs to compare with one (2 to 1024; default: 2)
      --from-us N      least work of a step, in microseconds of one processor
                       (0.1 to 1000000; default: 1)
      --to-us N        most work (0.1 to 1000000; default: 256); it doubles every second row
      --parameters N   numbers in the variable that is updated (1 to 1000000000; default: 1024)
      --rounds N       rounds (1 to 100000; default: 40)
      --steps N        steps of each kind in a round, after as many unmeasured ones
                       (1 to 1000000; default: 60)
      --json           print one JSON object for each row
      --plot FILE      draw how many times as fast several replicas are (.svg)
  -h, --help           show this help
";

struct Comparison {
    replicas: usize,
    from_us: f64,
    to_us: f64,
    parameters: usize,
    rounds: usize,
    steps: usize,
}

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut asked = Comparison {
        replicas: 2,
        from_us: 0.0,
        to_us: 0.0,
        parameters: 1024,
        rounds: 40,
        steps: 60,
    };
    let mut from_us = None;
    let mut to_us = None;
    let mut json = false;
    let mut plot = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("replicas") => {
                asked.replicas = number(arguments, "replicas", 2..=*REPLICAS.end())?;
            }
            Long("from-us") => from_us = Some(number(arguments, "from-us", WORK_US)?),
            Long("to-us") => to_us = Some(number(arguments, "to-us", WORK_US)?),
            Long("parameters") => asked.parameters = number(arguments, "parameters", PARAMETERS)?,
            Long("rounds") => asked.rounds = number(arguments, "rounds", ROUNDS)?,
            Long("steps") => asked.steps = number(arguments, "steps", STEPS)?,
            Long("json") => json = true,
            Long("plot") => plot = Some(file(arguments, "plot")?),
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    (asked.from_us, asked.to_us) = first_to_last(
        RangeEnd {
            option: "from-us",
            given: from_us,
            usual: 1.0,
        },
        RangeEnd {
            option: "to-us",
            given: to_us,
            usual: 256.0,
        },
    )?;
    let page = plot.as_deref().map(Page::create).transpose()?;
    Ok(Asked::measuring(move || {
        let rows = rows(&asked)?;
        let even = even(&rows);
        if let Some(page) = page {
            page.write(chart::draw(asked.replicas, &rows, even))?;
        }
        let text = if json {
            as_json(&asked, &rows, even)
        } else {
            as_table(&asked, &rows, even)
        };
        Ok(Report::fine(text))
    }))
}

/// The rows. In each, the first training has one replica, and the second one has several.
fn rows(asked: &Comparison) -> Result<Vec<Row>> {
    let training = |replicas| {
        let options = Options {
            cpu_replicas: replicas,
            ..Options::default()
        };
        Training::new(&options, asked.parameters)
    };
    let one = training(1)?;
    let several = training(asked.replicas)?;
    let work_us = amounts(asked.from_us, asked.to_us);
    measure(&one, &several, work_us, asked.rounds, asked.steps)
}

/// The amounts of work from the least to the most. Each is the square root of two times the one
/// before.
fn amounts(from: f64, to: f64) -> impl Iterator<Item = f64> {
    // Rounding must not leave the last one out.
    (0..)
        .map(move |step| from * 2f64.powf(f64::from(step) / 2.0))
        .take_while(move |&us| us < to * 1.01)
}

/// The amount of work at which several replicas and one are equally fast.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Even {
    /// Several replicas are faster from this amount of work on, in microseconds.
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

/// The break-even point after the last row in which several replicas were not faster. It is between
/// two rows, at the point where the line through their ratios, over the logarithm of the work,
/// meets 1.
fn even(rows: &[Row]) -> Even {
    let ratios: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (row.work_us, row.first_to_second(0.5)))
        .collect();
    let Some(last) = ratios.iter().rposition(|&(_, ratio)| ratio <= 1.0) else {
        return Even::Always;
    };
    let Some(&(above_us, above)) = ratios.get(last + 1) else {
        return Even::Never;
    };
    let (below_us, below) = ratios[last];
    let share = (1.0 - below) / (above - below);
    Even::At(below_us * (above_us / below_us).powf(share))
}

fn as_table(asked: &Comparison, rows: &[Row], even: Even) -> String {
    let Comparison { replicas, .. } = asked;
    let several = format!("{replicas} replicas");
    let mut text = format!(
        "{:>9}{:>14}{several:>14}{:>12}{:>16}\n",
        "work us", "1 replica us", "times", "quartiles"
    );
    for row in rows {
        let [one, many] = [&row.first, &row.second].map(|times| quantile(times, 0.5));
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| row.first_to_second(share));
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
                "\n{replicas} replicas are faster than one from the least work on, {least:.1} \
                 us.\n"
            )
        }
        Even::Never => {
            format!("\n{replicas} replicas are not faster than one with {most:.1} us of work.\n")
        }
    };
    text
}

fn as_json(asked: &Comparison, rows: &[Row], even: Even) -> String {
    let line = |row: &Row| {
        let object = json!({
            "benchmark": "break-even",
            "replicas": asked.replicas,
            "parameters": asked.parameters,
            "rounds": asked.rounds,
            "work_us": row.work_us,
            "one_us": quantile(&row.first, 0.5),
            "several_us": quantile(&row.second, 0.5),
            "ratio": row.first_to_second(0.5),
            "ratio_lower_quartile": row.first_to_second(0.25),
            "ratio_upper_quartile": row.first_to_second(0.75),
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
        Row {
            work_us,
            first: vec![one],
            second: vec![many],
        }
    }

    #[test]
    fn the_crossing_lies_between_the_rows_around_it() {
        // The ratios are 0.5, 0.8 and 1.2, so the point is in the middle between 4 and 16 on a
        // logarithmic scale.
        let rows = [
            row(1.0, 1.0, 2.0),
            row(4.0, 4.0, 5.0),
            row(16.0, 12.0, 10.0),
        ];
        let Even::At(us) = even(&rows) else {
            panic!("no crossing")
        };
        assert!((us - 8.0).abs() < 1e-9, "{us}");
        // A single faster row does not count, because it may be due to chance.
        let rows = [
            row(1.0, 2.0, 1.0),
            row(4.0, 4.0, 5.0),
            row(16.0, 12.0, 10.0),
        ];
        assert_eq!(even(&rows), Even::At(us));
        assert_eq!(even(&rows[..1]), Even::Always);
        assert_eq!(even(&rows[..2]), Even::Never);
    }

    #[test]
    fn amounts_reach_from_the_first_to_the_last() {
        let amounts: Vec<f64> = amounts(1.0, 4.0).collect();
        assert_eq!(amounts.len(), 5);
        assert!((amounts[4] - 4.0).abs() < 1e-9, "{amounts:?}");
    }

    #[test]
    fn the_crossing_is_said() {
        let asked = Comparison {
            replicas: 2,
            from_us: 1.0,
            to_us: 4.0,
            parameters: 8,
            rounds: 1,
            steps: 1,
        };
        let rows = [row(4.0, 4.0, 5.0), row(16.0, 12.0, 10.0)];
        let said = as_table(&asked, &rows, even(&rows));
        assert!(
            said.contains("2 replicas are faster than one from 8.0 us of work"),
            "{said}"
        );
        let said = as_table(&asked, &rows[1..], even(&rows[1..]));
        assert!(said.contains("from the least work on, 16.0 us"), "{said}");
        let said = as_table(&asked, &rows[..1], even(&rows[..1]));
        assert!(said.contains("not faster than one with 4.0 us"), "{said}");
    }
}
