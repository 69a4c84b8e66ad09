//! What a GPU's stream does when, for the trace: the copies and kernels that this library queues.
//!
//! While there is a trace, two events are put around each of them. Their times are read when somebody has
//! waited for the stream: one more event, which is recorded and waited for, says which time of the host's
//! clock is which of the GPU's. A time in the trace is not earlier than it was, not later than it was read, and
//! as exact as that wait is short, some microseconds. Without a trace it costs one relaxed load for each
//! copy and kernel.

use std::sync::OnceLock;

use cudarc::driver::result::DriverError;
use cudarc::driver::{CudaEvent, sys};

use super::gpu::Gpu;
use crate::observe::trace::{self, Row, RowSpan};

/// When so many wait to be read, the stream is waited for.
const MOST: usize = 1024;

/// A wait of so many nanoseconds says well what time it is on the GPU, and so often it is tried.
const SHORT: u64 = 30_000;
const TRIES: usize = 4;

/// What was queued on one stream and is not yet in the trace.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pending: Vec<Noted>,
    /// Events to be used again.
    spare: Vec<CudaEvent>,
}

/// A copy or a kernel.
#[derive(Debug)]
pub(super) struct Noted {
    name: &'static str,
    category: &'static str,
    bytes: u64,
    start: CudaEvent,
    end: CudaEvent,
}

impl Timeline {
    /// An event that the stream of `gpu` comes past now. The card's context is current.
    fn record(&mut self, gpu: &Gpu) -> Option<CudaEvent> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let fresh = || gpu.card().context().new_event(timed).ok();
        let event = self.spare.pop().or_else(fresh)?;
        match event.record(&gpu.stream) {
            Ok(()) => Some(event),
            Err(_) => {
                self.spare.push(event);
                None
            }
        }
    }

    /// An event that the stream has come past, and when that was, by the host's clock: the best of some,
    /// since the thread that waits may be without a processor for long.
    fn reference(&mut self, gpu: &Gpu) -> Option<(CudaEvent, u64)> {
        let mut best: Option<(u64, CudaEvent, u64)> = None;
        for _ in 0..TRIES {
            let before = trace::now();
            let Some(event) = self.record(gpu) else { break };
            if event.synchronize().is_err() {
                self.spare.push(event);
                break;
            }
            let now = trace::now();
            let took = now.saturating_sub(before);
            match &mut best {
                Some((least, ..)) if *least <= took => self.spare.push(event),
                best => {
                    let other = best.replace((took, event, now));
                    self.spare.extend(other.map(|(_, event, _)| event));
                }
            }
            if took <= SHORT {
                break;
            }
        }
        best.map(|(_, event, now)| (event, now))
    }

    /// The spans of what was queued, which is waited for. The card's context is current.
    fn spans(&mut self, gpu: &Gpu) -> Option<Vec<RowSpan>> {
        let (reference, now) = self.reference(gpu)?;
        let before = |event: &CudaEvent| {
            let milliseconds = elapsed(event, &reference)?;
            Some((f64::from(milliseconds.max(0.0)) * 1e6) as u64)
        };
        let span = |noted: &Noted| {
            let (start, end) = (before(&noted.start)?, before(&noted.end)?);
            let &Noted { name, category, bytes, .. } = noted;
            let duration = start.saturating_sub(end);
            Some(RowSpan { name, category, bytes, start: now.saturating_sub(start), duration })
        };
        let spans = self.pending.iter().filter_map(span).collect();
        self.spare.push(reference);
        self.forget();
        Some(spans)
    }

    fn forget(&mut self) {
        for Noted { start, end, .. } in self.pending.drain(..) {
            self.spare.extend([start, end]);
        }
    }
}

/// The milliseconds from one event to another of the context that is current, which have both come.
fn elapsed(from: &CudaEvent, to: &CudaEvent) -> Option<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    // The bindings call a newer name of it, which drivers before CUDA 12.8 lack.
    static FUNCTION: OnceLock<Option<Elapsed>> = OnceLock::new();
    let function = (*FUNCTION.get_or_init(|| {
        // SAFETY: the driver's library was opened before.
        let library = unsafe { sys::culib() };
        // SAFETY: the function of this name has this type.
        unsafe { library.get::<Elapsed>(b"cuEventElapsedTime") }.ok().map(|found| *found)
    }))?;
    let mut milliseconds = 0.0;
    // SAFETY: both events live, and there is room for the result. The driver refuses what has no time.
    let code = unsafe { function(&raw mut milliseconds, from.cu_event(), to.cu_event()) };
    code.result().ok().map(|()| milliseconds)
}

impl Gpu {
    /// Has `queue` queue something on the stream, and notes it for the trace, if there is one. The card's
    /// context is current. What cannot be noted does no harm.
    #[inline]
    pub(super) fn noted<T>(
        &self,
        (name, category): (&'static str, &'static str),
        bytes: usize,
        queue: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        if !trace::is_on() {
            return queue();
        }
        // A thread that queues meanwhile waits, so that spans do not overlap.
        let mut timeline = self.timeline.lock();
        let start = timeline.record(self);
        let queued = queue();
        let Some(start) = start else { return queued };
        match timeline.record(self) {
            Some(end) if queued.is_ok() => {
                let bytes = bytes as u64;
                timeline.pending.push(Noted { name, category, bytes, start, end });
            }
            end => timeline.spare.extend(end.into_iter().chain([start])),
        }
        let is_full = timeline.pending.len() >= MOST;
        drop(timeline);
        if is_full && self.stream.synchronize().is_ok() {
            self.write_times();
        }
        queued
    }

    /// Whether something is queued that is not yet in the trace.
    pub(super) fn has_times(&self) -> bool {
        !self.timeline.lock().pending.is_empty()
    }

    /// Writes to the trace what was queued so far, which is waited for.
    pub(super) fn write_times(&self) {
        let mut timeline = self.timeline.lock();
        if timeline.pending.is_empty() {
            return;
        }
        let Ok(_entered) = self.card().enter() else { return timeline.forget() };
        let spans = timeline.spans(self);
        drop(timeline);
        if let Some(spans) = spans {
            let row = Row { number: self.id().index, name: format!("{} stream", self.id()) };
            trace::record_row(&row, spans);
        }
    }
}
