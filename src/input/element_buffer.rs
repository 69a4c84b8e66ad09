//! Elements that are filled again once their consumer has dropped them.

#![expect(unsafe_code, reason = "a buffer that nobody else has is written")]

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::spec::ElementSpec;
use crate::tensor::origin::BatchShare;
use crate::tensor::storage::Storage;
use crate::tensor::{DType, Layout, Shape, Tensor, TensorMut, TensorParts};
use crate::values::Value;
use crate::values::device_copies::memory_of;

/// Something that can be used again once nobody else holds a part of it.
pub(super) trait Reusable {
    /// Lets go of what it refers to, and says whether nobody else refers to it.
    fn release(&mut self) -> bool;
}

/// So many more buffers than reserved are kept for consumers that hold several elements.
const SPARE: usize = 8;

/// So many buffers are looked at for one that came back. With fewer buffers that is all of them.
const LOOKS: usize = 64;

/// Buffers in use and to be used again. The pool holds on to a bounded number; consumers that keep
/// more elements than that own the others alone.
///
/// However many buffers there are, an element costs at most [`LOOKS`] looks at one, and about nine where
/// elements come back in no order: so many buffers are kept that then one of nine is free. Where none of
/// those that are looked at is, a new one is made.
pub(super) struct BufferPool<F> {
    buffers: Vec<F>,
    reserved: usize,
    /// The buffer behind the one that was looked at last for a claim.
    next: usize,
    /// The buffer behind the one that was made idle last.
    next_idle: usize,
}

impl<F: Reusable> BufferPool<F> {
    /// An empty pool.
    pub(super) fn new() -> BufferPool<F> {
        BufferPool { buffers: Vec::new(), reserved: 1, next: 0, next_idle: 0 }
    }

    /// Has room for so many more buffers.
    pub(super) fn reserve(&mut self, buffers: usize) {
        self.reserved = self.reserved.saturating_add(buffers);
    }

    /// Lets buffers that nobody uses go of what they refer to, such as the source's elements: all of
    /// them, or in a large pool the next ones of a walk around it.
    pub(super) fn release_idle(&mut self) {
        for _ in 0..self.buffers.len().min(LOOKS) {
            self.next_idle = (self.next_idle + 1) % self.buffers.len();
            self.buffers[self.next_idle].release();
        }
    }

    /// A buffer that nobody else uses: one that came back, or else a new one.
    ///
    /// Elements come back about in the order in which they went out, so looking begins behind
    /// the buffer that was claimed last.
    pub(super) fn claim(&mut self, make: impl Fn() -> Result<F>) -> Result<&mut F> {
        // Those of small pools are made at once, so that no later element asks for memory.
        while self.buffers.len() < self.reserved.min(LOOKS) {
            self.buffers.push(make()?);
        }
        let index = match self.find_free() {
            Some(free) => free,
            None if self.buffers.len() < self.most() => {
                self.buffers.push(make()?);
                self.buffers.len() - 1
            }
            None => {
                let other = self.next % self.buffers.len();
                self.buffers[other] = make()?;
                self.next = other + 1;
                other
            }
        };
        Ok(&mut self.buffers[index])
    }

    /// How many buffers there are at most.
    fn most(&self) -> usize {
        self.reserved.saturating_add(self.reserved / 8).saturating_add(SPARE)
    }

    fn find_free(&mut self) -> Option<usize> {
        let count = self.buffers.len();
        for _ in 0..count.min(LOOKS) {
            let index = self.next % count;
            self.next = index + 1;
            if self.buffers[index].release() {
                return Some(index);
            }
        }
        None
    }
}

/// An element and, for each of its tensors, the memory that it was last copied to.
pub(super) struct ElementBuffer {
    value: Value,
    buffers: Vec<Option<Arc<Storage>>>,
    /// What idle tensors point at.
    nothing: Tensor,
}

impl ElementBuffer {
    /// A buffer for elements like `spec`, with no elements yet.
    pub(super) fn new(spec: &ElementSpec) -> Result<ElementBuffer> {
        let nothing = Tensor::zeros(DType::UInt8, Shape::new(&[0])?, DeviceId::HOST)?;
        let value = spec.value(&mut |_, _| nothing.slice(0, 0, 0, 1))?;
        let buffers = vec![None; spec.leaves()];
        Ok(ElementBuffer { value, buffers, nothing })
    }

    /// The element.
    pub(super) fn value(&self) -> Value {
        self.value.clone()
    }

