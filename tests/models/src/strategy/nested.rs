//! Steps within merge calls of steps that are cancelled.

use std::sync::Arc;

use super::crew::{Crew, Step};
use super::explore::{Body, explore, long};
use super::protocol::mailbox::{Mailbox, Wake};
use super::protocol::rendezvous::WaitOutcome;
use super::wakes::post;
use crate::sync::Ordering;
use crate::wait::Spin;

/// A run inside of a merge call of a run that may be cancelled at any time: each comes through
/// or is drained by exactly one, the inner one before the outer one has ended.
fn nested_cancel(replicas: usize) -> Vec<Body> {
    let outer = Crew::new(replicas);
    let inner = Crew::new(replicas);
    let replica = |replica: usize| -> Body {
        let outer = Arc::clone(&outer);
        let inner = Arc::clone(&inner);
        Box::new(move || {
            // One thread serves both: the jobs of the inner step arrive in its merge call.
            let mailbox = &outer.mailboxes[replica];
            let mut last = None;
            while let Wake::Job(step) = mailbox.wait(Spin::NEVER, &mut last, || false) {
                outer.rendezvous.begin(replica);
                outer.rendezvous.arrive(replica);
                let released = || outer.rendezvous.is_released(replica);
                let mut last = None;
                while let Wake::Job(nested) = mailbox.wait(Spin::NEVER, &mut last, released) {
                    inner.execute(replica, *nested, false);
                }
                outer.compute(replica, *step, false);
            }
        })
    };
    let mut threads: Vec<Body> = (0..replicas).map(replica).collect();
    let of_caller = Arc::clone(&outer);
    let of_inner = Arc::clone(&inner);
    threads.push(Box::new(move || {
        let step = Step {
            number: 1,
            merge_calls: 0,
        };
        let cancelled = || of_caller.cancelled.load(Ordering::Relaxed) == 1;
        let give_up = |crew: &Crew| {
            of_caller.mailboxes.iter().for_each(Mailbox::notify);
            crew.depart(crew.rendezvous.leave(), step);
        };
        of_caller.rendezvous.open();
        let job = Arc::new(step);
        let nested = Arc::new(step);
        of_caller
            .mailboxes
            .iter()
            .for_each(|mailbox| post(mailbox, &job));
        loop {
            match of_caller
                .rendezvous
                .wait_for_all(Spin::NEVER, None, cancelled)
            {
                WaitOutcome::Finished => break,
                WaitOutcome::Abandoned => {
                    give_up(&of_caller);
                    break;
                }
                WaitOutcome::Waiting => {
                    // The merge function runs a step of its own.
                    of_inner.rendezvous.open();
                    of_caller
                        .mailboxes
                        .iter()
                        .for_each(|mailbox| post(mailbox, &nested));
                    match of_inner
                        .rendezvous
                        .wait_for_all(Spin::NEVER, None, cancelled)
                    {
                        WaitOutcome::Abandoned => give_up(&of_inner),
                        ending => assert_eq!(ending, WaitOutcome::Finished),
                    }
                    for (replica, mailbox) in of_caller.mailboxes.iter().enumerate() {
                        of_caller.rendezvous.resume(replica);
                        mailbox.notify();
                    }
                }
            }
        }
        if of_caller.rendezvous.is_abandoned() {
            of_caller
                .drained
                .wait_until(Spin::NEVER, None, || of_caller.last() == 1);
        } else {
            assert_eq!(of_caller.last(), 0);
        }
        assert_eq!(
            of_inner.last(),
            usize::from(of_inner.rendezvous.is_abandoned())
        );
        of_caller.mailboxes.iter().for_each(Mailbox::close);
    }));
    threads.push(Box::new(move || {
        outer.cancelled.store(1, Ordering::Relaxed);
        outer.rendezvous.wake_coordinator();
        inner.rendezvous.wake_coordinator();
    }));
    threads
}

#[test]
fn a_nested_step_is_drained_before_the_one_around_it() {
    explore(long(2), || nested_cancel(1));
}
