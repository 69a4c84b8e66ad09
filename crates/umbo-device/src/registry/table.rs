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
    /// How many GPUs there are, or why there is none.
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
    /// For each held device, how many holds it has.
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

    /// How many logical devices of this kind there are. Their indices are 0 to one less than this
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
            DeviceKind::Added(_) => {
                return Err(Error::Unimplemented(format!(
                    "type: a {} is not split into logical devices",
                    kind.name()
                )));
            }
        }
        check_gpu_count(count)?;
        let share = match count {
            1 => None,
            _ => Some((self.card_memory)(physical_ordinal)?.total_bytes / u64::from(count)),
        };
        self.split_gpu(physical_ordinal, &vec![share; count as usize])
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

    /// How many logical devices of its kind there are. Fails with NOT_FOUND if this device is not
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
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::registry::{memory_info, processors};
    use umbo_base::error::Status;
    use umbo_executor::affinity;

    static NO_GPU: LazyLock<Result<u32, String>> = LazyLock::new(|| Err("no driver here".into()));
    static TWO_GPUS: LazyLock<Result<u32, String>> = LazyLock::new(|| Ok(2));

    /// A separate registry, so that tests do not share the process's registry.
    fn registry(gpus: fn() -> &'static Result<u32, String>) -> &'static Registry {
        let memory = |_| {
            Ok(MemoryInfo {
                total_bytes: 1000,
                available_bytes: 900,
            })
        };
        Box::leak(Box::new(Registry::new(gpus, memory)))
    }

    fn without_gpu() -> &'static Registry {
        registry(|| &NO_GPU)
    }

    fn with_two_gpus() -> &'static Registry {
        registry(|| &TWO_GPUS)
    }

    fn gpu(index: u32) -> DeviceId {
        DeviceId {
            kind: DeviceKind::Gpu,
            index,
        }
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(result: Result<T>, status: Status, parts: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.status(), status, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
    }

    #[test]
    fn a_process_starts_with_one_logical_cpu() {
        let registry = without_gpu();
        assert_eq!(registry.physical_count(DeviceKind::Cpu), 1);
        assert_eq!(registry.logical_count(DeviceKind::Cpu), 1);
        assert_eq!(registry.physical_count(DeviceKind::Gpu), 0);
        assert_eq!(registry.logical_count(DeviceKind::Gpu), 0);
    }

    #[test]
    fn a_logical_cpu_that_is_not_there_starts_no_driver() {
        let registry = registry(|| panic!("the driver is asked"));
        let absent = registry.resolve("CPU:3", "device");
        refused(
            absent,
            Status::NotFound,
            &["device", "CPU:3", "the only CPU is CPU:0"],
        );
        refused(
            registry.hold(&[DeviceId::cpu(3)]),
            Status::NotFound,
            &["CPU:3"],
        );
    }

    #[test]
    fn the_host_splits_and_joins() {
        let registry = without_gpu();
        for count in [4, 2, MAX_LOGICAL_CPUS, 1] {
            registry
                .set_logical_count(DeviceKind::Cpu, 0, count)
                .unwrap();
            assert_eq!(registry.logical_count(DeviceKind::Cpu), count);
            assert_eq!(registry.physical_count(DeviceKind::Cpu), 1);
        }
    }

    #[test]
    fn counts_have_limits() {
        let registry = without_gpu();
        for count in [0, MAX_LOGICAL_CPUS + 1, u32::MAX] {
            let split = registry.set_logical_count(DeviceKind::Cpu, 0, count);
            refused(split, Status::InvalidArgument, &["count", "1 to 4096"]);
            let grown = registry.ensure_logical_cpus(count);
            refused(grown, Status::InvalidArgument, &["count", "1 to 4096"]);
        }
        assert_eq!(registry.logical_count(DeviceKind::Cpu), 1);
    }

    #[test]
    fn ensuring_only_grows() {
        let registry = without_gpu();
        registry.ensure_logical_cpus(6).unwrap();
        registry.ensure_logical_cpus(2).unwrap();
        assert_eq!(registry.logical_count(DeviceKind::Cpu), 6);
    }

    #[test]
    fn physical_devices_must_exist() {
        let cpu = without_gpu().set_logical_count(DeviceKind::Cpu, 1, 2);
        refused(
            cpu,
            Status::NotFound,
            &["physical_ordinal", "CPU 1", "number 0"],
        );
        let absent = without_gpu().set_logical_count(DeviceKind::Gpu, 0, 1);
        refused(absent, Status::NotFound, &["GPU 0", "no driver here"]);
        let third = with_two_gpus().set_logical_count(DeviceKind::Gpu, 2, 1);
        refused(third, Status::NotFound, &["GPU 2", "0 to 1"]);
    }

    #[test]
    fn gpus_are_listed_and_split() {
        let registry = with_two_gpus();
        assert_eq!(registry.physical_count(DeviceKind::Gpu), 2);
        assert_eq!(registry.logical_count(DeviceKind::Gpu), 2);
        registry.set_logical_count(DeviceKind::Gpu, 1, 1).unwrap();
        for count in [0, MAX_PER_CARD + 1] {
            let split = registry.set_logical_count(DeviceKind::Gpu, 1, count);
            refused(split, Status::InvalidArgument, &["count", "1 to 64"]);
        }
        refused(
            registry.split_gpu(0, &[Some(0)]),
            Status::InvalidArgument,
            &["limits"],
        );
        assert_eq!(registry.resolve("GPU:1", "device").unwrap(), gpu(1));
        refused(
            registry.resolve("GPU:2", "device"),
            Status::NotFound,
            &["GPU:0 to GPU:1"],
        );

        registry.set_logical_count(DeviceKind::Gpu, 0, 3).unwrap();
        assert_eq!(registry.logical_count(DeviceKind::Gpu), 4);
        assert_eq!(
            registry.state.lock().gpus.place(2, 2).unwrap().limit,
            Some(333)
        );
        assert_eq!(registry.state.lock().gpus.place(3, 2).unwrap().card, 1);
        let held = registry.hold(&[gpu(1)]).unwrap();
        let again = registry.set_logical_count(DeviceKind::Gpu, 0, 2);
        refused(again, Status::FailedPrecondition, &["GPU:1", "strategy"]);
        registry.set_logical_count(DeviceKind::Gpu, 1, 2).unwrap();
        drop(held);
        registry.set_logical_count(DeviceKind::Gpu, 0, 1).unwrap();
        assert_eq!(registry.logical_count(DeviceKind::Gpu), 3);
    }

    #[test]
    fn names_resolve_to_devices_that_exist() {
        let registry = without_gpu();
        registry.set_logical_count(DeviceKind::Cpu, 0, 3).unwrap();
        for name in [
            "CPU:2",
            "/cpu:2",
            "/job:localhost/replica:0/task:0/device:CPU:2",
        ] {
            assert_eq!(registry.resolve(name, "device").unwrap(), DeviceId::cpu(2));
        }
        assert_eq!(registry.resolve("", "device").unwrap(), DeviceId::HOST);
    }

    #[test]
    fn refused_names_say_what_there_is() {
        let registry = without_gpu();
        let only = registry.resolve("CPU:9", "compute_devices[1]");
        let parts = [
            "compute_devices[1]: CPU:9",
            "only CPU is CPU:0",
            "10 or more",
        ];
        refused(only, Status::NotFound, &parts);
        registry.ensure_logical_cpus(4).unwrap();
        let fifth = registry.resolve("CPU:4", "device");
        refused(fifth, Status::NotFound, &["CPU:0 to CPU:3", "5 or more"]);
        refused(
            registry.resolve("CPU:4096", "device"),
            Status::NotFound,
            &["4096", "at most"],
        );
        let gpu = registry.resolve("GPU:0", "device");
        refused(gpu, Status::NotFound, &["GPU:0", "no driver here"]);
        let remote = registry.resolve("/job:worker/task:1/cpu:0", "device");
        refused(
            remote,
            Status::NotFound,
            &["another process", "/job:localhost"],
        );
        let unknown = registry.resolve("XPU:0", "parameter_device");
        refused(
            unknown,
            Status::InvalidArgument,
            &["parameter_device: ", "XPU:0"],
        );
    }

    #[test]
    fn held_devices_do_not_vanish() {
        let registry = without_gpu();
        registry.set_logical_count(DeviceKind::Cpu, 0, 8).unwrap();
        let low = registry
            .hold(&[DeviceId::cpu(0), DeviceId::cpu(3)])
            .unwrap();
        let high = registry
            .hold(&[DeviceId::cpu(3), DeviceId::cpu(5)])
            .unwrap();
        assert_eq!(low.devices(), [DeviceId::cpu(0), DeviceId::cpu(3)]);
        let shrink = |count| registry.set_logical_count(DeviceKind::Cpu, 0, count);
        refused(
            shrink(5),
            Status::FailedPrecondition,
            &["CPU:5", "6 or more"],
        );
        assert_eq!(registry.logical_count(DeviceKind::Cpu), 8);
        shrink(6).unwrap();
        drop(high);
        refused(shrink(3), Status::FailedPrecondition, &["CPU:3"]);
        shrink(4).unwrap();
        shrink(8).unwrap();
        drop(low);
        shrink(1).unwrap();
    }

    #[test]
    fn absent_devices_are_not_held() {
        let registry = without_gpu();
        registry.ensure_logical_cpus(2).unwrap();
        let absent = registry.hold(&[DeviceId::cpu(1), DeviceId::cpu(2)]);
        refused(absent, Status::NotFound, &["CPU:2"]);
        refused(
            registry.hold(&[gpu(0)]),
            Status::NotFound,
            &["GPU:0", "no driver here"],
        );
        // The first device of the refused list is free.
        registry.set_logical_count(DeviceKind::Cpu, 0, 1).unwrap();
        let gpus = with_two_gpus();
        assert_eq!(gpus.hold(&[gpu(1)]).unwrap().devices(), [gpu(1)]);
    }

    #[test]
    fn the_host_tells_its_memory_and_processors() {
        assert!(memory_info(DeviceId::HOST).unwrap().total_bytes > 0);
        let four = (0..4).collect();
        assert_eq!(
            processors(DeviceId::HOST, &four).unwrap(),
            affinity::share(&four, 0, 1)
        );
        let absent = DeviceId::cpu(u32::MAX);
        refused(memory_info(absent), Status::NotFound, &["at most"]);
        refused(processors(absent, &four), Status::NotFound, &["at most"]);
        refused(processors(gpu(0), &four), Status::Unimplemented, &["GPU:0"]);
    }
}
