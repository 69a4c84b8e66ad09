//! Devices: how many there are, what they are called, how much memory they have.

use super::prelude::*;
use crate::device::name::DeviceName;
use crate::device::{DeviceId, DeviceKind, registry};
use crate::strategy::context::current_device;

/// A type of device.
pub type umbo_device_type = i32;

/// A share of the host's processors, with host memory.
pub const UMBO_DEVICE_CPU: umbo_device_type = 1;
/// A CUDA device, or a share of one.
pub const UMBO_DEVICE_GPU: umbo_device_type = 2;

constants! { DeviceKind { UMBO_DEVICE_CPU = DeviceKind::Cpu, UMBO_DEVICE_GPU = DeviceKind::Gpu } }

/// A logical device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct umbo_device {
    /// UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
    pub r#type: umbo_device_type,
    /// Its number among the logical devices of its type, from 0 on.
    pub ordinal: i32,
}

/// The memory of a physical device.
///
/// umbo_device_memory_info() fills it. Start from UMBO_MEMORY_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_memory_info {
    /// `sizeof(umbo_memory_info)`; UMBO_MEMORY_INFO_INIT sets it.
    pub struct_size: usize,
    /// The whole memory, in bytes.
    pub total_bytes: u64,
    /// How many bytes could be allocated now, if nobody else allocates any.
    pub available_bytes: u64,
}

