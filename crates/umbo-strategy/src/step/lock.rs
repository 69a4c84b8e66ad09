//! The step lock: one thread at a time takes a strategy's steps or changes its central state.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self as threads, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::cancellation::Listener;
use super::limits::Limits;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_executor::thread::{self, thread_number};

/// A thread that waits longer than this for another thread's step says so in the log. A step that
/// waits for a thread that waits for the step looks like a long one.
const PATIENCE: Duration = Duration::from_secs(10);

/// A strategy's step lock. Threads that wait for it get it in the order in which they came. Where
/// nobody waits, one instruction takes it, and one gives it back.
pub(crate) struct StepLock {
    /// The [`thread_number`] of the thread that has the lock, times two; 0 if none. It is odd while
    /// threads wait; then only a thread that has locked `state` changes it.
    holder: AtomicUsize,
    /// The number of the thread that had the lock last: that of [`StepLockState::last`].
    last: AtomicUsize,
    /// The unique id of the last step, and how many of the steps were trials. Only the thread that
    /// has the lock writes them.
    step: AtomicU64,
    trials: AtomicU64,
    state: Mutex<StepLockState>,
    /// The lock has been handed over, or a token of a waiting thread is cancelled.
    changed: Condvar,
    /// [`PATIENCE`].
    patience: Duration,
}

/// Set in [`StepLock::holder`] while threads wait.
const AWAITED: usize = 1;

/// The holder of a lock that a thread has for which nobody waits.
fn held_by(thread: usize) -> usize {
    thread << 1
}

struct StepLockState {
    /// The tickets of the threads that wait for it, in the order in which they came.
    waiting: VecDeque<usize>,
    /// The thread that had the lock last, for messages.
    last: Option<Thread>,
}

impl StepLockState {
    /// The name of the thread that had the lock last, if it has one, and its number.
    fn thread(&self) -> String {
        match self.last.as_ref().map(|last| (last.name(), last.id())) {
            Some((Some(name), id)) => format!("'{name}' ({id:?})"),
            Some((None, id)) => format!("{id:?}"),
            None => "unknown".into(),
        }
    }
}

/// The right to take steps and to change central state, until it is dropped.
pub(crate) struct StepGuard<'a> {
    lock: &'a StepLock,
    /// The number of the thread that took it.
    thread: usize,
}

impl Listener for StepLock {
    fn wake(&self) {
        // A thread that has looked at its token under the lock sleeps by now.
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

impl StepLock {
    /// The lock of a strategy that has taken no step.
    pub(crate) fn new() -> StepLock {
        StepLock {
            holder: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            step: AtomicU64::new(0),
            trials: AtomicU64::new(0),
            state: Mutex::new(StepLockState {
                waiting: VecDeque::new(),
                last: None,
            }),
            changed: Condvar::new(),
            patience: PATIENCE,
        }
    }

    /// Waits until all who came before have left, for as long as `limits` allow. A thread that was
    /// kept waiting for long says so in the log, once.
    ///
    /// Fails if `limits` end the wait, and if this thread has the lock or waits for it already:
    /// then it is in a function of the program's, such as a schedule or a log callback, and
    /// would wait for itself.
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>, limits: &Limits) -> Result<StepGuard<'_>> {
        let thread = thread_number();
        if !self.take(thread) {
            self.queue(thread, limits)?;
        }
        let guard = self.entered(thread);
        // Also if there was nothing to wait for: a run whose time is over does not begin.
        match limits.exceeded() {
            Some(why) => Err(why.within("before its callbacks were called")),
            None => Ok(guard),
        }
    }

