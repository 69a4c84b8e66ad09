//! The common parts of benchmarks of memory-bound operations: their options, rounds and rows.
//!
//! In each round the operation and its probes are timed one after the other, in alternating order,
//! and compared with each other only: the bandwidth of a shared machine changes between rounds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lexopt::Arg::{self, Long, Short};
use lexopt::{Parser, ValueExt};
use serde_json::{Map, Value, json};
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::executor::workers;
use umbo_core::tensor::DType;

use super::machine::ABOVE;
use super::plot::{Line, Plot, Point};
use super::{Asked, device};
use crate::Report;
use crate::arguments::{Bytes, ROUNDS, RangeEnd, file, first_to_last, number, some_of};
use crate::failure::Failure;

/// Each sample moves at least this many bytes, by repetition.
const SAMPLE_BYTES: usize = 16 << 20;
/// Up to this number of bytes, one thread may be faster than several.
const FEW_BYTES: usize = 8 << 20;
const MOST_REPETITIONS: usize = 10_000;

/// The possible options of a benchmark.
pub struct Choices {
    /// The dtypes that are measured by default; `possible` has those that can be chosen.
    pub usual: &'static [DType],
    pub possible: &'static [DType],
    /// Whether it can run on a GPU.
    pub devices: bool,
    /// Whether it has a drawing.
    pub drawing: bool,
}

/// The options that all of these benchmarks have.
pub struct Options {
    pub from: usize,
    pub to: usize,
    pub replicas: Vec<usize>,
    pub dtypes: Vec<DType>,
    pub rounds: usize,
    pub json: bool,
    pub plot: Option<PathBuf>,
    /// The device of the memory, in benchmarks with this option.
    pub device: DeviceId,
}

// Continued lines would lose the indentation of the first.
pub const OPTIONS_HELP: &str = "      --from SIZE        bytes of one replica's tensor, first \
                                size (64 to 64G; default: 4M)
      --to SIZE          last size; sizes double from row to row (64 to 64G; default: 64M)
      --replicas LIST    replicas, some of: 1, 2, 4, 8 (default: 2,4,8)
      --threads N        threads that share the work (1 to 1024; default: one per processor)
      --rounds N         interleaved rounds of operation and probes (1 to 100000; default: 15)
";

pub const LAST_OPTIONS_HELP: &str = "      --json             print one JSON object for each row
      --plot FILE        draw GB/s over sizes, of the library and of the probe (.svg)
  -h, --help             show this help
";

const REPLICAS: [(&str, usize); 4] = [("1", 1), ("2", 2), ("4", 4), ("8", 8)];
/// The first size and the last.
const SIZES: [Bytes; 2] = [Bytes(4 << 20), Bytes(64 << 20)];

impl Options {
    /// Reads the command line. `other` handles the options of a single benchmark, and returns
    /// whether it knew them. `None` means that the user asks for help.
    pub fn read(
        arguments: &mut Parser,
        choices: &Choices,
        mut other: impl FnMut(&str, &mut Parser) -> std::result::Result<bool, Failure>,
    ) -> std::result::Result<Option<Options>, Failure> {
        let mut options = Options {
            from: 0,
            to: 0,
            replicas: vec![2, 4, 8],
            dtypes: choices.usual.to_vec(),
            rounds: 15,
            json: false,
            plot: None,
            device: DeviceId::HOST,
        };
        let mut from = None;
        let mut to = None;
        while let Some(argument) = arguments.next()? {
            let name = match argument {
                Long(name) => name.to_owned(),
                Short('h') => return Ok(None),
                other => return Err(other.unexpected().into()),
            };
            match name.as_str() {
                "help" => return Ok(None),
                "from" => from = Some(number(arguments, "from", Bytes::BLOCKS)?),
                "to" => to = Some(number(arguments, "to", Bytes::BLOCKS)?),
                "replicas" => options.replicas = some_of(arguments, "replicas", &REPLICAS)?,
                "dtype" => {
                    options.dtypes = some_of(arguments, "dtype", &by_name(choices.possible))?
                }
                "threads" => {
                    workers::set_count(number(arguments, "threads", 1..=workers::MAX_COUNT)?)?;
                }
                "rounds" => options.rounds = number(arguments, "rounds", ROUNDS)?,
                "device" if choices.devices => {
                    options.device = device::measured(&arguments.value()?.string()?)?;
                }
                "json" => options.json = true,
                "plot" if choices.drawing => options.plot = Some(file(arguments, "plot")?),
                name if other(name, arguments)? => {}
                name => return Err(Arg::Long(name).unexpected().into()),
            }
        }
        let (from, to) = first_to_last(
            RangeEnd {
                option: "from",
                given: from,
                usual: SIZES[0],
            },
            RangeEnd {
                option: "to",
                given: to,
                usual: SIZES[1],
            },
        )?;
        (options.from, options.to) = (from.0, to.0);
        Ok(Some(options))
    }

