//! The sum of contributions of several runs, until it is applied.

#![expect(unsafe_code, reason = "spans are kept beside the tensors that they are of")]

use std::ops::Range;

use crate::collectives::copy_to;
use crate::device::DeviceId;
use crate::error::{Error, Result, memory};
use crate::kernels::dtype::DType;
use crate::kernels::view::{Span, SpanMut};
use crate::optimizer::row_sums::{Merged, RowSums, Source, Workspace};
use crate::optimizer::variable_states::part_of;
use crate::tensor::slab::{CACHE_SHIFT, Slab};
use crate::tensor::{Shape, Tensor};
use crate::values::variable::Variable;

/// What the runs since the last update have contributed: one float64 tensor for each variable, made
/// when it is first needed, and kept. So accumulating costs eight bytes of memory an element,
/// whatever the number of replicas and runs, and the sum has the bits of one run with all of the
/// contributions. Of a row-sparse variable it is the rows that were touched.
///
/// Beside the sums there is room for the gradients that an apply makes of them and of the last run,
/// if it needs them twice and keeping them is less work than making them again.
pub(super) struct Accumulation {
    /// How many runs.
    pub(super) runs: u64,
    /// The sum of their weights.
    pub(super) weight: f64,
    sums: Vec<Sum>,
    /// Which variables are row-sparse.
    row_sparse: Vec<usize>,
    workspace: Workspace,
    sum_slab: Slab,
    gradient_slab: Slab,
}

enum Sum {
    Dense(DenseSum),
    Rows(Box<RowSums>),
}

/// What the runs since the last update have contributed to one variable.
#[derive(Debug)]
pub struct AccumulatedSum {
    /// Which of the variables.
    pub index: usize,
    /// If it is row-sparse, which of its rows were touched, ascending.
    pub rows: Option<Vec<usize>>,
    /// The sum, float64: of the variable's shape, or for each of the rows.
    pub sum: Tensor,
}

/// The same, ready to be put in.
pub(super) enum PreparedSum {
    Dense(usize, Tensor),
    Rows(usize, Merged),
}

#[derive(Default)]
struct DenseSum {
    sum: Option<Room>,
    /// One of the runs wrote the variable; else what the room for the sum holds does not count.
    written: bool,
    gradient: Option<Memory>,
    /// The same, of a variable that a GPU holds.
    gradient_on_gpu: Option<Tensor>,
}

/// The tensor of a sum: where the variable is, or in host memory if the ranks add up there.
enum Room {
    Host(Memory),
    Gpu(Tensor),
    /// Of this rank's part, in host memory: twice, so that the next sum can be made and dropped. The number
    /// is that of the one that counts.
    Shard(Memory, usize),
}

impl Room {
    /// What counts.
    fn tensor(&self) -> Result<Tensor> {
        match self {
            Room::Host(memory) => Ok(memory.owner.clone()),
            Room::Gpu(tensor) => Ok(tensor.clone()),
            Room::Shard(both, counts) => both.owner.slice(0, *counts, counts + 1, 1),
        }
    }
}

/// One of two that lie side by side.
fn half(of: &Memory, number: usize) -> Range<usize> {
    let elements = of.reading.elements() / 2;
    number * elements..(number + 1) * elements
}

/// A contiguous tensor, to read and to write.
pub(super) struct Memory {
    pub(super) reading: Span<'static>,
    pub(super) writing: SpanMut<'static>,
    owner: Tensor,
}

impl Memory {
    /// In host memory, also for a variable that a GPU holds.
    fn new(slab: &mut Slab, dtype: DType, shape: Shape, device: DeviceId) -> Result<Memory> {
        let device = Some(device).filter(|device| device.is_host_memory());
        let tensor = slab.zeros(dtype, shape, device.unwrap_or(DeviceId::HOST))?;
        // SAFETY: the spans are kept with the tensor, which is fresh. Who has the accumulation to
        // change it is the only writer, and reads nothing of what it writes.
        let spans = unsafe {
            let reading = tensor.reading()?.span().map(|span| span.held());
            let writing =
                tensor.assume_exclusive().into_view()?.into_span().map(|span| span.held());
            (reading, writing)
        };
        let (Some(reading), Some(writing)) = spans else {
            return Err(Error::Internal("fresh memory is not contiguous".into()));
        };
        Ok(Memory { reading, writing, owner: tensor })
    }
}

