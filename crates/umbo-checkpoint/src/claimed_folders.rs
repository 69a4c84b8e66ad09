//! The places where a training saves: the folders in which its checkpoint is at home, and its
//! claims on folders.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::atomic::folder_of;
use crate::folder::is_of_step;
use crate::held_folder::{FolderIdentity, HeldFolder};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};

/// The folders that hold the checkpoints of one training.
pub(super) struct ClaimedFolders {
    training: u64,
    homes: Mutex<Vec<Home>>,
}

struct Home {
    folder: FolderIdentity,
    /// The time when the training was last restored from there, or saved there first.
    since: u64,
}

/// The folders to which managers of this process save.
static CLAIMED: Mutex<Vec<Arc<ClaimedFolder>>> = Mutex::new(Vec::new());

/// A folder that this process has locked.
struct ClaimedFolder {
    folder: Arc<HeldFolder>,
    holder: Mutex<Holder>,
    /// The greatest number of a save that was handed out.
    last_number: AtomicU64,
}

/// The training that saves to a folder.
struct Holder {
    training: u64,
    since: u64,
}

/// The right to save to a folder. The managers of one training share it; it ends with the last of
/// them. Another training of the process takes it over if it was restored from the folder in the
/// meantime, as a program does that begins again without having released its first manager.
pub(super) struct Claim(Arc<ClaimedFolder>);

/// A number that is greater than all before it.
fn next_moment() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Default for ClaimedFolders {
    fn default() -> ClaimedFolders {
        ClaimedFolders {
            training: next_moment(),
            homes: Mutex::default(),
        }
    }
}

impl ClaimedFolders {
    /// Whether the training is at home in this folder.
    pub fn has(&self, folder: &HeldFolder) -> bool {
        self.since(folder).is_some()
    }

    fn since(&self, folder: &HeldFolder) -> Option<u64> {
        let homes = self.homes.lock();
        homes
            .iter()
            .find(|home| home.folder == *folder.identity())
            .map(|home| home.since)
    }

    /// Makes the training at home in this folder.
    pub fn add(&self, folder: FolderIdentity) {
        let since = next_moment();
        let mut homes = self.homes.lock();
        homes.retain(|home| home.folder != folder);
        homes.push(Home { folder, since });
    }

    /// The folder of the file at `path`, if the file is that of a step: who continues from it is at
    /// home there.
    pub fn home_of(path: &Path) -> Option<FolderIdentity> {
        is_of_step(path).then(|| FolderIdentity::at(folder_of(path)).ok())?
    }

    /// Claims the folder for this training. FAILED_PRECONDITION: another process or another
    /// training saves there.
    pub fn claim(&self, folder: &Arc<HeldFolder>) -> Result<Claim> {
        let mut claimed = CLAIMED.lock();
        let known = claimed
            .iter()
            .find(|known| known.folder.identity() == folder.identity());
        let Some(known) = known else {
            if !folder.lock() {
                return Err(in_use(
                    folder,
                    "another process saves its checkpoints there",
                ));
            }
            let holder = Mutex::new(Holder {
                training: self.training,
                since: next_moment(),
            });
            let folder = Arc::clone(folder);
            let new = Arc::new(ClaimedFolder {
                folder,
                holder,
                last_number: AtomicU64::new(0),
            });
            claimed.push(Arc::clone(&new));
            return Ok(Claim(new));
        };
        let mut holder = known.holder.lock();
        if holder.training != self.training {
            if self.since(folder).is_none_or(|since| since < holder.since) {
                return Err(in_use(
                    folder,
                    "a manager of another checkpoint in this process saves there",
                ));
            }
            *holder = Holder {
                training: self.training,
                since: next_moment(),
            };
        }
        Ok(Claim(Arc::clone(known)))
    }

    /// Whether the claim is still that of this training.
    pub fn hold(&self, claim: &Claim) -> bool {
        claim.0.holder.lock().training == self.training
    }
}

fn in_use(folder: &HeldFolder, why: &str) -> Error {
    Error::precondition(format!(
        "manager: '{}' is in use: {why}, and one training saves to a folder at a time. End the \
         other one or release its manager, and then restore the newest; or name another folder",
        folder.path().display()
    ))
}

impl Claim {
    /// The number of a new save, greater than `seen` and than all numbers so far.
    pub fn next_number(&self, seen: u64) -> u64 {
        let last = &self.0.last_number;
        last.fetch_max(seen, Ordering::Relaxed);
        last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock();
        // Two are this one and that of the list.
        if Arc::strong_count(&self.0) == 2 {
            claimed.retain(|other| !Arc::ptr_eq(other, &self.0));
            self.0.folder.unlock();
        }
    }
}
