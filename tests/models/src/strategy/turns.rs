//! Replicas that share a device under loom: whatever the order, one of them computes at a time,
//! what one has left the next one sees, and nobody who may continue is left asleep.

use std::sync::Arc;

use super::explore::{Body, explore, long};
use super::protocol::mailbox::{Mailbox, Wake};
use super::protocol::rendezvous::{Departure, Rendezvous, ReplicaPhase, WaitOutcome};
use super::protocol::turns::{Next, Turns};
use super::wakes::post;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::wait::{Signal, Spin};

/// Replicas on one device, of a step with so many merge calls, and their coordinator.
struct Device {
    turns: Turns,
    rendezvous: Rendezvous,
    mailboxes: Vec<Mailbox<()>>,
    job: Arc<()>,
    /// Whose thread computes for each.
    thread_of: Vec<AtomicUsize>,
    merge_calls: usize,
    /// Whether somebody computes.
    busy: AtomicUsize,
    /// How often somebody has, which the device's replicas count without help from each other.
    computed: AtomicUsize,
    cancelled: AtomicBool,
    /// Replicas that were the last of an abandoned step.
    last: AtomicUsize,
    drained: Signal,
}

impl Device {
    fn new(replicas: usize, merge_calls: usize) -> Arc<Device> {
        Arc::new(Device {
            turns: Turns::new(vec![0; replicas].into(), 1),
            rendezvous: Rendezvous::new(replicas),
            mailboxes: (0..replicas).map(|_| Mailbox::new()).collect(),
            job: Arc::new(()),
            thread_of: (0..replicas).map(AtomicUsize::new).collect(),
            merge_calls,
            busy: AtomicUsize::new(0),
            computed: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            last: AtomicUsize::new(0),
            drained: Signal::new(),
        })
    }

    /// The threads of all replicas, and the coordinator's.
    fn threads(self: &Arc<Device>) -> Vec<Body> {
        let thread = |replica: usize| -> Body {
            let device = Arc::clone(self);
            Box::new(move || {
                let mailbox = &device.mailboxes[replica];
                let mut last = None;
                while let Wake::Job(_) = mailbox.wait(Spin::NEVER, &mut last, || false) {
                    device.execute(replica);
                }
            })
        };
        let mut threads: Vec<Body> = (0..self.mailboxes.len()).map(thread).collect();
        let device = Arc::clone(self);
        threads.push(Box::new(move || {
            device.run();
            device.mailboxes.iter().for_each(Mailbox::close);
        }));
        threads
    }

    fn compute(&self) {
        assert_eq!(
            self.busy.swap(1, Ordering::Relaxed),
            0,
            "two compute on one device"
        );
        let before = self.computed.load(Ordering::Relaxed);
        self.computed.store(before + 1, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
    }

    /// What `StepRecord::pass_device` does.
    fn pass(&self, replica: usize) -> Option<usize> {
        let Next { replica, is_new } = self.turns.pass(replica)?;
        if !is_new {
            self.mailboxes[self.thread_of[replica].load(Ordering::Relaxed)].notify();
        }
        is_new.then_some(replica)
    }

    /// What `ReplicaJob::execute` and `ReplicaContext::synchronize` do. A callback that has not
    /// begun when the step is given up is not called.
    fn execute(&self, replica: usize) {
        let mut next = Some(replica);
        while let Some(current) = next {
            next = self.execute_on(replica, current);
        }
    }

    fn execute_on(&self, thread: usize, replica: usize) -> Option<usize> {
        self.thread_of[replica].store(thread, Ordering::Relaxed);
        self.rendezvous.begin(replica);
        let is_called = !self.rendezvous.is_abandoned();
        if is_called {
            self.compute();
        }
        for _ in 0..self.merge_calls * usize::from(is_called) {
            if let Some(next) = self.pass(replica) {
                post(&self.mailboxes[next], &self.job);
            }
            self.rendezvous.arrive(replica);
            let may_go_on = || {
                self.rendezvous.is_abandoned()
                    || (self.rendezvous.is_released(replica) && self.turns.has(replica))
            };
            let mailbox = &self.mailboxes[thread];
            assert!(matches!(
                mailbox.wait(Spin::NEVER, &mut None, may_go_on),
                Wake::Released
            ));
            mailbox.wait_until(Spin::NEVER, || self.turns.want(replica));
            self.compute();
            if self.rendezvous.is_abandoned() {
                break;
            }
        }
        let next = self.pass(replica);
        self.depart(self.rendezvous.finish(replica));
        next
    }

    fn depart(&self, departure: Departure) {
        if departure == Departure::LateAndLast {
            // In the strategy a lock stands between the last one and those who wait for it.
            self.last.fetch_add(1, Ordering::AcqRel);
            self.drained.notify();
        }
    }

    /// What `Strategy::run` does, on a thread that only watches.
    fn run(&self) {
        self.rendezvous.open();
        self.turns
            .open(|replica| post(&self.mailboxes[replica], &self.job));
        let cancelled = || self.cancelled.load(Ordering::Relaxed);
        loop {
            match self.rendezvous.wait_for_all(Spin::NEVER, None, cancelled) {
                WaitOutcome::Finished => {
                    let replicas = self.mailboxes.len();
                    let computed = self.computed.load(Ordering::Relaxed);
                    assert_eq!(computed, replicas * (1 + self.merge_calls));
                    return;
                }
                WaitOutcome::Waiting => {
                    let waiting = |replica| self.rendezvous.phase(replica) == ReplicaPhase::Waiting;
                    self.turns.want_again(waiting);
                    for replica in (0..self.mailboxes.len()).filter(|&replica| waiting(replica)) {
                        self.rendezvous.resume(replica);
                        self.mailboxes[self.thread_of[replica].load(Ordering::Relaxed)].notify();
                    }
                }
                WaitOutcome::Abandoned => {
                    self.turns
                        .notify_rest(|replica| post(&self.mailboxes[replica], &self.job));
                    self.mailboxes.iter().for_each(Mailbox::notify);
                    self.depart(self.rendezvous.leave());
                    self.drained
                        .wait_until(Spin::NEVER, None, || self.last.load(Ordering::Acquire) == 1);
                    return;
                }
            }
        }
    }
}

#[test]
fn replicas_take_turns_until_all_are_done() {
    explore(long(2), || Device::new(3, 0).threads());
}

#[test]
fn replicas_take_turns_after_a_merge_call_too() {
    explore(long(2), || Device::new(2, 1).threads());
}

/// A step that is given up at some time.
#[test]
fn replicas_of_a_step_that_is_given_up_take_turns() {
    for merge_calls in 0..2 {
        explore(1, move || {
            let device = Device::new(2, merge_calls);
            let mut threads = device.threads();
            threads.push(Box::new(move || {
                device.cancelled.store(true, Ordering::Relaxed);
                device.rendezvous.wake_coordinator();
            }));
            threads
        });
    }
}
