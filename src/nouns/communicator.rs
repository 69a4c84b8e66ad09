//! Communicators: what joins the processes of a training.

use std::slice;

use crate::machinery::prelude::*;
use umbo_core::cluster::checked::CheckedCommunicator;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::error::{Error, Result, Status};

/// Creates a communicator of functions of the program.
///
/// @param[in] functions The functions, and the place of this process. The struct is copied.
/// @param[in] destroy Releases `user_data` when the communicator has ended. May be NULL.
/// @return UMBO_STATUS_INVALID_ARGUMENT: a function that must be set is NULL, an unknown flag, or a
///   rank that is not less than its number of ranks.
#[c_call(owned(user_data, destroy), out(communicator), structure(functions))]
pub fn umbo_communicator_create(
    functions: *const umbo_communicator_functions,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    communicator: *mut *mut umbo_communicator,
) {
    let engine = ProgramEngine::new(functions, user_data)?;
    let checked =
        CheckedCommunicator::new(Box::new(engine)).map_err(|error| error.within("functions"))?;
    communicator.write(make(Arc::new(checked) as Arc<dyn Communicator>)?);
}

/// The place of this process among the ranks.
#[c_struct]
pub struct umbo_communicator_info {
    /// The rank of this process, from 0.
    pub rank: i64,
    /// The number of ranks, 1 or more.
    pub rank_count: i64,
    /// The position of this rank among those of its machine, from 0.
    pub node_rank: i64,
    /// The number of ranks on this machine, 1 or more.
    pub node_rank_count: i64,
}

/// Gets the place of this process among the ranks.
#[c_call(result(info), borrow(communicator))]
pub fn umbo_communicator_get_info(
    communicator: *const umbo_communicator,
    info: *mut umbo_communicator_info,
) {
    let place = communicator.place();
    info.write(umbo_communicator_info {
        rank: communicator.rank() as i64,
        rank_count: communicator.size() as i64,
        node_rank: place.node_rank as i64,
        node_rank_count: place.node_size as i64,
        ..Default::default()
    });
}

/// The bytes of all ranks, and their sum.
///
/// # Safety
/// `bytes` is NULL or leads to `size` numbers that nobody writes during `'a`.
unsafe fn bytes_of<'a>(
    bytes: *const usize,
    size: usize,
    argument: &'static str,
) -> Result<(&'a [usize], usize)> {
    // SAFETY: the caller's promise is the same.
    let bytes = unsafe { array(bytes, Count::new(size as i64, argument), argument) }?;
    let add = |sum: usize, &one: &usize| {
        sum.checked_add(one)
            .filter(|&sum| sum <= isize::MAX as usize)
    };
    let sum = bytes.iter().try_fold(0, add);
    let problem = || invalid!(argument, "adds up to more bytes than there can be");
    Ok((bytes, sum.ok_or_else(problem)?))
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
    if bytes > isize::MAX as usize {
        return Err(invalid!(argument, "of more bytes than there can be"));
    }
    check(
        pointer.cast::<u8>(),
        argument,
        "a place for the bytes is expected",
    )?;
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), bytes) })
}

/// The bytes to send, and the place for those to receive, which must lie apart.
///
/// # Safety
/// Both are NULL or lead to so many bytes, and those to receive are the caller's alone during `'a`.
unsafe fn both<'a>(
    send: *const c_void,
    sent: Count<usize>,
    receive: *mut c_void,
    capacity: usize,
) -> Result<(&'a [u8], &'a mut [u8])> {
    let from = send.addr();
    let to = receive.addr();
    let apart = from.saturating_add(sent.number) <= to || to.saturating_add(capacity) <= from;
    if !apart && sent.number > 0 && capacity > 0 {
        return Err(invalid!(
            "receive",
            "overlaps with `send`; other memory is expected"
        ));
    }
    // SAFETY: the caller's promise; they were checked to be apart.
    unsafe {
        let bytes = Count::new(sent.number as i64, sent.argument);
        let send = array(send.cast::<u8>(), bytes, "send")?;
        Ok((send, bytes_mut(receive, capacity, "receive")?))
    }
}