    /// Takes the lock if nobody has it. FAILED_PRECONDITION, which names the step and the thread,
    /// if another thread has it.
    pub(crate) fn enter_now(&self) -> Result<StepGuard<'_>> {
        let thread = thread_number();
        if self.take(thread) {
            return Ok(self.entered(thread));
        }
        let state = self.state_for(thread)?;
        Err(Error::precondition(format!(
            "strategy: step {} or a change after it is in progress on thread {}; wait for it, and \
             keep other threads from beginning another one",
            self.steps(),
            state.thread()
        )))
    }

    /// Takes the lock for the thread of this number if nobody has it. Then nobody waits, either:
    /// the lock would have been handed over.
    #[inline]
    fn take(&self, thread: usize) -> bool {
        self.holder
            .compare_exchange(0, held_by(thread), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Waits for the lock behind those who wait already, unless it is free by now.
    #[cold]
    fn queue(self: &Arc<Self>, thread: usize, limits: &Limits) -> Result<()> {
        let mut state = self.state_for(thread)?;
        let awaited = |holder| (holder != 0).then_some(holder | AWAITED);
        while self
            .holder
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, awaited)
            .is_err()
        {
            if self.take(thread) {
                return Ok(());
            }
        }
        state.waiting.push_back(thread);
        drop(state);
        self.wait(thread, limits)
    }

    /// The state, for the thread of this number. Fails if it has the lock or waits for it.
    fn state_for(&self, thread: usize) -> Result<MutexGuard<'_, StepLockState>> {
        let state = self.state.lock();
        if self.is_holder(thread) || state.waiting.contains(&thread) {
            return Err(Error::precondition(
                "strategy: called from a function that the strategy calls while it changes \
                 central state or this thread waits for it, such as a learning-rate schedule or a \
                 log callback; call it after that has returned",
            ));
        }
        Ok(state)
    }

    /// Whether the thread of this number has the lock.
    fn is_holder(&self, thread: usize) -> bool {
        self.holder.load(Ordering::Relaxed) & !AWAITED == held_by(thread)
    }

    /// Notes which thread has the lock: this one, of this number.
    #[inline]
    fn entered(&self, thread: usize) -> StepGuard<'_> {
        if self.last.load(Ordering::Relaxed) != thread {
            self.last.store(thread, Ordering::Relaxed);
            self.state.lock().last = Some(threads::current());
        }
        StepGuard { lock: self, thread }
    }

    /// The number of steps that have been begun, apart from trials and those that have taken no
    /// effect.
    fn steps(&self) -> u64 {
        let [step, trials] = [&self.step, &self.trials].map(|count| count.load(Ordering::Relaxed));
        step.saturating_sub(trials)
    }

    /// Hands the lock to the thread that has waited longest, if one still waits.
    #[cold]
    fn hand_over(&self) {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        let rest = if state.waiting.is_empty() { 0 } else { AWAITED };
        let holder = next.map_or(0, |next| held_by(next) | rest);
        self.holder.store(holder, Ordering::Release);
        if next.is_some() {
            self.changed.notify_all();
        }
    }

    /// Locks the state.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized {
        self.state.lock()
    }

    /// Waits until the lock is handed to the thread of this number, which is this one, or until
    /// `limits` end.
    fn wait(self: &Arc<Self>, thread: usize, limits: &Limits) -> Result<()> {
        let _listening = limits
            .cancellation
            .as_ref()
            .map(|token| token.listen(Arc::clone(self) as _));
        let mut patience = Some(Instant::now() + self.patience);
        let mut state = self.state.lock();
        while !self.is_holder(thread) {
            if let Some(why) = limits.exceeded() {
                state.waiting.retain(|&other| other != thread);
                if state.waiting.is_empty() {
                    self.holder.fetch_and(!AWAITED, Ordering::Relaxed);
                }
                return Err(why.within(format!(
                    "before its callbacks were called, while step {} on thread {} was in progress",
                    self.steps(),
                    state.thread()
                )));
            }
            if patience.is_some_and(|patience| Instant::now() >= patience) {
                patience = None;
                let warning = self.wait_warning(&state);
                MutexGuard::unlocked(&mut state, || log::log(Level::Warning, || warning));
                continue;
            }
            match limits.deadline.into_iter().chain(patience).min() {
                Some(time) => drop(self.changed.wait_until(&mut state, time)),
                None => self.changed.wait(&mut state),
            }
        }
        Ok(())
    }

    /// The warning of a thread that has waited for long.
    fn wait_warning(&self, state: &StepLockState) -> String {
        format!(
            "thread '{}' has waited {:?} for step {} of the strategy, which thread {} began; if a \
             callback of that step waits for this thread, neither will ever continue: do not wait \
             in a callback for a thread that runs or assigns on the same strategy",
            thread::current_name(),
            self.patience,
            self.steps(),
            state.thread(),
        )
    }
}

/// The numbers of a step: its unique id, and the number that users see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepNumber {
    /// No other step of the strategy has this one, and later steps have larger ones.
    pub id: u64,
    /// Its place among the steps, counted from 1, which callers key random numbers with. A trial,
    /// or any other step that takes no effect, has that of the step after it.
    pub shown: u64,
}

