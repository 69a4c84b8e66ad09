//! A file that is replaced as a whole.
//!
//! The new contents go to a file beside the target, are synchronised with the disk, and then take
//! the target's name. The folder is synchronised, too. So after a failure of any call, a kill or a
//! power cut, the target's name leads to the old contents or to the new ones.
//!
//! The file beside it is called `.NAME.PROCESS.NUMBER.partial` and is locked while it is written.
//! If a process is killed, the next process that writes the same target removes its file. If that
//! name is too long for the file system, a checksum of the target's name stands for it.
//!
//! If the path is a symbolic link, the target is the file to which it leads. The new file has the
//! old one's mode, and its owner and group if the system permits that.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use umbo_base::error::{Error, Result};
pub(super) use umbo_base::files::folder_of;
use umbo_base::files::{Place, lasting};
use umbo_base::observe::log::{self, Level};
use umbo_system::files::{self, Folder};
use umbo_system::names;

const ENDING: &str = ".partial";

/// A file that is being written. If it is dropped before [`AtomicFile::finish`], it leaves no
/// trace.
pub struct AtomicFile {
    /// The path, as the caller has given it.
    shown: PathBuf,
    target: PathBuf,
    folder: PathBuf,
    partial: PathBuf,
    pub(super) file: File,
    finished: bool,
}

impl AtomicFile {
    /// Creates the file that will replace the file at `path`.
    ///
    /// INVALID_ARGUMENT: a folder, or another file that is not regular. Otherwise as the system
    /// reports.
    pub fn create(path: &Path) -> Result<AtomicFile> {
        let place = Place::of(path)?;
        let nameless = || invalid!("path", "'{}' has no file name", path.display());
        let name = place.path.file_name().ok_or_else(nameless)?;
        let given_folder = folder_of(&place.path);
        let folder = lasting(given_folder);
        let short = short_name(name);
        remove_left_over(&folder, |target| target == name || *target == *short);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if let Some(existing) = &place.existing {
            // Nobody else may read or write more than of the old file. It gets exactly its mode in
            // the end.
            files::limit_access(&mut options, existing);
        }
        let mut start = name;
        for _ in 0..100 {
            let partial = folder.join(partial_name(start));
            let file = match files::open(&options, &partial) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename && start == name => {
                    start = &short;
                    continue;
                }
                Err(error) => {
                    // The file may exist, because a step after its creation may have failed.
                    let _ = fs::remove_file(&partial);
                    return Err(match folder.is_dir() {
                        true => failed(path, "creating a file next to it", &error),
                        false => failed(given_folder, "the folder to write to", &error),
                    });
                }
            };
            // Between its creation and its lock, another process may remove the file as one that
            // was left over.
            let ours = match file.try_lock() {
                Ok(()) => files::has_name(&file).unwrap_or(true),
                Err(TryLockError::WouldBlock) => false,
                // The file system has no locks, so no process can lock a left-over file, either.
                Err(TryLockError::Error(_)) => true,
            };
            if ours {
                let shown = path.to_owned();
                let target = folder.join(name);
                return Ok(AtomicFile {
                    shown,
                    target,
                    folder,
                    partial,
                    file,
                    finished: false,
                });
            }
        }
        let problem = format!(
            "'{}': no free name for a temporary file next to it",
            path.display()
        );
        Err(Error::Unavailable(problem))
    }

    /// The path of the file that will be replaced, which is not that of a symbolic link.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| failed(&self.shown, "writing", &error))
    }

    /// Appends bytes that lie in several places, many at a time.
    pub fn write_all_of(&mut self, parts: &[&[u8]]) -> Result<()> {
        let parts = parts.iter().filter(|part| !part.is_empty());
        let mut parts: Vec<IoSlice<'_>> = parts.map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut parts[..];
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => {
                    let error = io::ErrorKind::WriteZero.into();
                    return Err(failed(&self.shown, "writing", &error));
                }
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.shown, "writing", &error)),
            }
        }
        Ok(())
    }

    /// Gives the file the target's name. If this returns an error, the old file is unchanged.
    /// Otherwise the new file is in place, and it survives a power cut, unless the folder could
    /// not be synchronised, which is logged.
    pub fn finish(mut self) -> Result<()> {
        let failed = |doing: &str, error: io::Error| failed(&self.shown, doing, &error);
        // If a folder or a device has taken the name in the meantime, it stays.
        let place = Place::of(&self.target)?;
        if place.path != self.target {
            return Err(invalid!(
                "path",
                "'{}' has become a link",
                self.shown.display()
            ));
        }
        if let Some(existing) = &place.existing {
            files::keep_attributes(&self.file, existing);
        }
        files::synchronise(&self.file).map_err(|error| failed("synchronising", error))?;
        // The folder is opened first, because a failure of that can still be returned.
        let folder = match Folder::open(&self.folder) {
            // A process may be allowed to write to a folder that it may not read.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(failed("opening its folder", error));
            }
            opened => opened,
        };
        fs::rename(&self.partial, &self.target).map_err(|error| failed("renaming", error))?;
        self.finished = true;
        if let Err(error) = folder.and_then(|folder| folder.synchronise()) {
            let path = self.shown.display();
            log::log(Level::Warning, || {
                format!(
                    "'{path}': the new file is in place, but its folder could not be \
                     synchronised, so a power cut might bring the old file back: {error}"
                )
            });
        }
        Ok(())
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

/// Removes the files of processes that were killed while they wrote a target whose name `is_target`
/// accepts. Errors are ignored, because the next call tries again.
pub(super) fn remove_left_over(folder: &Path, is_target: impl Fn(&OsStr) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !target_of(&entry.file_name()).is_some_and(&is_target) {
            continue;
        }
        // Links and pipes are skipped: only a regular file can be one that a process has left here.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = files::open(OpenOptions::new().write(true), &path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A name that stands for that of a target where the system allows no longer one.
fn short_name(target: &OsStr) -> OsString {
    format!("umbo-{:08x}", crc32fast::hash(names::bytes(target))).into()
}

/// A new name for a file whose contents are to become those of `target`.
fn partial_name(target: &OsStr) -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(target);
    name.push(format!(".{}.{number}{ENDING}", umbo_system::process::id()));
    name
}

/// The name of the target whose contents a file with this name was to become, if it is such a file.
fn target_of(partial: &OsStr) -> Option<&OsStr> {
    let bytes = names::bytes(partial)
        .strip_prefix(b".")?
        .strip_suffix(ENDING.as_bytes())?;
    let mut pieces = bytes.rsplitn(3, |byte| *byte == b'.');
    let is_number = |piece: &[u8]| !piece.is_empty() && piece.iter().all(u8::is_ascii_digit);
    (is_number(pieces.next()?) && is_number(pieces.next()?)).then_some(())?;
    pieces.next().and_then(names::from_bytes)
}

/// The error for a system call that writes.
pub(super) fn failed(path: &Path, doing: &str, error: &io::Error) -> Error {
    Error::of_system(format_args!("'{}': {doing}", path.display()), error)
}
