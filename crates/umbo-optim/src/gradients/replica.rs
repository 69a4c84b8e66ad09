//! One replica's gradients: its buffers, and what it has viewed and submitted.

#![expect(
    unsafe_code,
    reason = "the owning replica's mirror is written through a raw pointer"
)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::gradients::attached::AttachedGradient;
use crate::gradients::guard::Guard;
use crate::gradients::options::GradientsOptions;
use crate::gradients::rows::ReplicaRows;
use umbo_base::error::{Error, Result};
use umbo_device::{DeviceId, registry};
use umbo_kernels::view::Span;
use umbo_tensor::downloads::Downloads;
use umbo_tensor::red_zone::WIDTH;
use umbo_tensor::slab::{self, CACHE_SHIFT};
use umbo_tensor::storage::{ALIGNMENT, Storage};
use umbo_tensor::values::copies::memory_of;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Layout, Shape, Tensor};

pub(crate) struct Replica {
    /// Whether its gradients have to be copied to the device where an apply reads them.
    pub(crate) is_remote: bool,
    /// A trial of the callback is in progress, which has filled the buffers.
    pub(crate) is_trial: AtomicBool,
    /// One per variable.
    pub(crate) buffers: Vec<GradientBuffer>,
    /// Whether one of them is for rows.
    pub(crate) has_rows: bool,
    pub(crate) viewed: Viewed,
    /// The last step in which this replica withdrew a gradient that it had viewed or lent.
    pub(crate) discarded_in: AtomicU64,
    /// The last step in which this replica submitted.
    pub(crate) submitted: AtomicU64,
    /// The bits of the weight it submitted then.
    pub(crate) weight: AtomicU64,
}

/// The memory to which a replica writes its contribution to one variable.
pub(crate) enum GradientBuffer {
    /// All elements.
    Dense(DenseBuffer),
    /// Some rows.
    Rows(ReplicaRows),
}

/// One replica's gradient of one variable.
pub(crate) struct DenseBuffer {
    /// The tensor in the replica's slab, where the replica writes.
    pub(crate) tensor: Tensor,
    /// The copy on the variable's device, if the slab is not in its memory.
    mirror: Option<Tensor>,
    /// The elements that an apply in host memory reads.
    span: Option<Span<'static>>,
    /// The gradient that the replica has lent instead.
    pub(crate) lent: AttachedGradient,
    /// The checks of strict mode.
    pub(crate) guard: Option<Guard>,
}

impl GradientBuffer {
    /// The checks of strict mode, if it is not for rows.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        match self {
            GradientBuffer::Dense(dense) => dense.guard.as_ref(),
            GradientBuffer::Rows(_) => None,
        }
    }
}

impl DenseBuffer {
    /// A part of a slab, for `variable`; in strict mode with a red zone around it. Its mirror is
    /// the same part of `mirrors`, if there are any.
    fn new(
        tensor: Tensor,
        variable: &Variable,
        mirrors: Option<&Arc<Storage>>,
        guard: Option<Guard>,
    ) -> Result<DenseBuffer> {
        let home = memory_of(variable.device());
        let mirror = match (memory_of(tensor.device()) == home, mirrors) {
            (true, _) => None,
            (false, Some(mirrors)) => {
                let dtype = tensor.dtype();
                let layout = Layout::row_major(tensor.shape());
                let (_, start) = tensor.storage();
                Some(Tensor::from_storage(
                    Arc::clone(mirrors),
                    dtype,
                    layout,
                    start,
                )?)
            }
            (false, None) => Some(Tensor::uninitialized(tensor.dtype(), tensor.shape(), home)?),
        };
        let span = held_span(mirror.as_ref().unwrap_or(&tensor));
        Ok(DenseBuffer {
            tensor,
            mirror,
            span,
            lent: AttachedGradient::default(),
            guard,
        })
    }

    /// Whether an apply in host memory may read it together with the buffer `before`, because it
    /// follows that one in memory.
    pub(crate) fn follows(&self, before: &DenseBuffer) -> bool {
        self.span.is_some() && slab::follows(before.own(), self.own())
    }

    /// The buffer, or its mirror, where an apply reads it.
    fn own(&self) -> &Tensor {
        self.mirror.as_ref().unwrap_or(&self.tensor)
    }

    /// The gradient that the replica wrote or lent in `step`.
    pub(crate) fn written(&self, step: u64) -> Tensor {
        self.lent
            .tensor(step)
            .unwrap_or_else(|| self.tensor.clone())
    }

    /// Copies the gradient that the replica wrote in `step` to the device where an apply reads it.
    fn bring_home(&self, step: u64, downloads: &mut Downloads) -> Result<()> {
        let Some(mirror) = &self.mirror else {
            return Ok(());
        };
        // SAFETY: only this function writes the mirror, on the thread of the buffer's replica,
        // which waits for the copies before an apply can read the step's contributions.
        unsafe { downloads.copy(&self.written(step), mirror) }
    }

    /// The gradient that an apply of `step` reads.
    pub(crate) fn home(&self, step: u64) -> Tensor {
        self.mirror.clone().unwrap_or_else(|| self.written(step))
    }

