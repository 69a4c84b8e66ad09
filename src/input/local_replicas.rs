//! Which replicas elements are for, and where their components are to be.

use std::sync::Arc;

use crate::device::DeviceId;
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::strategy::Strategy;

/// This process's replicas among those that elements are made for.
#[derive(Clone, Debug)]
pub(super) struct LocalReplicas {
    /// For how many replicas elements are made.
    pub(super) all: usize,
    /// The first of this process's.
    pub(super) first: usize,
    /// Where the component of each of them is to be.
    pub(super) devices: Arc<[DeviceId]>,
    /// Whether the others are those of other ranks, which make the same elements and take their own parts. So no
    /// example is lost or comes twice, and all ranks make the same number of steps, whatever the batches' sizes.
    pub(super) among_ranks: bool,
}

impl LocalReplicas {
    /// Replicas on `devices`, and no others.
    pub(super) fn of(devices: &[DeviceId]) -> LocalReplicas {
        LocalReplicas { all: devices.len(), first: 0, devices: devices.into(), among_ranks: false }
    }

    /// The replicas of `strategy` among those of all ranks.
    pub(super) fn of_strategy(strategy: &Strategy) -> LocalReplicas {
        let ranks = strategy.ranks();
        let devices = strategy.replica_devices().into();
        let (all, first) = (ranks.num_replicas(), ranks.first_replica());
        LocalReplicas { all, first, devices, among_ranks: !ranks.is_alone() }
    }

    /// The spec of the components of a tensor that are like `leaf`; of a single one it is a plain tensor.
    pub(super) fn spec(&self, leaf: LeafSpec) -> ElementSpec {
        match self.devices.len() {
            1 => ElementSpec::Leaf(leaf),
            replicas => ElementSpec::PerReplica(replicas, leaf),
        }
    }
}
