//! Which files of a training are kept, and who writes them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use crate::checkpoint::atomic::failed;
use crate::checkpoint::background::Background;
use crate::checkpoint::bundle::Checkpoint;
use crate::checkpoint::parts::remove_parts;
use crate::checkpoint::reader::CheckpointFile;
use crate::checkpoint::saveable::{number, read_number};
use crate::checkpoint::writer::Snapshot;
use crate::error::{Error, Result, Status};
use crate::executor::object_lock::{ObjectGuard, ObjectLock};
use crate::observe::log::{self, Level};
use crate::observe::strict;

/// What the names of files begin and end with; between them stands the step.
const START: &str = "step-";
const END: &str = ".safetensors";

/// How files are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManagerOptions {
    /// How many of the newest files; at least 1.
    pub keep: usize,
    /// How many of those with the best metric, beside the newest.
    pub keep_best: usize,
    /// Whether a larger metric is better.
    pub larger_is_better: bool,
    /// A file is due once so many steps have passed since the last one; at least 1. `None`: steps do not
    /// matter.
    pub every_steps: Option<u64>,
    /// A file is due once so much time has passed since the last one.
    pub every: Option<Duration>,
    /// Whether another thread writes files, while training goes on.
    pub in_background: bool,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions {
            keep: 5,
            keep_best: 0,
            larger_is_better: false,
            every_steps: Some(1),
            every: None,
            in_background: true,
        }
    }
}

/// Keeps files of one training in a folder: the newest, and the best by a metric.
///
/// What is known of a file is in its name and in the file, so that nothing but files is kept and a killed
/// process leaves nothing that is out of step. Several threads may use a manager; several managers of one
/// folder, in whatever processes, must not write at the same time.
pub struct Manager {
    checkpoint: Arc<Checkpoint>,
    folder: Arc<Path>,
    options: ManagerOptions,
    state: ObjectLock<State>,
    background: Option<Background>,
}

struct State {
    last_step: Option<u64>,
    last_time: Instant,
}

impl Manager {
    /// Of the files in `folder`, which is made if it is not there.
    pub fn new(
        checkpoint: Arc<Checkpoint>,
        folder: &Path,
        options: ManagerOptions,
    ) -> Result<Arc<Manager>> {
        if options.keep == 0 {
            return Err(Error::invalid("options.keep", "0; at least the newest file is kept"));
        }
        if options.every_steps == Some(0) {
            return Err(Error::invalid("options.every_steps", "0; must be at least 1"));
        }
        fs::create_dir_all(folder).map_err(|error| failed(folder, "making the folder", &error))?;
        let folder: Arc<Path> = folder.into();
        // A resumed training goes on counting from the newest file.
        let last_step = files(&folder)?.last().map(|(step, _)| *step);
        let state = ObjectLock::new(State { last_step, last_time: Instant::now() });
        // Ranks meet on the threads that call, and not on one that writes.
        let writes_apart = options.in_background && checkpoint.strategy().num_ranks() == 1;
        let background = match writes_apart {
            true => {
                let of_writer = Arc::clone(&folder);
                let write = move |step: u64, snapshot: Snapshot| {
                    snapshot.write(&path_of(&of_writer, step))?;
                    remove_old(&of_writer, &options, step)
                };
                Some(Background::new(Box::new(write)))
            }
            false => None,
        };
        Ok(Arc::new(Manager { checkpoint, folder, options, state, background }))
    }

    /// The options.
    pub fn options(&self) -> ManagerOptions {
        self.options
    }

    /// Saves if a file is due at `step`, or if `must`; says whether it did. `metric` is what the best files
    /// are the best by.
    ///
    /// State is copied between two steps, as by [`Checkpoint::snapshot`]. With a thread that writes, the
    /// call returns then; if two copies wait for the disk already (one that is being written, and one),
    /// it waits first, so that no more memory is taken. A failure of that thread is told by the next call.
    pub fn save(&self, step: u64, metric: Option<f64>, must: bool) -> Result<bool> {
        if step >= 1 << 53 {
            return Err(Error::invalid("step", format!("{step}; at most {}", (1u64 << 53) - 1)));
        }
        let strategy = self.checkpoint.strategy();
        if strategy.num_ranks() > 1 {
            // Refused in a step before the other ranks are asked.
            drop(strategy.quiet()?);
        }
        let is_due = || {
            if let Some(background) = &self.background {
                background.check()?;
            }
            let state = self.state()?;
            Ok(must || self.is_due(&state, step))
        };
        if !strategy.any_rank(&"whether a checkpoint is due", step, is_due())? {
            return Ok(false);
        }
        let room = self.background.as_ref().map(Background::make_room).transpose()?;
        let mut snapshot = self.checkpoint.snapshot()?;
        snapshot.saved = note(step, metric);
        match room {
            Some(room) => room.hand_over(step, snapshot),
            None => self.write(step, snapshot)?,
        }
        self.note_file(step)?;
        Ok(true)
    }

    /// Writes a file, on this thread and together with the other ranks. Rank 0 then removes those that are
    /// not kept any more.
    fn write(&self, step: u64, snapshot: Snapshot) -> Result<()> {
        let strategy = self.checkpoint.strategy();
        snapshot.write_together(strategy, &path_of(&self.folder, step))?;
        let removed = match strategy.rank() {
            0 => remove_old(&self.folder, &self.options, step),
            _ => Ok(()),
        };
        strategy.any_rank(&"the files that are kept", step, removed.map(|()| false)).map(drop)
    }

    fn is_due(&self, state: &State, step: u64) -> bool {
        let by_steps = self.options.every_steps.is_some_and(|every| match state.last_step {
            // A step that was saved already, or an earlier one after going back.
            Some(last) => step >= last.saturating_add(every) || step < last,
            None => step >= every,
        });
        by_steps || self.options.every.is_some_and(|every| state.last_time.elapsed() >= every)
    }

