//! The moments at which the items of a pass are given to the consumer of its iterator, and whether
//! they still will be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::passes::request_limits::RequestLimits;
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

/// Whether a pass that makes items only to drop them should stop: the passes that work ahead have a
/// consumer no more, or the consumer's request has reached a limit.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    /// Whether the consumers of passes that work ahead are gone.
    gone: Vec<Arc<AtomicBool>>,
    /// The limits of the iterator's request.
    request: Option<Arc<RequestLimits>>,
}

impl Stop {
    /// Fails if the consumer is gone, and if its request should end now.
    pub(crate) fn check(&self) -> Result<()> {
        if self.gone.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled(
                "the iterator of an element was released".into(),
            ));
        }
        match self.request.as_ref().and_then(|request| request.exceeded()) {
            Some(why) => {
                let place = "between elements that are left out, where the next request continues";
                Err(Error::Interrupted(Box::new(why.within(place))))
            }
            None => Ok(()),
        }
    }
}

impl Given {
    /// Items are given as soon as they are made.
    pub(crate) fn at_once() -> Given {
        Given::default()
    }

    /// Items are given as soon as they are made, to requests that have these limits.
    pub(crate) fn to_requests(limits: &Arc<RequestLimits>) -> Given {
        let request = Some(Arc::clone(limits));
        Given {
            later: None,
            stop: Stop {
                request,
                ..Stop::default()
            },
        }
    }

    /// Items are given later, when [`Given::take`]'s effects take place.
    pub(crate) fn later() -> Given {
        Given {
            later: Some(Arc::default()),
            stop: Stop {
                gone: vec![Arc::default()],
                request: None,
            },
        }
    }

    /// The same for the pass below a pass that works ahead, whose own items are given as `above`
    /// says.
    pub(crate) fn below(&self, above: &Given) -> Given {
        let flags = self.stop.gone.iter().chain(&above.stop.gone);
        Given {
            later: self.later.clone(),
            stop: Stop {
                gone: flags.cloned().collect(),
                request: above.stop.request.clone(),
            },
        }
    }

    /// Notes that no more items are given.
    pub(crate) fn end(&self) {
        self.stop
            .gone
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
