//! Whether an external stream or memory pool for a GPU is one of that GPU.
//!
//! These checks do not open the card: the program, which made the stream or pool, already holds its
//! primary context.

use std::ptr;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

use super::failure::explain;
use super::physical_gpu::{check_card, with_primary};
use umbo_base::error::{Error, Result};

/// `CU_STREAM_PER_THREAD`, which is a different stream in each thread.
const PER_THREAD: usize = 2;

/// `CU_MEM_ACCESS_FLAGS_PROT_NONE`.
const NO_ACCESS: u32 = 0;

/// Fails with INVALID_ARGUMENT unless the stream at this address belongs to the primary context of
/// card `ordinal`, which exists.
pub fn check_stream(ordinal: u32, stream: usize) -> Result<()> {
    if stream == PER_THREAD {
        let problem =
            "the default stream of each thread, of which there are several; give one stream";
        return Err(Error::invalid("stream", problem));
    }
    check_card(ordinal)?;
    // The driver is asked also about the default stream, which is that of the current context.
    let found = with_primary(ordinal, |primary| {
        let mut context = ptr::null_mut();
        // SAFETY: the program promises a stream that lives. The other argument is memory for the
        // answer.
        let asked = unsafe {
            let stream = ptr::with_exposed_provenance_mut(stream);
            sys::cuStreamGetCtx(stream, &raw mut context)
        };
        asked.result().map(|()| context == primary.cu_ctx())
    })?;
    judge(
        found,
        ordinal,
        "stream",
        "stream",
        "of another GPU, or not of its primary context",
        || {
            format!(
                "that was made while the primary context of GPU {ordinal} \
                 (cuDevicePrimaryCtxRetain) was current"
            )
        },
    )
}

/// Fails with INVALID_ARGUMENT if the memory pool at this address certainly does not belong to card
/// `ordinal`, which exists: a card may always use its own pools. Other cards' pools pass if the
/// card has access to them. For a card without pools every address passes; the first use of the
/// card refuses it.
pub fn check_pool(ordinal: u32, pool: usize) -> Result<()> {
    check_card(ordinal)?;
    let found = with_primary(ordinal, |primary| {
        if !primary.has_async_alloc() {
            return Ok(true);
        }
        let mut location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: primary.cu_device(),
        };
        // This is a number, since a driver may have more values than the bindings.
        let mut access = NO_ACCESS;
        // SAFETY: the program promises a pool that lives. The other arguments are memory for the
        // question and the answer.
        let asked = unsafe {
            let pool = ptr::with_exposed_provenance_mut(pool);
            sys::cuMemPoolGetAccess((&raw mut access).cast(), pool, &raw mut location)
        };
        asked.result().map(|()| access != NO_ACCESS)
    })?;
    let others = "of another GPU, whose memory this one may not use";
    judge(found, ordinal, "pool", "memory pool", others, || {
        format!("whose memory is in GPU {ordinal} (CUmemPoolProps)")
    })
}

/// The meaning of the driver's answer to the question whether `argument`, which is a `noun`,
/// belongs to a card. It says that a handle or another value is wrong with the codes 1 and 400.
fn judge(
    answer: Result<bool, DriverError>,
    ordinal: u32,
    argument: &'static str,
    noun: &str,
    others: &str,
    right: impl FnOnce() -> String,
) -> Result<()> {
    let problem = match answer {
        Ok(true) => return Ok(()),
        Ok(false) => others.to_owned(),
        Err(error) if matches!(error.0 as u32, 1 | 400) => format!("no {noun}: {}", explain(error)),
        Err(error) => {
            let why = explain(error);
            return Err(Error::Unavailable(format!(
                "GPU {ordinal} could not be asked whether the {argument} is its own: {why}"
            )));
        }
    };
    Err(invalid!(argument, "{problem}; give one {}", right()))
}
