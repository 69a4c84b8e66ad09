//! The traits of iteration over a dataset.

use crate::error::Result;
use crate::input::given::Given;
use crate::input::memory;
use crate::input::position::{Description, Rounds, StateReader, StateWriter};
use crate::values::Value;

/// A description from which passes start. Iterators are made of it.
pub(super) trait Pipeline: Send + Sync {
    /// Starts a new pass at its beginning. It reads nothing yet and starts no threads. If the pass is dropped before
    /// [`Pass::announce`], it has had no effect.
    fn start(&self) -> Result<Box<dyn Pass<Value>>>;

    /// Describes the pipeline and its inputs. The description contains everything on which the meaning of a saved
    /// position depends. It leaves out what affects neither the order of items nor what its passes save.
    fn describe(&self, to: &mut Description);

    /// The complete description.
    fn description(&self) -> Description {
        let mut description = Description::default();
        self.describe(&mut description);
        description
    }
}

/// An item that a pass returns.
pub(super) trait Item: Clone + Send + Sync + 'static {
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

/// One iteration over a dataset.
///
/// `T` is the type of its items: row numbers (`u64`) in front of a batch over arrays, elements everywhere else.
pub(super) trait Pass<T>: Send {
    /// The next item, or nothing at the end and ever after. After an error it may be called again, and continues after
    /// what failed. RESOURCE_EXHAUSTED loses nothing: an item that was taken from an input is held
    /// ([`Held`](crate::input::held::Held)), and the next call tries again.
    fn next(&mut self) -> Result<Option<T>>;

    /// Goes back to the beginning and starts another round. Shuffles that change in each round change now. Memory and
    /// threads stay.
    fn restart(&mut self) -> Result<()>;

    /// Saves the position: between the item that [`Pass::next`] returned last, or its failure, and the next item. Items
    /// that were taken from an input and not returned are saved as a log that leads to them again
    /// ([`ReplayLog`](crate::input::replay_log::ReplayLog)).
    fn save(&self, to: &mut StateWriter);

    /// Goes to the position that another pass has saved, whose pipeline has the same description. It may be called
    /// several times, but only before [`Pass::announce`]. After a failure the pass must not be used.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()>;

    /// Writes what the rounds after the present one depend on: how often rounds have begun, and what is cached.
    fn rounds(&mut self, to: &mut Rounds) {
        self.inputs(&mut |input| input.rounds(to));
    }

    /// Undoes what has happened since [`Pass::rounds`] has written `to`, as far as later rounds depend on it. It is
    /// called only before [`Pass::restart`].
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
    fn inputs(&mut self, _visit: &mut dyn FnMut(&mut dyn Pass<T>)) {}

    /// Announces that `items` more items may be in use at once downstream, so that the pools reserve memory for them
    /// from the start.
    fn reserve(&mut self, items: usize) {
        self.inputs(&mut |input| input.reserve(items));
    }

    /// Notifies the pass that it belongs to an iterator. A pass that counts iterators counts this one. It is called
    /// once, before the iterator's first [`Pass::next`] and [`Pass::restart`]. Before it, only [`Pass::restore`]
    /// requests items, and then threads that work ahead are not started. What the pass changes outside of itself, it
    /// changes when its items are `given`.
    fn announce(&mut self, given: &Given) {
        self.inputs(&mut |input| input.announce(given));
    }
}
