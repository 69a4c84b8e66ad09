//! The transitions of steps, for tests: where debug assertions are on and the variable
//! `STEP_TRACES` names a folder, each process writes them to a file there, and `tests/protocol`
//! checks them. Other builds have nothing of it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::StepRecord;
use parking_lot::Mutex;

/// A transition of a step, or of one of its records. It is noted before other threads can see it,
/// unless something else is said.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "fields are read where they are written down")]
pub(crate) enum Transition {
    /// The step begins.
    Begin,
    /// A record opens.
    Open,
    /// The callback of a replica begins.
    Start(usize),
    /// A replica begins to wait in a merge call.
    Arrive(usize),
    /// The coordinator looks at the merge calls that replicas wait in.
    Serve,
    /// All replicas that wait are answered.
    Answer,
    /// The callback of a replica has returned, and whether it has failed.
    Return(usize, bool),
    /// The coordinator knows that all callbacks have returned.
    Finish,
    /// The coordinator has abandoned the record. Replicas may have seen that.
    Abandon,
    /// The step becomes central state.
    Commit,
    /// Nothing of the step does.
    RollBack,
    /// The next step may begin, unless a record is late.
    End,
    /// The coordinator leaves an abandoned record.
    Leave,
    /// All have left it.
    Drain,
}

/// The file of this process.
fn file() -> Option<&'static Mutex<File>> {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let open = || {
        let folder = PathBuf::from(std::env::var_os("STEP_TRACES")?);
        let file = File::create(folder.join(format!("{}.txt", std::process::id())));
        Some(Mutex::new(file.ok()?))
    };
    FILE.get_or_init(open).as_ref()
}

/// Writes a line. A trace that lacks one is refused, so that failures show there.
fn write(file: &Mutex<File>, line: &str) {
    let _ = file.lock().write_all(line.as_bytes());
}

/// Notes a transition of step `step` of a strategy.
#[inline]
pub(crate) fn note(strategy: u64, step: u64, transition: Transition) {
    if cfg!(debug_assertions)
        && let Some(file) = file()
    {
        write(file, &format!("{strategy} {step} 0 0 0 {transition:?}\n"));
    }
}

impl StepRecord {
    /// Notes a transition of this record.
    #[inline]
    pub(crate) fn note(&self, transition: Transition) {
        if cfg!(debug_assertions)
            && let Some(file) = file()
        {
            let place = self.with_task(|task| {
                let place = &task.place;
                (task.strategy.id(), place.number.id, place.depth)
            });
            let (strategy, step, depth) = place.unwrap_or_default();
            let record = std::ptr::from_ref(self).addr();
            let replicas = self.replicas();
            let line = format!("{strategy} {step} {record} {depth} {replicas} {transition:?}\n");
            write(file, &line);
        }
    }
}
