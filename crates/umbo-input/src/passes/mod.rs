//! The traits of iteration over a dataset.

pub(crate) mod batch_counter;
pub(crate) mod gathered;
pub(crate) mod given;
pub(crate) mod indexed;
pub(crate) mod iterator;
pub(crate) mod pending_item;
pub(crate) mod place;
pub(crate) mod position;
pub(crate) mod reentrancy;
pub(crate) mod replay_log;
pub(crate) mod request_limits;
pub(crate) mod saved_position;
pub(crate) mod signature;

use crate::cardinality::Cardinality;
use crate::passes::given::{Given, Stop};
use crate::passes::position::{Description, Rounds, StateReader, StateWriter};
use crate::sources::memory;
use umbo_base::error::Result;
use umbo_tensor::values::Value;

/// A description from which passes start. Iterators are made of it.
pub(crate) trait Pipeline: Send + Sync {
    /// Starts a new pass at its beginning. It reads nothing yet and starts no threads. If the pass
    /// is dropped before [`IteratorStage::announce`], it has had no effect.
    fn start(&self) -> Result<Box<dyn IteratorStage<Value>>>;

    /// Describes the pipeline and its inputs. The description contains everything on which the
    /// meaning of a saved position depends. It leaves out what affects neither the order of
    /// items nor what its passes save.
    fn describe(&self, to: &mut Description);

    /// The complete description.
    fn description(&self) -> Description {
        let mut description = Description::default();
        self.describe(&mut description);
        description
    }
}

/// An item that a pass returns.
pub(crate) trait Item: Clone + Send + Sync + 'static {
    /// The same item, in a form that can be returned any number of times.
    fn keep(self) -> Result<Self>;
}

impl Item for u64 {
    fn keep(self) -> Result<u64> {
        Ok(self)
    }
}

impl Item for Value {
    fn keep(self) -> Result<Value> {
        memory::read_only_value(&self)
    }
}

/// As [`IteratorStage::skip`], by requesting each item.
pub(crate) fn skip_each<T>(
    pass: &mut (impl IteratorStage<T> + ?Sized),
    left: &mut u64,
    stop: &Stop,
) -> Result<()> {
    while *left > 0 {
        stop.check()?;
        if pass.next()?.is_none() {
            break;
        }
        *left -= 1;
    }
    Ok(())
}

/// One iteration over a dataset.
///
/// `T` is the type of its items: row numbers (`u64`) in front of a batch over arrays, elements
/// everywhere else.
pub(crate) trait IteratorStage<T>: Send {
    /// The next item, or nothing at the end and ever after. After an error it may be called again,
    /// and continues after what failed. RESOURCE_EXHAUSTED and interruptions lose nothing
    /// ([`Error::comes_again`](umbo_base::error::Error::comes_again)): an item that was taken from
    /// an input is held ([`PendingItem`](crate::passes::pending_item::PendingItem)), and the next
    /// call tries again.
    fn next(&mut self) -> Result<Option<T>>;

