//! Parts of a dataset: the first elements, all others, or every n-th.

use crate::arguments::in_range;
use crate::cardinality::Cardinality;
use crate::dataset::Dataset;
use crate::passes::given::{Given, Stop};
use crate::passes::position::{StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::passes::{Item, IteratorStage, skip_each};
use crate::properties::DatasetProperties;
use crate::transforms::reorder::Reorder;
use crate::transforms::suspects::{PartDoubts, PartKind};
use umbo_base::error::{Error, Result};

impl Dataset {
    /// The first `count` elements, or all if there are fewer or if `count` is -1. INVALID_ARGUMENT
    /// if it is less than -1.
    ///
    /// These are warnings and, in a strict process, errors: a take and a skip of one dataset that
    /// is shuffled anew in each pass (INVALID_ARGUMENT), and another pass over the first
    /// elements of a cached dataset of which no pass has reached the end, so that nothing is
    /// cached (FAILED_PRECONDITION of the reset).
    pub fn take(&self, count: i64) -> Result<Dataset> {
        self.part_of(Part {
            count: count_or_all(count)?,
            ..Part::ALL
        })
    }

    /// All elements except the first `count`. None are left if there are no more than `count`, or
    /// if it is -1. Skipping in ranges and in rows of arrays takes no time, and neither do
    /// whole rounds of them in a repeat, shuffled or batched or not, nor of what is cached;
    /// other elements are made and dropped, until a limit of the request ends that; the next
    /// request continues from that element. INVALID_ARGUMENT if `count` is less than -1.
    ///
    /// These are warnings and, in a strict process, errors: a take and a skip of one dataset that
    /// is shuffled anew in each pass (INVALID_ARGUMENT), and another pass behind the first
    /// elements of such a dataset, which leaves out others (FAILED_PRECONDITION of the reset).
    pub fn skip(&self, count: i64) -> Result<Dataset> {
        match count_or_all(count)? {
            // The result is empty. It does not iterate over the dataset, which may be endless.
            u64::MAX => self.part_of(Part {
                count: 0,
                ..Part::ALL
            }),
            first => match self.op().behind(first) {
                Some(rest) => Dataset::of(rest, &[]),
                None => self.part_of(Part { first, ..Part::ALL }),
            },
        }
    }

    /// The elements at positions `index`, `index + shards`, `index + 2 * shards`, ...: one of
    /// `shards` parts of the dataset. The other parts have the other indices.
    ///
    /// INVALID_ARGUMENT: less than one shard, an index that is not in [0, shards). Two shards of
    /// one dataset that is shuffled anew in each pass are a warning and, in a strict process,
    /// INVALID_ARGUMENT.
    pub fn shard(&self, shards: i64, index: i64) -> Result<Dataset> {
        let every = in_range("shard_count", shards, 1.., "1 or more")?;
        let first = in_range(
            "index",
            index,
            0..shards,
            format_args!("in [0, {shards}), the shards"),
        )?;
        self.part_of(Part {
            first,
            every,
            ..Part::ALL
        })
    }

    fn part_of(&self, part: Part) -> Result<Dataset> {
        let order = &self.properties().order;
        if let Some(kind) = part.kind() {
            order.part(kind)?;
        }
        self.then(PartOf {
            part,
            doubts: PartDoubts::of(part.kind(), order),
        })
    }
}

/// A count from the caller. For -1 it returns a number larger than any dataset.
fn count_or_all(count: i64) -> Result<u64> {
    match count {
        -1 => Ok(u64::MAX),
        count => in_range("count", count, 0.., "the number of elements, or -1 for all"),
    }
}

/// The item at position `first`, and every n-th from there on, at most `count` of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    first: u64,
    every: u64,
    /// The largest number stands for all.
    count: u64,
}

impl Part {
    const ALL: Part = Part {
        first: 0,
        every: 1,
        count: u64::MAX,
    };

    /// The number of items this part of `all` has.
    fn cardinality(&self, all: Cardinality) -> Cardinality {
        let Part {
            first,
            every,
            count,
        } = *self;
        match all {
            Cardinality::Exact(all) => {
                Cardinality::Exact(all.saturating_sub(first).div_ceil(every).min(count))
            }
            _ if count == 0 => Cardinality::Exact(0),
            Cardinality::Endless if count < u64::MAX => Cardinality::Exact(count),
            // If it proves to be empty, there is nothing to take.
            Cardinality::EndlessUnlessEmpty if count < u64::MAX => Cardinality::Unknown,
            same => same,
        }
    }

    /// The kind of the part, if it is neither all nor nothing.
    fn kind(&self) -> Option<PartKind> {
        match *self {
            Part::ALL | Part { count: 0, .. } => None,
            Part {
                first: 0, every: 1, ..
            } => Some(PartKind::First),
            Part { every: 1, .. } => Some(PartKind::Rest),
            Part { first, every, .. } => Some(PartKind::Shard(every, first)),
        }
    }
}

