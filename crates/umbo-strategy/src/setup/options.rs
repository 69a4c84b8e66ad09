//! How a strategy is set up: what a program chooses, and what its choices come to.

use std::sync::Arc;

pub use super::layout::MAX_REPLICAS;
use super::layout::ReplicaLayout;
use crate::context::replica_threads::ThreadHook;
use umbo_base::error::Result;
use umbo_comm::communicator::{Communicator, RankPlace};
use umbo_device::{DeviceId, registry};
use umbo_executor::affinity::{self, ProcessorPart};
use umbo_executor::thread;

/// The smallest stack that a replica's thread may be given: the deepest nest of values goes through
/// all functions on a quarter of it, and on two thirds where nothing is optimised.
const LEAST_STACK: usize = 256 << 10;

/// The largest one.
const MOST_STACK: u64 = 64 << 30;

/// How a central storage strategy is set up.
#[derive(Clone)]
pub struct Options {
    /// Names of the compute devices; `None` chooses them.
    pub compute_devices: Option<Vec<String>>,
    /// This many compute devices, `CPU:0`, `CPU:1`, ...; 0 if `compute_devices` decides.
    pub cpu_replicas: usize,
    /// The number of replicas that run in sync, those of all ranks together, whatever the number of
    /// compute devices: a step's bits depend on this number alone. Replicas that share a device run
    /// one after the other. 0: one for each compute device.
    pub replicas_in_sync: usize,
    /// Name of the device that holds the variables; `None`: the compute device if there is
    /// exactly one, else `CPU:0`.
    pub parameter_device: Option<String>,
    /// Whether each replica's thread is bound to the processors of its device.
    pub bind_threads: bool,
    /// The stack of each replica's thread; `None`: as large as the process's, see
    /// [`thread::process_stack_bytes`].
    pub stack_bytes: Option<usize>,
    /// The program's function for when threads begin to serve as replicas, and when they end.
    pub thread_hook: Option<ThreadHook>,
    /// The communicator that connects this process to others whose replicas run in sync with its
    /// own. All of them make their strategies together.
    pub communicator: Option<Arc<dyn Communicator>>,
    /// Whether every rank keeps all state, so that ranks can die, leave and join.
    pub elastic: bool,
    /// Whether mistakes of callbacks are looked for that go unnoticed without it, and what is
    /// merely suspicious is an error. The environment can say so for all strategies; see
    /// [`strict`](umbo_base::observe::strict).
    pub strict: bool,
    /// The number of steps after which the ranks compare their weights, again and again; 0: never.
    pub fingerprint_interval: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compute_devices: None,
            cpu_replicas: 0,
            replicas_in_sync: 0,
            parameter_device: None,
            bind_threads: true,
            stack_bytes: None,
            thread_hook: None,
            communicator: None,
            elastic: false,
            strict: false,
            fingerprint_interval: 0,
        }
    }
}

/// The part of the machine's processors that is for this rank; all of them without a communicator.
pub(crate) fn part_of_rank(communicator: Option<&Arc<dyn Communicator>>) -> ProcessorPart {
    communicator.map_or(ProcessorPart::WHOLE, |engine| {
        let RankPlace {
            node_rank,
            node_size,
            ..
        } = engine.place();
        ProcessorPart {
            index: node_rank,
            count: node_size,
        }
    })
}

/// The number of replicas that have a processor each: the processors that this process may use,
/// those of this rank if several share the machine, and no more than the system grants the time of.
pub fn replicas_on_all_processors(communicator: Option<&Arc<dyn Communicator>>) -> usize {
    let processors = part_of_rank(communicator).processors().count();
    processors.min(affinity::usable()).clamp(1, MAX_REPLICAS)
}

impl Options {
    /// The compute devices, and the replicas on them.
    pub(crate) fn resolved_layout(&self) -> Result<ReplicaLayout> {
        let devices = self.resolved_compute_devices()?;
        let engine = self.communicator.as_ref();
        let (rank, ranks) = engine.map_or((0, 1), |engine| (engine.rank(), engine.size()));
        let layout = match self.replicas_in_sync {
            0 => ReplicaLayout::of_devices(devices),
            count => ReplicaLayout::of_replicas(devices, count, rank, ranks)?,
        };
        Ok(ReplicaLayout {
            divides_processors: self.cpu_replicas > 0,
            ..layout
        })
    }

    /// The compute devices.
    fn resolved_compute_devices(&self) -> Result<Vec<DeviceId>> {
        if self.cpu_replicas > 0 {
            if self.compute_devices.is_some() {
                return Err(invalid!(
                    "cpu_replicas",
                    "given together with compute_devices; give one of the two"
                ));
            }
            if self.cpu_replicas > MAX_REPLICAS {
                return Err(invalid!(
                    "cpu_replicas",
                    "{}; at most {MAX_REPLICAS} are supported",
                    self.cpu_replicas
                ));
            }
            let count = self.cpu_replicas as u32;
            registry::REGISTRY.ensure_logical_cpus(count)?;
            return Ok((0..count).map(DeviceId::cpu).collect());
        }
        let Some(names) = &self.compute_devices else {
            let mut devices = registry::default_compute_devices();
            devices.truncate(MAX_REPLICAS);
            return Ok(devices);
        };
        if names.is_empty() {
            return Err(invalid!(
                "compute_devices",
                "an empty list; name one device or more, or leave the list out"
            ));
        }
        if names.len() > MAX_REPLICAS {
            return Err(invalid!(
                "compute_devices",
                "{} devices; at most {MAX_REPLICAS} are supported",
                names.len()
            ));
        }
        let mut devices = Vec::with_capacity(names.len());
        for name in names {
            let device = registry::REGISTRY.resolve(name, "compute_devices")?;
            if devices.contains(&device) {
                return Err(invalid!(
                    "compute_devices",
                    "{device} appears twice, the second time as '{name}'; name each device once \
                     (replicas_in_sync has more replicas than devices, and the CPU can be split \
                     into more logical devices)"
                ));
            }
            devices.push(device);
        }
        Ok(devices)
    }

    /// The device of the variables of a strategy with these compute devices.
    pub(crate) fn resolved_parameter_device(&self, compute: &[DeviceId]) -> Result<DeviceId> {
        match &self.parameter_device {
            Some(name) => registry::REGISTRY.resolve(name, "parameter_device"),
            None if compute.len() == 1 => Ok(compute[0]),
            None => Ok(DeviceId::HOST),
        }
    }

    /// The stack of each replica's thread.
    pub(crate) fn resolved_stack_bytes(&self) -> Result<usize> {
        let Some(bytes) = self.stack_bytes else {
            return Ok(thread::process_stack_bytes());
        };
        if bytes >= LEAST_STACK && bytes as u64 <= MOST_STACK {
            return Ok(bytes);
        }
        Err(invalid!(
            "thread_stack_bytes",
            "{bytes}; a stack has {LEAST_STACK} (256 KiB) to {MOST_STACK} bytes (64 GiB), and 0 \
             is the size of the process's"
        ))
    }
}
