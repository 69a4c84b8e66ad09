//! A rank's membership in a communicator of NCCL. None of NCCL's calls waits. This module waits for
//! their work, up to a deadline, and gives it up by ending the communicator.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use super::functions::{Comm, Config, Functions, IN_PROGRESS, SUCCESS, UINT8, UniqueId};
use umbo_base::error::{Error, Result};
use umbo_device::backend::Backend;

/// A part that goes to a rank or comes from it.
#[derive(Clone, Copy)]
pub struct MessagePart {
    pub peer: usize,
    /// Its address on the GPU.
    pub address: u64,
    pub bytes: usize,
}

/// One rank's membership.
pub struct Membership {
    nccl: Functions,
    /// The place where NCCL stores the communicator. NCCL may store it once more, on its own
    /// thread, when all ranks have joined.
    comm: Box<AtomicPtr<c_void>>,
    has_ended: AtomicBool,
    /// A GPU of the card for which the communicator was made.
    pub gpu: &'static dyn Backend,
    rank: usize,
    /// How long to wait; `None` means without a limit.
    timeout: Option<Duration>,
    /// Whether all ranks have joined, and all of them have learned it. They then end the
    /// communicator together.
    pub is_whole: bool,
}

impl Membership {
    /// Begins to join the other ranks, which all call this with the same `id`.
    /// [`Membership::await_all`] completes it.
    pub fn join(
        nccl: Functions,
        id: UniqueId,
        rank: usize,
        size: usize,
        gpu: &'static dyn Backend,
        timeout: Option<Duration>,
    ) -> Result<Membership> {
        let number = |number: usize| {
            c_int::try_from(number)
                .map_err(|_| Error::Unavailable(format!("NCCL takes no {number} ranks")))
        };
        let number_of_rank = number(rank)?;
        let number_of_ranks = number(size)?;
        let mut config = Config::without_waiting();
        let comm = Box::new(AtomicPtr::new(ptr::null_mut()));
        let _entered = gpu.enter()?;
        // SAFETY: the card's context is current. The config is read only during the call. The
        // communicator's place stays until the communicator has ended.
        let code = unsafe {
            (nccl.comm_init_rank_config)(
                comm.as_ptr(),
                number_of_ranks,
                id,
                number_of_rank,
                &raw mut config,
            )
        };
        let made = Membership {
            nccl,
            comm,
            has_ended: AtomicBool::new(false),
            gpu,
            rank,
            timeout,
            is_whole: false,
        };
        // If this fails, dropping `made` ends what was begun.
        nccl.check(code, "ncclCommInitRankConfig")?;
        Ok(made)
    }

    /// Waits until all ranks have joined.
    pub fn await_all(&self) -> Result<()> {
        let joined = self.wait("for all ranks to join NCCL's communicator", || Ok(true));
        // This happens before the other ranks learn of the failure: they may be waiting for this
        // rank.
        joined.inspect_err(|_| self.abort())
    }

