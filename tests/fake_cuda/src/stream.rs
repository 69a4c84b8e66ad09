//! Streams: lines of work that wait to be run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::clock::{Actor, Clock};
use crate::operation::Operation;

/// How a stream relates to the others of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The default stream: it waits for all blocking streams and they wait for it.
    Legacy,
    /// Waits for the default stream.
    Blocking,
    /// Waits for no stream.
    NonBlocking,
}

/// One stream.
pub struct Stream {
    pub id: u32,
    pub context: u32,
    pub order: Order,
    pub name: Arc<str>,
    pub actor: Actor,
    /// What is finished when everything that was put on the stream is.
    pub clock: Clock,
    pub queue: VecDeque<Operation>,
    /// How many operations were put on it, and how many of them have finished.
    pub enqueued: u64,
    pub completed: u64,
    /// A function of the program runs right now.
    pub busy: bool,
    /// The program gave it up; it goes when its work is finished.
    pub destroyed: bool,
}

impl Stream {
    pub fn is_idle(&self) -> bool {
        self.completed == self.enqueued
    }
}

/// All streams by number.
#[derive(Default)]
pub struct Streams {
    all: BTreeMap<u32, Stream>,
    next: u32,
    actors: usize,
    /// Actors of streams that are gone, with how far they counted.
    spare: Vec<(Actor, u64)>,
}

impl Streams {
    /// A new stream. Numbers of streams are not used again.
    pub fn create(&mut self, context: u32, order: Order) -> u32 {
        self.next += 1;
        let id = self.next;
        let mut clock = Clock::default();
        let actor = match self.spare.pop() {
            Some((actor, number)) => {
                while clock.tick(actor) < number {}
                actor
            }
            None => {
                self.actors += 1;
                self.actors - 1
            }
        };
        let name = match order {
            Order::Legacy => format!("the default stream of device {context}"),
            _ => format!("stream {id} of device {context}"),
        };
        let stream = Stream {
            id,
            context,
            order,
            name: name.into(),
            actor,
            clock,
            queue: VecDeque::new(),
            enqueued: 0,
            completed: 0,
            busy: false,
            destroyed: false,
        };
        self.all.insert(id, stream);
        id
    }

    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.all.get_mut(&id)
    }

    pub fn all(&self) -> impl Iterator<Item = &Stream> {
        self.all.values()
    }

    /// The streams of one context.
    pub fn of(&self, context: u32) -> impl Iterator<Item = &Stream> {
        self.all
            .values()
            .filter(move |stream| stream.context == context)
    }

    /// Whether so many operations of a stream have finished.
    pub fn reached(&self, id: u32, count: u64) -> bool {
        self.all
            .get(&id)
            .is_none_or(|stream| stream.completed >= count)
    }

    /// Counts one operation as finished; a stream that was given up goes with its last one.
    pub fn complete(&mut self, id: u32) {
        if let Some(stream) = self.all.get_mut(&id) {
            stream.busy = false;
            stream.completed += 1;
            self.sweep(id);
        }
    }

    /// Removes a stream that was given up and has nothing left to do.
    pub fn sweep(&mut self, id: u32) {
        if let Some(stream) = self.all.get(&id)
            && stream.destroyed
            && stream.is_idle()
        {
            self.spare
                .push((stream.actor, stream.clock.get(stream.actor)));
            self.all.remove(&id);
        }
    }

    /// Drops all work of a context that waits.
    pub fn abandon(&mut self, context: u32) {
        let mine: Vec<u32> = self.of(context).map(|stream| stream.id).collect();
        for id in mine {
            let stream = self
                .all
                .get_mut(&id)
                .expect("its number was found just now");
            stream.completed += stream.queue.len() as u64;
            stream.queue.clear();
            self.sweep(id);
        }
    }

    /// Removes all streams of a context, which have nothing left to do.
    pub fn remove_all(&mut self, context: u32) {
        let mine: Vec<u32> = self.of(context).map(|stream| stream.id).collect();
        for id in mine {
            self.all
                .get_mut(&id)
                .expect("its number was found just now")
                .destroyed = true;
            self.sweep(id);
        }
    }
}