impl Accumulation {
    /// Of no run. `is_row_sparse` says which of the variables have row-sparse gradients.
    pub(super) fn new(
        variables: &[Variable],
        is_row_sparse: impl Fn(usize) -> bool,
    ) -> Result<Accumulation> {
        let sum = |(index, variable)| {
            Ok(match is_row_sparse(index) {
                true => Sum::Rows(Box::new(RowSums::new(variable)?)),
                false => Sum::Dense(DenseSum::default()),
            })
        };
        let sums = variables.iter().enumerate().map(sum).collect::<Result<_>>()?;
        let row_sparse = (0..variables.len()).filter(|&index| is_row_sparse(index)).collect();
        Ok(Accumulation {
            runs: 0,
            weight: 0.0,
            sums,
            row_sparse,
            workspace: Workspace::default(),
            sum_slab: Slab::new(0),
            gradient_slab: Slab::new(CACHE_SHIFT / 2),
        })
    }

    /// Has memory for the sum of variable `index`. A row-sparse variable has it since its rows were
    /// merged.
    pub(super) fn reserve(&mut self, index: usize, variable: &Variable) -> Result<()> {
        if let Sum::Dense(DenseSum { sum: sum @ None, .. }) = &mut self.sums[index] {
            let (dtype, shape, device) = (DType::Float64, variable.shape(), variable.device());
            *sum = Some(match device.is_host_memory() {
                true => Room::Host(Memory::new(&mut self.sum_slab, dtype, shape, device)?),
                false => Room::Gpu(Tensor::uninitialized(dtype, shape, device)?),
            });
        }
        Ok(())
    }

    /// Has memory for the sum of so many elements of variable `index`, this rank's part, and for the next one.
    pub(super) fn reserve_shard(&mut self, index: usize, elements: usize) -> Result<()> {
        if let Sum::Dense(DenseSum { sum: sum @ None, .. }) = &mut self.sums[index] {
            let shape = Shape::new(&[2, elements])?;
            let slab = &mut self.sum_slab;
            let both = Memory::new(slab, DType::Float64, shape, DeviceId::HOST)?;
            *sum = Some(Room::Shard(both, 0));
        }
        Ok(())
    }

