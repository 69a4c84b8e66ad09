//! Devices: how many there are, what they are called, how much memory they have.

use std::ffi::c_char;

use super::boundary::{boundary, check, constant, out};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::{optional_text, text, write_text};
use crate::device::name::DeviceName;
use crate::device::{DeviceId, DeviceKind, registry};
use crate::error::{Error, Result};
use crate::strategy::context::current_device;

/// A kind of device.
pub type umbo_device_type = i32;

/// A share of the host's processors, with host memory.
pub const UMBO_DEVICE_CPU: umbo_device_type = 1;
/// A CUDA device or a share of one.
pub const UMBO_DEVICE_GPU: umbo_device_type = 2;

const _: () = assert!(DeviceKind::Cpu as i32 == UMBO_DEVICE_CPU);
const _: () = assert!(DeviceKind::Gpu as i32 == UMBO_DEVICE_GPU);

/// A logical device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct umbo_device {
    /// UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
    pub r#type: umbo_device_type,
    /// Its number among the logical devices of its type.
    pub ordinal: i32,
}

/// The memory of the physical device that a logical device is a part of.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_memory_info {
    /// `sizeof(umbo_memory_info)`; set by the caller.
    pub struct_size: usize,
    /// All of it.
    pub total_bytes: u64,
    /// What could be allocated now, if nobody else asks.
    pub available_bytes: u64,
}

// SAFETY: `repr(C)`, `struct_size` first, no padding; zero is a value of each field.
unsafe impl Extensible for umbo_memory_info {}

pub(crate) fn device_of(device: DeviceId) -> umbo_device {
    umbo_device { r#type: device.kind as i32, ordinal: device.index as i32 }
}

/// A device argument; NULL is CPU:0.
///
/// # Safety
/// `name` is NULL or a text.
pub(crate) unsafe fn device_from(name: *const c_char) -> Result<DeviceId> {
    // SAFETY: the caller's promise is the same.
    match unsafe { optional_text(name, "device") }? {
        Some(name) => registry::resolve(name, "device"),
        None => Ok(DeviceId::HOST),
    }
}

/// As [`device_from`], for a tensor that is about to be made; NULL is the device of the replica whose
/// callback this is, elsewhere CPU:0.
///
/// # Safety
/// As for [`device_from`].
pub(crate) unsafe fn tensor_device_from(name: *const c_char) -> Result<DeviceId> {
    if name.is_null() {
        return Ok(current_device());
    }
    // SAFETY: the caller's promise is the same.
    unsafe { device_from(name) }
}

fn kind_from(code: umbo_device_type) -> Result<DeviceKind> {
    let valid = "UMBO_DEVICE_CPU (1) and UMBO_DEVICE_GPU (2)";
    constant(code, DeviceKind::from_code(code), "type", valid)
}

/// How many physical devices of a type there are: one CPU, which is the host, and the GPUs that
/// the CUDA driver shows to this process; 0 GPUs if there is no driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_physical_device_count(
    r#type: umbo_device_type,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_physical_device_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(registry::physical_count(kind_from(r#type)?) as i64);
        Ok(())
    })
}

/// How many logical devices of a type there are; their indices are 0 to one less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_logical_device_count(
    r#type: umbo_device_type,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_logical_device_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(registry::logical_count(kind_from(r#type)?) as i64);
        Ok(())
    })
}

/// Splits a physical device into `count` logical ones, in place of the split before. The host is
/// physical CPU 0; its logical devices share its processors out.
///
/// NOT_FOUND if there is no such physical device, INVALID_ARGUMENT for a count that is less than 1
/// or too large, UNIMPLEMENTED for a GPU and more than one, FAILED_PRECONDITION while a strategy
/// lives that uses a device which would vanish; then nothing changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_set_logical_device_count(
    r#type: umbo_device_type,
    physical_ordinal: i32,
    count: i64,
) -> umbo_status {
    boundary("umbo_set_logical_device_count", || {
        let kind = kind_from(r#type)?;
        let natural = |value: i64, argument: &'static str| {
            u32::try_from(value)
                .map_err(|_| Error::invalid(argument, format!("{value} is negative")))
        };
        let physical_ordinal = natural(physical_ordinal.into(), "physical_ordinal")?;
        registry::set_logical_count(kind, physical_ordinal, natural(count, "count")?)
    })
}

/// The canonical form of a device name, such as "/job:localhost/replica:0/task:0/device:CPU:0".
/// Parts that `name` lacks come from `defaults`, whose own come from CPU:0 of this process, as
/// they do if `defaults` is NULL. The device need not exist.
///
/// `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
/// not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
/// is not written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_device_canonical_name(
    name: *const c_char,
    defaults: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> umbo_status {
    boundary("umbo_device_canonical_name", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (length, name, defaults) = unsafe {
            (out(length, "length")?, text(name, "name")?, optional_text(defaults, "defaults")?)
        };
        if capacity > 0 {
            check(buffer.cast_const(), "buffer", "room for the name is expected")?;
        }
        let local = DeviceName::default();
        let defaults = match defaults {
            Some(defaults) => DeviceName::parse(defaults, &local)?,
            None => local,
        };
        let canonical = DeviceName::parse(name, &defaults)?.to_string();
        // SAFETY: the caller promises `capacity` bytes, and NULL goes with none.
        unsafe { write_text(&canonical, buffer, capacity, length) }
    })
}

/// The device of this process that a name means. It need not exist. NOT_FOUND if the name is of
/// another process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_device_parse(
    name: *const c_char,
    device: *mut umbo_device,
) -> umbo_status {
    boundary("umbo_device_parse", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (device, name) = unsafe { (out(device, "device")?, text(name, "name")?) };
        let parsed = DeviceName::parse(name, &DeviceName::default())?;
        if !parsed.is_local() {
            let problem = format!("name: '{name}' is not a device of this process");
            return Err(Error::NotFound(problem));
        }
        device.write(device_of(parsed.device));
        Ok(())
    })
}

/// The memory of the physical device that `device` (NULL: CPU:0) is a part of. NOT_FOUND if there
/// is no such device, UNAVAILABLE if the system or the driver does not tell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_device_memory_info(
    device: *const c_char,
    info: *mut umbo_memory_info,
) -> umbo_status {
    boundary("umbo_device_memory_info", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (info, device) = unsafe { (options::out(info, "info")?, device_from(device)?) };
        let memory = registry::memory_info(device)?;
        info.write(umbo_memory_info {
            struct_size: size_of::<umbo_memory_info>(),
            total_bytes: memory.total_bytes,
            available_bytes: memory.available_bytes,
        });
        Ok(())
    })
}
