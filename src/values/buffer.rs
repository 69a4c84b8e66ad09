//! One of a variable's two buffers: its elements, and copies of them in lower precision and on other devices. The
//! copies are kept up to date.
//!
//! A copy is made at the first request, and stays. Code that is about to write elements first calls
//! [`VariableBuffer::to_write`] or [`VariableBuffer::begin_update`]. This marks the copies as out of date, and the
//! next request for a copy brings that copy up to date. An update that writes the copies together with the elements
//! reports this at its end; the next request then has nothing to do.
//!
//! The strategy guarantees that nobody writes elements while a request converts them, as for all reads. So a copy
//! that is up to date stays the rounding of the elements until the next write, and reading one flag is enough.

#![expect(
    unsafe_code,
    reason = "a span is kept beside the tensor that it is of, and converted elements are written"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::cuda::on_gpu;
use crate::kernels::float::narrow::narrow_all;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::view::SpanMut;
use crate::tensor::{DType, Tensor};
use crate::values::device_copies::DeviceCopies;
use crate::values::shown::Shown;
use parking_lot::Mutex;

/// The element types that copies can have. The index in this list is the copy's number.
pub const COPY_DTYPES: [DType; 2] = [DType::Float16, DType::BFloat16];

/// One thing for each possible copy.
pub type OfCopies<T> = [T; COPY_DTYPES.len()];

/// The number of a copy of type `copy` of a variable of type `variable`, if such a copy is possible.
pub fn copy_number(variable: DType, copy: DType) -> Option<usize> {
    let possible = variable == DType::Float32;
    COPY_DTYPES.into_iter().position(|dtype| dtype == copy).filter(|_| possible)
}

/// A low-precision copy of a buffer.
struct LowPrecisionCopy {
    tensor: Tensor,
    /// The whole tensor as a span, if it lies in host memory.
    span: Option<SpanMut<'static>>,
}

impl LowPrecisionCopy {
    /// A copy of `elements` in this dtype, with arbitrary contents.
    fn new(dtype: DType, elements: &Tensor) -> Result<LowPrecisionCopy> {
        let tensor = Tensor::uninitialized(dtype, elements.shape(), elements.device())?;
        if !tensor.device().is_host_memory() {
            return Ok(LowPrecisionCopy { tensor, span: None });
        }
        // SAFETY: the span is kept with the tensor. Updates use it, and during them the strategy lets nobody else use
        // the variable.
        let span = unsafe {
            let span = tensor.assume_exclusive().into_view()?.into_span();
            span.map(|span| span.held())
        };
        let span = Some(span.ok_or_else(not_contiguous)?);
        Ok(LowPrecisionCopy { tensor, span })
    }
}

#[derive(Default)]
pub(super) struct VariableBuffer {
    elements: OnceLock<Tensor>,
    copies: OfCopies<OnceLock<LowPrecisionCopy>>,
    /// For each copy, whether it exists and is the rounding of the elements.
    in_step: OfCopies<AtomicBool>,
    on_devices: DeviceCopies,
    /// How many writes of the elements have started, without the updates at commit points.
    writes: AtomicU64,
    /// Held while a copy is made or brought up to date.
    converting: Mutex<()>,
    /// What a strict strategy has shown of the elements and the copies.
    pub(super) shown: Mutex<Shown>,
}

impl VariableBuffer {
    /// A buffer of these elements.
    pub(super) fn of(elements: Tensor) -> VariableBuffer {
        VariableBuffer { elements: elements.into(), ..VariableBuffer::default() }
    }

    /// Makes the elements, with arbitrary contents, if there are none. They have the dtype, shape and device of those
    /// of `other`.
    pub(super) fn reserve(&self, other: &VariableBuffer) -> Result<()> {
        if self.elements.get().is_none() {
            let other = other.elements();
            let fresh = Tensor::uninitialized(other.dtype(), other.shape(), other.device())?;
            // Only one thread writes central state at a time. If two did, one of the two fresh tensors would be
            // dropped unused.
            let _ = self.elements.set(fresh);
        }
        Ok(())
    }

    /// The elements, which must exist.
    pub(super) fn elements(&self) -> &Tensor {
        self.elements.get().expect("an index is stored only once its buffer exists")
    }

    /// How many writes of the elements have started, without the updates at commit points.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// The elements, to be written. The copies are out of date from now on.
    pub(super) fn to_write(&self) -> &Tensor {
        self.writes.fetch_add(1, Ordering::AcqRel);
        self.outdate_copies();
        self.elements()
    }

    /// Marks all copies as out of date.
    pub(super) fn outdate_copies(&self) {
        self.in_step.iter().for_each(|in_step| in_step.store(false, Ordering::Release));
        self.on_devices.outdate();
    }

