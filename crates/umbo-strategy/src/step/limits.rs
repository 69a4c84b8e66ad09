//! The limits that may end a run before its callbacks have returned.

use std::time::Instant;

use super::cancellation::Cancellation;
use umbo_base::error::Error;

/// The limits that may end a run before its callbacks have returned.
#[derive(Clone, Default)]
pub struct Limits {
    /// The time when it ends at the latest.
    pub deadline: Option<Instant>,
    /// A token that may end it, too.
    pub cancellation: Option<Cancellation>,
}

impl Limits {
    /// Whether there is one.
    pub fn is_bounded(&self) -> bool {
        self.deadline.is_some() || self.cancellation.is_some()
    }

    /// The reason why the run should end now, if it should.
    pub fn exceeded(&self) -> Option<Error> {
        if self
            .cancellation
            .as_ref()
            .is_some_and(Cancellation::is_cancelled)
        {
            return Some(Error::Cancelled(
                "the run was cancelled; a token stays cancelled, so give another run a new one"
                    .into(),
            ));
        }
        self.deadline
            .filter(|deadline| Instant::now() >= *deadline)
            .map(|_| {
                Error::DeadlineExceeded(
                    "the run's deadline has passed; give it more time, or have callbacks ask \
                     whether to stop"
                        .into(),
                )
            })
    }
}
