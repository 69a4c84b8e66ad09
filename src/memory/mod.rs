//! Memory that runs out: what is reserved, what is refused, and what nobody need look after.
//!
//! Two kinds of memory are told apart.
//!
//! *Data*: whatever has a size that the caller decides (elements of tensors, gradients, an
//! optimizer's state, scratch memory, a shuffle's buffer, lists as long as the caller's). It is asked
//! for by functions that can fail ([`alloc_data`], `Vec::try_reserve`), and the failure is
//! RESOURCE_EXHAUSTED of the call that wanted it.
//!
//! *Bookkeeping*: everything else. Boxes, reference counts, names, messages, the tables of a step and
//! whatever the standard library and other crates need for themselves. It is small, it is needed in
//! the middle of things, where a failure would have to be undone, and Rust's types for it end the
//! process if they are refused. So it is not refused: the library's allocator asks the system first,
//! and serves what is at most [`LARGEST`] bytes from a [`reserve`] if the system has nothing left.
//!
//! Why the reserve suffices: a call that may fail looks ([`check`]) before it does anything, and says
//! RESOURCE_EXHAUSTED if more than a quarter of the reserve is taken and the system still refuses. So
//! the reserve is not there to work from but to end in order what was begun: each call finds three
//! quarters of it, and a step that has begun can be rolled back or committed. Loops whose length the
//! caller decides look again as they go. What was taken comes back as objects are released, and a
//! release never looks. Objects that live long may keep their blocks for good; they do no harm, since
//! the check asks the system before it refuses.
//!
//! Lists of many objects may want more than the reserve's largest block. Where their number becomes
//! known (an array that is given, handles that are made) as many bytes as such lists may take are set
//! aside too ([`provide`], `spares`), and if that cannot be, the call fails that made them longer.
//!
//! What else it takes: a call that changes something makes the handles and records that it returns
//! before the change.
//!
//! Two small things come neither from here nor from the reserve, since the standard library and the C
//! library ask the system themselves and end the process if it refuses: the records of a thread that
//! starts. So the library asks beforehand ([`ask_system`]) and refuses in its own words; what remains is
//! memory that vanishes in between.
//!
//! An allocation by the library is one relaxed load dearer than the system's, a release one
//! comparison. Programs in Rust that use this crate get its allocator too, which for memory that is
//! there is the system's.

#![expect(unsafe_code, reason = "the allocator, and memory that it sets aside")]

mod reserve;
mod spares;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use self::reserve::LARGEST;
use self::reserve::Reserve;
use self::spares::Spares;
use crate::error::{Error, Result};

static RESERVE: Reserve = Reserve::new();
static SPARES: Spares = Spares::new();

/// The library's allocator: the system's, and the reserve behind it.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Sees every request for memory before it is served, with its size and alignment. If it returns
/// false the request is refused, without a look at the reserve.
#[doc(hidden)]
pub type Observer = fn(Layout) -> bool;

/// An [`Observer`]; null for none.
static OBSERVER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Shows `observer` every request from now on, of all threads. For tests, which count and refuse; it
/// must not allocate.
#[doc(hidden)]
pub fn observe(observer: Observer) {
    OBSERVER.store(observer as *mut (), Ordering::Relaxed);
}

/// A `fn()` that gives back to the system what is kept for speed alone; null for none.
static RECLAIM: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Has `reclaim` called when the system refuses memory, before it is asked once more. It runs on any
/// thread, under whatever locks, so it must neither allocate nor wait.
pub fn reclaim_by(reclaim: fn()) {
    RECLAIM.store(reclaim as *mut (), Ordering::Relaxed);
}

/// Whether a request may be served.
#[inline]
fn may_serve(layout: Layout) -> bool {
    let observer = OBSERVER.load(Ordering::Relaxed);
    observer.is_null() || observed(observer, layout)
}

#[cold]
fn observed(observer: *mut (), layout: Layout) -> bool {
    // SAFETY: what is stored there, other than null, was an `Observer`.
    let observer: Observer = unsafe { std::mem::transmute(observer) };
    observer(layout)
}

/// Gives back what is kept for speed. Returns whether there is anybody who may have kept something.
#[cold]
fn reclaim() -> bool {
    let reclaim = RECLAIM.load(Ordering::Relaxed);
    if reclaim.is_null() {
        return false;
    }
    // SAFETY: what is stored there, other than null, was a `fn()`.
    let reclaim: fn() = unsafe { std::mem::transmute(reclaim) };
    reclaim();
    true
}

