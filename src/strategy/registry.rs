//! A registry of weak references, by id.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Finds its members while they live.
pub(super) struct WeakRegistry<T>(Mutex<BTreeMap<u64, Weak<T>>>);

impl<T> WeakRegistry<T> {
    pub const fn new() -> WeakRegistry<T> {
        WeakRegistry(Mutex::new(BTreeMap::new()))
    }

    pub fn add(&self, id: u64, member: &Arc<T>) {
        self.0.lock().insert(id, Arc::downgrade(member));
    }

    pub fn find(&self, id: u64) -> Option<Arc<T>> {
        self.0.lock().get(&id).and_then(Weak::upgrade)
    }

    /// Whether there is a member with this id. Takes no reference to it.
    pub fn has(&self, id: u64) -> bool {
        self.0.lock().get(&id).is_some_and(|member| member.strong_count() > 0)
    }

    /// Forgets a member that ends. Returns whether it was the last.
    pub fn remove(&self, id: u64) -> bool {
        let mut members = self.0.lock();
        members.remove(&id).is_some() && members.is_empty()
    }
}
