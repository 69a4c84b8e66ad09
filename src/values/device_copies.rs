//! Copies of a variable's value in the memory of other devices. There is one copy for each device and dtype in which
//! the value is read. Each is made once for each version of the value.

#![expect(unsafe_code, reason = "copied elements are written")]

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::DeviceId;
use crate::error::Result;
use crate::tensor::{DType, Tensor};

/// The existing copies. Their addresses do not change while this lives.
#[derive(Default)]
pub(super) struct DeviceCopies {
    first: OnceLock<Box<DeviceCopy>>,
}

struct DeviceCopy {
    tensor: Tensor,
    /// Whether it holds the variable's present value.
    in_step: AtomicBool,
    next: OnceLock<Box<DeviceCopy>>,
}

/// The device that owns the memory of `device`: all CPUs share one memory.
pub(crate) fn memory_of(device: DeviceId) -> DeviceId {
    if device.is_host_memory() { DeviceId::HOST } else { device }
}

impl DeviceCopies {
    fn all(&self) -> impl Iterator<Item = &DeviceCopy> {
        let first = self.first.get().map(|copy| &**copy);
        std::iter::successors(first, |copy| copy.next.get().map(|next| &**next))
    }

    fn find(&self, device: DeviceId, dtype: DType) -> Option<&DeviceCopy> {
        self.all().find(|copy| (copy.tensor.device(), copy.tensor.dtype()) == (device, dtype))
    }

    /// Marks all copies as out of date, since the value is about to change.
    pub(super) fn outdate(&self) {
        self.all().for_each(|copy| copy.in_step.store(false, Ordering::Release));
    }

    /// The copy on a device, if it is up to date.
    pub(super) fn get(&self, device: DeviceId, dtype: DType) -> Option<&Tensor> {
        // Acquire: the copy was written before the flag was set.
        let copy = self.find(device, dtype)?;
        copy.in_step.load(Ordering::Acquire).then_some(&copy.tensor)
    }

    /// All copies that are up to date.
    pub(super) fn all_in_step(&self) -> impl Iterator<Item = &Tensor> {
        let in_step = self.all().filter(|copy| copy.in_step.load(Ordering::Acquire));
        in_step.map(|copy| &copy.tensor)
    }

    /// The copy on a device, made or brought up to date if necessary. `value` is the value in the copy's dtype. Only
    /// one thread calls this at a time, and nobody changes the value meanwhile.
    pub(super) fn bring_in_step(&self, device: DeviceId, value: &Tensor) -> Result<&Tensor> {
        let copy = match self.find(device, value.dtype()) {
            Some(copy) => copy,
            None => self.add(Tensor::uninitialized(value.dtype(), value.shape(), device)?),
        };
        if !copy.in_step.load(Ordering::Acquire) {
            let source = self.on_same_card(&copy.tensor)?.unwrap_or(value);
            // SAFETY: nobody reads a copy that is out of date, and only one thread is here.
            unsafe { copy.tensor.assume_exclusive() }.copy_from(source)?;
            copy.in_step.store(true, Ordering::Release);
        }
        Ok(&copy.tensor)
    }

    /// An up-to-date copy on another logical GPU of the card of `copy`. A copy from there does not use the bus.
    fn on_same_card(&self, copy: &Tensor) -> Result<Option<&Tensor>> {
        let Some(gpu) = copy.gpu()? else { return Ok(None) };
        for other in self.all().filter(|other| other.in_step.load(Ordering::Acquire)) {
            if other.tensor.dtype() == copy.dtype()
                && let Some(there) = other.tensor.gpu()?
                && ptr::eq(there.card(), gpu.card())
            {
                return Ok(Some(&other.tensor));
            }
        }
        Ok(None)
    }

    fn add(&self, tensor: Tensor) -> &DeviceCopy {
        let mut place = &self.first;
        while let Some(copy) = place.get() {
            place = &copy.next;
        }
        let (in_step, next) = (AtomicBool::new(false), OnceLock::new());
        place.get_or_init(|| Box::new(DeviceCopy { tensor, in_step, next }))
    }

    /// The tensors of all copies.
    pub(super) fn take(&mut self) -> Vec<Tensor> {
        let tensors = self.all().map(|copy| copy.tensor.clone()).collect();
        self.first = OnceLock::new();
        tensors
    }
}
