//! How a step gets to the threads of its replicas, in which turn they have their devices, and where
//! the coordinator is meanwhile.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::threads::ReplicaJob;
use crate::protocol::mailbox::Mailbox;
use crate::protocol::rendezvous::ReplicaPhase;
use crate::step::StepRecord;
use umbo_executor::affinity;
use umbo_executor::wait::Spin;

impl StepRecord {
    /// Posts the step to the threads of all replicas from `first` on. Of those that share a device
    /// only the first begins.
    pub fn dispatch(&self, first: usize) {
        let processor = self.place_coordinator(first);
        let post = |replica: usize| {
            self.mailboxes[replica].see_coordinator(processor);
            self.post(replica);
        };
        match &self.turns {
            None => {
                // All mailboxes are written before the first wake-up, which waits for the cache
                // lines.
                (first..self.replicas()).for_each(post);
                self.mailboxes[first..]
                    .iter()
                    .for_each(|mailbox| mailbox.notify());
            }
            // The coordinator itself runs the earlier replicas, and is the first on its device.
            Some(turns) => turns.open(|replica| {
                if replica >= first {
                    post(replica);
                    self.mailboxes[replica].notify();
                }
            }),
        }
    }

    /// `replica` does not compute any more, so that another one on its device may. Call it before
    /// others learn of it. Returns that replica if it has not begun: the caller must begin it
    /// on some thread.
    pub fn pass_device(&self, replica: usize) -> Option<usize> {
        let next = self.turns.as_ref()?.pass(replica)?;
        if !next.is_new {
            self.notify(next.replica);
        }
        next.is_new.then_some(next.replica)
    }

    /// The mailbox of the thread that computes for `replica`.
    pub fn mailbox(&self, replica: usize) -> &Mailbox<dyn ReplicaJob> {
        &self.mailboxes[self.slots[replica].thread.load(Ordering::Relaxed)]
    }

    /// Begins `replica` on its own thread.
    pub fn begin(&self, replica: usize) {
        self.post(replica);
        self.mailboxes[replica].notify();
    }

    /// Makes the thread that computes for `replica` look again.
    fn notify(&self, replica: usize) {
        self.mailbox(replica).notify();
    }

    /// Whether `replica`, which waits in a merge call on a thread of its own, may continue: it was
    /// answered and has its device, or nobody will answer.
    pub fn may_go_on(&self, replica: usize) -> bool {
        let has_device = || self.turns.as_ref().is_none_or(|turns| turns.has(replica));
        self.rendezvous.is_abandoned() || (self.rendezvous.is_released(replica) && has_device())
    }

    /// Whether `replica`, which nobody will answer any more, has its device again, which it then
    /// keeps until it passes it on.
    pub fn wants_device(&self, replica: usize) -> bool {
        self.turns.as_ref().is_none_or(|turns| turns.want(replica))
    }

    /// Whether `replica` computes for the others and not because it has its device.
    pub fn waits_for_device(&self, replica: usize) -> bool {
        let computes = self.rendezvous.phase(replica) == ReplicaPhase::Computing;
        computes && self.turns.as_ref().is_some_and(|turns| !turns.has(replica))
    }

    /// Resumes all replicas that wait, as the coordinator, while nobody computes: at once, or one
    /// after the other if they share a device.
    pub fn resume(&self) {
        let processor = affinity::current_processor();
        let waiting = |replica: &usize| self.rendezvous.phase(*replica) == ReplicaPhase::Waiting;
        if let Some(turns) = &self.turns {
            turns.want_again(|replica| waiting(&replica));
        }
        for replica in (0..self.replicas()).filter(waiting) {
            self.mailbox(replica).see_coordinator(processor);
            self.rendezvous.resume(replica);
        }
        // All flags are written before the first wake-up, as in `dispatch`. A replica that has
        // finished meanwhile was not asleep.
        let is_present =
            |replica: &usize| self.rendezvous.phase(*replica) != ReplicaPhase::Finished;
        (0..self.replicas())
            .filter(is_present)
            .for_each(|replica| self.notify(replica));
    }

    /// Wakes the threads of all replicas, so that they check again; in an abandoned step also the
    /// threads of replicas that have not begun.
    pub fn notify_all(&self) {
        if let Some(turns) = self
            .turns
            .as_ref()
            .filter(|_| self.rendezvous.is_abandoned())
        {
            turns.notify_rest(|replica| self.post(replica));
        }
        for mailbox in self.mailboxes.iter() {
            mailbox.notify();
        }
        self.creations.check_again();
    }

    /// Makes way for the threads of the replicas from `first` on if one of them is on the
    /// processor of this thread, which need not take that one; the system would leave both there.
    /// Returns the processor that this thread is on now.
    fn place_coordinator(&self, first: usize) -> Option<usize> {
        const PAUSE: Duration = Duration::from_millis(1);
        let processor = affinity::current_processor()?;
        if !self.has_processor_each || !self.is_taken(processor, first) {
            return Some(processor);
        }
        // Not again and again where the system insists.
        let now = Instant::now();
        let mut moved = self.coordinator_moved.lock();
        if moved.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            *moved = Some(now);
            affinity::step_aside(|processor| self.is_taken(processor, first));
            return affinity::current_processor();
        }
        Some(processor)
    }

    /// Whether a thread of the replicas from `first` on is on this processor. With replica 0 on
    /// this thread, the others of its device wait while it computes.
    fn is_taken(&self, processor: usize, first: usize) -> bool {
        let with_first = |replica| {
            first > 0
                && self
                    .turns
                    .as_ref()
                    .is_some_and(|turns| turns.share_a_device(0, replica))
        };
        let mut threads = (first..self.replicas()).filter(|&replica| !with_first(replica));
        threads.any(|replica| self.mailboxes[replica].is_on(processor))
    }

    /// How the coordinator waits for the threads of all replicas from `first` on if it is allowed
    /// to spin in this way: not at all on the processor that one of them needs.
    pub fn coordinator_spin(&self, allowed: Spin, first: usize) -> Spin {
        match affinity::current_processor() {
            Some(processor) if allowed == Spin::BOUNDED && self.is_taken(processor, first) => {
                Spin::NEVER
            }
            _ => allowed,
        }
    }
}