    /// The task: to measure rows, to draw them and to print them. If the drawing cannot be written,
    /// this fails at once.
    pub fn measuring(
        self,
        benchmark: &'static str,
        measure: impl FnOnce(&Options) -> Result<Vec<Row>> + 'static,
    ) -> std::result::Result<Asked, Failure> {
        let plot = self.plot.as_deref().map(Plot::create).transpose()?;
        Ok(Asked::measuring(move || {
            let rows = measure(&self)?;
            if let Some(plot) = plot {
                plot.speeds(
                    &format!("umbo bench {benchmark}"),
                    &shared(&rows),
                    &lines(&rows),
                )?;
            }
            let note = device::note(self.device)
                .filter(|_| !self.json)
                .unwrap_or_default();
            Ok(Report::fine(text(benchmark, &rows, self.json) + &note))
        }))
    }

    /// The sizes from the first to the last. Each is twice the one before.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(self.from), |size| size.checked_mul(2))
            .take_while(|&size| size <= self.to)
    }
}

/// The dtypes with their names.
pub fn by_name(dtypes: &[DType]) -> Vec<(&'static str, DType)> {
    dtypes.iter().map(|dtype| (dtype.name(), *dtype)).collect()
}

/// An operation that is timed. It returns the time that counts.
pub type Timed<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// Times all of `work`.
pub fn whole<'a>(mut work: impl FnMut() -> Result<()> + 'a) -> Timed<'a> {
    Box::new(move || {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    })
}

/// The time of one of `repetitions` calls, in microseconds.
fn repeated(repetitions: usize, work: &mut Timed<'_>) -> Result<f64> {
    let mut time = Duration::ZERO;
    for _ in 0..repetitions {
        time += work()?;
    }
    Ok(time.as_secs_f64() * 1e6 / repetitions as f64)
}