    /// Waits until everything that was saved is on the disk, and tells what failed.
    pub fn wait(&self) -> Result<()> {
        match &self.background {
            Some(background) => background.wait(),
            None => Ok(()),
        }
    }

    /// The step of the newest file, if there is one. What is on its way to the disk is waited for.
    pub fn latest(&self) -> Result<Option<u64>> {
        self.wait()?;
        Ok(files(&self.folder)?.pop().map(|(step, _)| step))
    }

    /// The step of the file with the best metric, if there is one that has a metric.
    pub fn best(&self) -> Result<Option<u64>> {
        self.wait()?;
        Ok(rated(&self.folder, &self.options)?.first().map(|(step, ..)| *step))
    }

    /// The steps of all files, in their order.
    pub fn steps(&self) -> Result<Vec<u64>> {
        self.wait()?;
        Ok(files(&self.folder)?.into_iter().map(|(step, _)| step).collect())
    }

    /// Where the file of a step is, or would be.
    pub fn path(&self, step: u64) -> PathBuf {
        path_of(&self.folder, step)
    }

    /// Restores the file with the best metric, and says its step; `None` if none has a metric.
    pub fn restore_best(&self) -> Result<Option<u64>> {
        let best = self.best()?;
        if let Some(step) = best {
            self.checkpoint.restore(&self.path(step))?;
            self.note_file(step)?;
        }
        Ok(best)
    }

    /// Restores the newest file, and says its step; `None` if there is no file. A file that is damaged is
    /// passed over for the one before it, and the log is told; if all are, or the process is strict, it
    /// is DATA_LOSS.
    pub fn restore_latest(&self) -> Result<Option<u64>> {
        self.wait()?;
        let mut damage = None;
        let files = files(&self.folder);
        let newest = files.as_ref().ok().and_then(|files| files.last().map(|(step, _)| *step));
        let newest = newest.map_or(0, |step| step + 1);
        let what = format_args!("the newest checkpoint in '{}'", self.folder.display());
        let strategy = self.checkpoint.strategy();
        let (mut found, mut told) = (Vec::new(), Ok(false));
        match files {
            Ok(files) => found = files,
            Err(error) => told = Err(error),
        }
        // Or they would restore different steps.
        strategy.any_rank(&what, newest, told)?;
        for (step, path) in found.into_iter().rev() {
            match self.checkpoint.restore(&path) {
                Ok(()) => {
                    self.note_file(step)?;
                    return Ok(Some(step));
                }
                Err(error) if error.status() == Status::DataLoss && !strict::is_on() => {
                    log::log(Level::Warning, || format!("a checkpoint is passed over: {error}"));
                    damage = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        damage.map_or(Ok(None), Err)
    }

    /// A file is due as many steps after this one.
    fn note_file(&self, step: u64) -> Result<()> {
        let mut state = self.state()?;
        (state.last_step, state.last_time) = (Some(step), Instant::now());
        Ok(())
    }

    fn state(&self) -> Result<ObjectGuard<'_, State>> {
        self.state.lock_or("manager: the process was forked while another thread was using it")
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "manager of '{}'", self.folder.display())
    }
}

fn note(step: u64, metric: Option<f64>) -> Map<String, Json> {
    let mut saved = Map::new();
    saved.insert("step".into(), json!(step));
    if let Some(metric) = metric {
        saved.insert("metric".into(), number(metric));
    }
    saved
}

fn path_of(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("{START}{step:012}{END}"))
}

/// The files of a folder, and their steps, in the order of these.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries =
        fs::read_dir(folder).map_err(|error| failed(folder, "reading the folder", &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, "reading the folder", &error))?;
        let name = entry.file_name();
        let step = name.to_str().and_then(|name| name.strip_prefix(START)?.strip_suffix(END));
        let digits = step.filter(|step| step.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(step) = digits.and_then(|step| step.parse().ok()) {
            found.push((step, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Those that have a metric which is a number, the best first; of equal ones the newest.
fn rated(folder: &Path, options: &ManagerOptions) -> Result<Vec<(u64, PathBuf, f64)>> {
    let mut rated = Vec::new();
    for (step, path) in files(folder)? {
        // What cannot be read is not the best; restoring it tells why.
        let Ok(file) = CheckpointFile::open(&path) else { continue };
        let metric = file.saved().and_then(|saved| read_number(saved.get("metric")?));
        if let Some(metric) = metric.filter(|metric| !metric.is_nan()) {
            rated.push((step, path, metric));
        }
    }
    rated.sort_by(|(step, _, metric), (other_step, _, other)| {
        let order = match options.larger_is_better {
            true => other.total_cmp(metric),
            false => metric.total_cmp(other),
        };
        order.then(other_step.cmp(step))
    });
    Ok(rated)
}

/// Removes those files that are not kept any more, now that there is one of `step`.
fn remove_old(folder: &Path, options: &ManagerOptions, step: u64) -> Result<()> {
    let all = files(folder)?;
    let mut kept: HashSet<u64> =
        all.iter().rev().take(options.keep).map(|(step, _)| *step).collect();
    // After going back to an earlier step the new file is not the last one.
    kept.insert(step);
    if options.keep_best > 0 && all.len() > kept.len() {
        let best = rated(folder, options)?;
        kept.extend(best.iter().take(options.keep_best).map(|(step, ..)| *step));
    }
    for (step, path) in all {
        if !kept.contains(&step) {
            let removed = fs::remove_file(&path);
            removed.map_err(|error| failed(&path, "removing an old file", &error))?;
            remove_parts(&path, |_| true);
        }
    }
    Ok(())
}
