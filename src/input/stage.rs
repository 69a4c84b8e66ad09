//! What every source and transformation is made of.

use crate::error::Result;
use crate::input::memory;
use crate::values::Value;

/// A source or a transformation as a dataset keeps it: a description, from which passes start.
///
/// `T` is what flows: row numbers (`u64`) in front of a batch over arrays, elements elsewhere.
pub(super) trait Stage<T>: Send + Sync {
    /// A new pass at its beginning. Reads nothing yet, starts no threads, and leaves no trace if the
    /// pass is dropped before [`Pass::announce`].
    fn start(&self) -> Result<Box<dyn Pass<T>>>;
}

/// One way through a dataset.
pub(super) trait Pass<T>: Send {
    /// The next item, or nothing at the end and ever after. After an error it may be called
    /// again and goes on behind what failed.
    fn next(&mut self) -> Result<Option<T>>;

    /// Goes back to the beginning, as another round: what is shuffled anew in each round is.
    /// Memory and threads stay.
    fn restart(&mut self) -> Result<()>;

    /// Says that so many more items may be alive at once downstream, so that the pools of
    /// elements have room for them from the start.
    fn reserve(&mut self, items: usize);

    /// Says that an iterator was made with this pass, to whoever counts them. Called once, before
    /// the first [`Pass::next`] and [`Pass::restart`].
    fn announce(&mut self);
}

/// What flows through every transformation that only changes which items come when.
pub(super) trait Item: Clone + Send + Sync + 'static {
    /// The item as it is kept to be given out any number of times.
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