    /// What the sum of this rank's part of variable `index` becomes, when it is claimed.
    pub(super) fn next(&self, index: usize) -> Option<SpanMut<'_>> {
        match &self.sums[index] {
            Sum::Dense(DenseSum { sum: Some(Room::Shard(both, counts)), .. }) => {
                // SAFETY: the caller has the accumulation, and nobody else the sum that does not count.
                Some(unsafe { both.writing.part(&half(both, 1 - counts)) })
            }
            _ => None,
        }
    }

    /// Has room for the gradient of variable `index`, which is not row-sparse: for `elements` of it, all
    /// or this rank's part, always as many; also on the GPU that holds the variable, if one does.
    pub(super) fn reserve_gradient(
        &mut self,
        index: usize,
        variable: &Variable,
        elements: usize,
    ) -> Result<()> {
        let Sum::Dense(sum) = &mut self.sums[index] else { return Ok(()) };
        let (dtype, device, shape) =
            (variable.dtype(), variable.device(), Shape::new(&[elements])?);
        if sum.gradient.is_none() {
            sum.gradient = Some(Memory::new(&mut self.gradient_slab, dtype, shape, device)?);
        }
        match device.is_host_memory() {
            true => Ok(()),
            false => self.reserve_gradient_on_gpu(index, variable),
        }
    }

    /// Has room for the gradient of variable `index`, which is not row-sparse, on the GPU that holds the
    /// variable: for all of its elements, in a row as they are in host memory.
    pub(super) fn reserve_gradient_on_gpu(
        &mut self,
        index: usize,
        variable: &Variable,
    ) -> Result<()> {
        let Sum::Dense(sum) = &mut self.sums[index] else { return Ok(()) };
        if sum.gradient_on_gpu.is_none() {
            let (dtype, device) = (variable.dtype(), variable.device());
            let shape = Shape::new(&[variable.shape().elements()])?;
            sum.gradient_on_gpu = Some(Tensor::uninitialized(dtype, shape, device)?);
        }
        Ok(())
    }

    /// Copies the gradient of variable `index` to the GPU that holds the variable, if one does and there
    /// is room for it there.
    pub(super) fn bring_gradient_up(&mut self, index: usize) -> Result<()> {
        match &self.sums[index] {
            Sum::Dense(DenseSum { gradient: Some(here), gradient_on_gpu: Some(there), .. }) => {
                // SAFETY: who has the accumulation to change it is alone with its gradients.
                unsafe { there.assume_exclusive() }.copy_from(&here.owner)
            }
            _ => Ok(()),
        }
    }

    /// The room for the gradient of variable `index` on the GPU that holds the variable.
    pub(super) fn gradient_on_gpu(&self, index: usize) -> Option<&Tensor> {
        let Sum::Dense(sum) = &self.sums[index] else { return None };
        sum.gradient_on_gpu.as_ref()
    }

    /// The room for the gradient of variable `index`, if it was reserved.
    pub(super) fn gradient(&self, index: usize) -> Option<&Memory> {
        let Sum::Dense(sum) = &self.sums[index] else { return None };
        sum.gradient.as_ref()
    }

    /// Whether a run before the last wrote variable `index`; for a row-sparse variable also the
    /// last one, once its rows are merged.
    pub(super) fn has_variable(&self, index: usize) -> bool {
        match &self.sums[index] {
            Sum::Dense(sum) => sum.written,
            Sum::Rows(sums) => sums.merged().is_some(),
        }
    }

    /// Whether a run before the last wrote variable `index`.
    pub(super) fn has_before(&self, index: usize) -> bool {
        match &self.sums[index] {
            Sum::Dense(sum) => sum.written,
            Sum::Rows(sums) => sums.kept().is_some(),
        }
    }

    /// Whether variable `index` is row-sparse.
    pub(super) fn is_row_sparse(&self, index: usize) -> bool {
        matches!(self.sums[index], Sum::Rows(_))
    }

    /// The sum of variable `index`, if a GPU holds it and a run wrote it.
    pub(super) fn on_gpu(&self, index: usize) -> Option<&Tensor> {
        match &self.sums[index] {
            Sum::Dense(DenseSum { sum: Some(Room::Gpu(sum)), written: true, .. }) => Some(sum),
            _ => None,
        }
    }

    /// The sum of variable `index`, or of this rank's part, if it is not row-sparse and a run wrote it.
    pub(super) fn of_variable(&self, index: usize) -> Option<Span<'_>> {
        match &self.sums[index] {
            Sum::Dense(DenseSum { sum: Some(sum), written: true, .. }) => match sum {
                Room::Host(memory) => Some(memory.reading),
                Room::Shard(both, counts) => Some(both.reading.part(&half(both, *counts))),
                Room::Gpu(_) => None,
            },
            _ => None,
        }
    }

    /// The sums of the rows of variable `index`, if it is row-sparse and a run wrote it.
    pub(super) fn rows(&self, index: usize) -> Option<&Merged> {
        match &self.sums[index] {
            Sum::Dense(_) => None,
            Sum::Rows(sums) => sums.merged(),
        }
    }

    /// Which variables are row-sparse: the `number`-th of them.
    pub(super) fn row_sparse(&self, number: usize) -> Option<usize> {
        self.row_sparse.get(number).copied()
    }

    /// Merges `sources` into the gradient of variable `index`, if that is row-sparse: what the last
    /// run contributed, to which what was accumulated comes `with_before`, or else all that there is.
    pub(super) fn merge_rows<'a>(
        &mut self,
        index: usize,
        variable: &Variable,
        sources: impl Iterator<Item = Source<'a>> + Clone,
        with_before: bool,
    ) -> Result<()> {
        match &mut self.sums[index] {
            Sum::Dense(_) => Ok(()),
            Sum::Rows(sums) => sums.merge(with_before, variable, sources, &mut self.workspace),
        }
    }

    /// Lets the last run be one of those before the next, for variable `index`: what was merged of
    /// a row-sparse variable counts, and so does what the memory of another variable holds. Returns
    /// whether the latter did not before, and so is to be overwritten, not added to.
    pub(super) fn claim(&mut self, index: usize) -> bool {
        match &mut self.sums[index] {
            Sum::Dense(sum) => {
                if let Some(Room::Shard(_, counts)) = &mut sum.sum {
                    *counts = 1 - *counts;
                }
                !std::mem::replace(&mut sum.written, true)
            }
            Sum::Rows(sums) => {
                sums.keep();
                false
            }
        }
    }

    /// The sum of variable `index` in host memory, if it was reserved there, to be written. A row-sparse
    /// variable has none here.
    pub(super) fn memory(&self, index: usize) -> Option<&SpanMut<'_>> {
        match &self.sums[index] {
            Sum::Dense(DenseSum { sum: Some(Room::Host(memory)), .. }) => Some(&memory.writing),
            _ => None,
        }
    }

    /// The sum of variable `index`, whose rows come with it if it is row-sparse, if a run wrote it.
    pub(super) fn export(&self, index: usize) -> Result<Option<AccumulatedSum>> {
        let (rows, sum) = match &self.sums[index] {
            Sum::Dense(DenseSum { sum: Some(sum), written: true, .. }) => (None, sum.tensor()?),
            Sum::Rows(sums) if let Some(merged) = sums.kept() => {
                let rows = merged.rows().iter().map(|&row| Ok(row));
                (Some(memory::collect(rows, "row numbers")?), merged.tensor().clone())
            }
            _ => return Ok(None),
        };
        Ok(Some(AccumulatedSum { index, rows, sum: copy_to(&sum, DeviceId::HOST)? }))
    }

    /// Makes all ready for [`Accumulation::import`], of this rank's part where `own_part` has one. Changes
    /// nothing that can be seen.
    pub(super) fn prepare_import(
        &mut self,
        variables: &[Variable],
        from: Vec<AccumulatedSum>,
        own_part: impl Fn(usize) -> Option<Range<usize>>,
    ) -> Result<Vec<PreparedSum>> {
        let prepare = |AccumulatedSum { index, rows, mut sum }| {
            match own_part(index) {
                Some(part) => {
                    self.reserve_shard(index, part.len())?;
                    sum = part_of(&sum, &part)?.reshape(Shape::new(&[1, part.len()])?)?;
                }
                None => self.reserve(index, &variables[index])?,
            }
            Ok(match rows {
                None => PreparedSum::Dense(index, sum),
                Some(rows) => PreparedSum::Rows(index, Merged::of(&variables[index], rows, &sum)?),
            })
        };
        from.into_iter().map(prepare).collect()
    }

    /// Replaces what was accumulated.
    pub(super) fn import(&mut self, runs: u64, weight: f64, from: Vec<PreparedSum>) -> Result<()> {
        self.reset();
        (self.runs, self.weight) = (runs, weight);
        for prepared in from {
            match prepared {
                PreparedSum::Dense(index, value) => {
                    let Sum::Dense(DenseSum { sum: Some(sum), written, .. }) =
                        &mut self.sums[index]
                    else {
                        return Err(Error::Internal("no memory was reserved for a sum".into()));
                    };
                    let sum = sum.tensor()?;
                    // SAFETY: sums are read and written by who has the accumulation alone.
                    unsafe { sum.assume_exclusive() }.copy_from(&value)?;
                    *written = true;
                }
                PreparedSum::Rows(index, merged) => {
                    if let Sum::Rows(sums) = &mut self.sums[index] {
                        sums.put(merged);
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets what was accumulated, and keeps the memory.
    pub(super) fn reset(&mut self) {
        (self.runs, self.weight) = (0, 0.0);
        self.sums.iter_mut().for_each(|sum| match sum {
            Sum::Dense(sum) => sum.written = false,
            Sum::Rows(sums) => sums.reset(),
        });
    }
}