impl StepGuard<'_> {
    /// The number of the step that begins now; `trial` if it will leave no trace.
    #[inline]
    pub(crate) fn next_step(&mut self, trial: bool) -> StepNumber {
        let StepLock { step, .. } = self.lock;
        let id = step.load(Ordering::Relaxed) + 1;
        step.store(id, Ordering::Relaxed);
        let shown = self.lock.steps();
        if trial {
            self.take_back();
        }
        StepNumber { id, shown }
    }

    /// The step that began last has taken no effect: the next one has its place among the steps.
    pub(crate) fn take_back(&mut self) {
        let trials = self.lock.trials.load(Ordering::Relaxed);
        self.lock.trials.store(trials + 1, Ordering::Relaxed);
    }

    /// The number of steps that have been begun, apart from trials and those that have taken no
    /// effect.
    pub(crate) fn steps(&self) -> u64 {
        self.lock.steps()
    }

    /// Makes the next step the one after `steps`. The unique ids of steps keep increasing.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        let StepLock { step, trials, .. } = self.lock;
        let last = step.load(Ordering::Relaxed).max(steps);
        step.store(last, Ordering::Relaxed);
        trials.store(last - steps, Ordering::Relaxed);
    }
}

impl Drop for StepGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let StepLock { holder, .. } = self.lock;
        let is_free = holder
            .compare_exchange(
                held_by(self.thread),
                0,
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok();
        if !is_free {
            self.lock.hand_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::step::cancellation::Cancellation;
    use umbo_base::error::Status;

    /// A thread that waits for long says whom it waits for, once, and is served all the same. What
    /// is called with its warning cannot wait for it.
    #[test]
    fn long_waits_for_the_lock_are_logged_once() {
        let patience = Duration::from_millis(20);
        let lock = Arc::new(StepLock {
            patience,
            ..StepLock::new()
        });
        let (sender, lines) = mpsc::channel();
        let waited_for = Arc::clone(&lock);
        let sink = move |level: Level, text: &str| {
            if level == Level::Warning && text.contains("for step 7 of the strategy") {
                let error = waited_for.enter(&Limits::default()).err().unwrap();
                let _ = sender.send(format!("{text}; {error}"));
            }
        };
        log::set_sink(Level::Warning, Box::new(sink));
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
            std::thread::Builder::new()
                .name("holder".into())
                .spawn_scoped(scope, holder)
                .unwrap();
            has_begun.recv().unwrap();
            let no_time = Limits {
                deadline: Some(Instant::now()),
                ..Limits::default()
            };
            let error = lock.enter(&no_time).err().unwrap();
            assert_eq!(error.status(), Status::DeadlineExceeded);
            let place = "before its callbacks were called, while step 7 on thread 'holder' (";
            assert!(error.to_string().contains(place), "{error}");
            let waiting =
                scope.spawn(|| lock.enter(&Limits::default()).unwrap().next_step(false).id);
            let line = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(
                line.contains("thread 'holder'") && line.contains("neither will ever"),
                "{line}"
            );
            assert!(
                line.contains("or a log callback; call it after that"),
                "{line}"
            );
            std::thread::sleep(5 * patience);
            drop(end);
            assert_eq!(waiting.join().unwrap(), 8);
        });
        log::clear_sink();
        assert!(lines.try_recv().is_err(), "said twice");
    }
    /// The lock goes to the thread that has waited longest, also past one that has given up.
    #[test]
    fn the_lock_is_handed_over_in_the_order_of_asking() {
        let lock = Arc::new(StepLock::new());
        let came = Mutex::new(Vec::new());
        let token = Cancellation::new();
        let guard = lock.enter(&Limits::default()).unwrap();
        std::thread::scope(|scope| {
            for place in 0..5 {
                let cancellation = (place == 2).then(|| token.clone());
                let lock = &lock;
                let came = &came;
                scope.spawn(move || {
                    let entered = lock.enter(&Limits {
                        deadline: None,
                        cancellation,
                    });
                    assert_eq!(entered.is_err(), place == 2);
                    came.lock().push(place);
                });
                while lock.state.lock().waiting.len() <= place {
                    std::thread::yield_now();
                }
            }
            token.cancel();
            while came.lock().is_empty() {
                std::thread::yield_now();
            }
            drop(guard);
        });
        assert_eq!(*came.lock(), [2, 0, 1, 3, 4]);
        assert!(lock.enter_now().is_ok());
    }
}
