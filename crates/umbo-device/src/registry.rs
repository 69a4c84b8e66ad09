//! The devices of this process: the physical ones, and the logical ones that strategies use.
//!
//! The host is one physical CPU. It starts as one logical CPU. It can be split into more, and each
//! has a share of the processors. Each CUDA device starts as one logical GPU. Until one of its
//! logical GPUs is used, it can be split into more, and each has a share of the memory. All
//! functions may be called from any thread.

mod table;

pub use self::table::{DeviceHold, MAX_LOGICAL_CPUS, Registry};
use crate::backend::Backend;
use crate::cpu::{Cpu, memory};
use crate::cuda::gpu::Gpu;
use crate::logical_gpus::GpuAddress;
use crate::{DeviceId, DeviceKind, MemoryInfo, cuda, kinds};
use umbo_base::error::{Error, Result};
use umbo_executor::affinity::{self, CpuSet};

/// The devices of this process.
pub static REGISTRY: Registry = Registry::new(cuda::probe, cuda::memory_info);

/// Sets the external stream, by its address, on which a logical GPU works. `None` sets its own
/// stream again. Fails with NOT_FOUND if there is no such device; with FAILED_PRECONDITION once it
/// was used; with INVALID_ARGUMENT for a stream of a CPU, and for a stream that is not of the GPU's
/// primary context.
pub fn set_stream(device: DeviceId, stream: Option<usize>) -> Result<()> {
    if needs_note(device, "stream", "works on its stream", stream.is_some())? {
        // The driver is asked before the lock is taken.
        if let Some(stream) = stream {
            cuda::external::check_stream(place_of(device)?.card, stream)?;
        }
        REGISTRY.state.lock().gpus.given(device.index).stream = stream;
    }
    Ok(())
}

/// Sets the external memory pool, by its address, from which a logical GPU gets its memory. `None`
/// sets its card's pool again. Fails as [`set_stream`] does.
pub fn set_memory_pool(device: DeviceId, pool: Option<usize>) -> Result<()> {
    if needs_note(device, "pool", "has memory", pool.is_some())? {
        if let Some(pool) = pool {
            cuda::external::check_pool(place_of(device)?.card, pool)?;
        }
        REGISTRY.state.lock().gpus.given(device.index).pool = pool;
    }
    Ok(())
}

/// The card that a logical GPU is a part of.
fn place_of(gpu: DeviceId) -> Result<GpuAddress> {
    let cards = REGISTRY.card_count();
    let place = REGISTRY.state.lock().gpus.place(gpu.index, cards);
    place.ok_or_else(|| REGISTRY.absent(gpu, cards))
}

/// Whether an external stream or pool, or `None`, is to be stored for a GPU. Fails if the GPU was
/// used. For other devices there is nothing to store.
fn needs_note(
    device: DeviceId,
    argument: &'static str,
    since: &str,
    is_given: bool,
) -> Result<bool> {
    REGISTRY.require(device)?;
    if device.kind != DeviceKind::Gpu {
        return match is_given {
            false => Ok(false),
            true => Err(invalid!(argument, "{device} has no {argument}s; give NULL")),
        };
    }
    if cuda::gpu::any_open(device.index..device.index + 1).is_some() {
        return Err(Error::precondition(format!(
            "device: {device} was used already, and {since}; give a {argument} before the first use"
        )));
    }
    Ok(true)
}

/// The host, which needs no opening.
static HOST: Cpu = Cpu;

/// An opened device: the host for every CPU. The first call opens it, which may take a second.
/// Fails with NOT_FOUND if there is no such device, and with UNAVAILABLE if it cannot be used.
pub fn backend(device: DeviceId) -> Result<&'static dyn Backend> {
    REGISTRY.require(device)?;
    match device.kind {
        DeviceKind::Cpu => Ok(&HOST),
        DeviceKind::Gpu => Gpu::at(place_of(device)?).map(|gpu| -> &'static dyn Backend { gpu }),
        DeviceKind::Added(number) => kinds::open(number, device),
    }
}

/// A logical GPU of CUDA. Everything else is as for [`backend`].
pub fn gpu(device: DeviceId) -> Result<&'static Gpu> {
    match device.kind {
        DeviceKind::Gpu => {
            REGISTRY.require(device)?;
            Gpu::at(place_of(device)?)
        }
        _ => Err(Error::Internal(format!("{device} is not a GPU of CUDA"))),
    }
}

/// The devices on which replicas run unless a program names others: all of the first kind of which
/// there are any, beside the CPU; else the host.
pub fn default_compute_devices() -> Vec<DeviceId> {
    let all_of = |kind| {
        let count = REGISTRY.logical_count(kind);
        (0..count).map(move |index| DeviceId { kind, index })
    };
    let mut kinds = std::iter::once(DeviceKind::Gpu).chain(kinds::all());
    kinds
        .find(|&kind| all_of(kind).len() > 0)
        .map_or_else(|| vec![DeviceId::HOST], |kind| all_of(kind).collect())
}

