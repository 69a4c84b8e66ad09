//! Passes over a dataset, plain or distributed, as their consumer sees them.

use parking_lot::Mutex;

use crate::error::Result;
use crate::input::stage::Pass;
use crate::values::Value;

/// A pass over a dataset. Threads may share it; each element goes to one of them.
///
/// Dropping it, also before the end, stops and joins its threads.
pub struct PassIterator {
    state: Mutex<State>,
}

struct State {
    pass: Box<dyn Pass<Value>>,
    ended: bool,
}

impl PassIterator {
    pub(super) fn new(pass: Box<dyn Pass<Value>>) -> PassIterator {
        PassIterator { state: Mutex::new(State { pass, ended: false }) }
    }

    /// The next element, or nothing at the end and ever after. Blocks until the element is there
    /// or another thread's call has returned.
    ///
    /// The memory of an element that has been dropped, with all that was made from it, serves a
    /// later one. After an error the call may be repeated and goes on behind what failed.
    /// Errors are those of the sources and transformations.
    pub fn next(&self) -> Result<Option<Value>> {
        let mut state = self.state.lock();
        if state.ended {
            return Ok(None);
        }
        let element = state.pass.next()?;
        state.ended = element.is_none();
        Ok(element)
    }

    /// Starts a new pass from the beginning; a shuffled dataset has another order in it unless
    /// it was told to keep one. Memory and threads stay.
    pub fn reset(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.ended = false;
        state.pass.restart()
    }
}
