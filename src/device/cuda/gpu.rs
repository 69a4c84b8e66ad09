//! A logical GPU: a card, a stream, and a share of the card's memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::result;
use cudarc::driver::{CudaEvent, sys};

use super::card::Card;
use super::external;
use super::kernels::Kernels;
use super::staging::Staging;
use super::stream::Stream;
use crate::device::{DeviceId, DeviceKind};
use crate::error::{Error, Result};
use crate::observe::{self, trace};
use parking_lot::Mutex;

/// A logical GPU, opened. See [the module](super) for how its stream orders work.
#[derive(Debug)]
pub struct Gpu {
    id: DeviceId,
    pub(super) stream: Stream,
    /// Says how far its stream is, to others that wait for it.
    passed: CudaEvent,
    /// The address of the pool that its memory comes from, if the program has said so.
    pub(super) pool: Option<usize>,
    /// How many bytes of the card it may have; the card's own limit if it is not said.
    limit: Option<u64>,
    /// How many it has.
    pub(super) used: AtomicU64,
    pub(super) staging: Mutex<Option<Staging>>,
}

/// Where a logical GPU is to be found: what the registry of devices knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuAddress {
    /// Its number among the logical GPUs.
    pub index: u32,
    /// The card's number.
    pub card: u32,
    /// How many bytes it may have; all that the card has if it is not said.
    pub limit: Option<u64>,
    /// The address of a stream of the program's that it is to work on, in place of one of its own.
    pub stream: Option<usize>,
    /// The address of a memory pool of the program's that its memory comes from, in place of the card's.
    pub pool: Option<usize>,
}

/// The logical GPUs that were opened in this process.
static OPEN: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// Whether one of these logical GPUs was opened, so that it can be changed no more.
pub fn any_open(mut indices: std::ops::Range<u32>) -> Option<u32> {
    let open = OPEN.lock();
    indices.find(|index| open.contains_key(index))
}

/// Waits until everything that was queued on any GPU is done, as far as it can be.
pub fn synchronize_all() {
    let open: Vec<&'static Gpu> = OPEN.lock().values().copied().collect();
    for gpu in open {
        // What went wrong is reported by the next call that uses the GPU.
        let _ = gpu.finish();
    }
}

/// Gives back the memory that all GPUs only keep to use it again: what copies from and to the host go through, and
/// what their cards' pools have free. No apply is prepared.
pub fn release_kept() {
    let open: Vec<&'static Gpu> = OPEN.lock().values().copied().collect();
    // Of a card that is lost there is nothing to be had.
    for gpu in open.into_iter().filter(|gpu| gpu.card().check().is_ok()) {
        let staging = gpu.staging.lock().take();
        staging.into_iter().for_each(|staging| staging.let_go(&gpu.stream));
        // What was freed on the stream is the pool's once the stream has come there.
        if gpu.synchronize().is_ok() {
            gpu.card().release_free_memory();
        }
    }
}

/// Writes to the trace, which is about to end, what all GPUs have done.
fn write_all_times() {
    let open: Vec<&'static Gpu> = OPEN.lock().values().copied().collect();
    for gpu in open.into_iter().filter(|gpu| gpu.stream.has_times()) {
        // What cannot be waited for is not written.
        let _ = gpu.synchronize();
    }
}

