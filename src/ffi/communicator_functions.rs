//! The functions that a program gives a communicator, and the communicator that calls them.

use super::prelude::*;
use crate::cluster::communicator::{Communicator, GpuCommunicator, Place, Vote};
use crate::device::cuda::memory::DeviceMemory;
use crate::error::memory;

// Counts are handed over as they lie.
const _: () = assert!(size_of::<usize>() == size_of::<i64>());

/// Sends a part of `send` to each rank, and receives one from each.
///
/// @param[in] send The parts to send, one behind the other in the order of the ranks. NULL if all
///   are empty.
/// @param[in] send_counts How many bytes each part has; as many numbers as there are ranks.
/// @param[out] receive Gets the parts in the order of the ranks that sent them. NULL if all are
///   empty.
/// @param[in] receive_counts How many bytes each part has; as many numbers as there are ranks.
/// @param[in] user_data What was given to umbo_communicator_create().
/// @return UMBO_OK, or why it fails.
///
/// The part for this rank itself is copied.
pub type umbo_communicator_all_to_all_fn = Option<
    unsafe extern "C-unwind" fn(
        send: *const c_void,
        send_counts: *const i64,
        receive: *mut c_void,
        receive_counts: *const i64,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Receives what every rank sends.
///
/// @param[in] send What this rank sends. NULL if it is empty.
/// @param[out] receive Gets what the ranks send, one behind the other in their order, this rank's
///   own part too. NULL if all are empty.
/// @param[in] counts How many bytes each rank sends; as many numbers as there are ranks, the same
///   on all of them.
/// @param[in] user_data What was given to umbo_communicator_create().
/// @return UMBO_OK, or why it fails.
pub type umbo_communicator_all_gather_fn = Option<
    unsafe extern "C-unwind" fn(
        send: *const c_void,
        receive: *mut c_void,
        counts: *const i64,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Sends what a rank has to all others.
///
/// @param[in,out] data What rank `root` sends and the others get. NULL if it is empty.
/// @param[in] bytes How many bytes it has, on all ranks.
/// @param[in] root The rank that sends.
/// @param[in] user_data What was given to umbo_communicator_create().
/// @return UMBO_OK, or why it fails.
pub type umbo_communicator_broadcast_fn = Option<
    unsafe extern "C-unwind" fn(
        data: *mut c_void,
        bytes: i64,
        root: i64,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Finds the least and the greatest of the ranks' numbers.
///
/// @param[in] number This rank's number.
/// @param[out] least The least of all.
/// @param[out] greatest The greatest of all.
/// @param[in] user_data What was given to umbo_communicator_create().
/// @return UMBO_OK, or why it fails.
pub type umbo_communicator_vote_fn = Option<
    unsafe extern "C-unwind" fn(
        number: i64,
        least: *mut i64,
        greatest: *mut i64,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Returns once all ranks have called it.
///
/// @param[in] user_data What was given to umbo_communicator_create().
/// @return UMBO_OK, or why it fails.
pub type umbo_communicator_barrier_fn =
    Option<unsafe extern "C-unwind" fn(user_data: *mut c_void) -> umbo_status>;

/// Tells the other ranks that this one cannot go on.
///
/// @param[in] message Why.
/// @param[in] user_data What was given to umbo_communicator_create().
///
/// It may end the process.
pub type umbo_communicator_abort_fn =
    Option<unsafe extern "C-unwind" fn(message: *const c_char, user_data: *mut c_void)>;

/// The functions may be called on any thread; without it, only on the thread that made the
/// communicator. One call is made at a time in any case.
pub const UMBO_COMMUNICATOR_ANY_THREAD: i64 = 1;
/// The functions take addresses of GPU memory, too. `all_to_all` and `all_gather` then get such, for
/// gradients of variables on GPUs where all ranks have theirs on GPUs: both addresses are of the GPU of this
/// rank's variables, whose context is current, and nothing that is queued there uses the memory. When they
/// return, what was received has arrived. All ranks set the flag, or none.
pub const UMBO_COMMUNICATOR_DEVICE_POINTERS: i64 = 2;

/// The functions of a communicator, which moves bytes and never sums. Start from
/// UMBO_COMMUNICATOR_FUNCTIONS_INIT.
///
/// Every function but `abort` is collective: all ranks call it in the same order, and it returns
/// once it has what it needs of the others. It must not wait forever: an engine whose ranks can be
/// lost returns an error after a time. After a failure no function but `abort` is called again. The
/// functions must not use the communicator that calls them.
#[c_struct(size = 1, node_size = 1)]
#[repr(C)]
pub struct umbo_communicator_functions {
    /// `sizeof(umbo_communicator_functions)`; UMBO_COMMUNICATOR_FUNCTIONS_INIT sets it.
    pub struct_size: usize,
    /// 0, or UMBO_COMMUNICATOR_ANY_THREAD and UMBO_COMMUNICATOR_DEVICE_POINTERS added up.
    pub flags: i64,
    /// The number of this rank, from 0.
    pub rank: i64,
    /// How many ranks there are. By default 1.
    pub size: i64,
    /// The number of this rank among those of its machine, from 0.
    pub node_rank: i64,
    /// How many ranks are on this machine. By default 1.
    pub node_size: i64,
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

/// A number for the calling thread, which no other has while it lives. Unlike the standard library's it
/// is there also while the thread ends.
fn this_thread() -> i32 {
    // SAFETY: it needs nothing.
    unsafe { libc::gettid() }
}

/// An engine of the program's.
pub(super) struct Functions {
    functions: umbo_communicator_functions,
    user_data: UserData,
    /// The thread that the functions may be called on, if it is one alone.
    thread: Option<i32>,
    /// For votes and broadcasts that are gathered.
    place: Place,
}

impl Functions {
    /// Checks the functions, and where they say that this process stands. Where the flags do not allow
    /// any thread they are for the one that calls this.
    pub(super) fn new(
        functions: umbo_communicator_functions,
        user_data: UserData,
    ) -> Result<Functions> {
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
        let place = Place {
            rank: natural(functions.rank, "functions.rank")?,
            size: natural(functions.size, "functions.size")?,
            node_rank: natural(functions.node_rank, "functions.node_rank")?,
            node_size: natural(functions.node_size, "functions.node_size")?,
        };
        let any_thread = functions.flags & UMBO_COMMUNICATOR_ANY_THREAD != 0;
        let thread = (!any_thread).then(this_thread);
        Ok(Functions { functions, user_data, thread, place })
    }

    /// The numbers of all ranks.
    fn gather_numbers(&self, number: i64) -> Result<Vec<i64>> {
        let size = self.place.size;
        let mut bytes = vec![0; size * size_of::<i64>()];
        let counts = vec![size_of::<i64>(); size];
        self.all_gather(&number.to_ne_bytes(), &mut bytes, &counts)?;
        Ok(bytes.as_chunks().0.iter().map(|&number| i64::from_ne_bytes(number)).collect())
    }
}

/// The address of bytes for C: NULL if there are none.
fn address(bytes: &[u8]) -> *const c_void {
    if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() }
}

/// As [`address`], of bytes to be written.
fn address_mut(bytes: &mut [u8]) -> *mut c_void {
    if bytes.is_empty() { std::ptr::null_mut() } else { bytes.as_mut_ptr().cast() }
}

impl Communicator for Functions {
    fn place(&self) -> Place {
        self.place
    }

    fn check_thread(&self) -> Result<()> {
        if self.thread.is_none_or(|thread| thread == this_thread()) {
            return Ok(());
        }
        Err(Error::precondition(
            "this communicator is used on the thread that made it alone, since its flags lack \
             UMBO_COMMUNICATOR_ANY_THREAD",
        ))
    }

    fn all_to_all(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<()> {
        let function = present(self.functions.all_to_all, "functions.all_to_all")?;
        let (send_counts, receive_counts) = (send_counts.as_ptr(), receive_counts.as_ptr());
        // SAFETY: the caller gave the function for this, with the user data; the slices are as long as
        // the counts add up to, and no count is more than an i64 holds.
        callback::run(|| unsafe {
            function(
                address(send),
                send_counts.cast(),
                address_mut(receive),
                receive_counts.cast(),
                self.user_data.pointer(),
            )
        })
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8], counts: &[usize]) -> Result<()> {
        let function = present(self.functions.all_gather, "functions.all_gather")?;
        // SAFETY: as above.
        callback::run(|| unsafe {
            function(
                address(send),
                address_mut(receive),
                counts.as_ptr().cast(),
                self.user_data.pointer(),
            )
        })
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        let Some(function) = self.functions.broadcast else {
            let mut counts = vec![0; self.place.size];
            counts[root] = bytes.len();
            if self.place.rank != root {
                return self.all_gather(&[], bytes, &counts);
            }
            // What is sent and what is received are different memory.
            let mut received = memory::list(bytes.len(), "bytes of a broadcast")?;
            received.resize(bytes.len(), 0);
            return self.all_gather(bytes, &mut received, &counts);
        };
        let (count, root) = (bytes.len() as i64, root as i64);
        // SAFETY: the caller gave the function for this, with the user data.
        callback::run(|| unsafe {
            function(address_mut(bytes), count, root, self.user_data.pointer())
        })
    }

    fn vote(&self, number: i64) -> Result<Vote> {
        let Some(function) = self.functions.vote else {
            let numbers = self.gather_numbers(number)?;
            let fold = |choose: fn(i64, i64) -> i64| numbers.iter().copied().fold(number, choose);
            return Ok(Vote { least: fold(i64::min), greatest: fold(i64::max) });
        };
        let (mut least, mut greatest) = (number, number);
        // SAFETY: as above.
        callback::run(|| unsafe {
            function(number, &raw mut least, &raw mut greatest, self.user_data.pointer())
        })?;
        Ok(Vote { least, greatest })
    }

    fn barrier(&self) -> Result<()> {
        match self.functions.barrier {
            // SAFETY: as above.
            Some(function) => callback::run(|| unsafe { function(self.user_data.pointer()) }),
            None => self.vote(0).map(drop),
        }
    }

    fn on_gpus(&self) -> Option<&dyn GpuCommunicator> {
        let takes_them = self.functions.flags & UMBO_COMMUNICATOR_DEVICE_POINTERS != 0;
        takes_them.then_some(self as &dyn GpuCommunicator)
    }

    fn abort(&self, error: &Error) {
        if let Some(function) = self.functions.abort {
            let message = c_string(error);
            // SAFETY: as above; the text lives until the function returns.
            unsafe { function(message.as_ptr(), self.user_data.pointer()) };
        }
    }
}

/// An address of a GPU for C: NULL if it is of no bytes.
fn on_gpu(memory: &DeviceMemory, counts: &[usize]) -> *mut c_void {
    match counts.iter().sum::<usize>() {
        0 => std::ptr::null_mut(),
        _ => std::ptr::with_exposed_provenance_mut(memory.address() as usize),
    }
}

/// The functions are the same; they get addresses of GPU memory that nothing is queued on.
impl GpuCommunicator for Functions {
    fn all_to_all_on_gpus(
        &self,
        send: &DeviceMemory,
        send_counts: &[usize],
        receive: &mut DeviceMemory,
        receive_counts: &[usize],
    ) -> Result<()> {
        let function = present(self.functions.all_to_all, "functions.all_to_all")?;
        let (from, to) = (on_gpu(send, send_counts), on_gpu(receive, receive_counts));
        let gpu = send.gpu();
        let _entered = gpu.card().enter()?;
        gpu.synchronize()?;
        let (send_counts, receive_counts) = (send_counts.as_ptr(), receive_counts.as_ptr());
        // SAFETY: the caller gave the function for this, with the user data, and said that it takes memory
        // of GPUs, of which there are as many bytes as the counts add up to.
        callback::run(|| unsafe {
            let data = self.user_data.pointer();
            function(from, send_counts.cast(), to, receive_counts.cast(), data)
        })
    }

    fn all_gather_on_gpus(
        &self,
        send: &DeviceMemory,
        receive: &mut DeviceMemory,
        counts: &[usize],
    ) -> Result<()> {
        let function = present(self.functions.all_gather, "functions.all_gather")?;
        let from = on_gpu(send, &counts[self.place.rank..=self.place.rank]);
        let to = on_gpu(receive, counts);
        let gpu = send.gpu();
        let _entered = gpu.card().enter()?;
        gpu.synchronize()?;
        // SAFETY: as above.
        callback::run(|| unsafe {
            function(from, to, counts.as_ptr().cast(), self.user_data.pointer())
        })
    }
}
