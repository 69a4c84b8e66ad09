//! A folder that is held: the one that a path named when it was opened, whatever that path names
//! later.
//!
//! It is held by its absolute path without links, and by an open descriptor. Before the folder is
//! used, the device and the inode of that path are compared with those of the descriptor, which
//! keeps the inode from being used again. So a change of the working directory and a link that is
//! moved have no effect, and a folder that was replaced is noticed. Files are named by paths, and
//! not by `openat` and its relatives: the program is told the same paths, and every system
//! can compare folders. What is left is a folder that is replaced between the comparison and the
//! use.
//!
//! The lock is that of the descriptor. It ends with the process, leaves no file in the folder that
//! somebody might remove, and needs no right to write. A file system over a network may know it
//! only within each machine.

use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::failed;
use umbo_base::error::{Error, Result};
use umbo_executor::fork;
use umbo_system::files::{self, FileIdentity, Folder};

/// The identity of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderIdentity {
    /// Absolute, and without links.
    path: PathBuf,
    folder: FileIdentity,
}

impl FolderIdentity {
    /// The folder that `path` names.
    pub fn at(path: &Path) -> io::Result<FolderIdentity> {
        let path = files::canonical(path)?;
        let folder = FileIdentity::at(&path)?;
        Ok(FolderIdentity { path, folder })
    }
}

/// A folder that is held.
pub(super) struct HeldFolder {
    identity: FolderIdentity,
    descriptor: Folder,
}

impl HeldFolder {
    /// Holds the folder that `path` names.
    pub fn open(path: &Path) -> Result<HeldFolder> {
        let opened = files::canonical(path).and_then(|path| {
            let descriptor = Folder::open(&path)?;
            let folder = descriptor.identity()?;
            Ok(HeldFolder {
                identity: FolderIdentity { path, folder },
                descriptor,
            })
        });
        opened.map_err(|error| failed(path, "opening the folder", &error))
    }

    /// Its absolute path without links.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    pub fn identity(&self) -> &FolderIdentity {
        &self.identity
    }

    /// Checks that its path still leads to it. NOT_FOUND: nothing is there. FAILED_PRECONDITION:
    /// something else is.
    pub fn check(&self) -> Result<()> {
        let path = self.path();
        let there = FileIdentity::at(path).map_err(|error| failed(path, "the folder", &error))?;
        if there == self.identity.folder {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "manager: '{}' is not the folder that it was when the manager was made; nothing is \
             written or removed there. Put the first one back, or make another manager",
            path.display()
        )))
    }

    /// Locks the folder for this descriptor. Returns whether no other descriptor has it locked.
    /// Where the file system has no locks, nobody has it locked.
    pub fn lock(&self) -> bool {
        self.descriptor.try_lock()
    }
    /// Unlocks the folder.
    pub fn unlock(&self) {
        // A child that was forked has the same descriptor. It would keep the lock, and must not
        // take it away.
        if !fork::is_child() {
            self.descriptor.unlock();
        }
    }
}
