//! The record of a variable's memory while callbacks of a strict strategy see it. It is used to
//! find out whether they have written the memory, and to restore it.
//!
//! Callbacks that see the same memory share what is stored about it. If each had its own, a later
//! callback would accept what an earlier one has written. The memory is restored only after the
//! last callback has returned, since the others still read it.

#![expect(
    unsafe_code,
    reason = "a variable gets its value back when no callback is at it"
)]

use super::strict_view_log::ShownMemory;
use super::variable::Variable;
use crate::Tensor;
use crate::red_zone::Region;
use umbo_base::error::Result;
use umbo_device::DeviceId;

/// A callback's view of a variable: of a buffer's elements, or of a copy of them. Each view is
/// ended by [`VariableView::end`].
pub struct VariableView {
    variable: Variable,
    buffer: usize,
    /// The number of times that the buffer had been written when the view was made.
    writes: u64,
    value: Tensor,
}

impl VariableView {
    /// Stores the state of `value`, which is that buffer of the variable or a copy of it. Before
    /// this returns, nobody writes it except through another view of it.
    pub fn new(variable: &Variable, buffer: usize, value: &Tensor) -> Result<VariableView> {
        let of_buffer = variable.buffer(buffer);
        let mut shown = of_buffer.shown.lock();
        let writes = of_buffer.writes();
        let is_it = |kept: &ShownMemory| kept.writes == writes && kept.region.is_of(value);
        if !shown.kept.iter().any(is_it) {
            let before = value.copied_to(DeviceId::HOST)?;
            let region = Region::of(value);
            shown.kept.push(ShownMemory {
                region,
                writes,
                before,
                is_changed: false,
            });
        }
        shown.views += 1;
        Ok(VariableView {
            variable: variable.clone(),
            buffer,
            writes,
            value: value.clone(),
        })
    }

    /// The variable.
    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// Whether this is a view of `value`, with no assignment since it was made.
    pub fn is_of(&self, variable: &Variable, buffer: usize, value: &Tensor) -> bool {
        self.variable.is_same(variable)
            && (self.buffer, self.writes) == (buffer, variable.writes(buffer))
            && Region::of(&self.value).is_of(value)
    }

    /// Whether the callback, and not the library, has written the memory.
    pub fn is_written(&self) -> Result<bool> {
        let buffer = self.variable.buffer(self.buffer);
        let mut shown = buffer.shown.lock();
        if buffer.writes() != self.writes {
            return Ok(false);
        }
        let is_it =
            |kept: &&mut ShownMemory| kept.writes == self.writes && kept.region.is_of(&self.value);
        let Some(kept) = shown.kept.iter_mut().find(is_it) else {
            return Ok(false);
        };
        let is_changed = kept.region.fingerprint()? != Region::of(&kept.before).fingerprint()?;
        kept.is_changed |= is_changed;
        Ok(is_changed)
    }

    /// Ends the view when the callback has returned. If it was the last view of the buffer and its
    /// copies, and a write was found, the memory is restored. For this, `alone` must call its
    /// argument while nobody reads central state.
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
        buffer.copies.outdate();
        // A copy is made again from the elements. A value that a step has assigned is discarded if
        // the step fails.
        let is_own = |kept: &&ShownMemory| kept.region.is_of(buffer.elements());
        let is_now = |kept: &&ShownMemory| kept.is_changed && kept.writes == buffer.writes();
        match kept.iter().filter(is_now).find(is_own) {
            Some(kept) if self.variable.committed_buffer() == self.buffer => alone(&mut || {
                // SAFETY: the step is open, so nobody else writes central state. Nobody reads it
                // now, and callbacks that saw it have returned.
                unsafe { self.variable.changing() }.copy_from(&kept.before)
            }),
            _ => Ok(()),
        }
    }
}
