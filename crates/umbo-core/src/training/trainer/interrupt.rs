//! An interrupt (Ctrl-C) during an epoch: it ends the epoch after the step in progress, and the
//! training is saved.

use std::cell::Cell;
use std::path::Path;

use super::parts::Parts;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_system::interrupts::InterruptWatch;

/// The message of an interrupt.
const INTERRUPTED: &str = "interrupted (Ctrl-C); the step in progress was completed";

/// Watches for an interrupt, as long as it lives.
pub(super) struct Interrupts<'a> {
    watch: InterruptWatch,
    /// The file to which the training is saved.
    path: &'a Path,
    /// Whether an interrupt has ended the epoch on this rank.
    has_ended_it: Cell<bool>,
}

impl<'a> Interrupts<'a> {
    /// Begins to watch.
    pub(super) fn begin(path: &'a Path) -> Result<Interrupts<'a>> {
        let watch = InterruptWatch::begin().map_err(|error| {
            Error::Internal(format!("the signal of Ctrl-C cannot be watched: {error}"))
        })?;
        Ok(Interrupts {
            watch,
            path,
            has_ended_it: Cell::new(false),
        })
    }

    /// Ends the epoch if an interrupt has come: CANCELLED.
    pub(super) fn check(&self) -> Result<()> {
        if !self.watch.has_come() {
            return Ok(());
        }
        self.has_ended_it.set(true);
        Err(Error::Cancelled(INTERRUPTED.into()))
    }

    /// The error with which an epoch has ended. After an interrupt the training is saved.
    pub(super) fn saved_after(&self, error: Error, parts: &Parts) -> Error {
        // All ranks save together. What the others learn of an interrupt is the error's text.
        let is_of_other =
            || !parts.strategy.ranks().is_alone() && error.to_string().contains(INTERRUPTED);
        let has_ended_it = self.has_ended_it.get() || is_of_other();
        if !has_ended_it && !self.watch.has_come() {
            return error;
        }
        let path = self.path.display();
        if let Err(failure) = parts.checkpoint.save(self.path) {
            return failure.within(format!(
                "interrupted, and the training cannot be saved to {path}"
            ));
        }
        log::log(Level::Info, || {
            format!("interrupted; the training was saved in {path}")
        });
        match has_ended_it {
            true => Error::Cancelled(format!(
                "{INTERRUPTED}; the training was saved in '{path}', and the next call continues it"
            )),
            false => error,
        }
    }
}
