//! Reductions of large tensors: each rank reduces a part of all replicas' components, and all
//! gather the results. A rank receives about as much as its own replicas contribute, and the result
//! once.

#![expect(
    unsafe_code,
    reason = "parts are received into memory that reductions read"
)]

use super::collective_call::{Call, zeros};
use super::descriptor::CollectiveKind;
use super::group::Ranks;
use super::quantities::AddQuantity;
use umbo_base::error::Result;
use umbo_comm::communicator::{Incoming, Outgoing};
use umbo_device::DeviceId;
use umbo_tensor::collectives::{ReduceOp, ReductionBatch};
use umbo_tensor::values::Value;
use umbo_tensor::values::sharding::Loads;
use umbo_tensor::{Shape, Tensor};

/// A component is large from this many bytes on.
const LARGE: usize = 64 << 10;

/// The components of a leaf that is a per-replica value of large tensors, all alike.
pub(crate) fn large_components(leaf: &Value) -> Option<&[Tensor]> {
    let Value::PerReplica(parts) = leaf else {
        return None;
    };
    let components = parts.is_dense().then(|| parts.components())?;
    let first = &components[0];
    let like_first =
        |other: &Tensor| (other.dtype(), other.shape()) == (first.dtype(), first.shape());
    (components.iter().all(like_first) && first.bytes() >= LARGE).then_some(components)
}

impl Ranks {
    /// Reduces a value over the replicas of all ranks. `components` are those of this rank's
    /// replicas; see [`large_components`].
    pub(crate) fn reduce_large(&self, op: ReduceOp, components: &[Tensor]) -> Result<Tensor> {
        let rank = self.rank();
        let size = self.size();
        let host = DeviceId::HOST;
        let dtype = components[0].dtype();
        let shape = components[0].shape();
        let parts = Loads::new(size).divide(rank, shape.elements(), dtype.size());
        let counts = |of_one: usize| parts.parts().map(|part| part.len() * of_one).collect();
        // All memory is reserved before the exchange.
        let prepare = || {
            let row = Shape::new(&[shape.elements()])?;
            let flat = |component: &Tensor| component.on_host()?.to_contiguous()?.reshape(row);
            let flat = components.iter().map(flat).collect::<Result<Vec<_>>>()?;
            let mut send = zeros(components.len() * shape.bytes(dtype)?)?;
            let mut to = send.as_mut_slice();
            for part in parts.parts() {
                for component in &flat {
                    let slice = component.slice(0, part.start, part.end, 1)?;
                    let (place, rest) = to.split_at_mut(slice.bytes());
                    slice.copy_to_host(place)?;
                    to = rest;
                }
            }
            let all = self.num_replicas();
            let own_elements = parts.own().len();
            let received = Tensor::uninitialized(dtype, Shape::new(&[all * own_elements])?, host)?;
            let of_replica = |at| received.slice(0, at * own_elements, (at + 1) * own_elements, 1);
            let terms = (0..all).map(of_replica).collect::<Result<Vec<_>>>()?;
            let mut batch = ReductionBatch::default();
            let part = batch.reduce(op, &terms, None, host, None)?;
            let result = Tensor::uninitialized(part.dtype(), shape, host)?;
            Ok((send, received, batch, part, result))
        };
        let purpose = format_args!("reduce {} of a large tensor", op.name());
        let quantities = |add: &mut AddQuantity<'_>| {
            add(&"the type of the tensor", dtype.name().into());
            add(&"the shape of the tensor", shape[..].into());
        };
        let call = Call::to(CollectiveKind::Reduce, &purpose).agreeing(&quantities);
        let (mut collective, (send, received, batch, part, result)) =
            self.start_collective(call, prepare())?;
        let send_counts: Vec<usize> = counts(components.len() * dtype.size());
        let own_bytes = parts.own().len() * dtype.size();
        let receive_counts: Vec<usize> = self
            .replicas()
            .iter()
            .map(|count| count * own_bytes)
            .collect();
        // SAFETY: the memory belongs to this call, and the batch, which reads it, has not run yet.
        let to = Incoming::Host(unsafe { bytes_of(&received) });
        collective.all_to_all(Outgoing::Host(&send), &send_counts, to, &receive_counts)?;
        // SAFETY: nobody else has the part or the operands. The part is only read once the batch
        // has run, and the result, which is fresh, is only written.
        let (part, to) = unsafe {
            batch.run();
            (bytes_of(&part), bytes_of(&result))
        };
        let counts: Vec<usize> = counts(result.dtype().size());
        collective.all_gather_into(Outgoing::Host(part), Incoming::Host(to), &counts)?;
        Ok(result)
    }
}

/// The bytes of a contiguous tensor in host memory.
///
/// # Safety
/// Nobody else reads or writes the tensor while they are used.
#[expect(clippy::mut_from_ref, reason = "the caller has the tensor to itself")]
unsafe fn bytes_of(tensor: &Tensor) -> &mut [u8] {
    // SAFETY: the tensor has as many bytes, and the caller guarantees the rest.
    unsafe { std::slice::from_raw_parts_mut(tensor.address(), tensor.bytes()) }
}
