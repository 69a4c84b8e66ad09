//! In what order work runs: any that CUDA allows, as the seed has it.

use crate::driver::Driver;
use crate::host_function;
use crate::operation::{Operation, Work};
use crate::session::progressed;

/// How soon work runs after it was put on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Eagerness {
    /// How often, in 100 cases, an operation runs after a call that did not wait for it.
    after_call: u32,
    /// How often a call that waits runs an operation that it does not wait for.
    beside: u32,
}

impl Eagerness {
    /// Of five neighbouring seeds one runs everything at once, one as late as can be.
    pub fn of(seed: u64) -> Eagerness {
        let (after_call, beside) = match seed % 5 {
            0 => (100, 100),
            1 => (0, 0),
            2 => (15, 30),
            3 => (40, 60),
            _ => (70, 20),
        };
        Eagerness { after_call, beside }
    }
}

impl Driver {
    /// Streams whose next operation can run.
    fn ready(&self) -> Vec<u32> {
        let can_run = |id: &u32| self.blocker(*id).is_none();
        let waiting = self
            .streams
            .all()
            .filter(|stream| !stream.queue.is_empty() && !stream.busy);
        waiting.map(|stream| stream.id).filter(can_run).collect()
    }

    /// The stream that the next operation of a stream waits for.
    fn blocker(&self, id: u32) -> Option<u32> {
        let operation = self.streams.get(id)?.queue.front()?;
        let unmet = |(stream, count): &&(u32, u64)| !self.streams.reached(*stream, *count);
        operation
            .after
            .iter()
            .find(unmet)
            .map(|(stream, _)| *stream)
    }

    /// Runs an operation of some stream; false if none can run.
    pub fn step(&mut self) -> bool {
        let ready = self.ready();
        if ready.is_empty() {
            return false;
        }
        let pick = ready[self.random.below(ready.len())];
        self.run_next(pick);
        true
    }

    /// Runs an operation that brings a stream forward; false if none can run.
    pub fn step_toward(&mut self, stream: u32) -> bool {
        if self.random.chance(self.eagerness.beside) {
            return self.step();
        }
        let mut at = stream;
        while let Some(blocker) = self.blocker(at) {
            at = blocker;
        }
        let runnable = |stream: &crate::stream::Stream| !stream.busy && !stream.queue.is_empty();
        let runs = self.streams.get(at).is_some_and(runnable);
        if runs {
            self.run_next(at);
        }
        runs
    }

    /// After a call: runs as much as the seed wants.
    pub fn go_on(&mut self) {
        while self.random.chance(self.eagerness.after_call) && self.step() {}
    }

    fn run_next(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let Some(operation) = stream.queue.pop_front() else {
            return;
        };
        stream.busy = true;
        let context = stream.context;
        if self.execute(context, id, operation) {
            self.streams.complete(id);
            progressed();
        }
    }

    /// Runs an operation; false if it finishes later.
    fn execute(&mut self, context: u32, stream: u32, operation: Operation) -> bool {
        let Operation { stamp, work, .. } = operation;
        if self.contexts[context as usize].broken.is_some() {
            return true;
        }
        let outcome = match self.fault_in("operation") {
            Some(fault) => Err(fault),
            None => match work {
                Work::Nothing => Ok(()),
                Work::Record { event, time } => {
                    self.events.reach(event, time);
                    Ok(())
                }
                Work::Copy { from, to, bytes } => self.run_copy(&stamp, &from, &to, bytes),
                Work::Fill { at, value, bytes } => self.run_fill(&stamp, at, value, bytes),
                Work::Free { at } => self.run_free(&stamp, at),
                Work::Launch(launch) => self.run_launch(&stamp, context, &launch),
                Work::Host(function) => {
                    host_function::call(stream, stamp, function);
                    return false;
                }
            },
        };
        if let Err(code) = outcome {
            self.fail_context(context, code);
        }
        true
    }
}