/// All devices other than the host that were opened.
fn opened() -> Vec<&'static dyn Backend> {
    let gpus = cuda::gpu::opened();
    let gpus = gpus.into_iter().map(|gpu| -> &'static dyn Backend { gpu });
    gpus.chain(kinds::opened()).collect()
}

/// Waits until everything that was queued on any device is done, as far as that is possible.
pub fn synchronize_all() {
    for backend in opened() {
        // The next call that uses the device reports what went wrong.
        let _ = backend.finish();
    }
}

/// Frees the memory that devices keep only to use it again.
pub fn release_kept() {
    opened().into_iter().for_each(Backend::release_kept);
}

/// The first device whose memory has this type in DLPack, on the physical device with this number;
/// `None` for types of other memory. Fails with NOT_FOUND if there is no such device.
pub fn device_of_dlpack(device_type: u32, number: u32) -> Result<Option<DeviceId>> {
    let kind = DeviceKind::all().find(|kind| kind.dlpack_type() == Some(device_type));
    let Some(kind) = kind else { return Ok(None) };
    match kind {
        DeviceKind::Cpu => Ok(Some(DeviceId::HOST)),
        DeviceKind::Gpu => gpu_of_card(number).map(Some),
        DeviceKind::Added(_) => {
            REGISTRY.require_physical(kind, number, "")?;
            Ok(Some(DeviceId {
                kind,
                index: number,
            }))
        }
    }
}

/// The first logical GPU of a card, by the card's number. Fails with NOT_FOUND if there is no such
/// card.
fn gpu_of_card(card: u32) -> Result<DeviceId> {
    REGISTRY.require_physical(DeviceKind::Gpu, card, "")?;
    let index = REGISTRY.state.lock().gpus.on_card(card).start;
    Ok(DeviceId {
        kind: DeviceKind::Gpu,
        index,
    })
}

/// The facts about a physical device that exists. Each is asked for on its own.
#[derive(Debug)]
pub struct PhysicalDevice {
    /// Its kind and its number among the physical devices of this kind.
    pub device: DeviceId,
    /// The name of its model, if it is known.
    pub model: Option<String>,
    /// The compute capability of a CUDA device.
    pub capability: Option<(u32, u32)>,
    /// Its memory, or why it is not known.
    pub memory: Result<MemoryInfo>,
}

/// The physical devices of all kinds, without opening them.
pub fn physical_devices() -> impl Iterator<Item = PhysicalDevice> {
    DeviceKind::all().flat_map(|kind| {
        let count = REGISTRY.physical_count(kind);
        (0..count).map(move |index| physical_device(DeviceId { kind, index }))
    })
}

fn physical_device(device: DeviceId) -> PhysicalDevice {
    match device.kind {
        DeviceKind::Cpu => PhysicalDevice {
            device,
            model: umbo_system::processors::model(),
            capability: None,
            memory: memory::memory_info(),
        },
        DeviceKind::Gpu => PhysicalDevice {
            device,
            model: cuda::device_name(device.index).ok(),
            capability: cuda::capability(device.index).ok(),
            memory: cuda::memory_info(device.index),
        },
        DeviceKind::Added(number) => PhysicalDevice {
            device,
            model: None,
            capability: None,
            memory: kinds::added(number).memory_info(device),
        },
    }
}

/// The memory of the physical device that a logical device is a part of. Fails with NOT_FOUND if
/// there is no such device, and with UNAVAILABLE if the system or the driver does not report it.
/// For a GPU this makes its primary context current for a moment, which is slow if nobody in the
/// process holds the context.
pub fn memory_info(device: DeviceId) -> Result<MemoryInfo> {
    REGISTRY.require(device)?;
    match device.kind {
        DeviceKind::Cpu => memory::memory_info(),
        DeviceKind::Added(number) => kinds::added(number).memory_info(device),
        DeviceKind::Gpu => {
            let place = place_of(device)?;
            let card = cuda::memory_info(place.card)?;
            Ok(match place.limit {
                None => card,
                Some(limit) => MemoryInfo {
                    total_bytes: limit,
                    available_bytes: card
                        .available_bytes
                        .min(limit - Gpu::used(place).min(limit)),
                },
            })
        }
    }
}

/// The processors of a logical CPU, for the present number of logical CPUs: its [`affinity::share`]
/// of `all`. Fails with NOT_FOUND if there is no such device, and with UNIMPLEMENTED for a
/// device that has no processors of its own.
pub fn processors(device: DeviceId, all: &CpuSet) -> Result<CpuSet> {
    if device.kind != DeviceKind::Cpu {
        return Err(Error::Unimplemented(format!(
            "{device} has no processors of the host"
        )));
    }
    let count = REGISTRY.require(device)?;
    Ok(affinity::share(all, device.index as usize, count as usize))
}
