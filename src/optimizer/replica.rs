//! One replica's part of gradients: its buffers, and what it has viewed and submitted.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::view::Span;
use crate::optimizer::gradients_options::GradientsOptions;
use crate::optimizer::rows::ReplicaRows;
use crate::tensor::slab::CACHE_SHIFT;
use crate::tensor::storage::{ALIGNMENT, Storage};
use crate::tensor::{Layout, Tensor};
use crate::values::variable::Variable;

pub(super) struct Replica {
    /// One per variable.
    pub(super) buffers: Vec<Buffer>,
    /// One per variable: the last step in which this replica viewed it.
    pub(super) viewed: Viewed,
    /// The last step in which this replica submitted.
    pub(super) submitted: AtomicU64,
    /// The bits of the weight it submitted then.
    pub(super) weight: AtomicU64,
}

/// Where a replica writes what it contributes to one variable.
pub(super) enum Buffer {
    /// All elements, in the replica's slab, and what an apply reads of them.
    Dense { tensor: Tensor, span: Span<'static> },
    /// Some rows.
    Rows(ReplicaRows),
}

/// A step number for each variable, in memory of which no other replica writes a cache line.
pub(super) struct Viewed(Vec<CachePadded<[AtomicU64; Viewed::BLOCK]>>);

impl Viewed {
    const BLOCK: usize = 16;

    fn new(variables: usize) -> Viewed {
        let blocks = variables.div_ceil(Viewed::BLOCK);
        Viewed((0..blocks).map(|_| CachePadded::default()).collect())
    }

    pub(super) fn of(&self, variable: usize) -> Option<&AtomicU64> {
        self.0.get(variable / Viewed::BLOCK).map(|block| &block[variable % Viewed::BLOCK])
    }

    pub(super) fn in_step(&self, variable: usize, step: u64) -> bool {
        self.of(variable).is_some_and(|viewed| viewed.load(Ordering::Acquire) == step)
    }
}

impl Replica {
    /// Replica `replica` of a strategy, on `device`, which has contributed nothing yet.
    pub(super) fn new(
        replica: usize,
        device: DeviceId,
        variables: &[Variable],
        options: &GradientsOptions<'_>,
    ) -> Result<Replica> {
        Ok(Replica {
            buffers: buffers(replica, device, variables, options)?,
            viewed: Viewed::new(variables.len()),
            submitted: AtomicU64::new(0),
            weight: AtomicU64::new(0),
        })
    }

    pub(super) fn weight(&self) -> f64 {
        f64::from_bits(self.weight.load(Ordering::Acquire))
    }
}

/// One replica's buffers: those that are not row-sparse in a single allocation, each at a cache
/// line of its own.
fn buffers(
    replica: usize,
    device: DeviceId,
    variables: &[Variable],
    options: &GradientsOptions<'_>,
) -> Result<Vec<Buffer>> {
    let is_row_sparse = |index| options.is_row_sparse(index);
    let dtype = |variable: &Variable| options.dtype.unwrap_or(variable.dtype());
    let too_large = || Error::ResourceExhausted("gradients larger than memory can address".into());
    // Variables start where allocations start, so even the first slab is shifted.
    let mut end = CACHE_SHIFT.checked_mul(replica + 1).ok_or_else(too_large)?;
    let mut offsets = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        offsets.push(end);
        if is_row_sparse(index) {
            continue;
        }
        let bytes = variable.shape().bytes(dtype(variable))?;
        end = end
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT))
            .ok_or_else(too_large)?;
    }
    let storage = Arc::new(Storage::zeroed(end, device)?);
    let buffers = offsets.into_iter().zip(variables).enumerate();
    let buffers = buffers.map(|(index, (offset, variable))| {
        if is_row_sparse(index) {
            return Ok(Buffer::Rows(ReplicaRows::new(device, dtype(variable))));
        }
        let layout = Layout::row_major(variable.shape());
        let storage = Arc::clone(&storage);
        let tensor = Tensor::from_storage(storage, dtype(variable), layout, offset)?;
        // SAFETY: the span is kept with the tensor.
        let span = tensor.reading()?.span().map(|span| unsafe { span.held() });
        let span = span.ok_or_else(|| Error::Internal("a buffer is not contiguous".into()))?;
        Ok(Buffer::Dense { tensor, span })
    });
    buffers.collect()
}
