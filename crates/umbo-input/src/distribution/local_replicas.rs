//! The replicas for which elements are made, and the devices of their components.

use std::sync::Arc;

use crate::elements::spec::{ElementSpec, LeafSpec};
use umbo_device::DeviceId;
use umbo_strategy::Strategy;

/// This process's replicas among those that elements are made for.
#[derive(Clone, Debug)]
pub(crate) struct LocalReplicas {
    /// The number of replicas for which elements are made.
    pub(crate) all: usize,
    /// The first replica of this process.
    pub(crate) first: usize,
    /// The device of the component of each replica of this process.
    pub(crate) devices: Arc<[DeviceId]>,
    /// Whether the other replicas are those of other ranks, which make the same elements and take
    /// their own parts. Then no example is lost or comes twice, and all ranks make the same
    /// number of steps, whatever the batches' sizes.
    pub(crate) among_ranks: bool,
}

impl LocalReplicas {
    /// Replicas on `devices`, and no others.
    pub(crate) fn of(devices: &[DeviceId]) -> LocalReplicas {
        LocalReplicas {
            all: devices.len(),
            first: 0,
            devices: devices.into(),
            among_ranks: false,
        }
    }

    /// The replicas of `strategy` among those of all ranks.
    pub(crate) fn of_strategy(strategy: &Strategy) -> LocalReplicas {
        let ranks = strategy.ranks();
        let devices = strategy.replica_devices().into();
        let all = ranks.num_replicas();
        let first = ranks.first_replica();
        LocalReplicas {
            all,
            first,
            devices,
            among_ranks: !ranks.is_alone(),
        }
    }

    /// The spec of the components of a tensor. They are like `leaf`. With a single replica it is
    /// the spec of a plain tensor.
    pub(crate) fn spec(&self, leaf: LeafSpec) -> ElementSpec {
        match self.devices.len() {
            1 => ElementSpec::Leaf(leaf),
            replicas => ElementSpec::PerReplica(replicas, leaf),
        }
    }
}