    /// Gives each tensor, in order, to `fill`: with which leaf of the element it is and, of `replicas`
    /// components each, which component.
    pub(super) fn for_each_component(
        &mut self,
        replicas: usize,
        fill: &mut dyn FnMut(usize, usize, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut tensors = 0..;
        let ours = for_each_tensor(&mut self.value, &mut |tensor| {
            let Some(position) = tensors.next() else { return Ok(false) };
            fill(position / replicas, position % replicas, tensor)?;
            Ok(true)
        })?;
        if ours { Ok(()) } else { Err(in_use()) }
    }

    /// Gives each tensor, in order, to `fill`, with the memory that is its own to use.
    pub(super) fn fill(
        &mut self,
        fill: &mut dyn FnMut(usize, &mut LeafBuffer<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut buffers = self.buffers.iter_mut().enumerate();
        let ours = for_each_tensor(&mut self.value, &mut |tensor| {
            let Some((leaf, buffer)) = buffers.next() else { return Ok(false) };
            fill(leaf, &mut LeafBuffer { tensor, buffer })?;
            Ok(true)
        })?;
        if ours { Ok(()) } else { Err(in_use()) }
    }
}

impl Reusable for ElementBuffer {
    fn release(&mut self) -> bool {
        let ElementBuffer { value, buffers, nothing } = self;
        let (storage, offset) = nothing.storage();
        let (dtype, layout) = (nothing.dtype(), *nothing.layout());
        let device = nothing.device();
        let parts = TensorParts { storage, dtype, layout, offset, device, share: None };
        let ours = for_each_tensor(value, &mut |tensor| Ok(tensor.try_replace(&parts)));
        // A consumer may have kept a slice of a tensor beyond the tensor. Asking for exclusive
        // access, rather than counting, also orders its last access before our next one.
        matches!(ours, Ok(true))
            && buffers.iter_mut().flatten().all(|buffer| Arc::get_mut(buffer).is_some())
    }
}

/// One tensor of a buffer, to be filled.
pub(super) struct LeafBuffer<'a> {
    tensor: &'a mut Tensor,
    buffer: &'a mut Option<Arc<Storage>>,
}

impl LeafBuffer<'_> {
    /// Makes sure that the slot has `bytes` bytes of memory of its own.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<Arc<Storage>> {
        let large_enough = self.buffer.take().filter(|buffer| buffer.bytes() >= bytes);
        let buffer = match large_enough {
            Some(buffer) => buffer,
            None => Arc::new(Storage::uninitialized(bytes, DeviceId::HOST)?),
        };
        *self.buffer = Some(Arc::clone(&buffer));
        Ok(buffer)
    }

    /// Makes the tensor a contiguous one of `shape` in memory of its own, of at least `capacity`
    /// bytes, and returns it for the caller to write.
    pub(super) fn own(
        &mut self,
        dtype: DType,
        shape: Shape,
        capacity: usize,
    ) -> Result<TensorMut<'_>> {
        let storage = self.reserve(capacity.max(shape.bytes(dtype)?))?;
        let layout = Layout::row_major(shape);
        let device = DeviceId::HOST;
        let parts =
            TensorParts { storage: &storage, dtype, layout, offset: 0, device, share: None };
        if !self.tensor.try_replace(&parts) {
            return Err(in_use());
        }
        Ok(self.own_tensor())
    }

    /// The tensor as it was last made, which was in memory of its own, for the caller to write.
    pub(super) fn own_tensor(&mut self) -> TensorMut<'_> {
        // SAFETY: nobody has the tensor until the buffer is given away, and none of those to whom it
        // was given before has anything of its memory any more: the pool claims no other buffers.
        unsafe { self.tensor.assume_exclusive() }
    }

    /// The tensor as it was last made.
    pub(super) fn tensor(&self) -> &Tensor {
        self.tensor
    }

    /// Makes the tensor a view of `source`: `layout`, `elements` further on.
    pub(super) fn view(&mut self, source: &Tensor, layout: Layout, elements: usize) -> Result<()> {
        view(self.tensor, source, layout, elements, source.device(), None)
    }
}

/// Makes `tensor`, which nobody else holds, a view of `source`: `layout`, `elements` further on, on
/// `device`; or, if that cannot read the memory, a copy of it. What it had before goes back to its pool, in the
/// order of the device's work, so a pass that is ahead of its replicas holds what they need and no more.
pub(super) fn view(
    tensor: &mut Tensor,
    source: &Tensor,
    layout: Layout,
    elements: usize,
    device: DeviceId,
    share: Option<BatchShare>,
) -> Result<()> {
    let copied;
    let (source, layout, elements) = match memory_of(device) == memory_of(source.device()) {
        true => (source, layout, elements),
        false => {
            let (storage, start) = source.storage();
            let offset = start + elements * source.dtype().size();
            let part = Tensor::from_storage(Arc::clone(storage), source.dtype(), layout, offset)?;
            copied = part.copied_to(device)?;
            (&copied, *copied.layout(), 0)
        }
    };
    let (storage, start) = source.storage();
    let (dtype, offset) = (source.dtype(), start + elements * source.dtype().size());
    let parts = TensorParts { storage, dtype, layout, offset, device, share };
    if tensor.try_replace(&parts) { Ok(()) } else { Err(in_use()) }
}

