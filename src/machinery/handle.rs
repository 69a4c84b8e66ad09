//! The handle table: what a C program holds instead of addresses.
//!
//! A handle is kind, generation and slot number, packed into the value of a pointer and never
//! dereferenced:
//!
//! ```text
//! 63      56 55                    26 25                     0
//! |  kind   |       generation       |          slot         |
//! ```
//!
//! Pointers of 32 bits have 14 bits of generation and 18 of slot. The kind is that of the slot's
//! state there, and the first generation is 1, so that no handle is NULL.
//!
//! A slot's state has the same upper bits, so one comparison shows whether a handle counts. The
//! generation moves on when the handle is released; a slot whose generations are used up
//! is never used again. Stale, foreign and made-up handles are therefore recognised, and none of
//! them leads to an access to memory that is not the table's.
//!
//! Slots lie in chunks of doubling size that are never moved or freed, objects lie in the slots.
//! Making and releasing handles allocates nothing once the table has its size.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::hazard::{self, Hazard};
use super::made_handles;
use super::object::{Kind, Object, Opaque};
use parking_lot::Mutex;
use umbo_core::error::{Error, Result, memory};
use umbo_core::executor::fork;
use umbo_core::observe::log::{self, Level};

mod lent;

pub(crate) use lent::LentHandle;

/// Whether pointers have room for the kind.
const IS_WIDE: bool = usize::BITS == 64;
const SLOT_BITS: u32 = if IS_WIDE { 26 } else { 18 };
const GENERATION_BITS: u32 = if IS_WIDE { 30 } else { 14 };
const KIND_SHIFT: u32 = SLOT_BITS + GENERATION_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// In the lower bits of a state: the slot holds an object,
const TAKEN: u64 = 1;
/// which is only lent.
const LENT: u64 = 2;

const FIRST_CHUNK_BITS: u32 = 6;
const CHUNKS: usize = if IS_WIDE { 20 } else { 12 };
/// The generation of a slot that was never used.
const FIRST_GENERATION: u64 = if IS_WIDE { 0 } else { 1 };
const SLOTS: u32 = (((1u64 << CHUNKS) - 1) << FIRST_CHUNK_BITS) as u32;
const NO_SLOT: u32 = u32::MAX;
/// The number of this chunk. A program with so many handles that the table needs it is warned.
const MANY_CHUNK: usize = 10;

const _: () = assert!(usize::BITS == 64 || usize::BITS == SLOT_BITS + GENERATION_BITS);
const _: () = assert!((SLOTS as u64) <= SLOT_MASK);

/// By default a free slot of the first generation.
struct HandleSlot {
    /// Kind and generation as in a handle, then `TAKEN` and `LENT`. All but the generation is zero
    /// while the slot is free.
    state: AtomicU64,
    /// The next free slot; used under the lock of `Table::free`.
    next_free: AtomicU32,
    /// Initialised while the state says `TAKEN`.
    object: UnsafeCell<MaybeUninit<Object>>,
}

