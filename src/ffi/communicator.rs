//! Communicators: what joins the processes of a training.

use std::slice;

use super::prelude::*;
use crate::cluster::checked::CheckedCommunicator;
use crate::cluster::communicator::Communicator;
use crate::error::{Error, Result, Status};

// Counts are handed over as they lie.
const _: () = assert!(size_of::<usize>() == size_of::<i64>());

/// Makes a communicator of functions of the program's.
///
/// @param[in] functions The functions, and where this process stands. The struct is copied.
/// @param[in] user_data What the functions are given.
/// @param[in] destroy Releases `user_data` when the communicator is gone, exactly once, on any
///   thread, also if this function fails. NULL: nothing to release.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a function that must be set is not, a flag is unknown,
///   or a rank is not among the ranks; or a null pointer.
#[c_call(gives(user_data, destroy), out(communicator), structure(functions))]
pub fn umbo_communicator_create(
    functions: *const umbo_communicator_functions,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    communicator: *mut *mut umbo_communicator,
) {
    let engine = Functions::new(functions, user_data)?;
    let checked =
        CheckedCommunicator::new(Box::new(engine)).map_err(|error| error.within("functions"))?;
    communicator.write(make(Arc::new(checked) as Arc<dyn Communicator>)?);
}

/// Where this process stands among the ranks. Start from UMBO_COMMUNICATOR_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_communicator_info {
    /// sizeof(umbo_communicator_info).
    pub struct_size: usize,
    /// The number of this rank, from 0.
    pub rank: i64,
    /// How many ranks there are, 1 or more.
    pub size: i64,
    /// The number of this rank among those of its machine, from 0.
    pub node_rank: i64,
    /// How many ranks are on this machine, 1 or more.
    pub node_size: i64,
}

/// Gets where this process stands among the ranks.
///
/// @param[out] info Its place. Start from UMBO_COMMUNICATOR_INFO_INIT, which sets its size.
#[c_call(result(info), borrow(communicator))]
pub fn umbo_communicator_get_info(
    communicator: *const umbo_communicator,
    info: *mut umbo_communicator_info,
) {
    let place = communicator.place();
    info.write(umbo_communicator_info {
        rank: communicator.rank() as i64,
        size: communicator.size() as i64,
        node_rank: place.node_rank as i64,
        node_size: place.node_size as i64,
        ..Default::default()
    });
}

/// The counts of all ranks, and their sum.
///
/// # Safety
/// `counts` is NULL or leads to `size` numbers that nobody writes during `'a`.
unsafe fn counts_of<'a>(
    counts: *const i64,
    size: usize,
    argument: &'static str,
) -> Result<(&'a [usize], usize)> {
    // SAFETY: the caller's promise is the same.
    let counts = unsafe { array(counts, (size as i64, argument), argument) }?;
    let mut sum = 0_i64;
    for (rank, &count) in counts.iter().enumerate() {
        natural::<usize>(count, argument).map_err(|error| error.within(format!("rank {rank}")))?;
        sum = sum.checked_add(count).ok_or_else(|| {
            Error::invalid(argument, "adds up to more bytes than there can be".to_owned())
        })?;
    }
    // SAFETY: a usize is as large as an i64, and none of the numbers is negative.
    let counts = unsafe { slice::from_raw_parts(counts.as_ptr().cast(), counts.len()) };
    Ok((counts, natural(sum, argument)?))
}

/// Bytes to be written, which may be NULL if there are none.
///
/// # Safety
/// `pointer` is NULL or leads to `bytes` bytes that are the caller's alone during `'a`.
unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    bytes: usize,
    argument: &'static str,
) -> Result<&'a mut [u8]> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    check(pointer.cast::<u8>(), argument, "a place for the bytes is expected")?;
    // SAFETY: the caller's promise, and the sum of counts fits in an i64.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), bytes) })
}

fn check_apart(send: *const c_void, sent: usize, receive: *mut c_void, room: usize) -> Result<()> {
    let (send, receive) = (send.addr(), receive.addr());
    let apart = send.saturating_add(sent) <= receive || receive.saturating_add(room) <= send;
    if apart || sent == 0 || room == 0 {
        return Ok(());
    }
    Err(Error::invalid("receive", "overlaps with `send`; other memory is expected"))
}

