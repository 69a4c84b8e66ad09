//! A communicator of which a rank dies in a drawn call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use umbo_core::cluster::communicator::{Communicator, EngineCall, RankPlace};
use umbo_core::error::{Error, Result};

use crate::engine::Rank;

/// A rank's end of a communicator that fails at one of the calls: on the rank that dies before it
/// is there, or, if it was there, after the others have got all of it or some have.
pub struct Failing {
    pub rank: Arc<Rank>,
    pub plan: Death,
    calls: AtomicU64,
    /// It is cut off from the others, as all are when one has died.
    is_cut: AtomicBool,
}

/// Who dies in which call.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub rank: usize,
    pub call: u64,
    /// Whether it is there in that call.
    pub within: bool,
    /// The ranks that do not get what the call was to bring them, by bits.
    pub cut: u32,
}

impl Death {
    pub const NEVER: Death = Death {
        rank: usize::MAX,
        call: u64::MAX,
        within: false,
        cut: 0,
    };
}

impl Failing {
    pub fn new(rank: Arc<Rank>, plan: Death) -> Failing {
        Failing {
            rank,
            plan,
            calls: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Whether this is the rank that dies, and it has come to the call in which it does.
    pub fn has_died(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        self.plan.rank == self.rank.rank() && calls > self.plan.call
    }

    fn gone() -> Error {
        Error::Unavailable("a rank has died".into())
    }
}

impl Communicator for Failing {
    fn place(&self) -> RankPlace {
        self.rank.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let dies = self.plan.rank == self.rank.rank() && number >= self.plan.call;
        if self.is_cut.load(Ordering::Relaxed) || dies && !self.plan.within {
            self.rank.abort(&Failing::gone());
            return Err(Failing::gone());
        }
        self.rank.call(call)?;
        if number == self.plan.call && self.plan.within {
            let is_cut = dies || self.plan.cut & 1 << self.rank.rank() != 0;
            self.is_cut.store(is_cut, Ordering::Relaxed);
            if is_cut {
                self.rank.abort(&Failing::gone());
                return Err(Failing::gone());
            }
        }
        Ok(())
    }

    fn moves_device_memory(&self) -> bool {
        self.rank.moves_device_memory()
    }

    fn abort(&self, error: &Error) {
        self.rank.abort(error);
    }
}