    /// All copies that are up to date, here and on other devices.
    pub(super) fn copies_in_step(&self) -> impl Iterator<Item = &Tensor> {
        let here = (0..COPY_DTYPES.len()).filter_map(|number| self.copy(number));
        here.chain(self.on_devices.all_in_step())
    }

    /// A copy, if it is up to date.
    pub(super) fn copy(&self, number: usize) -> Option<&Tensor> {
        // Acquire: the copy was written before the flag was set.
        let in_step = self.in_step[number].load(Ordering::Acquire);
        self.copies[number].get().filter(|_| in_step).map(|copy| &copy.tensor)
    }

    /// A copy, which is made or brought up to date if necessary. If several threads call this at the same time, one
    /// converts.
    pub(super) fn bring_in_step(&self, number: usize) -> Result<&Tensor> {
        let _converting = self.converting.lock();
        self.converted(number)
    }

    /// The copy in the memory of `device`, which is not the elements' own, if it is up to date.
    pub(super) fn on_device(&self, device: DeviceId, dtype: DType) -> Option<&Tensor> {
        self.on_devices.get(device, dtype)
    }

    /// The same copy, made or brought up to date if necessary. It has the elements' type, or that of the copy with
    /// this number.
    pub(super) fn bring_to_device(
        &self,
        device: DeviceId,
        number: Option<usize>,
    ) -> Result<&Tensor> {
        let _converting = self.converting.lock();
        let value = match number {
            Some(number) => self.converted(number)?,
            None => self.elements(),
        };
        self.on_devices.bring_in_step(device, value)
    }

    /// A copy in lower precision, which is made or brought up to date if necessary. The caller holds the lock.
    fn converted(&self, number: usize) -> Result<&Tensor> {
        if let Some(copy) = self.copy(number) {
            return Ok(copy);
        }
        let elements = self.elements();
        if self.copies[number].get().is_none() {
            let fresh = LowPrecisionCopy::new(COPY_DTYPES[number], elements)?;
            // Copies are made under the lock, so no other thread has made this one meanwhile.
            let _ = self.copies[number].set(fresh);
        }
        let copy = self.copies[number].get().expect("it was there or was just made");
        if let Some(gpu) = elements.gpu()? {
            let (from, to) = (elements.place(), copy.tensor.place());
            // SAFETY: as for the copy in host memory, at the end of this function.
            on_gpu(gpu, |launcher| unsafe { launcher.convert(&from, &to) })?;
            self.in_step[number].store(true, Ordering::Release);
            return Ok(&copy.tensor);
        }
        let from = elements.reading()?.span().ok_or_else(not_contiguous)?;
        // SAFETY: nobody reads a copy that is out of date. The caller holds the lock of those that write it, and no
        // update runs meanwhile.
        let mut to = unsafe { copy.tensor.assume_exclusive() };
        let mut to = to.writing()?.into_span().ok_or_else(not_contiguous)?;
        narrow_all(Instructions::chosen(), from, &mut to);
        self.in_step[number].store(true, Ordering::Release);
        Ok(&copy.tensor)
    }

    /// Called before an update writes the elements, `all` of them or some. Returns which copies the update has to
    /// write, too. All other copies are out of date afterwards; the returned ones are out of date until
    /// [`VariableBuffer::end_update`].
    pub(super) fn begin_update(&self, all: bool) -> OfCopies<bool> {
        self.on_devices.outdate();
        std::array::from_fn(|number| {
            // An update of some elements can keep a copy up to date, but cannot bring it up to date.
            let was_in_step = self.in_step[number].swap(false, Ordering::AcqRel);
            // A copy on a GPU is converted at the next request.
            let exists = self.copies[number].get().is_some_and(|copy| copy.span.is_some());
            exists && (was_in_step || all)
        })
    }

    /// The copies that an update writes, too.
    pub(super) fn copies_to_write(&self, which: OfCopies<bool>) -> OfCopies<Option<&SpanMut<'_>>> {
        std::array::from_fn(|number| {
            let copy = self.copies[number].get().filter(|_| which[number]);
            copy.and_then(|copy| copy.span.as_ref())
        })
    }

    /// Called when an update has written elements and these copies.
    pub(super) fn end_update(&self, written: OfCopies<bool>) {
        for (in_step, written) in self.in_step.iter().zip(written) {
            if written {
                in_step.store(true, Ordering::Release);
            }
        }
    }

    /// The existing elements and copies.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Tensor> + '_ {
        let copies = self.copies.iter_mut().filter_map(OnceLock::take).map(|copy| copy.tensor);
        self.elements.take().into_iter().chain(copies).chain(self.on_devices.take())
    }
}

fn not_contiguous() -> Error {
    Error::Internal("a variable and its copies are contiguous, and this is not".into())
}
