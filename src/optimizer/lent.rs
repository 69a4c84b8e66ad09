//! Gradients that stay where the program has them: memory that a replica lends instead of writing into
//! its buffer, and what it takes back.
//!
//! What is lent is kept until nobody reads it any more: until an apply has used it up, the step is rolled
//! back, the replica takes it back, or a later step replaces it. It is let go of when no lock is held but
//! that of the strategy's steps, since that calls the program: see `lending`.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::kernels::view::Span;
use crate::tensor::Tensor;
use parking_lot::Mutex;

/// What a replica has lent for one variable, if it has.
#[derive(Default)]
pub(super) struct LentSlot {
    /// The step in which it did; 0 if nothing is lent. Steps have numbers from 1 on.
    pub(super) step: AtomicU64,
    pub(super) held: Mutex<Option<Lent>>,
}

/// Memory of the program's with a gradient.
pub(super) struct Lent {
    step: u64,
    tensor: Tensor,
    /// All of it, if it lies in host memory.
    span: Option<Span<'static>>,
}

impl Lent {
    pub(super) fn new(step: u64, tensor: Tensor) -> Result<Lent> {
        let span = match tensor.device().is_host_memory() {
            false => None,
            // SAFETY: the span is kept with the tensor.
            true => tensor.reading()?.span().map(|span| unsafe { span.held() }),
        };
        Ok(Lent { step, tensor, span })
    }
}

impl LentSlot {
    /// Whether something was lent in `step`.
    pub(super) fn is_of(&self, step: u64) -> bool {
        self.step.load(Ordering::Acquire) == step
    }

    /// What was lent in `step`. What is lent in a step whose contributions count is not given back.
    pub(super) fn tensor(&self, step: u64) -> Option<Tensor> {
        self.inspect(step, |lent| lent.tensor.clone())
    }

    /// The same for an apply in host memory.
    pub(super) fn span(&self, step: u64) -> Option<Span<'static>> {
        self.inspect(step, |lent| lent.span).flatten()
    }

    fn inspect<T>(&self, step: u64, inspect: impl FnOnce(&Lent) -> T) -> Option<T> {
        // An apply to thousands of variables of which none is lent takes no lock.
        if !self.is_of(step) {
            return None;
        }
        self.held.lock().as_ref().map(inspect)
    }

    /// Takes out what is lent, whatever it is. For the caller to drop when no lock is held.
    pub(super) fn take(&self) -> Option<Lent> {
        let mut held = self.held.lock();
        self.step.store(0, Ordering::Release);
        held.take()
    }

    /// Puts back what was taken out.
    pub(super) fn put(&self, lent: Option<Lent>) {
        let mut held = self.held.lock();
        self.step.store(lent.as_ref().map_or(0, |lent| lent.step), Ordering::Release);
        *held = lent;
    }

    /// Takes out what no longer counts, as `counts` says of its step.
    pub(super) fn take_unless(&self, counts: impl FnOnce(u64) -> bool) -> Option<Lent> {
        let mut held = self.held.lock();
        held.as_ref().filter(|lent| !counts(lent.step))?;
        self.step.store(0, Ordering::Release);
        held.take()
    }
}
