//! The manager of a training's files: it decides which files are kept, and where they are written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::background::Background;
use crate::bundle::Checkpoint;
use crate::claimed_folders::Claim;
use crate::folder;
use crate::held_folder::HeldFolder;
use crate::manager_options::ManagerOptions;
use crate::metadata::ManagerNotes;
use crate::numbers::{Count, Float};
use crate::shelf::{self, Shelf, StepFile};
use crate::snapshot::Snapshot;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};

/// Keeps files of one training in a folder: the newest, and the best by a metric. The newest is the
/// one that was saved last.
///
/// Everything about a file is in its name and in the file. So there is no state except files, and a
/// killed process leaves nothing inconsistent. Several threads may use a manager.
///
/// The folder is the one that its path named when the manager was made: neither a change of the
/// working directory nor a link that is moved leads to another one.
///
/// Files of two trainings in one folder would be counted, removed and restored as if they were
/// those of one. So a manager saves only where its checkpoint is at home: it was restored from a
/// file of the folder, through any manager or none, or it was the first that was saved there. And
/// from the first save on, the folder is locked against other processes. Managers of one checkpoint
/// share the lock, until the last of them is dropped.
pub struct Manager {
    // It is dropped first, and waits for the copy that is being written. The folder is locked
    // until then.
    background: Option<Background>,
    checkpoint: Arc<Checkpoint>,
    shelf: Arc<Shelf>,
    options: ManagerOptions,
    state: Mutex<SaveState>,
}

struct SaveState {
    last_step: Option<u64>,
    last_time: Instant,
    /// Whether it was established that the checkpoint is at home in the folder.
    is_settled: bool,
    /// The right to save to the folder. With several ranks, rank 0 has it.
    claim: Option<Claim>,
    /// Whether the files in the folder are those of another training that must still be moved
    /// away.
    anew: bool,
}

/// The outcome of a call that saves.
#[derive(Debug)]
pub struct SaveOutcome {
    /// Whether a checkpoint was saved.
    pub saved: bool,
    /// The failure of an earlier checkpoint in the background, which no call has reported yet.
    pub earlier_failure: Option<Error>,
}

impl SaveOutcome {
    /// Whether a checkpoint was saved, or the failure of the earlier one.
    pub fn into_result(self) -> Result<bool> {
        self.earlier_failure.map_or(Ok(self.saved), Err)
    }
}

impl Manager {
    /// A manager of the files in `folder`, which is made if it does not exist.
    pub fn new(
        checkpoint: Arc<Checkpoint>,
        folder: &Path,
        options: ManagerOptions,
    ) -> Result<Arc<Manager>> {
        if options.max_to_keep == 0 {
            return Err(invalid!(
                "max_to_keep",
                "0; at least the newest file is kept"
            ));
        }
        if options.every_steps == Some(0) {
            return Err(invalid!("every_steps", "0; must be at least 1"));
        }
        folder::make(folder)?;
        let shelf = Arc::new(Shelf::new(Arc::new(HeldFolder::open(folder)?), options));
        // A resumed training continues counting from the newest file.
        let newest = match options.start_fresh {
            true => None,
            false => shelf.files()?.pop(),
        };
        let state = Mutex::new(SaveState {
            last_step: newest.map(|file| file.step),
            last_time: Instant::now(),
            is_settled: false,
            claim: None,
            anew: options.start_fresh,
        });
        // Ranks communicate on the threads that call, and not on a writing thread.
        let writes_apart = options.asynchronous && checkpoint.strategy().ranks().is_alone();
        let background = writes_apart.then(|| {
            let shelf = Arc::clone(&shelf);
            let write = move |step: u64, snapshot: Snapshot| {
                shelf.folder().check()?;
                snapshot.write(&shelf.path_of(step))?;
                shelf.remove_old(step);
                Ok(())
            };
            Background::new(Box::new(write))
        });
        Ok(Arc::new(Manager {
            background,
            checkpoint,
            shelf,
            options,
            state,
        }))
    }

    /// The options.
    pub fn options(&self) -> ManagerOptions {
        self.options
    }

    /// Saves if a file is due at `step`, or if `must`. Returns whether it did. The best files are
    /// those with the best `metric`.
    ///
    /// With a writing thread, state is copied between two steps, as by [`Checkpoint::snapshot`],
    /// and the call then returns. If a copy is still being written, it waits first, so that there
    /// is never more than one. The next call returns a failure of that thread, after it has
    /// saved; [`Manager::save_telling`] tells both.
    ///
    /// An old file that cannot be removed is a warning. FAILED_PRECONDITION, even if no file is due
    /// yet: the folder has files, and the checkpoint is not at home there; or another process
    /// or another checkpoint saves there. Also if another folder has taken the folder's place.
    pub fn save(&self, step: u64, metric: Option<f64>, must: bool) -> Result<bool> {
        self.save_telling(step, metric, must)?.into_result()
    }

