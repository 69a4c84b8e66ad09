//! A thread that writes a copy of state while training continues.
//!
//! There is one copy at a time: a caller that would make another one waits first until it is
//! written. Each copy has a thread of its own, which ends when it has written.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::snapshot::Snapshot;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_executor::thread::{self, Handle, Purpose, ThreadOptions};

/// Writes the copy that was made at a step.
pub(super) type WriteSnapshot = dyn Fn(u64, Snapshot) -> Result<()> + Send + Sync;

/// The copy that is being written, and what writes it.
pub(super) struct Background {
    shared: Arc<SharedWriter>,
    /// The thread that writes. Locked while a copy is made, and while a caller waits until it is
    /// written.
    thread: Mutex<Option<Handle>>,
}

struct SharedWriter {
    write: Box<WriteSnapshot>,
    /// The threads that make the copy and that write it.
    inside: Mutex<Vec<ThreadId>>,
    /// A failure that was not yet reported, and its step.
    failure: Mutex<Option<(u64, Error)>>,
}

/// The calling thread makes a copy or writes it, until this is dropped.
struct Inside<'a>(&'a SharedWriter);

fn thread_id() -> ThreadId {
    std::thread::current().id()
}

impl SharedWriter {
    fn enter(&self) -> Inside<'_> {
        self.inside.lock().push(thread_id());
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.lock().retain(|thread| *thread != thread_id());
    }
}

impl Background {
    /// Copies are written by the function `write`.
    pub fn new(write: Box<WriteSnapshot>) -> Background {
        let shared = Arc::new(SharedWriter {
            write,
            inside: Mutex::default(),
            failure: Mutex::default(),
        });
        Background {
            shared,
            thread: Mutex::default(),
        }
    }

    /// Reports a failure that was not yet reported.
    pub fn check(&self) -> Result<()> {
        let Some((step, error)) = self.shared.failure.lock().take() else {
            return Ok(());
        };
        Err(error.within(format!("the checkpoint of step {step}, in the background")))
    }

    /// Waits until no copy is being written, and begins to write the copy that `make` makes then.
    /// Returns the failure of an earlier copy that was not yet reported. FAILED_PRECONDITION on
    /// a thread that is in `make`, and on the writing thread, because it would wait for itself.
    pub fn save(
        &self,
        step: u64,
        make: impl FnOnce() -> Result<Snapshot>,
    ) -> Result<Option<Error>> {
        self.refuse_own_save()?;
        let mut thread = self.thread.lock();
        join(thread.take());
        let made = self.shared.enter();
        let snapshot = make()?;
        drop(made);
        // The next copy may fail as soon as it is being written.
        let earlier = self.shared.failure.lock().take();
        let shared = Arc::clone(&self.shared);
        let options = ThreadOptions::new("umbo-checkpoint", Purpose::Checkpoint);
        let write = move || {
            let _inside = shared.enter();
            if let Err(error) = (shared.write)(step, snapshot) {
                log::log(Level::Error, || {
                    format!("checkpoint of step {step}: {error}")
                });
                *shared.failure.lock() = Some((step, error));
            }
        };
        match thread::spawn(&options, write) {
            Ok(spawned) => *thread = Some(spawned),
            Err(error) => {
                *self.shared.failure.lock() = earlier;
                return Err(error);
            }
        }
        Ok(earlier.map(|(failed, error)| {
            error.within(format!(
                "the checkpoint of step {failed}, in the background (that of step {step} was \
                 copied and is being written)"
            ))
        }))
    }

    /// Waits until the copy is written, and reports a failure. FAILED_PRECONDITION as for
    /// [`Background::save`].
    pub fn wait(&self) -> Result<()> {
        self.refuse_own_save()?;
        join(self.thread.lock().take());
        self.check()
    }

    fn refuse_own_save(&self) -> Result<()> {
        if self.shared.inside.lock().contains(&thread_id()) {
            return Err(Error::precondition(
                "called by a function that a save of the same manager calls, and would wait for \
                 it; call it when the save is over",
            ));
        }
        Ok(())
    }
}

