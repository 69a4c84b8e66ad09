//! The state of a communicator, and of a series of collectives.

use umbo_base::error::{Error, Status};

/// The reason why nothing more is exchanged. It makes an error for each later call.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub rank: Option<usize>,
    pub status: Status,
    pub message: String,
}

impl Ended {
    pub fn error(&self) -> Error {
        let Ended {
            rank,
            status,
            message,
        } = self.clone();
        Error::Rank {
            rank,
            status,
            message,
        }
    }
}

/// The state of a communicator, which several strategies may share.
#[derive(Default)]
pub(super) struct CommunicatorState {
    /// The reason why it cannot be used any more.
    pub broken: Option<Ended>,
}

/// The collectives of one step, of one change outside steps, or a single collective.
#[derive(Default)]
pub(super) struct Series {
    pub number: u64,
    pub operation: u64,
    pub is_open: bool,
    pub step: u64,
    pub ended: Option<Ended>,
    /// A rank passes over the run that all ranks were to begin.
    pub passes_over: bool,
}

impl Series {
    /// Begins the next series. Outside steps `step` is 0.
    pub fn begin(&mut self, step: u64) {
        *self = Series {
            number: self.number + 1,
            is_open: true,
            step,
            ..Series::default()
        };
    }
}
