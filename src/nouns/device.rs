//! Devices: how many there are, what they are called, how much memory they have.

use crate::machinery::prelude::*;
use umbo_core::device::name::DeviceName;
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::executor::affinity;
use umbo_core::strategy::context::current_device;

/// A type of device.
pub type umbo_device_type = i32;

/// A share of the host's processors, with host memory.
pub const UMBO_DEVICE_CPU: umbo_device_type = 401;
/// A CUDA device, or a share of one.
pub const UMBO_DEVICE_GPU: umbo_device_type = 402;

impl Constant for DeviceKind {
    fn from_c(code: i32, argument: &'static str) -> Result<DeviceKind> {
        one_of!(code, argument, {
            UMBO_DEVICE_CPU => DeviceKind::Cpu, UMBO_DEVICE_GPU => DeviceKind::Gpu
        })
    }

    fn to_c(self) -> i32 {
        UMBO_DEVICE_CPU - DeviceKind::Cpu.number() + self.number()
    }
}

/// A logical device of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct umbo_device {
    /// Whether it is a CPU or a GPU.
    pub r#type: umbo_device_type,
    /// Its number among the logical devices of its type, from 0.
    pub ordinal: i32,
}

/// The properties of a device. Start from UMBO_DEVICE_INFO_INIT.
#[c_struct]
pub struct umbo_device_info {
    /// Its type, and its number among the logical devices of that type.
    pub device: umbo_device,
    /// The canonical name, which lives as long as the process. NULL: the device does not exist.
    pub name: *const c_char,
    /// How many physical devices of its type there are: one CPU, which is the host, and the GPUs
    /// that the CUDA driver shows to this process.
    pub physical_count: i64,
    /// How many logical devices of its type there are. Their ordinals are 0 to `logical_count` - 1.
    pub logical_count: i64,
    /// The memory of its physical device, or its own memory limit. 0: not known, because the device
    /// does not exist or is lost.
    pub total_bytes: usize,
    /// How much of this memory could be allocated now; 0 if that is not known.
    pub available_bytes: usize,
    /// The number of its physical device, from 0: for a GPU the ordinal that the CUDA driver
    /// gives it in this process. UMBO_NONE: the device does not exist.
    pub physical_ordinal: i64,
}

pub(crate) fn device_of(device: DeviceId) -> umbo_device {
    umbo_device {
        r#type: device.kind.to_c(),
        ordinal: device.index as i32,
    }
}

/// A device that a struct names. INVALID_ARGUMENT for a type that is none, NOT_FOUND for a device
/// that does not exist.
pub(crate) fn listed_device(device: umbo_device, argument: &'static str) -> Result<DeviceId> {
    if device.r#type == UMBO_DEVICE_CPU {
        return Ok(DeviceId::HOST);
    }
    let kind = constant(device.r#type, "type").map_err(|error| error.within(argument))?;
    let index = u32::try_from(device.ordinal)
        .map_err(|_| invalid!(argument, "its device is {}", device.ordinal))?;
    let device = DeviceId { kind, index };
    registry::REGISTRY.require(device)?;
    Ok(device)
}

/// The device of a name for a tensor; NULL is the current device.
///
/// # Safety
/// `name` is NULL or leads to a text.
pub(crate) unsafe fn device(name: *const c_char, argument: &'static str) -> Result<DeviceId> {
    // SAFETY: the caller's promise is the same.
    let name = unsafe { optional_text(name, argument) }?;
    name.map_or_else(
        || Ok(current_device()),
        |name| registry::REGISTRY.resolve(name, argument),
    )
}

