//! The manager of a training's files: it decides which files are kept, and where they are written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use crate::checkpoint::background::Background;
use crate::checkpoint::bundle::Checkpoint;
use crate::checkpoint::folder::{self, path_of, remove_old};
use crate::checkpoint::manager_options::ManagerOptions;
use crate::checkpoint::numbers::number;
use crate::checkpoint::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};
use parking_lot::Mutex;

/// Keeps files of one training in a folder: the newest, and the best by a metric.
///
/// Everything about a file is in its name and in the file. So there is no state except files, and a killed process
/// leaves nothing inconsistent. Several threads may use a manager. Several managers of one folder, in whatever
/// processes, must not write at the same time.
///
/// Files of two trainings in one folder would be counted, removed and restored as if they were those of one. So a
/// manager saves only where its checkpoint is at home: it was restored from a file of the folder, through any manager
/// or none, or it was the first that was saved there.
pub struct Manager {
    checkpoint: Arc<Checkpoint>,
    folder: Arc<Path>,
    options: ManagerOptions,
    state: Mutex<SaveState>,
    background: Option<Background>,
}

struct SaveState {
    last_step: Option<u64>,
    last_time: Instant,
    /// Whether it was established that the checkpoint is at home in the folder.
    folder_claimed: bool,
    /// Whether the files in the folder are those of another training that must still be moved away.
    anew: bool,
}

impl Manager {
    /// A manager of the files in `folder`, which is made if it does not exist.
    pub fn new(
        checkpoint: Arc<Checkpoint>,
        folder: &Path,
        options: ManagerOptions,
    ) -> Result<Arc<Manager>> {
        if options.max_to_keep == 0 {
            return Err(invalid!("options.max_to_keep", "0; at least the newest file is kept"));
        }
        if options.every_steps == Some(0) {
            return Err(invalid!("options.every_steps", "0; must be at least 1"));
        }
        folder::make(folder)?;
        let folder: Arc<Path> = folder.into();
        // A resumed training continues counting from the newest file.
        let newest = folder::files(&folder)?.last().map(|(step, _)| *step);
        let state = Mutex::new(SaveState {
            last_step: newest.filter(|_| !options.start_fresh),
            last_time: Instant::now(),
            folder_claimed: false,
            anew: options.start_fresh,
        });
        // Ranks communicate on the threads that call, and not on a writing thread.
        let writes_apart = options.asynchronous && checkpoint.strategy().ranks().is_alone();
        let background = writes_apart.then(|| {
            let (of_writer, is_strict) = (Arc::clone(&folder), checkpoint.strategy().is_strict());
            let write = move |step: u64, snapshot: Snapshot| {
                snapshot.write(&path_of(&of_writer, step))?;
                remove_old(&of_writer, &options, is_strict, step)
            };
            Background::new(Box::new(write))
        });
        Ok(Arc::new(Manager { checkpoint, folder, options, state, background }))
    }

    /// The options.
    pub fn options(&self) -> ManagerOptions {
        self.options
    }

    /// Saves if a file is due at `step`, or if `must`. Returns whether it did. The best files are those with the best
    /// `metric`.
    ///
    /// State is copied between two steps, as by [`Checkpoint::snapshot`]. With a writing thread, the call then returns.
    /// If a copy is still being written, it waits first, so that there is never more than one. The next call reports a
    /// failure of that thread.
    ///
    /// FAILED_PRECONDITION, even if no file is due yet: the folder has files, and the checkpoint is not at home there.
    pub fn save(&self, step: u64, metric: Option<f64>, must: bool) -> Result<bool> {
        if step >= 1 << 53 {
            return Err(invalid!("step", "{step}; at most {}", (1u64 << 53) - 1));
        }
        let strategy = self.checkpoint.strategy();
        if !strategy.ranks().is_alone() {
            // In a step the call is refused before it communicates with the other ranks.
            drop(strategy.quiet()?);
        }
        let is_due = || {
            if let Some(background) = &self.background {
                background.check()?;
            }
            let mut state = self.state.lock();
            self.claim_folder(&mut state)?;
            Ok(must || self.is_due(&state, step))
        };
        let what = &"whether a checkpoint is due";
        if !strategy.any_rank(what, ("the step", step), is_due(), |due| *due)?.1 {
            return Ok(false);
        }
        self.start_fresh(step)?;
        let saved = note(step, metric);
        match &self.background {
            Some(background) => {
                background.save(step, || Ok(Snapshot { saved, ..self.checkpoint.snapshot()? }))?
            }
            None => self.write(step, saved)?,
        }
        self.note_file(step);
        Ok(true)
    }

    /// Writes a file on this thread, together with the other ranks. Rank 0 then removes the files that are no longer
    /// kept.
    fn write(&self, step: u64, saved: Map<String, Json>) -> Result<()> {
        let strategy = self.checkpoint.strategy();
        self.checkpoint.save_noting(&path_of(&self.folder, step), saved)?;
        let removed = match strategy.rank() {
            0 => remove_old(&self.folder, &self.options, strategy.is_strict(), step),
            _ => Ok(()),
        };
        strategy.any_rank(&"the files that are kept", ("the step", step), removed, |()| false)?;
        Ok(())
    }

    /// Makes sure that the files of the folder are those of this training.
    fn claim_folder(&self, state: &mut SaveState) -> Result<()> {
        if state.folder_claimed || state.anew {
            return Ok(());
        }
        if !self.checkpoint.homes.has(&self.folder)
            && let Some((newest, _)) = folder::files(&self.folder)?.last()
        {
            return Err(Error::precondition(format!(
                "manager: '{}' has checkpoints already, the newest of step {newest}, and this checkpoint \
                 neither was restored from one of them nor is the first that is saved there; they would \
                 count as one training. To go on from them, restore the newest or the best first; to start \
                 fresh, name another folder, or set options.start_fresh, which moves them to a folder of \
                 their own",
                self.folder.display()
            )));
        }
        self.checkpoint.homes.add(&self.folder);
        state.folder_claimed = true;
        Ok(())
    }

