//! Where an epoch finds its iterator, and where it leaves it: drawn sequences of epochs, loops by
//! hand and positions, beside a model of the one rule that the header states.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result};
use umbo_core::input::{Dataset, DistributeOptions, PassIterator, Sharding, distribute_dataset};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::strategy::{ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::training::{Epoch, EpochReport};
use umbo_core::values::Value;

use super::engine::ranks;
use super::lengths::counted_batches;
use super::on_ranks;
use super::pairwise::pairwise;
use super::passed_over::epoch_over;

/// The rows of a batch, so that each of the replicas of all ranks has one.
const ROWS: i64 = 6;
const SEQUENCES: u64 = 40;
const LONGEST: usize = 7;

/// The batches of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Data {
    /// So many, as is known before.
    Known(u64),
    /// So many of a generator.
    Unknown(u64),
    /// Three, again and again.
    Endless,
}

const DATA: [Data; 7] = [
    Data::Known(0),
    Data::Known(1),
    Data::Known(3),
    Data::Unknown(0),
    Data::Unknown(1),
    Data::Unknown(3),
    Data::Endless,
];

#[derive(Clone, Copy, Debug)]
enum Action {
    Epoch {
        most: Option<u64>,
        resets: bool,
        keeps_metrics: bool,
        /// The step that fails, counted from 1, and whether it fails by its progress function,
        /// after it has taken effect.
        fails: Option<(u64, bool)>,
    },
    /// Takes an element by hand.
    Next,
    /// Another iterator continues from the position.
    Move,
    Reset,
}

/// An iterator in the model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Modelled {
    at: u64,
    ended: bool,
    is_given_back: bool,
}

/// What an epoch did.
#[derive(Debug, PartialEq)]
struct Seen {
    batches: Vec<u64>,
    /// The steps of its report, and whether the pass has ended; nothing of an epoch that failed.
    report: Option<(u64, bool)>,
}

impl Modelled {
    fn restart(&mut self) {
        *self = Modelled::default();
    }

    /// The element at this place, of `count`.
    fn take(&mut self, count: Option<u64>) -> Option<u64> {
        if self.ended || Some(self.at) == count {
            self.ended = true;
            return None;
        }
        self.is_given_back = false;
        self.at += 1;
        Some(self.at - 1)
    }

    /// `are_several` ranks end an epoch that has all of its steps alike, whatever one reports.
    fn epoch(&mut self, data: Data, knows_end: bool, are_several: bool, action: Action) -> Seen {
        let Action::Epoch {
            most,
            resets,
            fails,
            ..
        } = action
        else {
            unreachable!("only for epochs");
        };
        let mut seen = Seen {
            batches: Vec::new(),
            report: None,
        };
        let (count, mut steps, mut ends) = (data.count(), 0, false);
        if resets && self.ended && most != Some(0) {
            self.restart();
        }
        while most.is_none_or(|most| steps < most) {
            let Some(batch) = self.take(count) else {
                ends = true;
                break;
            };
            if fails == Some((steps + 1, false)) {
                (self.at, self.is_given_back) = (batch, true);
                return seen;
            }
            seen.batches.push(batch);
            steps += 1;
            if fails == Some((steps, true)) {
                if are_several && most == Some(steps) {
                    self.end(count, knows_end, resets);
                }
                return seen;
            }
        }
        if steps > 0 {
            ends |= self.end(count, knows_end, resets);
        } else if ends && resets {
            self.restart();
        }
        seen.report = Some((steps, ends));
        seen
    }

    /// The end of an epoch with steps, and whether it is the end of its pass.
    fn end(&mut self, count: Option<u64>, knows_end: bool, resets: bool) -> bool {
        self.ended |= knows_end && Some(self.at) == count;
        let ended = self.ended;
        if ended && resets {
            self.restart();
        }
        ended
    }
}

impl Data {
    fn count(self) -> Option<u64> {
        match self {
            Data::Known(count) | Data::Unknown(count) => Some(count),
            Data::Endless => None,
        }
    }

    fn dataset(self) -> Dataset {
        match self {
            Data::Known(count) => range(count),
            Data::Unknown(count) => counted_batches(count as i32),
            Data::Endless => range(3).repeat(-1).unwrap(),
        }
    }
}

fn range(batches: u64) -> Dataset {
    let rows = Dataset::range(0, ROWS * batches as i64, 1).unwrap();
    rows.batch(ROWS, false).unwrap()
}

fn draw(random: &mut ChaCha8Rng, data: Data) -> Action {
    match random.random_range(0..9) {
        0 => Action::Next,
        1 => Action::Move,
        2 => Action::Reset,
        _ => {
            let steps = [Some(0), Some(1), Some(2), Some(3), Some(4), None];
            let bounded = &steps[..5];
            let most = match data {
                Data::Endless => bounded.choose(random),
                _ => steps.choose(random),
            };
            Action::Epoch {
                most: most.copied().flatten(),
                resets: random.random_bool(0.7),
                keeps_metrics: random.random_bool(0.3),
                fails: random
                    .random_bool(0.3)
                    .then(|| (random.random_range(1..4), random.random_bool(0.5))),
            }
        }
    }
}

