//! What is made of datasets: the methods that check their arguments and make an operation of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::input::arguments::in_range;
use crate::input::batch_parameters::BatchParameters;
use crate::input::cache::Cached;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::Dataset;
use crate::input::map::{MAX_PARALLEL_CALLS, Map, MapOptions};
use crate::input::op::Op;
use crate::input::prefetch::ahead_depth;
use crate::input::rebatch::Rebatch;
use crate::input::shard::Shard;
use crate::input::shuffle::{Shuffle, ShuffleOptions};
use crate::input::take::count_or_all;
use crate::input::zip::{Zip, warn_of_lengths};
use crate::values::Value;

impl Dataset {
    /// The first `count` elements, or all if there are fewer or if it is -1. INVALID_ARGUMENT if
    /// `count` is less than -1.
    pub fn take(&self, count: i64) -> Result<Dataset> {
        self.then(Op::Take(count_or_all(count)?))
    }

    /// All elements but the first `count`; none if there are no more or if it is -1, which is all. Those
    /// of ranges and of rows of arrays are left out at once, others are made.
    /// INVALID_ARGUMENT if `count` is less than -1.
    pub fn skip(&self, count: i64) -> Result<Dataset> {
        match (count_or_all(count)?, self.op()) {
            // Without going through a dataset that may have no end.
            (u64::MAX, _) => self.then(Op::Take(0)),
            (count, Op::Range(range)) => Dataset::of(Op::Range(range.behind(count)), &[]),
            (count, _) => self.then(Op::Skip(count)),
        }
    }

    /// The elements at positions `index`, `index + shards`, `index + 2 * shards`, ...: one of
    /// `shards` parts of the dataset, of which the others have other indices.
    ///
    /// INVALID_ARGUMENT: less than one shard, an index that is not in [0, shards).
    pub fn shard(&self, shards: i64, index: i64) -> Result<Dataset> {
        let of = in_range("shard_count", shards, 1.., "1 or more")?;
        let index =
            in_range("index", index, 0..shards, format_args!("in [0, {shards}), the shards"))?;
        self.then(Op::Shard(Shard { shards: of, index }))
    }

    /// The elements in random order. Over arrays only row numbers are shuffled, at eight bytes
    /// for each in the buffer; elsewhere the buffer holds elements.
    ///
    /// INVALID_ARGUMENT: a negative buffer size, or 0 (everything) for a dataset without end.
    /// Memory for the buffer is taken when a pass needs it: RESOURCE_EXHAUSTED then.
    pub fn shuffle(&self, options: &ShuffleOptions) -> Result<Dataset> {
        let limit = match in_range("buffer_capacity", options.buffer_size, 0.., "0 or more")? {
            0 if self.cardinality() == Cardinality::Endless => {
                return Err(Error::invalid(
                    "buffer_capacity",
                    "the whole dataset, and this one is endless; shuffle before repeat, or set a \
                     capacity",
                ));
            }
            0 => usize::MAX,
            size => size,
        };
        let keep_order = options.keep_order_each_pass;
        self.then(Op::Shuffle(Shuffle { limit, keep_order, ..Shuffle::all(options.seed) }))
    }

    /// The elements `count` times, or endlessly if it is -1. Each round is shuffled anew where
    /// the dataset is. Batches made before stay within their round, batches made of the result
    /// cross from one round into the next. Repeating nothing ends at once.
    /// INVALID_ARGUMENT if `count` is less than -1.
    pub fn repeat(&self, count: i64) -> Result<Dataset> {
        let count: i64 = in_range("count", count, -1.., "the number of rounds, or -1 for no end")?;
        self.then(Op::Repeat(u64::try_from(count).ok()))
    }

    /// The same elements, kept in memory by the first pass that reaches the end: every pass after
    /// it yields them in the order that they had then, and asks the dataset for nothing. Passes
    /// that begin before one has reached the end make their own. Elements are read-only.
    ///
    /// Of shuffled rows of arrays only the order is kept, of rows in their own order nothing.
    /// While iterating, RESOURCE_EXHAUSTED if there is no memory to keep the elements in.
    pub fn cache(&self) -> Result<Dataset> {
        self.then(Op::Cache(Cached::default()))
    }

    /// The same elements in the same order, up to `depth` of them made ahead of their consumer.
    /// The thread that makes them starts with the first element asked for and is joined with the
    /// end of the iterator. Errors and the end arrive in their place in the order.
    ///
    /// INVALID_ARGUMENT if `depth` is not in [1, 4096]. From the first `next`,
    /// RESOURCE_EXHAUSTED if there can be no thread; the next call tries again.
    pub fn prefetch(&self, depth: i64) -> Result<Dataset> {
        self.then(Op::Prefetch(ahead_depth(depth, 1, "depth")?))
    }

