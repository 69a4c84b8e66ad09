//! The checkpoints in a folder: their names, which is the best, which are kept, and how those of another training are
//! moved away.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::checkpoint::atomic::{failed, folder_of};
use crate::checkpoint::manager_options::ManagerOptions;
use crate::checkpoint::numbers::read_number;
use crate::checkpoint::parts::{remove_parts, save_of};
use crate::checkpoint::reader::CheckpointFile;
use crate::error::{Error, Result, Status};
use crate::observe::log::{self, Level};
use parking_lot::Mutex;

/// How the names of files begin and end. The step is between them.
const START: &str = "step-";
const END: &str = ".safetensors";

/// The path of the file of a step.
pub(super) fn path_of(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("{START}{step:012}{END}"))
}

fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(START)?.strip_suffix(END)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The folders that hold the checkpoints of one training.
#[derive(Default)]
pub(super) struct Homes(Mutex<Vec<PathBuf>>);

impl Homes {
    pub fn has(&self, folder: &Path) -> bool {
        self.0.lock().contains(&identity(folder))
    }

    pub fn add(&self, folder: &Path) {
        let (folder, mut homes) = (identity(folder), self.0.lock());
        if !homes.contains(&folder) {
            homes.push(folder);
        }
    }

    /// Notes that the training continues from this file. If the file is that of a step, its folder becomes one of the
    /// training's folders.
    pub fn note_restored(&self, path: &Path) {
        if path.file_name().and_then(OsStr::to_str).and_then(step_of).is_some() {
            self.add(folder_of(path));
        }
    }
}

/// One name for a folder, whatever path leads to it.
fn identity(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Makes the folder, if it does not exist.
pub(super) fn make(folder: &Path) -> Result<()> {
    let refused = |error| failed(folder, "making the folder", &error);
    match fs::metadata(folder) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) => {
            let problem = format!("'{}' is a file; name a folder", folder.display());
            Err(Error::invalid("folder", problem))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder).map_err(refused)
        }
        Err(error) => Err(refused(error)),
    }
}

/// The names in a folder.
fn entries(folder: &Path) -> Result<Vec<String>> {
    let refused = |error| failed(folder, "reading the folder", &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        names.extend(entry.map_err(refused)?.file_name().into_string());
    }
    Ok(names)
}

/// The files of a folder with their steps, in the order of the steps.
pub(super) fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let steps = entries(folder)?.into_iter();
    let mut found: Vec<_> =
        steps.filter_map(|name| Some((step_of(&name)?, folder.join(name)))).collect();
    found.sort();
    Ok(found)
}

/// The steps of those `files` whose metric is a number, the best first. Of equal metrics, the newest is first. A
/// damaged file is skipped with a warning, unless `is_strict`.
pub(super) fn rated(
    files: &[(u64, PathBuf)],
    larger_is_better: bool,
    is_strict: bool,
) -> Result<Vec<u64>> {
    let mut rated = Vec::new();
    for (step, path) in files {
        let file = match CheckpointFile::open(path) {
            Ok(file) => file,
            Err(error) if may_pass_over(&error, is_strict) => {
                pass_over(&error);
                continue;
            }
            // The training process has removed it in the meantime.
            Err(error) if error.status() == Status::NotFound => continue,
            Err(error) => return Err(error),
        };
        let metric = file.saved().and_then(|saved| read_number(saved.get("metric")?));
        rated.extend(metric.filter(|metric| !metric.is_nan()).map(|metric| (*step, metric)));
    }
    rated.sort_by(|(step, metric), (other_step, other)| {
        let order = match larger_is_better {
            true => other.total_cmp(metric),
            false => metric.total_cmp(other),
        };
        order.then(other_step.cmp(step))
    });
    Ok(rated.into_iter().map(|(step, _)| step).collect())
}

/// Whether the failure shows that a file's bytes are wrong, so that another file may be used instead. An operation that
/// the system has refused may succeed later, and an older checkpoint would lose progress.
pub(super) fn may_pass_over(error: &Error, is_strict: bool) -> bool {
    error.status() == Status::DataLoss && !is_strict
}

/// Logs that a file is skipped. The error names it.
pub(super) fn pass_over(error: &Error) {
    log::log(Level::Warning, || format!("a checkpoint is passed over: {error}"));
}

/// Removes the files that are no longer kept, now that there is one for `step`.
pub(super) fn remove_old(
    folder: &Path,
    options: &ManagerOptions,
    is_strict: bool,
    step: u64,
) -> Result<()> {
    let all = files(folder)?;
    let mut kept: HashSet<u64> =
        all.iter().rev().take(options.max_to_keep).map(|(step, _)| *step).collect();
    // If training went back to an earlier step, the new file is not the last one.
    kept.insert(step);
    if options.max_best_to_keep > 0 && all.len() > kept.len() {
        let best = rated(&all, options.larger_is_better, is_strict)?;
        kept.extend(best.into_iter().take(options.max_best_to_keep));
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

/// Moves all checkpoints into a folder of their own in this one: `before-1`, or the next unused name. Returns its path,
/// or nothing if there was nothing to move.
pub(super) fn set_aside(folder: &Path) -> Result<Option<PathBuf>> {
    let names = entries(folder)?;
    let (files, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| step_of(name).is_some());
    if files.is_empty() {
        return Ok(None);
    }
    let refused =
        |error| failed(folder, "moving older checkpoints to a folder of their own", &error);
    let mut targets = (1u64..).map(|number| folder.join(format!("before-{number}")));
    let target = targets.find(|path| !path.exists()).unwrap_or_default();
    fs::create_dir_all(&target).map_err(refused)?;
    // Parts are moved first, so that no file is saved where parts of another one are.
    for name in others.into_iter().filter(|name| is_part(name)).chain(files) {
        fs::rename(folder.join(name), target.join(name)).map_err(refused)?;
    }
    Ok(Some(target))
}

/// Whether a file of this name is a part of a checkpoint of several ranks.
fn is_part(name: &str) -> bool {
    let whole = name.split_once('.').map(|(stem, _)| format!("{stem}{END}"));
    whole.is_some_and(|whole| {
        step_of(&whole).is_some() && save_of(Path::new(&whole), Path::new(name)).is_some()
    })
}
