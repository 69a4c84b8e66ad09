//! The storage of variables: one value, on one device, with memory for the value that a step is
//! about to commit.
//!
//! A variable is passive here: it holds bytes, and records which of its two buffers is committed
//! and which is visible. The strategy decides what may be written when, and how replicas' values
//! are combined.

#![expect(
    unsafe_code,
    reason = "who may read and write a variable is the strategy's business"
)]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::values::buffer::{OfCopies, VariableBuffer};
use crate::values::copies::memory_of;
use crate::values::sharding::VariableSharding;
pub use crate::values::variable_spec::{Aggregation, Synchronization, VariableSpec};
use crate::{DType, Shape, Tensor, TensorMut};
use umbo_base::error::{Error, Result};
use umbo_base::text::Text;
use umbo_device::DeviceId;
use umbo_kernels::view::SpanMut;

/// Takes over the memory of released variables while a step may still read it through plain
/// pointers.
pub trait Keeper: Send + Sync {
    /// Keeps the tensors until no step can read them any more.
    fn keep(&self, tensors: &mut dyn Iterator<Item = Tensor>);
}

/// The number of times that a variable that optimizers update has become
/// [plain](Variable::is_single_buffered), or stopped to be. An apply to thousands of small
/// variables reads this number, and not all of them.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The result of [`Variable::replaced_count`].
static REPLACED: AtomicU64 = AtomicU64::new(0);

/// A variable. Cloning makes another reference to the same variable.
#[derive(Clone)]
pub struct Variable(Arc<VariableInner>);

/// A reference that does not keep the variable alive.
pub struct WeakVariable(Weak<VariableInner>);

impl WeakVariable {
    /// Whether the variable is still alive.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The variable, if it is still alive.
    pub fn upgrade(&self) -> Option<Variable> {
        self.0.upgrade().map(Variable)
    }
}

struct VariableInner {
    spec: VariableSpec,
    dtype: DType,
    shape: Shape,
    device: DeviceId,
    /// How several ranks divide it, if they do.
    sharding: Option<VariableSharding>,
    /// The two buffers. The second is made when a step first writes the variable, and stays.
    buffers: [VariableBuffer; 2],
    /// The buffer with the committed value.
    committed: AtomicU8,
    /// The buffer that the step in flight sees. It differs from `committed` once the step has
    /// written.
    visible: AtomicU8,
    /// Whether a buffer has, or is about to have, a low-precision copy.
    has_copies: AtomicBool,
    /// An optimizer wants to know when the variable becomes plain or stops to be.
    is_observed: AtomicBool,
    /// If a GPU holds the variable, or ranks divide it: how many applies to it are prepared and
    /// neither done nor dropped.
    updates_ahead: AtomicU32,
    /// Whether a warning was logged that this variable got one component of a per-replica value.
    has_warned: AtomicBool,
    /// Another variable, with other rows, has taken its place.
    is_replaced: AtomicBool,
    /// Whether the value must be in the first buffer whenever no step is in progress.
    stays: bool,
    keeper: Weak<dyn Keeper>,
}

impl Variable {
    /// A variable whose value is `value`, which nobody else may hold. If the library has not
    /// allocated its memory, the variable [stays](Variable::stays) there.
    pub fn new(spec: VariableSpec, value: Tensor, keeper: Weak<dyn Keeper>) -> Variable {
        Variable::divided(spec, value, keeper, None)
    }

    /// The same variable, which several ranks divide as `sharding` says.
    pub fn divided(
        spec: VariableSpec,
        value: Tensor,
        keeper: Weak<dyn Keeper>,
        sharding: Option<VariableSharding>,
    ) -> Variable {
        let dtype = value.dtype();
        let shape = value.shape();
        let device = value.device();
        let stays = !value.storage().0.is_own();
        Variable(Arc::new(VariableInner {
            spec,
            dtype,
            shape,
            device,
            sharding,
            buffers: [VariableBuffer::of(value), VariableBuffer::default()],
            committed: AtomicU8::new(0),
            visible: AtomicU8::new(0),
            has_copies: AtomicBool::new(false),
            is_observed: AtomicBool::new(false),
            updates_ahead: AtomicU32::new(0),
            has_warned: AtomicBool::new(false),
            is_replaced: AtomicBool::new(false),
            stays,
            keeper,
        }))
    }

