//! `umbo bench input`: measures how fast batches of an array's rows reach the replicas.

use std::hint::black_box;
use std::ops::RangeInclusive;
use std::ptr;
use std::time::{Duration, Instant};

use lexopt::Arg::{Long, Short};
use serde_json::json;
use umbo_core::error::{Error, Result};
use umbo_core::input::{
    Dataset, DistributeOptions, PassIterator, ShuffleOptions, distribute_dataset,
};
use umbo_core::strategy::{Options as StrategyOptions, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Shape};
use umbo_core::values::Value;

use super::Asked;
use super::machine::ABOVE;
use super::memory::quantile;
use super::plot::{Plot, Span};
use super::reduce::filled;
use crate::Report;
use crate::arguments::{REPLICAS, ROUNDS, file, number};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench input [OPTIONS]

Measures passes over an array of float32 rows: shuffled as a whole, batched, and distributed over
replicas. In the same rounds a probe copies the same rows in random order, as fast as one thread
can, to batches that it uses again. All numbers are medians.

Options:
      --samples N      rows of the array (1 to 1000000000; default: 65536)
      --features N     numbers of a row (1 to 1000000; default: 784)
      --batch N        rows of a global batch (1 to 1000000000; default: 1024)
      --replicas N     replicas on logical CPUs (1 to 1024; default: 2)
      --no-shuffle     batches in the array's own order, which are views of it
      --prefetch N     steps made ahead, on a thread of their own (0 to 4096; default: 1)
      --touch          read all numbers on the replicas, instead of handing them over alone
      --rounds N       interleaved rounds of pass and probe (1 to 100000; default: 15)
      --json           print one JSON object
      --plot FILE      draw the microseconds of a batch (.svg)
  -h, --help           show this help
";

/// The numbers of rows of an array and of a batch.
const ROWS: RangeInclusive<usize> = 1..=1_000_000_000;

/// The shortest duration of a round, which has as many passes as needed, so that short passes can
/// be timed.
const ROUND: Duration = Duration::from_millis(50);

struct Options {
    samples: usize,
    features: usize,
    batch: usize,
    replicas: usize,
    shuffle: bool,
    prefetch: u32,
    touch: bool,
    rounds: usize,
}

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut options = Options {
        samples: 65536,
        features: 784,
        batch: 1024,
        replicas: 2,
        shuffle: true,
        prefetch: 1,
        touch: false,
        rounds: 15,
    };
    let mut json = false;
    let mut plot = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("samples") => options.samples = number(arguments, "samples", ROWS)?,
            Long("features") => options.features = number(arguments, "features", 1..=1_000_000)?,
            Long("batch") => options.batch = number(arguments, "batch", ROWS)?,
            Long("replicas") => options.replicas = number(arguments, "replicas", REPLICAS)?,
            Long("shuffle") => options.shuffle = true,
            Long("no-shuffle") => options.shuffle = false,
            Long("prefetch") => options.prefetch = number(arguments, "prefetch", 0..=4096)?,
            Long("touch") => options.touch = true,
            Long("rounds") => options.rounds = number(arguments, "rounds", ROUNDS)?,
            Long("json") => json = true,
            Long("plot") => plot = Some(file(arguments, "plot")?),
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    let plot = plot.as_deref().map(Plot::create).transpose()?;
    Ok(Asked::measuring(move || {
        let measured = measure(&options)?;
        if let Some(plot) = plot {
            draw(plot, &options, &measured)?;
        }
        Ok(Report::fine(text(&options, &measured, json)))
    }))
}

fn draw(plot: Plot, options: &Options, measured: &Measured) -> std::result::Result<(), Failure> {
    let [ours, probe] = [&measured.ours, &measured.probe].map(|rates| {
        rates
            .iter()
            .map(|rate| micros_of_batch(options, *rate))
            .collect::<Vec<_>>()
    });
    let spans = [
        Span::of("library", &ours, Some(&probe)),
        Span::of("probe", &probe, None),
    ];
    let title = format!("umbo bench input, batches of {}: quartiles", options.batch);
    plot.durations(&title, &spans)
}