impl Default for HandleSlot {
    fn default() -> HandleSlot {
        HandleSlot {
            state: AtomicU64::new(FIRST_GENERATION << SLOT_BITS),
            next_free: AtomicU32::new(0),
            object: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

struct Free {
    /// The slot that was freed last; the others follow through `next_free`.
    head: u32,
    /// Slots from this number on were never used.
    fresh: u32,
}

struct HandleTable {
    chunks: [OnceLock<Box<[HandleSlot]>>; CHUNKS],
    free: Mutex<Free>,
}

// SAFETY: an object is written only by the thread that took its slot from the free list, before
// the state that makes handles to it count, and taken out only after they ceased to count and no
// hazard record names the slot. In between it is only read, and `Opaque::Object` is `Send + Sync`.
unsafe impl Sync for HandleSlot {}

static TABLE: HandleTable = HandleTable {
    chunks: [const { OnceLock::new() }; CHUNKS],
    free: Mutex::new(Free {
        head: NO_SLOT,
        fresh: 0,
    }),
};

/// The number of the chunk that a slot is in, and the place in it.
fn place(slot: u32) -> (usize, usize) {
    let position = slot + (1 << FIRST_CHUNK_BITS);
    let bit = position.ilog2();
    (
        (bit - FIRST_CHUNK_BITS) as usize,
        (position - (1 << bit)) as usize,
    )
}

fn generation(bits: u64) -> u64 {
    (bits >> SLOT_BITS) & GENERATION_MASK
}

/// Whether a handle to the slot of `state` counts.
fn counts(handle: u64, state: u64) -> bool {
    (handle ^ state) >> SLOT_BITS == 0 && state & TAKEN != 0
}

impl HandleTable {
    /// The slot, if there is memory behind its number.
    fn slot(&'static self, slot: u32) -> Option<&'static HandleSlot> {
        let (chunk, offset) = place(slot);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// A slot that nobody else uses, of generation below the last, and its number.
    fn take(&'static self) -> Result<(u32, &'static HandleSlot)> {
        let mut free = self.free.lock();
        let index = if free.head != NO_SLOT {
            free.head
        } else {
            free.fresh
        };
        if index == SLOTS {
            return Err(Error::beyond_limit(format!(
                "all {SLOTS} handles are in use"
            )));
        }
        let (chunk, offset) = place(index);
        if index == free.fresh && offset == 0 {
            let slots = new_chunk(chunk)?;
            self.chunks[chunk].get_or_init(|| slots);
            if chunk == MANY_CHUNK {
                ARE_MANY.store(true, Ordering::Relaxed);
            }
        }
        let slot = self
            .slot(index)
            .ok_or_else(|| Error::Internal("a slot without memory".into()))?;
        if index == free.fresh {
            free.fresh += 1;
        } else {
            free.head = slot.next_free.load(Ordering::Relaxed);
        }
        Ok((index, slot))
    }

    /// Gives a slot back whose state is free. One whose generations are used up is kept out.
    fn give_back(&'static self, index: u32) {
        let Some(slot) = self.slot(index) else { return };
        if generation(slot.state.load(Ordering::Relaxed)) == GENERATION_MASK {
            return;
        }
        let mut free = self.free.lock();
        slot.next_free.store(free.head, Ordering::Relaxed);
        free.head = index;
    }
}

/// Whether a warning of many handles is due. It is given when the call makes its handle, since the
/// table is locked while it grows.
static ARE_MANY: AtomicBool = AtomicBool::new(false);

#[inline]
fn warn_of_many() {
    if ARE_MANY.load(Ordering::Relaxed) && ARE_MANY.swap(false, Ordering::Relaxed) {
        say_many();
    }
}

#[cold]
fn say_many() {
    log::log(Level::Warning, || {
        format!(
            "{} handles are in use, of which {} are tensors and {} are values; check that a \
             loop releases each that it makes; what a callback makes is released when it returns",
            live(None),
            live(Some(Kind::Tensor)),
            live(Some(Kind::Value))
        )
    });
}

/// The slots of a chunk, all free.
fn new_chunk(chunk: usize) -> Result<Box<[HandleSlot]>> {
    // Here, since the first handle of all comes here.
    fork::record_use();
    let mut slots = memory::list(1 << (chunk as u32 + FIRST_CHUNK_BITS), "more handles")?;
    slots.resize_with(slots.capacity(), HandleSlot::default);
    Ok(slots.into())
}

/// Puts an object into a slot that the caller has taken; `marks` are `TAKEN`, and `LENT` if it is.
/// Returns the handle.
fn fill<H>(index: u32, slot: &HandleSlot, object: Object, marks: u64) -> *mut H {
    let generation = generation(slot.state.load(Ordering::Relaxed));
    let name = (object.kind() as u64) << KIND_SHIFT | generation << SLOT_BITS;
    // SAFETY: the slot is free and taken, so no handle to it counts and nobody reads the object.
    unsafe { (*slot.object.get()).write(object) };
    slot.state.store(name | marks, Ordering::Release);
    ptr::without_provenance_mut((name | u64::from(index)) as usize)
}

/// Takes the object out of a slot whose state has just been set to free, once nobody uses it.
fn vacate(index: u32, slot: &'static HandleSlot) -> Object {
    hazard::wait_until_unused(index);
    // SAFETY: the state had references, so the object is there; the caller alone changed it to a
    // free one, so that no new use begins, and the last use has ended. The slot is not in the free
    // list yet, so nobody else writes the object.
    unsafe { (*slot.object.get()).assume_init_read() }
}

#[inline]
fn bits<H>(handle: *const H) -> u64 {
    with_kind(handle.addr())
}

/// The bits of a handle, to which those of the kind belong. Where a handle has none, it has the
/// kind of what is in its slot, if something is.
#[inline]
fn with_kind(handle: usize) -> u64 {
    let handle = handle as u64;
    if IS_WIDE {
        return handle;
    }
    let state = |slot: &HandleSlot| slot.state.load(Ordering::SeqCst);
    let kind = TABLE.slot(slot_of(handle)).map_or(0, state) >> KIND_SHIFT;
    handle | kind << KIND_SHIFT
}

fn slot_of(handle: u64) -> u32 {
    (handle & SLOT_MASK) as u32
}

/// Why a handle does not count, where one to an object of `expected` was wanted.
#[cold]
fn diagnose(handle: u64, argument: &'static str, expected: Kind) -> Error {
    if handle == 0 {
        let hint = match expected {
            Kind::Value => {
                " (an iterator at its end gives NULL: reset it; a run without arguments has none)"
            }
            _ => "",
        };
        let problem = format!("is NULL; {} is expected{hint}", expected.name());
        return Error::invalid(argument, problem);
    }
    let foreign = || {
        let problem = "is not a handle of this library; pass the handle itself, not its address";
        invalid!(argument, "{:#x} {problem}", handle as usize)
    };
    let kind = Kind::from_code(handle >> KIND_SHIFT);
    if IS_WIDE && kind.is_none() {
        return foreign();
    }
    let Some(slot) = TABLE.slot(slot_of(handle)) else {
        return foreign();
    };
    let state = slot.state.load(Ordering::SeqCst);
    if generation(handle) < generation(state) {
        invalid!(
            argument,
            "the handle was released, or belonged to a callback that has returned; keep a \
             reference of your own for as long as it is used"
        )
    } else if let Some(kind) = kind.filter(|kind| counts(handle, state) && *kind != expected) {
        invalid!(
            argument,
            "is {} handle, not {}",
            kind.name(),
            expected.name()
        )
    } else {
        foreign()
    }
}

/// The kind of the object behind a handle, in words, if the number is one.
#[inline]
pub(crate) fn kind_of(number: usize) -> Option<&'static str> {
    let handle = with_kind(number);
    let code = Some(handle >> KIND_SHIFT).filter(|&code| code != 0)?;
    let kind = Kind::from_code(code)?;
    let state = TABLE.slot(slot_of(handle))?.state.load(Ordering::SeqCst);
    counts(handle, state).then(|| kind.name())
}

/// Whether a number is a handle that counts.
pub(crate) fn is_live(handle: u64) -> bool {
    kind_of(handle as usize).is_some()
}

/// A new handle to `object`.
pub(crate) fn make<H: Opaque>(object: H::Object) -> Result<*mut H> {
    Ok(reserve()?.make(object))
}

/// A handle that is not yet one: its place in the table is taken, so that making it cannot fail.
/// For results of calls that change something. Dropping it gives the place back.
pub(crate) struct ReservedHandle<H: Opaque> {
    index: u32,
    slot: &'static HandleSlot,
    kind: PhantomData<fn() -> H>,
}

/// Takes a place for a handle.
pub(crate) fn reserve<H: Opaque>() -> Result<ReservedHandle<H>> {
    let (index, slot) = TABLE.take()?;
    Ok(ReservedHandle {
        index,
        slot,
        kind: PhantomData,
    })
}

impl<H: Opaque> ReservedHandle<H> {
    /// The handle, to `object`.
    pub(crate) fn make(self, object: H::Object) -> *mut H {
        let handle = fill(self.index, self.slot, H::wrap(object), TAKEN);
        std::mem::forget(self);
        made_handles::note(bits(handle), H::KIND);
        warn_of_many();
        handle
    }
}

impl<H: Opaque> Drop for ReservedHandle<H> {
    fn drop(&mut self) {
        TABLE.give_back(self.index);
    }
}

/// Calls `body` with the object behind a handle, in a few nanoseconds.
///
/// A release of the handle by another thread waits for the end of `body`. So `body` must be short
/// and must not run the caller's code, wait, or release handles: for that, take a reference with
/// [`get`]. Destroy functions and log callbacks wait for the end of `body`
/// ([`hazard::call_when_unused`]).
pub(crate) fn borrow<H: Opaque, R>(
    handle: *const H,
    argument: &'static str,
    body: impl FnOnce(&H::Object) -> R,
) -> Result<R> {
    inspect(bits(handle), argument, H::KIND, |object| {
        H::of(object).map(body)
    })?
    .ok_or_else(|| Error::Internal(format!("{argument}: the table disagrees on its kind")))
}

/// As [`borrow`], for a kind that is known at run time.
#[inline]
fn inspect<R>(
    handle: u64,
    argument: &'static str,
    kind: Kind,
    body: impl FnOnce(&Object) -> R,
) -> Result<R> {
    if handle >> KIND_SHIFT != kind as u64 {
        return Err(diagnose(handle, argument, kind));
    }
    let Some(slot) = TABLE.slot(slot_of(handle)) else {
        return Err(diagnose(handle, argument, kind));
    };
    let _hazard = Hazard::publish(slot_of(handle));
    if !counts(handle, slot.state.load(Ordering::SeqCst)) {
        return Err(diagnose(handle, argument, kind));
    }
    // SAFETY: the handle counted after the hazard was published, so the object is there and its
    // release waits until `_hazard` is dropped, at the end of this function.
    Ok(body(unsafe { (*slot.object.get()).assume_init_ref() }))
}

/// Another handle to the object of a handle of this kind, also of one that is lent.
pub(crate) fn retain(
    handle: *const c_void,
    argument: &'static str,
    kind: Kind,
) -> Result<*mut c_void> {
    let object = inspect(bits(handle), argument, kind, Object::clone)?;
    let (index, slot) = TABLE.take()?;
    let handle = fill(index, slot, object, TAKEN);
    warn_of_many();
    Ok(handle)
}

/// A reference of one's own to the object behind a handle.
pub(crate) fn get<H: Opaque>(handle: *const H, argument: &'static str) -> Result<H::Object> {
    borrow(handle, argument, Clone::clone)
}

/// As [`get`]; a NULL handle is nothing.
pub(crate) fn get_optional<H: Opaque>(
    handle: *const H,
    argument: &'static str,
) -> Result<Option<H::Object>> {
    if handle.is_null() {
        Ok(None)
    } else {
        get(handle, argument).map(Some)
    }
}

/// Releases a handle of this kind. The object is dropped before this returns, unless somebody else
/// holds a reference to it, by another handle for instance. NULL is fine.
pub(crate) fn release_kind(
    handle: *const c_void,
    argument: &'static str,
    kind: Kind,
) -> Result<()> {
    if handle.is_null() {
        return Ok(());
    }
    take_out(bits(handle), argument, kind).map(drop)
}

/// Releases a handle, unless it is released already.
pub(crate) fn release_if_live(handle: u64) {
    if let Some(kind) = Kind::from_code(handle >> KIND_SHIFT).filter(|_| is_live(handle)) {
        drop(take_out(handle, "handle", kind));
    }
}

/// As [`release_kind`], where the type says the kind.
pub(crate) fn release<H: Opaque>(handle: *const H, argument: &'static str) -> Result<()> {
    release_kind(handle.cast(), argument, H::KIND)
}

/// Releases a handle and returns the object.
pub(crate) fn consume<H: Opaque>(handle: *const H, argument: &'static str) -> Result<H::Object> {
    let object = get(handle, argument)?;
    release(handle, argument)?;
    Ok(object)
}

/// The object of a handle that counts and is not lent. The handle is stale from then on.
fn take_out(handle: u64, argument: &'static str, expected: Kind) -> Result<Object> {
    let index = slot_of(handle);
    let slot = Kind::from_code(handle >> KIND_SHIFT)
        .filter(|kind| *kind == expected)
        .and_then(|_| TABLE.slot(index))
        .ok_or_else(|| diagnose(handle, argument, expected))?;
    let state = slot.state.load(Ordering::SeqCst);
    if !counts(handle, state) {
        return Err(diagnose(handle, argument, expected));
    }
    if state & LENT != 0 {
        return Err(Error::precondition(format!(
            "{argument}: {} that is lent for the call can be neither released nor stored; retain \
             it, and release or store the handle that this gives",
            expected.name()
        )));
    }
    let free = (generation(handle) + 1) << SLOT_BITS;
    match slot
        .state
        .compare_exchange(state, free, Ordering::SeqCst, Ordering::SeqCst)
    {
        Ok(_) => {
            let object = vacate(index, slot);
            TABLE.give_back(index);
            Ok(object)
        }
        // Another thread has released it meanwhile.
        Err(_) => Err(diagnose(handle, argument, expected)),
    }
}

/// How many handles of a kind, or of all, are in use. Lent ones are the library's and do not
/// count.
pub(crate) fn live(kind: Option<Kind>) -> i64 {
    let used = TABLE.free.lock().fresh;
    let states = (0..used).filter_map(|index| TABLE.slot(index));
    let in_use = states.filter(|slot| {
        let state = slot.state.load(Ordering::SeqCst);
        let of_kind = kind.is_none_or(|kind| state >> KIND_SHIFT == kind as u64);
        of_kind && state & TAKEN != 0 && state & LENT == 0
    });
    in_use.count() as i64
}

#[cfg(test)]
mod tests;
