//! Threads that are notified, and mailboxes.

use std::sync::Arc;

use super::explore::{Body, explore};
use super::protocol::mailbox::{Mailbox, Wake};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::wait::{Signal, Spin};

#[test]
fn a_notified_thread_wakes() {
    for spin in [Spin::NEVER, Spin::BOUNDED] {
        explore(3, move || {
            let signal = Arc::new(Signal::new());
            let conditions = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let mut threads: Vec<Body> = Vec::new();
            for which in 0..conditions.len() {
                let signal = Arc::clone(&signal);
                let conditions = Arc::clone(&conditions);
                threads.push(Box::new(move || {
                    conditions[which].store(true, Ordering::Relaxed);
                    signal.notify();
                }));
            }
            threads.push(Box::new(move || {
                let ready = || {
                    conditions
                        .iter()
                        .all(|condition| condition.load(Ordering::Relaxed))
                };
                assert!(signal.wait_until(spin, None, ready));
            }));
            threads
        });
    }
}

/// What `StepRecord::post` and `Mailbox::notify` do.
pub fn post<J>(mailbox: &Mailbox<J>, job: &Arc<J>) {
    mailbox.post(Arc::as_ptr(job).cast(), || Arc::clone(job));
    mailbox.notify();
}

/// The records of steps one after the other: one that serves again, and another one.
const STEPS: [usize; 3] = [1, 1, 2];

#[test]
fn a_mailbox_hands_over_step_after_step_and_then_the_end() {
    explore(3, || {
        let shared = Arc::new((Mailbox::<usize>::new(), Signal::new(), AtomicUsize::new(0)));
        let coordinator = Arc::clone(&shared);
        vec![
            Box::new(move || {
                let (mailbox, signal, taken) = &*shared;
                let mut steps = 0;
                let mut last = None;
                while let Wake::Job(step) = mailbox.wait(Spin::NEVER, &mut last, || false) {
                    steps += 1;
                    assert_eq!(*step, STEPS[steps - 1]);
                    // The rendezvous orders as much.
                    taken.store(steps, Ordering::Release);
                    signal.notify();
                }
                assert_eq!(steps, STEPS.len());
            }),
            Box::new(move || {
                let (mailbox, signal, taken) = &*coordinator;
                let jobs = [Arc::new(1), Arc::new(2)];
                for (before, step) in STEPS.into_iter().enumerate() {
                    post(mailbox, &jobs[step - 1]);
                    signal.wait_until(Spin::NEVER, None, || taken.load(Ordering::Acquire) > before);
                }
                mailbox.close();
            }),
        ]
    });
}
