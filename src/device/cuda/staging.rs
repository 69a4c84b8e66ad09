//! Copies between a GPU and memory of the host that the driver may know nothing of: through two blocks
//! of pinned memory, one of which is copied by the processor while the GPU copies the other.

use std::ptr;

use cudarc::driver::result::{self, DriverError, event};
use cudarc::driver::sys;

use super::gpu::Gpu;
use super::memory::PinnedMemory;
use crate::error::Result;

/// The largest block, in bytes: long enough for the bus's full rate, short enough to stay in a cache.
const LARGEST: usize = 4 << 20;

/// The smallest.
const SMALLEST: usize = 64 << 10;

/// Two blocks, in turn.
#[derive(Debug)]
pub(super) struct Staging {
    halves: [Half; 2],
    bytes: usize,
}

#[derive(Debug)]
struct Half {
    memory: PinnedMemory,
    /// Comes when the GPU has made the last copy from or to the block.
    event: sys::CUevent,
    gpu: &'static Gpu,
}

// SAFETY: the event belongs to the card's context, and every thread may wait for it.
unsafe impl Send for Half {}

impl Half {
    fn new(gpu: &'static Gpu, bytes: usize) -> Result<Half> {
        let memory = PinnedMemory::new(gpu, bytes)?;
        let event = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
            .map_err(|error| gpu.card().failed("making an event", error))?;
        Ok(Half { memory, event, gpu })
    }

    /// Notes that the stream's last copy is of this block. If that cannot be noted it is waited for,
    /// so that nobody uses the block too early.
    fn record(&self) -> Result<(), DriverError> {
        // SAFETY: both are of the card's context, and live.
        let recorded = unsafe { event::record(self.event, self.gpu.stream()) };
        if recorded.is_err() {
            // If this fails, too, the card is lost, and nobody uses the block.
            let _ = self.gpu.settle();
        }
        recorded
    }

    /// Waits for that copy.
    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the event lives. One that was never recorded has come.
        unsafe { event::synchronize(self.event) }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let Ok(_entered) = self.gpu.card().enter() else { return };
        // SAFETY: nobody uses it any more.
        let _ = unsafe { event::destroy(self.event) };
    }
}

impl Staging {
    /// Blocks in `place` that suit copies of `bytes` bytes, or the shorter ones that are there if no
    /// others are to be had. The GPU's context is current.
    pub(super) fn of<'a>(
        gpu: &'static Gpu,
        place: &'a mut Option<Staging>,
        bytes: usize,
    ) -> Result<&'a mut Staging> {
        let wanted = bytes.next_power_of_two().clamp(SMALLEST, LARGEST);
        if place.as_ref().is_none_or(|staging| staging.bytes < wanted) {
            let halves = Half::new(gpu, wanted).and_then(|one| Ok([one, Half::new(gpu, wanted)?]));
            match halves {
                Ok(halves) => *place = Some(Staging { halves, bytes: wanted }),
                // More parts, then.
                Err(_) if place.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        match place {
            Some(staging) => Ok(staging),
            None => unreachable!("it was just made"),
        }
    }

    /// Where the parts of a copy of `bytes` bytes begin, and how long they are.
    fn parts(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let part = self.bytes;
        (0..bytes).step_by(part).map(move |start| (start, part.min(bytes - start)))
    }

    /// See [`Gpu::upload`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn upload(
        &mut self,
        gpu: &Gpu,
        from: *const u8,
        to: u64,
        bytes: usize,
    ) -> Result<()> {
        for (number, (start, length)) in self.parts(bytes).enumerate() {
            let half = &self.halves[number % 2];
            // SAFETY: the block is not in use once its event has come, and is at least as long as a
            // part; the rest is the caller's promise.
            let copied = half.wait().and_then(|()| unsafe {
                ptr::copy_nonoverlapping(from.add(start), half.memory.data(), length);
                let block = std::slice::from_raw_parts(half.memory.data(), length);
                gpu.noted(("copy to the GPU", "copy"), length, || {
                    result::memcpy_htod_async(to + start as u64, block, gpu.stream())
                })?;
                half.record()
            });
            copied.map_err(|error| gpu.card().failed("a copy to it", error))?;
        }
        Ok(())
    }

    /// See [`Gpu::download`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn download(
        &mut self,
        gpu: &Gpu,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<()> {
        let failed = |error| gpu.card().failed("a copy from it", error);
        let mut arriving: Option<(usize, usize, usize)> = None;
        for (number, (start, length)) in self.parts(bytes).enumerate() {
            let half = &self.halves[number % 2];
            half.wait().map_err(failed)?;
            // SAFETY: the block is not in use, and is at least as long as a part.
            unsafe {
                let block = std::slice::from_raw_parts_mut(half.memory.data(), length);
                gpu.noted(("copy from the GPU", "copy"), length, || {
                    result::memcpy_dtoh_async(block, from + start as u64, gpu.stream())
                })
            }
            .and_then(|()| half.record())
            .map_err(failed)?;
            if let Some(part) = arriving.replace((number, start, length)) {
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

    /// Waits for a part and copies it to its place.
    ///
    /// # Safety
    /// The part's range from `to` on can be written.
    unsafe fn take(
        &self,
        (number, start, length): (usize, usize, usize),
        to: *mut u8,
    ) -> Result<(), DriverError> {
        let half = &self.halves[number % 2];
        half.wait()?;
        // SAFETY: the copy into the block is done; the rest is the caller's promise.
        unsafe { ptr::copy_nonoverlapping(half.memory.data(), to.add(start), length) };
        Ok(())
    }
}