/// The samples per second of the library and of the probe, for each round.
struct Measured {
    ours: Vec<f64>,
    probe: Vec<f64>,
}

fn measure(options: &Options) -> Result<Measured> {
    let shape = Shape::new(&[options.samples, options.features])?;
    let array = filled(DType::Float32, shape)?;
    let strategy = Strategy::new(&StrategyOptions {
        cpu_replicas: options.replicas,
        ..StrategyOptions::default()
    })?;
    let mut dataset = Dataset::from_tensor_slices(&Value::Tensor(array.clone()))?;
    if options.shuffle {
        dataset = dataset.shuffle(&ShuffleOptions {
            seed: 1,
            ..ShuffleOptions::default()
        })?;
    }
    let batch = i64::try_from(options.batch).unwrap_or(i64::MAX);
    let distribution = DistributeOptions {
        read_ahead: Some(options.prefetch.into()),
        ..DistributeOptions::default()
    };
    let input = distribute_dataset(&strategy, &dataset.batch(batch, false)?, &distribution)?;
    let iterator = input.iterator()?;

    let mut copier = Copier::new(array.to_vec()?, options);
    let mut pass = || consume(&strategy, &iterator, options);
    let mut copy = || {
        copier.copy_all();
        Ok(())
    };

    let mut measured = Measured {
        ours: Vec::new(),
        probe: Vec::new(),
    };
    for round in 0..=options.rounds {
        let (ours, probe) = if round % 2 == 0 {
            let ours = rate(options, &mut pass)?;
            (ours, rate(options, &mut copy)?)
        } else {
            let probe = rate(options, &mut copy)?;
            (rate(options, &mut pass)?, probe)
        };
        // The first round touches the memory for the first time.
        if round > 0 {
            measured.ours.push(ours);
            measured.probe.push(probe);
        }
    }
    Ok(measured)
}

/// The samples per second of a round of passes.
fn rate(options: &Options, pass: &mut impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut passes = 0;
    loop {
        pass()?;
        passes += 1;
        let elapsed = start.elapsed();
        if elapsed >= ROUND {
            return Ok((passes * options.samples) as f64 / elapsed.as_secs_f64());
        }
    }
}

/// Makes one pass as a trainer does, with steps that do nothing.
fn consume(strategy: &Strategy, iterator: &PassIterator, options: &Options) -> Result<()> {
    iterator.reset()?;
    let mut samples = 0;
    while let Some(element) = iterator.next()? {
        samples += match &element {
            Value::Tensor(whole) => whole.shape()[0],
            Value::PerReplica(parts) => parts
                .components()
                .iter()
                .map(|part| black_box(part).shape()[0])
                .sum(),
            _ => 0,
        };
        if options.touch {
            strategy.run(&touch, Some(element))?;
        }
    }
    if samples == options.samples {
        Ok(())
    } else {
        let problem = format!("a pass had {samples} samples of {}", options.samples);
        Err(Error::Internal(problem))
    }
}

/// Reads every number of a replica's part, row by row, into the nearest cache.
fn touch(context: &ReplicaContext) -> Result<Option<Value>> {
    if let Some(Value::Tensor(part)) = context.arguments()? {
        let mut row = vec![0; part.shape()[1] * part.dtype().size()];
        for number in 0..part.shape()[0] {
            part.slice(0, number, number + 1, 1)?
                .copy_to_host(&mut row)?;
            black_box(&row);
        }
    }
    Ok(None)
}

/// The probe, which copies rows of an array to one batch after the other.
struct Copier {
    rows: Vec<f32>,
    features: usize,
    order: Vec<usize>,
    /// There are two, because one batch is filled while the other is in use.
    batches: [Vec<f32>; 2],
    rows_of_batch: usize,
}

impl Copier {
    fn new(rows: Vec<f32>, options: &Options) -> Copier {
        let mut order: Vec<usize> = (0..options.samples).collect();
        if options.shuffle {
            // The order jumps between rows. It need not be uniformly random.
            let mut state = 1u64;
            for last in (1..order.len()).rev() {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                order.swap(last, (state >> 33) as usize % (last + 1));
            }
        }
        let rows_of_batch = options.batch.min(options.samples);
        let batch = || vec![0f32; rows_of_batch * options.features];
        let batches = [batch(), batch()];
        Copier {
            rows,
            features: options.features,
            order,
            batches,
            rows_of_batch,
        }
    }