/// The error of filling a buffer that was not claimed from its pool.
pub(super) fn in_use() -> Error {
    Error::Internal("an element that is in use was to be filled".into())
}

/// Gives each tensor of a nest to `visit`, as long as that returns true and nobody else holds the
/// nest; returns whether all were visited.
fn for_each_tensor(
    value: &mut Value,
    visit: &mut dyn FnMut(&mut Tensor) -> Result<bool>,
) -> Result<bool> {
    match value {
        Value::Tensor(tensor) => return visit(tensor),
        Value::PerReplica(value) => {
            let Some(value) = Arc::get_mut(value) else { return Ok(false) };
            for component in value.components_mut() {
                if !visit(component)? {
                    return Ok(false);
                }
            }
        }
        nest => {
            let Some(items) = nest.items_mut() else { return Ok(false) };
            for item in items {
                if !for_each_tensor(item, visit)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    thread_local! {
        /// How often pools of this thread have looked at a buffer, and how many buffers they have made.
        static LOOKS_SO_FAR: Cell<usize> = const { Cell::new(0) };
        static MADE_SO_FAR: Cell<usize> = const { Cell::new(0) };
    }

    /// A buffer of one element, which says how often it was looked at.
    struct Counted(Arc<()>, usize);

    impl Reusable for Counted {
        fn release(&mut self) -> bool {
            LOOKS_SO_FAR.set(LOOKS_SO_FAR.get() + 1);
            self.1 += 1;
            Arc::get_mut(&mut self.0).is_some()
        }
    }

    fn claim(pool: &mut BufferPool<Counted>) -> Arc<()> {
        let buffer = pool.claim(|| {
            MADE_SO_FAR.set(MADE_SO_FAR.get() + 1);
            Ok(Counted(Arc::new(()), 0))
        });
        Arc::clone(&buffer.unwrap().0)
    }

    /// A pool, and `kept` elements from it.
    fn pool_of(kept: usize) -> (BufferPool<Counted>, Vec<Arc<()>>) {
        let mut pool = BufferPool::new();
        pool.reserve(kept);
        let elements = (0..kept).map(|_| claim(&mut pool)).collect();
        (pool, elements)
    }

    /// How many looks at buffers and how many new buffers each element costs a consumer that keeps
    /// `kept` of them and drops one, which `drop_next` chooses, for each new one.
    fn costs(kept: usize, mut drop_next: impl FnMut(usize) -> usize) -> (f64, f64) {
        let (mut pool, mut elements) = pool_of(kept);
        let mut claims = |count: usize| {
            LOOKS_SO_FAR.set(0);
            MADE_SO_FAR.set(0);
            for number in 0..count {
                elements[drop_next(number)] = claim(&mut pool);
            }
            let of_each = |all: usize| all as f64 / count as f64;
            (of_each(LOOKS_SO_FAR.get()), of_each(MADE_SO_FAR.get()))
        };
        claims(2 * kept);
        claims(4 * kept)
    }

    /// What an element costs does not depend on how many there are, whether they come back in the
    /// order in which they went out or in none; and in the long run buffers are used again.
    #[test]
    fn a_claim_looks_at_a_few_buffers_however_many_there_are() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for kept in [16, 256, 4096, 32768] {
            let (looks, new) = costs(kept, |number| number % kept);
            assert!(looks <= 2.0 && new == 0.0, "in order, of {kept}: {looks} looks, {new} new");
            let (looks, new) = costs(kept, |_| random.random_range(0..kept));
            assert!(looks <= 16.0 && new <= 0.01, "any, of {kept}: {looks} looks, {new} new");
        }
    }

    #[test]
    fn idle_buffers_are_let_go_of_in_turn() {
        let (mut pool, elements) = pool_of(1000);
        drop(elements);
        pool.buffers.iter_mut().for_each(|buffer| buffer.1 = 0);
        for _ in 0..1000_usize.div_ceil(LOOKS) {
            LOOKS_SO_FAR.set(0);
            pool.release_idle();
            assert_eq!(LOOKS_SO_FAR.get(), LOOKS);
        }
        assert!(pool.buffers.iter().all(|buffer| buffer.1 > 0));
    }
}
