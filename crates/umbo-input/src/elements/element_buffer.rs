//! Elements whose memory is filled again once their consumer has dropped them.

#![expect(unsafe_code, reason = "a buffer that nobody else has is written")]

use std::sync::Arc;

use crate::elements::spec::ElementSpec;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::origin::BatchShare;
use umbo_tensor::storage::Storage;
use umbo_tensor::values::Value;
use umbo_tensor::values::copies::memory_of;
use umbo_tensor::{DType, Layout, Shape, Tensor, TensorMut, TensorParts};

/// A buffer that can be used again once nobody else holds a part of it.
pub(crate) trait Reusable {
    /// Drops the references that it holds. Returns whether nobody else refers to it.
    fn release(&mut self) -> bool;
}

/// The number of buffers that are kept in addition to those reserved, for consumers that hold
/// several elements.
const SPARE: usize = 8;

/// The number of buffers that are inspected at most to find a free one. A pool with fewer buffers
/// inspects all of them.
const LOOKS: usize = 64;

/// Buffers that are in use, and buffers that can be used again. The pool keeps a bounded number. If
/// consumers hold more elements than that, they alone own the others.
///
/// However many buffers there are, at most [`LOOKS`] are inspected for an element, and about nine
/// if elements come back in no order: the pool keeps so many buffers that one of nine is then free.
/// If none of the inspected buffers is free, a new one is made.
pub(crate) struct BufferPool<F> {
    buffers: Vec<F>,
    reserved: usize,
    /// The position after the buffer that was last inspected for a claim.
    next: usize,
    /// The position after the buffer that was last released while idle.
    next_idle: usize,
}

impl<F: Reusable> BufferPool<F> {
    /// An empty pool.
    pub(crate) fn new() -> BufferPool<F> {
        BufferPool {
            buffers: Vec::new(),
            reserved: 1,
            next: 0,
            next_idle: 0,
        }
    }

    /// Reserves places for `buffers` more buffers.
    pub(crate) fn reserve(&mut self, buffers: usize) {
        self.reserved = self.reserved.saturating_add(buffers);
    }

    /// Releases what unused buffers refer to, such as the source's elements. A small pool releases
    /// all of its unused buffers. A large one inspects the next [`LOOKS`] in each call.
    pub(crate) fn release_idle(&mut self) {
        for _ in 0..self.buffers.len().min(LOOKS) {
            self.next_idle = (self.next_idle + 1) % self.buffers.len();
            self.buffers[self.next_idle].release();
        }
    }

