//! The trace: a file that shows what every thread did and when. Chrome's and Perfetto's viewers can
//! read it.
//!
//! Each thread stores its events in its own buffer, which is made at its first event. If a thread
//! finds its buffer full, or if nothing was written for a fifth of a second, it writes the events
//! of all threads, so that a crash loses little. The file is a JSON array with one event on each
//! line. Viewers do not need the bracket at the end, so an unfinished file is readable too.
//!
//! The number of events in a trace is limited. Events beyond the limit are counted. In the child of
//! a fork there is no trace, because the file belongs to the parent.

mod entry;
mod json;
pub mod program;
mod row;

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub use entry::Account;
pub(crate) use entry::{Detail, Entry};

use crate::machine::Watch;
use crate::processes::Usage;
use umbo_base::error::{Error, Result};
use umbo_base::files;
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::trace::{self, Event, Tracer};
use umbo_base::observe::watching;
use umbo_system::{clock, threads};

/// The number of events that a thread keeps until they are written.
const KEPT: usize = 2048;

/// The longest time that events stay unwritten, in nanoseconds.
const MOST_BEHIND: u64 = 200_000_000;

/// The largest number of events of a trace by default: about 500 MB of text.
pub const MOST_EVENTS: u64 = 4_000_000;

/// The number of the trace that is being written; 0 for none.
static CURRENT: AtomicU64 = AtomicU64::new(0);

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

struct Session {
    number: u64,
    file: File,
    path: String,
    buffers: Vec<Arc<ThreadEvents>>,
    most: u64,
    account: Account,
    /// The error after which nothing can be written.
    failure: Option<std::io::Error>,
    text: String,
    /// An empty buffer, which is exchanged for a full one.
    spare: Vec<Entry>,
    /// The number under which the file has introduced the process.
    process: Option<u32>,
    last_write: Arc<AtomicU64>,
    usage: Usage,
    machine: Watch,
}

/// The events of one thread.
struct ThreadEvents {
    thread: u32,
    name: String,
    events: Mutex<Vec<Entry>>,
    /// The facts about the thread that the file contains so far.
    introduced: Mutex<Introduced>,
}

#[derive(Clone, Copy, Default)]
struct Introduced {
    by_name: bool,
    replica: Option<u32>,
}

/// A thread's reference to its buffer.
struct OwnBuffer {
    session: u64,
    buffer: Arc<ThreadEvents>,
    last_write: Arc<AtomicU64>,
}

thread_local! {
    static OWN: RefCell<Option<OwnBuffer>> = const { RefCell::new(None) };
}

/// Begins a trace of at most `most` events. It is written to a new file at `path`.
///
/// FAILED_PRECONDITION while there is a trace. INVALID_ARGUMENT: not a regular file. NOT_FOUND,
/// PERMISSION_DENIED or UNAVAILABLE if the file cannot be made.
pub fn start(path: &Path, most: u64) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut current = SESSION.lock();
    if let Some(current) = &*current {
        return Err(Error::precondition(format!(
            "a trace is being written to '{}'; stop that one first",
            current.path
        )));
    }
    let shown = path.display().to_string();
    let mut file = files::overwrite(path, |error| unwritable(&shown, error))?;
    file.write_all(b"[\n")
        .map_err(|error| unwritable(&shown, &error))?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    *current = Some(Session {
        number,
        file,
        path: shown,
        buffers: Vec::new(),
        most,
        account: Account {
            events: 0,
            dropped: 0,
        },
        failure: None,
        text: String::new(),
        spare: Vec::with_capacity(KEPT),
        process: None,
        last_write: Arc::new(AtomicU64::new(clock::now())),
        usage: Usage::now(),
        machine: Watch::begin(),
    });
    CURRENT.store(number, Ordering::Release);
    trace::begin(&Writer);
    Ok(())
}

/// Ends the trace and returns its result.
///
/// FAILED_PRECONDITION if there is none. UNAVAILABLE or RESOURCE_EXHAUSTED if not all of it could
/// be written; the trace has ended then, too.
pub fn stop() -> Result<Account> {
    trace::record_rest();
    let none = || Error::precondition("no trace is being written; start one first");
    if CURRENT.load(Ordering::Acquire) == 0 {
        return Err(none());
    }
    let mut current = SESSION.lock();
    let Some(mut session) = current.take() else {
        return Err(none());
    };
    trace::end();
    CURRENT.store(0, Ordering::Release);
    session.write_all();
    session.finish();
    match session.failure {
        None => Ok(session.account),
        Some(why) => Err(Error::of_system(
            format_args!("the trace '{}' is not whole", session.path),
            &why,
        )),
    }
}

fn unwritable(path: &str, error: &std::io::Error) -> Error {
    Error::of_system(format_args!("the trace '{path}' cannot be written"), error)
}