    /// Queues the sending of `sends` and the receiving of `receives` on the stream of a GPU of the
    /// card.
    ///
    /// # Safety
    /// The parts lie in memory of the GPU, which stays until its stream has come past them or the
    /// membership has ended.
    pub unsafe fn begin(
        &self,
        gpu: &dyn Backend,
        sends: &[MessagePart],
        receives: &[MessagePart],
    ) -> Result<()> {
        if sends.is_empty() && receives.is_empty() {
            return Ok(());
        }
        let nccl = &self.nccl;
        let comm = self.comm()?;
        let _entered = self.gpu.enter()?;
        let stream = gpu.queue_handle();
        let address =
            |part: &MessagePart| ptr::with_exposed_provenance_mut::<c_void>(part.address as usize);
        // SAFETY: a group may be begun at any time. It is ended in this function in every case.
        nccl.check(unsafe { (nccl.group_start)() }, "ncclGroupStart")?;
        let send = |part: &MessagePart| {
            let at = address(part);
            let peer = part.peer as c_int;
            // SAFETY: the caller's promise.
            let code = unsafe { (nccl.send)(at, part.bytes, UINT8, peer, comm, stream) };
            nccl.check(
                code,
                format_args!("ncclSend of {} bytes to rank {peer}", part.bytes),
            )
        };
        let receive = |part: &MessagePart| {
            let at = address(part);
            let peer = part.peer as c_int;
            // SAFETY: as above.
            let code = unsafe { (nccl.recv)(at, part.bytes, UINT8, peer, comm, stream) };
            nccl.check(
                code,
                format_args!("ncclRecv of {} bytes from rank {peer}", part.bytes),
            )
        };
        let queued = receives
            .iter()
            .try_for_each(receive)
            .and_then(|()| sends.iter().try_for_each(send));
        // SAFETY: the group was begun on this thread.
        let ended = nccl.check(unsafe { (nccl.group_end)() }, "ncclGroupEnd");
        queued.and(ended)
    }

    /// Waits until the begun work, and all work that was queued on the GPU before, is done.
    pub fn finish(&self, gpu: &dyn Backend) -> Result<()> {
        let arrived = self.wait("for bytes to go between GPUs", || gpu.is_done());
        // This happens before the other ranks learn of the failure: they may be waiting for bytes
        // of this rank.
        arrived.inspect_err(|_| self.abort())
    }

    /// Waits until NCCL has no call in progress and `is_done` returns true. The stream does not
    /// show that a peer has ended, and NCCL does not show the state of the stream, so both are
    /// asked.
    fn wait(&self, what_for: &str, is_done: impl Fn() -> Result<bool>) -> Result<()> {
        let comm = self.comm()?;
        let deadline = self
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let _entered = self.gpu.enter()?;
        let mut idle = 0_u32;
        loop {
            let mut state = IN_PROGRESS;
            // SAFETY: the communicator has not ended.
            let code = unsafe { (self.nccl.comm_get_async_error)(comm, &raw mut state) };
            self.nccl.check(code, "ncclCommGetAsyncError")?;
            self.nccl.check(state, "what NCCL has begun has failed")?;
            if state == SUCCESS && is_done()? {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::DeadlineExceeded(format!(
                    "rank {} has waited {:?} {what_for}",
                    self.rank,
                    self.timeout.unwrap_or_default()
                )));
            }
            match idle {
                0..100 => std::hint::spin_loop(),
                100..2000 => thread::yield_now(),
                2000..10_000 => thread::sleep(Duration::from_micros(50)),
                _ => thread::sleep(Duration::from_micros(500)),
            }
            idle = idle.saturating_add(1);
        }
    }

    fn comm(&self) -> Result<Comm> {
        let comm = self.comm.load(Ordering::Acquire);
        if comm.is_null() || self.has_ended.load(Ordering::Relaxed) {
            return Err(Error::Unavailable(
                "NCCL's communicator has ended after a failure".into(),
            ));
        }
        Ok(comm)
    }

    /// Ends the communicator. Work in progress stops where it is, and no longer uses the memory
    /// that was to be moved.
    pub fn abort(&self) {
        self.end(self.nccl.comm_abort);
    }

    fn end(&self, how: unsafe extern "C" fn(Comm) -> c_int) {
        let comm = self.comm.load(Ordering::Acquire);
        let had_ended = self.has_ended.swap(true, Ordering::Relaxed);
        if comm.is_null() || had_ended {
            return;
        }
        // The communicator is ended also on a card that is lost.
        let _entered = self.gpu.enter();
        // SAFETY: NCCL made the communicator; it has not ended, and is not used any more.
        let _ = unsafe { how(comm) };
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // All begun work is done, or the communicator has ended. If not all ranks have joined, it
        // can only be aborted.
        match self.is_whole {
            true => self.end(self.nccl.comm_destroy),
            false => self.abort(),
        }
    }
}
