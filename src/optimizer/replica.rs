//! One replica's part of gradients: its buffers, and what it has viewed and submitted.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::view::Span;
use crate::optimizer::gradients_options::GradientsOptions;
use crate::optimizer::guard::Guard;
use crate::optimizer::lent::LentSlot;
use crate::optimizer::rows::ReplicaRows;
use crate::tensor::red_zone::WIDTH;
use crate::tensor::slab::{self, CACHE_SHIFT};
use crate::tensor::storage::{ALIGNMENT, Storage};
use crate::tensor::{Layout, Tensor};
use crate::values::device_copies::memory_of;
use crate::values::variable::Variable;

pub(super) struct Replica {
    /// Whether what it writes has to be brought to where an apply reads it.
    pub(super) is_remote: bool,
    /// Somebody tries a callback out, and has filled the buffers for it.
    pub(super) is_trial: AtomicBool,
    /// One per variable.
    pub(super) buffers: Vec<Buffer>,
    /// One per variable: the last step in which this replica viewed it.
    pub(super) viewed: Viewed,
    /// The last step in which this replica took back what it had viewed or lent.
    pub(super) withdrew: AtomicU64,
    /// The last step in which this replica submitted.
    pub(super) submitted: AtomicU64,
    /// The bits of the weight it submitted then.
    pub(super) weight: AtomicU64,
}

/// Where a replica writes what it contributes to one variable.
pub(super) enum Buffer {
    /// All elements.
    Dense(DenseBuffer),
    /// Some rows.
    Rows(ReplicaRows),
}

/// One replica's gradient of one variable.
pub(super) struct DenseBuffer {
    /// In the replica's slab, where the replica writes.
    pub(super) tensor: Tensor,
    /// Where the variable's device finds what was submitted, if the slab is not in its memory.
    mirror: Option<Tensor>,
    /// What an apply in host memory reads.
    span: Option<Span<'static>>,
    /// What the replica has lent instead.
    pub(super) lent: LentSlot,
    /// What strict mode looks at.
    pub(super) guard: Option<Guard>,
}

impl Buffer {
    /// The library has written it.
    pub(super) fn is_in_use(&self) {
        if let Buffer::Dense(DenseBuffer { guard: Some(guard), .. }) = self {
            guard.is_in_use();
        }
    }
}

impl DenseBuffer {
    /// A part of a slab, for `variable`; in strict mode with the fence around it.
    fn new(tensor: Tensor, variable: &Variable, guard: Option<Guard>) -> Result<DenseBuffer> {
        let home = memory_of(variable.device());
        let mirror = match memory_of(tensor.device()) == home {
            true => None,
            false => Some(Tensor::uninitialized(tensor.dtype(), tensor.shape(), home)?),
        };
        let read = mirror.as_ref().unwrap_or(&tensor);
        let span = match home.is_host_memory() {
            false => None,
            // SAFETY: the span is kept with the tensor.
            true => read.reading()?.span().map(|span| unsafe { span.held() }),
        };
        Ok(DenseBuffer { tensor, mirror, span, lent: LentSlot::default(), guard })
    }

    /// Whether an apply in host memory may read it together with the buffer `before`, right behind which it lies.
    pub(super) fn follows(&self, before: &DenseBuffer) -> bool {
        let read = |of: &DenseBuffer| of.mirror.as_ref().unwrap_or(&of.tensor).clone();
        self.span.is_some() && slab::follows(&read(before), &read(self))
    }

    /// What the replica has written in `step`, or lent, where it did.
    pub(super) fn written(&self, step: u64) -> Tensor {
        self.lent.tensor(step).unwrap_or_else(|| self.tensor.clone())
    }

    /// Brings what the replica has written in `step` to where an apply reads it.
    pub(super) fn bring_home(&self, step: u64) -> Result<()> {
        let Some(mirror) = &self.mirror else { return Ok(()) };
        // SAFETY: the mirror is written here alone, by the replica whose buffer it is, before an apply
        // can read what the step contributes.
        unsafe { mirror.assume_exclusive() }.copy_from(&self.written(step))
    }

    /// What an apply of `step` reads.
    pub(super) fn home(&self, step: u64) -> Tensor {
        self.mirror.clone().unwrap_or_else(|| self.written(step))
    }

    /// The buffer, or its mirror, if it lies in host memory, for an apply that has claimed the gradients to
    /// write.
    pub(super) fn landing(&self) -> Option<&Tensor> {
        let tensor = self.mirror.as_ref().unwrap_or(&self.tensor);
        tensor.device().is_host_memory().then_some(tensor)
    }

    /// What an apply of `step` reads, if it lies in host memory.
    pub(super) fn span(&self, step: u64) -> Option<Span<'static>> {
        match &self.mirror {
            Some(_) => self.span,
            None => self.lent.span(step).or(self.span),
        }
    }
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
        is_strict: bool,
    ) -> Result<Replica> {
        // Dense gradients are read by the variable's device, rows by the host.
        let home = |(index, variable): (usize, &Variable)| match options.is_row_sparse(index) {
            true => DeviceId::HOST,
            false => memory_of(variable.device()),
        };
        Ok(Replica {
            // In strict mode rows are written elsewhere, too.
            is_remote: is_strict
                || variables.iter().enumerate().map(home).any(|home| home != memory_of(device)),
            is_trial: AtomicBool::new(false),
            buffers: buffers(replica, device, variables, options, is_strict)?,
            viewed: Viewed::new(variables.len()),
            withdrew: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            weight: AtomicU64::new(0),
        })
    }

    pub(super) fn weight(&self) -> f64 {
        f64::from_bits(self.weight.load(Ordering::Acquire))
    }
}

/// One replica's buffers: those that are not row-sparse in a single allocation, each at a cache
/// line of its own, and in strict mode with fences between them.
fn buffers(
    replica: usize,
    device: DeviceId,
    variables: &[Variable],
    options: &GradientsOptions<'_>,
    is_strict: bool,
) -> Result<Vec<Buffer>> {
    let red_zone = if is_strict { WIDTH } else { 0 };
    let is_row_sparse = |index| options.is_row_sparse(index);
    let dtype = |variable: &Variable| options.dtype.unwrap_or(variable.dtype());
    let too_large = || Error::ResourceExhausted("gradients larger than memory can address".into());
    // Variables start where allocations start, so even the first slab is shifted.
    let mut end = CACHE_SHIFT.checked_mul(replica + 1).ok_or_else(too_large)?;
    let mut places = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let start = end.checked_add(red_zone).ok_or_else(too_large)?;
        if is_row_sparse(index) {
            places.push(start..start);
            continue;
        }
        let bytes = variable.shape().bytes(dtype(variable))?;
        end = start
            .checked_add(bytes)
            .and_then(|end| end.checked_add(red_zone))
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT))
            .ok_or_else(too_large)?;
        places.push(start..end);
    }
    let storage = Arc::new(Storage::zeroed(end, device)?);
    let buffers = places.into_iter().zip(variables).enumerate();
    let buffers = buffers.map(|(index, (place, variable))| {
        if is_row_sparse(index) {
            return Ok(Buffer::Rows(ReplicaRows::new(device, dtype(variable), is_strict)));
        }
        let layout = Layout::row_major(variable.shape());
        let storage = Arc::clone(&storage);
        let tensor = Tensor::from_storage(storage, dtype(variable), layout, place.start)?;
        let guard = is_strict.then(|| Guard::new(&tensor, place.end)).transpose()?;
        DenseBuffer::new(tensor, variable, guard).map(Buffer::Dense)
    });
    buffers.collect()
}
