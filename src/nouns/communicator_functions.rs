//! The functions that a program gives a communicator, and the communicator that calls them.

use crate::machinery::prelude::*;
use umbo_core::cluster::communicator::{
    Communicator, EngineCall, Incoming, Outgoing, RankPlace, Vote,
};
use umbo_core::device::backend::Backend;
use umbo_core::executor::thread::thread_number;

/// Sends a part of `send` to each rank, and receives one from each. See
/// umbo_communicator_all_to_all().
///
/// The part for this rank itself is copied.
pub type umbo_communicator_all_to_all_fn = Option<
    unsafe extern "C-unwind" fn(
        send_bytes: *const usize,
        send: *const c_void,
        receive_bytes: *const usize,
        user_data: *mut c_void,
        receive: *mut c_void,
    ) -> umbo_status,
>;

/// Receives what each rank sends, this one too. See umbo_communicator_all_gather().
pub type umbo_communicator_all_gather_fn = Option<
    unsafe extern "C-unwind" fn(
        bytes: *const usize,
        send: *const c_void,
        user_data: *mut c_void,
        receive: *mut c_void,
    ) -> umbo_status,
>;

/// Sends what rank `root` has to all others. See umbo_communicator_broadcast().
pub type umbo_communicator_broadcast_fn = Option<
    unsafe extern "C-unwind" fn(
        root: i64,
        bytes: usize,
        user_data: *mut c_void,
        data: *mut c_void,
    ) -> umbo_status,
>;

/// Gets the least and the greatest of the numbers of all ranks.
pub type umbo_communicator_vote_fn = Option<
    unsafe extern "C-unwind" fn(
        number: i64,
        user_data: *mut c_void,
        least: *mut i64,
        greatest: *mut i64,
    ) -> umbo_status,
>;

/// Returns when all ranks have called it.
pub type umbo_communicator_barrier_fn =
    Option<unsafe extern "C-unwind" fn(user_data: *mut c_void) -> umbo_status>;

/// Announces to the other ranks that this one cannot continue. It may end the process.
pub type umbo_communicator_abort_fn =
    Option<unsafe extern "C-unwind" fn(message: *const c_char, user_data: *mut c_void)>;

/// The functions may be called on any thread, one at a time; else on the thread that made the
/// communicator.
pub const UMBO_COMMUNICATOR_ANY_THREAD: i64 = 1;
/// `all_to_all` and `all_gather` take addresses of GPU memory, too, for gradients on GPUs if all
/// ranks have theirs there: of the GPU of this rank's variables, whose context is current. Nothing
/// that is queued uses the memory; when they return, what was received has arrived. All ranks set
/// the flag, or none.
pub const UMBO_COMMUNICATOR_DEVICE_POINTERS: i64 = 2;

/// The functions of a communicator, which move bytes and never sum.
///
/// All ranks call each but `abort` in the same order, and it returns when it has what it needs of
/// the others. It must not wait without limit for a rank that is lost. After a failure only `abort`
/// is called. They must not use the communicator that calls them.
#[c_struct(rank_count = 1, node_rank_count = 1)]
pub struct umbo_communicator_functions {
    /// The sum of UMBO_COMMUNICATOR_ANY_THREAD and UMBO_COMMUNICATOR_DEVICE_POINTERS, whichever
    /// hold.
    pub flags: i64,
    /// The rank of this process, from 0.
    pub rank: i64,
    /// The number of ranks, at most 65536.
    pub rank_count: i64,
    /// The position of this rank among those of its machine, from 0.
    pub node_rank: i64,
    /// The number of ranks on this machine.
    pub node_rank_count: i64,
    /// Must be set.
    pub all_to_all: umbo_communicator_all_to_all_fn,
    /// Must be set.
    pub all_gather: umbo_communicator_all_gather_fn,
    /// NULL: done by `all_gather`.
    pub broadcast: umbo_communicator_broadcast_fn,
    /// NULL: done by `all_gather`.
    pub vote: umbo_communicator_vote_fn,
    /// NULL: done by a vote.
    pub barrier: umbo_communicator_barrier_fn,
    /// NULL: the other ranks notice by their own means.
    pub abort: umbo_communicator_abort_fn,
}

/// An engine of the program's.
pub(crate) struct ProgramEngine {
    functions: umbo_communicator_functions,
    user_data: UserData,
    /// The thread that the functions may be called on, if it is one alone.
    thread: Option<usize>,
    /// For votes and broadcasts that are gathered.
    place: RankPlace,
}

