//! The replicas that a process has, and the compute device on which each of them runs.

use umbo_base::error::{Error, Result};
use umbo_device::{DeviceId, registry};
use umbo_executor::affinity::{self, CpuSet};

/// The most replicas that one strategy may have.
pub const MAX_REPLICAS: usize = 1024;

/// The replicas of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaLayout {
    /// The compute devices, all different.
    pub compute_devices: Vec<DeviceId>,
    /// The device of each replica: one of those.
    pub replica_devices: Vec<DeviceId>,
    /// The number of replicas all processes have together, if that was chosen and does not follow
    /// from their devices.
    pub replicas_in_sync: Option<usize>,
    /// Whether the compute devices are as many CPUs as were asked for, which divide the processors
    /// among themselves, however many CPUs other strategies have.
    pub divides_processors: bool,
}

impl ReplicaLayout {
    /// One replica for each compute device.
    pub fn of_devices(compute_devices: Vec<DeviceId>) -> ReplicaLayout {
        let replica_devices = compute_devices.clone();
        ReplicaLayout {
            compute_devices,
            replica_devices,
            replicas_in_sync: None,
            divides_processors: false,
        }
    }

    /// This process's share of `count` replicas: rank r of W has those from r·count/W up to, and
    /// without, (r+1)·count/W. They are dealt out to the devices in turn, so that the last
    /// ones, which of a small batch have few examples or none, are not all on one.
    pub fn of_replicas(
        compute_devices: Vec<DeviceId>,
        count: usize,
        rank: usize,
        ranks: usize,
    ) -> Result<ReplicaLayout> {
        if count > MAX_REPLICAS {
            let problem = format!("{count}; at most {MAX_REPLICAS} are supported");
            return Err(Error::invalid("replicas_in_sync", problem));
        }
        let devices = compute_devices.len();
        let own_count = (rank + 1) * count / ranks - rank * count / ranks;
        if own_count < devices {
            let least = devices * ranks;
            let share = match ranks {
                1 => String::new(),
                _ => format!(", of which {own_count} are for this one of {ranks} ranks"),
            };
            let problem = format!(
                "{count}{share}, but there are {devices} compute devices, and each needs a \
                 replica; give {least} or more, or fewer devices"
            );
            return Err(Error::invalid("replicas_in_sync", problem));
        }
        let replica_devices = compute_devices
            .iter()
            .copied()
            .cycle()
            .take(own_count)
            .collect();
        Ok(ReplicaLayout {
            compute_devices,
            replica_devices,
            replicas_in_sync: Some(count),
            divides_processors: false,
        })
    }

    /// The processors of `all` that belong to one of the compute devices. None: it has none of its
    /// own.
    pub fn processors_of(&self, device: DeviceId, all: &CpuSet) -> Option<CpuSet> {
        if !self.divides_processors {
            return registry::processors(device, all).ok();
        }
        let place = self.compute_devices.iter().position(|one| *one == device)?;
        Some(affinity::share(all, place, self.compute_devices.len()))
    }

    /// The index of the compute device that `replica` is on.
    pub fn device_of(&self, replica: usize) -> usize {
        replica % self.compute_devices.len()
    }

    /// Whether a device has several replicas.
    pub fn is_shared(&self) -> bool {
        self.replica_devices.len() > self.compute_devices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;

    fn cpus(count: u32) -> Vec<DeviceId> {
        (0..count).map(DeviceId::cpu).collect()
    }

    #[test]
    fn every_replica_is_on_one_rank_and_every_device_has_some() {
        for count in 1..40usize {
            for ranks in 1..6 {
                for devices in 1..5u32 {
                    let of_rank =
                        |rank| ReplicaLayout::of_replicas(cpus(devices), count, rank, ranks);
                    let all: Vec<Result<ReplicaLayout>> = (0..ranks).map(of_rank).collect();
                    if count / ranks < devices as usize {
                        let error = all.into_iter().find_map(Result::err).unwrap();
                        assert_eq!(error.status(), Status::InvalidArgument);
                        continue;
                    }
                    let all: Vec<ReplicaLayout> = all.into_iter().collect::<Result<_>>().unwrap();
                    let shares: Vec<usize> = all
                        .iter()
                        .map(|layout| layout.replica_devices.len())
                        .collect();
                    assert_eq!(shares.iter().sum::<usize>(), count);
                    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
                    for layout in &all {
                        for device in &layout.compute_devices {
                            assert!(layout.replica_devices.contains(device));
                        }
                        for (replica, device) in layout.replica_devices.iter().enumerate() {
                            assert_eq!(*device, layout.compute_devices[layout.device_of(replica)]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_layouts_are_refused_with_advice() {
        let text = |count| {
            ReplicaLayout::of_replicas(cpus(3), count, 1, 2)
                .unwrap_err()
                .to_string()
        };
        assert!(text(4).contains("give 6 or more"), "{}", text(4));
        assert!(
            text(MAX_REPLICAS + 1).contains("at most 1024"),
            "{}",
            text(MAX_REPLICAS + 1)
        );
    }
}
