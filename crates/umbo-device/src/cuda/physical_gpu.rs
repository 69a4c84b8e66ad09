//! A physical GPU: its primary context, and whether it still works.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, sys};

use super::failure::{explain, is_out_of_memory, is_sticky, require_functions};
use super::kernels::{Kernels, kernel_names};
use crate::backend::Entered;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result, Shortage};

/// An opened physical GPU. Its primary context stays until the process ends.
#[derive(Debug)]
pub struct PhysicalGpu {
    ordinal: u32,
    name: String,
    context: Arc<CudaContext>,
    capability: (u32, u32),
    /// The number of bytes of its memory that are in use.
    used: AtomicU64,
    /// The number of bytes the pool keeps at most, in use or free.
    kept: AtomicU64,
    /// The reason why the card can no longer be used.
    lost: OnceLock<String>,
    kernels: OnceLock<Kernels>,
}

/// The cards that were opened in this process.
static OPEN: Mutex<BTreeMap<u32, &'static PhysicalGpu>> = Mutex::new(BTreeMap::new());

/// Fails if a card was opened here and can no longer be used, like [`PhysicalGpu::check`].
pub(super) fn check_card(ordinal: u32) -> Result<()> {
    let known = OPEN.lock().get(&ordinal).copied();
    known.map_or(Ok(()), PhysicalGpu::check)
}

impl PhysicalGpu {
    /// The card with this number, which the driver has shown. It is opened if it was not.
    pub(super) fn at(ordinal: u32) -> Result<&'static PhysicalGpu> {
        let known = OPEN.lock().get(&ordinal).copied();
        if let Some(card) = known {
            return Ok(card);
        }
        // No thread waits under the lock: if two threads open the same card, the second one drops
        // its own.
        let opened: &'static PhysicalGpu = Box::leak(Box::new(PhysicalGpu::open(ordinal)?));
        Ok(*OPEN.lock().entry(ordinal).or_insert(opened))
    }

    /// Opens the card with this number, which the driver has shown. This takes a second and some of
    /// the card's memory if nobody in the process has opened it.
    fn open(ordinal: u32) -> Result<PhysicalGpu> {
        let opened = with_primary(ordinal, |context| {
            Ok((
                Arc::clone(context),
                context.name()?,
                context.compute_capability()?,
            ))
        })?;
        let (context, name, (major, minor)) = opened.map_err(|error| {
            Error::Unavailable(format!(
                "GPU {ordinal} could not be opened: {}",
                explain(error)
            ))
        })?;
        let capability = (major.unsigned_abs(), minor.unsigned_abs());
        // SAFETY: tracking is for cudarc's slices that several streams use. No such slice is made
        // here.
        unsafe { context.disable_event_tracking() };
        let (used, kept, lost, kernels) = Default::default();
        Ok(PhysicalGpu {
            ordinal,
            name,
            context,
            capability,
            used,
            kept,
            lost,
            kernels,
        })
    }

    /// Its number among the cards that the driver shows to the process.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its model name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its compute capability, such as (9, 0).
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Whether it can allocate memory in the order of a stream.
    pub(super) fn has_pools(&self) -> bool {
        self.context.has_async_alloc()
    }

    /// The primary context.
    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Makes the card's context current on this thread. Dropping the result makes the context
    /// current that was so before.
    ///
    /// Fails with UNAVAILABLE if the card is lost.
    pub fn enter(&self) -> Result<EnteredContext> {
        self.check()?;
        let entered = || {
            let entered = EnteredContext::leaving(Some(self.context.cu_ctx()))?;
            if entered.left.is_some() {
                self.context.bind_to_thread()?;
            }
            Ok(entered)
        };
        entered().map_err(|error| self.failed("making its context current", error))
    }

    /// Fails if the card can no longer be used, like [`PhysicalGpu::enter`].
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(self.unavailable(why)),
            None => Ok(()),
        }
    }

    /// The error for the caller when the driver fails at `doing` something on this card. If the
    /// driver's error is a permanent one, the card is lost from now on.
    #[cold]
    pub(super) fn failed(&self, doing: &str, error: DriverError) -> Error {
        let why = explain(error);
        if is_out_of_memory(error) {
            let operation = format!("GPU {}: {doing}", self.ordinal);
            let reason = why;
            return Error::ResourceExhausted(Shortage::Refused { operation, reason });
        }
        if is_sticky(error) {
            let why = self.lost.get_or_init(|| format!("{doing}: {why}"));
            return self.unavailable(why);
        }
        Error::Unavailable(format!("GPU {}: {doing}: {why}", self.ordinal))
    }

    /// Makes the card unusable, because its contents are no longer reliable.
    pub fn give_up(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::Unavailable(format!(
            "GPU {} ({}) is lost to this process, and with it all logical GPUs on it and what \
             they held: {why}. Start the process again, and restore what was saved",
            self.ordinal, self.name
        ))
    }

    /// The card's kernels: all kernels of the PTX. The PTX is the same at each call, and loaded at
    /// the first.
    pub fn kernels(&self, ptx: impl FnOnce() -> &'static str) -> Result<&Kernels> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let _entered = self.enter()?;
        let ptx = ptx();
        let image = CString::new(ptx).map_err(|_| Error::Internal("a NUL in the PTX".into()))?;
        // SAFETY: the image is PTX with a NUL at its end, and the card's context is current.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| self.failed("loading the kernels", error))?;
        let mut functions = HashMap::new();
        for name in kernel_names(ptx) {
            let text = CString::new(name)
                .map_err(|_| Error::Internal(format!("the kernel name {name:?}")))?;
            // SAFETY: the module was just loaded and stays.
            let function = unsafe { result::module::get_function(module, text) }
                .map_err(|error| self.failed(&format!("finding the kernel {name}"), error))?;
            functions.insert(name, function);
        }
        // If two threads load the module, the slower one drops its own; this happens at most once
        // in a process.
        Ok(self.kernels.get_or_init(|| Kernels { functions }))
    }

    /// The card's kernels, which were loaded.
    pub(super) fn loaded_kernels(&self) -> Result<&Kernels> {
        let missing =
            || Error::Internal(format!("GPU {}: its kernels are not loaded", self.ordinal));
        self.kernels.get().ok_or_else(missing)
    }

    /// Notes that so many bytes more are in use, or fewer: the pool keeps free memory beside these,
    /// which the driver counts, too. The card's context is current.
    pub(super) fn record_used(&self, change: i64) {
        let change = change.cast_unsigned();
        let in_use = self
            .used
            .fetch_add(change, Ordering::Relaxed)
            .wrapping_add(change);
        let mut kept = (in_use / KEPT_BYTES + 2) * KEPT_BYTES;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        if self.kept.swap(kept, Ordering::Relaxed) != kept
            && let Some(pool) = self.pool()
        {
            // SAFETY: the attribute is a number of 64 bits. If it cannot be set, allocations are
            // slower, without other effects.
            let _ =
                unsafe { result::mem_pool::set_attribute(pool, threshold, (&raw mut kept).cast()) };
        }
    }

    /// The card's pool, if it has one. The card's context is current.
    fn pool(&self) -> Option<sys::CUmemoryPool> {
        // SAFETY: the device exists and has pools.
        let pool = || unsafe { result::device::get_default_mem_pool(self.context.cu_device()) };
        self.has_pools().then(pool)?.ok()
    }

    /// Frees the free memory of the card's pool. Memory that cannot be freed stays there for the
    /// next request.
    pub(super) fn release_free_memory(&self) {
        if let Ok(_entered) = self.enter()
            && let Some(pool) = self.pool()
        {
            // SAFETY: the pool is the card's.
            let _ = unsafe { result::mem_pool::trim_to(pool, 0) };
        }
    }
}