    /// Moves the files of another training away before the first file is saved, if the options say so.
    fn start_fresh(&self, step: u64) -> Result<()> {
        // The lock is held until this is done, because new files must not be moved.
        let mut state = self.state.lock();
        if !state.anew {
            return Ok(());
        }
        let strategy = self.checkpoint.strategy();
        let moved = match strategy.rank() {
            0 => folder::set_aside(&self.folder),
            _ => Ok(None),
        };
        let what = &"making room for a new training";
        let (target, _) = strategy.any_rank(what, ("the step", step), moved, |_| false)?;
        self.checkpoint.homes.add(&self.folder);
        (state.folder_claimed, state.anew) = (true, false);
        // The sink is the caller's code, which may call the manager, so it is called without the lock.
        drop(state);
        if let Some(target) = target {
            log::log(Level::Info, || {
                let (folder, target) = (self.folder.display(), target.display());
                format!(
                    "the checkpoints that were in '{folder}' are in '{target}' now: training starts fresh"
                )
            });
        }
        Ok(())
    }

    /// The files of this training with their steps, in the order of the steps. Waits for files on their way to the
    /// disk.
    fn files(&self) -> Result<Vec<(u64, PathBuf)>> {
        self.wait()?;
        match self.state.lock().anew {
            true => Ok(Vec::new()),
            false => folder::files(&self.folder),
        }
    }

    fn is_due(&self, state: &SaveState, step: u64) -> bool {
        let by_steps = self.options.every_steps.is_some_and(|every| match state.last_step {
            // `step` is below `last` if it was already saved, or if training went back to an earlier step.
            Some(last) => step >= last.saturating_add(every) || step < last,
            None => step >= every,
        });
        by_steps || self.options.every.is_some_and(|every| state.last_time.elapsed() >= every)
    }

    /// Waits until all saved state is on the disk, and reports a failure.
    pub fn wait(&self) -> Result<()> {
        match &self.background {
            Some(background) => background.wait(),
            None => Ok(()),
        }
    }

    /// The step of the newest file, if there is one. Waits for files on their way to the disk.
    pub fn latest(&self) -> Result<Option<u64>> {
        Ok(self.files()?.pop().map(|(step, _)| step))
    }

    /// The step of the file with the best metric, if a file has a metric. A damaged file is skipped, as by
    /// [`Manager::restore_latest`].
    pub fn best(&self) -> Result<Option<u64>> {
        let (larger, strict) =
            (self.options.larger_is_better, self.checkpoint.strategy().is_strict());
        Ok(folder::rated(&self.files()?, larger, strict)?.first().copied())
    }

    /// The steps of all files, in order.
    pub fn steps(&self) -> Result<Vec<u64>> {
        Ok(self.files()?.into_iter().map(|(step, _)| step).collect())
    }

    /// The path of the file of a step, whether it exists or not.
    pub fn path(&self, step: u64) -> PathBuf {
        path_of(&self.folder, step)
    }

    /// Restores the file with the best metric, and returns its step; `None` if no file has a metric.
    pub fn restore_best(&self) -> Result<Option<u64>> {
        let best = self.agreed("best", self.best(), |best| *best)?;
        if let Some(step) = best {
            self.checkpoint.restore(&self.path(step))?;
            self.note_file(step);
        }
        Ok(best)
    }

    /// Restores the newest file, and returns its step; `None` if there is no file. A damaged file is skipped with a
    /// warning, and the one before it is used. If all are damaged, or if the process is strict, returns DATA_LOSS. Any
    /// other failure, such as a file that the system does not open, is returned.
    pub fn restore_latest(&self) -> Result<Option<u64>> {
        let newest = |files: &Vec<(u64, PathBuf)>| files.last().map(|(step, _)| *step);
        let files = self.agreed("newest", self.files(), newest)?;
        let (strategy, mut damage) = (self.checkpoint.strategy(), None);
        for (step, path) in files.into_iter().rev() {
            let Err(error) = self.checkpoint.restore(&path) else {
                self.note_file(step);
                return Ok(Some(step));
            };
            // One rank may have found damage while another one was refused by the system.
            let is_final = !folder::may_pass_over(&error, strategy.is_strict());
            let what = &"what became of a checkpoint";
            if strategy.any_rank(what, ("the step", step), Ok(()), |()| is_final)?.1 {
                return Err(error);
            }
            folder::pass_over(&error);
            damage = Some(error);
        }
        damage.map_or(Ok(None), Err)
    }

    /// This rank's result, if all ranks have the same step. If steps differed, ranks would restore different files.
    fn agreed<T>(
        &self,
        which: &str,
        found: Result<T>,
        step: impl FnOnce(&T) -> Option<u64>,
    ) -> Result<T> {
        let agreed = found.as_ref().ok().and_then(step).map_or(0, |step| step + 1);
        let what = format_args!("the {which} checkpoint in '{}'", self.folder.display());
        let agreed = ("the step of that checkpoint", agreed);
        let (found, _) = self.checkpoint.strategy().any_rank(&what, agreed, found, |_| false)?;
        Ok(found)
    }

    /// Notes that a file was saved at `step`, from which the next due step is counted.
    fn note_file(&self, step: u64) {
        let mut state = self.state.lock();
        (state.last_step, state.last_time) = (Some(step), Instant::now());
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
