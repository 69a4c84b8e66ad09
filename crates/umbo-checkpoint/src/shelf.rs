//! The checkpoints of a manager's folder: in which order they were saved, which is the best, and
//! which are kept.
//!
//! The order is in the files: each save has a number, greater than all before it, in what the
//! manager notes in the header. The number of the step does not tell the order: a training that
//! goes back saves smaller steps after greater ones. Nor do times: clocks are set, and copies have
//! new times.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use crate::folder::{self, path_of};
use crate::held_folder::HeldFolder;
use crate::manager_options::ManagerOptions;
use crate::numbers::{Count, Float};
use crate::parts::remove_parts;
use crate::reader::CheckpointFile;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result, Status};
use umbo_base::observe::log::{self, Level};
use umbo_system::files::FileIdentity;

/// The files of steps in a folder.
pub(super) struct Shelf {
    folder: Arc<HeldFolder>,
    options: ManagerOptions,
    /// The numbers of saves that were read, by step.
    numbers: Mutex<HashMap<u64, (FileState, Option<u64>)>>,
    greatest_number: AtomicU64,
    /// The files of which a warning has told that they stay.
    told: Mutex<HashSet<PathBuf>>,
    /// Steps whose file is gone and of which parts are left.
    steps_with_parts: Mutex<HashSet<u64>>,
}

/// The identity of a file, which changes when it is replaced or written to.
#[derive(PartialEq, Eq)]
struct FileState {
    identity: FileIdentity,
    length: u64,
    modified: SystemTime,
}

impl FileState {
    fn new(path: &Path, metadata: &Metadata) -> io::Result<FileState> {
        Ok(FileState {
            identity: FileIdentity::known(path, metadata)?,
            length: metadata.len(),
            // A file system that has no times says so of all its files.
            modified: metadata.modified().unwrap_or(UNIX_EPOCH),
        })
    }
}

/// The file of a step.
#[derive(Clone, Debug)]
pub(super) struct StepFile {
    pub step: u64,
    pub path: PathBuf,
}

/// The meaning of the number of a save in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The restoring of the newest: an operation that the system refuses fails the call, since it
    /// may succeed later.
    Restore,
    /// A save, which no older file may prevent.
    Save,
}

impl Shelf {
    pub fn new(folder: Arc<HeldFolder>, options: ManagerOptions) -> Shelf {
        Shelf {
            folder,
            options,
            numbers: Mutex::default(),
            greatest_number: AtomicU64::new(0),
            told: Mutex::default(),
            steps_with_parts: Mutex::default(),
        }
    }

    pub fn folder(&self) -> &Arc<HeldFolder> {
        &self.folder
    }

    /// The path of the file of a step.
    pub fn path_of(&self, step: u64) -> PathBuf {
        path_of(self.folder.path(), step)
    }

    /// All files, in the order in which they were saved.
    pub fn files(&self) -> Result<Vec<StepFile>> {
        self.files_for(Purpose::Restore)
    }

    /// Looks at all files, so that the greatest number of a save is known.
    pub fn look(&self) -> Result<()> {
        self.files_for(Purpose::Save).map(|_| ())
    }

    /// The greatest number of a save among the files that were there when they were last looked at,
    /// or 0.
    pub fn greatest_number(&self) -> u64 {
        self.greatest_number.load(Ordering::Relaxed)
    }

    /// A file without a number, which no manager has saved or whose header is damaged, comes behind
    /// those that were modified before it.
    fn files_for(&self, purpose: Purpose) -> Result<Vec<StepFile>> {
        self.folder.check()?;
        let mut numbered = Vec::new();
        let mut others = Vec::new();
        for (step, path) in folder::files(self.folder.path())? {
            let looked = self.look_at(step, &path);
            let file = StepFile { step, path };
            match looked {
                Ok((modified, Some(number))) => numbered.push((number, modified, file)),
                Ok((modified, None)) => others.push((modified, file)),
                // Somebody else has removed it in the meantime.
                Err(error) if error.status() == Status::NotFound => {}
                Err(error) if purpose == Purpose::Restore => return Err(error),
                Err(_) => others.push((UNIX_EPOCH, file)),
            }
        }
        let greatest = numbered
            .iter()
            .map(|(number, ..)| *number)
            .max()
            .unwrap_or_default();
        self.greatest_number.store(greatest, Ordering::Relaxed);
        let place_of = |time| {
            let earlier = numbered.iter().filter(|(_, modified, _)| *modified <= time);
            earlier
                .map(|(number, ..)| *number)
                .max()
                .unwrap_or_default()
        };
        let mut files: Vec<_> = others
            .into_iter()
            .map(|(modified, file)| (place_of(modified), 1, file))
            .collect();
        files.extend(
            numbered
                .into_iter()
                .map(|(number, _, file)| (number, 0, file)),
        );
        files.sort_by_key(|(place, kind, file)| (*place, *kind, file.step));
        Ok(files.into_iter().map(|(.., file)| file).collect())
    }

