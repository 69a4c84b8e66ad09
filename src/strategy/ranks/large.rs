//! Reductions of large tensors: each rank reduces a part of all replicas' components, and all gather the
//! results. A rank receives about as much as its own replicas contribute, and the result once.

#![expect(unsafe_code, reason = "parts are received into memory that reductions read")]

use std::ops::Range;

use super::collective_call::{Call, zeros};
use super::descriptor::CollectiveKind;
use super::group::Ranks;
use super::quantities::AddQuantity;
use crate::collectives::{ReduceOp, ReductionBatch};
use crate::device::DeviceId;
use crate::error::Result;
use crate::tensor::{DType, Layout, Shape, Tensor};
use crate::values::Value;

/// A component is large from this many bytes on.
const LARGE: usize = 64 << 10;

/// Parts begin at multiples of this many elements, and are aligned to this many bytes.
const BLOCK: usize = 64;

/// Whether a leaf is a per-replica value of large tensors that are all alike.
pub(crate) fn is_large(leaf: &Value) -> bool {
    let Value::PerReplica(parts) = leaf else { return false };
    if !parts.is_dense() {
        return false;
    }
    let components = parts.components();
    let first = &components[0];
    let like_first =
        |other: &Tensor| (other.dtype(), other.shape()) == (first.dtype(), first.shape());
    components.iter().all(like_first) && first.bytes() >= LARGE
}

/// The memory for a reduction of several leaves. All of it is made before the exchange.
struct LargeReduction {
    send: Vec<u8>,
    send_counts: Vec<usize>,
    receive: Tensor,
    receive_counts: Vec<usize>,
    batch: ReductionBatch,
    /// This rank's part of each result.
    parts: Vec<Tensor>,
    gathered: Vec<u8>,
    gathered_counts: Vec<usize>,
}

