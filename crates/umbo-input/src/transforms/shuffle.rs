//! Random orders. For one seed they are the same on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::arguments::in_range;
use crate::cardinality::Cardinality;
use crate::dataset::Dataset;
use crate::passes::given::Given;
use crate::passes::position::{Description, Rounds, StateReader, StateWriter, unfit};
use crate::passes::replay_log::{ReplayLog, SavedLog};
use crate::passes::signature::Signature;
use crate::passes::{Item, IteratorStage};
use crate::properties::DatasetProperties;
use crate::transforms::reorder::Reorder;
use umbo_base::error::{Error, Result, memory};

/// The name of these elements in the message if there is no memory for them.
const SHUFFLED: &str = "elements of a shuffle's buffer";

/// How a dataset is shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShuffleOptions {
    /// The number of elements from which the next one is drawn. 0 stands for all of them, which
    /// makes every order equally likely.
    pub buffer_size: i64,
    /// The seed of the orders. The same seed makes the same orders on every machine.
    pub seed: u64,
    /// Whether all passes and rounds have the same order. If not, each has its own, which depends
    /// on the seed, on how many iterators were made of the dataset before, and on the round.
    pub keep_order_each_pass: bool,
}

impl Dataset {
    /// Shuffles the elements. Over arrays only row numbers are shuffled, and the buffer takes eight
    /// bytes for each. In other datasets the buffer holds elements.
    ///
    /// INVALID_ARGUMENT: a negative buffer size, or 0 (all elements) for an endless dataset. A pass
    /// allocates the buffer when it needs it, and may then fail with RESOURCE_EXHAUSTED.
    pub fn shuffle(&self, options: &ShuffleOptions) -> Result<Dataset> {
        let limit = match in_range("buffer_capacity", options.buffer_size, 0.., "0 or more")? {
            0 if self.cardinality().is_endless() => {
                return Err(invalid!(
                    "buffer_capacity",
                    "the whole dataset, and this one is endless; shuffle before repeat, or set a \
                     capacity"
                ));
            }
            0 => usize::MAX,
            size => size,
        };
        let keep_order = options.keep_order_each_pass;
        self.then(Shuffle {
            limit,
            keep_order,
            ..Shuffle::all(options.seed)
        })
    }
}

#[derive(Clone)]
pub(crate) struct Shuffle {
    pub(crate) seed: u64,
    pub(crate) keep_order: bool,
    /// The largest number of items in the buffer.
    pub(crate) limit: usize,
    /// The number of iterators that were made. They are counted when they are made, and not when a
    /// round begins, so that orders do not depend on how threads interleave.
    pub(crate) passes: Arc<AtomicU64>,
}

impl Shuffle {
    /// A shuffle that draws from all items, with another order in each pass and round.
    pub(crate) fn all(seed: u64) -> Shuffle {
        Shuffle {
            seed,
            keep_order: false,
            limit: usize::MAX,
            passes: Arc::default(),
        }
    }