/// Records an event of the calling thread.
pub(crate) fn record(entry: Entry) {
    let end = entry.event.start + entry.event.duration;
    // A thread that is about to end has no buffer any more, so its events are not traced.
    let _ = OWN.try_with(|buffered| {
        let Ok(mut buffered) = buffered.try_borrow_mut() else {
            return;
        };
        if buffered
            .as_ref()
            .is_none_or(|buffered| buffered.session != CURRENT.load(Ordering::Relaxed))
        {
            *buffered = register();
        }
        let Some(buffered) = &*buffered else { return };
        let full = {
            let mut events = buffered.buffer.events.lock();
            events.push(entry);
            events.len() >= KEPT
        };
        let last = buffered.last_write.load(Ordering::Relaxed);
        if full || end.saturating_sub(last) > MOST_BEHIND {
            write(full);
        }
    });
}

/// A buffer for the calling thread, if there is a trace.
fn register() -> Option<OwnBuffer> {
    let mut current = SESSION.lock();
    let session = current.as_mut()?;
    let buffer = session.add_buffer(threads::number(), threads::name());
    Some(OwnBuffer {
        session: session.number,
        buffer,
        last_write: Arc::clone(&session.last_write),
    })
}

impl Drop for OwnBuffer {
    /// The end of the thread: its events are written, and its buffer is dropped.
    fn drop(&mut self) {
        if self.session != CURRENT.load(Ordering::Acquire) {
            return;
        }
        let mut current = SESSION.lock();
        let Some(session) = current
            .as_mut()
            .filter(|session| session.number == self.session)
        else {
            return;
        };
        session.write_buffer(&self.buffer);
        session.put();
        session
            .buffers
            .retain(|buffer| !Arc::ptr_eq(buffer, &self.buffer));
    }
}

/// Writes the events of all threads. If another thread is writing, it does nothing, unless `must`.
fn write(must: bool) {
    let mut current = match SESSION.try_lock() {
        Some(current) => current,
        None if must => SESSION.lock(),
        None => return,
    };
    let Some(session) = current.as_mut() else {
        return;
    };
    session.last_write.store(clock::now(), Ordering::Relaxed);
    let had_failed = session.failure.is_some();
    session.write_all();
    let problem = session.failure.as_ref().filter(|_| !had_failed).map(|why| {
        let path = &session.path;
        format!("the trace '{path}' ends here: {why}; make room for it, or trace fewer steps")
    });
    drop(current);
    if let Some(problem) = problem {
        log::log(Level::Warning, || problem);
    }
}

impl Session {
    fn add_buffer(&mut self, thread: u32, name: String) -> Arc<ThreadEvents> {
        let events = Mutex::new(Vec::with_capacity(KEPT));
        let buffer = Arc::new(ThreadEvents {
            thread,
            name,
            events,
            introduced: Mutex::default(),
        });
        self.buffers.push(Arc::clone(&buffer));
        buffer
    }

    fn write_all(&mut self) {
        for at in 0..self.buffers.len() {
            let buffer = Arc::clone(&self.buffers[at]);
            self.write_buffer(&buffer);
        }
        self.put();
    }

    /// Appends the events of a thread to the text.
    fn write_buffer(&mut self, buffer: &ThreadEvents) {
        let mut events = {
            let mut events = buffer.events.lock();
            if events.is_empty() {
                return;
            }
            mem::replace(&mut *events, mem::take(&mut self.spare))
        };
        let process = watching::rank().unwrap_or_else(umbo_system::process::id);
        if self.process.replace(process) != Some(process) {
            json::process(&mut self.text, process, watching::rank());
        }
        let mut introduced = buffer.introduced.lock();
        if !introduced.by_name {
            introduced.by_name = true;
            json::thread(&mut self.text, process, buffer.thread, &buffer.name, None);
        }
        for entry in events.drain(..) {
            if self.account.events >= self.most || self.failure.is_some() {
                self.account.dropped += 1;
                continue;
            }
            if let Detail::Replica(_, replica, _) = &entry.detail
                && introduced.replica != Some(*replica)
            {
                introduced.replica = Some(*replica);
                let replica = introduced.replica;
                json::thread(
                    &mut self.text,
                    process,
                    buffer.thread,
                    &buffer.name,
                    replica,
                );
            }
            self.account.events += 1;
            json::event(&mut self.text, process, buffer.thread, &entry);
        }
        self.spare = events;
    }

    /// Writes the text to the file, in whole lines.
    fn put(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.file.write_all(self.text.as_bytes())
        {
            self.failure = Some(error);
        }
        self.text.clear();
    }

    /// Writes the final figures and the end of the file.
    fn finish(&mut self) {
        let process = watching::rank().unwrap_or_else(umbo_system::process::id);
        let (others, _) = self.usage.since(&[]);
        json::summary(
            &mut self.text,
            process,
            self.account,
            &others,
            self.machine.load(),
        );
        self.text.push_str("]\n");
        self.put();
    }
}

/// Takes the events of the library's work.
struct Writer;

impl Tracer for Writer {
    fn record(&self, event: Event) {
        record(event.into());
    }

    fn record_row(&self, number: u32, name: &str, events: Vec<Event>) {
        row::record(number, name, events);
    }

    fn abandon(&self) {
        CURRENT.store(0, Ordering::Relaxed);
    }
}