impl Gpu {
    /// The logical GPU at a place that exists, opened if it is not.
    pub fn at(place: GpuAddress) -> Result<&'static Gpu> {
        // Opening takes a second. No thread waits for it under the lock: the second one drops what it
        // has opened.
        let known = OPEN.lock().get(&place.index).copied();
        if let Some(gpu) = known {
            gpu.card().check()?;
            return Ok(gpu);
        }
        let card = Card::at(place.card)?;
        if place.pool.is_some() && !card.has_pools() {
            return Err(Error::Unimplemented(format!(
                "GPU:{} has no memory pools; use it without one",
                place.index
            )));
        }
        if let Some(pool) = place.pool {
            external::check_pool(place.card, pool)?;
        }
        if let Some(stream) = place.stream {
            external::check_stream(place.card, stream)?;
        }
        let _entered = card.enter()?;
        let stream = match place.stream {
            Some(given) => {
                let given = std::ptr::with_exposed_provenance_mut(given);
                // SAFETY: it was just checked, and the program keeps it.
                unsafe { card.context().wrap_borrowed_stream(given) }
            }
            None => card
                .context()
                .new_stream()
                .map_err(|error| card.failed("making a stream", error))?,
        };
        let passed = card.context().new_event(None);
        let passed = passed.map_err(|error| card.failed("making an event", error))?;
        let id = DeviceId { kind: DeviceKind::Gpu, index: place.index };
        let fresh = || Gpu {
            id,
            stream: Stream::new(id, card, stream),
            passed,
            pool: place.pool,
            limit: place.limit,
            used: AtomicU64::new(0),
            staging: Mutex::new(None),
        };
        let mut open = OPEN.lock();
        let gpu = *open.entry(place.index).or_insert_with(|| Box::leak(Box::new(fresh())));
        drop(open);
        trace::record_before_end(write_all_times);
        Ok(gpu)
    }

    /// Its name among devices.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// The card that it is a share of.
    pub fn card(&self) -> &'static Card {
        self.stream.card()
    }

    /// Its stream, for callers that queue work of their own on it.
    pub fn stream(&self) -> sys::CUstream {
        self.stream.raw()
    }

    /// How many bytes it has allocated here.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// How many bytes the GPU at a place has allocated here; 0 if it was not opened.
    pub fn used(place: GpuAddress) -> u64 {
        let gpu = OPEN.lock().get(&place.index).copied();
        gpu.map_or(0, Gpu::used_bytes)
    }

    /// Counts `bytes` as used, or refuses them.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        match self.limit {
            Some(limit) if used.saturating_add(bytes) > limit => {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(Error::ResourceExhausted(format!(
                    "{}: {bytes} bytes; its limit is {limit}, and {} are left",
                    self.id,
                    limit.saturating_sub(used)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Waits until everything that was queued is done. What went wrong meanwhile is reported here.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize()
    }

    /// As [`Gpu::synchronize`], where something that queued work uses is about to be let go of, and nothing
    /// else says until when it is used. A failure may be that of a call before, so it is tried again. A card
    /// that cannot be waited for is lost: nothing of it is freed or written any more.
    pub fn finish(&self) -> Result<()> {
        self.stream.finish()
    }

    /// Whether everything that was queued is done. It does not wait; what went wrong meanwhile is reported here.
    pub fn is_done(&self) -> Result<bool> {
        self.stream.is_done()
    }

    /// Whatever is queued from now on begins once `other` is done with what it has queued so far.
    pub fn wait_for(&self, other: &Gpu) -> Result<()> {
        if self.id == other.id {
            return Ok(());
        }
        // If another thread records it in between, the wait is for a little more, which is queued already. A
        // wait that is queued is not changed by a later record.
        other.stream.call("noting how far it is", || other.passed.record(other.stream.queue()))?;
        self.stream.call("waiting for another GPU", || self.stream.queue().wait(&other.passed))
    }

    /// Queues a copy of memory of this GPU within it; the ranges do not overlap.
    ///
    /// # Safety
    /// Both ranges are memory of this GPU that stays until the stream has come past the copy.
    pub unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.stream.call("a copy", || {
            // SAFETY: the caller's promise.
            self.stream.noted(("copy within the GPU", "copy"), bytes, || unsafe {
                result::memcpy_dtod_async(to, from, bytes, self.stream())
            })
        })
    }

    /// Queues a copy from another GPU to this one, after what both have queued so far; what the other
    /// one queues next comes after it, also if this fails.
    ///
    /// # Safety
    /// The ranges are memory of the GPUs that they are said to be of, and stay until the streams of both
    /// have come past the copy.
    pub unsafe fn copy_from(&self, other: &Gpu, from: u64, to: u64, bytes: usize) -> Result<()> {
        if self.id == other.id {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(from, to, bytes) };
        }
        if bytes == 0 {
            return Ok(());
        }
        self.wait_for(other)?;
        let (own, others) = (self.card().context().cu_ctx(), other.card().context().cu_ctx());
        self.stream.call("a copy from another GPU", || {
            // SAFETY: the caller's promise; the contexts are those of the ranges.
            self.stream.noted(("copy from another GPU", "copy"), bytes, || unsafe {
                if own == others {
                    return result::memcpy_dtod_async(to, from, bytes, self.stream());
                }
                result::memcpy_peer_async(own, to, others, from, bytes, self.stream())
            })
        })?;
        let ordered = other.wait_for(self);
        // The copy is queued, and the other stream would come past its source too early: after
        // the failure the caller may free it or write to it at once.
        if ordered.is_err() && self.finish().is_err() {
            other.card().give_up("a copy from it could not be waited for");
        }
        ordered
    }

    /// Queues zeros.
    ///
    /// # Safety
    /// The range is memory of this GPU that stays until the stream has come past it.
    pub unsafe fn fill_zeros(&self, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.stream.call("clearing memory", || {
            // SAFETY: the caller's promise.
            self.stream.noted(("zeros", "copy"), bytes, || unsafe {
                result::memset_d8_async(to, 0, bytes, self.stream())
            })
        })
    }

    /// Copies from the host. Returns once the source may be written again; the copy may still be on
    /// its way, before whatever is queued next.
    ///
    /// # Safety
    /// The source can be read, and the target is memory of this GPU that stays until the stream has come
    /// past the copy.
    pub unsafe fn upload(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.card().check();
        }
        let _copy = observe::share("copy to the GPU");
        let _entered = self.card().enter()?;
        let mut staging = self.staging.lock();
        let staging = Staging::of(&self.stream, &mut staging, bytes)?;
        // SAFETY: the caller's promise.
        unsafe { staging.upload(&self.stream, from, to, bytes) }
    }

    /// Copies to the host, after all that was queued, and waits for it.
    ///
    /// # Safety
    /// The source is memory of this GPU, and the target can be written.
    pub unsafe fn download(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return self.card().check();
        }
        let _copy = observe::share("copy from the GPU");
        let _entered = self.card().enter()?;
        let mut staging = self.staging.lock();
        let staging = Staging::of(&self.stream, &mut staging, bytes)?;
        // SAFETY: the caller's promise.
        unsafe { staging.download(&self.stream, from, to, bytes) }?;
        if trace::is_on() {
            self.stream.write_times();
        }
        Ok(())
    }

    /// Queues a kernel, in so many blocks of so many threads. Of an argument that is shorter than a word, `arguments`
    /// have it in the lower part.
    ///
    /// # Safety
    /// The arguments are those of the kernel, in number, order and type. What the kernel reads and
    /// writes lies on this GPU and stays until the stream has come past the kernel.
    pub unsafe fn launch(
        &self,
        kernels: &Kernels,
        name: &str,
        [blocks, threads]: [u32; 2],
        arguments: &[u64],
    ) -> Result<()> {
        let Some((&name, &function)) = kernels.functions.get_key_value(name) else {
            return Err(Error::Internal(format!("there is no kernel {name}")));
        };
        let _entered = self.card().enter()?;
        // The driver reads each argument where it is told to.
        const { assert!(cfg!(target_endian = "little")) };
        let mut places: Vec<*mut c_void> =
            arguments.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
        let launched = self.stream.noted((name, "gpu"), 0, || {
            // SAFETY: the function belongs to the card's context, which is current; the rest is the
            // caller's promise.
            unsafe {
                let (blocks, threads) = ((blocks, 1, 1), (threads, 1, 1));
                result::launch_kernel(function, blocks, threads, 0, self.stream(), &mut places)
            }
        });
        launched.map_err(|error| self.card().failed(&format!("launching {name}"), error))
    }
}
