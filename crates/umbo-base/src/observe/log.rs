//! The process-wide log. Messages go to a sink that the caller sets, or to standard error. The
//! environment selects what goes to standard error. If it does not, these are warnings and errors,
//! and each distinct message is printed once.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use parking_lot::Mutex;

use umbo_system::streams;

/// How important a message is. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Level {
    /// A failure that no call reports.
    Error = 1,
    /// Something that works, but is probably a mistake.
    Warning = 2,
    /// The configuration that was set up.
    Info = 3,
    /// Details for finding errors.
    Debug = 4,
}

impl Level {
    /// `ERROR`, `WARNING`, `INFO` or `DEBUG`.
    pub fn name(self) -> &'static str {
        ["ERROR", "WARNING", "INFO", "DEBUG"][self as usize - 1]
    }
}

/// A function that receives the messages. Several threads may call it at once.
pub type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

/// From now on, sends messages up to `most_verbose` to `sink`, which replaces the sink before. It
/// does not wait: if another thread is in a call of the old sink, this call continues, and the old
/// sink is dropped after the last of such calls. A sink may log (which has no effect) and may set
/// or clear the sink. A panic of the sink is caught, and the message is lost.
///
/// If the environment sets a level, it replaces `most_verbose`.
pub fn set_sink(most_verbose: Level, sink: Sink) {
    HAS_SINK.store(true, Ordering::Relaxed);
    LOG.set(Some(ProgramSink { most_verbose, sink }));
}

/// Sends messages to standard error again, as if there had been no sink. The sink is dropped as
/// described at [`set_sink`].
pub fn clear_sink() {
    HAS_SINK.store(false, Ordering::Relaxed);
    LOG.set(None);
}

/// Applies the environment's setting, once in a process.
pub fn apply_environment() {
    static LEVEL_IS_SET: AtomicBool = AtomicBool::new(false);
    // If several threads come first at the same time, each of them sets the level, so that none
    // begins without it.
    if LEVEL_IS_SET.load(Ordering::Acquire) {
        return;
    }
    let level = std::env::var_os("UMBO_LOG").map(|given| level(&given));
    if let Some(Ok(level)) = level {
        OF_ENVIRONMENT.store(level.map_or(0, |level| level as i32), Ordering::Relaxed);
        LOG.record_wanted(&LOG.sink.lock());
    }
    if let (false, Some(Err(warning))) = (LEVEL_IS_SET.swap(true, Ordering::AcqRel), level) {
        log_anyway(Level::Warning, &warning);
    }
}

/// The level named by a text; `None` for no messages.
fn level(given: &OsStr) -> Result<Option<Level>, String> {
    let text = given.to_string_lossy();
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "off" | "none" | "0" => Ok(None),
        "error" | "1" => Ok(Some(Level::Error)),
        "warning" | "warn" | "2" => Ok(Some(Level::Warning)),
        "info" | "3" => Ok(Some(Level::Info)),
        "debug" | "4" => Ok(Some(Level::Debug)),
        _ => Err(format!(
            "UMBO_LOG is '{}'; off, error, warning, info and debug are possible, or 0 to 4. It is \
             ignored",
            text.chars().take(80).collect::<String>()
        )),
    }
}