/// One row of a table: its labels, and the times of each round.
pub struct Row {
    /// Names and values that distinguish the row from others.
    labels: Vec<(&'static str, Value)>,
    /// The bytes that the operation must read and write.
    traffic: usize,
    ours: Vec<f64>,
    /// The times of the best probe.
    probe: Vec<f64>,
}

impl Row {
    /// Times `ours` and all `probes` in this number of rounds, after one that does not count.
    /// Probes that move few bytes are also timed with only one thread.
    pub fn measure(
        labels: Vec<(&'static str, Value)>,
        traffic: usize,
        rounds: usize,
        ours: Timed<'_>,
        probes: Vec<Timed<'_>>,
    ) -> Result<Row> {
        let repetitions = (SAMPLE_BYTES / traffic.max(1)).clamp(1, MOST_REPETITIONS);
        Row::repeating(repetitions, labels, traffic, rounds, ours, probes)
    }

    /// The same, with memory of a device. An interpreter's times are meaningless, so one round
    /// suffices for it.
    pub fn measure_on(
        device: DeviceId,
        mut labels: Vec<(&'static str, Value)>,
        traffic: usize,
        rounds: usize,
        ours: Timed<'_>,
        probes: Vec<Timed<'_>>,
    ) -> Result<Row> {
        labels.extend(device::labels(device));
        match device::is_real(device) {
            true => Row::measure(labels, traffic, rounds, ours, probes),
            false => Row::repeating(1, labels, traffic, rounds, ours, probes),
        }
    }

    fn repeating(
        repetitions: usize,
        labels: Vec<(&'static str, Value)>,
        traffic: usize,
        rounds: usize,
        ours: Timed<'_>,
        probes: Vec<Timed<'_>>,
    ) -> Result<Row> {
        let mut all: Vec<Timed<'_>> = std::iter::once(ours).chain(probes).collect();
        let mut row = Row {
            labels,
            traffic,
            ours: Vec::new(),
            probe: Vec::new(),
        };
        let mut times = vec![0.0; all.len()];
        let threads = workers::count();
        for round in 0..=rounds {
            let mut order: Vec<usize> = (0..all.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                times[index] = repeated(repetitions, &mut all[index])?;
                // The best possible speed is that of the best number of threads.
                if index > 0 && traffic <= FEW_BYTES && threads > 1 {
                    workers::set_count(1)?;
                    let alone = repeated(repetitions, &mut all[index]);
                    workers::set_count(threads)?;
                    times[index] = times[index].min(alone?);
                }
            }
            if round > 0 {
                row.ours.push(times[0]);
                row.probe
                    .push(times[1..].iter().copied().fold(f64::INFINITY, f64::min));
            }
        }
        Ok(row)
    }

    /// For each round, the time of the probe in percent of the operation's time.
    fn percents(&self) -> Vec<f64> {
        self.ours
            .iter()
            .zip(&self.probe)
            .map(|(ours, probe)| 100.0 * probe / ours)
            .collect()
    }

    /// The speed at the median of `times`.
    fn gigabytes_per_second(&self, times: &[f64]) -> f64 {
        self.traffic as f64 / quantile(times, 0.5) / 1e3
    }

    fn bytes(&self) -> f64 {
        self.label("bytes")
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN)
    }

    fn label(&self, name: &str) -> Option<&Value> {
        self.labels
            .iter()
            .find(|(label, _)| *label == name)
            .map(|(_, value)| value)
    }

    /// The labels with these names as text: `float32, replicas 4`.
    fn described(&self, wanted: impl Fn(&str) -> bool) -> String {
        let parts: Vec<String> = self
            .labels
            .iter()
            // Sizes are on the axis of the drawing.
            .filter(|(name, _)| !["bytes", "rows"].contains(name) && wanted(name))
            .map(|(name, value)| match value.as_str() {
                // These values need no name.
                Some(value) if ["dtype", "op", "rule"].contains(name) => value.to_owned(),
                text => format!("{name} {}", text.unwrap_or(&value.to_string())),
            })
            .collect();
        parts.join(", ")
    }
}

/// Whether the name of a line has this label: it describes the operation, or differs between rows.
fn in_legend(rows: &[Row], name: &str) -> bool {
    let first = rows.first().and_then(|row| row.label(name));
    ["op", "rule", "replicas"].contains(&name) || rows.iter().any(|row| row.label(name) != first)
}

/// The labels that all lines of a drawing share.
fn shared(rows: &[Row]) -> String {
    rows.first().map_or_else(String::new, |row| {
        row.described(|name| !in_legend(rows, name))
    })
}

/// The rows as lines over the sizes.
fn lines(rows: &[Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let point = Point {
            bytes: row.bytes(),
            ours: row.gigabytes_per_second(&row.ours),
            probe: row.gigabytes_per_second(&row.probe),
        };
        let name = row.described(|name| in_legend(rows, name));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
            }),
        }
    }
    lines
}

/// The value that `share` of the values do not exceed, interpolated between two of them if
/// necessary.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share * sorted.len().saturating_sub(1) as f64;
    let at = |index: f64| sorted.get(index as usize).copied().unwrap_or(f64::NAN);
    let low = at(position.floor());
    let high = at(position.ceil());
    low + (high - low) * position.fract()
}

