//! A thread that writes copies of state while training continues.
//!
//! At most two copies exist: one that is being written, and one that waits. A caller that would make a third one waits
//! first. The thread starts with the first copy. It ends with its owner, once everything is written.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::ThreadId;

use crate::checkpoint::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::executor::thread::{self, Handle, Purpose, ThreadOptions};
use crate::observe::log::{self, Level};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Writes the copy that was made at a step.
pub(super) type WriteSnapshot = dyn Fn(u64, Snapshot) -> Result<()> + Send + Sync;

/// The thread and the copies on their way to it.
pub(super) struct Background {
    shared: Arc<SharedWriter>,
    thread: Mutex<Option<Handle>>,
}

struct SharedWriter {
    state: Mutex<WriterState>,
    /// Signals that the state has changed.
    changed: Condvar,
    write: Box<WriteSnapshot>,
}

#[derive(Default)]
struct WriterState {
    /// The thread that makes a copy, for which it has reserved the place.
    reserved_by: Option<ThreadId>,
    waiting: Option<(u64, Snapshot)>,
    /// The writing thread, while it writes.
    writer: Option<ThreadId>,
    /// A failure that was not yet reported, and its step.
    failure: Option<(u64, Error)>,
    end: bool,
}

fn thread_id() -> ThreadId {
    std::thread::current().id()
}

impl WriterState {
    fn refuse_own_save(&self) -> Result<()> {
        if [self.reserved_by, self.writer].contains(&Some(thread_id())) {
            return Err(Error::precondition(
                "called by a function that a save of the same manager calls, and would wait for it; call it when \
                 the save is over",
            ));
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.reserved_by.is_none() && self.waiting.is_none() && self.writer.is_none()
    }
}

impl Background {
    /// A thread that writes with the function `write`.
    pub fn new(write: Box<WriteSnapshot>) -> Background {
        let (state, changed) = (Mutex::default(), Condvar::default());
        let shared = Arc::new(SharedWriter { state, changed, write });
        Background { shared, thread: Mutex::default() }
    }

    /// Reports a failure that was not yet reported.
    pub fn check(&self) -> Result<()> {
        report(&mut self.shared.state.lock())
    }

    /// Waits until no copy waits, and hands over the copy that `make` makes then. FAILED_PRECONDITION on a thread that is
    /// in `make`, and on the writing thread, because it would wait for itself.
    pub fn save(&self, step: u64, make: impl FnOnce() -> Result<Snapshot>) -> Result<()> {
        self.ensure_thread()?;
        let mut state = self.shared.state.lock();
        while state.reserved_by.is_some() || state.waiting.is_some() {
            state.refuse_own_save()?;
            self.shared.changed.wait(&mut state);
        }
        state.reserved_by = Some(thread_id());
        // Unwind safety: what has panicked is reported, and the place is free again.
        let made = MutexGuard::unlocked(&mut state, || catch_unwind(AssertUnwindSafe(make)));
        // The place is released under the same lock, because code that the writing thread calls may save again at once.
        state.reserved_by = None;
        let made = made.map(|made| made.map(|snapshot| state.waiting = Some((step, snapshot))));
        self.shared.changed.notify_all();
        drop(state);
        made.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Waits until all copies are written, and reports a failure. FAILED_PRECONDITION as for [`Background::save`].
    pub fn wait(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        while !state.is_idle() {
            state.refuse_own_save()?;
            self.shared.changed.wait(&mut state);
        }
        report(&mut state)
    }

    fn ensure_thread(&self) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let options = ThreadOptions::new("umbo-checkpoint".to_owned(), Purpose::Checkpoint);
            *thread = Some(thread::spawn(&options, move || shared.serve())?);
        }
        Ok(())
    }
}

fn report(state: &mut WriterState) -> Result<()> {
    let Some((step, error)) = state.failure.take() else { return Ok(()) };
    Err(error.within(format!("the checkpoint of step {step}, in the background")))
}

