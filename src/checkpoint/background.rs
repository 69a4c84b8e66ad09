//! A thread that writes copies of state while training continues.
//!
//! At most two copies exist: one that is being written, and one that waits. A caller that would make a third one waits
//! first. The thread starts with the first copy. It ends with its owner, once everything is written.

use std::mem;
use std::sync::Arc;
use std::thread::ThreadId;

use crate::checkpoint::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::executor::thread::{self, Handle, Purpose, ThreadOptions};
use crate::observe::log::{self, Level};
use parking_lot::{Condvar, Mutex};

/// Writes the copy that was made at a step.
pub(super) type WriteSnapshot = dyn Fn(u64, Snapshot) -> Result<()> + Send + Sync;

/// The thread and the copies on their way to it.
pub(super) struct Background {
    shared: Arc<SharedWriter>,
    thread: Mutex<Option<Handle>>,
}

struct SharedWriter {
    state: Mutex<WriterState>,
    /// Signals that a copy waits, or that the thread is to end.
    wanted: Condvar,
    /// Signals that the thread has taken a copy, or has written one.
    moved: Condvar,
    write: Box<WriteSnapshot>,
}

#[derive(Default)]
struct WriterState {
    /// The thread that has reserved the place and is about to hand over a copy.
    reserved_by: Option<ThreadId>,
    /// The writing thread.
    writer: Option<ThreadId>,
    waiting: Option<(u64, Snapshot)>,
    writing: bool,
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
        self.reserved_by.is_none() && self.waiting.is_none() && !self.writing
    }
}

impl Background {
    /// A thread that writes with the function `write`.
    pub fn new(write: Box<WriteSnapshot>) -> Background {
        let (wanted, moved) = (Condvar::default(), Condvar::default());
        let shared = Arc::new(SharedWriter { state: Mutex::default(), wanted, moved, write });
        Background { shared, thread: Mutex::default() }
    }

    /// Reports a failure that was not yet reported.
    pub fn check(&self) -> Result<()> {
        report(&mut self.shared.state.lock())
    }

    /// Waits until no copy waits, and reserves that place as long as the result exists. FAILED_PRECONDITION on a thread
    /// that has the place, and on the writing thread, because it would wait for itself.
    pub fn reserve_place(&self) -> Result<SavePlace<'_>> {
        self.ensure_thread()?;
        let mut state = self.shared.state.lock();
        while state.reserved_by.is_some() || state.waiting.is_some() {
            state.refuse_own_save()?;
            self.shared.moved.wait(&mut state);
        }
        state.reserved_by = Some(thread_id());
        Ok(SavePlace(self))
    }

    /// Waits until all copies are written, and reports a failure. FAILED_PRECONDITION as for
    /// [`Background::reserve_place`].
    pub fn wait(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        while !state.is_idle() {
            state.refuse_own_save()?;
            self.shared.moved.wait(&mut state);
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

/// The reserved place of a copy that is about to be handed over.
pub(super) struct SavePlace<'a>(&'a Background);

impl SavePlace<'_> {
    /// Hands a copy over to the thread.
    pub fn hand_over(self, step: u64, snapshot: Snapshot) {
        let mut state = self.0.shared.state.lock();
        // The place is released under the same lock, because code that the writing thread calls may save again at once.
        (state.waiting, state.reserved_by) = (Some((step, snapshot)), None);
        drop(state);
        self.0.shared.wanted.notify_all();
        mem::forget(self);
    }
}

impl Drop for SavePlace<'_> {
    fn drop(&mut self) {
        self.0.shared.state.lock().reserved_by = None;
        self.0.shared.moved.notify_all();
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
        state.writer = Some(thread_id());
        loop {
            if let Some((step, snapshot)) = state.waiting.take() {
                state.writing = true;
                drop(state);
                self.moved.notify_all();
                let failure = (self.write)(step, snapshot).err();
                if let Some(error) = &failure {
                    // The sink is the caller's code, so it is called without the lock.
                    log::log(Level::Error, || format!("checkpoint of step {step}: {error}"));
                }
                state = self.state.lock();
                state.writing = false;
                if let Some(error) = failure {
                    state.failure = Some((step, error));
                }
                self.moved.notify_all();
            } else if state.end {
                return;
            } else {
                self.wanted.wait(&mut state);
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.state.lock().end = true;
        self.shared.wanted.notify_all();
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

    #[test]
    fn at_most_one_copy_waits() {
        let (background, begins, end) = slow();
        let save = |step| background.reserve_place().unwrap().hand_over(step, Snapshot::default());
        save(1);
        assert_eq!(begins.recv(), Ok(1));
        // This copy waits, and the call returns. There is no space for a third one.
        save(2);
        assert!(background.shared.state.lock().waiting.is_some());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| {
                let place = background.reserve_place().unwrap();
                // The second copy is taken only after the first was written.
                let is_free = background.shared.state.lock().waiting.is_none();
                place.hand_over(3, Snapshot::default());
                is_free
            });
            end.send(()).unwrap();
            assert!(third.join().unwrap());
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
        for _ in 0..3 {
            drop(background.reserve_place().unwrap());
        }
        background.wait().unwrap();
        background.reserve_place().unwrap().hand_over(4, Snapshot::default());
        end.send(()).unwrap();
        // The end writes the waiting copy.
        drop(background);
        assert_eq!(begins.recv(), Ok(4));
    }

    /// Code that a save calls can neither save with the same manager nor wait for it. Another thread waits.
    #[test]
    fn a_save_inside_of_a_save_is_refused() {
        let (background, begins, end) = slow();
        let place = background.reserve_place().unwrap();
        let own = [background.reserve_place().map(drop), background.wait()];
        std::thread::scope(|scope| {
            let other = scope.spawn(|| background.reserve_place().map(drop));
            for refused in own {
                assert_eq!(refused.unwrap_err().status(), Status::FailedPrecondition);
            }
            place.hand_over(6, Snapshot::default());
            assert_eq!(begins.recv(), Ok(6));
            other.join().unwrap().unwrap();
        });
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
                let nobody_waits = background.reserve_place().map(drop);
                sender.send([nobody_waits, background.wait()]).expect("its test listens");
                Ok(())
            }))
        });
        background.reserve_place().unwrap().hand_over(7, Snapshot::default());
        let [saved, waited] = receiver.recv().unwrap();
        saved.unwrap();
        assert_eq!(waited.unwrap_err().status(), Status::FailedPrecondition);
        background.wait().unwrap();
    }

    #[test]
    fn a_failure_is_reported_once() {
        let (background, _begins, end) = slow();
        drop(end);
        background.reserve_place().unwrap().hand_over(5, Snapshot::default());
        let message = background.wait().unwrap_err().to_string();
        assert!(message.contains("step 5"), "{message}");
        background.check().unwrap();
    }
}