/// The output of the benchmark.
fn text(benchmark: &str, rows: &[Row], json: bool) -> String {
    match json {
        true => lines_of_json(benchmark, rows),
        false => table(rows),
    }
}

fn lines_of_json(benchmark: &str, rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let percents = row.percents();
        let labels: Map<String, Value> = row
            .labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        let mut object = json!({
            "benchmark": benchmark,
            "rounds": row.ours.len(),
            "threads": workers::count(),
            "traffic_bytes": row.traffic,
            "ours_us": quantile(&row.ours, 0.5),
            "probe_us": quantile(&row.probe, 0.5),
            "gigabytes_per_second": row.gigabytes_per_second(&row.ours),
            "percent_of_roof": quantile(&percents, 0.5),
            "percent_of_roof_lower_quartile": quantile(&percents, 0.25),
            "percent_of_roof_upper_quartile": quantile(&percents, 0.75),
        });
        if let Some(object) = object.as_object_mut() {
            object.extend(labels);
        }
        text += &format!("{object}\n");
    }
    text
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else {
        return text;
    };
    for (name, _) in &first.labels {
        text += &format!("{name:>13}");
    }
    text += &format!(
        "{:>13}{:>13}{:>9}{:>9}  (quartiles)\n",
        "time us", "probe us", "GB/s", "% roof"
    );
    for row in rows {
        for (_, value) in &row.labels {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text += &format!("{value:>13}");
        }
        let percents = row.percents();
        let above = if quantile(&percents, 0.5) > 100.0 {
            ABOVE
        } else {
            ""
        };
        let line = format!(
            "{:>13.2}{:>13.2}{:>9.1}{:>9.1}  ({:.1} to {:.1}) {above}",
            quantile(&row.ours, 0.5),
            quantile(&row.probe, 0.5),
            row.gigabytes_per_second(&row.ours),
            quantile(&percents, 0.5),
            quantile(&percents, 0.25),
            quantile(&percents, 0.75),
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_compares_within_rounds() {
        let mut rounds = 0;
        let ours: Timed<'_> = Box::new(|| {
            rounds += 1;
            Ok(Duration::from_micros(20 * rounds))
        });
        let mut probes = 0;
        let probe: Timed<'_> = Box::new(|| {
            probes += 1;
            Ok(Duration::from_micros(10 * probes))
        });
        let slower: Timed<'_> = Box::new(|| Ok(Duration::from_secs(1)));
        let labels = vec![("bytes", json!(64))];
        let row = Row::measure(labels, SAMPLE_BYTES, 5, ours, vec![probe, slower]).unwrap();
        assert_eq!((row.ours.len(), row.percents()), (5, vec![50.0; 5]));
        let line: Value = serde_json::from_str(&text("reduce", &[row], true)).unwrap();
        assert_eq!(
            (&line["percent_of_roof"], &line["bytes"]),
            (&json!(50.0), &json!(64))
        );
    }

    #[test]
    fn rows_that_differ_in_size_alone_are_one_line() {
        let row = |bytes: usize, replicas: usize| Row {
            labels: vec![
                ("bytes", json!(bytes)),
                ("rows", json!(bytes / 4)),
                ("dtype", json!("float32")),
                ("replicas", json!(replicas)),
            ],
            traffic: 1000 * bytes,
            ours: vec![1.0],
            probe: vec![0.5],
        };
        let rows = [row(64, 2), row(128, 2), row(64, 4)];
        let lines = lines(&rows);
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["replicas 2", "replicas 4"]);
        assert_eq!(shared(&rows), "float32");
        let points = lines[0]
            .points
            .iter()
            .map(|point| (point.bytes, point.ours, point.probe));
        assert_eq!(
            points.collect::<Vec<_>>(),
            [(64.0, 64.0, 128.0), (128.0, 128.0, 256.0)]
        );
    }
}
