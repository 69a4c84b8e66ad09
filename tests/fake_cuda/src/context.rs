//! Primary contexts, one for each device, and which of them each thread uses.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::mem::ManuallyDrop;
use std::thread::ThreadId;

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
    pub flags: u32,
    /// The error after which it is of no more use.
    pub broken: Option<Code>,
    pub legacy: u32,
    pub per_thread: HashMap<ThreadId, u32>,
    /// Devices whose memory its kernels may use.
    pub peers: BTreeSet<u32>,
}

thread_local! {
    /// Never dropped, so that it is there as long as its thread: programs call the driver while a thread
    /// ends. What a thread leaves on it is lost, as with the driver.
    static STACK: RefCell<ManuallyDrop<Vec<u32>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The context on top of this thread's stack.
fn top() -> Option<u32> {
    STACK.with_borrow(|stack| stack.last().copied())
}

impl Driver {
    /// The context of this thread, if it can be used.
    pub fn current(&self) -> Outcome<u32> {
        let id = top().ok_or(Code::INVALID_CONTEXT)?;
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
        if (id as usize) < self.contexts.len() { Ok(id) } else { Err(Code::INVALID_CONTEXT) }
    }

    pub fn retain_primary(&mut self, device: i32) -> Outcome<Raw> {
        let id = self.device(device)?;
        let context = &mut self.contexts[id as usize];
        context.retained += 1;
        if context.retained == 1 {
            let legacy = self.streams.create(id, Order::Legacy, 0, 0);
            self.contexts[id as usize].legacy = legacy;
        }
        Ok(handle::make(Kind::Context, id))
    }

    pub fn primary_state(&self, device: i32) -> Outcome<(u32, i32)> {
        let context = &self.contexts[self.device(device)? as usize];
        Ok((context.flags, i32::from(context.retained > 0)))
    }

    pub fn set_primary_flags(&mut self, device: i32, flags: u32) -> Outcome {
        let id = self.device(device)?;
        self.contexts[id as usize].flags = flags;
        Ok(())
    }

    pub fn set_current(&self, raw: Raw) -> Outcome {
        let next = if raw.is_null() { None } else { Some(self.context_number(raw)?) };
        if let Some(id) = next
            && self.contexts[id as usize].retained == 0
        {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend(next);
        });
        Ok(())
    }

    pub fn get_current(&self) -> Raw {
        top().map_or(std::ptr::null_mut(), |id| handle::make(Kind::Context, id))
    }

    pub fn push_current(&self, raw: Raw) -> Outcome {
        let id = self.context_number(raw)?;
        if self.contexts[id as usize].retained == 0 {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        STACK.with_borrow_mut(|stack| stack.push(id));
        Ok(())
    }

    pub fn pop_current(&self) -> Outcome<Raw> {
        let id = STACK.with_borrow_mut(|stack| stack.pop()).ok_or(Code::INVALID_CONTEXT)?;
        Ok(handle::make(Kind::Context, id))
    }

    /// The device of this thread's context.
    pub fn current_device(&self) -> Outcome<i32> {
        top().map(|id| id as i32).ok_or(Code::INVALID_CONTEXT)
    }

    pub fn enable_peer(&mut self, peer: Raw, flags: u32) -> Outcome {
        let current = self.current()?;
        let peer = self.context_number(peer)?;
        self.usable(peer)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if !self.can_access_peer(current as i32, peer as i32)? {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        match self.contexts[current as usize].peers.insert(peer) {
            true => Ok(()),
            false => Err(Code::PEER_ACCESS_ALREADY_ENABLED),
        }
    }

    pub fn disable_peer(&mut self, peer: Raw) -> Outcome {
        let current = self.current()?;
        let peer = self.context_number(peer)?;
        match self.contexts[current as usize].peers.remove(&peer) {
            true => Ok(()),
            false => Err(Code::PEER_ACCESS_NOT_ENABLED),
        }
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
        let context = &mut self.contexts[id as usize];
        context.retained = 0;
        context.per_thread.clear();
        context.peers.clear();
        Ok(())
    }

    pub fn synchronize_context(&mut self) -> Outcome {
        let context = self.current()?;
        self.finish_context(context);
        self.usable(context)
    }

    /// Waits until all work of a context is finished.
    fn finish_context(&mut self, context: u32) {
        let ends: Vec<(u32, u64)> =
            self.streams.of(context).map(|stream| (stream.id, stream.enqueued)).collect();
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
