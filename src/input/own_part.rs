//! The components of this rank's replicas, of elements that are for the replicas of all ranks.

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::held::Held;
use crate::input::numbering::Numbering;
use crate::input::position::{Description, Mark, Reader};
use crate::input::split::{split_numbered, split_value};
use crate::input::stage::Pass;
use crate::strategy::Strategy;
use crate::values::Value;

/// A global batch, split over the replicas of `strategy` on all ranks as [`split_value`] does; of the parts
/// those of this rank's replicas. All ranks have the same batch.
pub fn split_for(strategy: &Strategy, batch: &Value) -> Result<Value> {
    let (count, devices) = (strategy.num_replicas(), strategy.replica_devices());
    if strategy.ranks().is_none() {
        return split_value(batch, devices);
    }
    let first = strategy.first_replica_in_sync();
    // The parts of other ranks' replicas are views that are dropped.
    let mut places = vec![DeviceId::HOST; strategy.num_replicas_in_sync()];
    places[first..first + count].copy_from_slice(devices);
    let numbering = Numbering::new(Some(&Description::default()));
    cut(&split_numbered(batch, &places, &numbering)?, first, count)
}

/// The components of `element` of so many replicas; of a single one a plain tensor.
fn cut(element: &Value, first: usize, count: usize) -> Result<Value> {
    element.map_leaves(&mut |leaf| {
        let parts = match leaf {
            Value::PerReplica(parts) => parts,
            // What is for one replica is no per-replica value.
            Value::Tensor(_) if (first, count) == (0, 1) => return Ok(leaf.clone()),
            leaf => {
                let kind = leaf.kind_name();
                return Err(Error::Internal(format!("an element for replicas contains {kind}")));
            }
        };
        match parts.components().get(first..first + count) {
            Some([alone]) => Ok(Value::Tensor(alone.clone())),
            Some(own) => Value::per_replica(own.to_vec()),
            None => Err(Error::Internal("an element for fewer replicas than there are".into())),
        }
    })
}

/// Cuts per-replica values down to some of their components; a single one is a plain tensor.
///
/// Each rank makes all elements and takes its own part of each. So no example is lost or comes twice,
/// and all ranks make the same number of steps, whatever the batches' sizes.
pub(super) struct OwnPartPass {
    first: usize,
    count: usize,
    held: Held<Value>,
    input: Box<dyn Pass<Value>>,
}

impl OwnPartPass {
    /// Of the elements of `input`, the `count` components from `first` on.
    pub(super) fn new(first: usize, count: usize, input: Box<dyn Pass<Value>>) -> OwnPartPass {
        OwnPartPass { first, count, held: Held::of(&*input), input }
    }
}

impl Pass<Value> for OwnPartPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(element) = self.held.next(&mut *self.input)? else { return Ok(None) };
        let own = cut(&element, self.first, self.count);
        self.held.settle(element, own).map(Some)
    }

    fn restart(&mut self) -> Result<()> {
        self.held.clear();
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.held.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.held.clear();
        self.input.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        self.held.skip(&mut *self.input, count)
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}