impl ProgramEngine {
    /// Checks the functions, and where they say that this process stands. Where the flags do not
    /// allow any thread they are for the one that calls this.
    pub(crate) fn new(
        functions: umbo_communicator_functions,
        user_data: UserData,
    ) -> Result<ProgramEngine> {
        present(functions.all_to_all, "functions.all_to_all")?;
        present(functions.all_gather, "functions.all_gather")?;
        let known = UMBO_COMMUNICATOR_ANY_THREAD | UMBO_COMMUNICATOR_DEVICE_POINTERS;
        if functions.flags & !known != 0 {
            let problem = format!(
                "{}; valid are 0 and sums of UMBO_COMMUNICATOR_ANY_THREAD (1) and \
                 UMBO_COMMUNICATOR_DEVICE_POINTERS (2)",
                functions.flags
            );
            return Err(Error::invalid("functions.flags", problem));
        }
        let place = RankPlace {
            rank: natural(functions.rank, "functions.rank")?,
            size: natural(functions.rank_count, "functions.rank_count")?,
            node_rank: natural(functions.node_rank, "functions.node_rank")?,
            node_size: natural(functions.node_rank_count, "functions.node_rank_count")?,
        };
        let any_thread = functions.flags & UMBO_COMMUNICATOR_ANY_THREAD != 0;
        let thread = (!any_thread).then(thread_number);
        Ok(ProgramEngine {
            functions,
            user_data,
            thread,
            place,
        })
    }
}

/// The address of so many bytes for C, NULL if there are none; and the device that they lie on,
/// unless that is the host.
fn sent(send: &Outgoing<'_>, bytes: usize) -> (*const c_void, Option<&'static dyn Backend>) {
    let (address, backend) = match send {
        Outgoing::Host(bytes) => (bytes.as_ptr().cast(), None),
        Outgoing::Device(memory) => (
            std::ptr::with_exposed_provenance(memory.address() as usize),
            Some(memory.backend()),
        ),
    };
    (
        if bytes == 0 {
            std::ptr::null()
        } else {
            address
        },
        backend,
    )
}

/// As [`sent`], for bytes to be written.
fn received(receive: Incoming<'_>, bytes: usize) -> *mut c_void {
    match receive {
        _ if bytes == 0 => std::ptr::null_mut(),
        Incoming::Host(bytes) => bytes.as_mut_ptr().cast(),
        Incoming::Device(memory) => {
            std::ptr::with_exposed_provenance_mut(memory.address() as usize)
        }
    }
}

/// Calls a function of the program. For memory of a device the thread is prepared for the device's
/// own interface, and nothing is queued.
fn call(
    backend: Option<&'static dyn Backend>,
    function: impl FnOnce() -> umbo_status,
) -> Result<()> {
    let _entered = backend.map(|backend| backend.enter()).transpose()?;
    backend.map_or(Ok(()), |backend| backend.synchronize())?;
    callback::run(function)
}

impl Communicator for ProgramEngine {
    fn place(&self) -> RankPlace {
        self.place
    }

    fn check_thread(&self) -> Result<()> {
        if self.thread.is_none_or(|thread| thread == thread_number()) {
            return Ok(());
        }
        Err(Error::precondition(
            "this communicator is used on the thread that made it alone, since its flags lack \
             UMBO_COMMUNICATOR_ANY_THREAD",
        ))
    }

    fn call(&self, which: EngineCall<'_>) -> Result<()> {
        let functions = &self.functions;
        let data = self.user_data.pointer();
        match which {
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                receive_counts,
            } => {
                let function = present(functions.all_to_all, "functions.all_to_all")?;
                let (from, backend) = sent(&send, send_counts.iter().sum());
                let to = received(receive, receive_counts.iter().sum());
                let send_bytes = send_counts.as_ptr();
                let receive_bytes = receive_counts.as_ptr();
                // SAFETY: the caller gave the function for this, with the user data, and said
                // whether it takes memory of GPUs; there are as many bytes as the
                // counts add up to.
                call(backend, || unsafe {
                    function(send_bytes, from, receive_bytes, data, to)
                })
            }
            EngineCall::AllGather {
                send,
                receive,
                counts,
            } => {
                let function = present(functions.all_gather, "functions.all_gather")?;
                let (from, backend) = sent(&send, counts[self.place.rank]);
                let to = received(receive, counts.iter().sum());
                // SAFETY: as above.
                call(backend, || unsafe {
                    function(counts.as_ptr(), from, data, to)
                })
            }
            EngineCall::Broadcast { bytes, root } if let Some(function) = functions.broadcast => {
                let count = bytes.len();
                let bytes = received(Incoming::Host(bytes), count);
                // SAFETY: as above.
                call(None, || unsafe {
                    function(root as i64, count, data, bytes)
                })
            }
            EngineCall::Vote(vote) if let Some(function) = functions.vote => {
                let Vote { least, greatest } = vote;
                // SAFETY: as above.
                call(None, || unsafe {
                    function(*least, data, &raw mut *least, &raw mut *greatest)
                })
            }
            EngineCall::Barrier if let Some(function) = functions.barrier => {
                // SAFETY: as above.
                call(None, || unsafe { function(data) })
            }
            which => self.by_all_gather(which),
        }
    }

    fn moves_device_memory(&self) -> bool {
        self.functions.flags & UMBO_COMMUNICATOR_DEVICE_POINTERS != 0
    }

    fn abort(&self, error: &Error) {
        if let Some(function) = self.functions.abort {
            let message = c_string(error);
            // SAFETY: as above; the text lives until the function returns.
            callback::run_infallible(|| unsafe {
                function(message.as_ptr(), self.user_data.pointer())
            });
        }
    }
}