    /// A reference that does not keep the variable alive.
    pub fn downgrade(&self) -> WeakVariable {
        WeakVariable(Arc::downgrade(&self.0))
    }

    /// Returns true at the first call only: for a warning that is logged once.
    pub fn warns_now(&self) -> bool {
        !self.0.has_warned.swap(true, Ordering::Relaxed)
    }

    /// The properties of the variable other than its value.
    pub fn spec(&self) -> &VariableSpec {
        &self.0.spec
    }

    /// The name.
    pub fn name(&self) -> &Text {
        &self.0.spec.name
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The parameter device that holds it.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// How several ranks divide its elements: each rank updates one part.
    pub fn sharding(&self) -> Option<&VariableSharding> {
        self.0.sharding.as_ref()
    }

    /// Whether `other` is a reference to the same variable.
    pub fn is_same(&self, other: &Variable) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that no other live variable has, for ordering and lookup.
    pub fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// The committed value, which all code outside of a step sees.
    ///
    /// # Safety
    /// While the elements of the returned tensor are read, nobody changes central state. So they
    /// are read under the strategy's lock of central state, or in a step, which commits only
    /// when it is over, or while the caller can exclude assignments.
    pub unsafe fn committed(&self) -> &Tensor {
        self.0.buffers[self.committed_buffer()].elements()
    }

    /// The index of the buffer of [`Variable::committed`]: 0 or 1.
    pub fn committed_buffer(&self) -> usize {
        self.0.committed.load(Ordering::Acquire).into()
    }

    /// The elements of one of the two buffers, which exists.
    ///
    /// # Safety
    /// While the elements of the returned tensor are read, nobody writes that buffer.
    pub unsafe fn in_buffer(&self, buffer: usize) -> &Tensor {
        self.0.buffers[buffer].elements()
    }

    /// The value that the step in flight sees: the committed value until the step has written the
    /// variable.
    ///
    /// # Safety
    /// While the elements of the returned tensor are read, the step neither writes the variable nor
    /// ends.
    pub unsafe fn visible(&self) -> &Tensor {
        self.0.buffers[self.visible_buffer()].elements()
    }

    /// The index of the buffer of [`Variable::visible`]: 0 or 1. Once a buffer exists, it stays the
    /// same tensor as long as the variable lives.
    pub fn visible_buffer(&self) -> usize {
        self.0.visible.load(Ordering::Acquire).into()
    }

    /// The committed value, to be written in place. Its low-precision copies are out of date from
    /// now on.
    ///
    /// # Safety
    /// While the result is used, nobody else reads or writes the committed value. The caller holds
    /// the step lock, which excludes other writers, and the lock of central state, which
    /// excludes readers.
    pub unsafe fn changing(&self) -> TensorMut<'_> {
        // SAFETY: the caller's promise.
        unsafe {
            self.0.buffers[self.committed_buffer()]
                .to_write()
                .assume_exclusive()
        }
    }

    /// The number of writes of a buffer that have started, without the updates at commit points.
    pub fn writes(&self, buffer: usize) -> u64 {
        self.0.buffers[buffer].writes()
    }

    /// The value of a buffer as `dtype` in the memory of `device`, if it is there and up to date:
    /// the buffer's elements, or a copy. Takes no lock.
    ///
    /// # Safety
    /// While the elements of the returned tensor are read, nobody writes the buffer.
    pub unsafe fn copy(&self, buffer: usize, device: DeviceId, dtype: DType) -> Option<&Tensor> {
        self.0.buffers[buffer].copy(memory_of(device), dtype)
    }