    fn copy_all(&mut self) {
        let features = self.features;
        for (number, order) in self.order.chunks(self.rows_of_batch).enumerate() {
            let batch = &mut self.batches[number % 2];
            for (to, &row) in batch.chunks_exact_mut(features).zip(order) {
                to.copy_from_slice(&self.rows[row * features..(row + 1) * features]);
            }
            black_box(ptr::from_mut(batch));
        }
    }
}

/// The time of one global batch at a number of samples per second.
fn micros_of_batch(options: &Options, rate: f64) -> f64 {
    options.batch.min(options.samples) as f64 / rate * 1e6
}

fn text(options: &Options, measured: &Measured, json: bool) -> String {
    let median = |values: &[f64]| quantile(values, 0.5);
    let pairs = measured.ours.iter().zip(&measured.probe);
    let percents: Vec<f64> = pairs.map(|(ours, probe)| 100.0 * ours / probe).collect();
    let ours = median(&measured.ours);
    let probe = median(&measured.probe);
    // The bytes of the batches. Bytes that are read and then written count once.
    let gigabytes = |rate: f64| rate * (options.features * size_of::<f32>()) as f64 / 1e9;
    if json {
        let object = json!({
            "benchmark": "input",
            "samples": options.samples,
            "features": options.features,
            "batch": options.batch,
            "replicas": options.replicas,
            "shuffle": options.shuffle,
            "prefetch": options.prefetch,
            "touch": options.touch,
            "rounds": measured.ours.len(),
            "samples_per_second": ours,
            "gigabytes_per_second": gigabytes(ours),
            "probe_samples_per_second": probe,
            "ours_us": micros_of_batch(options, ours),
            "probe_us": micros_of_batch(options, probe),
            "percent_of_roof": median(&percents),
            "percent_of_roof_lower_quartile": quantile(&percents, 0.25),
            "percent_of_roof_upper_quartile": quantile(&percents, 0.75),
        });
        return format!("{object}\n");
    }
    format!(
        "{:<10}{:>18}{:>10}\n{:<10}{ours:>18.0}{:>10.2}\n{:<10}{probe:>18.0}{:>10.2}\nThe library \
         reaches {:.1} percent of the probe ({:.1} to {:.1}){}.\n",
        "",
        "samples/s",
        "GB/s",
        "library",
        gigabytes(ours),
        "probe",
        gigabytes(probe),
        median(&percents),
        quantile(&percents, 0.25),
        quantile(&percents, 0.75),
        if median(&percents) > 100.0 {
            format!(", {ABOVE}")
        } else {
            String::new()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(shuffle: bool, prefetch: u32, touch: bool) -> Options {
        Options {
            samples: 10,
            features: 3,
            batch: 4,
            replicas: 2,
            shuffle,
            prefetch,
            touch,
            rounds: 1,
        }
    }

    #[test]
    fn every_way_is_measured_and_shown() {
        for options in [options(true, 1, false), options(false, 0, true)] {
            let measured = measure(&options).unwrap();
            assert_eq!((measured.ours.len(), measured.probe.len()), (1, 1));
            let line: serde_json::Value =
                serde_json::from_str(&text(&options, &measured, true)).unwrap();
            assert!(line["samples_per_second"].as_f64().unwrap() > 0.0);
            assert_eq!(line["shuffle"], json!(options.shuffle));
            assert!(text(&options, &measured, false).contains("samples/s"));
        }
    }

    #[test]
    fn the_probe_copies_every_row() {
        let rows: Vec<f32> = (0..30u8).map(f32::from).collect();
        let mut copier = Copier::new(rows.clone(), &options(true, 0, false));
        let mut order = copier.order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        copier.copy_all();
        let last = copier.order[8] * 3;
        assert_eq!(copier.batches[0][..3], rows[last..last + 3]);
    }
}
