//! A logical GPU: a card, a stream, and a share of the card's memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaEvent, result, sys};

use super::external;
use super::kernels::Kernels;
use super::physical_gpu::PhysicalGpu;
use super::staging::Staging;
use super::stream::Stream;
use crate::backend::Launch;
use crate::logical_gpus::GpuAddress;
use crate::{DeviceId, DeviceKind};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, trace};

/// An opened logical GPU. See [the module](super) for how its stream orders work.
#[derive(Debug)]
pub struct Gpu {
    id: DeviceId,
    pub(super) stream: Stream,
    /// Recorded in the GPU's stream, so that other streams can wait for that place in it.
    passed: CudaEvent,
    /// The address of the external pool from which its memory comes, if the program has set one.
    pub(super) pool: Option<usize>,
    /// The number of bytes of the card it may use; `None` if only the card limits it.
    limit: Option<u64>,
    /// The number of bytes it uses.
    pub(super) used: AtomicU64,
    pub(super) staging: Mutex<Option<Staging>>,
}

/// The logical GPUs that were opened in this process.
static OPEN: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// The first of these logical GPUs that was opened, and so can no longer be changed.
pub(crate) fn any_open(mut indices: std::ops::Range<u32>) -> Option<u32> {
    let open = OPEN.lock();
    indices.find(|index| open.contains_key(index))
}

/// The logical GPUs that were opened.
pub(crate) fn opened() -> Vec<&'static Gpu> {
    OPEN.lock().values().copied().collect()
}

/// Writes what all GPUs have done to the trace, which is about to end.
fn write_all_times() {
    for gpu in opened().into_iter().filter(|gpu| gpu.stream.has_times()) {
        // Work that cannot be waited for is not written.
        let _ = gpu.synchronize();
    }
}