    /// The buffer, or its mirror, if it lies in host memory, for an apply that has claimed the
    /// gradients to write.
    pub(crate) fn receive_buffer(&self) -> Option<&Tensor> {
        Some(self.own()).filter(|tensor| tensor.device().is_host_memory())
    }

    /// The elements that an apply of `step` reads, if they lie in host memory.
    pub(crate) fn span(&self, step: u64) -> Option<Span<'static>> {
        match &self.mirror {
            Some(_) => self.span,
            None => self
                .lent
                .tensor(step)
                .map_or(self.span, |lent| held_span(&lent)),
        }
    }
}

/// Neighbouring parts of a slab, whose mirrors are in the same places of another one.
struct BufferRun<'a> {
    slab: &'a Arc<Storage>,
    mirrors: &'a Arc<Storage>,
    bytes: Range<usize>,
}

impl<'a> BufferRun<'a> {
    /// A buffer whose mirror is in the same place of its storage; `None` for one without, or if the
    /// replica has lent its gradient in `step`.
    fn of(dense: &'a DenseBuffer, step: u64) -> Option<BufferRun<'a>> {
        let (slab, start) = dense.tensor.storage();
        let (mirrors, place) = dense.mirror.as_ref()?.storage();
        let is_written_here = place == start && dense.lent.tensor(step).is_none();
        is_written_here.then(|| BufferRun {
            slab,
            mirrors,
            bytes: start..start + dense.tensor.bytes(),
        })
    }

    /// Whether `next` begins behind this run, after nothing but the rest of a cache line.
    fn precedes(&self, next: &BufferRun) -> bool {
        Arc::ptr_eq(self.slab, next.slab)
            && Arc::ptr_eq(self.mirrors, next.mirrors)
            && next.bytes.start == self.bytes.end.next_multiple_of(ALIGNMENT)
    }

    fn bring_home(&self, downloads: &mut Downloads) -> Result<()> {
        let shape = Shape::new(&[self.bytes.len()])?;
        let bytes_of = |storage: &Arc<Storage>| {
            let storage = Arc::clone(storage);
            Tensor::from_storage(
                storage,
                DType::UInt8,
                Layout::row_major(shape),
                self.bytes.start,
            )
        };
        let mirrors = bytes_of(self.mirrors)?;
        // SAFETY: as in `DenseBuffer::bring_home`. Between the buffers lies nothing.
        unsafe { downloads.copy(&bytes_of(self.slab)?, &mirrors) }
    }
}

/// All elements of a contiguous tensor, if it lies in host memory.
fn held_span(tensor: &Tensor) -> Option<Span<'static>> {
    // SAFETY: the owner of the tensor, a buffer or a gradient that is lent, keeps it as long as the
    // span.
    tensor.span().ok().map(|span| unsafe { span.held() })
}

/// The variables that a replica viewed in the last step in which it viewed one: a bit for each.
/// Only the replica's thread changes it, so no bit has to be set atomically.
pub(crate) struct Viewed {
    step: AtomicU64,
    /// The words of bits, between words that keep them in cache lines of their own.
    words: Vec<AtomicU64>,
}

impl Viewed {
    const MARGIN: usize = 16;
    const BITS: usize = u64::BITS as usize;

