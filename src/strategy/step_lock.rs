//! The step lock: one thread at a time takes a strategy's steps or changes its central state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cancellation::Listener;
use super::limits::Limits;
use super::protocol::queue::{FairQueue, Wait, Waiter};
use crate::error::{Error, Result};
use crate::executor::sync::{AtomicUsize, Mutex, Ordering, Thread, current, thread_number};
use crate::executor::thread;
use crate::executor::wait::Spin;
use crate::observe::log::{self, Level};

/// A thread that waits longer than this for another thread's step says so in the log. A step that waits for a
/// thread that waits for the step looks like a long one.
const PATIENCE: Duration = Duration::from_secs(10);

/// A strategy's step lock. Threads that wait for it get it in the order in which they came.
pub(super) struct StepLock {
    queue: FairQueue,
    /// [`PATIENCE`].
    patience: Duration,
    /// Which thread has it, by [`this_thread`]; 0 if none.
    holder: AtomicUsize,
    /// Which thread had it last, by the same: often it is that one again.
    last: AtomicUsize,
    inside: Mutex<HolderInfo>,
}

/// Information about the thread that has the lock, for messages.
struct HolderInfo {
    /// The unique id of the last step.
    step: u64,
    /// How many of the steps were trials.
    trials: u64,
    thread: Option<Thread>,
}

impl HolderInfo {
    /// How many steps have been begun, apart from trials and those that have taken no effect.
    fn steps(&self) -> u64 {
        self.step - self.trials
    }

    /// The name of the thread, if it has one, and its number.
    fn thread(&self) -> String {
        match self.thread.as_ref().map(|thread| (thread.name(), thread.id())) {
            Some((Some(name), id)) => format!("'{name}' ({id:?})"),
            Some((None, id)) => format!("{id:?}"),
            None => "unknown".into(),
        }
    }
}

/// The right to take steps and to change central state, until it is dropped.
pub(super) struct StepGuard<'a>(&'a StepLock);

impl Listener for Waiter {
    fn wake(&self) {
        Waiter::wake(self);
    }
}

impl StepLock {
    /// The lock of a strategy that has taken no step.
    pub(super) fn new() -> StepLock {
        StepLock {
            queue: FairQueue::new(),
            patience: PATIENCE,
            holder: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            inside: Mutex::new(HolderInfo { step: 0, trials: 0, thread: None }),
        }
    }

    /// Waits until all who came before have left, for as long as `limits` allow. A thread that was
    /// kept waiting for long says so in the log, once.
    ///
    /// Fails if `limits` end the wait, and if this thread has the lock: then it is in a function of
    /// the caller's that an apply calls, such as a schedule, and would wait for itself.
    pub(super) fn enter(&self, limits: &Limits) -> Result<StepGuard<'_>> {
        self.check_holder()?;
        if let Some(waiter) = self.queue.enter() {
            let granted = self.wait(&waiter, limits);
            self.queue.give_back(waiter);
            granted?;
        }
        let guard = self.entered();
        // Also if there was nothing to wait for: a run whose time is over does not begin.
        match limits.exceeded() {
            Some(why) => Err(why.within("before its callbacks were called")),
            None => Ok(guard),
        }
    }

    /// Takes the lock if nobody has it. FAILED_PRECONDITION, which names the step and the thread, if another
    /// thread has it.
    pub(super) fn enter_now(&self) -> Result<StepGuard<'_>> {
        self.check_holder()?;
        if self.queue.try_enter() {
            return Ok(self.entered());
        }
        let inside = self.inside.lock();
        Err(Error::precondition(format!(
            "strategy: step {} or a change after it is in progress on thread {}; wait for it, and \
             keep other threads from beginning another one",
            inside.steps(),
            inside.thread()
        )))
    }

    /// Fails if this thread has the lock. Only this thread stores its own number, and takes it away
    /// again.
    fn check_holder(&self) -> Result<()> {
        if self.holder.load(Ordering::Relaxed) != thread_number() {
            return Ok(());
        }
        Err(Error::precondition(
            "strategy: called from a function that the strategy calls while it changes central \
             state, such as a learning-rate schedule; call it after that has returned",
        ))
    }

    /// Notes that the lock is this thread's.
    fn entered(&self) -> StepGuard<'_> {
        let guard = StepGuard(self);
        self.holder.store(thread_number(), Ordering::Relaxed);
        if self.last.load(Ordering::Relaxed) != thread_number() {
            self.last.store(thread_number(), Ordering::Relaxed);
            self.inside.lock().thread = Some(current());
        }
        guard
    }

    /// Locks the information about the holder.
    #[cfg(test)]
    pub(super) fn hold(&self) -> impl Sized {
        self.inside.lock()
    }

    fn wait(&self, waiter: &Arc<Waiter>, limits: &Limits) -> Result<()> {
        let _listening =
            limits.cancellation.as_ref().map(|token| token.listen(Arc::clone(waiter) as _));
        let mut patience = Some(Instant::now() + self.patience);
        loop {
            let check_at = [limits.deadline, patience].into_iter().flatten().min();
            let give_up = || limits.exceeded().is_some();
            match self.queue.wait(waiter, check_at, Spin::BOUNDED, give_up) {
                Wait::Granted => return Ok(()),
                Wait::GivenUp => {
                    let unknown = || Error::Internal("a wait was given up for no reason".into());
                    let why = limits.exceeded().unwrap_or_else(unknown);
                    return Err(why.within(self.place_of_a_wait()));
                }
                Wait::TimedOut if patience.is_some_and(|patience| Instant::now() >= patience) => {
                    patience = None;
                    log::log(Level::Warning, || self.wait_warning());
                }
                Wait::TimedOut => {}
            }
        }
    }

    /// The text for a run that has not begun, because another step is in progress.
    fn place_of_a_wait(&self) -> String {
        let inside = self.inside.lock();
        format!(
            "before its callbacks were called, behind step {} on thread {}",
            inside.steps(),
            inside.thread(),
        )
    }

    /// The warning of a thread that has waited for long.
    fn wait_warning(&self) -> String {
        let inside = self.inside.lock();
        format!(
            "thread {} has waited {:?} for step {} of the strategy, which thread {} \
             began; if a callback of that step waits for this thread, neither will ever \
             go on: do not wait in a callback for a thread that runs or assigns on the same \
             strategy",
            format_args!("'{}'", thread::current_name()),
            self.patience,
            inside.steps(),
            inside.thread(),
        )
    }
}

