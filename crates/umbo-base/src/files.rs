//! Files that are written, and where their paths lead.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf, is_separator};

use umbo_system::files::{self, FileIdentity};
use umbo_system::names;

use crate::error::{Error, Result};

/// The largest number of symbolic links that are followed: that of Linux.
const MOST_LINKS: usize = 40;

/// The file to which a path leads.
#[derive(Debug)]
pub struct Place {
    /// Its path, which is not that of a symbolic link.
    pub path: PathBuf,
    /// The system's record of the file, if it exists.
    pub existing: Option<Metadata>,
}

impl Place {
    /// Follows the symbolic links at `path`. The last one may lead to a file that does not exist.
    ///
    /// INVALID_ARGUMENT: a folder, a device, a pipe, a socket, links that lead in a circle.
    /// Otherwise as the system reports.
    pub fn of(path: &Path) -> Result<Place> {
        let refused =
            |error: &io::Error| Error::of_system(format_args!("'{}'", path.display()), error);
        let found = |found: io::Result<Metadata>| match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(&error)),
        };
        let led_to = found(fs::metadata(path))?;
        led_to
            .as_ref()
            .map_or(Ok(()), |there| check_regular(path, there))?;
        let mut target = path.to_owned();
        for _ in 0..MOST_LINKS {
            let existing = found(fs::symlink_metadata(&target))?;
            if existing.as_ref().is_some_and(Metadata::is_symlink) {
                let link = fs::read_link(&target).map_err(|error| refused(&error))?;
                target = folder_of(&target).join(link);
                continue;
            }
            // A link of /proc to a file that was removed has a text that leads nowhere.
            if led_to.is_some() && existing.is_none() {
                return Err(invalid!(
                    "path",
                    "'{}' leads to a file without a name",
                    path.display()
                ));
            }
            if names_a_folder(&target) {
                return Err(invalid!(
                    "path",
                    "'{}' is the name of a folder",
                    path.display()
                ));
            }
            return Ok(Place {
                path: target,
                existing,
            });
        }
        Err(refused(&files::too_many_links()))
    }
}

fn check_regular(path: &Path, found: &Metadata) -> Result<()> {
    let path = path.display();
    match found.is_file() {
        true => Ok(()),
        false if found.is_dir() => Err(invalid!("path", "'{path}' is a folder")),
        false => Err(invalid!("path", "'{path}': not a regular file")),
    }
}

/// Whether the path ends with a separator, so that only a folder can be there.
pub fn names_a_folder(path: &Path) -> bool {
    let last = names::bytes(path.as_os_str()).last();
    last.is_some_and(|&byte| is_separator(byte.into()))
}

/// The folder in which the file at `path` is.
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A path that leads to the same folder after the process has changed its working folder, if there
/// is one.
pub fn lasting(folder: &Path) -> PathBuf {
    let identity = |path: &Path| FileIdentity::at(path).ok();
    // From above, the system may not let the process through, or the path may be too long.
    let absolute = std::path::absolute(folder).ok();
    let same = absolute.filter(|absolute| identity(absolute) == identity(folder));
    same.unwrap_or_else(|| folder.to_owned())
}

/// Opens a file that is overwritten from its beginning, or makes it.
///
/// INVALID_ARGUMENT: not a regular file. Otherwise as the system reports; the argument `failed`
/// makes that error.
pub fn overwrite(path: &Path, failed: impl Fn(&io::Error) -> Error) -> Result<File> {
    // The type is checked before the file is opened, because opening a device may have an effect.
    if let Ok(existing) = fs::metadata(path) {
        check_regular(path, &existing)?;
    }
    let mut options = OpenOptions::new();
    // If it has become a pipe in the meantime, this does not wait for a reader.
    files::without_waiting(options.write(true).create(true).truncate(false));
    let file = files::open(&options, path).map_err(|error| failed(&error))?;
    check_regular(path, &file.metadata().map_err(|error| failed(&error))?)?;
    file.set_len(0).map_err(|error| failed(&error))?;
    Ok(file)
}
