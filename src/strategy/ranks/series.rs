//! What becomes of the meetings of a communicator and of a series.

use crate::error::{Error, Status};

/// Why nothing more is exchanged, as often as somebody asks.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub rank: Option<usize>,
    pub status: Status,
    pub message: String,
}

impl Ended {
    pub fn error(&self) -> Error {
        let Ended { rank, status, message } = self.clone();
        Error::Rank { rank, status, message }
    }
}

/// The state of a communicator, which several strategies may share.
#[derive(Default)]
pub(super) struct Turn {
    /// Why it cannot be used any more.
    pub broken: Option<Ended>,
}

/// The meetings of one step, of one change outside of steps, or a single one.
#[derive(Default)]
pub(super) struct Series {
    pub number: u64,
    pub operation: u64,
    pub is_open: bool,
    pub step: u64,
    pub ended: Option<Ended>,
    /// A rank passes over what all of them were to begin.
    pub passes_over: bool,
}

impl Series {
    /// Begins the next one. Outside of steps `step` is 0.
    pub fn begin(&mut self, step: u64) {
        *self = Series { number: self.number + 1, is_open: true, step, ..Series::default() };
    }
}
