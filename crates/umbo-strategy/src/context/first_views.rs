//! A look, in the first steps of every strategy, whether callbacks write small variables through
//! views of them, which only a cast lets them do. It costs some microseconds in all: of later steps
//! and of large variables nothing is looked at. A strict strategy does so in all steps
//! ([`super::strict_callbacks`]).

use std::sync::atomic::Ordering;

use umbo_base::observe::log::{self, Level};
use umbo_tensor::Tensor;
use umbo_tensor::red_zone::Region;
use umbo_tensor::values::variable::Variable;

use crate::step::ReplicaContext;
use crate::step::slot::LocalState;

/// The number of steps that are looked at. A mistake of a callback is in each of its steps.
const FIRST_STEPS: u64 = 2;

/// The bytes of a variable that are looked at, at most.
const SMALL: usize = 64 << 10;

/// A view that a callback has of a variable.
pub(crate) struct FirstView {
    variable: Variable,
    buffer: usize,
    /// The number of times that the buffer had been written when the view was made.
    writes: u64,
    region: Region,
    fingerprint: u64,
}

impl FirstView {
    /// Whether a callback, and not the library, has written the memory.
    fn is_written(&self) -> bool {
        self.variable.writes(self.buffer) == self.writes
            && self
                .region
                .fingerprint()
                .is_ok_and(|now| now != self.fingerprint)
    }
}

impl ReplicaContext {
    /// Whether views are looked at in this step.
    pub(crate) fn looks_at_views(&self) -> bool {
        self.step_number() <= FIRST_STEPS
    }

    /// Notes that the callback was shown `value`, a buffer of `variable` or a copy of it. Where
    /// that cannot be noted, for want of memory, it is not looked at.
    pub(crate) fn note_view(&self, variable: &Variable, value: &Tensor) {
        let Some(step) = &self.step else {
            return;
        };
        let is_small = value.device().is_host_memory() && value.bytes() <= SMALL;
        if self.watcher.is_some() || !is_small {
            return;
        }
        let buffer = variable.visible_buffer();
        let writes = variable.writes(buffer);
        let region = Region::of(value);
        let is_noted = |view: &FirstView| view.writes == writes && view.region.is_of(value);
        self.with_local(step, |LocalState { first_views, .. }| {
            if first_views.iter().any(is_noted) || first_views.try_reserve(1).is_err() {
                return;
            }
            if let Ok(fingerprint) = region.fingerprint() {
                first_views.push(FirstView {
                    variable: variable.clone(),
                    buffer,
                    writes,
                    region,
                    fingerprint,
                });
            }
        });
    }

    /// The callback has returned. The log warns, once for a strategy, if a variable was written.
    pub(crate) fn check_first_views(&self) {
        let Some(step) = &self.step else {
            return;
        };
        let views = self.with_local(step, |local| std::mem::take(&mut local.first_views));
        let Some(written) = views.iter().find(|view| view.is_written()) else {
            return;
        };
        let is_known = &self.strategy().inner().steps.has_warned_of_written_view;
        if !is_known.swap(true, Ordering::Relaxed) {
            log::keep(Level::Warning, || {
                format!(
                    "{:?} was written through a view of it, which is for reading, while the \
                     callback of replica {} ran (by it, or by another at the same time): no step \
                     that fails undoes that, and other replicas see it halfway; submit gradients, \
                     or assign",
                    written.variable,
                    self.replica()
                )
            });
        }
    }
}