    /// The results of `function` for each element, in the order of the elements.
    ///
    /// With parallel calls, that many elements are taken at a time and given to the function on
    /// as many threads, which belong to the iterator and end with it. What comes out does not depend
    /// on their number: results are in order, and a failure, of the function or of the input, stands
    /// in the place of its element; after it the next elements come. After RESOURCE_EXHAUSTED the same
    /// element comes again: the function is called with it once more. The function must not keep
    /// elements that it changes nothing about: their memory is used again when they are dropped.
    ///
    /// INVALID_ARGUMENT: a number of calls that is not in [0, 4096], a spec without tensors; while
    /// iterating, a result that is not as its spec says. With parallel calls, RESOURCE_EXHAUSTED
    /// from `next` if there can be no thread at all: no element is lost, and the next call tries
    /// again. Where the system allows fewer threads, fewer calls run at once.
    pub fn map(
        &self,
        function: impl Fn(&Value) -> Result<Value> + Send + Sync + 'static,
        options: MapOptions,
    ) -> Result<Dataset> {
        let what = format_args!("between 0 and {MAX_PARALLEL_CALLS}");
        let calls =
            in_range("parallel_call_count", options.parallel_calls, 0..=MAX_PARALLEL_CALLS, what)?;
        let spec = options.element_spec.unwrap_or_else(|| self.element_spec().clone());
        spec.check_describes_elements("element_spec")?;
        self.then(Op::Map(Map { function: Arc::new(function), calls, spec }))
    }

    /// Batches of `size` elements, stacked along a new dimension 0. The last batch is smaller if
    /// elements are left over; with `drop_remainder` they are left out, and dimension 0 is known.
    ///
    /// Over arrays in their own order batches are read-only views; over arrays in another order
    /// each row is copied once, from the array to the batch.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating, INVALID_ARGUMENT
    /// if the elements of a batch differ in shape (that batch is left out) and
    /// RESOURCE_EXHAUSTED if there is no memory for one. Elements before one that fails are in the
    /// next batch.
    pub fn batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.then(Op::Batch(BatchParameters::new(size, drop_remainder)?))
    }

    /// Batches of `size` elements, stacked along a new dimension 0, each padded with zeros, at the
    /// end of each dimension, to the largest of its batch. The last batch is smaller if elements
    /// are left over; with `drop_remainder` they are left out.
    ///
    /// INVALID_ARGUMENT: a size below 1, elements of rank 8. While iterating, INVALID_ARGUMENT if
    /// the elements of a batch differ in dtype or rank (they are left out then) and
    /// RESOURCE_EXHAUSTED if there is no memory for one.
    pub fn padded_batch(&self, size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.then(Op::PaddedBatch(BatchParameters::new(size, drop_remainder)?))
    }

    /// The rows of all batches as one stream, cut into batches of `sizes`, over and over again. A
    /// size of 0 makes a batch without rows. The last batch is smaller if rows are left over, and
    /// nothing follows it; with `drop_remainder` they are left out. Batches that lie within one of the dataset's are views
    /// of it, others are copied.
    ///
    /// INVALID_ARGUMENT: no sizes, a negative one, none above 0, elements with a scalar. While
    /// iterating, INVALID_ARGUMENT if the tensors of an element differ in their number of rows, or
    /// batches to be joined in anything else (what was taken is left out then), and
    /// RESOURCE_EXHAUSTED if there is no memory for a batch.
    pub fn rebatch(&self, sizes: &[i64], drop_remainder: bool) -> Result<Dataset> {
        let wrong = |problem: String| Error::invalid("row_counts", problem);
        let sizes = sizes
            .iter()
            .map(|&size| usize::try_from(size).map_err(|_| wrong(format!("{size} is negative"))));
        let sizes = sizes.collect::<Result<Vec<_>>>()?;
        if sizes.is_empty() {
            return Err(wrong("none; give one or more".into()));
        }
        if sizes.iter().all(|&size| size == 0) {
            return Err(wrong("all are 0; batches of no rows never reach the end".into()));
        }
        self.then(Op::Rebatch(Rebatch { sizes: Arc::new(sizes), drop_remainder }))
    }

    /// Element i consists of element i of each dataset: a tuple, or with `names` a struct whose
    /// fields have these names. It ends with the first that ends. If others have more elements, which
    /// are left out, the log says so: now, where the numbers are known and finite, else when the end
    /// is found; once.
    ///
    /// INVALID_ARGUMENT: no datasets, another number of names than of datasets, a name twice.
    pub fn zip(datasets: &[Dataset], names: Option<&[&str]>) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(Error::invalid("datasets", "none; zip takes one or more"));
        }
        if let Some(names) = names.filter(|names| names.len() != datasets.len()) {
            return Err(Error::invalid(
                "names",
                format!("{} names for {} datasets", names.len(), datasets.len()),
            ));
        }
        let names = names.map(|names| Arc::new(names.iter().map(|&name| name.into()).collect()));
        let zip = Zip { names, warned: Arc::default() };
        let zipped = Dataset::of(Op::Zip(zip.clone()), datasets)?;
        zip.warned
            .store(warn_of_lengths(datasets.iter().map(Dataset::cardinality))?, Ordering::Relaxed);
        Ok(zipped)
    }

    /// The elements of the datasets, one dataset after the other. Their elements have the same
    /// structure, dtypes and ranks; sizes in which they differ are unknown in the element spec.
    ///
    /// INVALID_ARGUMENT: no datasets, elements of another structure, dtype or rank.
    pub fn concatenate(datasets: &[Dataset]) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(Error::invalid("datasets", "none; concatenate takes one or more"));
        }
        Dataset::of(Op::Concatenate, datasets)
    }
}
