//! One of a variable's two buffers: its elements, and copies of them in lower precision and on
//! other devices. The copies are kept up to date.
//!
//! A copy is made at the first request, and stays. Code that is about to write elements first calls
//! [`VariableBuffer::to_write`] or [`VariableBuffer::begin_update`]. This marks the copies as out
//! of date, and the next request for a copy brings that copy up to date. An update that writes the
//! copies together with the elements reports this at its end; the next request then has nothing to
//! do.
//!
//! The strategy guarantees that nobody writes elements while a request converts them, as for all
//! reads. So a copy that is up to date stays the rounding of the elements until the next write, and
//! reading one flag is enough.

#![expect(unsafe_code, reason = "converted elements are written")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::values::copies::{Copies, VariableCopy, memory_of};
use crate::values::sending::Sending;
use crate::values::strict_view_log::StrictViewLog;
use crate::values::uploads::Uploads;
use crate::{DType, Tensor};
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_kernels::float::narrow::narrow_all;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::launch::on_device;
use umbo_kernels::view::SpanMut;

/// The element types in lower precision in which a float32 variable can be read, and which an
/// update writes, too.
pub const COPY_DTYPES: [DType; 2] = [DType::Float16, DType::BFloat16];

/// One thing for each of these types.
pub type OfCopies<T> = [T; COPY_DTYPES.len()];

/// Whether a variable of type `variable` can be read as `dtype`.
pub fn is_readable_as(variable: DType, dtype: DType) -> bool {
    dtype == variable || variable == DType::Float32 && COPY_DTYPES.contains(&dtype)
}

#[derive(Default)]
pub(super) struct VariableBuffer {
    /// The copies to devices that still read the elements or a copy beside them.
    pub(super) uploads: Uploads,
    elements: OnceLock<Tensor>,
    pub(super) copies: Copies,
    /// The number of writes of the elements that have started, without the updates at commit
    /// points.
    writes: AtomicU64,
    /// How the update in progress sends its elements to devices.
    pub(super) sending: Sending,
    /// Held while a copy is made or brought up to date.
    converting: Mutex<()>,
    /// The elements and copies that a strict strategy has shown.
    pub(super) shown: Mutex<StrictViewLog>,
}

impl VariableBuffer {
    /// A buffer of these elements.
    pub(super) fn of(elements: Tensor) -> VariableBuffer {
        VariableBuffer {
            elements: elements.into(),
            ..VariableBuffer::default()
        }
    }

    /// Makes the elements, with arbitrary contents, if there are none. They have the dtype, shape
    /// and device of those of `other`.
    pub(super) fn reserve(&self, other: &VariableBuffer) -> Result<()> {
        if self.elements.get().is_none() {
            let other = other.elements();
            let fresh = Tensor::uninitialized(other.dtype(), other.shape(), other.device())?;
            // Only one thread writes central state at a time. If two did, one of the two fresh
            // tensors would be dropped unused.
            let _ = self.elements.set(fresh);
        }
        Ok(())
    }

    /// The elements, which must exist.
    pub(super) fn elements(&self) -> &Tensor {
        self.elements
            .get()
            .expect("an index is stored only once its buffer exists")
    }

    /// The number of writes of the elements that have started, without the updates at commit
    /// points.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// The elements, to be written. The copies are out of date from now on.
    pub(super) fn to_write(&self) -> &Tensor {
        self.uploads.wait();
        self.writes.fetch_add(1, Ordering::AcqRel);
        self.copies.outdate();
        self.elements()
    }

    /// The value as `dtype` in this memory, if it is there and up to date: the elements, or a copy.
    pub(super) fn copy(&self, memory: DeviceId, dtype: DType) -> Option<&Tensor> {
        let elements = self.elements();
        if (memory, dtype) == (memory_of(elements.device()), elements.dtype()) {
            return Some(elements);
        }
        let copy = self.copies.find(memory, dtype)?;
        if !copy.is_current() {
            return None;
        }
        copy.note_read();
        Some(&copy.tensor)
    }

