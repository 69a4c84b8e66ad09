//! Random order, the same on every machine for a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Reorder, not_negative};
use crate::input::frame::no_memory;
use crate::input::stage::{Item, Pass, Stage};

/// How a dataset is shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShuffleOptions {
    /// From how many elements the next one is drawn; 0 is all of them, which makes every order
    /// equally likely.
    pub buffer_size: i64,
    /// Which orders come. The same seed gives the same orders on every machine.
    pub seed: u64,
    /// Whether all passes and rounds have the same order. If not, each has its own: it depends
    /// on the seed, on how many iterators were made of the dataset before, and on the round.
    pub keep_order_each_pass: bool,
}

impl Dataset {
    /// The elements in random order. Over arrays only row numbers are shuffled, at eight bytes
    /// for each in the buffer; elsewhere the buffer holds elements.
    ///
    /// INVALID_ARGUMENT: a negative buffer size, or 0 (everything) for a dataset without end.
    /// Memory for the buffer is taken when a pass needs it: RESOURCE_EXHAUSTED then.
    pub fn shuffle(&self, options: &ShuffleOptions) -> Result<Dataset> {
        let limit = match not_negative("buffer_size", options.buffer_size)? {
            0 if self.cardinality() == Cardinality::Endless => {
                return Err(Error::invalid(
                    "buffer_size",
                    "0 means the whole dataset, and this one is endless; shuffle before repeat, \
                     or set a size",
                ));
            }
            0 => usize::MAX,
            size => usize::try_from(size).unwrap_or(usize::MAX),
        };
        let expected = self.cardinality().bound().unwrap_or(0).min(limit);
        let shuffle = Shuffle {
            seed: options.seed,
            keep_order: options.keep_order_each_pass,
            limit,
            expected,
        };
        self.reordered(&shuffle, self.cardinality())
    }
}

#[derive(Clone, Copy)]
struct Shuffle {
    seed: u64,
    keep_order: bool,
    /// The largest number of items in the buffer.
    limit: usize,
    /// How many there will be, if that is known; else 0.
    expected: usize,
}

impl Reorder for Shuffle {
    fn of<T: Item>(&self, input: Arc<dyn Stage<T>>) -> Arc<dyn Stage<T>> {
        Arc::new(ShuffleStage { shuffle: *self, passes: Arc::new(AtomicU64::new(0)), input })
    }
}

struct ShuffleStage<T> {
    shuffle: Shuffle,
    /// How many iterators were made. Counting them when they are made, rather than when a round
    /// begins, keeps orders independent of how threads interleave.
    passes: Arc<AtomicU64>,
    input: Arc<dyn Stage<T>>,
}

impl<T: Send + 'static> Stage<T> for ShuffleStage<T> {
    fn start(&self) -> Result<Box<dyn Pass<T>>> {
        let mut input = self.input.start()?;
        input.reserve(self.shuffle.expected);
        Ok(Box::new(ShufflePass {
            shuffle: self.shuffle,
            passes: Arc::clone(&self.passes),
            pass: 0,
            round: 0,
            random: self.shuffle.random(0, 0),
            buffer: Vec::new(),
            filled: false,
            input_ended: false,
            input,
        }))
    }
}

impl Shuffle {
    /// The random numbers of one round.
    fn random(&self, pass: u64, round: u64) -> ChaCha8Rng {
        let (pass, round) = if self.keep_order { (0, 0) } else { (pass, round) };
        let mut key = [0; 32];
        for (bytes, number) in key.chunks_exact_mut(8).zip([self.seed, pass, round]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

struct ShufflePass<T> {
    shuffle: Shuffle,
    passes: Arc<AtomicU64>,
    /// How many iterators were made before this pass's.
    pass: u64,
    round: u64,
    random: ChaCha8Rng,
    buffer: Vec<T>,
    filled: bool,
    input_ended: bool,
    input: Box<dyn Pass<T>>,
}

impl<T: Send> ShufflePass<T> {
    fn fill(&mut self) -> Result<()> {
        let missing = self.shuffle.expected.saturating_sub(self.buffer.len());
        let no_room = |_| no_memory("the buffer of a shuffled dataset");
        self.buffer.try_reserve_exact(missing).map_err(no_room)?;
        while self.buffer.len() < self.shuffle.limit {
            match self.input.next()? {
                Some(item) => {
                    self.buffer.try_reserve(1).map_err(no_room)?;
                    self.buffer.push(item);
                }
                None => {
                    self.input_ended = true;
                    break;
                }
            }
        }
        self.filled = true;
        Ok(())
    }
}

impl<T: Send> Pass<T> for ShufflePass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if !self.filled {
            self.fill()?;
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let successor = if self.input_ended { None } else { self.input.next()? };
        // Drawn as 64 bits, so that the width of `usize` does not change the order.
        let drawn = self.random.random_range(0..self.buffer.len() as u64) as usize;
        Ok(Some(match successor {
            Some(successor) => std::mem::replace(&mut self.buffer[drawn], successor),
            None => {
                self.input_ended = true;
                self.buffer.swap_remove(drawn)
            }
        }))
    }

    fn restart(&mut self) -> Result<()> {
        self.round += 1;
        self.random = self.shuffle.random(self.pass, self.round);
        self.buffer.clear();
        self.filled = false;
        self.input_ended = false;
        self.input.restart()
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.pass = self.passes.fetch_add(1, Ordering::Relaxed);
        self.random = self.shuffle.random(self.pass, self.round);
        self.input.announce();
    }
}
