//! Files, as Windows knows them.

use std::ffi::c_void;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr;

use parking_lot::Mutex;
use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, ERROR_CANT_RESOLVE_FILENAME, FALSE};
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE, GetLastError, TRUE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_ID_INFO,
    FILE_INFO_BY_HANDLE_CLASS, FILE_STANDARD_INFO, FileIdInfo, FileStandardInfo,
    GetFileInformationByHandle, GetFileInformationByHandleEx,
};
use windows_sys::Win32::System::Threading::CreateEventW;

/// The length from which on some programs need the long form of a path.
const LONG: usize = 248;

/// Opens a file. Windows does not count the standard streams among files, so none can take the
/// place of one. Others may rename and remove the file while it is open.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// There are no files whose opening waits.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Fills `to` with the bytes of the file from this offset on. Several threads may read at once.
pub fn read_exact_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        match file.seek_read(&mut to[done..], offset.saturating_add(done as u64)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The absolute path of a file or folder without links. It is in the form that all programs
/// understand, without `\\?\`, unless it is too long for that.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).map(without_prefix)
}

fn without_prefix(path: PathBuf) -> PathBuf {
    let mut parts = path.components();
    let Some(Component::Prefix(prefix)) = parts.next() else {
        return path;
    };
    let short = match (prefix.kind(), path.to_str()) {
        (Prefix::VerbatimDisk(_), Some(text)) => text[r"\\?\".len()..].to_owned(),
        (Prefix::VerbatimUNC(..), Some(text)) => format!(r"\\{}", &text[r"\\?\UNC\".len()..]),
        _ => return path,
    };
    // The long form alone may have names such as `NUL` or `name.`, which the short one changes.
    let stays = std::path::absolute(&short).is_ok_and(|again| again.as_os_str() == &*short);
    match stays && short.encode_utf16().count() < LONG {
        true => PathBuf::from(short),
        false => path,
    }
}

/// The identity of a file or folder, among all of the machine. The number of one that was removed
/// may be used again, unless somebody has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    volume: u64,
    file: u128,
}

impl FileIdentity {
    /// The identity of an open file.
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        if let Ok(found) = ask::<FILE_ID_INFO>(file, FileIdInfo) {
            return Ok(FileIdentity {
                volume: found.VolumeSerialNumber,
                file: u128::from_le_bytes(found.FileId.Identifier),
            });
        }
        let mut found = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the file is open, and there is memory for what is known about it.
        match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut found) } {
            FALSE => Err(io::Error::last_os_error()),
            _ => Ok(FileIdentity {
                volume: found.dwVolumeSerialNumber.into(),
                file: u128::from(found.nFileIndexHigh) << 32 | u128::from(found.nFileIndexLow),
            }),
        }
    }

    /// The identity of the file or folder at this path.
    pub fn at(path: &Path) -> io::Result<FileIdentity> {
        let mut options = OpenOptions::new();
        options
            .access_mode(0)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
        FileIdentity::of(&options.open(path)?)
    }

    /// The identity of the file at `path`, which the system must be asked for, since the rest of
    /// what is known about the file does not have it.
    pub fn known(path: &Path, _: &Metadata) -> io::Result<FileIdentity> {
        FileIdentity::at(path)
    }
}

/// Asks for what the system knows about an open file.
fn ask<T: Default>(file: &File, class: FILE_INFO_BY_HANDLE_CLASS) -> io::Result<T> {
    let mut found = T::default();
    let place = (&raw mut found).cast::<c_void>();
    // SAFETY: the file is open; the caller gives the type that belongs to the class, whose size is
    // given, and which consists of numbers.
    let asked = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), class, place, size_of::<T>() as u32)
    };
    match asked {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(found),
    }
}

/// Waits until the file is on the disk.
pub fn synchronise(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Whether an open file still has a name in some folder, and will keep it.
pub fn has_name(file: &File) -> io::Result<bool> {
    let found = ask::<FILE_STANDARD_INFO>(file, FileStandardInfo)?;
    Ok(found.NumberOfLinks > 0 && !found.DeletePending)
}

/// A new file has the access rights of its folder.
pub fn limit_access(_: &mut OpenOptions, _: &Metadata) {}

/// A new file has the access rights and the owner of its folder.
pub fn keep_attributes(_: &File, _: &Metadata) {}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
    /// An object whose name is the folder's identity. It exists as long as somebody has it.
    lock: Mutex<Option<OwnedHandle>>,
}

impl Folder {
    /// Opens the folder at this path. Others may rename it meanwhile.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let mut options = OpenOptions::new();
        options
            .access_mode(GENERIC_READ)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
        Ok(Folder {
            file: options.open(path)?,
            path: path.to_owned(),
            lock: Mutex::new(None),
        })
    }

    /// Its identity.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        FileIdentity::of(&self.file)
    }

    /// Waits until the names in the folder are on the disk, where the system lets a program wait
    /// for that: the program must have the right to change the folder.
    pub fn synchronise(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options
            .access_mode(GENERIC_WRITE)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
        // A file system that has nothing of the kind counts as one that has done it.
        let _ = options
            .open(&self.path)
            .and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Locks the folder for this object. Returns whether nobody else has it locked. Windows locks
    /// no folders, so this is a name that programs of this machine agree on. It ends with the
    /// process.
    pub fn try_lock(&self) -> bool {
        let mut lock = self.lock.lock();
        let Ok(identity) = self.identity() else {
            return true;
        };
        if lock.is_some() {
            return true;
        }
        let name = format!(
            r"Global\umbo-folder-{:x}-{:x}",
            identity.volume, identity.file
        );
        let name: Vec<u16> = Path::new(&name)
            .as_os_str()
            .encode_wide()
            .chain([0])
            .collect();
        // SAFETY: the name ends with a zero and lives during the call.
        let (event, error) = unsafe {
            let event = CreateEventW(ptr::null(), TRUE, FALSE, name.as_ptr());
            (event, GetLastError())
        };
        if event.is_null() {
            // One of another user exists, or there is no memory for it.
            return false;
        }
        // SAFETY: the system has just given the handle to this call alone.
        let event = unsafe { OwnedHandle::from_raw_handle(event) };
        if error == ERROR_ALREADY_EXISTS {
            return false;
        }
        *lock = Some(event);
        true
    }

    /// Unlocks the folder.
    pub fn unlock(&self) {
        *self.lock.lock() = None;
    }
}

/// The error for a path whose links lead in a circle.
pub fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(ERROR_CANT_RESOLVE_FILENAME as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_the_long_form_where_they_stay_the_same() {
        for (long, expected) in [
            (r"\\?\C:\a\b.txt", r"C:\a\b.txt"),
            (r"\\?\C:\größe 模型", r"C:\größe 模型"),
            (r"\\?\UNC\host\share\a", r"\\host\share\a"),
            (r"\\?\C:\a.\b", r"\\?\C:\a.\b"),
            (r"\\?\C:\a\NUL", r"\\?\C:\a\NUL"),
            (r"C:\a", r"C:\a"),
        ] {
            let found = without_prefix(PathBuf::from(long));
            assert_eq!(found, PathBuf::from(expected));
        }
        let long = format!(r"\\?\C:\{}", "a\\".repeat(200));
        assert_eq!(without_prefix(PathBuf::from(&long)), PathBuf::from(long));
    }
}