impl Ranks {
    /// Reduces leaves, each of which [`is_large`], over the replicas of all ranks.
    pub(crate) fn reduce_large(&self, op: ReduceOp, leaves: &[&Value]) -> Result<Vec<Tensor>> {
        let components = |leaf: &&Value| match leaf {
            Value::PerReplica(parts) => parts.components().to_vec(),
            _ => Vec::new(),
        };
        let leaves: Vec<Vec<Tensor>> = leaves.iter().map(components).collect();
        let what = format_args!("reduce {} of large tensors", op.name());
        let quantities = |add: &mut AddQuantity<'_>| {
            for (number, of) in leaves.iter().enumerate() {
                add(&format_args!("the type of tensor {number}"), of[0].dtype().name().into());
                add(&format_args!("the shape of tensor {number}"), of[0].shape()[..].into());
            }
        };
        let call = Call::to(CollectiveKind::Reduce, &what).agreeing(&quantities);
        let (mut collective, plan) = self.start_collective(call, self.plan(op, &leaves))?;
        let LargeReduction { send, send_counts, receive, receive_counts, batch, parts, .. } = plan;
        let (mut gathered, gathered_counts) = (plan.gathered, plan.gathered_counts);
        {
            // SAFETY: the memory belongs to this call, and the batch, which reads it, has not run yet.
            let to = unsafe {
                std::slice::from_raw_parts_mut(receive.address(), receive_counts.iter().sum())
            };
            collective.all_to_all((&send, &send_counts), (to, &receive_counts))?;
        }
        // SAFETY: nobody else has the results or the operands.
        unsafe { batch.run() };
        let mut own = send;
        own.resize(gathered_counts[self.rank()], 0);
        let mut at = 0;
        for part in &parts {
            part.copy_to_host(&mut own[at..at + part.bytes()])?;
            at += part.bytes().next_multiple_of(BLOCK);
        }
        collective.all_gather_into(&own, &mut gathered, &gathered_counts)?;
        drop(collective);
        self.assemble(&leaves, &parts, &gathered, &gathered_counts)
    }

    fn plan(&self, op: ReduceOp, leaves: &[Vec<Tensor>]) -> Result<LargeReduction> {
        let (rank, size) = (self.rank(), self.size());
        let padded =
            |elements: usize, dtype: DType| (elements * dtype.size()).next_multiple_of(BLOCK);
        let count = |of: &[Tensor], to: usize| padded(range(&of[0], to, size).len(), of[0].dtype());
        let mut send_counts = vec![0; size];
        let mut receive_counts = vec![0; size];
        for of in leaves {
            for (other, (sent, received)) in
                send_counts.iter_mut().zip(&mut receive_counts).enumerate()
            {
                *sent += of.len() * count(of, other);
                *received += self.replicas()[other] * count(of, rank);
            }
        }
        let mut send = zeros(send_counts.iter().sum())?;
        let mut at = 0;
        for to in 0..size {
            for of in leaves {
                for component in of {
                    let flat = flat(component)?;
                    let part = range(component, to, size);
                    let slice = flat.slice(0, part.start, part.end, 1)?;
                    slice.copy_to_host(&mut send[at..at + slice.bytes()])?;
                    at += count(of, to);
                }
            }
        }
        let all = Shape::new(&[receive_counts.iter().sum()])?;
        let receive = Tensor::uninitialized(DType::UInt8, all, DeviceId::HOST)?;
        let (storage, start) = receive.storage();
        let (mut batch, mut parts) = (ReductionBatch::default(), Vec::new());
        for (number, of) in leaves.iter().enumerate() {
            let (dtype, elements) = (of[0].dtype(), range(&of[0], rank, size).len());
            let mut components = Vec::new();
            let mut from = start;
            for (other, received) in receive_counts.iter().enumerate() {
                let before = leaves[..number].iter();
                let before: usize =
                    before.map(|leaf| self.replicas()[other] * count(leaf, rank)).sum();
                for replica in 0..self.replicas()[other] {
                    let offset = from + before + replica * count(of, rank);
                    let layout = Layout::row_major(Shape::new(&[elements])?);
                    components.push(Tensor::from_storage(storage.clone(), dtype, layout, offset)?);
                }
                from += received;
            }
            parts.push(batch.reduce(op, &components, None, DeviceId::HOST, None)?);
        }
        let of_result = |other: usize| -> usize {
            let pairs = leaves.iter().zip(&parts);
            pairs.map(|(of, part)| padded(range(&of[0], other, size).len(), part.dtype())).sum()
        };
        let gathered_counts: Vec<usize> = (0..size).map(of_result).collect();
        let gathered = zeros(gathered_counts.iter().sum())?;
        let longest = gathered_counts[rank];
        send.try_reserve(longest.saturating_sub(send.len())).map_err(|_| {
            crate::error::Error::ResourceExhausted("memory for the parts of a reduction".into())
        })?;
        Ok(LargeReduction {
            send,
            send_counts,
            receive,
            receive_counts,
            batch,
            parts,
            gathered,
            gathered_counts,
        })
    }

    /// Assembles the results from the parts of all ranks.
    fn assemble(
        &self,
        leaves: &[Vec<Tensor>],
        parts: &[Tensor],
        gathered: &[u8],
        counts: &[usize],
    ) -> Result<Vec<Tensor>> {
        let size = self.size();
        let mut starts: Vec<usize> = counts
            .iter()
            .scan(0, |end, count| {
                *end += count;
                Some(*end - count)
            })
            .collect();
        leaves
            .iter()
            .zip(parts)
            .map(|(of, part)| {
                let (dtype, shape) = (part.dtype(), of[0].shape());
                let mut whole = zeros(shape.bytes(dtype)?)?;
                let mut at = 0;
                for (rank, start) in starts.iter_mut().enumerate() {
                    let bytes = range(&of[0], rank, size).len() * dtype.size();
                    whole[at..at + bytes].copy_from_slice(&gathered[*start..*start + bytes]);
                    at += bytes;
                    *start += bytes.next_multiple_of(BLOCK);
                }
                Tensor::from_bytes(dtype, shape, &whole, DeviceId::HOST)
            })
            .collect()
    }
}

/// The elements of a tensor that rank `rank` reduces.
fn range(tensor: &Tensor, rank: usize, size: usize) -> Range<usize> {
    let elements = tensor.shape().elements();
    let boundary = |rank: usize| match rank == size {
        true => elements,
        false => (elements as u128 * rank as u128 / size as u128) as usize / BLOCK * BLOCK,
    };
    boundary(rank)..boundary(rank + 1)
}

/// All elements, contiguous, in host memory.
fn flat(tensor: &Tensor) -> Result<Tensor> {
    tensor.on_host()?.to_contiguous()?.reshape(Shape::new(&[tensor.shape().elements()])?)
}