    /// Saves as [`Manager::save`] does, and tells apart whether it did and how an earlier one
    /// failed.
    pub fn save_telling(&self, step: u64, metric: Option<f64>, must: bool) -> Result<SaveOutcome> {
        if step >= 1 << 53 {
            return Err(invalid!("step", "{step}; at most {}", (1u64 << 53) - 1));
        }
        let strategy = self.checkpoint.strategy();
        if !strategy.ranks().is_alone() {
            // In a step the call is refused before it communicates with the other ranks.
            drop(strategy.lock_between_steps()?);
        }
        let is_due = || {
            let mut state = self.state.lock();
            self.claim_folder(&mut state)?;
            let due = must || self.is_due(&state, step);
            if due {
                self.shelf.folder().check()?;
            }
            Ok(due)
        };
        let purpose = &"whether a checkpoint is due";
        if !strategy
            .any_rank(purpose, "the step", step, is_due(), |due| *due)?
            .1
        {
            let earlier_failure = self
                .background
                .as_ref()
                .and_then(|background| background.check().err());
            return Ok(SaveOutcome {
                saved: false,
                earlier_failure,
            });
        }
        self.start_fresh(step)?;
        let manager = Some(ManagerNotes {
            step: Count(step),
            save: self.next_number().map(Count),
            metric: metric.map(Float),
        });
        let earlier_failure = match &self.background {
            Some(background) => background.save(step, || {
                Ok(Snapshot {
                    manager,
                    ..self.checkpoint.snapshot()?
                })
            })?,
            None => {
                self.write(step, manager)?;
                None
            }
        };
        self.record_file(step);
        Ok(SaveOutcome {
            saved: true,
            earlier_failure,
        })
    }

    /// Writes a file on this thread, together with the other ranks. Rank 0 then removes outdated
    /// files, and the others wait for it, so that all of them find the same
    /// files.
    fn write(&self, step: u64, manager: Option<ManagerNotes>) -> Result<()> {
        let strategy = self.checkpoint.strategy();
        self.checkpoint
            .save_noting(&self.shelf.path_of(step), manager)?;
        if strategy.rank() == 0 {
            self.shelf.remove_old(step);
        }
        strategy.any_rank(&"the files that are kept", "the step", step, Ok(()), |()| {
            false
        })?;
        Ok(())
    }

    /// The number of the save that begins. Rank 0 notes it for all.
    fn next_number(&self) -> Option<u64> {
        let state = self.state.lock();
        state
            .claim
            .as_ref()
            .map(|claim| claim.next_number(self.shelf.greatest_number()))
    }

    /// Makes sure that the files of the folder are those of this training, and that nobody else
    /// saves there.
    fn claim_folder(&self, state: &mut SaveState) -> Result<()> {
        let homes = &self.checkpoint.homes;
        let folder = self.shelf.folder();
        let is_held = state.claim.as_ref().is_none_or(|claim| homes.hold(claim));
        if state.is_settled && is_held {
            return Ok(());
        }
        let claim = match self.checkpoint.strategy().rank() {
            0 => homes.claim(folder).map(Some),
            _ => Ok(None),
        };
        let is_home = state.anew || homes.has(folder);
        if !is_home && let Some(newest) = self.shelf.files()?.pop() {
            return Err(Error::precondition(format!(
                "manager: '{}' has checkpoints already, the newest of step {}, and this \
                 checkpoint neither was restored from one of them nor is the first that is saved \
                 there; they would be taken for one training. To resume from them, restore the \
                 newest or the best first; to start fresh, name another folder, or set \
                 start_fresh, which moves them to a folder of their own",
                folder.path().display(),
                newest.step
            )));
        }
        state.claim = claim?;
        if !state.anew {
            self.shelf.look()?;
            if !is_home {
                homes.add(folder.identity().clone());
            }
        }
        state.is_settled = true;
        Ok(())
    }

    /// Moves the files of another training away before the first file is saved, if the options say
    /// so.
    fn start_fresh(&self, step: u64) -> Result<()> {
        // The lock is held until this is done, because new files must not be moved.
        let mut state = self.state.lock();
        if !state.anew {
            return Ok(());
        }
        let strategy = self.checkpoint.strategy();
        let moved = match strategy.rank() {
            0 => folder::set_aside(self.shelf.folder().path()),
            _ => Ok(None),
        };
        let purpose = &"making room for a new training";
        let (target, _) = strategy.any_rank(purpose, "the step", step, moved, |_| false)?;
        self.checkpoint
            .homes
            .add(self.shelf.folder().identity().clone());
        state.anew = false;
        // The sink is the caller's code, which may call the manager, so it is called without the
        // lock.
        drop(state);
        if let Some(target) = target {
            log::log(Level::Info, || {
                let folder = self.shelf.folder().path().display();
                let target = target.display();
                format!(
                    "the checkpoints that were in '{folder}' are in '{target}' now: training \
                     starts fresh"
                )
            });
        }
        Ok(())
    }

