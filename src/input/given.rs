//! When the items of a pass are given to the consumer of its iterator.

use std::sync::Arc;

use parking_lot::Mutex;

/// What changes outside of a pass.
pub(super) type Effect = Box<dyn FnOnce() + Send>;

/// What changes outside of a pass changes when the consumer is given the item that was being made then. Below a pass
/// that works ahead, this is later.
#[derive(Clone, Default)]
pub(super) struct Given(Option<Arc<Mutex<Vec<Effect>>>>);

impl Given {
    /// Items are given as soon as they are made.
    pub(super) fn at_once() -> Given {
        Given(None)
    }

    /// Items are given later, when [`Given::take`]'s effects take place.
    pub(super) fn later() -> Given {
        Given(Some(Arc::default()))
    }

    /// Has `effect` take place when the item that is being made is given.
    pub(super) fn then(&self, effect: Effect) {
        match &self.0 {
            Some(effects) => effects.lock().push(effect),
            None => effect(),
        }
    }

    /// The effects of the item that was made last.
    pub(super) fn take(&self) -> Vec<Effect> {
        self.0.as_ref().map_or_else(Vec::new, |effects| std::mem::take(&mut *effects.lock()))
    }
}