    /// The time at which the file was modified, and the number of the save that has made it, which
    /// is read once.
    /// A file whose contents show none has none. An error is one of the system that may be
    /// another one later.
    fn look_at(&self, step: u64, path: &Path) -> Result<(SystemTime, Option<u64>)> {
        let state = fs::metadata(path)
            .and_then(|metadata| FileState::new(path, &metadata))
            .map_err(|error| Error::of_system(format_args!("'{}'", path.display()), &error))?;
        let modified = state.modified;
        if let Some((known, number)) = self.numbers.lock().get(&step)
            && *known == state
        {
            return Ok((modified, *number));
        }
        let number = match CheckpointFile::notes_at(path) {
            Ok(notes) => notes.and_then(|notes| notes.save).map(|Count(save)| save),
            Err(error) if error.status() == Status::NotFound || is_refused(&error) => {
                return Err(error);
            }
            Err(_) => return Ok((modified, None)),
        };
        self.numbers.lock().insert(step, (state, number));
        Ok((modified, number))
    }

    /// The steps of those `files` whose metric is a number, the best first. Of equal metrics, the
    /// newest is first. A damaged file is skipped with a warning, unless `is_strict`.
    pub fn rated(&self, files: &[StepFile], is_strict: bool) -> Result<Vec<u64>> {
        let mut rated = Vec::new();
        for file in files {
            match metric_of(&file.path) {
                Ok(metric) => rated.push((file.step, metric)),
                Err(error) if may_pass_over(&error, is_strict) => pass_over(&error),
                Err(error) => return Err(error),
            }
        }
        Ok(self.best_first(rated))
    }

    /// The steps with a metric, the best first, of `rated` in the order in which they were saved.
    fn best_first(&self, rated: Vec<(u64, Option<f64>)>) -> Vec<u64> {
        let newest_first = rated.into_iter().rev();
        let mut rated: Vec<_> = newest_first
            .filter_map(|(step, metric)| Some((step, metric?)))
            .collect();
        rated.sort_by(
            |(_, metric), (_, other)| match self.options.larger_is_better {
                true => other.total_cmp(metric),
                false => metric.total_cmp(other),
            },
        );
        rated.into_iter().map(|(step, _)| step).collect()
    }

    /// Removes outdated files, once the file of `step` exists. That one is
    /// saved, so what fails here is a warning, once for each file; the next save tries again.
    pub fn remove_old(&self, step: u64) {
        let files = match self.files_for(Purpose::Save) {
            Ok(files) => files,
            Err(error) => return self.tell(self.folder.path(), &error),
        };
        let kept = self.kept(&files, step);
        // If a file is there again, its next save removes them.
        let mut with_parts = std::mem::take(&mut *self.steps_with_parts.lock());
        with_parts.retain(|step| files.iter().all(|file| file.step != *step));
        for file in files.iter().filter(|file| !kept.contains(&file.step)) {
            match fs::remove_file(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.tell(&file.path, &error);
                }
                _ => {
                    self.numbers.lock().remove(&file.step);
                    self.remove_parts_of(file.step);
                }
            }
        }
        with_parts
            .into_iter()
            .for_each(|step| self.remove_parts_of(step));
    }

    /// The steps whose files are kept.
    fn kept(&self, files: &[StepFile], step: u64) -> HashSet<u64> {
        let newest = files.iter().rev().take(self.options.max_to_keep);
        let mut kept: HashSet<u64> = newest.map(|file| file.step).collect();
        kept.insert(step);
        if self.options.max_best_to_keep == 0 || files.len() <= kept.len() {
            return kept;
        }
        let mut rated = Vec::new();
        for file in files {
            match metric_of(&file.path) {
                Ok(metric) => rated.push((file.step, metric)),
                Err(error) => {
                    self.tell(&file.path, &error);
                    // It may be the best one.
                    if error.status() != Status::DataLoss {
                        kept.insert(file.step);
                    }
                }
            }
        }
        kept.extend(
            self.best_first(rated)
                .into_iter()
                .take(self.options.max_best_to_keep),
        );
        kept
    }

    /// Removes the parts of a step whose file is gone.
    fn remove_parts_of(&self, step: u64) {
        if let Some((part, error)) = remove_parts(&self.path_of(step), |_| true) {
            self.steps_with_parts.lock().insert(step);
            self.tell(&part, &error);
        }
    }

    /// Warns, once for each `path`, of what could not be done to an old file.
    fn tell(&self, path: &Path, error: &dyn fmt::Display) {
        if self.told.lock().insert(path.to_owned()) {
            log::log(Level::Warning, || {
                let path = path.display();
                format!(
                    "'{path}': the new checkpoint is saved, but not all old ones that are no \
                     longer kept could be removed: {error}; later saves try again"
                )
            });
        }
    }
}

/// The metric of the file at `path`, unless it has none, or NaN, or somebody has removed it in the
/// meantime.
fn metric_of(path: &Path) -> Result<Option<f64>> {
    let file = match CheckpointFile::open(path) {
        Err(error) if error.status() == Status::NotFound => return Ok(None),
        file => file?,
    };
    let metric = file.notes().and_then(|notes| notes.metric);
    Ok(metric
        .map(|Float(metric)| metric)
        .filter(|metric| !metric.is_nan()))
}

/// Whether the system has refused an operation that may succeed later.
fn is_refused(error: &Error) -> bool {
    matches!(
        error.status(),
        Status::ResourceExhausted | Status::Unavailable
    )
}

/// Whether the failure shows that a file's bytes are wrong, so that another file may be used
/// instead. An operation that the system has refused may succeed later, and an older checkpoint
/// would lose progress.
pub(super) fn may_pass_over(error: &Error, is_strict: bool) -> bool {
    error.status() == Status::DataLoss && !is_strict
}

/// Logs that a file is skipped. The error names it.
pub(super) fn pass_over(error: &Error) {
    log::log(Level::Warning, || {
        format!("a checkpoint is skipped: {error}")
    });
}