fn join(thread: Option<Handle>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        log::log(Level::Error, || {
            "the thread that writes checkpoints panicked".into()
        });
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        join(self.thread.get_mut().take());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::OnceLock;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use umbo_base::error::Status;

    /// Writes that end when the test allows it. They send a message when they begin.
    fn slow() -> (Background, Receiver<u64>, Sender<()>) {
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let ends = Mutex::new(ends);
        let write = move |step, _| {
            begun.send(step).unwrap();
            ends.lock()
                .recv()
                .map_err(|_| Error::Internal("nobody ends it".into()))
        };
        (Background::new(Box::new(write)), begins, end)
    }

    fn copy() -> Result<Snapshot> {
        Ok(Snapshot::default())
    }

    #[test]
    fn a_copy_waits_until_the_one_before_is_written() {
        let (background, begins, end) = slow();
        background.save(1, copy).unwrap();
        assert_eq!(begins.recv(), Ok(1));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                background.save(2, || {
                    assert!(
                        background.shared.inside.lock().len() == 1,
                        "the first is written"
                    );
                    copy()
                })
            });
            end.send(()).unwrap();
            second.join().unwrap().unwrap();
        });
        end.send(()).unwrap();
        background.wait().unwrap();
        assert_eq!(begins.recv(), Ok(2));
    }

    /// A caller that makes no copy leaves nothing behind.
    #[test]
    fn failed_copies_are_not_waited_for() {
        let (background, begins, end) = slow();
        let failed = background.save(2, || Err(Error::precondition("no copy")));
        assert_eq!(failed.unwrap_err().status(), Status::FailedPrecondition);
        let panicked =
            AssertUnwindSafe(|| background.save(3, || resume_unwind(Box::new("no copy"))));
        assert!(catch_unwind(panicked).is_err());
        background.wait().unwrap();
        background.save(4, copy).unwrap();
        end.send(()).unwrap();
        // The end waits until the copy is written.
        drop(background);
        assert_eq!(begins.recv(), Ok(4));
    }

    /// Code that a save calls can neither save with the same manager nor wait for it. Another
    /// thread waits.
    #[test]
    fn a_save_inside_of_a_save_is_refused() {
        let (background, begins, end) = slow();
        let background = &background;
        std::thread::scope(|scope| {
            let mut other = None;
            let made = background.save(6, || {
                for refused in [background.save(5, copy).map(drop), background.wait()] {
                    assert_eq!(refused.unwrap_err().status(), Status::FailedPrecondition);
                }
                other = Some(scope.spawn(|| background.save(8, copy)));
                copy()
            });
            made.unwrap();
            assert_eq!(begins.recv(), Ok(6));
            end.send(()).unwrap();
            other.unwrap().join().unwrap().unwrap();
        });
        end.send(()).unwrap();
        background.wait().unwrap();
    }

    /// Tests code that the writing thread calls, such as the sink of the log.
    #[test]
    fn the_thread_that_writes_does_not_wait_for_itself() {
        let background_cell: Arc<OnceLock<Background>> = Arc::default();
        let for_writer = Arc::downgrade(&background_cell);
        let (sender, receiver) = channel();
        let background = background_cell.get_or_init(|| {
            Background::new(Box::new(move |_, _| {
                let background_cell = for_writer.upgrade().expect("its test still runs");
                let background = background_cell
                    .get()
                    .expect("it writes, so that it is there");
                sender
                    .send([background.save(8, copy).map(drop), background.wait()])
                    .expect("its test listens");
                Ok(())
            }))
        });
        background.save(7, copy).unwrap();
        for refused in receiver.recv().unwrap() {
            assert_eq!(refused.unwrap_err().status(), Status::FailedPrecondition);
        }
        background.wait().unwrap();
    }

    #[test]
    fn a_failure_is_logged_and_reported_once() {
        let (sender, logged) = channel();
        let keep = move |_: Level, text: &str| drop(sender.send(text.to_owned()));
        log::set_sink(Level::Error, Box::new(keep));
        let (background, _begins, end) = slow();
        drop(end);
        background.save(5, copy).unwrap();
        let message = background.wait().unwrap_err().to_string();
        assert!(message.contains("step 5"), "{message}");
        background.check().unwrap();
        log::clear_sink();
        let logged: Vec<String> = logged.iter().collect();
        let of_the_step = |text: &&String| text.contains("checkpoint of step 5: nobody ends it");
        assert_eq!(logged.iter().filter(of_the_step).count(), 1, "{logged:?}");
    }
}
