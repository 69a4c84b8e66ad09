//! What the program does with streams: it makes them, puts work on them and waits for them.

use std::ffi::c_void;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::event::Mark;
use crate::handle::{self, Kind, Raw};
use crate::operation::{HostFunction, Operation, Stamp, Work};
use crate::session::Session;
use crate::stream::Order;

const LEGACY: usize = 1;
const NON_BLOCKING: u32 = 1;

impl Session<'_> {
    /// The number of the stream that a handle stands for.
    pub fn stream(&mut self, raw: Raw) -> Outcome<u32> {
        let context = self.current()?;
        let id = match raw as usize {
            0 | LEGACY => self.contexts[context as usize].legacy,
            _ => {
                let id = handle::number(Kind::Stream, raw).ok();
                let alive = |id: &u32| self.streams.get(*id).is_some_and(|s| !s.destroyed);
                let Some(id) = id.filter(alive) else {
                    let text = format!("{raw:?} is no stream, or one that was destroyed");
                    return Err(self.misuse(Code::INVALID_HANDLE, &text));
                };
                id
            }
        };
        let owner = self
            .streams
            .get(id)
            .map_or(context, |stream| stream.context);
        self.usable(owner)?;
        Ok(id)
    }

    pub fn create_stream(&mut self, flags: u32) -> Outcome<Raw> {
        let context = self.current()?;
        let order = match flags {
            0 => Order::Blocking,
            NON_BLOCKING => Order::NonBlocking,
            _ => return Err(Code::INVALID_VALUE),
        };
        let id = self.streams.create(context, order);
        Ok(handle::make(Kind::Stream, id))
    }

    /// Gives a stream up; its work still runs.
    pub fn destroy_stream(&mut self, raw: Raw) -> Outcome {
        if (raw as usize) <= LEGACY {
            return Err(Code::INVALID_HANDLE);
        }
        let id = self.stream(raw)?;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.destroyed = true;
        }
        self.streams.sweep(id);
        Ok(())
    }

    pub fn stream_context(&mut self, raw: Raw) -> Outcome<Raw> {
        let id = self.stream(raw)?;
        let stream = self.streams.get(id).ok_or(Code::INVALID_HANDLE)?;
        Ok(handle::make(Kind::Context, stream.context))
    }

    /// The number of a context that is alive.
    pub fn live_context(&mut self, raw: Raw) -> Outcome<u32> {
        let id = handle::number(Kind::Context, raw).map_err(|_| Code::INVALID_CONTEXT)?;
        if id as usize >= self.contexts.len() {
            return Err(Code::INVALID_CONTEXT);
        }
        self.usable(id)?;
        Ok(id)
    }

    /// Puts work at the end of a stream.
    pub fn enqueue(&mut self, stream: u32, name: &str, work: Work) -> Outcome<Arc<Stamp>> {
        self.put(stream, name, work, &[])
    }

    /// Puts work at the end of a stream that also waits for marks in others.
    pub fn enqueue_after(
        &mut self,
        stream: u32,
        name: &str,
        work: Work,
        marks: &[Mark],
    ) -> Outcome {
        self.put(stream, name, work, marks).map(drop)
    }

    fn put(&mut self, id: u32, name: &str, work: Work, marks: &[Mark]) -> Outcome<Arc<Stamp>> {
        let stream = self.streams.get(id).ok_or(Code::INVALID_HANDLE)?;
        let context = stream.context;
        let order = stream.order;
        self.usable(context)?;
        let mut clock = self.host.clone();
        let mut after = vec![];
        for mark in marks {
            clock.join(&mark.clock);
            after.push((mark.stream, mark.count));
        }
        // The default stream and the blocking ones wait for each other.
        let legacy = self.contexts[context as usize].legacy;
        for other in self.streams.of(context) {
            let ordered = match order {
                Order::Legacy => other.order == Order::Blocking,
                Order::Blocking => other.id == legacy,
                Order::NonBlocking => false,
            };
            if ordered {
                clock.join(&other.clock);
                after.push((other.id, other.enqueued));
            }
        }
        after.retain(|(stream, count)| !self.streams.reached(*stream, *count));
        let stream = self.streams.get_mut(id).ok_or(Code::INVALID_HANDLE)?;
        stream.clock.join(&clock);
        let number = stream.clock.tick(stream.actor);
        stream.enqueued += 1;
        let stamp = Arc::new(Stamp::new(
            name.into(),
            Arc::clone(&stream.name),
            stream.actor,
            number,
            stream.clock.clone(),
        ));
        stream.queue.push_back(Operation {
            stamp: Arc::clone(&stamp),
            work,
            after,
        });
        Ok(stamp)
    }

    pub fn launch_host_function(
        &mut self,
        stream: Raw,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) -> Outcome {
        let stream = self.stream(stream)?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let work = Work::Host(HostFunction { function, data });
        self.enqueue(stream, "host function", work).map(drop)
    }

    /// Waits until everything that is on a stream now is finished.
    pub fn finish_stream(&mut self, id: u32) -> Outcome {
        let Some(stream) = self.streams.get(id) else {
            return Ok(());
        };
        let context = stream.context;
        let count = stream.enqueued;
        let clock = stream.clock.clone();
        self.wait_for(id, count);
        self.usable(context)?;
        self.host_learns(&clock);
        Ok(())
    }

    pub fn synchronize_stream(&mut self, raw: Raw) -> Outcome {
        let id = self.stream(raw)?;
        self.finish_stream(id)
    }

    pub fn query_stream(&mut self, raw: Raw) -> Outcome {
        let id = self.stream(raw)?;
        self.step();
        let Some(stream) = self.streams.get(id) else {
            return Ok(());
        };
        let idle = stream.is_idle();
        let context = stream.context;
        let clock = stream.clock.clone();
        self.usable(context)?;
        if !idle {
            return Err(Code::NOT_READY);
        }
        self.host_learns(&clock);
        Ok(())
    }
}
