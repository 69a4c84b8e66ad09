//! The names of checkpoints in a folder, and how the checkpoints of another training are moved
//! away.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::atomic::failed;
use crate::parts::save_of;
use umbo_base::error::{Error, Result};

/// How the names of files begin and end. The step is between them.
const START: &str = "step-";
const END: &str = ".safetensors";

/// The path of the file of a step.
pub(super) fn path_of(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("{START}{step:012}{END}"))
}

fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(START)?.strip_suffix(END)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// Whether the file at `path` has the name of the file of a step.
pub(super) fn is_of_step(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .and_then(step_of)
        .is_some()
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
    let mut found: Vec<_> = steps
        .filter_map(|name| Some((step_of(&name)?, folder.join(name))))
        .collect();
    found.sort();
    Ok(found)
}

/// Moves all checkpoints into a folder of their own in this one: `before-1`, or the next unused
/// name. Returns its path, or nothing if there was nothing to move. If a file cannot be moved,
/// those that were moved come back.
pub(super) fn set_aside(folder: &Path) -> Result<Option<PathBuf>> {
    let names = entries(folder)?;
    let (files, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| step_of(name).is_some());
    if files.is_empty() {
        return Ok(None);
    }
    let refused = |error| {
        failed(
            folder,
            "moving older checkpoints to a folder of their own",
            &error,
        )
    };
    let mut targets = (1u64..).map(|number| folder.join(format!("before-{number}")));
    let target = targets.find(|path| !path.exists()).unwrap_or_default();
    fs::create_dir_all(&target).map_err(refused)?;
    // Parts are moved first, so that no file is saved where parts of another one are.
    let mut moved = Vec::new();
    for name in others.into_iter().filter(|name| is_part(name)).chain(files) {
        match fs::rename(folder.join(name), target.join(name)) {
            Ok(()) => moved.push(name),
            // Somebody else has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                // A checkpoint whose file and parts are in two folders would be lost.
                for name in moved.into_iter().rev() {
                    let _ = fs::rename(target.join(name), folder.join(name));
                }
                let _ = fs::remove_dir(&target);
                return Err(failed(
                    &folder.join(name),
                    "moving it to a folder for older checkpoints (all stay where they are)",
                    &error,
                ));
            }
        }
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
