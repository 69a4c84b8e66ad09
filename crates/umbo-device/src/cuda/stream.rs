//! The stream of a logical GPU, and its records for the trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::result::DriverError;
use cudarc::driver::{CudaEvent, CudaStream, sys};

use super::physical_gpu::PhysicalGpu;
use super::timeline::{MOST, Noted, Timeline};
use crate::DeviceId;
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_base::observe::{self, trace};

/// The stream of a logical GPU.
#[derive(Debug)]
pub(super) struct Stream {
    /// The GPU's name.
    id: DeviceId,
    card: &'static PhysicalGpu,
    queue: Arc<CudaStream>,
    /// Recorded at the last place that was marked.
    marked: CudaEvent,
    /// How many places were marked.
    marks: AtomicU64,
    /// The last place that the stream is known to have passed.
    passed: AtomicU64,
    /// The work that is queued and not yet in the trace.
    timeline: Mutex<Timeline>,
}

impl Stream {
    /// The stream of the GPU `id`, with an event of its own for places in it.
    pub(super) fn new(
        id: DeviceId,
        card: &'static PhysicalGpu,
        queue: Arc<CudaStream>,
        marked: CudaEvent,
    ) -> Stream {
        Stream {
            id,
            card,
            queue,
            marked,
            marks: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            timeline: Mutex::default(),
        }
    }

    /// The card to which it belongs.
    pub(super) fn card(&self) -> &'static PhysicalGpu {
        self.card
    }

    pub(super) fn queue(&self) -> &Arc<CudaStream> {
        &self.queue
    }

    /// The driver's handle of the stream.
    pub(super) fn raw(&self) -> sys::CUstream {
        self.queue.cu_stream()
    }

    /// Calls the driver while the card's context is current.
    pub(super) fn call<T>(
        &self,
        doing: &str,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T> {
        let _entered = self.card.enter()?;
        call().map_err(|error| self.card.failed(doing, error))
    }

    /// Waits until everything that was queued is done. Errors of that work are reported here.
    pub(super) fn synchronize(&self) -> Result<()> {
        let _waiting = observe::share("wait for the GPU's stream");
        let marks = self.marks.load(Ordering::Acquire);
        self.call("waiting for its work", || self.queue.synchronize())?;
        self.passed.fetch_max(marks, Ordering::Release);
        if trace::is_on() {
            self.write_times();
        }
        Ok(())
    }

    /// Waits like [`Stream::synchronize`]. Used before something is released that queued work uses,
    /// if nothing else says how long it is used. A failure may belong to an earlier call, so
    /// the wait is tried again. A card that cannot be waited for is lost: nothing on it is
    /// freed or written any more.
    pub(super) fn finish(&self) -> Result<()> {
        let finished = self.synchronize().or_else(|_| self.synchronize());
        finished.inspect_err(|_| self.card.give_up("what it does could not be waited for"))
    }

    /// Marks the place behind what was queued, from 1 on. If that fails, everything that was queued
    /// is done, or the card is lost.
    pub(super) fn mark(&self) -> Result<u64> {
        let recorded = self.call("noting how far it is", || self.marked.record(&self.queue));
        if recorded.is_err() {
            return self.finish().and(recorded.map(|()| 0));
        }
        // Another thread may have recorded the event later; it is never recorded earlier.
        Ok(self.marks.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Waits until the stream has come past a marked place; place 0 is its beginning. A card that
    /// cannot be waited for is lost.
    pub(super) fn wait_past(&self, place: u64) -> Result<()> {
        if self.passed.load(Ordering::Acquire) >= place {
            return Ok(());
        }
        let _waiting = observe::share("wait for the GPU's stream");
        let marks = self.marks.load(Ordering::Acquire);
        let waited = self.call("waiting for a copy to it", || self.marked.synchronize());
        if waited.is_err() {
            return self.finish();
        }
        self.passed.fetch_max(marks, Ordering::Release);
        Ok(())
    }

    /// Whether everything that was queued is done. It does not wait. Errors of that work are
    /// reported here.
    pub(super) fn is_done(&self) -> Result<bool> {
        // SAFETY: the stream is this GPU's and alive.
        let asked = self.call("asking for its work", || unsafe {
            match sys::cuStreamQuery(self.raw()) {
                sys::cudaError_enum::CUDA_ERROR_NOT_READY => Ok(false),
                other => other.result().map(|()| true),
            }
        })?;
        if asked && trace::is_on() {
            self.write_times();
        }
        Ok(asked)
    }

    /// Calls `queue` to queue something on the stream, and records it for the trace, if there is
    /// one. The card's context is current. A failure to record has no other effect.
    #[inline]
    pub(super) fn noted<T>(
        &self,
        name: &'static str,
        category: &'static str,
        bytes: usize,
        queue: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        if !trace::is_on() {
            return queue();
        }
        // Other threads that queue meanwhile wait, so that spans do not overlap.
        let mut timeline = self.timeline.lock();
        let start = timeline.record(&self.queue);
        let queued = queue();
        let Some(start) = start else { return queued };
        match timeline.record(&self.queue) {
            Some(end) if queued.is_ok() => {
                let bytes = bytes as u64;
                timeline.pending.push(Noted {
                    name,
                    category,
                    bytes,
                    start,
                    end,
                });
            }
            end => timeline.spare.extend(end.into_iter().chain([start])),
        }
        let is_full = timeline.pending.len() >= MOST;
        drop(timeline);
        if is_full && self.queue.synchronize().is_ok() {
            self.write_times();
        }
        queued
    }

    /// Whether queued work is not yet in the trace.
    pub(super) fn has_times(&self) -> bool {
        !self.timeline.lock().pending.is_empty()
    }

    /// Waits for what was queued so far and writes it to the trace.
    pub(super) fn write_times(&self) {
        let mut timeline = self.timeline.lock();
        if timeline.pending.is_empty() {
            return;
        }
        let Ok(_entered) = self.card.enter() else {
            return timeline.forget();
        };
        let spans = timeline.spans(&self.queue);
        drop(timeline);
        if let Some(spans) = spans {
            trace::record_row(self.id.index, &format!("{} stream", self.id), spans);
        }
    }
}