    fn new(variables: usize) -> Viewed {
        let words = variables.div_ceil(Viewed::BITS) + 2 * Viewed::MARGIN;
        Viewed {
            step: AtomicU64::new(0),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether it viewed the variable in this step.
    pub(crate) fn in_step(&self, variable: usize, step: u64) -> bool {
        let word = &self.words[Viewed::MARGIN + variable / Viewed::BITS];
        self.step.load(Ordering::Acquire) == step
            && word.load(Ordering::Acquire) >> (variable % Viewed::BITS) & 1 == 1
    }

    /// Whether it viewed any of these variables in this step, and whether all of them.
    pub(crate) fn any_and_all(&self, variables: &Range<usize>, step: u64) -> (bool, bool) {
        if self.step.load(Ordering::Acquire) != step {
            return (false, variables.is_empty());
        }
        let words = variables.start / Viewed::BITS..variables.end.div_ceil(Viewed::BITS);
        words.fold((false, true), |(any, all), word| {
            let first = word * Viewed::BITS;
            let before = variables.start.saturating_sub(first);
            let behind = (first + Viewed::BITS).saturating_sub(variables.end);
            let mask = u64::MAX << before & u64::MAX >> behind;
            let bits = self.words[Viewed::MARGIN + word].load(Ordering::Acquire) & mask;
            (any | (bits != 0), all & (bits == mask))
        })
    }

    /// Notes that it views the variable in this step.
    pub(crate) fn note(&self, variable: usize, step: u64) {
        if self.step.load(Ordering::Relaxed) != step {
            // What is around them is never written.
            self.words[Viewed::MARGIN..self.words.len() - Viewed::MARGIN]
                .iter()
                .for_each(|word| word.store(0, Ordering::Relaxed));
            self.step.store(step, Ordering::Release);
        }
        self.change(variable, |word, bit| word | bit);
    }

    /// Takes that back.
    pub(crate) fn forget(&self, variable: usize) {
        self.change(variable, |word, bit| word & !bit);
    }

    fn change(&self, variable: usize, change: impl FnOnce(u64, u64) -> u64) {
        let word = &self.words[Viewed::MARGIN + variable / Viewed::BITS];
        let changed = change(word.load(Ordering::Relaxed), 1 << (variable % Viewed::BITS));
        word.store(changed, Ordering::Release);
    }
}

impl Replica {
    /// Replica `replica` of a strategy, on `device`, which has contributed nothing yet.
    pub(crate) fn new(
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
        let buffers = buffers(replica, device, variables, options, is_strict)?;
        Ok(Replica {
            has_rows: buffers
                .iter()
                .any(|buffer| matches!(buffer, GradientBuffer::Rows(_))),
            // In strict mode rows are written to guarded memory first.
            is_remote: is_strict
                || variables
                    .iter()
                    .enumerate()
                    .map(home)
                    .any(|home| home != memory_of(device)),
            is_trial: AtomicBool::new(false),
            buffers,
            viewed: Viewed::new(variables.len()),
            discarded_in: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            weight: AtomicU64::new(0),
        })
    }

    /// Copies what the replica has written in `step` on another device to the device where an apply
    /// reads it: neighbours at once, and what is copied to locked memory is waited for once.
    pub(crate) fn bring_home(&self, step: u64) -> Result<()> {
        let mut downloads = Downloads::default();
        self.queue_home(step, &mut downloads)?;
        downloads.wait()
    }

    fn queue_home(&self, step: u64, downloads: &mut Downloads) -> Result<()> {
        let mut run: Option<BufferRun> = None;
        for (index, buffer) in self.buffers.iter().enumerate() {
            if !self.viewed.in_step(index, step) {
                continue;
            }
            match buffer {
                GradientBuffer::Dense(dense) => match BufferRun::of(dense, step) {
                    Some(one) => {
                        if let Some(run) = run.as_mut().filter(|run| run.precedes(&one)) {
                            run.bytes.end = one.bytes.end;
                        } else if let Some(before) = run.replace(one) {
                            before.bring_home(downloads)?;
                        }
                    }
                    None => dense.bring_home(step, downloads)?,
                },
                GradientBuffer::Rows(rows) => rows.pieces().bring_home()?,
            }
        }
        run.map_or(Ok(()), |run| run.bring_home(downloads))
    }

    pub(crate) fn weight(&self) -> f64 {
        f64::from_bits(self.weight.load(Ordering::Acquire))
    }
}

/// One replica's buffers: those that are not row-sparse in a single allocation, each at a cache
/// line of its own, and in strict mode with red zones between them.
fn buffers(
    replica: usize,
    device: DeviceId,
    variables: &[Variable],
    options: &GradientsOptions<'_>,
    is_strict: bool,
) -> Result<Vec<GradientBuffer>> {
    let red_zone = if is_strict { WIDTH } else { 0 };
    let is_row_sparse = |index| options.is_row_sparse(index);
    let dtype = |variable: &Variable| options.dtype.unwrap_or(variable.dtype());
    let too_large = || Error::beyond_limit("gradients larger than memory can address");
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
    let dense = (0..variables.len()).filter(|&index| !is_row_sparse(index));
    let mirrors = mirrors(&storage, dense.map(|index| variables[index].device()))?;
    let buffers = places.into_iter().zip(variables).enumerate();
    let buffers = buffers.map(|(index, (place, variable))| {
        if is_row_sparse(index) {
            return Ok(GradientBuffer::Rows(ReplicaRows::new(
                device,
                dtype(variable),
                is_strict,
            )));
        }
        let layout = Layout::row_major(variable.shape());
        let storage = Arc::clone(&storage);
        let tensor = Tensor::from_storage(storage, dtype(variable), layout, place.start)?;
        let guard = is_strict
            .then(|| Guard::new(&tensor, place.end))
            .transpose()?;
        DenseBuffer::new(tensor, variable, mirrors.as_ref(), guard).map(GradientBuffer::Dense)
    });
    buffers.collect()
}

/// The memory of a replica's mirrors, in the places that the buffers have in `slab`, so that
/// neighbours are copied at once. None if the variables of the buffers are where the slab is, or
/// not all on one other device. The side that is in host memory is locked, since it is copied at
/// each step.
fn mirrors(
    slab: &Storage,
    mut variables: impl Iterator<Item = DeviceId>,
) -> Result<Option<Arc<Storage>>> {
    let device = memory_of(slab.device());
    let Some(home) = variables
        .next()
        .map(memory_of)
        .filter(|&home| home != device)
    else {
        return Ok(None);
    };
    if variables.any(|other| memory_of(other) != home) {
        return Ok(None);
    }
    let mirrors = Storage::uninitialized(slab.bytes(), home)?;
    if home.is_host_memory() {
        mirrors.lock_pages(registry::backend(device)?);
    } else if device.is_host_memory() {
        slab.lock_pages(registry::backend(home)?);
    }
    Ok(Some(Arc::new(mirrors)))
}
