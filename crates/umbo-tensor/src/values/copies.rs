//! The copies of one of a variable's buffers: in lower precision, and in the memory of other
//! devices. There is one for each memory and dtype in which the value is read.

#![expect(unsafe_code, reason = "a span is kept beside the tensor that it is of")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{DType, Tensor};
use umbo_base::error::Result;
use umbo_device::{DeviceId, DeviceKind};
use umbo_kernels::view::SpanMut;

/// The existing copies. Their addresses do not change while this lives.
#[derive(Default)]
pub(super) struct Copies {
    first: OnceLock<Box<VariableCopy>>,
}

pub(super) struct VariableCopy {
    pub tensor: Tensor,
    /// The whole tensor as a span, if it lies in host memory.
    pub span: Option<SpanMut<'static>>,
    /// Whether it holds the buffer's present value.
    is_current: AtomicBool,
    next: OnceLock<Box<VariableCopy>>,
}

/// The device that owns the memory of `device`: all CPUs share one memory.
pub fn memory_of(device: DeviceId) -> DeviceId {
    if device.is_host_memory() {
        DeviceId::HOST
    } else {
        device
    }
}

impl VariableCopy {
    /// Whether the copy can be read.
    pub fn is_current(&self) -> bool {
        // Acquire: the copy was written before the flag was set.
        self.is_current.load(Ordering::Acquire)
    }

    pub fn set_current(&self, is_current: bool) {
        self.is_current.store(is_current, Ordering::Release);
    }
}

impl Copies {
    fn all(&self) -> impl Iterator<Item = &VariableCopy> {
        let first = self.first.get().map(|copy| &**copy);
        std::iter::successors(first, |copy| copy.next.get().map(|next| &**next))
    }

    /// All copies that are up to date.
    pub fn current(&self) -> impl Iterator<Item = &VariableCopy> {
        self.all().filter(|copy| copy.is_current())
    }

    /// The copy of this dtype in this memory, which may be out of date.
    pub fn find(&self, memory: DeviceId, dtype: DType) -> Option<&VariableCopy> {
        let is_it = |copy: &&VariableCopy| {
            (memory_of(copy.tensor.device()), copy.tensor.dtype()) == (memory, dtype)
        };
        self.all().find(is_it)
    }

    /// The same copy of these elements. If there is none, it is made, with arbitrary contents. Only
    /// one thread calls this at a time.
    pub fn find_or_add(
        &self,
        memory: DeviceId,
        dtype: DType,
        elements: &Tensor,
    ) -> Result<&VariableCopy> {
        if let Some(copy) = self.find(memory, dtype) {
            return Ok(copy);
        }
        let is_here = memory == memory_of(elements.device());
        let device = if is_here { elements.device() } else { memory };
        let tensor = Tensor::uninitialized(dtype, elements.shape(), device)?;
        let span = match device.is_host_memory() {
            // SAFETY: the span is kept with the tensor. Updates use it, and during them the
            // strategy lets nobody else use the variable.
            true => Some(unsafe { tensor.assume_exclusive().into_span()?.held() }),
            false => None,
        };
        let mut place = &self.first;
        while let Some(copy) = place.get() {
            place = &copy.next;
        }
        Ok(place.get_or_init(|| {
            Box::new(VariableCopy {
                tensor,
                span,
                is_current: AtomicBool::new(false),
                next: OnceLock::new(),
            })
        }))
    }

    /// Marks all copies as out of date, since the value is about to change.
    pub fn outdate(&self) {
        self.all().for_each(|copy| copy.set_current(false));
    }

    /// An up-to-date copy on another part of the physical device of `copy`. A copy from there does
    /// not use the bus.
    pub fn on_same_physical_device(&self, copy: &Tensor) -> Result<Option<&Tensor>> {
        let physical = |tensor: &Tensor| -> Result<Option<(DeviceKind, u32)>> {
            let backend = tensor.backend()?;
            Ok(backend.map(|backend| (backend.id().kind, backend.physical_ordinal())))
        };
        let device = physical(copy)?;
        if device.is_none() {
            return Ok(None);
        }
        for VariableCopy { tensor, .. } in self.current() {
            if tensor.dtype() == copy.dtype() && physical(tensor)? == device {
                return Ok(Some(tensor));
            }
        }
        Ok(None)
    }

    /// The tensors of all copies.
    pub fn take(&mut self) -> Vec<Tensor> {
        let tensors = self.all().map(|copy| copy.tensor.clone()).collect();
        self.first = OnceLock::new();
        tensors
    }
}