/// The number of a batch, of which this rank has a part.
fn number_of(batch: &Value) -> Option<u64> {
    let rows = (0..batch.count()).find_map(|replica| {
        let part = batch.tensor_of(replica).ok()?;
        let numbers = part.to_vec::<i64>().ok().or_else(|| {
            let small = part.to_vec::<i32>().ok()?;
            Some(small.into_iter().map(i64::from).collect())
        })?;
        numbers.first().copied()
    });
    rows.map(|row| (row / ROWS) as u64)
}

struct Scene {
    strategy: Strategy,
    /// How many ranks there are.
    size: usize,
    data: Data,
    read_ahead: i64,
    sharding: Sharding,
    metrics: Arc<Metrics>,
}

impl Scene {
    fn iterator(&self) -> PassIterator {
        let options = DistributeOptions {
            sharding: self.sharding,
            read_ahead: Some(self.read_ahead),
            ..DistributeOptions::default()
        };
        let dataset = self.data.dataset();
        let distributed = distribute_dataset(&self.strategy, &dataset, &options);
        distributed.unwrap().iterator().unwrap()
    }

    /// Runs an epoch, whose batches are those that replica 0 of this rank has seen in steps that
    /// took effect.
    fn epoch(&self, iterator: &PassIterator, action: Action) -> Seen {
        let Action::Epoch {
            most,
            resets,
            keeps_metrics,
            fails,
        } = action
        else {
            unreachable!("only for epochs");
        };
        let current = Arc::new(Mutex::new(None));
        let begun = Arc::new(AtomicU64::new(0));
        let step: Arc<ReplicaFunction> = {
            let current = Arc::clone(&current);
            let begun = Arc::clone(&begun);
            Arc::new(move |context: &ReplicaContext| {
                if context.replica() != 0 {
                    return Ok(None);
                }
                let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                let batch = context.arguments()?.unwrap();
                *current.lock().unwrap() = number_of(&batch);
                match fails == Some((number, false)) {
                    true => Err(Error::Cancelled("as planned".into())),
                    false => Ok(None),
                }
            })
        };
        let mut batches = Vec::new();
        let epoch = Epoch {
            max_steps: most,
            reset: resets,
            metrics: Some(&self.metrics),
            keep_metrics: keeps_metrics,
            ..epoch_over(&self.strategy, iterator)
        };
        let mut progress = |report: &EpochReport, _: Option<&_>| -> Result<()> {
            batches.push(current.lock().unwrap().take().unwrap());
            match fails == Some((report.steps, true)) {
                true => Err(Error::Cancelled("as planned".into())),
                false => Ok(()),
            }
        };
        let done = epoch.run(&OwnedCallback::of(step), &|_, _, _| Ok(()), &mut progress);
        let report = done.map_or_else(
            |error| {
                assert!(error.to_string().contains("as planned"), "{error}");
                None
            },
            |report| Some((report.steps, report.pass_ended)),
        );
        Seen { batches, report }
    }

    fn check(&self, seed: u64, knows_end: bool) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut iterator = self.iterator();
        let mut model = Modelled::default();
        let mut done = Vec::new();
        for _ in 0..random.random_range(1..=LONGEST) {
            let action = draw(&mut random, self.data);
            done.push(action);
            let case = format!("{:?}, knows its end: {knows_end}, {done:?}", self.data);
            match action {
                Action::Epoch { .. } => {
                    let are_several = self.size > 1;
                    let mut expected = model.epoch(self.data, knows_end, are_several, action);
                    if self.data == Data::Endless {
                        expected.batches.iter_mut().for_each(|batch| *batch %= 3);
                    }
                    assert_eq!(self.epoch(&iterator, action), expected, "{case}");
                }
                // Who is given the end twice is warned.
                Action::Next if model.ended => {}
                Action::Next => {
                    if std::mem::take(&mut model.is_given_back) {
                        model.at += 1;
                    }
                    let came = iterator.next().unwrap().is_some();
                    assert_eq!(came, model.take(self.data.count()).is_some(), "{case}");
                }
                Action::Move => {
                    let position = iterator.save_position().unwrap();
                    iterator = self.iterator();
                    iterator.restore_position(&position).unwrap();
                    model.is_given_back = false;
                }
                Action::Reset => {
                    iterator.reset().unwrap();
                    model.restart();
                }
            }
            assert_eq!(iterator.has_ended().unwrap(), model.ended, "{case}");
        }
    }
}

#[test]
fn epochs_begin_and_end_passes_as_the_header_says() {
    let shardings = [Sharding::Data, Sharding::Off];
    for row in pairwise(&[DATA.len(), shardings.len(), 2, 2, 2]) {
        let data = DATA[row[0]];
        let sharding = shardings[row[1]];
        let size = 1 + row[2];
        let replicas = 1 + row[3];
        let read_ahead = [0, 2][row[4]];
        // One process looks for another element. Ranks with data of their own do not know how long
        // those of the others are.
        let knows_end = size == 1 || matches!(data, Data::Known(_)) && sharding == Sharding::Data;
        on_ranks(&ranks(size), replicas, |_, strategy| {
            let strategy = strategy.unwrap();
            let metrics = Metrics::new(&strategy);
            metrics.define("rows", MetricKind::Mean).unwrap();
            let scene = Scene {
                strategy,
                size,
                data,
                read_ahead,
                sharding,
                metrics,
            };
            (0..SEQUENCES).for_each(|seed| scene.check(seed, knows_end));
        });
    }
}