/// Asks the system, and once more after everything that is kept for speed was given back.
#[inline]
fn from_system(ask: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = ask();
    if !memory.is_null() || !reclaim() { memory } else { ask() }
}

#[cold]
fn from_reserve(layout: Layout, zeroed: bool) -> *mut u8 {
    let mut block = RESERVE.take(layout);
    if block.is_null() && layout.align() <= LARGEST {
        block = SPARES.take(layout.size());
    }
    if zeroed && !block.is_null() {
        // SAFETY: the block is new, the caller's alone, and at least as long as the layout says.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// Memory for data, as much as `layout` says, which must have a size; null if the system has none.
/// The reserve is not for data. To be freed by [`free_data`].
///
/// # Safety
/// The layout's size is not zero.
pub unsafe fn alloc_data(layout: Layout) -> *mut u8 {
    if !may_serve(layout) {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    from_system(|| unsafe { System.alloc(layout) })
}

/// As [`alloc_data`], filled with zeros.
///
/// # Safety
/// The layout's size is not zero.
pub unsafe fn alloc_data_zeroed(layout: Layout) -> *mut u8 {
    if !may_serve(layout) {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    from_system(|| unsafe { System.alloc_zeroed(layout) })
}

/// Frees what [`alloc_data`] or [`alloc_data_zeroed`] gave.
///
/// # Safety
/// `memory` came from one of them with the same layout, and nobody uses it any more.
pub unsafe fn free_data(memory: *mut u8, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { System.dealloc(memory, layout) }
}

// SAFETY: what the system gives is passed on, and what comes back goes to where it came from, which
// its address tells. A block of the reserve is as long and aligned as asked for and is given to one
// owner at a time. Nothing here unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !may_serve(layout) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        let memory = from_system(|| unsafe { System.alloc(layout) });
        if memory.is_null() { from_reserve(layout, false) } else { memory }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !may_serve(layout) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        let memory = from_system(|| unsafe { System.alloc_zeroed(layout) });
        if memory.is_null() { from_reserve(layout, true) } else { memory }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if RESERVE.owns(memory) {
            RESERVE.give_back(memory);
        } else if SPARES.block_size(memory).is_some() {
            SPARES.give_back(memory);
        } else {
            // SAFETY: the caller's promise; what is not the reserve's is the system's.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        if !may_serve(wanted) {
            return ptr::null_mut();
        }
        if set_aside(memory).is_none() {
            // SAFETY: the caller's promise, and the memory is the system's.
            let moved = from_system(|| unsafe { System.realloc(memory, layout, size) });
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { realloc_in_need(memory, layout, wanted) }
    }
}

/// How long the block is, if it is not the system's.
#[inline]
fn set_aside(memory: *const u8) -> Option<usize> {
    if RESERVE.owns(memory) { Some(RESERVE.block_size(memory)) } else { SPARES.block_size(memory) }
}

/// Moves or keeps memory that the system does not move.
///
/// # Safety
/// As for `GlobalAlloc::realloc`.
#[cold]
unsafe fn realloc_in_need(memory: *mut u8, layout: Layout, wanted: Layout) -> *mut u8 {
    // What is only to be shortened can stay as it is: neither side goes by the length that the
    // release of a block states.
    if wanted.size() <= set_aside(memory).unwrap_or(layout.size()) {
        return memory;
    }
    // SAFETY: `wanted` is longer than something, so it has a size. The new memory is at least as long
    // as the old one, which is freed as it was made, and the two are different.
    unsafe {
        let mut moved = from_system(|| System.alloc(wanted));
        if moved.is_null() {
            moved = from_reserve(wanted, false);
        }
        if !moved.is_null() {
            ptr::copy_nonoverlapping(memory, moved, layout.size());
            ALLOCATOR.dealloc(memory, layout);
        }
        moved
    }
}

/// Whether there is memory to begin something: the reserve is at most a quarter taken, or the system
/// has memory again. One relaxed load as long as the reserve is untouched.
///
/// RESOURCE_EXHAUSTED if not.
#[inline]
pub fn check() -> Result<()> {
    if RESERVE.is_untouched() && SPARES.taken() == 0 { Ok(()) } else { check_reserve() }
}

#[cold]
fn check_reserve() -> Result<()> {
    if RESERVE.is_low() || SPARES.is_low() { ask_system() } else { Ok(()) }
}

/// How many bytes of bookkeeping a list may take for each of its elements, while it grows.
const BYTES_PER_ELEMENT: usize = 256;

/// Sets memory aside for lists of `count` objects, of which some may be made in the middle of things:
/// to be called where such a list enters or so many objects are made. Costs a comparison if it was done
/// before. RESOURCE_EXHAUSTED if there is no memory for it.
#[inline]
pub fn provide(count: usize) -> Result<()> {
    let bytes = count.saturating_mul(BYTES_PER_ELEMENT);
    if SPARES.has(bytes) || SPARES.provide(bytes) { Ok(()) } else { Err(exhausted(count, "items")) }
}

/// RESOURCE_EXHAUSTED if the system has not even [`LARGEST`] bytes left now.
///
/// To be called before what ends the process without memory, and that the reserve cannot help: a
/// thread's start. The standard library's record of the thread comes straight from the system, and so
/// does what the C library notes for the thread's end. Both are some dozens of bytes, and what was
/// just freed by this thread is kept by the C library's allocator, for this thread first.
#[cold]
pub fn ask_system() -> Result<()> {
    let layout = Layout::new::<[u8; LARGEST]>();
    // SAFETY: the layout has a size; what was given is freed with the same layout.
    unsafe {
        let probe = alloc_data(layout);
        if !probe.is_null() {
            free_data(probe, layout);
            return Ok(());
        }
    }
    Err(Error::ResourceExhausted(
        "the process is out of memory; release what is not needed and try again".into(),
    ))
}

/// How many blocks of the reserve are taken. For tests.
#[doc(hidden)]
pub fn reserve_taken() -> usize {
    RESERVE.taken() + SPARES.taken()
}

/// What it means that there is no memory for `count` of `what`.
#[cold]
pub fn exhausted(count: usize, what: &str) -> Error {
    Error::ResourceExhausted(format!("memory for {count} {what}"))
}

/// Makes room for `more` elements in a list, as far as it will grow, so that adding them cannot fail.
/// RESOURCE_EXHAUSTED if there is no memory; the list is as it was.
pub fn room<T>(list: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    check()?;
    list.try_reserve(more).map_err(|_| exhausted(more, what))
}

/// An empty list with room for `count` elements. RESOURCE_EXHAUSTED if there is no memory.
pub fn list<T>(count: usize, what: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    check()?;
    list.try_reserve_exact(count).map_err(|_| exhausted(count, what))?;
    Ok(list)
}

/// A list of what an iterator yields, which says how much that is. RESOURCE_EXHAUSTED if there is no
/// memory; the first failure among the items otherwise.
pub fn collect<T>(items: impl ExactSizeIterator<Item = Result<T>>, what: &str) -> Result<Vec<T>> {
    let mut all = list(items.len(), what)?;
    for item in items {
        check()?;
        all.push(item?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    // `observe` is process-wide, so the tests of refusals are in a binary of their own
    // (tests/out_of_memory.rs). Here nothing is refused.

    #[test]
    fn blocks_of_the_reserve_grow_shrink_and_return() {
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: layouts have sizes, memory is used within them and released once.
        unsafe {
            let block = from_reserve(layout(50), true);
            assert!(RESERVE.owns(block) && (0..50).all(|at| *block.add(at) == 0));
            block.write_bytes(7, 50);
            let same = ALLOCATOR.realloc(block, layout(50), 64);
            assert_eq!(same, block);
            let moved = ALLOCATOR.realloc(same, layout(64), 100_000);
            assert!(!RESERVE.owns(moved) && (0..50).all(|at| *moved.add(at) == 7));
            ALLOCATOR.dealloc(moved, layout(100_000));
        }
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        assert!(list::<u64>(usize::MAX / 16, "numbers").is_err());
        let mut short = vec![1u64];
        let error = room(&mut short, usize::MAX / 16, "numbers").unwrap_err();
        let words = format!("there is not enough memory for {} numbers", usize::MAX / 16);
        assert_eq!(error.to_string(), words);
        assert_eq!(collect([Ok(1), Ok(2)].into_iter(), "numbers").unwrap(), [1, 2]);
        assert!(check().is_ok());
    }
}