/// The numbers of a step: its unique id, and the number that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepNumber {
    /// No other step of the strategy has this one, and later steps have larger ones.
    pub id: u64,
    /// Its place among the steps, counted from 1, which callers key random numbers with. A trial, or any
    /// other step that takes no effect, has that of the step after it.
    pub shown: u64,
}

impl StepGuard<'_> {
    /// The number of the step that begins now; `trial` if it will leave no trace.
    pub(super) fn next_step(&mut self, trial: bool) -> StepNumber {
        let mut inside = self.0.inside.lock();
        inside.step += 1;
        let shown = inside.steps();
        inside.trials += u64::from(trial);
        StepNumber { id: inside.step, shown }
    }

    /// The step that began last has taken no effect: the next one has its place among the steps.
    pub(super) fn take_back(&mut self) {
        self.0.inside.lock().trials += 1;
    }

    /// How many steps have been begun, apart from trials and those that have taken no effect.
    pub(super) fn steps(&self) -> u64 {
        self.0.inside.lock().steps()
    }

    /// Lets the next step be the one after `steps`. What distinguishes steps goes on growing.
    pub(super) fn set_steps(&mut self, steps: u64) {
        let mut inside = self.0.inside.lock();
        inside.step = inside.step.max(steps);
        inside.trials = inside.step - steps;
    }
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        self.0.queue.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::error::Status;

    /// A thread that waits for long says whom it waits for, once, and is served all the same.
    #[test]
    fn who_waits_for_long_says_so_once() {
        let (sender, lines) = mpsc::channel();
        let sink = move |level: Level, text: &str| {
            if level == Level::Warning && text.contains("for step 7 of the strategy") {
                let _ = sender.send(text.to_owned());
            }
        };
        log::set_sink(Level::Warning, Box::new(sink));
        let patience = Duration::from_millis(20);
        let lock = StepLock { patience, ..StepLock::new() };
        std::thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let (end, may_end) = mpsc::channel::<()>();
            let lock = &lock;
            let holder = move || {
                let mut guard = lock.enter(&Limits::default()).unwrap();
                let numbers: Vec<_> = (1..=7).map(|_| guard.next_step(false).id).collect();
                assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
                begun.send(()).unwrap();
                let _ = may_end.recv();
            };
            std::thread::Builder::new().name("holder".into()).spawn_scoped(scope, holder).unwrap();
            has_begun.recv().unwrap();
            let no_time = Limits { deadline: Some(Instant::now()), ..Limits::default() };
            let error = lock.enter(&no_time).err().unwrap();
            assert_eq!(error.status(), Status::DeadlineExceeded);
            let place = "before its callbacks were called, behind step 7 on thread 'holder'";
            assert!(error.to_string().contains(place), "{error}");
            let waiting =
                scope.spawn(|| lock.enter(&Limits::default()).unwrap().next_step(false).id);
            let line = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(
                line.contains("thread 'holder'") && line.contains("neither will ever"),
                "{line}"
            );
            std::thread::sleep(5 * patience);
            drop(end);
            assert_eq!(waiting.join().unwrap(), 8);
        });
        log::clear_sink();
        assert!(lines.try_recv().is_err(), "said twice");
    }
}