pub(crate) fn device_of(device: DeviceId) -> umbo_device {
    umbo_device { r#type: device.kind.to_c(), ordinal: device.index as i32 }
}

/// A device that a struct names. INVALID_ARGUMENT for a type that is none, NOT_FOUND for a device that
/// does not exist.
pub(crate) fn listed_device(device: umbo_device, argument: &'static str) -> Result<DeviceId> {
    if device.r#type == UMBO_DEVICE_CPU {
        return Ok(DeviceId::HOST);
    }
    let kind = constant(device.r#type, "type").map_err(|error| error.within(argument))?;
    let index = u32::try_from(device.ordinal)
        .map_err(|_| Error::invalid(argument, format!("its device is {}", device.ordinal)))?;
    registry::require(DeviceId { kind, index })
}

/// The device of a name; NULL names none.
///
/// # Safety
/// `name` is NULL or leads to a text.
unsafe fn named_device(name: *const c_char, argument: &'static str) -> Result<Option<DeviceId>> {
    // SAFETY: the caller's promise is the same.
    let name = unsafe { optional_text(name, argument) }?;
    name.map(|name| registry::resolve(name, argument)).transpose()
}

/// The device of a name for a tensor; NULL is the current device.
///
/// # Safety
/// `name` is NULL or leads to a text.
pub(crate) unsafe fn device(name: *const c_char, argument: &'static str) -> Result<DeviceId> {
    // SAFETY: the caller's promise is the same.
    Ok(unsafe { named_device(name, argument) }?.unwrap_or_else(current_device))
}

/// Counts the physical devices of a type.
///
/// @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
/// @param[out] count How many there are; 0 GPUs if there is no driver.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, or `count` is a null
///   pointer.
///
/// There is one CPU, the host. GPUs are those that the CUDA driver shows to this process. The first
/// call that asks about GPUs starts the driver.
#[c_call(out(count), constant(r#type))]
pub fn umbo_physical_device_count(r#type: umbo_device_type, count: *mut i64) {
    count.write(registry::physical_count(r#type) as i64);
}

/// Counts the logical devices of a type.
///
/// @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
/// @param[out] count How many there are. Their numbers are 0 to `count` - 1.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, or `count` is a null
///   pointer.
#[c_call(out(count), constant(r#type))]
pub fn umbo_logical_device_count(r#type: umbo_device_type, count: *mut i64) {
    count.write(registry::logical_count(r#type) as i64);
}

/// Splits a physical device into several logical devices.
///
/// @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
/// @param[in] physical_ordinal Which physical device of this type, from 0 on.
/// @param[in] count How many logical devices it becomes: 1 to 4096 for the host, 1 to 64 for a GPU.
/// @param[in] memory_limits How many bytes each logical GPU may allocate, `count` numbers of 1 or more.
///   `memory_limits` may be NULL: equal shares of the memory, or all of it for one. The host has no
///   limits.
/// @return UMBO_OK, or one of these, and then nothing changes:
/// - UMBO_STATUS_NOT_FOUND: there is no such physical device.
/// - UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, `physical_ordinal` is negative,
///   `count` is less than 1 or too large, or a limit is less than 1 or given for the host.
/// - UMBO_STATUS_FAILED_PRECONDITION: a device would go away that a strategy uses; or a GPU would get
///   another number or share that was used already.
///
/// The new split takes the place of the one before. The host is physical CPU 0; its logical devices
/// share its processors. Strategies that exist keep the processors that they have. Each of several
/// logical GPUs may allocate an equal share of the memory of its GPU, and has a stream of its own. GPUs
/// are split before they are first used.
///
/// Logical GPUs are numbered through all physical GPUs, so that those of GPUs with higher ordinals may get
/// other numbers. Each keeps the stream of umbo_set_device_stream() and the pool of
/// umbo_set_device_memory_pool() under its new number. Of this GPU, the first `count` logical GPUs keep
/// theirs, and what was set for others is forgotten.
#[c_call]
pub fn umbo_set_logical_device_count(
    r#type: umbo_device_type,
    physical_ordinal: i32,
    count: i64,
    memory_limits: *const i64,
) {
    let kind = constant(r#type, "type")?;
    let natural = |value: i64, argument: &'static str| {
        let problem = if value < 0 { "is negative" } else { "is more than there can be" };
        u32::try_from(value).map_err(|_| Error::invalid(argument, format!("{value} {problem}")))
    };
    let physical_ordinal = natural(physical_ordinal.into(), "physical_ordinal")?;
    let natural_count = natural(count, "count")?;
    if memory_limits.is_null() {
        return registry::set_logical_count(kind, physical_ordinal, natural_count);
    }
    if kind == DeviceKind::Cpu {
        let problem = "given for the host, whose logical devices share its memory; give NULL";
        return Err(Error::invalid("memory_limits", problem));
    }
    // SAFETY: the caller promises as many numbers as logical devices.
    let limits = unsafe { array(memory_limits, (count, "count"), "memory_limits") }?;
    let limits = collect(limits.iter().map(|&limit| {
        u64::try_from(limit).map(Some).map_err(|_| {
            Error::invalid("memory_limits", format!("{limit} bytes; limits are 1 or more"))
        })
    }))?;
    registry::split_gpu(physical_ordinal, &limits)
}

/// Has a GPU work on a stream of the program's.
///
/// @param[in] device The name of a device that was not used yet.
/// @param[in] stream A CUstream of the GPU's primary context, which must live as long as the process.
///   `stream` may be NULL: a stream that the library makes, as if this were not called.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `device` is no device name, a CPU is given a stream, or `stream` is not
///   of the GPU's primary context, is the default stream of each thread, or no stream.
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
/// - UMBO_STATUS_UNAVAILABLE: the driver does not tell whose stream it is.
///
/// All that the library does with the GPU's memory then goes through this stream, and
/// umbo_replica_context_get_info() has it. It stays with this part of its physical GPU when
/// umbo_set_logical_device_count() gives that another number.
#[c_call(text(device))]
pub fn umbo_set_device_stream(device: *const c_char, stream: *mut c_void) {
    let device = registry::resolve(device, "device")?;
    registry::set_stream(device, (!stream.is_null()).then(|| stream.expose_provenance()))
}

/// Has the memory of a GPU come from a memory pool of the program's.
///
/// @param[in] device The name of a device that was not used yet.
/// @param[in] pool A CUmemoryPool of the GPU, which must live as long as the process. `pool` may be NULL: the
///   GPU's default pool, as if this were not called.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: `device` is no device name, a CPU is given a pool, or `pool` is no pool,
///   or one of another GPU, whose memory this one was not let use (cuMemPoolSetAccess).
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
/// - UMBO_STATUS_UNAVAILABLE: the driver does not tell whose pool it is.
///
/// All that the library allocates on the GPU then comes from the pool, in the order of the GPU's stream, and
/// goes back to it. A pool that has no more gives UMBO_STATUS_RESOURCE_EXHAUSTED to the call that needs memory.
/// GPUs that have no memory pools are UMBO_STATUS_UNIMPLEMENTED at their first use. The pool stays with this
/// part of its physical GPU when umbo_set_logical_device_count() gives that another number.
#[c_call(text(device))]
pub fn umbo_set_device_memory_pool(device: *const c_char, pool: *mut c_void) {
    let device = registry::resolve(device, "device")?;
    registry::set_memory_pool(device, (!pool.is_null()).then(|| pool.expose_provenance()))
}

/// Writes the canonical form of a device name.
///
/// @param[in] name The name of a device, in part or in full.
/// @param[in] defaults Gives the parts that `name` does not have. `defaults` may be NULL: then
///   CPU:0 of this process gives them, as it gives parts that `defaults` does not have.
/// @param[out] buffer The canonical name, ended by a NUL. `buffer` may be NULL if `capacity` is 0.
/// @param[in] capacity The size of `buffer` in bytes.
/// @param[out] length The length of the canonical name in bytes, without the NUL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
/// - UMBO_STATUS_INVALID_ARGUMENT: `name` or `defaults` is not a device name, or an output is a
///   null pointer.
///
/// A canonical name is, for example, "/job:localhost/replica:0/task:0/device:CPU:0". The device
/// need not exist.
#[c_call(out(length), text(name), optional_text(defaults), buffer(buffer, capacity))]
pub fn umbo_device_canonical_name(
    name: *const c_char,
    defaults: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let local = DeviceName::default();
    let defaults = match defaults {
        Some(defaults) => DeviceName::parse(defaults, &local)?,
        None => local,
    };
    buffer.write(&DeviceName::parse(name, &defaults)?.to_string(), length)
}

/// Finds out which device of this process a name means.
///
/// @param[in] name The name of a device, in part or in full. Missing parts are those of CPU:0 of
///   this process.
/// @param[out] device Its type and its number.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: the name is that of a device of another process.
/// - UMBO_STATUS_INVALID_ARGUMENT: `name` is not a device name, or `device` is a null pointer.
///
/// The device need not exist.
#[c_call(out(device), text(name))]
pub fn umbo_device_parse(name: *const c_char, device: *mut umbo_device) {
    let parsed = DeviceName::parse(name, &DeviceName::default())?;
    if !parsed.is_local() {
        let problem = format!("name: '{name}' is not a device of this process");
        return Err(Error::NotFound(problem));
    }
    device.write(device_of(parsed.device));
}

/// Gives the memory of a physical device, in all and free.
///
/// @param[in] device The name of a logical device, which is a part of the physical one. `device`
///   may be NULL: CPU:0.
/// @param[out] info The memory. Start from UMBO_MEMORY_INFO_INIT.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is no such device.
/// - UMBO_STATUS_UNAVAILABLE: the system or the driver does not tell, or the GPU is lost to this process.
/// - UMBO_STATUS_INVALID_ARGUMENT: `device` is not a device name, or `info` is a null pointer, or
///   its `struct_size` is not set.
///
/// For a GPU the call can be slow if nothing else in the process is using that GPU.
#[c_call(result(info))]
pub fn umbo_device_memory_info(device: *const c_char, info: *mut umbo_memory_info) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let memory = registry::memory_info(
        unsafe { named_device(device, "device") }?.unwrap_or(DeviceId::HOST),
    )?;
    info.write(umbo_memory_info {
        struct_size: size_of::<umbo_memory_info>(),
        total_bytes: memory.total_bytes,
        available_bytes: memory.available_bytes,
    });
}
