//! The components of this rank's replicas, of elements that are for the replicas of all ranks.

use crate::error::{Error, Result};
use crate::input::position::{Mark, Reader};
use crate::input::stage::Pass;
use crate::values::Value;

/// Cuts per-replica values down to some of their components; a single one is a plain tensor.
///
/// Each rank makes all elements and takes its own part of each. So no example is lost or comes twice,
/// and all ranks make the same number of steps, whatever the batches' sizes.
pub(super) struct OwnPartPass {
    first: usize,
    count: usize,
    input: Box<dyn Pass<Value>>,
}

impl OwnPartPass {
    /// Of the elements of `input`, the `count` components from `first` on.
    pub(super) fn new(first: usize, count: usize, input: Box<dyn Pass<Value>>) -> OwnPartPass {
        OwnPartPass { first, count, input }
    }

    fn cut(&self, element: &Value) -> Result<Value> {
        element.map_leaves(&mut |leaf| {
            let Value::PerReplica(parts) = leaf else {
                let kind = leaf.kind_name();
                return Err(Error::Internal(format!("an element for replicas contains {kind}")));
            };
            let own = parts.components().get(self.first..self.first + self.count);
            match own {
                Some([alone]) => Ok(Value::Tensor(alone.clone())),
                Some(own) => Value::per_replica(own.to_vec()),
                None => Err(Error::Internal("an element for fewer replicas than there are".into())),
            }
        })
    }
}

impl Pass<Value> for OwnPartPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let element = self.input.next()?;
        element.map(|element| self.cut(&element)).transpose()
    }

    fn restart(&mut self) -> Result<()> {
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.input.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.input.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        self.input.skip(count)
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}
