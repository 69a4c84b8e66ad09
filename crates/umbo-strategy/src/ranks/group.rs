//! The group of ranks of one strategy.

use std::fmt;
use std::sync::{Arc, Weak};

use super::series::{CommunicatorState, Series};
use super::totals::AllTotals;
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_base::observe::{self, Counter};
use umbo_comm::communicator::{Alone, Communicator};
use umbo_tensor::values::sharding::Loads;

/// The ranks that one strategy is spread over. A process alone is one rank.
pub struct Ranks {
    pub(super) engine: Arc<dyn Communicator>,
    pub(super) turn: Arc<Mutex<CommunicatorState>>,
    /// A number of the strategy that all ranks have.
    pub(super) tag: u64,
    /// The number of replicas each rank has.
    pub(super) replicas: Vec<usize>,
    /// Whether the global replica count is fixed, so that the bits of a step must not depend on
    /// how replicas are distributed over ranks.
    pub(super) is_fixed: bool,
    /// Whether every rank keeps all state, so that ranks can die, leave and join.
    pub(super) is_elastic: bool,
    pub(super) series: Mutex<Series>,
    pub(super) totals: Mutex<AllTotals>,
    /// The number of bytes of sharded variables each rank has.
    pub(super) loads: Mutex<Loads>,
}

impl Ranks {
    /// A process alone, with so many replicas.
    pub fn alone(replicas: usize) -> Arc<Ranks> {
        Arc::new(Ranks::of(
            &(Arc::new(Alone) as _),
            Arc::default(),
            vec![replicas],
        ))
    }

    /// The ranks of `engine`, whose state is `turn`, with so many replicas each. Their number is
    /// not fixed, and they are not elastic.
    pub(super) fn of(
        engine: &Arc<dyn Communicator>,
        turn: Arc<Mutex<CommunicatorState>>,
        replicas: Vec<usize>,
    ) -> Ranks {
        Ranks {
            engine: Arc::clone(engine),
            turn,
            tag: 0,
            replicas,
            is_fixed: false,
            is_elastic: false,
            series: Mutex::default(),
            totals: Mutex::default(),
            loads: Mutex::new(Loads::new(engine.size())),
        }
    }

    /// Whether there is one rank. Then steps exchange nothing.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        // In a library without ranks the compiler leaves out what they exchange.
        !crate::HAS_RANKS || self.replicas.len() == 1
    }

    /// Gathers the same number of bytes from each rank.
    pub(super) fn gather_alike(&self, own_bytes: &[u8]) -> Result<Vec<u8>> {
        let size = self.size();
        let mut bytes = vec![0; own_bytes.len() * size];
        count(own_bytes.len(), bytes.len());
        self.engine
            .all_gather(own_bytes, &mut bytes, &vec![own_bytes.len(); size])?;
        Ok(bytes)
    }

    /// Whether the communicator moves memory of devices that the host cannot address, too.
    pub fn moves_device_memory(&self) -> bool {
        self.engine.moves_device_memory()
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.engine.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.engine.size()
    }

    /// The number of replicas all ranks have together.
    pub fn num_replicas(&self) -> usize {
        self.replicas.iter().sum()
    }

    /// The number of replicas each rank has.
    pub fn replicas(&self) -> &[usize] {
        &self.replicas
    }

    /// Whether there are several ranks with a fixed global replica count, so that a step has the
    /// same bits for every number of them.
    pub fn has_fixed_replicas(&self) -> bool {
        self.is_fixed && !self.is_alone()
    }

    /// Whether there are several ranks, each of which keeps all state: they can die, leave and
    /// join.
    pub fn are_elastic(&self) -> bool {
        self.is_elastic && !self.is_alone()
    }

    /// The global id of this rank's first replica.
    pub fn first_replica(&self) -> usize {
        self.replicas[..self.rank()].iter().sum()
    }
}

/// The state of `engine`, behind a lock: strategies that share an engine use it in turn.
pub(super) fn turn_of(engine: &Arc<dyn Communicator>) -> Arc<Mutex<CommunicatorState>> {
    type Known = (Weak<dyn Communicator>, Arc<Mutex<CommunicatorState>>);
    static TURNS: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let mut turns = TURNS.lock();
    turns.retain(|(known, _)| known.strong_count() > 0);
    let is_known = |(known, _): &&Known| Weak::as_ptr(known).addr() == Arc::as_ptr(engine).addr();
    if let Some((_, turn)) = turns.iter().find(is_known) {
        return Arc::clone(turn);
    }
    let turn = Arc::default();
    turns.push((Arc::downgrade(engine), Arc::clone(&turn)));
    turn
}

impl fmt::Debug for Ranks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {} of {}", self.rank(), self.size())
    }
}

/// Counts the sent and received bytes, including those that a rank sends to itself.
pub(super) fn count(sent: usize, received: usize) {
    observe::count(Counter::Exchanged, || (sent + received) as u64);
}
