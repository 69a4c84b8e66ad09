//! The registry: how many devices of each kind there are, and which of them are held.

use std::collections::BTreeMap;

use crate::logical_gpus::{LogicalGpus, MAX_PER_CARD};
use crate::name::DeviceName;
use crate::{DeviceId, DeviceKind, MemoryInfo, cuda, kinds};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};

/// The largest number of logical CPUs into which the host can be split.
pub const MAX_LOGICAL_CPUS: u32 = 4096;

/// Everything that is known about the devices.
#[derive(Debug)]
pub struct Registry {
    /// The number of GPUs, or why there is none.
    gpus: fn() -> &'static Result<u32, String>,
    /// The memory of a card.
    card_memory: fn(u32) -> Result<MemoryInfo>,
    pub(super) state: Mutex<DeviceState>,
}

/// The part that can change.
#[derive(Debug)]
pub(super) struct DeviceState {
    logical_cpus: u32,
    pub(super) gpus: LogicalGpus,
    /// The number of holds of each held device.
    pub(super) holders: BTreeMap<DeviceId, usize>,
}

impl Registry {
    pub(super) const fn new(
        gpus: fn() -> &'static Result<u32, String>,
        card_memory: fn(u32) -> Result<MemoryInfo>,
    ) -> Registry {
        let state = DeviceState {
            logical_cpus: 1,
            gpus: LogicalGpus::new(),
            holders: BTreeMap::new(),
        };
        Registry {
            gpus,
            card_memory,
            state: Mutex::new(state),
        }
    }

    pub(super) fn card_count(&'static self) -> u32 {
        *(self.gpus)().as_ref().unwrap_or(&0)
    }