    /// The files of this training, in the order in which they were saved. Waits for files on their
    /// way to the disk.
    fn files(&self) -> Result<Vec<StepFile>> {
        self.wait()?;
        match self.state.lock().anew {
            true => Ok(Vec::new()),
            false => self.shelf.files(),
        }
    }

    fn is_due(&self, state: &SaveState, step: u64) -> bool {
        let by_steps = self
            .options
            .every_steps
            .is_some_and(|every| match state.last_step {
                // `step` is below `last` if it was already saved, or if training went back to an
                // earlier step.
                Some(last) => step >= last.saturating_add(every) || step < last,
                None => step >= every,
            });
        by_steps
            || self
                .options
                .every
                .is_some_and(|every| state.last_time.elapsed() >= every)
    }

    /// Waits until all saved state is on the disk, and reports a failure.
    pub fn wait(&self) -> Result<()> {
        match &self.background {
            Some(background) => background.wait(),
            None => Ok(()),
        }
    }

    /// The step of the newest file, the one that was saved last, if there is one. Waits for files
    /// on their way to the disk.
    pub fn latest(&self) -> Result<Option<u64>> {
        Ok(self.files()?.pop().map(|file| file.step))
    }

    /// The step of the file with the best metric, if a file has a metric. A damaged file is
    /// skipped, as by [`Manager::restore_latest`].
    pub fn best(&self) -> Result<Option<u64>> {
        let is_strict = self.checkpoint.strategy().is_strict();
        Ok(self
            .shelf
            .rated(&self.files()?, is_strict)?
            .first()
            .copied())
    }

    /// The steps of all files, in their order.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let mut steps: Vec<u64> = self.files()?.into_iter().map(|file| file.step).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The path of the file of a step, whether it exists or not. It is absolute.
    pub fn path(&self, step: u64) -> PathBuf {
        self.shelf.path_of(step)
    }

    /// Restores the file with the best metric, and returns its step; `None` if no file has a
    /// metric.
    pub fn restore_best(&self) -> Result<Option<u64>> {
        let best = self.agreed("best", self.best(), |best| *best)?;
        if let Some(step) = best {
            self.checkpoint.restore(&self.path(step))?;
            self.record_file(step);
        }
        Ok(best)
    }

    /// Restores the newest file, the one that was saved last, and returns its step; `None` if the
    /// folder is empty. A damaged file is skipped with a warning, and the one before it is used. If
    /// all are damaged, or if the process is strict, returns DATA_LOSS. Any other failure, such
    /// as a file that the system does not open, is returned.
    pub fn restore_latest(&self) -> Result<Option<u64>> {
        let newest = |files: &Vec<StepFile>| files.last().map(|file| file.step);
        let files = self.agreed("newest", self.files(), newest)?;
        let strategy = self.checkpoint.strategy();
        let mut damage = None;
        for StepFile { step, path } in files.into_iter().rev() {
            let Err(error) = self.checkpoint.restore(&path) else {
                self.record_file(step);
                return Ok(Some(step));
            };
            // One rank may have found damage while another one was refused by the system.
            let is_final = !shelf::may_pass_over(&error, strategy.is_strict());
            let purpose = &"what became of a checkpoint";
            if strategy
                .any_rank(purpose, "the step", step, Ok(()), |()| is_final)?
                .1
            {
                return Err(error);
            }
            shelf::pass_over(&error);
            damage = Some(error);
        }
        damage.map_or(Ok(None), Err)
    }

    /// This rank's result, if all ranks have the same step. If steps differed, ranks would restore
    /// different files.
    fn agreed<T>(
        &self,
        which: &str,
        found: Result<T>,
        step: impl FnOnce(&T) -> Option<u64>,
    ) -> Result<T> {
        let agreed = found
            .as_ref()
            .ok()
            .and_then(step)
            .map_or(0, |step| step + 1);
        let purpose = format_args!(
            "the {which} checkpoint in '{}'",
            self.shelf.folder().path().display()
        );
        let name = "the step of that checkpoint";
        let strategy = self.checkpoint.strategy();
        let (found, _) = strategy.any_rank(&purpose, name, agreed, found, |_| false)?;
        Ok(found)
    }

    /// Notes that a file was saved at `step`, from which the next due step is counted.
    fn record_file(&self, step: u64) {
        let mut state = self.state.lock();
        (state.last_step, state.last_time) = (Some(step), Instant::now());
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "manager of '{}'",
            self.shelf.folder().path().display()
        )
    }
}