/// Sends a part of `send` to each rank, and receives one from each.
///
/// @param[in] send_bytes The size of each part; as many numbers as ranks.
/// @param[in] send The parts in rank order, one after the other. NULL if all are empty.
/// @param[in] receive_bytes The size of each part to receive. This rank's own is the same on both
///   sides.
/// @param[out] receive Gets the parts in the order of the ranks that sent them; apart from `send`.
///   NULL if all are empty.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: sizes that do not fit, or memory that overlaps.
/// - UMBO_STATUS_FAILED_PRECONDITION: another call of the communicator is in progress, or this is
///   not its thread.
/// - UMBO_STATUS_UNAVAILABLE: an earlier call has failed.
/// - What the engine returns, such as UMBO_STATUS_DEADLINE_EXCEEDED.
///
/// Collective.
#[c_call(get(communicator))]
pub fn umbo_communicator_all_to_all(
    communicator: *mut umbo_communicator,
    send_bytes: *const usize,
    send: *const c_void,
    receive_bytes: *const usize,
    receive: *mut c_void,
) {
    let size = communicator.size();
    // SAFETY: the caller promises as many numbers as there are ranks.
    let ((send_bytes, sent), (receive_bytes, capacity)) = unsafe {
        (
            bytes_of(send_bytes, size, "send_bytes")?,
            bytes_of(receive_bytes, size, "receive_bytes")?,
        )
    };
    // SAFETY: the caller promises as many bytes as the sizes say.
    let (send, receive) = unsafe { both(send, Count::new(sent, "send_bytes"), receive, capacity) }?;
    communicator.all_to_all(send, send_bytes, receive, receive_bytes)
}

/// Receives what each rank sends.
///
/// @param[in] bytes How much each rank sends; as many numbers as ranks, the same on all.
/// @param[in] send What this rank sends. NULL if it is empty.
/// @param[out] receive Gets what the ranks send, in rank order, one after the other; apart from
///   `send`. NULL if all is empty.
/// @return That of umbo_communicator_all_to_all().
///
/// Collective.
#[c_call(get(communicator))]
pub fn umbo_communicator_all_gather(
    communicator: *mut umbo_communicator,
    bytes: *const usize,
    send: *const c_void,
    receive: *mut c_void,
) {
    // SAFETY: the caller promises as many numbers as there are ranks.
    let (bytes, capacity) = unsafe { bytes_of(bytes, communicator.size(), "bytes") }?;
    let sent = bytes[communicator.rank()];
    // SAFETY: the caller promises as many bytes as the sizes say.
    let (send, receive) = unsafe { both(send, Count::new(sent, "bytes"), receive, capacity) }?;
    communicator.all_gather(send, receive, bytes)
}

/// Sends what one rank has to all others.
///
/// @param[in] root The rank that sends.
/// @param[in] bytes The size of `data`, the same on all ranks.
/// @param[in,out] data What `root` sends, and where the others get it. NULL if it is empty.
/// @return That of umbo_communicator_all_to_all().
///
/// Collective.
#[c_call(get(communicator), natural(root))]
pub fn umbo_communicator_broadcast(
    communicator: *mut umbo_communicator,
    root: i64,
    bytes: usize,
    data: *mut c_void,
) {
    // SAFETY: the caller promises so many bytes.
    let data = unsafe { bytes_mut(data, bytes, "data") }?;
    communicator.broadcast(data, root)
}

/// Gets the least and the greatest of the numbers of all ranks. Collective.
///
/// @return That of umbo_communicator_all_to_all().
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

/// Waits until all ranks have called it. Collective.
///
/// @return That of umbo_communicator_all_to_all().
#[c_call(get(communicator))]
pub fn umbo_communicator_barrier(communicator: *mut umbo_communicator) {
    communicator.barrier()
}

/// Announces to the other ranks that this one cannot continue, so that they need not wait for it.
///
/// @param[in] message Why. The engine may pass it on or print it.
///
/// MPI and other engines whose jobs end as one end this process and the others. If it returns, the
/// communicator can no longer be used on this rank.
#[c_call(text(message), get(communicator))]
pub fn umbo_communicator_abort(communicator: *mut umbo_communicator, message: *const c_char) {
    let message = message.to_owned();
    communicator.abort(&Error::Callback {
        status: Status::Aborted,
        message,
        payload: None,
    });
}
