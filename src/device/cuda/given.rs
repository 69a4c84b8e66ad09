//! Whether a stream or a memory pool that the program gives for a GPU is one of that GPU.
//!
//! Neither opens the card: the program, which has made them, holds its primary context already.

use std::ffi::c_int;
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::failure::{explain, require_functions};
use super::gpu::check_card;
use crate::error::{Error, Result};

/// `CU_STREAM_PER_THREAD`, which is another stream for each thread.
const PER_THREAD: usize = 2;

/// `CU_MEM_ACCESS_FLAGS_PROT_NONE`.
const NO_ACCESS: u32 = 0;

/// Fails with INVALID_ARGUMENT unless the stream at this address is one of the primary context of card
/// `ordinal`, which exists.
pub fn check_stream(ordinal: u32, stream: usize) -> Result<()> {
    if stream == PER_THREAD {
        let problem =
            "the default stream of each thread, of which there are several; give one stream";
        return Err(Error::invalid("stream", problem));
    }
    let context_of = |primary: sys::CUcontext| {
        let before = result::ctx::get_current()?.unwrap_or(ptr::null_mut());
        // SAFETY: the context is retained. That the default stream of a context is asked for, too, is why it
        // is made current.
        unsafe { result::ctx::set_current(primary) }?;
        let mut context = ptr::null_mut();
        // SAFETY: the program promises a stream that lives; the rest is a place for the answer.
        let asked = unsafe {
            let stream = ptr::with_exposed_provenance_mut(stream);
            sys::cuStreamGetCtx(stream, &raw mut context)
        };
        // SAFETY: it was this thread's, or none. The first failure may be that of a call before.
        let restored = unsafe {
            result::ctx::set_current(before).or_else(|_| result::ctx::set_current(before))
        };
        asked.result().and(restored).map(|()| context == primary)
    };
    let found = with_primary(ordinal, "stream", context_of)?;
    let problem = match found {
        Ok(true) => return Ok(()),
        Ok(false) => "of another GPU, or not of its primary context".to_owned(),
        Err(error) if is_wrong_handle(error) => format!("no stream: {}", explain(error)),
        Err(error) => return Err(failed(ordinal, "stream", error)),
    };
    let advice = format!(
        "{problem}; give one that was made while the primary context of GPU {ordinal} \
         (cuDevicePrimaryCtxRetain) was current"
    );
    Err(Error::invalid("stream", advice))
}

/// Fails with INVALID_ARGUMENT if the memory pool at this address is certainly none of card `ordinal`, which
/// exists: a card may always use its own pools. Pools of other cards that it was let use pass, and any of a
/// card without pools, which its first use refuses.
pub fn check_pool(ordinal: u32, pool: usize) -> Result<()> {
    let may_use = |_| {
        let has_pools = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let device = result::device::get(number(ordinal))?;
        // SAFETY: the device came from the driver.
        if unsafe { result::device::get_attribute(device, has_pools) }? == 0 {
            return Ok(true);
        }
        let mut location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: number(ordinal),
        };
        // As a number: a driver may know more of them than the bindings.
        let mut access = NO_ACCESS;
        // SAFETY: the program promises a pool that lives; the rest are places for the question and the answer.
        let asked = unsafe {
            let pool = ptr::with_exposed_provenance_mut(pool);
            sys::cuMemPoolGetAccess((&raw mut access).cast(), pool, &raw mut location)
        };
        asked.result().map(|()| access != NO_ACCESS)
    };
    let problem = match with_primary(ordinal, "pool", may_use)? {
        Ok(true) => return Ok(()),
        Ok(false) => "of another GPU, whose memory this one may not use".to_owned(),
        Err(error) if is_wrong_handle(error) => format!("no memory pool: {}", explain(error)),
        Err(error) => return Err(failed(ordinal, "pool", error)),
    };
    let advice = format!("{problem}; give one whose memory is in GPU {ordinal} (CUmemPoolProps)");
    Err(Error::invalid("pool", advice))
}

/// Asks while the card's primary context is held.
fn with_primary<T>(
    ordinal: u32,
    what: &str,
    ask: impl FnOnce(sys::CUcontext) -> Result<T, DriverError>,
) -> Result<Result<T, DriverError>> {
    check_card(ordinal)?;
    require_functions()?;
    let device = result::device::get(number(ordinal));
    let device = device.map_err(|error| failed(ordinal, what, error))?;
    // SAFETY: the device came from the driver; what is retained is released below, after its last use.
    let primary = unsafe { result::primary_ctx::retain(device) };
    let answer = ask(primary.map_err(|error| failed(ordinal, what, error))?);
    // SAFETY: as above. If it fails the context stays a little longer.
    let _ = unsafe { result::primary_ctx::release(device) };
    Ok(answer)
}

fn number(ordinal: u32) -> c_int {
    c_int::try_from(ordinal).unwrap_or(c_int::MAX)
}

/// Whether the driver says that a handle or another value is wrong.
fn is_wrong_handle(error: DriverError) -> bool {
    matches!(error.0 as u32, 1 | 400)
}

fn failed(ordinal: u32, what: &str, error: DriverError) -> Error {
    let why = explain(error);
    Error::Unavailable(format!(
        "GPU {ordinal} could not be asked whether the {what} is its own: {why}"
    ))
}