/// The operation.
#[derive(Clone)]
struct PartOf {
    part: Part,
    doubts: PartDoubts,
}

impl Reorder for PartOf {
    fn signature(&self) -> Signature {
        let Part {
            first,
            every,
            count,
        } = self.part;
        if every > 1 {
            return Signature::new("shard")
                .with("index", first)
                .with("shards", every);
        }
        // Without a count, all elements are taken or skipped.
        let counted = |count| (count < u64::MAX).then_some(count);
        match first {
            0 => Signature::new("take").with("count", counted(count)),
            _ => Signature::new("skip").with("count", counted(first)),
        }
    }

    fn reorder(&self, input: &DatasetProperties, properties: &mut DatasetProperties) -> Result<()> {
        let Part {
            first,
            every,
            count,
        } = self.part;
        properties.reorder(self.part.cardinality(input.cardinality));
        if self.part.kind().is_some() {
            properties.order.forget_shuffle();
        }
        if every == 1 {
            properties.take_rows(input, first..first.saturating_add(count))?;
        }
        if self.part != Part::ALL {
            properties.need_all_files(match self.part {
                Part {
                    first: 0, every: 1, ..
                } => "take",
                Part { every: 1, .. } => "skip",
                _ => "shard",
            });
        }
        Ok(())
    }

    fn pass<T: Item>(
        &self,
        _count: Cardinality,
        input: Box<dyn IteratorStage<T>>,
    ) -> Box<dyn IteratorStage<T>> {
        let PartOf { part, doubts } = self.clone();
        let skip = part.first;
        let left = part.count;
        Box::new(PartPass {
            part,
            skip,
            left,
            doubts,
            stop: Stop::default(),
            input,
        })
    }
}

struct PartPass<T> {
    part: Part,
    /// The number of items that are to be skipped before the next one of this part.
    skip: u64,
    /// The number of items of this part that are left, at most.
    left: u64,
    doubts: PartDoubts,
    /// Whether a request is still to be answered, and now.
    stop: Stop,
    input: Box<dyn IteratorStage<T>>,
}

impl<T: Send> PartPass<T> {
    /// Passes over the next items of this part, at most `left`, in an input that is certain.
    fn skip_certain(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        let every = self.part.every;
        // As many as the number of the input's items can be told of.
        let most = (u64::MAX - 1 - self.skip) / every + 1;
        let wanted = self.left.min(*left).min(most);
        let mut of_input = self.skip + 1 + (wanted - 1) * every;
        let skipped = self.input.skip(&mut of_input, stop);
        let missing = of_input.div_ceil(every).min(wanted);
        self.skip = match missing {
            0 => every - 1,
            _ => of_input - 1 - (missing - 1) * every,
        };
        self.left -= wanted - missing;
        *left -= wanted - missing;
        skipped
    }
}

impl<T: Send> IteratorStage<T> for PartPass<T> {
    fn next(&mut self) -> Result<Option<T>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.skip > 0 {
            // An element that cannot be skipped is not counted.
            let skipped = self.input.skip(&mut self.skip, &self.stop);
            if self.part.every > 1 {
                skipped.map_err(Error::shifting)
            } else {
                skipped
            }?;
            if self.skip > 0 {
                return Ok(None);
            }
        }
        let item = self.input.next()?;
        if item.is_some() {
            (self.skip, self.left) = (self.part.every - 1, self.left - 1);
        }
        Ok(item)
    }

    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        while *left > 0 && self.left > 0 {
            let wanted = *left;
            if self.input.certain().is_some() {
                self.skip_certain(left, stop)?;
            } else {
                // The next item may be the last one that is not certain, as in the first round of a
                // cache.
                let mut one = 1;
                let skipped = skip_each(self, &mut one, stop);
                *left -= 1 - one;
                skipped?;
            }
            if *left == wanted {
                break;
            }
        }
        Ok(())
    }

    fn certain(&self) -> Option<Cardinality> {
        let all = self.input.certain().filter(|_| !self.doubts.may_refuse());
        all.map(|all| self.part.cardinality(all))
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        let Part {
            first,
            every,
            count,
        } = self.part;
        (self.skip, self.left) = (first, count);
        let of_input = match items.min(count) {
            0 => 0,
            items => (items - 1)
                .saturating_mul(every)
                .saturating_add(first)
                .saturating_add(1),
        };
        self.input.skip_rounds(rounds, of_input);
    }

    fn restart(&mut self) -> Result<()> {
        self.doubts.check_again(self.skip == 0, self.left == 0)?;
        (self.skip, self.left) = (self.part.first, self.part.count);
        self.input.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.skip);
        to.push(self.left);
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        let Part {
            first,
            every,
            count,
        } = self.part;
        self.skip = from.at_most(first.max(every - 1), "what is to be left out")?;
        self.left = from.at_most(count, "what is to be taken")?;
        self.input.restore(from)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<T>)) {
        visit(&mut *self.input);
    }

    fn announce(&mut self, given: &Given) {
        self.stop = given.stop();
        self.input.announce(given);
    }
}