impl SharedWriter {
    /// Writes the copies that arrive, until the owner ends.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((step, snapshot)) = state.waiting.take() {
                state.writer = Some(thread_id());
                self.changed.notify_all();
                let written = MutexGuard::unlocked(&mut state, || {
                    // The sink is the caller's code, so it is called without the lock.
                    (self.write)(step, snapshot).inspect_err(|error| {
                        log::log(Level::Error, || format!("checkpoint of step {step}: {error}"));
                    })
                });
                state.writer = None;
                if let Err(error) = written {
                    state.failure = Some((step, error));
                }
                self.changed.notify_all();
            } else if state.end {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.state.lock().end = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.get_mut().take()
            && thread.join().is_err()
        {
            log::log(Level::Error, || "the thread that writes checkpoints panicked".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::error::Status;

    /// A thread whose writes end when the test allows it. It sends a message when a write begins.
    fn slow() -> (Background, Receiver<u64>, Sender<()>) {
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let ends = Mutex::new(ends);
        let write = move |step, _| {
            begun.send(step).unwrap();
            ends.lock().recv().map_err(|_| Error::Internal("nobody ends it".into()))
        };
        (Background::new(Box::new(write)), begins, end)
    }

    fn copy() -> Result<Snapshot> {
        Ok(Snapshot::default())
    }

    #[test]
    fn at_most_one_copy_waits() {
        let (background, begins, end) = slow();
        background.save(1, copy).unwrap();
        assert_eq!(begins.recv(), Ok(1));
        // This copy waits, and the call returns. There is no space for a third one.
        background.save(2, copy).unwrap();
        assert!(background.shared.state.lock().waiting.is_some());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| {
                background.save(3, || {
                    // The second copy is taken only after the first was written.
                    assert!(background.shared.state.lock().waiting.is_none());
                    copy()
                })
            });
            end.send(()).unwrap();
            third.join().unwrap().unwrap();
        });
        assert_eq!(begins.recv(), Ok(2));
        end.send(()).unwrap();
        end.send(()).unwrap();
        background.wait().unwrap();
        assert_eq!(begins.recv(), Ok(3));
    }

    /// A caller that makes no copy gives the place back.
    #[test]
    fn a_place_that_is_given_up_is_free() {
        let (background, begins, end) = slow();
        let failed = background.save(2, || Err(Error::precondition("no copy")));
        assert_eq!(failed.unwrap_err().status(), Status::FailedPrecondition);
        let panicked =
            AssertUnwindSafe(|| background.save(3, || resume_unwind(Box::new("no copy"))));
        assert!(catch_unwind(panicked).is_err());
        background.wait().unwrap();
        background.save(4, copy).unwrap();
        end.send(()).unwrap();
        // The end writes the waiting copy.
        drop(background);
        assert_eq!(begins.recv(), Ok(4));
    }

    /// Code that a save calls can neither save with the same manager nor wait for it. Another thread waits.
    #[test]
    fn a_save_inside_of_a_save_is_refused() {
        let (background, begins, end) = slow();
        let background = &background;
        std::thread::scope(|scope| {
            let mut other = None;
            let made = background.save(6, || {
                for refused in [background.save(5, copy), background.wait()] {
                    assert_eq!(refused.unwrap_err().status(), Status::FailedPrecondition);
                }
                other = Some(scope.spawn(|| background.save(8, copy)));
                copy()
            });
            made.unwrap();
            assert_eq!(begins.recv(), Ok(6));
            other.unwrap().join().unwrap().unwrap();
        });
        end.send(()).unwrap();
        end.send(()).unwrap();
        background.wait().unwrap();
    }

    /// Tests code that the writing thread calls, such as the sink of the log.
    #[test]
    fn the_thread_that_writes_does_not_wait_for_itself() {
        let own: Arc<OnceLock<Background>> = Arc::default();
        let (of_write, (sender, receiver)) = (Arc::downgrade(&own), channel());
        let background = own.get_or_init(|| {
            Background::new(Box::new(move |_, _| {
                let own = of_write.upgrade().expect("its test goes on");
                let background = own.get().expect("it writes, so that it is there");
                let nobody_waits = background.save(8, || Err(Error::DataLoss("made".into())));
                sender.send([nobody_waits, background.wait()]).expect("its test listens");
                Ok(())
            }))
        });
        background.save(7, copy).unwrap();
        let [saved, waited] = receiver.recv().unwrap();
        assert_eq!(saved.unwrap_err().status(), Status::DataLoss);
        assert_eq!(waited.unwrap_err().status(), Status::FailedPrecondition);
        background.wait().unwrap();
    }

    #[test]
    fn a_failure_is_reported_once() {
        let (background, _begins, end) = slow();
        drop(end);
        background.save(5, copy).unwrap();
        let message = background.wait().unwrap_err().to_string();
        assert!(message.contains("step 5"), "{message}");
        background.check().unwrap();
    }
}