/// The number of bytes of free memory a card's pool keeps at least for the next request, instead of
/// freeing them whenever a thread waits for the card. It keeps no more than twice as many. It is
/// the same number as for the host's memory.
const KEPT_BYTES: u64 = 256 << 20;

/// Calls `ask` while the primary context of a card that exists is held and current. Afterwards the
/// context is current that was so before.
///
/// Fails with UNAVAILABLE, naming the function, if the driver lacks a function that is needed.
pub(super) fn with_primary<T>(
    ordinal: u32,
    ask: impl FnOnce(&Arc<CudaContext>) -> Result<T, DriverError>,
) -> Result<Result<T, DriverError>> {
    require_functions()?;
    let asked = || {
        let _entered = EnteredContext::leaving(None)?;
        // This context is released first, while it is still current.
        let context = CudaContext::new(ordinal as usize)?;
        ask(&context)
    };
    Ok(asked())
}

/// While this lives, a card's context is current on this thread.
#[derive(Debug)]
pub struct EnteredContext {
    /// The context that was current before, if it was another one.
    left: Option<sys::CUcontext>,
    _of_this_thread: PhantomData<*const ()>,
}

impl EnteredContext {
    /// Remembers which context is current, unless it is `entered`.
    fn leaving(entered: Option<sys::CUcontext>) -> Result<EnteredContext, DriverError> {
        let before = result::ctx::get_current()?;
        let left =
            (before.is_none() || before != entered).then_some(before.unwrap_or(ptr::null_mut()));
        Ok(EnteredContext {
            left,
            _of_this_thread: PhantomData,
        })
    }
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        if let Some(before) = self.left {
            leave(before.cast());
        }
    }
}

impl From<EnteredContext> for Entered {
    fn from(mut entered: EnteredContext) -> Entered {
        entered
            .left
            .take()
            .map_or_else(Entered::unchanged, |before| {
                Entered::until(leave, before.cast())
            })
    }
}

/// Makes the context current that was so before, or none.
fn leave(before: *mut c_void) {
    // SAFETY: this context, or none, was current on this thread. A program does not destroy a
    // context that is current on another thread. The first failure may belong to an earlier call.
    // If the second try fails, too, a call that needs a context reports it.
    let again = || unsafe { result::ctx::set_current(before.cast()) };
    let _ = again().or_else(|_| again());
}
