//! Replicas and their coordinator, of which models take steps.

use std::ops::Range;
use std::sync::Arc;

use super::explore::Body;
use super::protocol::mailbox::{Mailbox, Wake};
use super::protocol::rendezvous::{Departure, Rendezvous, WaitOutcome};
use super::wakes::post;
use crate::sync::{AtomicUsize, Ordering};
use crate::wait::{Signal, Spin};

/// Replicas that compute numbers, and their coordinator.
pub struct Crew {
    pub rendezvous: Rendezvous,
    pub mailboxes: Vec<Mailbox<Step>>,
    /// What the replicas leave for the coordinator.
    written: Vec<AtomicUsize>,
    /// What the coordinator leaves for the replicas.
    answer: AtomicUsize,
    /// The number of the step that was cancelled.
    pub cancelled: AtomicUsize,
    /// Replicas that were the last of an abandoned step.
    last: AtomicUsize,
    pub drained: Signal,
}

/// What the callbacks of a step do.
#[derive(Clone, Copy)]
pub struct Step {
    pub number: usize,
    pub merge_calls: usize,
}

impl Crew {
    pub fn new(replicas: usize) -> Arc<Crew> {
        Arc::new(Crew {
            rendezvous: Rendezvous::new(replicas),
            mailboxes: (0..replicas).map(|_| Mailbox::new()).collect(),
            written: (0..replicas).map(|_| AtomicUsize::new(0)).collect(),
            answer: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            drained: Signal::new(),
        })
    }

    /// The threads of these replicas, and one that calls `run`.
    pub fn threads(
        self: &Arc<Crew>,
        replicas: Range<usize>,
        caller: impl FnOnce(&Crew) + Send + 'static,
    ) -> Vec<Body> {
        let thread = |replica: usize| -> Body {
            let crew = Arc::clone(self);
            Box::new(move || {
                let mut last = None;
                let mailbox = &crew.mailboxes[replica];
                while let Wake::Job(step) = mailbox.wait(Spin::NEVER, &mut last, || false) {
                    crew.execute(replica, *step, false);
                }
            })
        };
        let mut threads: Vec<Body> = replicas.map(thread).collect();
        let crew = Arc::clone(self);
        threads.push(Box::new(move || {
            caller(&crew);
            crew.mailboxes.iter().for_each(Mailbox::close);
        }));
        threads
    }

    /// What `ReplicaJob::execute` and `ReplicaContext::synchronize` do.
    pub fn execute(&self, replica: usize, step: Step, inline: bool) {
        self.rendezvous.begin(replica);
        self.compute(replica, step, inline);
    }

    /// The callback and its end.
    pub fn compute(&self, replica: usize, step: Step, inline: bool) {
        for call in 1..=step.merge_calls {
            self.written[replica].store(step.number * 10 + call, Ordering::Relaxed);
            self.rendezvous.arrive(replica);
            if inline {
                assert_eq!(self.wait_for_all(step), WaitOutcome::Waiting);
                self.serve(step.number * 10 + call);
            } else {
                let released = || self.rendezvous.is_released(replica);
                assert!(matches!(
                    self.mailboxes[replica].wait(Spin::NEVER, &mut None, released),
                    Wake::Released
                ));
            }
            if self.rendezvous.is_abandoned() {
                break;
            }
            assert_eq!(self.answer.load(Ordering::Relaxed), step.number * 10 + call);
        }
        self.written[replica].store(step.number, Ordering::Relaxed);
        self.depart(self.rendezvous.finish(replica), step);
    }

    /// What `StepRecord::drain` does.
    pub fn depart(&self, departure: Departure, step: Step) {
        if departure == Departure::LateAndLast {
            self.check_written(step.number);
            // In the strategy a lock stands between the last one and those who wait for it.
            self.last.fetch_add(1, Ordering::AcqRel);
            self.drained.notify();
        }
    }

    pub fn last(&self) -> usize {
        self.last.load(Ordering::Acquire)
    }

    fn check_written(&self, expected: usize) {
        for written in &self.written {
            assert_eq!(written.load(Ordering::Relaxed), expected);
        }
    }

    fn wait_for_all(&self, step: Step) -> WaitOutcome {
        let cancelled = || self.cancelled.load(Ordering::Relaxed) == step.number;
        self.rendezvous.wait_for_all(Spin::NEVER, None, cancelled)
    }

    /// What `StepRecord::serve` does.
    fn serve(&self, call: usize) {
        self.check_written(call);
        self.answer.store(call, Ordering::Relaxed);
        for (replica, mailbox) in self.mailboxes.iter().enumerate() {
            self.rendezvous.resume(replica);
            mailbox.notify();
        }
    }

    /// What `Strategy::run` does: returns whether the step was finished, not given up. Of a
    /// finished step the coordinator sees all that the replicas wrote, so it could commit.
    pub fn run(&self, step: Step, inline: bool) -> bool {
        self.rendezvous.open();
        let job = Arc::new(step);
        for mailbox in &self.mailboxes[usize::from(inline)..] {
            post(mailbox, &job);
        }
        if inline {
            self.execute(0, step, true);
        }
        self.attend(step)
    }

    /// Serves the callbacks of a step that has begun until they are back or the step is given up.
    pub fn attend(&self, step: Step) -> bool {
        let mut call = 0;
        loop {
            match self.wait_for_all(step) {
                WaitOutcome::Finished => {
                    self.check_written(step.number);
                    return true;
                }
                WaitOutcome::Waiting => {
                    call += 1;
                    self.serve(step.number * 10 + call);
                }
                WaitOutcome::Abandoned => {
                    self.mailboxes.iter().for_each(Mailbox::notify);
                    // The coordinator puts its own things in order, and leaves.
                    self.depart(self.rendezvous.leave(), step);
                    return false;
                }
            }
        }
    }
}
