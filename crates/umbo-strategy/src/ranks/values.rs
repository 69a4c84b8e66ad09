//! Gathering of values from the components of all ranks.

use std::fmt;

use super::collective_call::Call;
use super::descriptor::CollectiveKind;
use super::group::Ranks;
use super::quantities::AddQuantity;
use super::wire::{Reader, Writer};
use umbo_base::error::Result;
use umbo_tensor::values::Value;

impl Ranks {
    /// Gathers `value`: replaces this rank's components by those of all ranks' replicas, in replica
    /// order. Leaves that are not per-replica values do not change. `operation` names the
    /// operation, which is the same on all ranks, and `kind` is its kind.
    pub(crate) fn gather(
        &self,
        kind: CollectiveKind,
        operation: &dyn fmt::Display,
        value: Result<Value>,
    ) -> Result<Value> {
        self.gather_except(|_| false, kind, operation, value)
    }

    /// The same, but leaves for which `is_excepted` returns true do not change either.
    pub(crate) fn gather_except(
        &self,
        is_excepted: impl Fn(&Value) -> bool,
        kind: CollectiveKind,
        operation: &dyn fmt::Display,
        value: Result<Value>,
    ) -> Result<Value> {
        let packed = value.and_then(|value| Ok((pack(&value, &is_excepted)?, value)));
        let (leaves, length) = packed
            .as_ref()
            .map_or((0, 0), |((leaves, bytes), _)| (*leaves, bytes.len()));
        let name = operation.to_string();
        let quantities = |add: &mut AddQuantity<'_>| {
            add(&"what it is", name.as_str().into());
            add(&"the number of per-replica values in it", leaves.into());
        };
        let call = Call {
            length,
            ..Call::to(kind, operation).agreeing(&quantities)
        };
        let (mut collective, ((_, bytes), value)) = self.start_collective(call, packed)?;
        let received = collective.all_gather(&bytes)?;
        drop(collective);
        let mut readers: Vec<Reader<'_>> = received
            .iter()
            .enumerate()
            .map(|(rank, bytes)| Reader::new(rank, bytes))
            .collect();
        value.map_leaves(&mut |leaf| {
            if !matches!(leaf, Value::PerReplica(_)) || is_excepted(leaf) {
                return Ok(leaf.clone());
            }
            let mut components = Vec::new();
            for reader in &mut readers {
                for _ in 0..reader.count()? {
                    components.push(reader.component()?);
                }
            }
            Value::per_replica_of(components)
        })
    }
}

/// The number of per-replica leaves, and their components.
fn pack(value: &Value, is_excepted: impl Fn(&Value) -> bool) -> Result<(usize, Vec<u8>)> {
    let mut leaves = 0;
    let mut to = Writer::default();
    let failure = value.find_leaf(&mut |leaf| {
        let Value::PerReplica(parts) = leaf else {
            return None;
        };
        if is_excepted(leaf) {
            return None;
        }
        leaves += 1;
        let write = || {
            let components = parts.values();
            to.number(components.len() as u64)?;
            components
                .iter()
                .try_for_each(|component| to.component(component))
        };
        let mut write = write;
        write().err()
    });
    failure.map_or(Ok((leaves, to.done())), Err)
}
