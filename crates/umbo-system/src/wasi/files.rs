//! Files in the folders that the runtime gives the program, if it gives any.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Opens a file. The runtime keeps the standard streams, so none can be taken for one.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// There are no files whose opening waits.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Fills `to` with the bytes of the file from this offset on.
pub fn read_exact_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        let rest = &mut to[done..];
        let from = offset.saturating_add(done as u64);
        let from = libc::off_t::try_from(from).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        // SAFETY: the file is open, and there is room for as many bytes as the call is told.
        let count = unsafe {
            let to = rest.as_mut_ptr().cast();
            libc::pread(file.as_raw_fd(), to, rest.len(), from)
        };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// The absolute path of a file or folder. Links stay in it: the runtime follows them by itself and
/// does not say where they lead.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::metadata(path)?;
    std::path::absolute(path)
}

/// The identity of a file or folder, as far as the runtime tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    file: u64,
}

/// The runtime's account of an open file.
fn ask(file: &File) -> io::Result<libc::stat> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the file is open, there is memory for what is known about it, and all zeros is a
    // value of the struct, of numbers.
    unsafe {
        match libc::fstat(file.as_raw_fd(), found.as_mut_ptr()) {
            0 => Ok(found.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl FileIdentity {
    /// The identity of an open file.
    pub fn of(file: &File) -> io::Result<FileIdentity> {
        let found = ask(file)?;
        Ok(FileIdentity {
            device: found.st_dev,
            file: found.st_ino,
        })
    }

    /// The identity of the file or folder at this path.
    pub fn at(path: &Path) -> io::Result<FileIdentity> {
        FileIdentity::of(&File::open(path)?)
    }

    /// The identity of the file at `path`, which the runtime must be asked for.
    pub fn known(path: &Path, _: &Metadata) -> io::Result<FileIdentity> {
        FileIdentity::at(path)
    }
}

/// Waits until the file is on the disk.
pub fn synchronise(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Whether an open file still has a name in some folder.
pub fn has_name(file: &File) -> io::Result<bool> {
    Ok(ask(file)?.st_nlink > 0)
}

/// A file has no access rights here.
pub fn limit_access(_: &mut OpenOptions, _: &Metadata) {}

/// A file has neither access rights nor an owner here.
pub fn keep_attributes(_: &File, _: &Metadata) {}

/// The folders that this program has locked. There are no locks that other programs see.
static LOCKED: Mutex<Vec<FileIdentity>> = Mutex::new(Vec::new());

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    file: File,
    locked: Mutex<bool>,
}

impl Folder {
    /// Opens the folder at this path.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder {
            file: File::open(path)?,
            locked: Mutex::new(false),
        })
    }

    /// Its identity.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        FileIdentity::of(&self.file)
    }

    /// Waits until the names in the folder are on the disk, where the runtime can.
    pub fn synchronise(&self) -> io::Result<()> {
        // A file system that has nothing of the kind counts as one that has done it.
        let _ = self.file.sync_all();
        Ok(())
    }

    /// Locks the folder for this object. Returns whether nobody else in this program has it locked.
    pub fn try_lock(&self) -> bool {
        let mut is_locked = self.locked.lock();
        let Ok(identity) = self.identity() else {
            return true;
        };
        let mut all = LOCKED.lock();
        if !*is_locked && !all.contains(&identity) {
            all.push(identity);
            *is_locked = true;
        }
        *is_locked
    }

    /// Unlocks the folder.
    pub fn unlock(&self) {
        let mut is_locked = self.locked.lock();
        if std::mem::take(&mut *is_locked)
            && let Ok(identity) = self.identity()
        {
            LOCKED.lock().retain(|locked| *locked != identity);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.unlock();
    }
}

/// The error for a path whose links lead in a circle.
pub fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}
