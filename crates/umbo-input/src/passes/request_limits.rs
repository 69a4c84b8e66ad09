//! The limits of the request that an iterator answers. Threads that make its items see them, too.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use umbo_base::error::Error;
use umbo_strategy::step::run::Limits;

/// The limits of an iterator's present request, if it has limits.
#[derive(Default)]
pub(crate) struct RequestLimits {
    /// Whether there are limits, so that a request without them costs no lock.
    is_bounded: AtomicBool,
    limits: Mutex<Limits>,
}

impl RequestLimits {
    /// Puts `limits` in force until the result is dropped. An iterator answers one request at a
    /// time.
    pub(crate) fn enforce(&self, limits: &Limits) -> EnforcedLimits<'_> {
        if limits.is_bounded() {
            *self.limits.lock() = limits.clone();
            self.is_bounded.store(true, Ordering::Relaxed);
        }
        EnforcedLimits(self)
    }

    /// The reason why the request should end now, if it should.
    pub(crate) fn exceeded(&self) -> Option<Error> {
        match self.is_bounded.load(Ordering::Relaxed) {
            true => self.limits.lock().exceeded(),
            false => None,
        }
    }
}

/// Limits that are in force. They are no more when this is dropped.
pub(crate) struct EnforcedLimits<'a>(&'a RequestLimits);

impl Drop for EnforcedLimits<'_> {
    fn drop(&mut self) {
        if self.0.is_bounded.swap(false, Ordering::Relaxed) {
            *self.0.limits.lock() = Limits::default();
        }
    }
}
