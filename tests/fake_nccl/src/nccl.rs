//! All that there is, behind one lock.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::comm::{Clique, Comm};
use crate::cuda::{Raw, current};
use crate::faults::Faults;

/// Results, as NCCL numbers them.
pub const SUCCESS: c_int = 0;
pub const UNHANDLED_CUDA_ERROR: c_int = 1;
pub const INVALID_ARGUMENT: c_int = 4;
pub const INVALID_USAGE: c_int = 5;
pub const REMOTE_ERROR: c_int = 6;
pub const IN_PROGRESS: c_int = 7;

/// What ranks that belong together have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// The beginning of a communicator's settings.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

impl Config {
    fn is_known(&self) -> bool {
        self.size >= size_of::<Config>()
            && self.magic == 0xcafe_beef
            && self.version >= 21400
            && self.blocking == 0
    }
}

#[derive(Default)]
pub struct Nccl {
    pub faults: Faults,
    reports: Vec<String>,
    /// By their handles, from 1; none is used again.
    pub comms: Vec<Comm>,
    pub cliques: Vec<Clique>,
    ids: HashMap<UniqueId, Option<usize>>,
}

/// All of it, locked.
pub fn nccl() -> MutexGuard<'static, Nccl> {
    static NCCL: LazyLock<Mutex<Nccl>> = LazyLock::new(Mutex::default);
    NCCL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nccl {
    /// Notes a mistake of the program's.
    pub fn mistake(&mut self, text: String) -> c_int {
        eprintln!("fake-nccl: {text}");
        self.reports.push(text);
        INVALID_USAGE
    }

    pub fn take_reports(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reports)
    }

    /// How many communicators have not ended.
    pub fn live(&self) -> usize {
        self.comms.iter().filter(|comm| !comm.has_ended).count()
    }

    pub fn new_id(&mut self) -> UniqueId {
        let mut bytes = [0x5a; 128];
        bytes[..8].copy_from_slice(&(self.ids.len() as u64).to_le_bytes());
        self.ids.insert(UniqueId(bytes), None);
        UniqueId(bytes)
    }

    /// The communicator with a handle, if the program may use it.
    pub fn comm(&mut self, handle: usize, by: &str) -> Result<usize, c_int> {
        match handle
            .checked_sub(1)
            .and_then(|index| self.comms.get(index))
        {
            None => Err(self.mistake(format!(
                "{by} is given {handle:#x}, which is no communicator"
            ))),
            Some(comm) if comm.has_ended => {
                let text = format!(
                    "{by} is given the communicator of rank {}, which has ended",
                    comm.rank
                );
                Err(self.mistake(text))
            }
            Some(_) => Ok(handle - 1),
        }
    }

    /// Makes a rank's communicator, whose handle is given.
    pub fn join(
        &mut self,
        (rank, size): (c_int, c_int),
        id: UniqueId,
        config: &Config,
        place: *mut usize,
    ) -> Result<usize, c_int> {
        if !config.is_known() {
            return Err(self.mistake("only calls that do not wait are known here".into()));
        }
        let context: Raw = current().map_err(|_| UNHANDLED_CUDA_ERROR)?;
        let Some(&known) = self.ids.get(&id) else {
            return Err(self.mistake(format!("rank {rank} has an id that nobody has made")));
        };
        let (Ok(rank), Ok(size)) = (usize::try_from(rank), usize::try_from(size)) else {
            return Err(INVALID_ARGUMENT);
        };
        let clique = known.unwrap_or_else(|| {
            self.cliques.push(Clique::new(size));
            self.cliques.len() - 1
        });
        self.ids.insert(id, Some(clique));
        let members = &self.cliques[clique].members;
        if members.len() != size || rank >= size || members[rank].is_some() {
            let text = format!("rank {rank} of {size} joins where it has no place");
            return Err(self.mistake(text));
        }
        let is_here = |&&other: &&usize| self.comms[other].context == context;
        if members.iter().flatten().find(is_here).is_some() {
            // As NCCL says of two ranks on one card.
            return Err(INVALID_USAGE);
        }
        let index = self.comms.len();
        self.comms
            .push(Comm::new((clique, rank), context, (place, index + 1)));
        self.cliques[clique].members[rank] = Some(index);
        Ok(index + 1)
    }
}
