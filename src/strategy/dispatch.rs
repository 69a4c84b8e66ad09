//! How a step gets to the threads of its replicas, and where the coordinator is meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::central_storage::Job;
use super::protocol::signal::Spin;
use super::step::StepRecord;
use crate::executor::affinity;

impl StepRecord {
    /// Posts the step to the threads of all replicas from `first` on.
    pub fn dispatch(self: &Arc<Self>, first: usize) {
        let here = self.place_coordinator(first);
        for mailbox in &self.mailboxes[first..] {
            mailbox.see_coordinator(here);
            mailbox.post(Arc::clone(self) as Arc<dyn Job>);
        }
    }

    /// Makes way for the threads of the replicas from `first` on if one of them is bound to the
    /// processor of this thread, which need not take that one; the system would leave both there.
    /// Returns the processor that this thread is on now.
    fn place_coordinator(&self, first: usize) -> Option<usize> {
        const PAUSE: Duration = Duration::from_millis(1);
        let here = affinity::current_processor()?;
        let threads = &self.mailboxes[first..];
        let taken = |processor| threads.iter().any(|mailbox| mailbox.is_bound_to(processor));
        if self.spin == Spin::Never || !taken(here) {
            return Some(here);
        }
        // Not again and again where the system insists.
        let now = Instant::now();
        let mut moved = self.coordinator_moved.lock();
        if moved.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            *moved = Some(now);
            affinity::step_aside(taken);
            return affinity::current_processor();
        }
        Some(here)
    }

    /// How the coordinator waits for the threads of all replicas from `first` on if it is allowed
    /// to spin in this way: not at all on the processor that one of them needs.
    pub fn coordinator_spin(&self, allowed: Spin, first: usize) -> Spin {
        match affinity::current_processor() {
            Some(here) if allowed == Spin::Bounded => {
                let taken = self.mailboxes[first..].iter().any(|mailbox| mailbox.is_bound_to(here));
                if taken { Spin::Never } else { allowed }
            }
            _ => allowed,
        }
    }
}
