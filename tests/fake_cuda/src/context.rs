//! Primary contexts, one for each device, and which of them each thread uses.

use std::cell::Cell;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::handle::{self, Kind, Raw};
use crate::session::Session;
use crate::stream::Order;

/// The primary context of one device. Its number is the number of the device.
#[derive(Default)]
pub struct Context {
    /// How many times it is retained and not yet released.
    pub retained: u32,
    /// The error after which it is of no more use.
    pub broken: Option<Code>,
    pub legacy: u32,
}

thread_local! {
    /// The context that this thread uses. Programs call the driver while a thread ends, too.
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

impl Driver {
    /// The context of this thread, if it can be used.
    pub fn current(&self) -> Outcome<u32> {
        let id = CURRENT.get().ok_or(Code::INVALID_CONTEXT)?;
        self.usable(id)?;
        Ok(id)
    }

    /// Fails if a context is gone or broken.
    pub fn usable(&self, context: u32) -> Outcome {
        let context = &self.contexts[context as usize];
        match context.broken {
            _ if context.retained == 0 => Err(Code::CONTEXT_IS_DESTROYED),
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    fn context_number(&self, raw: Raw) -> Outcome<u32> {
        let id = handle::number(Kind::Context, raw).map_err(|_| Code::INVALID_CONTEXT)?;
        if (id as usize) < self.contexts.len() {
            Ok(id)
        } else {
            Err(Code::INVALID_CONTEXT)
        }
    }

    pub fn retain_primary(&mut self, device: i32) -> Outcome<Raw> {
        let id = self.device(device)?;
        let context = &mut self.contexts[id as usize];
        context.retained += 1;
        if context.retained == 1 {
            let legacy = self.streams.create(id, Order::Legacy);
            self.contexts[id as usize].legacy = legacy;
        }
        Ok(handle::make(Kind::Context, id))
    }

    pub fn set_current(&self, raw: Raw) -> Outcome {
        let next = if raw.is_null() {
            None
        } else {
            Some(self.context_number(raw)?)
        };
        if let Some(id) = next
            && self.contexts[id as usize].retained == 0
        {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        CURRENT.set(next);
        Ok(())
    }

    pub fn get_current(&self) -> Raw {
        CURRENT
            .get()
            .map_or(std::ptr::null_mut(), |id| handle::make(Kind::Context, id))
    }

    /// Makes broken contexts usable again, which no real driver does. Work that waited is gone.
    pub fn mend(&mut self) {
        for context in &mut self.contexts {
            context.broken = None;
        }
    }

    /// Notes that a context met an error. One that leaves it of no use ends all its work.
    pub fn fail_context(&mut self, context: u32, code: Code) {
        let state = &mut self.contexts[context as usize];
        if state.broken.is_none() {
            state.broken = Some(code);
            self.streams.abandon(context);
        }
    }
}

impl Session<'_> {
    /// Gives one use of a primary context back. With the last one everything in it goes.
    pub fn release_primary(&mut self, device: i32) -> Outcome {
        let id = self.device(device)?;
        match self.contexts[id as usize].retained {
            0 => return Err(Code::INVALID_CONTEXT),
            1 => {}
            _ => {
                self.contexts[id as usize].retained -= 1;
                return Ok(());
            }
        }
        self.finish_context(id);
        self.streams.remove_all(id);
        self.events.remove_all(id);
        self.modules.remove_all(id);
        let memory: Vec<u64> = self
            .memory
            .live()
            .filter(|region| region.context == id && region.device().is_some())
            .map(|region| region.start)
            .collect();
        for at in memory {
            self.memory.release(at, "the release of its context".into());
        }
        self.contexts[id as usize].retained = 0;
        Ok(())
    }

    pub fn synchronize_context(&mut self) -> Outcome {
        let context = self.current()?;
        self.finish_context(context);
        self.usable(context)
    }

    /// Waits until all work of a context is finished.
    fn finish_context(&mut self, context: u32) {
        let ends: Vec<(u32, u64)> = self
            .streams
            .of(context)
            .map(|stream| (stream.id, stream.enqueued))
            .collect();
        let mut known = self.host.clone();
        for (id, _) in &ends {
            if let Some(stream) = self.streams.get(*id) {
                known.join(&stream.clock);
            }
        }
        for (id, count) in ends {
            self.wait_for(id, count);
        }
        self.host_learns(&known);
    }
}