/// The text of a message with what a terminal would obey (control characters other than the ends of
/// lines) escaped. Messages have names in them, which may come from a file.
pub fn without_controls(message: &str) -> Cow<'_, str> {
    let is_obeyed = |letter: char| letter.is_control() && letter != '\n';
    if !message.contains(is_obeyed) {
        return Cow::Borrowed(message);
    }
    let mut shown = String::with_capacity(message.len() + 8);
    for letter in message.chars() {
        match is_obeyed(letter) {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Whether a message of this level is received.
pub fn is_wanted(level: Level) -> bool {
    level as i32 <= LOG.wanted.load(Ordering::Relaxed)
}

/// Logs a message that must be seen, even if it was logged before. If no sink wants it, it goes to
/// standard error.
pub fn log_anyway(level: Level, message: &str) {
    if HAS_SINK.load(Ordering::Relaxed) && is_wanted(level) {
        log(level, || message.to_owned());
    } else {
        print(level, &without_controls(message));
    }
}

/// Whether the program has set a sink.
static HAS_SINK: AtomicBool = AtomicBool::new(false);

/// The environment's setting: a level's number, 0 for no messages, or [`UNSET`].
static OF_ENVIRONMENT: AtomicI32 = AtomicI32::new(UNSET);

const UNSET: i32 = -1;

/// Prints a message to standard error, unless it was printed before.
fn print_once(level: Level, message: &str) {
    static LOGGED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let place = place_of_new(&mut LOGGED.lock(), message);
    match place {
        Some(0..MOST_LOGGED) => print(level, message),
        Some(_) => print(
            level,
            &format!(
                "{message} (no more messages are printed; UMBO_LOG=warning prints all, and a log \
                 callback gets them)"
            ),
        ),
        None => {}
    }
}

/// The most verbose level without a sink and a setting.
const BY_DEFAULT: Level = Level::Warning;

/// Prints one line to standard error, in one call, so that lines of other processes do not
/// interrupt it.
fn print(level: Level, message: &str) {
    let line = format!("umbo: {}: {message}\n", level.name());
    streams::write_error(line.as_bytes());
}

/// The number of distinct messages that are printed. One more says that it is the last.
const MOST_LOGGED: usize = 64;

/// The number of a message among those in `logged`, hashes of printed messages, to which it is
/// added. None if it was printed before, or too many were.
fn place_of_new(logged: &mut Vec<u64>, message: &str) -> Option<usize> {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    let hash = hasher.finish();
    let place = logged.len();
    (place <= MOST_LOGGED && !logged.contains(&hash)).then(|| {
        logged.push(hash);
        place
    })
}

/// Logs a message. `message` is called only if a sink wants this level. If not, the call costs one
/// relaxed load.
pub fn log(level: Level, message: impl FnOnce() -> String) {
    if is_wanted(level) {
        let mut message = Some(message);
        log_wanted(level, &mut || {
            message.take().map(|message| message()).unwrap_or_default()
        });
    }
}

/// Logs a message of a level that was wanted.
#[cold]
fn log_wanted(level: Level, message: &mut dyn FnMut() -> String) {
    // A message may come before any other call that applies the environment's settings.
    apply_environment();
    LOG.log(level, message);
}

/// Logs a message where the caller holds locks, or others wait for it, so that the program's code
/// must not run: if there is a sink, the message is kept until [`log_kept`].
pub fn keep(level: Level, message: impl FnOnce() -> String) {
    if !HAS_SINK.load(Ordering::Relaxed) {
        return log(level, message);
    }
    if is_wanted(level) && !IN_SINK.get() {
        let mut kept = KEPT.lock();
        kept.push((level, message()));
        HAS_KEPT.store(true, Ordering::Relaxed);
    }
}

/// Logs the messages that [`keep`] has kept, of any thread. The caller holds no locks.
pub fn log_kept() {
    #[cold]
    fn log_all() {
        let kept = {
            let mut kept = KEPT.lock();
            HAS_KEPT.store(false, Ordering::Relaxed);
            std::mem::take(&mut *kept)
        };
        kept.into_iter()
            .for_each(|(level, message)| log(level, || message));
    }
    if HAS_KEPT.load(Ordering::Relaxed) {
        log_all();
    }
}

static KEPT: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
static HAS_KEPT: AtomicBool = AtomicBool::new(false);

static LOG: Log = Log::new();

thread_local! {
    /// Whether this thread is in a sink. Without this flag, the sink's own messages would call it
    /// endlessly.
    static IN_SINK: Cell<bool> = const { Cell::new(false) };
}

/// The program's sink.
struct ProgramSink {
    most_verbose: Level,
    sink: Sink,
}

struct Log {
    /// The most verbose level that is wanted; 0 if no messages are wanted.
    wanted: AtomicI32,
    /// Without a sink, messages go to standard error.
    sink: Mutex<Option<Arc<ProgramSink>>>,
}

impl Log {
    const fn new() -> Log {
        Log {
            wanted: AtomicI32::new(BY_DEFAULT as i32),
            sink: Mutex::new(None),
        }
    }

    fn set(&self, sink: Option<ProgramSink>) {
        let old = {
            let mut current = self.sink.lock();
            let old = std::mem::replace(&mut *current, sink.map(Arc::new));
            self.record_wanted(&current);
            old
        };
        // It is dropped without the lock, because dropping the sink runs the caller's code, which
        // may call this module.
        drop(old);
    }

    /// Notes which messages are wanted: those that the environment sets or, without a setting,
    /// those of the sink.
    fn record_wanted(&self, sink: &Option<Arc<ProgramSink>>) {
        let wanted = match OF_ENVIRONMENT.load(Ordering::Relaxed) {
            UNSET => sink.as_ref().map_or(BY_DEFAULT, |sink| sink.most_verbose) as i32,
            code => code,
        };
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    fn log(&self, level: Level, message: impl FnOnce() -> String) {
        if level as i32 > self.wanted.load(Ordering::Relaxed) || IN_SINK.get() {
            return;
        }
        let message = message();
        let message = without_controls(&message);
        // This reference keeps the sink alive during the call, which is made without the lock.
        let sink = self.sink.lock().clone();
        match sink {
            Some(sink) => call_sink(|| (sink.sink)(level, &message)),
            None if OF_ENVIRONMENT.load(Ordering::Relaxed) == UNSET => print_once(level, &message),
            None => print(level, &message),
        }
    }
}

/// Makes `call`, which calls a sink: [`log`] does so, and a sink that calls another one later. What
/// this thread logs meanwhile has no effect. A panic must not abort the step that logged, so it is
/// caught, and the message is lost.
pub fn call_sink(call: impl FnOnce()) {
    let was = IN_SINK.replace(true);
    let _ = catch_unwind(AssertUnwindSafe(call));
    IN_SINK.set(was);
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        for (text, expected) in [
            ("off", None),
            ("0", None),
            ("", None),
            ("error", Some(Level::Error)),
            ("Warning", Some(Level::Warning)),
            ("WARN", Some(Level::Warning)),
            (" info ", Some(Level::Info)),
            ("3", Some(Level::Info)),
            ("debug", Some(Level::Debug)),
        ] {
            assert_eq!(level(OsStr::new(text)), Ok(expected), "{text}");
        }
        for text in ["verbose", "5", "-1", "debug,info"] {
            let warning = level(OsStr::new(text)).unwrap_err();
            assert!(
                warning.contains(text) && warning.contains("off, error"),
                "{warning}"
            );
        }
    }

    #[test]
    fn control_characters_in_messages_are_escaped() {
        assert_eq!(
            without_controls("one\ntwo\r\u{7f}\t"),
            "one\ntwo\\r\\u{7f}\\t"
        );
        assert_eq!(without_controls("w\u{e4}"), "w\u{e4}");
    }

    /// A log whose sink keeps the messages that it receives.
    fn recorded(most_verbose: Level) -> (Log, Arc<Mutex<Vec<String>>>) {
        let log = Log::new();
        let lines = Arc::new(Mutex::new(Vec::new()));
        log.set(Some(recorder(most_verbose, &lines)));
        (log, lines)
    }

    fn recorder(most_verbose: Level, lines: &Arc<Mutex<Vec<String>>>) -> ProgramSink {
        let lines = Arc::clone(lines);
        let sink: Sink =
            Box::new(move |level, text| lines.lock().push(format!("{}: {text}", level.name())));
        ProgramSink { most_verbose, sink }
    }

    #[test]
    fn levels_up_to_the_chosen_one_arrive() {
        let (log, lines) = recorded(Level::Warning);
        for level in [Level::Error, Level::Warning, Level::Info, Level::Debug] {
            log.log(level, || format!("message {}", level as i32));
        }
        assert_eq!(*lines.lock(), ["ERROR: message 1", "WARNING: message 2"]);
    }

    #[test]
    fn each_message_is_logged_once_up_to_a_limit() {
        let logged = &mut Vec::new();
        for place in 0..=MOST_LOGGED {
            let text = place.to_string();
            assert_eq!(
                (place_of_new(logged, &text), place_of_new(logged, &text)),
                (Some(place), None)
            );
        }
        assert_eq!(
            (place_of_new(logged, "65"), place_of_new(logged, "2")),
            (None, None)
        );
    }

    #[test]
    fn the_newest_sink_receives() {
        let (log, first) = recorded(Level::Debug);
        let second = Arc::new(Mutex::new(Vec::new()));
        log.set(Some(recorder(Level::Info, &second)));
        log.log(Level::Info, || "hello".into());
        log.log(Level::Debug, || unreachable!("nobody wants it"));
        Log::new().log(Level::Info, || {
            unreachable!("by default there are warnings and errors")
        });
        assert!(first.lock().is_empty());
        assert_eq!(*second.lock(), ["INFO: hello"]);
    }

    #[test]
    fn a_sink_may_log_and_replace_itself() {
        let log = Arc::new(Log::new());
        let weak: Weak<Log> = Arc::downgrade(&log);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        log.set(Some(ProgramSink {
            most_verbose: Level::Debug,
            sink: Box::new(move |_, _| {
                counted.fetch_add(1, Ordering::Relaxed);
                let log = weak.upgrade().unwrap();
                log.log(Level::Error, || unreachable!("from inside of the sink"));
                log.set(None);
            }),
        }));
        log.log(Level::Info, || "once".into());
        log.log(Level::Info, || "the sink is gone".into());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_running_call_keeps_the_old_sink() {
        struct Dropped(mpsc::Sender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let log = Log::new();
        let (dropped, was_dropped) = mpsc::channel();
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel();
        let guard = Dropped(dropped);
        let may_leave = Mutex::new(may_leave);
        log.set(Some(ProgramSink {
            most_verbose: Level::Info,
            sink: Box::new(move |_, _| {
                let _owned = &guard;
                entered.send(()).unwrap();
                may_leave.lock().recv().unwrap();
            }),
        }));
        std::thread::scope(|scope| {
            scope.spawn(|| log.log(Level::Info, || "slow".into()));
            has_entered.recv().unwrap();
            log.set(None);
            assert_eq!(was_dropped.try_recv(), Err(mpsc::TryRecvError::Empty));
            leave.send(()).unwrap();
            assert_eq!(was_dropped.recv(), Ok(()));
        });
    }

    #[test]
    fn a_panic_of_the_sink_stays_inside() {
        let log = Log::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        log.set(Some(ProgramSink {
            most_verbose: Level::Info,
            sink: Box::new(move |_, _| {
                counted.fetch_add(1, Ordering::Relaxed);
                std::panic::resume_unwind(Box::new("a sink that panics"));
            }),
        }));
        log.log(Level::Info, || "first".into());
        log.log(Level::Info, || "second".into());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
