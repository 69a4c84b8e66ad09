//! Finds CUDA devices, their names and their memory, without opening a device.
//!
//! The bindings panic when the driver's library is absent or lacks a function. No such panic leaves
//! this module (the panic hook may still print it).

use std::ffi::c_int;
use std::sync::OnceLock;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, sys};

use super::failure::{explain, guarded};
use super::physical_gpu::{check_card, with_primary};
use crate::MemoryInfo;
use umbo_base::error::{Error, Result};
use umbo_executor::floating_point::in_program;
use umbo_executor::fork;

/// The number of CUDA devices this process can see, or why there are none. The driver is asked
/// once; later calls return the first answer. The answer is never zero, and the call never panics.
/// The first call may take hundreds of milliseconds while the driver starts.
pub fn probe() -> &'static Result<u32, String> {
    static PROBE: OnceLock<Result<u32, String>> = OnceLock::new();
    PROBE.get_or_init(|| {
        // The driver does not work in a child of `fork`.
        fork::record_use();
        // SAFETY: it opens the driver's library and closes it again. The driver's initialisers are
        // written to run in any process that links it.
        let present = || in_program(|| unsafe { sys::is_culib_present() });
        if !guarded(present).unwrap_or(false) {
            return Err("no CUDA driver library (libcuda.so.1) was found".into());
        }
        match guarded(CudaContext::device_count) {
            Some(Ok(count)) => match u32::try_from(count) {
                Ok(count) if count > 0 => Ok(count),
                _ => Err("the CUDA driver is here, but it reports no device".into()),
            },
            Some(Err(error)) => Err(format!("the CUDA driver did not start: {}", explain(error))),
            None => Err(LACKING.into()),
        }
    })
}

/// The model name of a CUDA device. Fails with NOT_FOUND if there is no such device.
pub fn device_name(ordinal: u32) -> Result<String> {
    on_device(ordinal, "name", result::device::get_name)
}

/// The compute capability of a CUDA device, such as (9, 0). Fails with NOT_FOUND if there is no
/// such device.
pub fn capability(ordinal: u32) -> Result<(u32, u32)> {
    on_device(ordinal, "compute capability", |device| {
        use sys::CUdevice_attribute_enum as Attribute;
        let ask = |attribute| {
            // SAFETY: `device` came from the driver's device::get.
            let answer = unsafe { result::device::get_attribute(device, attribute) };
            answer.map(|number| u32::try_from(number).unwrap_or(0))
        };
        Ok((
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    })
}

/// The total and the free memory of a CUDA device. Fails with NOT_FOUND if there is no such device,
/// and with UNAVAILABLE if the driver fails. It makes the device's primary context current for a
/// moment, which takes a second and some device memory if nobody else in the process holds the
/// context.
pub fn memory_info(ordinal: u32) -> Result<MemoryInfo> {
    check_card(ordinal)?;
    existing(ordinal)?;
    let asked = with_primary(ordinal, |_| result::mem_get_info())?;
    let (free, total) = asked.map_err(|error| failed("memory size", ordinal, &explain(error)))?;
    Ok(MemoryInfo {
        total_bytes: total as u64,
        available_bytes: free as u64,
    })
}

/// Asks the driver about one device. `question` names it in error messages.
fn on_device<T>(
    ordinal: u32,
    question: &str,
    ask: impl FnOnce(sys::CUdevice) -> Result<T, DriverError> + std::panic::UnwindSafe,
) -> Result<T> {
    let index = existing(ordinal)?;
    match guarded(|| ask(result::device::get(index)?)) {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(failed(question, ordinal, &explain(error))),
        None => Err(failed(question, ordinal, LACKING)),
    }
}

/// The driver's handle of a device. Fails with NOT_FOUND if there is no such device.
fn existing(ordinal: u32) -> Result<c_int> {
    let absent = |why: &str| Error::NotFound(format!("GPU {ordinal} does not exist{why}"));
    let count = probe()
        .as_ref()
        .map_err(|reason| absent(&format!(": {reason}")))?;
    let index = c_int::try_from(ordinal).ok().filter(|_| ordinal < *count);
    index.ok_or_else(|| absent(&format!("; there are {count}")))
}

fn failed(question: &str, ordinal: u32, cause: &str) -> Error {
    Error::Unavailable(format!("the {question} of GPU {ordinal}: {cause}"))
}

/// The reason why a function of the driver could not be called.
const LACKING: &str = "the CUDA driver library lacks a function that is needed";

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;

    // These results hold with and without a driver.
    #[test]
    fn the_probe_answers_and_repeats_itself() {
        match probe() {
            Ok(count) => assert!(*count > 0),
            Err(reason) => assert!(reason.contains("CUDA driver"), "{reason}"),
        }
        assert_eq!(probe(), probe());
    }

    #[test]
    fn an_absent_device_is_not_found() {
        for error in [
            device_name(u32::MAX).unwrap_err(),
            memory_info(u32::MAX).unwrap_err(),
        ] {
            assert_eq!(error.status(), Status::NotFound);
            assert!(error.to_string().contains("GPU 4294967295"), "{error}");
        }
    }

    #[test]
    fn every_device_has_a_name_and_memory() {
        for ordinal in 0..*probe().as_ref().unwrap_or(&0) {
            assert!(!device_name(ordinal).unwrap().is_empty());
            let memory = memory_info(ordinal).unwrap();
            assert!(memory.total_bytes > 0 && memory.available_bytes <= memory.total_bytes);
        }
    }
}
