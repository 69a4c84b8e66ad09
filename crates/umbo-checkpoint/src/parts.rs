//! The files of a checkpoint of several ranks: the file, and beside it a part for each rank except
//! the first.
//!
//! Each rank saves the state that it keeps. Rank 0 saves to the file itself, with everything that
//! the ranks have in common. The others save to parts, which the file names with the checksums of
//! their headers. The parts of each save have their own names, which follow from what all ranks
//! save: the same state makes the same files. The parts are on the disk before the file takes its
//! name. So whatever fails, the file's name leads to the old checkpoint or to the new one, with all
//! parts. Left-over parts, of the old checkpoint or of a failed save, are removed after the next
//! save.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::atomic::{folder_of, remove_left_over};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};

/// The number of digits of a save's number.
const DIGITS: usize = 16;

/// A part of a checkpoint, as its file names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartFile {
    /// Its name. It is in the folder of the file.
    pub file: PartName,
    /// The checksum of Umbo's metadata in it, which stand for all its contents.
    pub crc32: Crc32,
}

/// The name of a file, which leads to no other folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct PartName(String);

impl PartName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<PartName> for String {
    fn from(PartName(name): PartName) -> String {
        name
    }
}

impl TryFrom<String> for PartName {
    type Error = String;

    fn try_from(name: String) -> Result<PartName, String> {
        match Path::new(&name).file_name() == Some(OsStr::new(&name)) {
            true => Ok(PartName(name)),
            false => Err(format!("'{name}' is not the name of a file")),
        }
    }
}

/// The name of a part: that of the file with `.NUMBER-00002-of-00004` before its ending.
pub(super) fn part_name(path: &Path, save: u64, rank: usize, ranks: usize) -> Result<PartName> {
    let (stem, ending) = pieces(path)?;
    let text = |text: OsString| text.into_string().ok();
    let ending = if ending.is_empty() {
        String::new()
    } else {
        format!(".{}", ending.display())
    };
    let name = text(stem.to_owned()).map(|stem| {
        PartName(format!(
            "{stem}.{save:0DIGITS$x}-{:05}-of-{ranks:05}{ending}",
            rank + 1
        ))
    });
    name.ok_or_else(|| {
        let problem = "the name of the file is not UTF-8; checkpoints of several ranks need that";
        Error::invalid("path", problem)
    })
}

fn pieces(path: &Path) -> Result<(&OsStr, &OsStr)> {
    let none = || invalid!("path", "'{}' has no file name", path.display());
    Ok((
        path.file_stem().ok_or_else(none)?,
        path.extension().unwrap_or_default(),
    ))
}

/// The files beside `path` that are parts of a checkpoint there, with the numbers of their saves.
pub(super) fn parts_of(path: &Path) -> impl Iterator<Item = (u64, PathBuf)> {
    let entries = fs::read_dir(folder_of(path))
        .into_iter()
        .flatten()
        .flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.filter_map(move |entry| Some((save_of(path, &entry.path())?, entry.path())))
}

/// Removes the parts of the checkpoint at `path` whose save has a number that `unwanted` accepts,
/// and files that killed ranks have left. Returns the last error of one that could not be removed,
/// with its path; the next save tries again.
pub(super) fn remove_parts(
    path: &Path,
    unwanted: impl Fn(u64) -> bool,
) -> Option<(PathBuf, io::Error)> {
    let mut left = None;
    for (_, file) in parts_of(path).filter(|(number, _)| unwanted(*number)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => left = Some((file, error)),
            _ => {}
        }
    }
    remove_left_over(folder_of(path), |name| {
        save_of(path, Path::new(name)).is_some_and(&unwanted)
    });
    left
}

/// The number of the save to which `file` belongs, if it is a part of a checkpoint at `path`.
pub(super) fn save_of(path: &Path, file: &Path) -> Option<u64> {
    let (stem, ending) = pieces(path).ok()?;
    let mut rest = file
        .file_name()?
        .to_str()?
        .strip_prefix(stem.to_str()?)?
        .strip_prefix('.')?;
    if !ending.is_empty() {
        rest = rest.strip_suffix(ending.to_str()?)?.strip_suffix('.')?;
    }
    let (number, places) = rest.split_at_checked(DIGITS)?;
    let (part, count) = places.strip_prefix('-')?.split_once("-of-")?;
    let is_count = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = number
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_number && is_count(part) && is_count(count)).then_some(())?;
    u64::from_str_radix(number, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        for path in ["a/step-1.safetensors", "state", "x/y.z.state"] {
            let path = Path::new(path);
            for save in [0, 1, u64::MAX] {
                let PartName(name) = part_name(path, save, 2, 12).unwrap();
                assert_eq!(
                    save_of(path, &path.with_file_name(&name)),
                    Some(save),
                    "{name}"
                );
                assert!(name.contains("-00003-of-00012"), "{name}");
                for other in ["a/step-2.safetensors", "a/step-1.bin", "stat", "x/y.state"] {
                    let other = Path::new(other);
                    assert_eq!(save_of(other, &other.with_file_name(&name)), None, "{name}");
                }
            }
            for name in [
                "step-1.safetensors",
                "step-1.00-00001-of-00002.safetensors",
                "state.x",
            ] {
                assert_eq!(save_of(path, &path.with_file_name(name)), None, "{name}");
            }
        }
    }
}
