//! The copies of one of a variable's buffers: in lower precision, and in the memory of other
//! devices. There is one for each memory and dtype in which the value is read.

#![expect(unsafe_code, reason = "a span is kept beside the tensor that it is of")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

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
    /// Whether somebody has asked for it since an update saw it last.
    is_read: AtomicBool,
    /// The [`Route`] of new elements.
    route: AtomicU8,
    next: OnceLock<Box<VariableCopy>>,
}

/// How the elements of the update in progress come to a copy on a device.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Route {
    /// They do not: the next request brings the copy up to date.
    None,
    /// From the host, while the update computes the next ones.
    FromHost,
    /// From another copy on the same physical device, once that has all of them.
    FromNeighbour,
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

    /// Notes that somebody has asked for it. Readers share the flag, so it is rarely written.
    pub fn note_read(&self) {
        if !self.is_read.load(Ordering::Relaxed) {
            self.is_read.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody has asked for it since the last call of this.
    pub fn take_read(&self) -> bool {
        self.is_read.swap(false, Ordering::Relaxed)
    }

    /// How the elements of the update in progress come to it.
    pub fn route(&self) -> Route {
        match self.route.load(Ordering::Relaxed) {
            1 => Route::FromHost,
            2 => Route::FromNeighbour,
            _ => Route::None,
        }
    }

    pub fn set_route(&self, route: Route) {
        self.route.store(route as u8, Ordering::Relaxed);
    }
}

/// The physical device that has a tensor; `None` for the host.
fn physical_device(tensor: &Tensor) -> Result<Option<(DeviceKind, u32)>> {
    let backend = tensor.backend()?;
    Ok(backend.map(|backend| (backend.id().kind, backend.physical_ordinal())))
}

/// Whether two copies of one dtype are on the same physical device, or both in host memory.
pub(super) fn are_neighbours(one: &Tensor, other: &Tensor) -> Result<bool> {
    Ok(one.dtype() == other.dtype() && physical_device(one)? == physical_device(other)?)
}

impl Copies {
    /// All copies, those that are out of date, too.
    pub fn all(&self) -> impl Iterator<Item = &VariableCopy> {
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
                is_read: AtomicBool::new(false),
                route: AtomicU8::new(Route::None as u8),
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
        if physical_device(copy)?.is_none() {
            return Ok(None);
        }
        for VariableCopy { tensor, .. } in self.current() {
            if are_neighbours(tensor, copy)? {
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
