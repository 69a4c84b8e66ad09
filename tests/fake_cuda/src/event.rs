//! Events: marks in streams that others wait for.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::clock::Clock;
use crate::codes::{Code, Outcome};
use crate::handle::{self, Kind, Raw};
use crate::operation::Work;
use crate::session::Session;

/// What was on a stream when an event was recorded.
#[derive(Clone)]
pub struct Mark {
    pub stream: u32,
    pub count: u64,
    pub clock: Clock,
}

/// One event.
pub struct Event {
    pub context: u32,
    timed: bool,
    mark: Option<Mark>,
    /// How often it was recorded.
    times: u64,
    /// When its stream came past the last record.
    reached: Option<Instant>,
}

/// All events by number.
#[derive(Default)]
pub struct Events {
    all: BTreeMap<u32, Event>,
    next: u32,
}

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;
const KNOWN_FLAGS: u32 = 7;

impl Events {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Removes the events of a context.
    pub fn remove_all(&mut self, context: u32) {
        self.all.retain(|_, event| event.context != context);
    }

    /// Its stream has come past the record of this number.
    pub fn reach(&mut self, id: u32, time: u64) {
        if let Some(event) = self.all.get_mut(&id)
            && event.times == time
        {
            event.reached = Some(Instant::now());
        }
    }

    fn get(&mut self, raw: Raw) -> Outcome<&mut Event> {
        let id = handle::number(Kind::Event, raw)?;
        self.all.get_mut(&id).ok_or(Code::INVALID_HANDLE)
    }
}

impl Session<'_> {
    pub fn create_event(&mut self, flags: u32) -> Outcome<Raw> {
        let context = self.current()?;
        if flags & !KNOWN_FLAGS != 0 || flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.events.next += 1;
        let id = self.events.next;
        let timed = flags & DISABLE_TIMING == 0;
        self.events.all.insert(
            id,
            Event {
                context,
                timed,
                mark: None,
                times: 0,
                reached: None,
            },
        );
        Ok(handle::make(Kind::Event, id))
    }

    /// The event of a handle; anything else is a mistake of the program.
    fn event(&mut self, raw: Raw) -> Outcome<&mut Event> {
        if self.events.get(raw).is_err() {
            let text = format!("{raw:?} is no event, or one that was destroyed");
            return Err(self.misuse(Code::INVALID_HANDLE, &text));
        }
        self.events.get(raw)
    }

    pub fn destroy_event(&mut self, raw: Raw) -> Outcome {
        self.event(raw)?;
        let id = handle::number(Kind::Event, raw)?;
        self.events.all.remove(&id);
        self.current().map(drop)
    }

    pub fn record_event(&mut self, raw: Raw, stream: Raw) -> Outcome {
        let stream = self.stream(stream)?;
        let context = self.streams.get(stream).map(|stream| stream.context);
        if Some(self.event(raw)?.context) != context {
            let text = "an event is recorded on a stream of another device";
            return Err(self.misuse(Code::INVALID_HANDLE, text));
        }
        let id = handle::number(Kind::Event, raw)?;
        let time = self.event(raw)?.times + 1;
        let stamp = self.enqueue(stream, "event record", Work::Record { event: id, time })?;
        let count = self.streams.get(stream).map_or(0, |stream| stream.enqueued);
        let clock = stamp.clock.clone();
        let event = self.event(raw)?;
        (event.mark, event.times) = (
            Some(Mark {
                stream,
                count,
                clock,
            }),
            time,
        );
        event.reached = None;
        Ok(())
    }

    pub fn stream_wait_event(&mut self, stream: Raw, raw: Raw, flags: u32) -> Outcome {
        if flags & !1 != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = self.stream(stream)?;
        let mark = self.event(raw)?.mark.clone();
        // An event that was never recorded holds nobody up.
        match mark {
            Some(mark) => self.enqueue_after(stream, "wait for an event", Work::Nothing, &[mark]),
            None => Ok(()),
        }
    }

    pub fn synchronize_event(&mut self, raw: Raw) -> Outcome {
        self.current()?;
        let Some(mark) = self.event(raw)?.mark.clone() else {
            return Ok(());
        };
        self.wait_for(mark.stream, mark.count);
        self.current()?;
        self.host_learns(&mark.clock);
        self.event(raw)?.reached.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Milliseconds between two events, by when their streams came past them.
    pub fn elapsed(&mut self, start: Raw, end: Raw) -> Outcome<f32> {
        self.current()?;
        let mut times = [Instant::now(); 2];
        let mut contexts = [0; 2];
        for (index, raw) in [start, end].into_iter().enumerate() {
            let event = self.event(raw)?;
            contexts[index] = event.context;
            let Some(mark) = event.mark.clone().filter(|_| event.timed) else {
                return Err(Code::INVALID_HANDLE);
            };
            if !self.streams.reached(mark.stream, mark.count) {
                return Err(Code::NOT_READY);
            }
            times[index] = *self.event(raw)?.reached.get_or_insert_with(Instant::now);
        }
        if contexts[0] != contexts[1] {
            return Err(Code::INVALID_HANDLE);
        }
        let forward = times[1].saturating_duration_since(times[0]).as_secs_f32();
        let backward = times[0].saturating_duration_since(times[1]).as_secs_f32();
        Ok((forward - backward) * 1000.0)
    }
}