    /// The same, made or brought up to date if necessary. Once a copy exists, it stays the same
    /// tensor as long as the variable lives. If several threads call this at the same time, one
    /// converts.
    ///
    /// Fails with RESOURCE_EXHAUSTED if there is no memory for the copy.
    ///
    /// # Safety
    /// During the call, and while the elements of the returned tensor are read, nobody writes the
    /// buffer.
    pub unsafe fn refreshed_copy(
        &self,
        buffer: usize,
        device: DeviceId,
        dtype: DType,
    ) -> Result<&Tensor> {
        let memory = memory_of(device);
        let buffer = &self.0.buffers[buffer];
        if let Some(current) = buffer.copy(memory, dtype) {
            return Ok(current);
        }
        if !self.0.has_copies.swap(true, Ordering::AcqRel) {
            CHANGES.fetch_add(1, Ordering::AcqRel);
        }
        buffer.refreshed_copy(memory, dtype)
    }

    /// If a GPU holds the variable, or ranks divide it: counts an apply as prepared, or no longer
    /// as prepared once it is done or dropped.
    pub fn record_update_ahead(&self, is_prepared: bool) {
        if self.0.device.is_host_memory() && self.sharding().is_none() {
            return;
        }
        if is_prepared {
            self.0.updates_ahead.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.updates_ahead.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Fails if an apply is prepared whose new weights can only be computed from what the variable
    /// is now, and the same optimizer or another has an apply to the variable ahead of it.
    pub fn check_first_update(&self) -> Result<()> {
        if self.0.updates_ahead.load(Ordering::Relaxed) > 1 {
            return Err(Error::precondition(format!(
                "{self:?}: another optimizer's apply to it waits for the same commit point, and \
                 this one computes from what the variable is now. Apply them in steps of their own"
            )));
        }
        Ok(())
    }

    /// The number of times that variables have become plain, or stopped to be, of those for which
    /// [`Variable::advance_layout_epoch`] was called. Read this before
    /// [`Variable::is_single_buffered`]: while the number stays, so do the answers.
    pub fn layout_epoch() -> u64 {
        CHANGES.load(Ordering::Acquire)
    }

    /// From now on, changes of [`Variable::is_single_buffered`] count. The caller excludes that a
    /// step or an assignment changes the variable meanwhile.
    pub fn advance_layout_epoch(&self) {
        self.0.is_observed.store(true, Ordering::Release);
    }

    /// Makes a buffer the visible one.
    fn show(&self, buffer: u8) {
        let before = self.0.visible.swap(buffer, Ordering::AcqRel);
        if before != buffer && self.0.is_observed.load(Ordering::Acquire) {
            CHANGES.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether updates write only the first of the two buffers.
    pub fn is_single_buffered(&self) -> bool {
        self.visible_buffer() == 0 && !self.0.has_copies.load(Ordering::Acquire)
    }

    /// Called before an update writes `all` or some elements of a buffer. Returns which copies of
    /// the buffer the update has to write, too. No copy is up to date before
    /// [`Variable::end_update`].
    pub fn begin_update(&self, buffer: usize, all: bool) -> OfCopies<bool> {
        match self.0.has_copies.load(Ordering::Acquire) {
            true => self.0.buffers[buffer].begin_update(all),
            false => OfCopies::default(),
        }
    }

    /// The copies of a buffer that an update writes, too.
    pub fn copies_to_write(
        &self,
        buffer: usize,
        which: OfCopies<bool>,
    ) -> OfCopies<Option<&SpanMut<'_>>> {
        if !which.contains(&true) {
            return OfCopies::default();
        }
        self.0.buffers[buffer].copies_to_write(which)
    }

    /// Whether the update of a buffer that has begun sends its elements to devices.
    pub fn sends(&self, buffer: usize) -> bool {
        self.0.has_copies.load(Ordering::Acquire) && self.0.buffers[buffer].sends()
    }

    /// Called when an update has written all elements of a buffer up to `end`, and those of the
    /// copies that it writes: sends them to the copies on devices that were asked for since the
    /// last update. It does not wait for their arrival.
    pub fn send(&self, buffer: usize, end: usize) {
        self.0.buffers[buffer].send(end);
    }

    /// Called when an update has written elements of a buffer and of these copies. What was not
    /// [sent](Variable::send) is sent now.
    pub fn end_update(&self, buffer: usize, written: OfCopies<bool>) {
        self.0.buffers[buffer].end_update(written);
    }

    /// From now on optimizers and checkpoints refuse the variable: another one, with other rows,
    /// has taken its place. Its value can still be read and assigned.
    pub fn mark_replaced(&self) {
        self.0.is_replaced.store(true, Ordering::Release);
        REPLACED.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of variables that others have taken the place of. While it stays, nobody has to
    /// ask each variable.
    pub fn replaced_count() -> u64 {
        REPLACED.load(Ordering::Acquire)
    }

    /// Whether another variable has taken its place.
    pub fn is_replaced(&self) -> bool {
        self.0.is_replaced.load(Ordering::Acquire)
    }

    /// Fails if another variable has taken its place.
    pub fn check_not_replaced(&self) -> Result<()> {
        if self.is_replaced() {
            return Err(Error::precondition(format!(
                "{self:?}: a change of rows has put another variable in its place; \
                 make gradients of that one, add it to checkpoints by the same name, and release \
                 this one"
            )));
        }
        Ok(())
    }

    /// Whether the step in flight has written the variable.
    pub fn is_staged(&self) -> bool {
        self.0.visible.load(Ordering::Acquire) != self.0.committed.load(Ordering::Acquire)
    }

    /// The buffer into which the step in flight writes the value. It is the visible one if the step
    /// wrote before. Its contents count only after [`Variable::stage`]. Its low-precision
    /// copies are out of date from now on.
    ///
    /// # Safety
    /// While the result is used, nobody else reads or writes that buffer. The caller is the only
    /// thread that writes in the step in flight, or there is no step and the caller holds the
    /// step lock. Nobody reads a view that was returned earlier.
    pub unsafe fn staging(&self) -> Result<TensorMut<'_>> {
        let committed = self.committed_buffer();
        let buffer = &self.0.buffers[1 - committed];
        buffer.reserve(&self.0.buffers[committed])?;
        // SAFETY: the caller's promise.
        Ok(unsafe { buffer.to_write().assume_exclusive() })
    }

    /// Makes the staging buffer visible to the step in flight.
    pub fn stage(&self) {
        let committed = self.0.committed.load(Ordering::Acquire);
        self.show(1 - committed);
    }

    /// Makes what the step wrote the committed value.
    pub fn publish(&self) {
        self.0
            .committed
            .store(self.0.visible.load(Ordering::Acquire), Ordering::Release);
    }

    /// One of the two buffers.
    pub(super) fn buffer(&self, buffer: usize) -> &VariableBuffer {
        &self.0.buffers[buffer]
    }

    /// Whether the committed value is always in the same memory, which the library has not
    /// allocated. For other variables, a step that assigns moves the value between two buffers.
    /// Updates, and assignments outside of steps, write it where it is.
    pub fn stays(&self) -> bool {
        self.0.stays
    }

    /// Copies the committed value to the memory where it stays, if a step has moved it.
    ///
    /// # Safety
    /// Nobody reads or writes the variable. The caller holds the step lock and the lock of central
    /// state, and the step is over.
    pub unsafe fn bring_home(&self) {
        if !self.0.stays || self.committed_buffer() == 0 {
            return;
        }
        let [home, away] = &self.0.buffers;
        // SAFETY: the caller's promise.
        let mut to = unsafe { home.to_write().assume_exclusive() };
        // Copies in host memory do not fail. If one did, the value would still be right, but in the
        // other buffer.
        if to.copy_from(away.elements()).is_ok() {
            self.show(0);
            self.0.committed.store(0, Ordering::Release);
        }
    }

    /// Discards what the step wrote.
    pub fn discard(&self) {
        self.show(self.0.committed.load(Ordering::Acquire));
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "variable '{}' ({} {})",
            self.name(),
            self.dtype(),
            self.shape()
        )
    }
}

impl Drop for VariableInner {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.keep(&mut self.buffers.iter_mut().flat_map(VariableBuffer::take));
        }
    }
}
