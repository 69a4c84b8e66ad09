//! The protocol under loom, which runs each model in every order that the memory model
//! allows. What replicas and coordinator leave for each other are relaxed atomics here: a reader
//! that is not ordered after the writer may see an old value, and the assertion fails.

use std::ops::Range;
use std::sync::Arc;

use loom::thread;

use super::cancellation::{Cancellation, Listener};
use super::protocol::mailbox::{Mailbox, Wake};
use super::protocol::rendezvous::{Departure, Rendezvous, WaitOutcome};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::wait::{Signal, Spin};

/// A thread of a model.
pub type Body = Box<dyn FnOnce() + Send>;

/// Runs the threads that `model` makes in every order with at most so many preemptions. The
/// threads do not join each other: loom cannot wake a thread that joins, as a late `notify` may.
pub fn explore(preemptions: usize, model: impl Fn() -> Vec<Body> + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let threads: Vec<_> = model().into_iter().map(thread::spawn).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// So many preemptions, or one fewer where the models are a part of all tests (`MODELS=all` is
/// `make test-loom`): for models that take a quarter of a minute.
pub fn long(preemptions: usize) -> usize {
    let all = std::env::var_os("MODELS").is_some_and(|models| models == "all");
    if all { preemptions } else { preemptions - 1 }
}

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

/// Replicas that compute numbers, and their coordinator.
struct Crew {
    rendezvous: Rendezvous,
    mailboxes: Vec<Mailbox<Step>>,
    /// What the replicas leave for the coordinator.
    written: Vec<AtomicUsize>,
    /// What the coordinator leaves for the replicas.
    answer: AtomicUsize,
    /// The number of the step that was cancelled.
    cancelled: AtomicUsize,
    /// Replicas that were the last of an abandoned step.
    last: AtomicUsize,
    drained: Signal,
}

/// What the callbacks of a step do.
#[derive(Clone, Copy)]
struct Step {
    number: usize,
    merge_calls: usize,
}

impl Crew {
    fn new(replicas: usize) -> Arc<Crew> {
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
    fn threads(
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
    fn execute(&self, replica: usize, step: Step, inline: bool) {
        self.rendezvous.begin(replica);
        self.compute(replica, step, inline);
    }

    /// The callback and its end.
    fn compute(&self, replica: usize, step: Step, inline: bool) {
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
    fn depart(&self, departure: Departure, step: Step) {
        if departure == Departure::LateAndLast {
            self.check_written(step.number);
            // In the strategy a lock stands between the last one and those who wait for it.
            self.last.fetch_add(1, Ordering::AcqRel);
            self.drained.notify();
        }
    }

    fn last(&self) -> usize {
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
    fn run(&self, step: Step, inline: bool) -> bool {
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
    fn attend(&self, step: Step) -> bool {
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

#[test]
fn two_replicas_meet_in_merge_calls_of_step_after_step() {
    explore(long(3), || {
        Crew::new(2).threads(1..2, |crew| {
            for number in 1..=2 {
                assert!(crew.run(
                    Step {
                        number,
                        merge_calls: 3 - number
                    },
                    true
                ));
            }
        })
    });
}

#[test]
fn a_coordinator_that_only_watches_serves_and_commits() {
    explore(long(2), || {
        Crew::new(2).threads(0..2, |crew| {
            assert!(crew.run(
                Step {
                    number: 1,
                    merge_calls: 1
                },
                false
            ));
            assert!(crew.run(
                Step {
                    number: 2,
                    merge_calls: 0
                },
                false
            ));
        })
    });
}

/// A step that is cancelled at some time: all of it is committed or one replica learns that it
/// was the last to come back; a record whose step came through serves the next one.
fn cancel(replicas: usize, merge_calls: usize) -> Vec<Body> {
    let crew = Crew::new(replicas);
    let mut threads = crew.threads(0..replicas, move |crew| {
        if crew.run(
            Step {
                number: 1,
                merge_calls,
            },
            false,
        ) {
            assert!(crew.run(
                Step {
                    number: 2,
                    merge_calls: 0
                },
                false
            ));
            assert!(!crew.rendezvous.is_abandoned());
            assert_eq!(crew.last(), 0);
        } else {
            crew.drained
                .wait_until(Spin::NEVER, None, || crew.last() == 1);
        }
    });
    threads.push(Box::new(move || {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    }));
    threads
}

/// The same with a step that its replicas have begun, and without another one: so much less to
/// order that two preemptions can be tried with two replicas.
fn cancel_begun(replicas: usize, merge_calls: usize) -> Vec<Body> {
    let crew = Crew::new(replicas);
    let step = Step {
        number: 1,
        merge_calls,
    };
    crew.rendezvous.open();
    let replica = |replica: usize| -> Body {
        let crew = Arc::clone(&crew);
        Box::new(move || crew.execute(replica, step, false))
    };
    let mut threads: Vec<Body> = (0..replicas).map(replica).collect();
    let caller = Arc::clone(&crew);
    threads.push(Box::new(move || {
        if caller.attend(step) {
            assert_eq!(caller.last(), 0);
        } else {
            caller
                .drained
                .wait_until(Spin::NEVER, None, || caller.last() == 1);
        }
    }));
    threads.push(Box::new(move || {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    }));
    threads
}

#[test]
fn a_step_is_committed_or_given_up_but_never_both() {
    explore(long(2), || cancel(1, 0));
    explore(1, || cancel(2, 0));
    explore(long(2), || cancel_begun(2, 0));
}

#[test]
fn a_cancelled_step_releases_replicas_that_wait() {
    explore(long(2), || cancel(1, 1));
    explore(1, || cancel(2, 1));
}

/// As `cancel_begun`, cancelled by a replica before it comes to the merge call or when it is back:
/// a thread less, so that two preemptions can be tried where replicas wait.
fn cancel_by_replica(before: bool) -> Vec<Body> {
    let crew = Crew::new(2);
    let step = Step {
        number: 1,
        merge_calls: 1,
    };
    crew.rendezvous.open();
    let first = Arc::clone(&crew);
    let second = Arc::clone(&crew);
    let caller = crew;
    let cancel = |crew: &Crew| {
        crew.cancelled.store(1, Ordering::Relaxed);
        crew.rendezvous.wake_coordinator();
    };
    vec![
        Box::new(move || first.execute(0, step, false)),
        Box::new(move || {
            if before {
                cancel(&second);
            }
            second.execute(1, step, false);
            if !before {
                cancel(&second);
            }
        }),
        Box::new(move || {
            if caller.attend(step) {
                assert_eq!(caller.last(), 0);
            } else {
                caller
                    .drained
                    .wait_until(Spin::NEVER, None, || caller.last() == 1);
            }
        }),
    ]
}

#[test]
fn replicas_that_wait_are_released_by_one_that_cancels() {
    explore(long(2), || cancel_by_replica(true));
    explore(long(2), || cancel_by_replica(false));
}

/// A token that is cancelled at any time reaches the step that listens, and not the next one, which
/// uses the same record.
#[test]
fn a_token_reaches_its_own_step_alone() {
    struct Record(AtomicBool);
    impl Listener for Record {
        fn wake(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    explore(3, || {
        let token = Cancellation::new();
        let cancels = token.clone();
        vec![
            Box::new(move || cancels.cancel()),
            Box::new(move || {
                let record = Arc::new(Record(AtomicBool::new(false)));
                let listening = token.listen(Arc::clone(&record) as _);
                if token.is_cancelled() {
                    drop(listening);
                    assert!(record.0.load(Ordering::Relaxed));
                } else {
                    drop(listening);
                }
                record.0.store(false, Ordering::Relaxed);
                loom::thread::yield_now();
                assert!(!record.0.load(Ordering::Relaxed));
            }),
        ]
    });
}

/// Replicas that write to something which takes part in their step, while the step is given up.
/// What `Strategy::join_step` and `Strategy::roll_back` do: who sees that it takes part may write,
/// and then the outcome knows of it.
#[test]
fn who_writes_is_known_to_the_outcome() {
    struct Shared {
        /// Whether the step is open, and whether its outcome knows the participant.
        transaction: Mutex<(bool, bool)>,
        takes_part: AtomicBool,
        wrote: AtomicUsize,
        known: AtomicBool,
    }
    explore(2, || {
        let shared = Arc::new(Shared {
            transaction: Mutex::new((true, false)),
            takes_part: AtomicBool::new(false),
            wrote: AtomicUsize::new(0),
            known: AtomicBool::new(false),
        });
        let replica = || -> Body {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                if !shared.takes_part.load(Ordering::Acquire) {
                    let mut transaction = shared.transaction.lock();
                    if !transaction.0 {
                        return;
                    }
                    shared.takes_part.store(true, Ordering::Release);
                    transaction.1 = true;
                }
                shared.wrote.fetch_add(1, Ordering::AcqRel);
                // Whatever the outcome was meanwhile, it knows, or will know.
                let transaction = shared.transaction.lock();
                assert!(transaction.1 || shared.known.load(Ordering::Relaxed));
            })
        };
        let outcome = {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                let mut transaction = shared.transaction.lock();
                shared.known.store(transaction.1, Ordering::Relaxed);
                *transaction = (false, false);
            })
        };
        vec![replica(), replica(), outcome]
    });
}

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