    /// The random numbers of one round.
    pub(super) fn random(&self, pass: u64, round: u64) -> ChaCha8Rng {
        let (pass, round) = if self.keep_order {
            (0, 0)
        } else {
            (pass, round)
        };
        let mut key = [0; 32];
        for (bytes, number) in key.chunks_exact_mut(8).zip([self.seed, pass, round]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

impl Reorder for Shuffle {
    fn signature(&self) -> Signature {
        Signature::new("shuffle")
            .with(
                "buffer_size",
                (self.limit < usize::MAX).then_some(self.limit),
            )
            .with("keep_order_each_pass", self.keep_order)
    }

    fn reorder(&self, input: &DatasetProperties, properties: &mut DatasetProperties) -> Result<()> {
        properties.reorder(input.cardinality);
        properties
            .order
            .shuffle(!self.keep_order, self.limit == usize::MAX);
        Ok(())
    }

    fn pass<T: Item>(
        &self,
        cardinality: Cardinality,
        mut input: Box<dyn IteratorStage<T>>,
    ) -> Box<dyn IteratorStage<T>> {
        let expected = cardinality.bound().unwrap_or(0).min(self.limit);
        input.reserve(expected);
        Box::new(ShufflePass {
            shuffle: self.clone(),
            expected,
            pass: 0,
            round: 0,
            restored: false,
            random: self.random(0, 0),
            drawn: 0,
            buffer: Vec::new(),
            replay: ReplayLog::default(),
            filled: false,
            input_ended: false,
            input,
        })
    }

    fn anew(&self) -> Shuffle {
        Shuffle {
            passes: Arc::default(),
            ..self.clone()
        }
    }

    fn describe_seed(&self, to: &mut Description) {
        let before = if self.keep_order {
            0
        } else {
            self.passes.load(Ordering::Relaxed)
        };
        to.seed(self.seed, before);
    }
}

struct ShufflePass<T> {
    shuffle: Shuffle,
    /// The number of items expected in the buffer, or 0 if it is unknown.
    expected: usize,
    /// The number of iterators that were made before the one of this pass.
    pass: u64,
    round: u64,
    /// Whether the seed and the two numbers were restored from the position of another pass.
    restored: bool,
    random: ChaCha8Rng,
    /// The number of items of this round that were drawn from the buffer.
    drawn: u64,
    buffer: Vec<T>,
    /// The log that leads to the items of this round.
    replay: ReplayLog,
    filled: bool,
    input_ended: bool,
    input: Box<dyn IteratorStage<T>>,
}

impl<T: Send> ShufflePass<T> {
    /// Is at the beginning of the `rounds`-th round after this one. The input is not.
    fn turn_over(&mut self, rounds: u64) {
        // A restored number may be any.
        self.round = self.round.saturating_add(rounds);
        self.random = self.shuffle.random(self.pass, self.round);
        self.drawn = 0;
        self.buffer.clear();
        self.replay.clear();
        self.filled = false;
        self.input_ended = false;
    }

    fn fill(&mut self) -> Result<()> {
        let missing = self.expected.saturating_sub(self.buffer.len());
        memory::reserve(&mut self.buffer, missing, SHUFFLED)?;
        while self.buffer.len() < self.shuffle.limit {
            // The memory is reserved first, so that no item is lost if there is none.
            memory::reserve(&mut self.buffer, 1, SHUFFLED)?;
            // The order is that of the other elements alone.
            match self
                .replay
                .next(&mut *self.input)
                .map_err(Error::shifting)?
            {
                Some(item) => self.buffer.push(item),
                None => {
                    self.input_ended = true;
                    break;
                }
            }
        }
        self.filled = true;
        Ok(())
    }

    /// Restores the buffer as it was after `self.drawn` draws of the round: all of its items come
    /// again, and the draws are repeated.
    fn take_again(&mut self, saved: &SavedLog<'_>) -> Result<()> {
        let items = saved.items();
        let first = match self.filled {
            true => items.min(self.shuffle.limit as u64),
            false => items,
        };
        let possible = match self.filled {
            true => (items - first..=items).contains(&self.drawn),
            false => self.drawn == 0 && items <= self.shuffle.limit as u64,
        };
        if !possible {
            return Err(unfit(&format!(
                "{} of {items} elements were drawn",
                self.drawn
            )));
        }
        let ShufflePass {
            random,
            buffer,
            replay,
            input,
            ..
        } = self;
        buffer.clear();
        memory::reserve(buffer, self.expected, SHUFFLED)?;
        replay.restore(saved, &mut **input, &mut |item| {
            if (buffer.len() as u64) < first {
                memory::reserve(buffer, 1, SHUFFLED)?;
                buffer.push(item);
            } else {
                draw(random, buffer, Some(item));
            }
            Ok(())
        })?;
        for _ in items - first..self.drawn {
            draw(random, buffer, None);
        }
        Ok(())
    }
}

/// Takes a random item out of a buffer. If there is a successor, it takes the item's place.
fn draw<T>(random: &mut ChaCha8Rng, buffer: &mut Vec<T>, successor: Option<T>) -> T {
    // The number is drawn with 64 bits, so that the width of `usize` does not affect the order.
    let drawn = random.random_range(0..buffer.len() as u64) as usize;
    match successor {
        Some(successor) => std::mem::replace(&mut buffer[drawn], successor),
        None => buffer.swap_remove(drawn),
    }
}

impl<T: Send> IteratorStage<T> for ShufflePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if !self.filled {
            self.fill()?;
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let successor = match self.input_ended {
            true => None,
            false => self
                .replay
                .next(&mut *self.input)
                .map_err(Error::shifting)?,
        };
        self.input_ended = successor.is_none();
        self.drawn += 1;
        Ok(Some(draw(&mut self.random, &mut self.buffer, successor)))
    }

    fn certain(&self) -> Option<Cardinality> {
        self.input.certain()
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        self.turn_over(rounds);
        let of_input = if items == 0 {
            0
        } else {
            items.saturating_add(self.shuffle.limit as u64)
        };
        self.input.skip_rounds(rounds, of_input);
    }

    fn restart(&mut self) -> Result<()> {
        self.turn_over(1);
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        // The seed is saved too, so that a program with another seed in each process continues in
        // the same order.
        for number in [self.shuffle.seed, self.pass, self.round, self.drawn] {
            to.push(number);
        }
        to.push_flag(self.filled);
        to.push_flag(self.input_ended);
        self.replay.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.shuffle.seed = from.number()?;
        self.pass = from.number()?;
        self.round = from.number()?;
        self.restored = true;
        self.drawn = from.number()?;
        self.filled = from.flag()?;
        self.input_ended = from.flag()?;
        self.random = self.shuffle.random(self.pass, self.round);
        let saved = SavedLog::read(from)?;
        self.take_again(&saved)
    }

    fn rounds(&mut self, to: &mut Rounds) {
        // In all rounds of a shuffle that keeps its order, the order is the same.
        if !self.shuffle.keep_order {
            to.push_shuffle(self.round);
        }
        self.input.rounds(to);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        if !self.shuffle.keep_order {
            self.round = to.number()?;
        }
        self.input.go_back(to)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<T>)) {
        visit(&mut *self.input);
    }

    fn announce(&mut self, given: &Given) {
        if self.restored || self.filled {
            // The next iterator gets the order that it would have had where the position was saved.
            // A pass that has already returned items, because another stage was being
            // restored, keeps the order of those items.
            self.shuffle
                .passes
                .fetch_max(self.pass.saturating_add(1), Ordering::Relaxed);
        } else {
            self.pass = self.shuffle.passes.fetch_add(1, Ordering::Relaxed);
            self.random = self.shuffle.random(self.pass, self.round);
        }
        self.input.announce(given);
    }
}
