//! What a strict strategy keeps of a variable's memory while callbacks see it, to find out whether they
//! have written it, and to put it back.
//!
//! Callbacks that see the same memory share what is kept of it: if each had its own, a later one would take for
//! right what another one has written before. Nothing is put back before the last of them has returned,
//! since the others read meanwhile.

#![expect(unsafe_code, reason = "a variable gets its value back when no callback is at it")]

use super::shown::ShownMemory;
use super::variable::Variable;
use crate::device::DeviceId;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::red_zone::Region;

/// A callback's view of a variable: one of a buffer's elements, or of a copy of them. Views are let go of
/// one by one, by [`VariableView::end`].
pub struct VariableView {
    variable: Variable,
    buffer: usize,
    /// How often that had been written when the view was given.
    writes: u64,
    value: Tensor,
}

impl VariableView {
    /// Keeps what `value` is, which is that buffer of the variable or a copy of it. Nobody writes it before
    /// this returns, unless by a view of it.
    pub fn new(variable: &Variable, buffer: usize, value: &Tensor) -> Result<VariableView> {
        let of_buffer = variable.buffer(buffer);
        let mut shown = of_buffer.shown.lock();
        let writes = of_buffer.writes();
        let is_it = |kept: &ShownMemory| kept.writes == writes && kept.region.is_of(value);
        if !shown.kept.iter().any(is_it) {
            let is_own = Region::of(of_buffer.elements()).is_of(value);
            // What a step has assigned is gone if the step fails.
            let elements = match is_own && buffer == variable.committed_buffer() {
                true => Some(value.copied_to(DeviceId::HOST)?),
                false => None,
            };
            let fingerprint = match &elements {
                Some(elements) => Region::of(elements).fingerprint()?,
                None => Region::of(value).fingerprint()?,
            };
            let region = Region::of(value);
            shown.kept.push(ShownMemory {
                region,
                writes,
                fingerprint,
                elements,
                is_changed: false,
            });
        }
        shown.views += 1;
        Ok(VariableView { variable: variable.clone(), buffer, writes, value: value.clone() })
    }

    /// The variable.
    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// Whether this is a view of `value`, as it is since somebody last assigned.
    pub fn is_of(&self, variable: &Variable, buffer: usize, value: &Tensor) -> bool {
        self.variable.is_same(variable)
            && (self.buffer, self.writes) == (buffer, variable.writes(buffer))
            && Region::of(&self.value).is_of(value)
    }

    /// Whether the memory was written other than by the library.
    pub fn is_written(&self) -> Result<bool> {
        let buffer = self.variable.buffer(self.buffer);
        let mut shown = buffer.shown.lock();
        if buffer.writes() != self.writes {
            return Ok(false);
        }
        let is_it =
            |kept: &&mut ShownMemory| kept.writes == self.writes && kept.region.is_of(&self.value);
        let Some(kept) = shown.kept.iter_mut().find(is_it) else { return Ok(false) };
        let is_changed = kept.region.fingerprint()? != kept.fingerprint;
        kept.is_changed |= is_changed;
        Ok(is_changed)
    }

    /// The callback has returned. If it was the last one that saw the buffer or a copy, and something was
    /// found to be written, all is as it was afterwards: `alone` is to call its argument when nobody reads
    /// central state.
    pub fn end(
        self,
        alone: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let buffer = self.variable.buffer(self.buffer);
        let mut shown = buffer.shown.lock();
        shown.views -= 1;
        if shown.views > 0 {
            return Ok(());
        }
        let kept = std::mem::take(&mut shown.kept);
        if kept.iter().all(|kept| !kept.is_changed) {
            return Ok(());
        }
        buffer.outdate_copies();
        let is_now = |kept: &ShownMemory| kept.is_changed && kept.writes == buffer.writes();
        let was = kept.iter().find(|kept| is_now(kept) && kept.elements.is_some());
        match was.and_then(|kept| kept.elements.as_ref()) {
            Some(was) if self.variable.committed_buffer() == self.buffer => alone(&mut || {
                // SAFETY: the step is open, so nobody else writes central state; nobody reads it
                // now, and callbacks that saw it have returned.
                unsafe { self.variable.changing() }.copy_from(was)
            }),
            _ => Ok(()),
        }
    }
}
