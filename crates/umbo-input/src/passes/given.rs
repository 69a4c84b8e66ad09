//! When the items of a pass are given to the consumer of its iterator, and whether they still will
//! be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use umbo_base::error::{Error, Result};

/// A change outside of a pass.
pub(crate) type Effect = Box<dyn FnOnce() + Send>;

/// State outside of a pass changes when the consumer is given the item that was being made
/// then. Below a pass that works ahead, this is later.
#[derive(Clone, Default)]
pub(crate) struct Given {
    later: Option<Arc<Mutex<Vec<Effect>>>>,
    stop: Stop,
}

/// Whether the passes that work ahead have a consumer no more. Then a pass below them that makes
/// items only to drop them need not end that.
#[derive(Clone, Default)]
pub(crate) struct Stop(Vec<Arc<AtomicBool>>);

impl Stop {
    /// Fails if the consumer is gone.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            true => Err(Error::Cancelled(
                "the iterator of an element was released".into(),
            )),
            false => Ok(()),
        }
    }
}

impl Given {
    /// Items are given as soon as they are made.
    pub(crate) fn at_once() -> Given {
        Given::default()
    }

    /// Items are given later, when [`Given::take`]'s effects take place.
    pub(crate) fn later() -> Given {
        Given {
            later: Some(Arc::default()),
            stop: Stop(vec![Arc::default()]),
        }
    }

    /// The same for the pass below a pass that works ahead, whose own items are given as `above`
    /// says.
    pub(crate) fn below(&self, above: &Given) -> Given {
        let flags = self.stop.0.iter().chain(&above.stop.0);
        Given {
            later: self.later.clone(),
            stop: Stop(flags.cloned().collect()),
        }
    }

    /// Notes that no more items are given.
    pub(crate) fn end(&self) {
        self.stop
            .0
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
    }

    /// Whether items are still given.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Has `effect` take place when the item that is being made is given.
    pub(crate) fn then(&self, effect: Effect) {
        match &self.later {
            Some(effects) => effects.lock().push(effect),
            None => effect(),
        }
    }

    /// The effects of the item that was made last.
    pub(crate) fn take(&self) -> Vec<Effect> {
        self.later
            .as_ref()
            .map_or_else(Vec::new, |effects| std::mem::take(&mut *effects.lock()))
    }
}