    /// The same, made or brought up to date if necessary. If several threads call this at the same
    /// time, one converts.
    pub(super) fn refreshed_copy(&self, memory: DeviceId, dtype: DType) -> Result<&Tensor> {
        let _converting = self.converting.lock();
        self.converted(memory, dtype)
    }

    /// The same. The caller holds the lock.
    fn converted(&self, memory: DeviceId, dtype: DType) -> Result<&Tensor> {
        if let Some(current) = self.copy(memory, dtype) {
            return Ok(current);
        }
        let elements = self.elements();
        let own_memory = memory_of(elements.device());
        let copy = self.copies.find_or_add(memory, dtype, elements)?;
        // SAFETY: nobody reads a copy that is out of date. The caller holds the lock of those that
        // write it, and no update runs meanwhile.
        let mut to = unsafe { copy.tensor.assume_exclusive() };
        if memory != own_memory {
            match self.copies.on_same_physical_device(&copy.tensor)? {
                Some(there) => to.copy_from(there)?,
                None => self.cross_bus(self.converted(own_memory, dtype)?, copy)?,
            }
        } else if let Some(backend) = elements.backend()? {
            let from = elements.place();
            let to = copy.tensor.place();
            // SAFETY: as above.
            on_device(backend, |launcher| unsafe { launcher.convert(&from, &to) })?;
        } else {
            narrow_all(
                Instructions::chosen(),
                elements.span()?,
                &mut to.into_span()?,
            );
        }
        copy.set_current(true);
        copy.note_read();
        Ok(&copy.tensor)
    }

    /// Copies the elements, or the copy beside them, to a copy in other memory. What lies in locked
    /// pages of the host is not waited for. The caller holds the lock.
    fn cross_bus(&self, source: &Tensor, copy: &VariableCopy) -> Result<()> {
        let to = &copy.tensor;
        source.lock_pages_for(to.device())?;
        to.lock_pages_for(source.device())?;
        if !source.device().is_host_memory() || !source.layout().is_contiguous() {
            // SAFETY: as in `converted`.
            return unsafe { to.assume_exclusive() }.copy_from(source);
        }
        let all = 0..source.shape().elements();
        // SAFETY: as in `converted`. Who writes the source waits for the copy.
        unsafe { self.uploads.queue(source, to, all) }
    }

    /// The copy beside the elements that an update can write, too. A copy on a device is converted
    /// at the next request.
    pub(super) fn written_copy(&self, dtype: DType) -> Option<&VariableCopy> {
        let memory = memory_of(self.elements().device());
        self.copies
            .find(memory, dtype)
            .filter(|copy| copy.span.is_some())
    }

    /// Called before an update writes the elements, `all` of them or some. Returns which copies the
    /// update has to write, too. All other copies are out of date afterwards; the returned ones
    /// are out of date until [`VariableBuffer::end_update`].
    pub(super) fn begin_update(&self, all: bool) -> OfCopies<bool> {
        self.uploads.wait();
        // An update of some elements can keep a copy up to date, but cannot bring it up to date.
        let is_written = |copy: &VariableCopy| all || copy.is_current();
        let written = COPY_DTYPES.map(|dtype| self.written_copy(dtype).is_some_and(is_written));
        self.choose_routes(written);
        self.copies.outdate();
        written
    }

    /// The copies that an update writes, too.
    pub(super) fn copies_to_write(&self, which: OfCopies<bool>) -> OfCopies<Option<&SpanMut<'_>>> {
        std::array::from_fn(|number| {
            let copy = which[number].then(|| self.written_copy(COPY_DTYPES[number]))??;
            copy.span.as_ref()
        })
    }

    /// Called when an update has written elements and these copies. What it did not
    /// [send](VariableBuffer::send) before is sent now.
    pub(super) fn end_update(&self, written: OfCopies<bool>) {
        for (dtype, _) in COPY_DTYPES
            .into_iter()
            .zip(written)
            .filter(|(_, written)| *written)
        {
            self.written_copy(dtype)
                .into_iter()
                .for_each(|copy| copy.set_current(true));
        }
        self.end_sending();
    }

    /// The existing elements and copies.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Tensor> + '_ {
        self.uploads.wait();
        self.elements.take().into_iter().chain(self.copies.take())
    }
}