    /// A buffer that nobody else uses: one that came back or, if none did, a new one.
    ///
    /// Elements come back in about the order in which they went out, so the search begins after the
    /// buffer that was claimed last.
    pub(crate) fn claim(&mut self, make: impl Fn() -> Result<F>) -> Result<&mut F> {
        // The buffers of small pools are made at once, so that no later element needs memory.
        while self.buffers.len() < self.reserved.min(LOOKS) {
            self.buffers.push(make()?);
        }
        let most = self
            .reserved
            .saturating_add(self.reserved / 8)
            .saturating_add(SPARE);
        let index = match self.find_free() {
            Some(free) => free,
            None if self.buffers.len() < most => {
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
pub(crate) struct ElementBuffer {
    value: Value,
    buffers: Vec<Option<Arc<Storage>>>,
    /// The tensor that idle tensors are views of.
    nothing: Tensor,
}

impl ElementBuffer {
    /// A buffer for elements like `spec`. It holds no element yet.
    pub(crate) fn new(spec: &ElementSpec) -> Result<ElementBuffer> {
        let nothing = Tensor::zeros(DType::UInt8, Shape::new(&[0])?, DeviceId::HOST)?;
        let mut buffers = Vec::new();
        let value = spec.value(&mut |_, _| {
            buffers.push(None);
            nothing.slice(0, 0, 0, 1)
        })?;
        Ok(ElementBuffer {
            value,
            buffers,
            nothing,
        })
    }

    /// The element.
    pub(crate) fn value(&self) -> Value {
        self.value.clone()
    }

    /// Calls `fill` for each tensor, in order, with its number, components counted, and with the
    /// memory that belongs to it.
    pub(crate) fn fill(
        &mut self,
        fill: &mut dyn FnMut(usize, &mut LeafBuffer<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut buffers = self.buffers.iter_mut().enumerate();
        let ours = for_each_tensor(&mut self.value, &mut |tensor| {
            let Some((number, buffer)) = buffers.next() else {
                return Ok(false);
            };
            fill(number, &mut LeafBuffer { tensor, buffer })?;
            Ok(true)
        })?;
        if ours { Ok(()) } else { Err(in_use()) }
    }
}

impl Reusable for ElementBuffer {
    fn release(&mut self) -> bool {
        let ElementBuffer {
            value,
            buffers,
            nothing,
        } = self;
        let (storage, offset) = nothing.storage();
        let dtype = nothing.dtype();
        let layout = *nothing.layout();
        let device = nothing.device();
        let parts = TensorParts {
            storage,
            dtype,
            layout,
            offset,
            device,
            share: None,
        };
        let ours = for_each_tensor(value, &mut |tensor| Ok(tensor.try_replace(&parts)));
        // A consumer may hold a slice of a tensor after it has dropped the tensor. A request for
        // exclusive access, unlike a count of references, also orders the consumer's last
        // access before the next one here.
        matches!(ours, Ok(true))
            && buffers
                .iter_mut()
                .flatten()
                .all(|buffer| Arc::get_mut(buffer).is_some())
    }
}

/// One tensor of a buffer, to be filled.
pub(crate) struct LeafBuffer<'a> {
    pub(crate) tensor: &'a mut Tensor,
    buffer: &'a mut Option<Arc<Storage>>,
}

impl LeafBuffer<'_> {
    /// Makes the tensor a contiguous one of `shape` in memory of its own, of at least `capacity`
    /// bytes. Returns it for the caller to write.
    pub(crate) fn own(
        &mut self,
        dtype: DType,
        shape: Shape,
        capacity: usize,
    ) -> Result<TensorMut<'_>> {
        let bytes = capacity.max(shape.bytes(dtype)?);
        let storage = match self.buffer.take().filter(|buffer| buffer.bytes() >= bytes) {
            Some(buffer) => buffer,
            None => Arc::new(Storage::uninitialized(bytes, DeviceId::HOST)?),
        };
        *self.buffer = Some(Arc::clone(&storage));
        let layout = Layout::row_major(shape);
        let device = DeviceId::HOST;
        let parts = TensorParts {
            storage: &storage,
            dtype,
            layout,
            offset: 0,
            device,
            share: None,
        };
        if !self.tensor.try_replace(&parts) {
            return Err(in_use());
        }
        Ok(self.own_tensor())
    }

    /// The tensor that was last made in memory of its own, for the caller to write.
    pub(crate) fn own_tensor(&mut self) -> TensorMut<'_> {
        // SAFETY: nobody has the tensor until the buffer is given away. Those to whom it was given
        // before hold nothing of its memory any more, since the pool claims no other
        // buffers.
        unsafe { self.tensor.assume_exclusive() }
    }

    /// The tensor that was last made.
    pub(crate) fn tensor(&self) -> &Tensor {
        self.tensor
    }

    /// Makes the tensor a view of `source` with `layout`, which starts `elements` elements further
    /// on.
    pub(crate) fn view(&mut self, source: &Tensor, layout: Layout, elements: usize) -> Result<()> {
        view(self.tensor, source, layout, elements, source.device(), None)
    }
}

/// Makes `tensor`, which nobody else holds, a view of `source` on `device`. The view has `layout`
/// and starts `elements` elements further on. If the device cannot read the memory, the tensor
/// becomes a copy instead. The tensor's old memory goes back to its pool in the order of the
/// device's work, so that a pass ahead of its replicas holds only what they need.
pub(crate) fn view(
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
    let dtype = source.dtype();
    let offset = start + elements * source.dtype().size();
    let parts = TensorParts {
        storage,
        dtype,
        layout,
        offset,
        device,
        share,
    };
    if tensor.try_replace(&parts) {
        Ok(())
    } else {
        Err(in_use())
    }
}

/// The error if a buffer is filled that was not claimed from its pool.
pub(crate) fn in_use() -> Error {
    Error::Internal("an element that is in use was to be filled".into())
}

/// Calls `visit` for each tensor of a nest, as long as it returns true and nobody else holds the
/// nest. Returns whether all were visited.
fn for_each_tensor(
    value: &mut Value,
    visit: &mut dyn FnMut(&mut Tensor) -> Result<bool>,
) -> Result<bool> {
    match value {
        Value::Tensor(tensor) => return visit(tensor),
        Value::PerReplica(value) => {
            let Some(value) = Arc::get_mut(value) else {
                return Ok(false);
            };
            for component in value.components_mut() {
                if !visit(component)? {
                    return Ok(false);
                }
            }
        }
        nest => {
            let Some(items) = nest.items_mut() else {
                return Ok(false);
            };
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
        /// The number of times that pools of this thread have inspected a buffer, and how many
        /// buffers they have made.
        static LOOKS_SO_FAR: Cell<usize> = const { Cell::new(0) };
        static MADE_SO_FAR: Cell<usize> = const { Cell::new(0) };
    }

    /// A buffer of one element. The second field counts how often it was inspected.
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

    /// The number of inspected buffers and of new buffers for each element. The consumer keeps
    /// `kept` elements, and drops one, which `drop_next` chooses, for each new one.
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

    /// The cost of an element does not depend on how many there are, nor on whether they come back
    /// in the order in which they went out. In the long run, buffers are used again.
    #[test]
    fn a_claim_looks_at_a_few_buffers_however_many_there_are() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for kept in [16, 256, 4096, 32768] {
            let (looks, new) = costs(kept, |number| number % kept);
            assert!(
                looks <= 2.0 && new == 0.0,
                "in order, of {kept}: {looks} looks, {new} new"
            );
            let (looks, new) = costs(kept, |_| random.random_range(0..kept));
            assert!(
                looks <= 16.0 && new <= 0.01,
                "any, of {kept}: {looks} looks, {new} new"
            );
        }
    }

    #[test]
    fn idle_buffers_are_released_in_turn() {
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
