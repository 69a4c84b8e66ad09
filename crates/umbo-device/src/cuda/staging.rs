//! Copies between a GPU and memory of the host that need not be registered with the driver. They go
//! through two blocks of pinned memory: the processor copies one block while the GPU copies the
//! other.

use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaEvent, PinnedHostSlice};

use super::stream::Stream;
use umbo_base::error::Result;

/// The largest block, in bytes. It is long enough for the bus's full rate, and short enough to stay
/// in a cache.
const LARGEST: usize = 4 << 20;

/// The smallest block, in bytes.
const SMALLEST: usize = 64 << 10;

/// Two blocks, which are used in turn.
#[derive(Debug)]
pub(super) struct Staging {
    halves: [Half; 2],
    bytes: usize,
}

#[derive(Debug)]
struct Half {
    memory: PinnedHostSlice<u8>,
    /// Signals that the GPU has made the last copy from or to the block. The event that `memory`
    /// itself has is not recorded while cudarc's implicit events are off.
    event: CudaEvent,
}

impl Half {
    fn new(stream: &Stream, bytes: usize) -> Result<Half> {
        let context = stream.card().context();
        // No flags: the memory is neither mapped for the device nor write-combined.
        // SAFETY: the memory is read only after it was written.
        let memory = unsafe { context.alloc_pinned_with_flags(bytes, 0) };
        let half = memory.and_then(|memory| {
            Ok(Half {
                memory,
                event: context.new_event(None)?,
            })
        });
        half.map_err(|error| {
            stream
                .card()
                .failed(&format!("{bytes} bytes of pinned host memory"), error)
        })
    }

    /// Records that the stream's last copy uses this block. If this fails it waits for the copy, so
    /// that nobody uses the block too early.
    fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        self.event.record(stream.queue()).inspect_err(|_| {
            // If this fails, too, the card is lost, and nobody uses the block.
            let _ = stream.finish();
        })
    }

    /// The block, once that copy is done. An event that was never recorded counts as done.
    fn block(&mut self) -> Result<&mut [u8], DriverError> {
        self.event.synchronize()?;
        self.memory.as_mut_slice()
    }
}

impl Staging {
    /// Blocks in `place` that fit copies of `bytes` bytes. If longer blocks cannot be allocated,
    /// the shorter ones that exist are used. The GPU's context is current.
    pub(super) fn of<'a>(
        stream: &Stream,
        place: &'a mut Option<Staging>,
        bytes: usize,
    ) -> Result<&'a mut Staging> {
        let wanted = bytes.next_power_of_two().clamp(SMALLEST, LARGEST);
        if place.as_ref().is_none_or(|staging| staging.bytes < wanted) {
            let halves =
                Half::new(stream, wanted).and_then(|one| Ok([one, Half::new(stream, wanted)?]));
            match halves {
                Ok(halves) => {
                    let others = place.replace(Staging {
                        halves,
                        bytes: wanted,
                    });
                    others.into_iter().for_each(|others| others.release(stream));
                }
                // The shorter blocks are used, in more parts.
                Err(_) if place.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        match place {
            Some(staging) => Ok(staging),
            None => unreachable!("it was just made"),
        }
    }

    /// Frees the blocks once no copy uses them. If this cannot be waited for, they are leaked, so
    /// that the copies can still use them.
    pub(super) fn release(self, stream: &Stream) {
        match stream.card().enter() {
            Ok(_entered) if stream.finish().is_ok() => {
                drop(self);
                // A failure is not reported here: it may belong to an earlier call, and the next
                // call reports it, too.
                let _ = stream.card().context().check_err();
            }
            _ => std::mem::forget(self),
        }
    }

    /// The start and the length of each part of a copy of `bytes` bytes.
    fn parts(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let part = self.bytes;
        (0..bytes)
            .step_by(part)
            .map(move |start| (start, part.min(bytes - start)))
    }

    /// See [`Gpu::upload`](super::gpu::Gpu::upload).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn upload(
        &mut self,
        stream: &Stream,
        from: *const u8,
        to: u64,
        bytes: usize,
    ) -> Result<()> {
        for (number, (start, length)) in self.parts(bytes).enumerate() {
            let half = &mut self.halves[number % 2];
            let copied = half.block().and_then(|block| {
                let block = &mut block[..length];
                // SAFETY: the caller's promise; the block is as long as the part.
                unsafe { ptr::copy_nonoverlapping(from.add(start), block.as_mut_ptr(), length) };
                // SAFETY: the caller's promise; the block is not changed before its event has come.
                stream.noted("copy to the GPU", "copy", length, || unsafe {
                    result::memcpy_htod_async(to + start as u64, block, stream.raw())
                })
            });
            let copied = copied.and_then(|()| half.record(stream));
            copied.map_err(|error| stream.card().failed("a copy to it", error))?;
        }
        Ok(())
    }

    /// See [`Gpu::download`](super::gpu::Gpu::download).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn download(
        &mut self,
        stream: &Stream,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<()> {
        let failed = |error| stream.card().failed("a copy from it", error);
        let mut arriving: Option<ArrivingPart> = None;
        for (number, (start, length)) in self.parts(bytes).enumerate() {
            let half = &mut self.halves[number % 2];
            let copied = half.block().and_then(|block| {
                // SAFETY: the caller's promise; the block is not used until its event has come.
                stream.noted("copy from the GPU", "copy", length, || unsafe {
                    let block = &mut block[..length];
                    result::memcpy_dtoh_async(block, from + start as u64, stream.raw())
                })
            });
            copied.and_then(|()| half.record(stream)).map_err(failed)?;
            if let Some(part) = arriving.replace(ArrivingPart {
                number,
                start,
                length,
            }) {
                // SAFETY: the caller's promise.
                unsafe { self.take(part, to) }.map_err(failed)?;
            }
        }
        match arriving {
            // SAFETY: the caller's promise.
            Some(part) => unsafe { self.take(part, to) }.map_err(failed),
            None => Ok(()),
        }
    }

    /// Waits for a part and copies it to its place in the target.
    ///
    /// # Safety
    /// The part's range from `to` on can be written.
    unsafe fn take(&mut self, part: ArrivingPart, to: *mut u8) -> Result<(), DriverError> {
        let block = self.halves[part.number % 2].block()?;
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to.add(part.start), part.length) };
        Ok(())
    }
}

/// A part of a copy from the GPU that arrives in one of the halves.
struct ArrivingPart {
    /// The number of the part in the copy.
    number: usize,
    /// The position of its first byte in the target.
    start: usize,
    /// How many bytes it has.
    length: usize,
}
