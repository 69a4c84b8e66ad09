//! Passes over a dataset, plain or distributed, as their consumer sees them.

use parking_lot::Mutex;

use crate::error::Result;
use crate::input::spec::ElementSpec;
use crate::input::stage::Pass;
use crate::strategy::context::require_cross_replica_of;
use crate::values::Value;

/// A pass over a dataset. Threads may share it; each element goes to one of them.
///
/// Dropping it, also before the end, stops and joins its threads.
pub struct PassIterator {
    state: Mutex<State>,
    /// The id of the strategy that its elements are distributed for, if they are.
    strategy: Option<u64>,
    spec: ElementSpec,
}

struct State {
    pass: Box<dyn Pass<Value>>,
    ended: bool,
}

impl PassIterator {
    pub(super) fn new(pass: Box<dyn Pass<Value>>, spec: ElementSpec) -> PassIterator {
        PassIterator::of_strategy(pass, None, spec)
    }

    /// As [`PassIterator::new`], for the replicas of the strategy with this id.
    pub(super) fn of_strategy(
        pass: Box<dyn Pass<Value>>,
        strategy: Option<u64>,
        spec: ElementSpec,
    ) -> PassIterator {
        PassIterator { state: Mutex::new(State { pass, ended: false }), strategy, spec }
    }

    /// The structure, dtypes and shapes of the elements: those of what it iterates over.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// Elements that are distributed for a strategy are for all of its replicas: they are asked
    /// for in its cross-replica context or in the default context.
    fn check_context(&self, what: &str) -> Result<()> {
        self.strategy.map_or(Ok(()), |strategy| require_cross_replica_of(strategy, what))
    }

    /// The next element, or nothing at the end and ever after. Blocks until the element is there
    /// or another thread's call has returned.
    ///
    /// The memory of an element that has been dropped, with all that was made from it, serves a
    /// later one. After an error the call may be repeated and goes on behind what failed.
    /// Errors are those of the sources and transformations. If elements are distributed for a
    /// strategy, FAILED_PRECONDITION inside of a replica's callback and in the context of another
    /// strategy.
    pub fn next(&self) -> Result<Option<Value>> {
        self.check_context("umbo_iterator_next")?;
        let mut state = self.state.lock();
        if state.ended {
            return Ok(None);
        }
        let element = state.pass.next()?;
        state.ended = element.is_none();
        Ok(element)
    }

    /// Starts a new pass from the beginning; a shuffled dataset has another order in it unless
    /// it was told to keep one. Memory and threads stay. FAILED_PRECONDITION as for
    /// [`PassIterator::next`].
    pub fn reset(&self) -> Result<()> {
        self.check_context("umbo_iterator_reset")?;
        let mut state = self.state.lock();
        state.ended = false;
        state.pass.restart()
    }
}
