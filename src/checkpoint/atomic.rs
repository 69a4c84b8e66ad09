//! A file that is replaced as a whole.
//!
//! The new contents go to a file beside the target, are synchronised with the disk, and then take the target's name.
//! The folder is synchronised, too. So after a failure of any call, a kill or a power cut, the target's name leads to
//! the old contents or to the new ones.
//!
//! The file beside it is called `.NAME.PROCESS.NUMBER.partial` and is locked while it is written. If a process is
//! killed, the next process that writes the same target removes its file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

const ENDING: &str = ".partial";

/// A file that is being written. If it is dropped before [`AtomicFile::finish`], it leaves no trace.
pub struct AtomicFile {
    target: PathBuf,
    folder: PathBuf,
    partial: PathBuf,
    pub(super) file: File,
    finished: bool,
}

impl AtomicFile {
    /// Creates the file that will replace `target`.
    pub fn create(target: &Path) -> Result<AtomicFile> {
        let name = target
            .file_name()
            .ok_or_else(|| invalid!("path", "'{}' has no file name", target.display()))?;
        if target.is_dir() {
            return Err(invalid!("path", "'{}' is a folder", target.display()));
        }
        let folder = folder_of(target).to_owned();
        remove_left_over(&folder, |of| of == name);
        let mut start = OsString::from(".");
        start.push(name);
        start.push(".");
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..100 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let mut partial = start.clone();
            partial.push(format!("{}.{number}{ENDING}", std::process::id()));
            let partial = folder.join(partial);
            let created = OpenOptions::new().write(true).create_new(true).open(&partial);
            let file = match created {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    // The file may exist, because a step after its creation may have failed.
                    let _ = fs::remove_file(&partial);
                    return Err(match folder.is_dir() {
                        true => failed(target, "creating a file beside it", &error),
                        false => failed(&folder, "the folder to write to", &error),
                    });
                }
            };
            // Between its creation and its lock, another process may remove the file as one that was left over.
            let ours = match file.try_lock() {
                Ok(()) => file.metadata().map_or(true, |metadata| metadata.nlink() > 0),
                Err(TryLockError::WouldBlock) => false,
                // The file system has no locks, so no process can lock a left-over file, either.
                Err(TryLockError::Error(_)) => true,
            };
            if ours {
                let target = target.to_owned();
                return Ok(AtomicFile { target, folder, partial, file, finished: false });
            }
        }
        let problem = format!("'{}': no free name beside it could be had", target.display());
        Err(Error::Unavailable(problem))
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| failed(&self.target, "writing", &error))
    }

    /// Gives the file the target's name. If this returns without an error, the file survives a power cut.
    pub fn finish(mut self) -> Result<()> {
        let failed = |doing: &str, error: io::Error| failed(&self.target, doing, &error);
        self.file.sync_all().map_err(|error| failed("synchronising", error))?;
        // The folder is opened first: once the new name is in place, few operations that can fail should remain.
        let folder =
            File::open(&self.folder).map_err(|error| failed("opening its folder", error))?;
        fs::rename(&self.partial, &self.target).map_err(|error| failed("renaming", error))?;
        self.finished = true;
        folder.sync_all().map_err(|error| {
            failed(
                "synchronising its folder (the new file is in place, perhaps not for good)",
                error,
            )
        })
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.finished {
            // If it cannot be removed now, the next writer of the target removes it.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the files of processes that were killed while they wrote a target whose name `is_target` accepts. Errors are
/// ignored, because the next call tries again.
pub(super) fn remove_left_over(folder: &Path, is_target: impl Fn(&OsStr) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !target_of(&entry.file_name()).is_some_and(&is_target) {
            continue;
        }
        // Links and pipes are skipped: only a regular file can be one that a process has left here.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The name of the target whose contents a file with this name was to become, if it is such a file.
fn target_of(partial: &OsStr) -> Option<&OsStr> {
    let bytes = partial.as_bytes().strip_prefix(b".")?.strip_suffix(ENDING.as_bytes())?;
    let mut pieces = bytes.rsplitn(3, |byte| *byte == b'.');
    let is_number = |piece: &[u8]| !piece.is_empty() && piece.iter().all(u8::is_ascii_digit);
    (is_number(pieces.next()?) && is_number(pieces.next()?)).then_some(())?;
    pieces.next().map(OsStr::from_bytes)
}

/// The error for a system call that writes.
pub(super) fn failed(path: &Path, doing: &str, error: &io::Error) -> Error {
    Error::of_system(format_args!("'{}': {doing}", path.display()), error)
}
