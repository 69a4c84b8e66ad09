//! New weights of an update go to the copies on devices while the update computes the next ones.
//!
//! The next step would ask for them anyway: a copy that was asked for since the last update is sent
//! to, and any other is brought up to date at its next request. Nothing here can fail: a copy that
//! cannot be sent to is out of date, and its next request says why.

#![expect(unsafe_code, reason = "copies on devices are written")]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::buffer::{COPY_DTYPES, OfCopies, VariableBuffer};
use super::copies::{Route, VariableCopy, are_neighbours};
use crate::{DType, Tensor};

/// Copies of fewer bytes are not sent: it would take the host longer to queue them than the device
/// to make them, and several threads queue them at their next requests.
const SHORTEST: usize = 64 << 10;

/// The progress of what an update sends.
#[derive(Default)]
pub(super) struct Sending {
    /// How many copies there are to send to.
    copies: AtomicUsize,
    /// How many elements were sent.
    elements: AtomicUsize,
}

impl VariableBuffer {
    /// Chooses the copies to which the update that begins sends its elements. It also writes the
    /// copies `written` in host memory.
    pub(super) fn choose_routes(&self, written: OfCopies<bool>) {
        let mut chosen = 0;
        for copy in self.copies.all() {
            let is_wanted = copy.take_read() && copy.is_current();
            let route = match self.source(copy, written) {
                Some(_) if is_wanted => self.route_to(copy),
                _ => Route::None,
            };
            copy.set_route(route);
            chosen += usize::from(route != Route::None);
        }
        self.sending.copies.store(chosen, Ordering::Relaxed);
        self.sending.elements.store(0, Ordering::Relaxed);
    }

    /// How elements come to a copy: the first one on a physical device gets them from the host.
    fn route_to(&self, copy: &VariableCopy) -> Route {
        let mut earlier = self
            .copies
            .all()
            .take_while(|other| !std::ptr::eq(*other, copy));
        let is_served = |other: &VariableCopy| {
            other.route() == Route::FromHost
                && are_neighbours(&other.tensor, &copy.tensor).unwrap_or(false)
        };
        if earlier.any(is_served) {
            Route::FromNeighbour
        } else {
            Route::FromHost
        }
    }

    /// The source of a copy on a device: the elements, or the copy beside them, which lies in
    /// locked pages.
    fn source(&self, copy: &VariableCopy, written: OfCopies<bool>) -> Option<&Tensor> {
        let elements = self.elements();
        let device = copy.tensor.device();
        let dtype = copy.tensor.dtype();
        if device.is_host_memory() || !elements.device().is_host_memory() {
            return None;
        }
        let source = match dtype == elements.dtype() {
            true => elements,
            false => {
                let number = COPY_DTYPES.iter().position(|other| *other == dtype)?;
                &self.written_copy(dtype).filter(|_| written[number])?.tensor
            }
        };
        let is_worth_it = source.bytes() >= SHORTEST && source.layout().is_contiguous();
        (is_worth_it && source.storage().0.page_lock().is_some()).then_some(source)
    }

    /// Whether the update in progress sends anything.
    pub(super) fn sends(&self) -> bool {
        self.sending.copies.load(Ordering::Relaxed) > 0
    }

    /// Sends the next elements, up to `end`, which the update has written, as well as those of the
    /// copies that it writes.
    pub(super) fn send(&self, end: usize) {
        if !self.sends() {
            return;
        }
        let range = self.sending.elements.swap(end, Ordering::Relaxed)..end;
        if range.is_empty() {
            return;
        }
        let from_host = |copy: &&VariableCopy| copy.route() == Route::FromHost;
        for copy in self.copies.all().filter(from_host) {
            // SAFETY: a copy that is out of date has no readers, and writers of the source wait
            // until its elements have left (`Uploads::wait`).
            let sent = self
                .written_source(copy.tensor.dtype())
                .map(|source| unsafe {
                    self.uploads
                        .queue(source, &copy.tensor, Range::clone(&range))
                });
            if !matches!(sent, Some(Ok(()))) {
                copy.set_route(Route::None);
            }
        }
    }

    /// The elements, or the copy beside them, of this dtype.
    fn written_source(&self, dtype: DType) -> Option<&Tensor> {
        let elements = self.elements();
        if dtype == elements.dtype() {
            return Some(elements);
        }
        self.written_copy(dtype).map(|copy| &copy.tensor)
    }

    /// Sends the rest. The copies that have all elements are up to date.
    pub(super) fn end_sending(&self) {
        if !self.sends() {
            return;
        }
        self.send(self.elements().shape().elements());
        for copy in self.copies.all() {
            match copy.route() {
                Route::FromHost => copy.set_current(true),
                Route::FromNeighbour => copy.set_current(self.take_over(copy)),
                Route::None => {}
            }
            copy.set_route(Route::None);
        }
        self.sending.copies.store(0, Ordering::Relaxed);
    }

    /// Copies all elements from a copy on the same physical device, if there is one that is up to
    /// date.
    fn take_over(&self, copy: &VariableCopy) -> bool {
        let Ok(Some(there)) = self.copies.on_same_physical_device(&copy.tensor) else {
            return false;
        };
        // SAFETY: nobody reads a copy that is out of date.
        unsafe { copy.tensor.assume_exclusive() }
            .copy_from(there)
            .is_ok()
    }
}