/// Gets what is known of a device, and how many devices of its type there are.
///
/// @param[in] device The name. The device need not exist. `device` may be NULL: CPU:0.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: a device of another process.
///
/// The first call for a GPU starts the CUDA driver. A call for a GPU that nothing in the process
/// uses can be slow.
#[c_call(result(info), optional_text(device))]
pub fn umbo_device_get_info(device: *const c_char, info: *mut umbo_device_info) {
    let name = device.unwrap_or_default();
    let parsed = DeviceName::parse(name, &DeviceName::default())?;
    if !parsed.is_local() {
        let problem = format!("device: '{name}' is not a device of this process");
        return Err(Error::NotFound(problem));
    }
    let device = parsed.device;
    let count = registry::REGISTRY.logical_count(device.kind);
    let exists = device.index < count;
    let memory = exists.then(|| registry::memory_info(device).ok()).flatten();
    let (total, available) = memory.map_or((0, 0), |memory| {
        (memory.total_bytes, memory.available_bytes)
    });
    info.write(umbo_device_info {
        device: device_of(device),
        name: if exists {
            device_name(device)
        } else {
            ptr::null()
        },
        physical_count: registry::REGISTRY.physical_count(device.kind).into(),
        logical_count: count.into(),
        total_bytes: usize::try_from(total).unwrap_or(usize::MAX),
        available_bytes: usize::try_from(available).unwrap_or(usize::MAX),
        physical_ordinal: registry::REGISTRY
            .physical_ordinal(device)
            .map_or(UMBO_NONE, i64::from),
        ..Default::default()
    });
}

/// Gets how many processors this process may use.
///
/// @param[out] count Those that it may run on (its affinity), but no more than it has the time of
///   (the quota of a cgroup); 1 or more.
///
/// `cpu_replicas` UMBO_AUTO of umbo_strategy_options makes as many replicas.
#[c_call(out(count))]
pub fn umbo_processor_count(count: *mut i64) {
    count.write(affinity::usable() as i64);
}

/// Writes the canonical form of a device name, such as
/// "/job:localhost/replica:0/task:0/device:CPU:0".
///
/// @param[in] name The name. The device need not exist.
/// @param[in] defaults The name of a device that has the parts which `name` does not have.
///   `defaults` may be NULL: CPU:0 of this process, which also has the parts that `defaults` does
///   not have.
/// @param[out] buffer The canonical name. `buffer` may be NULL if `capacity` is 0.
#[c_call(
    out(length),
    text(name),
    optional_text(defaults),
    buffer(buffer, capacity)
)]
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

/// Splits a physical device into logical devices, in place of the split before.
///
/// @param[in] count How many logical devices it becomes: 1 to 4096 for the host, 1 to 64 for a GPU.
/// @param[in] memory_limits How many bytes each logical GPU may allocate, 1 or more.
///   `memory_limits` may be NULL: equal shares of the memory, or all of it for one. The host has no
///   limits.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: a strategy uses a device that would go
///   away, or a GPU that was used would get another ordinal or share. Nothing changes.
///
/// The host is physical CPU 0. Its logical devices share its processors; strategies that exist keep
/// theirs. GPUs are split before their first use. Each logical GPU has a stream of its own. Logical
/// GPUs are numbered through all physical ones, so those of GPUs after this one may get other
/// ordinals; they keep the streams and pools that were set. Logical GPUs beyond `count` lose
/// theirs.
#[c_call]
pub fn umbo_device_set_logical_count(
    r#type: umbo_device_type,
    physical_ordinal: i32,
    count: i64,
    memory_limits: *const usize,
) {
    let kind = constant(r#type, "type")?;
    let natural = |value: i64, argument: &'static str| {
        let problem = if value < 0 {
            "is negative"
        } else {
            "is more than there can be"
        };
        u32::try_from(value).map_err(|_| invalid!(argument, "{value} {problem}"))
    };
    let physical_ordinal = natural(physical_ordinal.into(), "physical_ordinal")?;
    let natural_count = natural(count, "count")?;
    if memory_limits.is_null() {
        return registry::REGISTRY.set_logical_count(kind, physical_ordinal, natural_count);
    }
    // SAFETY: the caller promises as many numbers as logical devices.
    let limits = unsafe { array(memory_limits, Count::new(count, "count"), "memory_limits") }?;
    let limits = limits.iter().map(|&limit| Ok(Some(limit as u64)));
    let limits = collect(limits, "memory_limits")?;
    registry::REGISTRY.split_memory(kind, physical_ordinal, &limits)
}
