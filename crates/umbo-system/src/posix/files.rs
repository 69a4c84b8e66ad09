//! Files, as the kernel knows them.

use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::platform::files::{FOLDER_ONLY, synchronise};

/// The last descriptor of the standard streams.
const LAST_STANDARD: i32 = 2;

/// The bits of a mode that say who may read, write and execute.
const ACCESS: u32 = 0o777;

/// All bits of a mode but those for the type of the file.
const MODE: u32 = 0o7777;

/// Opens a file whose descriptor is not that of a standard stream, even if the process has closed
/// one. Otherwise what any thread prints would be written into the file.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let _held = hold_closed_streams();
    let file = options.open(path)?;
    match file.as_raw_fd() > LAST_STANDARD {
        true => Ok(file),
        // Another thread has closed a stream in the meantime. A copy never has one of these
        // descriptors.
        false => file.try_clone(),
    }
}

/// Takes the descriptors of standard streams that are closed, until the files are dropped. They
/// still behave as if they were closed, because nobody can read or write through a descriptor of a
/// folder.
fn hold_closed_streams() -> Vec<File> {
    let mut only_path = OpenOptions::new();
    only_path.read(true).custom_flags(FOLDER_ONLY);
    let held = std::iter::from_fn(|| only_path.open("/").ok());
    held.take_while(|file| file.as_raw_fd() <= LAST_STANDARD)
        .collect()
}

/// Makes the opening of a pipe return at once, instead of waiting for its other end.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NONBLOCK)
}

/// Fills `to` with the bytes of the file from this offset on. Several threads may read at once.
pub fn read_exact_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(to, offset)
}

/// The identity of a file or folder, among all of the machine. The number of one that was removed
/// may be used again, unless somebody has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The identity of an open file.
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        Ok(FileIdentity::new(&file.metadata()?))
    }

    /// The identity of the file or folder at this path.
    pub fn at(path: &Path) -> io::Result<FileIdentity> {
        Ok(FileIdentity::new(&fs::metadata(path)?))
    }

    /// The identity of the file at `path`, about which this is known.
    pub fn known(_: &Path, metadata: &Metadata) -> io::Result<FileIdentity> {
        Ok(FileIdentity::new(metadata))
    }

    fn new(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Whether an open file still has a name in some folder.
pub fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Makes a file that is made with these options readable and writable by those alone who may do so
/// with the existing one.
pub fn limit_access(options: &mut OpenOptions, existing: &Metadata) {
    options.mode(existing.mode() & ACCESS | 0o600);
}

/// Gives a new file the mode of the file that it will replace, and the owner and the group if the
/// system permits that.
pub fn keep_attributes(file: &File, existing: &Metadata) {
    let Ok(made) = file.metadata() else { return };
    let owner = existing.uid();
    let group = existing.gid();
    let mut mode = existing.mode() & MODE;
    if (made.uid(), made.gid()) != (owner, group)
        && fchown(file, Some(owner), Some(group)).is_err()
        && fchown(file, None, Some(group)).is_err()
    {
        // Another group may do no more than everybody.
        mode &= !0o070 | (mode & 0o007) << 3;
    }
    if made.mode() & MODE != mode {
        // A file system without modes gives all files the same, as it gave the old one.
        let _ = file.set_permissions(Permissions::from_mode(mode));
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens the folder at this path. Others may rename it meanwhile.
    pub fn open(path: &Path) -> io::Result<Folder> {
        open(OpenOptions::new().read(true), path).map(Folder)
    }

    /// Its identity.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        FileIdentity::of(&self.0)
    }

    /// Waits until the names in the folder are on the disk. A file system that has nothing of the
    /// kind counts as one that has done it: some file systems of networks and of user space know it
    /// for files only, and nobody can change that. SQLite and PostgreSQL ignore these errors, too.
    pub fn synchronise(&self) -> io::Result<()> {
        const NOTHING_TO_DO: [i32; 4] = [libc::EINVAL, libc::EBADF, libc::ENOSYS, libc::ENOTSUP];
        synchronise(&self.0).or_else(|error| match error.raw_os_error() {
            Some(code) if NOTHING_TO_DO.contains(&code) => Ok(()),
            _ => Err(error),
        })
    }

    /// Locks the folder for this object. Returns whether nobody else has it locked. Where the file
    /// system has no locks, nobody has it locked.
    pub fn try_lock(&self) -> bool {
        !matches!(self.0.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Unlocks the folder.
    pub fn unlock(&self) {
        let _ = self.0.unlock();
    }
}

/// The absolute path of a file or folder without links.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The error for a path whose links lead in a circle.
pub fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}
