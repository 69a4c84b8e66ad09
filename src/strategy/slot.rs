//! What coordinator and replica of a step leave for each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::central_storage::Strategy;
use super::lending::InTurn;
use super::metrics::MetricTable;
use super::operation::Operation;
use super::scratch::Scratch;
use super::strict_callbacks::Guards;
use crate::device::DeviceId;
use crate::error::Result;
use crate::values::Value;
use crate::values::variable::Variable;

/// What runs once for all replicas. It gets the replicas' arguments in replica order and returns
/// one result for each.
pub type Merge =
    Box<dyn FnOnce(&Strategy, Vec<Option<Value>>) -> Result<Vec<Option<Value>>> + Send>;

/// What one replica leaves for the coordinator and the coordinator for it. Nothing is locked, and no
/// line of memory goes back, for a callback that does and returns nothing.
pub(super) struct Slot<R> {
    /// What the replica finds; written by the coordinator.
    pub role: InTurn<Option<R>>,
    /// Whose thread computes for the replica: its own, or that of one before it on its device.
    pub thread: AtomicUsize,
    /// Why the callback failed, or what it returned, if it did.
    pub outcome: InTurn<Option<Result<Value>>>,
    /// Whether the callback failed.
    pub failed: AtomicBool,
    /// The library told the replica to stop.
    pub told_to_stop: AtomicBool,
    /// Whether the desk was used in this step.
    used: AtomicBool,
    desk: Mutex<Desk>,
}

impl<R> Slot<R> {
    pub fn on(replica: usize, device: DeviceId, strict: bool) -> Slot<R> {
        Slot {
            role: InTurn::default(),
            thread: AtomicUsize::new(replica),
            outcome: InTurn::default(),
            failed: AtomicBool::new(false),
            told_to_stop: AtomicBool::new(false),
            used: AtomicBool::new(true),
            desk: Mutex::new(Desk {
                request: None,
                reply: None,
                metrics: MetricTable::default(),
                scratch: Scratch::on(device),
                sequence: 0,
                viewed: HashMap::new(),
                guards: strict.then(Box::default),
            }),
        }
    }

    /// The replica's desk. Its lock is free whenever somebody wants it: the rendezvous says whose turn it is.
    pub fn desk(&self) -> MutexGuard<'_, Desk> {
        if !self.is_used() {
            self.used.store(true, Ordering::Relaxed);
        }
        self.desk.lock()
    }

    /// Whether there may be anything on the desk.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn is_told_to_stop(&self) -> bool {
        self.told_to_stop.load(Ordering::Relaxed)
    }

    /// Prepares for a step, as its coordinator. What is as it should be is not written.
    pub fn set_up(&self) {
        for flag in [&self.failed, &self.told_to_stop] {
            if flag.load(Ordering::Relaxed) {
                flag.store(false, Ordering::Relaxed);
            }
        }
        if self.is_used() {
            let mut desk = self.desk.lock();
            desk.metrics.clear();
            if let Some(guards) = &mut desk.guards {
                guards.begin();
            }
            self.used.store(desk.guards.is_some(), Ordering::Relaxed);
        }
    }

    /// The callback has returned: takes from the desk, on the replica's thread, what the coordinator need
    /// not see.
    pub fn clear_desk(&self) {
        if self.is_used() {
            let mut desk = self.desk.lock();
            desk.viewed.clear();
            desk.scratch.reset();
            desk.sequence = 0;
            let is_left = desk.guards.is_some() || !desk.metrics.is_empty();
            self.used.store(is_left, Ordering::Relaxed);
        }
    }
}

/// What a replica works with in a step.
pub(super) struct Desk {
    pub request: Option<Request>,
    pub reply: Option<Result<Option<Value>>>,
    pub metrics: MetricTable,
    pub scratch: Scratch,
    /// How many synchronising operations the replica has begun.
    pub sequence: u64,
    /// Variables of other strategies that the callback has views of.
    pub viewed: HashMap<usize, Variable>,
    /// What a strict strategy looks at.
    pub guards: Option<Box<Guards>>,
}

/// What a replica asks for when it arrives.
pub(super) struct Request {
    pub operation: Operation,
    pub arguments: Option<Value>,
    pub merge: Merge,
    pub sequence: u64,
}