    /// Why there is no GPU, if there is none. The first call starts the driver.
    pub fn no_gpu_reason(&'static self) -> Option<&'static str> {
        (self.gpus)().as_ref().err().map(String::as_str)
    }

    /// How many physical devices of this kind there are: one CPU, which is the host, the CUDA
    /// devices that the driver shows to this process, and those of an added kind. The first call
    /// about GPUs starts the driver.
    pub fn physical_count(&'static self, kind: DeviceKind) -> u32 {
        match kind {
            DeviceKind::Cpu => 1,
            DeviceKind::Gpu => self.card_count(),
            DeviceKind::Added(number) => kinds::added(number).count(),
        }
    }

    /// The number of logical devices of this kind. Their indices are 0 to one less than this
    /// number.
    pub fn logical_count(&'static self, kind: DeviceKind) -> u32 {
        match kind {
            DeviceKind::Cpu => self.state.lock().logical_cpus,
            DeviceKind::Gpu => {
                // The driver is asked before the lock is taken: the call may start it.
                let cards = self.card_count();
                self.state.lock().gpus.count(cards)
            }
            DeviceKind::Added(number) => kinds::added(number).count(),
        }
    }

    /// The number of the physical device that a logical device is, or is a part of; `None` if there
    /// is no such logical device. A GPU is not opened.
    pub fn physical_ordinal(&'static self, device: DeviceId) -> Option<u32> {
        if device.index >= self.logical_count(device.kind) {
            return None;
        }
        match device.kind {
            DeviceKind::Cpu => Some(0),
            DeviceKind::Gpu => {
                let cards = self.card_count();
                let state = self.state.lock();
                state.gpus.place(device.index, cards).map(|at| at.card)
            }
            DeviceKind::Added(_) => Some(device.index),
        }
    }

    /// Fails with NOT_FOUND, in a message that begins with `argument`, if there is no such physical
    /// device.
    pub(super) fn require_physical(
        &'static self,
        kind: DeviceKind,
        ordinal: u32,
        argument: &str,
    ) -> Result<()> {
        let physical = self.physical_count(kind);
        if ordinal < physical {
            return Ok(());
        }
        let there_is = match (kind, (self.gpus)()) {
            (DeviceKind::Cpu, _) => "the host is the only one, with number 0".to_owned(),
            (DeviceKind::Gpu, Ok(_)) => format!("they are 0 to {}", physical - 1),
            (DeviceKind::Gpu, Err(reason)) => format!("there is none: {reason}"),
            (DeviceKind::Added(_), _) => format!("there are {physical}"),
        };
        Err(Error::NotFound(format!(
            "{argument}no physical {} {ordinal}; {there_is}",
            kind.name()
        )))
    }

    /// Splits a physical device into `count` logical devices. This replaces an earlier split. The
    /// host takes 1 to [`MAX_LOGICAL_CPUS`]. A GPU takes 1 to 64, and each may use an equal
    /// share of its memory. Existing strategies keep the processors they have.
    ///
    /// Fails, with nothing changed, with NOT_FOUND if there is no such physical device; with
    /// INVALID_ARGUMENT for a count outside of the limits; with FAILED_PRECONDITION while a
    /// device that would vanish is held, and for a GPU once one of its logical GPUs, or one
    /// with a higher number, was used.
    pub fn set_logical_count(
        &'static self,
        kind: DeviceKind,
        physical_ordinal: u32,
        count: u32,
    ) -> Result<()> {
        self.require_physical(kind, physical_ordinal, "physical_ordinal: ")?;
        match kind {
            DeviceKind::Cpu => return self.split_host(count),
            DeviceKind::Gpu => {}
            DeviceKind::Added(_) => return Err(is_not_split(kind)),
        }
        check_gpu_count(count)?;
        let share = match count {
            1 => None,
            _ => Some((self.card_memory)(physical_ordinal)?.total_bytes / u64::from(count)),
        };
        self.split_gpu(physical_ordinal, &vec![share; count as usize])
    }

    /// Splits a physical device by memory: one logical device for each of `limits`, as
    /// [`Registry::split_gpu`] does. Fails with INVALID_ARGUMENT for the host, whose logical
    /// devices share its memory, and with UNIMPLEMENTED for a device of an added kind.
    pub fn split_memory(
        &'static self,
        kind: DeviceKind,
        physical_ordinal: u32,
        limits: &[Option<u64>],
    ) -> Result<()> {
        match kind {
            DeviceKind::Cpu => Err(invalid!(
                "memory_limits",
                "given for the host, whose logical devices share its memory; give NULL"
            )),
            DeviceKind::Gpu => self.split_gpu(physical_ordinal, limits),
            DeviceKind::Added(_) => Err(is_not_split(kind)),
        }
    }

    /// Splits a card into logical GPUs. Each may use as many bytes as its limit, or without a limit
    /// as many as the card has. Everything else is as in [`Registry::set_logical_count`].
    pub fn split_gpu(&'static self, card: u32, limits: &[Option<u64>]) -> Result<()> {
        self.require_physical(DeviceKind::Gpu, card, "physical_ordinal: ")?;
        let count = u32::try_from(limits.len()).unwrap_or(u32::MAX);
        check_gpu_count(count)?;
        if limits.contains(&Some(0)) {
            return Err(invalid!(
                "memory_limits",
                "0 bytes; each logical GPU has 1 or more"
            ));
        }
        let cards = self.card_count();
        let id = |index| DeviceId {
            kind: DeviceKind::Gpu,
            index,
        };
        // The logical GPUs after this card get other numbers.
        let changed_of =
            |state: &DeviceState| state.gpus.on_card(card).start..state.gpus.count(cards);
        let (mut state, changed, open) = loop {
            let changed = changed_of(&self.state.lock());
            // The lock of the state is not held here: a thread that holds it takes no other lock.
            let open = cuda::gpu::any_open(changed.clone());
            let state = self.state.lock();
            if changed_of(&state) == changed {
                break (state, changed, open);
            }
        };
        let held = state.holders.range(id(changed.start)..=id(u32::MAX)).next();
        if let Some((device, _)) = held {
            return Err(Error::precondition(format!(
                "count: {device}, which a strategy uses, would become another device; split GPUs \
                 before strategies are made"
            )));
        }
        if let Some(index) = open {
            return Err(Error::precondition(format!(
                "count: {} was used already, and would become another device; split GPUs before \
                 their first use",
                id(index)
            )));
        }
        state.gpus.split(card, limits.into());
        Ok(())
    }

    fn split_host(&'static self, count: u32) -> Result<()> {
        check_cpu_count(count)?;
        let mut state = self.state.lock();
        let vanishing = DeviceId::cpu(count)..=DeviceId::cpu(u32::MAX);
        if let Some((held, _)) = state.holders.range(vanishing).next_back() {
            return Err(Error::precondition(format!(
                "count: {count} logical CPUs would take away {held}, which a strategy uses; \
                 release the strategy first, or keep {} or more",
                held.index + 1
            )));
        }
        state.logical_cpus = count;
        Ok(())
    }

    /// Makes sure that there are at least `count` logical CPUs. It never removes any. Fails with
    /// INVALID_ARGUMENT for a count outside of 1 to [`MAX_LOGICAL_CPUS`].
    pub fn ensure_logical_cpus(&'static self, count: u32) -> Result<()> {
        check_cpu_count(count)?;
        let mut state = self.state.lock();
        state.logical_cpus = state.logical_cpus.max(count);
        Ok(())
    }

    /// The logical device with this name, in any form that
    /// [`DeviceName::parse`](crate::name::DeviceName::parse) takes. Fails with INVALID_ARGUMENT if
    /// it is not a name. Fails with NOT_FOUND if it is a name of another process, or if there
    /// is no such device; the message then lists the devices and how to get more. Messages
    /// begin with `argument`, the caller's word for the name.
    pub fn resolve(&'static self, name: &str, argument: &'static str) -> Result<DeviceId> {
        let parsed =
            DeviceName::parse(name, &DeviceName::default()).map_err(|error| match error {
                Error::InvalidArgument { problem, .. } => Error::invalid(argument, problem),
                other => other,
            })?;
        if !parsed.is_local() {
            return Err(Error::NotFound(format!(
                "{argument}: '{name}' is a device of another process ({parsed}); the devices of \
                 this one are under /job:localhost/replica:0/task:0"
            )));
        }
        self.require(parsed.device).map_err(|error| match error {
            Error::NotFound(problem) => Error::NotFound(format!("{argument}: {problem}")),
            other => other,
        })?;
        Ok(parsed.device)
    }

    /// The number of logical devices of its kind. Fails with NOT_FOUND if this device is not
    /// among them.
    pub fn require(&'static self, device: DeviceId) -> Result<u32> {
        let count = self.logical_count(device.kind);
        if device.index < count {
            Ok(count)
        } else {
            Err(self.absent(device, count))
        }
    }

    pub(super) fn absent(&'static self, device: DeviceId, count: u32) -> Error {
        let there_are = match count {
            // The host always exists. For GPUs the driver was asked.
            0 if device.kind != DeviceKind::Gpu => format!("there is no {}", device.kind.name()),
            0 => match (self.gpus)() {
                Err(reason) => format!("there is no GPU: {reason}"),
                Ok(_) => "there is no GPU".to_owned(),
            },
            1 => format!("the only {0} is {0}:0", device.kind.name()),
            _ => format!("there are {0}:0 to {0}:{1}", device.kind.name(), count - 1),
        };
        let advice = match device.kind {
            DeviceKind::Gpu | DeviceKind::Added(_) => String::new(),
            DeviceKind::Cpu if device.index < MAX_LOGICAL_CPUS => {
                format!(
                    "; cpu_replicas of a strategy's options makes as many as it says, or set the \
                     number of logical CPUs to {} or more first",
                    device.index + 1
                )
            }
            DeviceKind::Cpu => format!("; the host can be {MAX_LOGICAL_CPUS} logical CPUs at most"),
        };
        Error::NotFound(format!("{device} does not exist; {there_are}{advice}"))
    }

    /// Keeps these devices from vanishing for as long as the result lives. A device may be held
    /// several times. Fails with NOT_FOUND if one of them does not exist; then none is held.
    pub fn hold(&'static self, devices: &[DeviceId]) -> Result<DeviceHold> {
        // The driver is asked before the lock is taken: the call may start it.
        let cards = if devices.iter().any(|device| device.kind == DeviceKind::Gpu) {
            self.card_count()
        } else {
            0
        };
        let mut state = self.state.lock();
        let count_of = |kind| match kind {
            DeviceKind::Cpu => state.logical_cpus,
            DeviceKind::Gpu => state.gpus.count(cards),
            DeviceKind::Added(number) => kinds::added(number).count(),
        };
        for &device in devices {
            let count = count_of(device.kind);
            if device.index >= count {
                return Err(self.absent(device, count));
            }
        }
        for device in devices {
            *state.holders.entry(*device).or_insert(0) += 1;
        }
        Ok(DeviceHold {
            registry: self,
            devices: devices.into(),
        })
    }
}

fn is_not_split(kind: DeviceKind) -> Error {
    Error::Unimplemented(format!(
        "type: a {} is not split into logical devices",
        kind.name()
    ))
}

fn check_cpu_count(count: u32) -> Result<()> {
    check_count(count, "the host", MAX_LOGICAL_CPUS, "CPUs")
}

fn check_gpu_count(count: u32) -> Result<()> {
    check_count(count, "a GPU", MAX_PER_CARD, "ones")
}

fn check_count(count: u32, noun: &str, most: u32, parts: &str) -> Result<()> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(invalid!(
        "count",
        "{count}; {noun} can be 1 to {most} logical {parts}"
    ))
}

/// Devices that are in use and so must not vanish. Dropping this ends the hold.
#[derive(Debug)]
pub struct DeviceHold {
    registry: &'static Registry,
    devices: Box<[DeviceId]>,
}

impl DeviceHold {
    /// The held devices, in the order in which they were passed.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }
}

impl Drop for DeviceHold {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        for device in &self.devices {
            if let Some(holders) = state.holders.get_mut(device) {
                *holders -= 1;
                if *holders == 0 {
                    state.holders.remove(device);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
