//! The times of the work on a GPU's stream, for the trace: the copies and kernels that this library
//! queues.
//!
//! While there is a trace, two events are put around each of them. Their times are read after a
//! thread has waited for the stream. Then one more event is recorded and waited for, which relates
//! the GPU's clock to the host's clock. A time in the trace is not earlier than the true time and
//! not later than the reading. Its error is at most the length of that wait: some microseconds,
//! unless the thread has no processor. Without a trace, each copy and kernel costs one relaxed
//! load.

use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaEvent, CudaStream, sys};

use umbo_base::observe::trace::{self, Event};

/// The most that may wait to be read; then the stream is waited for.
pub(super) const MOST: usize = 1024;

/// Work that was queued on one stream and is not yet in the trace.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub(super) pending: Vec<Noted>,
    /// Events that can be used again.
    pub(super) spare: Vec<CudaEvent>,
}

/// A copy or a kernel.
#[derive(Debug)]
pub(super) struct Noted {
    pub name: &'static str,
    pub category: &'static str,
    pub bytes: u64,
    pub start: CudaEvent,
    pub end: CudaEvent,
}

impl Timeline {
    /// An event that is recorded in `stream` now. The card's context is current.
    pub(super) fn record(&mut self, stream: &Arc<CudaStream>) -> Option<CudaEvent> {
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let fresh = || stream.context().new_event(timed).ok();
        let event = self.spare.pop().or_else(fresh)?;
        match event.record(stream) {
            Ok(()) => Some(event),
            Err(_) => {
                self.spare.push(event);
                None
            }
        }
    }

    /// An event that the stream has come past, and the time of the host's clock at which it did.
    fn reference(&mut self, stream: &Arc<CudaStream>) -> Option<(CudaEvent, u64)> {
        let event = self.record(stream)?;
        if event.synchronize().is_err() {
            self.spare.push(event);
            return None;
        }
        Some((event, trace::now()))
    }

    /// The spans of the queued work, after waiting for it. The card's context is current.
    pub(super) fn spans(&mut self, stream: &Arc<CudaStream>) -> Option<Vec<Event>> {
        let (reference, now) = self.reference(stream)?;
        let before = |event: &CudaEvent| {
            let milliseconds = elapsed(event, &reference)?;
            Some((f64::from(milliseconds.max(0.0)) * 1e6) as u64)
        };
        let span = |noted: &Noted| {
            let start = before(&noted.start)?;
            let end = before(&noted.end)?;
            let &Noted {
                name,
                category,
                bytes,
                ..
            } = noted;
            let duration = start.saturating_sub(end);
            Some(Event::of(
                name,
                category,
                now.saturating_sub(start),
                duration,
                bytes,
            ))
        };
        let spans = self.pending.iter().filter_map(span).collect();
        self.spare.push(reference);
        self.forget();
        Some(spans)
    }

    pub(super) fn forget(&mut self) {
        for Noted { start, end, .. } in self.pending.drain(..) {
            self.spare.extend([start, end]);
        }
    }
}

/// The milliseconds from one event to another. Both are of the current context and have come.
fn elapsed(from: &CudaEvent, to: &CudaEvent) -> Option<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    // The bindings call a newer version of this function, which drivers before CUDA 12.8 lack.
    static FUNCTION: OnceLock<Option<Elapsed>> = OnceLock::new();
    let function = (*FUNCTION.get_or_init(|| {
        // SAFETY: the driver's library was opened before.
        let library = unsafe { sys::culib() };
        // SAFETY: the function of this name has this type.
        unsafe { library.get::<Elapsed>(b"cuEventElapsedTime") }
            .ok()
            .map(|found| *found)
    }))?;
    let mut milliseconds = 0.0;
    // SAFETY: both events live, and there is memory for the result. The driver refuses events
    // without times.
    let code = unsafe { function(&raw mut milliseconds, from.cu_event(), to.cu_event()) };
    code.result().ok().map(|()| milliseconds)
}