impl Gpu {
    /// The logical GPU at a place that exists. It is opened if it was not.
    pub fn at(place: GpuAddress) -> Result<&'static Gpu> {
        // Opening takes a second. No thread waits for it under the lock: if two threads open the
        // same GPU, the second one drops its own.
        let known = OPEN.lock().get(&place.index).copied();
        if let Some(gpu) = known {
            gpu.card().check()?;
            return Ok(gpu);
        }
        let card = PhysicalGpu::at(place.card)?;
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
                // SAFETY: it was just checked, and the program keeps it alive.
                unsafe { card.context().wrap_borrowed_stream(given) }
            }
            None => card
                .context()
                .new_stream()
                .map_err(|error| card.failed("making a stream", error))?,
        };
        let event = || {
            let made = card.context().new_event(None);
            made.map_err(|error| card.failed("making an event", error))
        };
        let passed = event()?;
        let marked = event()?;
        let id = DeviceId {
            kind: DeviceKind::Gpu,
            index: place.index,
        };
        let fresh = || Gpu {
            id,
            stream: Stream::new(id, card, stream, marked),
            passed,
            pool: place.pool,
            limit: place.limit,
            used: AtomicU64::new(0),
            staging: Mutex::new(None),
        };
        let mut open = OPEN.lock();
        let gpu = *open
            .entry(place.index)
            .or_insert_with(|| Box::leak(Box::new(fresh())));
        drop(open);
        trace::record_before_end(write_all_times);
        Ok(gpu)
    }

    /// Its name among devices.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// The card of which it is a part.
    pub fn card(&self) -> &'static PhysicalGpu {
        self.stream.card()
    }

    /// Its stream, for callers that queue their own work on it.
    pub fn stream(&self) -> sys::CUstream {
        self.stream.raw()
    }

    /// The number of bytes that are allocated on it.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of bytes that are allocated on the GPU at a place; 0 if it was not opened.
    pub fn used(place: GpuAddress) -> u64 {
        let gpu = OPEN.lock().get(&place.index).copied();
        gpu.map_or(0, Gpu::used_bytes)
    }

    /// Counts `bytes` as used. Fails if the limit does not allow them.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        match self.limit {
            Some(limit) if used.saturating_add(bytes) > limit => {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(Error::beyond_limit(format!(
                    "{}: {bytes} bytes; its limit is {limit}, and {} are left",
                    self.id,
                    limit.saturating_sub(used)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Frees the memory that the GPU keeps only to use it again: the blocks for copies from and to
    /// the host, and the free memory of its card's pool. A copy makes its blocks again.
    pub fn release_kept(&self) {
        // A lost card has nothing to free.
        if self.card().check().is_err() {
            return;
        }
        let staging = self.staging.lock().take();
        staging
            .into_iter()
            .for_each(|staging| staging.release(&self.stream));
        // Memory that was freed on the stream belongs to the pool once the stream has come to that
        // place.
        if self.synchronize().is_ok() {
            self.card().release_free_memory();
        }
    }

    /// Waits until everything that was queued is done. Errors of that work are reported here.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize()
    }

    /// Waits like [`Gpu::synchronize`]. Used before something is released that queued work uses, if
    /// nothing else says how long it is used. A failure may belong to an earlier call, so the
    /// wait is tried again. A card that cannot be waited for is lost: nothing on it is freed or
    /// written any more.
    pub fn finish(&self) -> Result<()> {
        self.stream.finish()
    }

    /// Whether everything that was queued is done. It does not wait. Errors of that work are
    /// reported here.
    pub fn is_done(&self) -> Result<bool> {
        self.stream.is_done()
    }

    /// Makes all work that is queued from now on wait until `other` has done what it has queued so
    /// far.
    pub fn wait_for(&self, other: &Gpu) -> Result<()> {
        if self.id == other.id {
            return Ok(());
        }
        // If another thread records the event in between, this GPU waits for a little more work,
        // which is already queued. A later record does not change a wait that is queued.
        other.stream.call("noting how far it is", || {
            other.passed.record(other.stream.queue())
        })?;
        self.stream.call("waiting for another GPU", || {
            self.stream.queue().wait(&other.passed)
        })
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
            self.stream
                .noted("copy within the GPU", "copy", bytes, || unsafe {
                    result::memcpy_dtod_async(to, from, bytes, self.stream())
                })
        })
    }

    /// Queues a copy from another GPU to this one. The copy comes after all work that both have
    /// queued so far. Work that the other GPU queues next comes after the copy, also if this
    /// fails.
    ///
    /// # Safety
    /// Each range is memory of the GPU to which the arguments assign it, and stays until the
    /// streams of both have come past the copy.
    pub unsafe fn copy_from(&self, other: &Gpu, from: u64, to: u64, bytes: usize) -> Result<()> {
        if self.id == other.id {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(from, to, bytes) };
        }
        if bytes == 0 {
            return Ok(());
        }
        self.wait_for(other)?;
        let own_context = self.card().context().cu_ctx();
        let other_context = other.card().context().cu_ctx();
        self.stream.call("a copy from another GPU", || {
            // SAFETY: the caller's promise; the contexts are those of the ranges.
            self.stream
                .noted("copy from another GPU", "copy", bytes, || unsafe {
                    if own_context == other_context {
                        return result::memcpy_dtod_async(to, from, bytes, self.stream());
                    }
                    result::memcpy_peer_async(
                        own_context,
                        to,
                        other_context,
                        from,
                        bytes,
                        self.stream(),
                    )
                })
        })?;
        let ordered = other.wait_for(self);
        // The copy is queued, but the other stream does not wait for it. After the failure the
        // caller may free the source or write to it at once.
        if ordered.is_err() && self.finish().is_err() {
            other
                .card()
                .give_up("a copy from it could not be waited for");
        }
        ordered
    }

    /// Queues the filling of a range with zeros.
    ///
    /// # Safety
    /// The range is memory of this GPU that stays until the stream has come past it.
    pub unsafe fn fill_zeros(&self, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.stream.call("clearing memory", || {
            // SAFETY: the caller's promise.
            self.stream.noted("zeros", "copy", bytes, || unsafe {
                result::memset_d8_async(to, 0, bytes, self.stream())
            })
        })
    }

    /// Copies from the host. It returns once the source may be written again. The copy to the GPU
    /// may still be queued then, before all work that is queued next.
    ///
    /// # Safety
    /// The source can be read, and the target is memory of this GPU that stays until the stream has
    /// come past the copy.
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

    /// Copies to the host, after all work that was queued, and waits for the copy.
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

    /// The same for a few bytes, without pinned memory, which might have to be allocated.
    ///
    /// # Safety
    /// As for [`Gpu::download`].
    pub unsafe fn download_directly(&self, from: u64, to: &mut [u8]) -> Result<()> {
        self.stream.call("a copy from it", || {
            // SAFETY: the caller's promise. The stream is waited for before the target is used
            // again.
            self.stream
                .noted("copy from the GPU", "copy", to.len(), || unsafe {
                    result::memcpy_dtoh_async(to, from, self.stream())
                })
        })?;
        self.synchronize()
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, in number, order and type. What the kernel reads and
    /// writes lies on this GPU and stays until the stream has come past the kernel.
    pub unsafe fn launch(&self, kernels: &Kernels, launch: &Launch<'_>) -> Result<()> {
        let Some((&name, &function)) = kernels.functions.get_key_value(launch.kernel) else {
            return Err(Error::Internal(format!(
                "there is no kernel {}",
                launch.kernel
            )));
        };
        let _entered = self.card().enter()?;
        // The driver reads each argument from the address that it gets; shorter ones are the first
        // bytes of a word.
        let mut places: Vec<*mut c_void> = launch
            .arguments
            .iter()
            .map(|word| std::ptr::from_ref(word).cast_mut().cast())
            .collect();
        let launched = self.stream.noted(name, "gpu", 0, || {
            // SAFETY: the function belongs to the card's context, which is current; the rest is the
            // caller's promise.
            unsafe {
                let blocks = (launch.blocks, 1, 1);
                let threads = (launch.threads, 1, 1);
                result::launch_kernel(function, blocks, threads, 0, self.stream(), &mut places)
            }
        });
        launched.map_err(|error| self.card().failed(&format!("launching {name}"), error))
    }
}
