//! What fails on one rank, and ends nothing but a step or an epoch.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use umbo_core::error::{Error, Result, Status};
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;

/// Something that fails on a rank once, and ends nothing but a step or an epoch.
pub struct Trouble {
    kind: Kind,
    /// How often it does not fail before.
    after: u64,
    passed: AtomicU64,
    /// Whether the epochs of the rank have limits.
    is_limited: bool,
    token: Mutex<Cancellation>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Nothing,
    Callback,
    Nested,
    Cancellation,
    Progress,
}

impl Trouble {
    pub const KINDS: [Kind; 4] = [
        Kind::Callback,
        Kind::Nested,
        Kind::Cancellation,
        Kind::Progress,
    ];

    pub fn new(kind: Kind, after: u64, is_limited: bool) -> Trouble {
        Trouble {
            kind,
            after,
            passed: AtomicU64::new(0),
            is_limited,
            token: Mutex::default(),
        }
    }

    pub fn none() -> Trouble {
        Trouble::new(Kind::Nothing, 0, false)
    }

    pub fn limits(&self) -> Limits {
        if !self.is_limited && self.kind != Kind::Cancellation {
            return Limits::default();
        }
        let mut token = self.token.lock().unwrap();
        if token.is_cancelled() {
            *token = Cancellation::new();
        }
        Limits {
            deadline: Some(Instant::now() + Duration::from_secs(3600)),
            cancellation: Some(token.clone()),
        }
    }

    fn is_now(&self, kind: Kind) -> bool {
        self.kind == kind && self.passed.fetch_add(1, Ordering::Relaxed) == self.after
    }

    /// Fails if this is the time and the place.
    pub fn meet(&self, kind: Kind) -> Result<()> {
        match self.is_now(kind) {
            true => Err(Error::NotFound("as planned".into())),
            false => Ok(()),
        }
    }

    /// In a callback of a replica, all of whose rank's replicas call it.
    pub fn meet_in(&self, context: &ReplicaContext, kind: Kind) -> Result<()> {
        if context.replica() > 0 {
            return Ok(());
        }
        if kind == Kind::Callback && self.is_now(Kind::Cancellation) {
            self.token.lock().unwrap().cancel();
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
        }
        self.meet(kind)
    }
}

/// Whether an error is one of those that end nothing, on whichever rank.
pub fn is_planned(error: &Error) -> bool {
    matches!(error.status(), Status::Cancelled | Status::NotFound)
}