/// Sends a part of `send` to each rank, and receives one from each.
///
/// @param[in] send The parts to send, one behind the other in the order of the ranks. `send` may be
///   NULL if all are empty.
/// @param[in] send_counts How many bytes each part has; as many numbers as there are ranks.
/// @param[out] receive Gets the parts in the order of the ranks that sent them. Other memory than
///   `send`. `receive` may be NULL if all are empty.
/// @param[in] receive_counts How many bytes each part has; as many numbers as there are ranks.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a negative count, a count of this rank for itself that is not
///   the same on both sides, memory that overlaps, an invalid handle, or a null pointer.
/// - UMBO_STATUS_FAILED_PRECONDITION: another call of the communicator is in progress, or this is
///   not the thread that it is for.
/// - UMBO_STATUS_UNAVAILABLE: an earlier call has failed.
/// - What the engine says, such as UMBO_STATUS_DEADLINE_EXCEEDED.
///
/// Collective: all ranks call it, in the same order among their calls.
#[c_call(get(communicator))]
pub fn umbo_communicator_all_to_all(
    communicator: *mut umbo_communicator,
    send: *const c_void,
    send_counts: *const i64,
    receive: *mut c_void,
    receive_counts: *const i64,
) {
    let size = communicator.size();
    // SAFETY: the caller promises as many numbers as there are ranks.
    let ((send_counts, sent), (receive_counts, room)) = unsafe {
        (
            counts_of(send_counts, size, "send_counts")?,
            counts_of(receive_counts, size, "receive_counts")?,
        )
    };
    check_apart(send, sent, receive, room)?;
    // SAFETY: the caller promises as many bytes as the counts add up to; they were checked to be apart.
    let (send, receive) = unsafe {
        (
            array(send.cast::<u8>(), (sent as i64, "send_counts"), "send")?,
            bytes_mut(receive, room, "receive")?,
        )
    };
    communicator.all_to_all(send, send_counts, receive, receive_counts)
}

/// Receives what every rank sends.
///
/// @param[in] send What this rank sends. `send` may be NULL if it is empty.
/// @param[out] receive Gets what the ranks send, one behind the other in their order. Other memory
///   than `send`. `receive` may be NULL if all are empty.
/// @param[in] counts How many bytes each rank sends; as many numbers as there are ranks, the same
///   on all of them.
/// @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
///
/// Collective: all ranks call it, in the same order among their calls.
#[c_call(get(communicator))]
pub fn umbo_communicator_all_gather(
    communicator: *mut umbo_communicator,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const i64,
) {
    // SAFETY: the caller promises as many numbers as there are ranks.
    let (counts, room) = unsafe { counts_of(counts, communicator.size(), "counts") }?;
    let sent = counts[communicator.rank()];
    check_apart(send, sent, receive, room)?;
    // SAFETY: the caller promises as many bytes as the counts say; they were checked to be apart.
    let (send, receive) = unsafe {
        (
            array(send.cast::<u8>(), (sent as i64, "send_counts"), "send")?,
            bytes_mut(receive, room, "receive")?,
        )
    };
    communicator.all_gather(send, receive, counts)
}

/// Sends what a rank has to all others.
///
/// @param[in,out] data What rank `root` sends, and where the others get it. `data` may be NULL if
///   `bytes` is 0.
/// @param[in] bytes How many bytes it has, on all ranks.
/// @param[in] root The rank that sends.
/// @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
///
/// Collective: all ranks call it, in the same order among their calls.
#[c_call(get(communicator), natural(bytes), natural(root))]
pub fn umbo_communicator_broadcast(
    communicator: *mut umbo_communicator,
    data: *mut c_void,
    bytes: i64,
    root: i64,
) {
    // SAFETY: the caller promises so many bytes.
    let data = unsafe { bytes_mut(data, bytes, "data") }?;
    communicator.broadcast(data, root)
}

/// Finds the least and the greatest of the ranks' numbers.
///
/// @param[in] number This rank's number.
/// @param[out] least The least of all.
/// @param[out] greatest The greatest of all.
/// @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
///
/// Collective: all ranks call it, in the same order among their calls.
#[c_call(out(least), out(greatest), get(communicator))]
pub fn umbo_communicator_vote(
    communicator: *mut umbo_communicator,
    number: i64,
    least: *mut i64,
    greatest: *mut i64,
) {
    let vote = communicator.vote(number)?;
    least.write(vote.least);
    greatest.write(vote.greatest);
}

/// Waits until all ranks have called it.
///
/// @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
///
/// Collective: all ranks call it, in the same order among their calls.
#[c_call(get(communicator))]
pub fn umbo_communicator_barrier(communicator: *mut umbo_communicator) {
    communicator.barrier()
}

/// Tells the other ranks that this one cannot go on, so that they need not wait for it.
///
/// @param[in] message Why. The engine may pass it on or print it.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `communicator` is not a valid handle, or `message` is a
///   null pointer.
///
/// Engines whose jobs end as one, such as MPI, end this process and the others. Where the function
/// returns, the communicator is of no further use on this rank.
#[c_call(text(message), get(communicator))]
pub fn umbo_communicator_abort(communicator: *mut umbo_communicator, message: *const c_char) {
    let message = message.to_owned();
    communicator.abort(&Error::Callback { status: Status::Aborted, message, payload: None });
}