    /// Passes over the next `left` items, and subtracts each of them from `left`. Some are left
    /// only at the end. The pass is then where as many calls of [`IteratorStage::next`] would have
    /// brought it, and fails as they would. It also fails, between two items, once `stop` says so.
    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        skip_each(self, left, stop)
    }

    /// The number of items each whole round has, the present one and later ones, if none of them
    /// can fail for any reason but lack of memory, and if all that a round changes is a counter of
    /// rounds. Otherwise None. Such a pass has [`IteratorStage::skip_rounds`].
    fn certain(&self) -> Option<Cardinality> {
        None
    }

    /// Does what `rounds` times would be done by requests of `items` items, or of all and the end
    /// if there are fewer, and then [`IteratorStage::restart`]. The pass is at the beginning of a
    /// round, and [`IteratorStage::certain`] is not None.
    fn skip_rounds(&mut self, _rounds: u64, _items: u64) {}

    /// Goes back to the beginning and starts another round. Shuffles that change in each round
    /// change now. Memory and threads stay.
    fn restart(&mut self) -> Result<()>;

    /// Saves the position: between the item that [`IteratorStage::next`] returned last, or its
    /// failure, and the next item. Items that were taken from an input and not returned are
    /// saved as a log that leads to them again
    /// ([`ReplayLog`](crate::passes::replay_log::ReplayLog)).
    fn save(&self, to: &mut StateWriter);

    /// Goes to the position that another pass has saved, whose pipeline has the same description.
    /// It may be called several times, but only before [`IteratorStage::announce`]. After a failure
    /// the pass must not be used.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()>;

    /// Writes what the rounds after the present one depend on: how often rounds have begun, and
    /// what is cached.
    fn rounds(&mut self, to: &mut Rounds) {
        self.inputs(&mut |input| input.rounds(to));
    }

    /// Undoes what has happened since [`IteratorStage::rounds`] has written `to`, as far as later
    /// rounds depend on it. It is called only before [`IteratorStage::restart`].
    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        let mut done = Ok(());
        self.inputs(&mut |input| {
            if done.is_ok() {
                done = input.go_back(to);
            }
        });
        done
    }

    /// Calls `visit` for each pass whose items become items of this one.
    fn inputs(&mut self, _visit: &mut dyn FnMut(&mut dyn IteratorStage<T>)) {}

    /// Announces that `items` more items may be in use at once downstream, so that the pools
    /// reserve memory for them from the start.
    fn reserve(&mut self, items: usize) {
        self.inputs(&mut |input| input.reserve(items));
    }

    /// Notifies the pass that it belongs to an iterator. A pass that counts iterators counts this
    /// one. It is called once, before the iterator's first [`IteratorStage::next`] and
    /// [`IteratorStage::restart`]. Before it, only [`IteratorStage::restore`] requests items, and
    /// then threads that work ahead are not started. What the pass changes outside of itself,
    /// it changes when its items are `given`.
    fn announce(&mut self, given: &Given) {
        self.inputs(&mut |input| input.announce(given));
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::dataset::Dataset;
    use crate::transforms::map::MapOptions;
    use crate::transforms::shuffle::ShuffleOptions;
    use umbo_base::error::Error;
    use umbo_base::observe::log::{self, Level};
    use umbo_device::DeviceId;
    use umbo_tensor::{Shape, Tensor};

    /// Scalars: a range, rows of an array, or what a function makes, which fails now and then.
    fn source(random: &mut ChaCha8Rng) -> Dataset {
        let count = random.random_range(0..9);
        match random.random_range(0..3) {
            0 => Dataset::range(0, count, 1).unwrap(),
            1 => {
                let numbers: Vec<i64> = (0..count).collect();
                let shape = Shape::new(&[numbers.len()]).unwrap();
                let rows = Tensor::from_slice(&numbers, shape, DeviceId::HOST).unwrap();
                Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap()
            }
            _ => {
                let function = |element: &Value| match element.tensor_of(0)?.to_vec::<i64>()?[0] {
                    3 => Err(Error::NotFound("the fourth one".into())),
                    _ => Ok(element.clone()),
                };
                let options = MapOptions {
                    parallel_calls: 0,
                    element_spec: None,
                };
                Dataset::range(0, count, 1)
                    .unwrap()
                    .map(function, options)
                    .unwrap()
            }
        }
    }

    fn drawn(random: &mut ChaCha8Rng, stages: &mut String) -> Dataset {
        let mut dataset = source(random);
        *stages += &format!("{:?}", dataset.description().stages());
        let mut batches = false;
        for _ in 0..random.random_range(1..6) {
            let n = random.random_range(0..5);
            dataset = match random.random_range(0..9) {
                0 | 1 => dataset.repeat(n),
                2 => dataset.repeat(-1),
                3 => {
                    let keep_order_each_pass = random.random_range(0..3) == 0;
                    let buffer_size = 1 + n;
                    dataset.shuffle(&ShuffleOptions {
                        buffer_size,
                        seed: 5,
                        keep_order_each_pass,
                    })
                }
                4 => dataset.skip(n),
                5 => dataset.take(3 * n),
                6 => dataset.shard(n + 1, random.random_range(0..=n)),
                7 if !dataset.cardinality().is_endless() => dataset.cache(),
                7 => Dataset::concatenate(&[dataset.take(n).unwrap(), dataset]),
                _ if batches => Dataset::concatenate(&[dataset.clone(), dataset]),
                _ => {
                    batches = true;
                    dataset.batch(1 + n, random.random_range(0..2) == 0)
                }
            }
            .unwrap();
        }
        *stages = format!("{:?}", dataset.description().stages());
        dataset
    }

    /// The state that later items and rounds depend on.
    fn place(pass: &mut dyn IteratorStage<Value>) -> (Vec<u64>, Vec<u64>) {
        let mut position = StateWriter::default();
        let mut rounds = Rounds::default();
        pass.save(&mut position);
        pass.rounds(&mut rounds);
        let mut reader = rounds.reader().unwrap();
        let numbers = std::iter::from_fn(|| reader.number().ok()).collect();
        (position.numbers().unwrap().to_vec(), numbers)
    }

    /// The pass, of a dataset that shares nothing with others.
    fn begun(seed: u64, stages: &mut String) -> Box<dyn IteratorStage<Value>> {
        let dataset = drawn(&mut ChaCha8Rng::seed_from_u64(seed), stages);
        let mut pass = dataset.start().unwrap();
        pass.announce(&Given::at_once());
        pass
    }

    #[test]
    fn skipping_equals_requesting() {
        // The library warns of many of the pipelines that are drawn.
        log::set_sink(Level::Warning, Box::new(|_, _| {}));
        let mut whole_rounds = 0;
        for seed in 0..2000 {
            let mut stages = String::new();
            let mut fast = begun(seed, &mut stages);
            let mut slow = begun(seed, &mut stages);
            let mut random = ChaCha8Rng::seed_from_u64(seed + 1_000_000);
            for _ in 0..8 {
                let count = random.random_range(0..40);
                let mut left = count;
                let mut expected = count;
                whole_rounds += u64::from(fast.certain().is_some() && count > 20);
                let skipped = fast.skip(&mut left, &Stop::default());
                let requested = skip_each(&mut *slow, &mut expected, &Stop::default());
                let words = |done: Result<()>| done.map_err(|error| error.to_string());
                let case = format!("{seed}: {stages}, {count}");
                assert_eq!(
                    (words(skipped), left),
                    (words(requested), expected),
                    "{case}"
                );
                assert_eq!(place(&mut *fast), place(&mut *slow), "{case}");
                if random.random_range(0..4) == 0 {
                    let restarted = words(fast.restart());
                    assert_eq!(restarted, words(slow.restart()), "{case}");
                }
                let text = |item: Result<Option<Value>>| match item {
                    Ok(Some(item)) => item.tensor_of(0).unwrap().to_vec::<i64>().unwrap(),
                    Ok(None) => vec![-1],
                    Err(_) => vec![-2],
                };
                assert_eq!(text(fast.next()), text(slow.next()), "{case}");
                assert_eq!(place(&mut *fast), place(&mut *slow), "{case}");
            }
        }
        assert!(whole_rounds > 500, "{whole_rounds}");
    }

    #[test]
    fn a_request_that_is_stopped_ends_within_what_it_skips() {
        let given = Given::later();
        let below = Given::later().below(&given);
        let dataset = Dataset::range(0, 7, 1).unwrap().prefetch(1).unwrap();
        let mut pass = dataset
            .repeat(-1)
            .unwrap()
            .skip(i64::MAX)
            .unwrap()
            .start()
            .unwrap();
        pass.announce(&below);
        given.end();
        assert_eq!(
            pass.next().unwrap_err().status(),
            umbo_base::error::Status::Cancelled
        );
    }
}
