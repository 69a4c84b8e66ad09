//! What iterating over a dataset is made of.

use crate::error::Result;
use crate::input::memory;
use crate::input::position::{Description, StateReader, StateWriter};
use crate::values::Value;

/// What iterators are made of: a description, from which passes start.
pub(super) trait Pipeline: Send + Sync {
    /// A new pass at its beginning. Reads nothing yet, starts no threads, and leaves no trace if the
    /// pass is dropped before [`Pass::announce`].
    fn start(&self) -> Result<Box<dyn Pass<Value>>>;

    /// Says what it is, and what its inputs are: everything on which the meaning of a saved position
    /// depends, and nothing that changes neither which items come nor what its passes save.
    fn describe(&self, to: &mut Description);

    /// All that it says.
    fn description(&self) -> Description {
        let mut description = Description::default();
        self.describe(&mut description);
        description
    }
}

/// What flows through a pass.
pub(super) trait Item: Clone + Send + Sync + 'static {
    /// The same, which can be given out any number of times.
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

/// One way through a dataset.
///
/// `T` is what flows: row numbers (`u64`) in front of a batch over arrays, elements elsewhere.
pub(super) trait Pass<T>: Send {
    /// The next item, or nothing at the end and ever after. After an error it may be called
    /// again and goes on behind what failed. RESOURCE_EXHAUSTED uses nothing up: what was taken of an
    /// input is held ([`Held`](crate::input::held::Held)), and the next call tries again.
    fn next(&mut self) -> Result<Option<T>>;

    /// Goes back to the beginning, as another round: what is shuffled anew in each round is.
    /// Memory and threads stay.
    fn restart(&mut self) -> Result<()>;

    /// Writes down where it is: between the item that [`Pass::next`] gave last, or its failure, and
    /// the next one. What was taken of an input, and not given away, is written down as the way back
    /// to it ([`ReplayLog`](crate::input::replay_log::ReplayLog)).
    fn save(&self, to: &mut StateWriter);

    /// Goes to where another pass of a pipeline described alike was. Only before [`Pass::announce`], as
    /// often as wanted; after a failure the pass is good for nothing.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()>;

    /// Passes over `count` items, or as many as there are, and returns how many: while a pass is restored, of items
    /// that came without a failure when they were asked for before, so that they need not be made.
    fn skip(&mut self, count: u64) -> Result<u64> {
        let mut skipped = 0;
        while skipped < count && self.next()?.is_some() {
            skipped += 1;
        }
        Ok(skipped)
    }

    /// Gives each pass whose items become items of this one to `visit`.
    fn inputs(&mut self, _visit: &mut dyn FnMut(&mut dyn Pass<T>)) {}

    /// Says that so many more items may be alive at once downstream, so that the pools of
    /// elements have room for them from the start.
    fn reserve(&mut self, items: usize) {
        self.inputs(&mut |input| input.reserve(items));
    }

    /// An iterator has this pass now, and a pass that counts iterators counts this one. Called once: before the first
    /// [`Pass::next`] and [`Pass::restart`] of the iterator. Only [`Pass::restore`] asks for items
    /// before it, and then threads that work ahead are not started.
    fn announce(&mut self) {
        self.inputs(&mut |input| input.announce());
    }
}

/// Leaves out as many items of `input` as are `left`, and counts them down as it goes. Some are left only at the
/// end, and after a failure.
pub(super) fn leave_out<T>(input: &mut dyn Pass<T>, left: &mut u64) -> Result<()> {
    while *left > 0 && input.next()?.is_some() {
        *left -= 1;
    }
    Ok(())
}
