//! A physical GPU: its primary context, and whether it still works.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};

use super::failure::{explain, is_out_of_memory, is_sticky, require_functions};
use super::kernels::Kernels;
use crate::error::{Error, Result};

/// A physical GPU, opened. Its primary context stays for as long as the process lives.
#[derive(Debug)]
pub struct Card {
    ordinal: u32,
    name: String,
    context: sys::CUcontext,
    capability: (u32, u32),
    has_pools: bool,
    /// Why the card can be used no more.
    lost: OnceLock<String>,
    pub(super) kernels: OnceLock<Kernels>,
}

// SAFETY: the context is the process's, valid until the process ends, and the driver lets every thread
// make it current.
unsafe impl Send for Card {}
// SAFETY: as above; nothing else here changes but through locks.
unsafe impl Sync for Card {}

impl Card {
    /// Opens the card with this number, which the driver has shown. Takes a second and some of the
    /// card's memory if nobody in the process has.
    pub(super) fn open(ordinal: u32) -> Result<Card> {
        require_functions()?;
        let failed = |error| {
            Error::Unavailable(format!("GPU {ordinal} could not be opened: {}", explain(error)))
        };
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        let device = result::device::get(number).map_err(failed)?;
        let name = result::device::get_name(device).map_err(failed)?;
        let attribute = |which| {
            // SAFETY: `device` came from the driver.
            let value = unsafe { result::device::get_attribute(device, which) };
            value.map(|value| u32::try_from(value).unwrap_or(0)).map_err(failed)
        };
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let has_pools = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        // SAFETY: `device` came from the driver. What is retained here is kept.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed)?;
        if has_pools {
            keep_free_memory(device);
        }
        Ok(Card {
            ordinal,
            name,
            context,
            capability,
            has_pools,
            lost: OnceLock::new(),
            kernels: OnceLock::new(),
        })
    }

    /// Its number among those that the driver shows to the process.
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

    /// Whether it allocates in the order of a stream.
    pub(super) fn has_pools(&self) -> bool {
        self.has_pools
    }

    /// The primary context.
    pub(super) fn context(&self) -> sys::CUcontext {
        self.context
    }

    /// Makes the card's context this thread's until the result is dropped, which makes it the one
    /// that was before.
    ///
    /// Fails with UNAVAILABLE if the card is lost.
    pub fn enter(&self) -> Result<Entered> {
        self.check()?;
        let before = result::ctx::get_current().map_err(|error| self.failed("asking", error))?;
        let before = before.unwrap_or(ptr::null_mut());
        if before != self.context {
            // SAFETY: the primary context is retained for as long as the process lives.
            let entered = unsafe { result::ctx::set_current(self.context) };
            entered.map_err(|error| self.failed("making its context current", error))?;
        }
        let left = (before != self.context).then_some(before);
        Ok(Entered { left: Cell::new(left), _of_this_thread: PhantomData })
    }

    /// Fails if the card cannot be used, as [`Card::enter`] does.
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(self.unavailable(why)),
            None => Ok(()),
        }
    }

    /// What an error of the driver's, at `doing` something on this card, means to the caller. The card
    /// is lost from now on if the error is one that stays.
    #[cold]
    pub(super) fn failed(&self, doing: &str, error: DriverError) -> Error {
        let why = explain(error);
        if is_out_of_memory(error) {
            return Error::ResourceExhausted(format!("GPU {}: {doing}: {why}", self.ordinal));
        }
        if is_sticky(error) {
            let why = self.lost.get_or_init(|| format!("{doing}: {why}"));
            return self.unavailable(why);
        }
        Error::Unavailable(format!("GPU {}: {doing}: {why}", self.ordinal))
    }

    /// Lets the card be used no more, because what it holds cannot be relied on.
    pub fn give_up(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::Unavailable(format!(
            "GPU {} ({}) is lost to this process, and with it all logical GPUs on it and what they \
             held: {why}. Start the process again, and restore what was saved",
            self.ordinal, self.name
        ))
    }

    /// All of the card's memory and what is free of it, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let _entered = self.enter()?;
        let info = result::mem_get_info();
        let (free, all) = info.map_err(|error| self.failed("asking for its memory", error))?;
        Ok((all as u64, free as u64))
    }
}

impl Card {
    /// Gives back what the card's pool has free. What cannot be given back stays there for the next request.
    pub(super) fn release_free_memory(&self) {
        if !self.has_pools {
            return;
        }
        let Ok(_entered) = self.enter() else { return };
        let number = c_int::try_from(self.ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the device is there, and has pools.
        let _ = unsafe {
            result::device::get(number)
                .and_then(|device| result::device::get_default_mem_pool(device))
                .and_then(|pool| result::mem_pool::trim_to(pool, 0))
        };
    }
}

/// How many bytes of free memory a card's pool keeps for the next request, in place of giving them back
/// whenever somebody waits for the card: as many as are kept of the host's.
const MOST_KEPT_BYTES: u64 = 256 << 20;

fn keep_free_memory(device: sys::CUdevice) {
    let mut most = MOST_KEPT_BYTES;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device has pools, and the attribute is a number of 64 bits. If it cannot be set,
    // allocations are slower and nothing else.
    let _ = unsafe {
        result::device::get_default_mem_pool(device).and_then(|pool| {
            result::mem_pool::set_attribute(pool, threshold, (&raw mut most).cast())
        })
    };
}

/// A card's context is this thread's for as long as this lives.
#[derive(Debug)]
pub struct Entered {
    /// What was current before, if it was another one.
    left: Cell<Option<sys::CUcontext>>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.left.take() {
            // SAFETY: it was current on this thread, or none was; whoever destroys a context that is
            // current on another thread has nothing right to expect. If it fails, a call that needs a
            // context says so.
            let _ = unsafe { result::ctx::set_current(before) };
        }
    }
}
