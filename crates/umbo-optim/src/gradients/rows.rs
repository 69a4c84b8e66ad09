//! The rows that a replica contributes to the gradient of a row-sparse variable, whose gradients
//! were declared row-sparse.

#![expect(
    unsafe_code,
    reason = "rows that a GPU has are copied for the replica that wrote them"
)]

use crate::gradients::row_buffer::RowBuffer;
use parking_lot::{Mutex, MutexGuard};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::rows::order::{self, NoSuchRow};
use umbo_tensor::red_zone::GuardedMemory;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

/// Rows that a replica adds. It writes them before it submits.
#[derive(Clone, Debug)]
pub struct AddedRows {
    /// The row index of each of `values`: int64, of shape `[rows]`.
    pub indices: Tensor,
    /// The gradients of these rows: of the gradients' dtype, and of the variable's shape except
    /// the number of rows.
    pub values: Tensor,
}

/// The rows that one replica adds to one row-sparse variable in a step, piece by piece. The memory
/// is kept from step to step.
///
/// Only the replica takes the lock until the step is over, and only the apply afterwards.
pub(crate) struct ReplicaRows {
    pieces: Mutex<RowPieces>,
    device: DeviceId,
    dtype: DType,
    /// The strategy is strict: it checks callbacks for mistakes.
    is_strict: bool,
}

#[derive(Default)]
pub(crate) struct RowPieces {
    /// The step that the first `used` pieces are of.
    step: u64,
    used: usize,
    pieces: Vec<RowsPiece>,
}

struct RowsPiece {
    /// The rows in host memory, where an apply reads them.
    indices: RowBuffer,
    values: RowBuffer,
    /// The memory that the replica writes, if it is not what an apply reads: on a GPU, or between
    /// the red zones of strict mode.
    away: Option<AddedRows>,
    /// The red zones of strict mode, around indices and values that the replica writes.
    guards: Option<[GuardedMemory; 2]>,
}

/// A write outside the memory that a replica was given.
pub(crate) struct Outside {
    /// The name of that memory.
    pub(crate) part_name: &'static str,
    /// The number of bytes it has.
    pub(crate) bytes: usize,
    pub(crate) breach: String,
}

/// Indices and values, in words.
const PARTS: [&str; 2] = ["row numbers", "rows"];

impl ReplicaRows {
    /// Pieces of a replica on `device`, with values of type `dtype`.
    pub(crate) fn new(device: DeviceId, dtype: DType, is_strict: bool) -> ReplicaRows {
        ReplicaRows {
            pieces: Mutex::default(),
            device,
            dtype,
            is_strict,
        }
    }

    /// Adds `rows` more rows of `variable` in `step`, for the replica to write.
    pub(crate) fn add(&self, variable: &Variable, step: u64, rows: usize) -> Result<AddedRows> {
        let mut pieces = self.pieces.lock();
        if pieces.step != step {
            (pieces.step, pieces.used) = (step, 0);
        }
        let used = pieces.used;
        if used == pieces.pieces.len() {
            pieces
                .pieces
                .push(RowsPiece::new(variable, self.device, self.dtype)?);
        }
        let piece = &mut pieces.pieces[used];
        let mut added = piece.resize(rows, self.device)?;
        if self.is_strict {
            added = piece.guard(&added)?;
        }
        pieces.used += 1;
        Ok(added)
    }

    /// Keeps as many of the rows that were added in `step` as there are numbers, which become their
    /// indices.
    pub(crate) fn number(&self, step: u64, numbers: &[i64]) -> Result<()> {
        let mut pieces = self.pieces.lock();
        if pieces.step != step {
            (pieces.step, pieces.used) = (step, 0);
        }
        let used = pieces.used;
        let mut rest = numbers;
        for piece in &mut pieces.pieces[..used] {
            let (its, others) = rest.split_at(rest.len().min(piece.indices.tensor().shape()[0]));
            piece.number(its)?;
            rest = others;
        }
        match rest {
            [] => Ok(()),
            _ => Err(Error::Internal(format!(
                "{} row numbers, but only {} rows were added",
                numbers.len(),
                numbers.len() - rest.len()
            ))),
        }
    }

    /// The rows that were added in the last step that added any.
    pub(crate) fn pieces(&self) -> MutexGuard<'_, RowPieces> {
        self.pieces.lock()
    }
}

impl RowPieces {
    /// Indices and values, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Tensor, &Tensor)> {
        let used = self.pieces[..self.used].iter();
        used.map(|piece| (piece.indices.tensor(), piece.values.tensor()))
    }

    /// Forgets what was added, and keeps the memory.
    pub(crate) fn forget(&mut self) {
        self.used = 0;
    }

    /// Copies the written rows to host memory, where an apply reads them.
    pub(crate) fn bring_home(&mut self) -> Result<()> {
        self.pieces[..self.used]
            .iter_mut()
            .try_for_each(RowsPiece::bring_home)
    }

    /// The red zones of strict mode, and the memory that they surround.
    fn guards(&self) -> impl Iterator<Item = (usize, usize, &GuardedMemory)> {
        self.pieces[..self.used].iter().flat_map(|piece| {
            let sizes = [
                piece.indices.tensor().dtype(),
                piece.values.tensor().dtype(),
            ];
            let guards = piece.guards.iter().flatten().enumerate();
            guards.map(move |(part, guard)| (part, sizes[part].size(), guard))
        })
    }

    /// The first write outside the given memory, in strict mode.
    pub(crate) fn breach(&self) -> Result<Option<Outside>> {
        for (part, _, guard) in self.guards() {
            if let Some(breach) = guard.breach()? {
                let part_name = PARTS[part];
                let bytes = guard.region.bytes();
                return Ok(Some(Outside {
                    part_name,
                    bytes,
                    breach,
                }));
            }
        }
        Ok(None)
    }

    /// The first element of the given memory that the replica has not written, in strict mode.
    pub(crate) fn unwritten(&self) -> Result<Option<String>> {
        for (part, size, guard) in self.guards() {
            if let Some(element) = guard.region.first_unwritten(size)? {
                return Ok(Some(format!("element {element} of the {}", PARTS[part])));
            }
        }
        Ok(None)
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.iter().map(|(indices, _)| indices.shape()[0]).sum()
    }

    /// Calls `inspect` with the indices of each piece. If it finds an index that is not a row of
    /// `variable`, the error names replica `replica`.
    pub(crate) fn each_indices(
        &self,
        variable: &Variable,
        replica: usize,
        mut inspect: impl FnMut(&[i64], usize) -> Result<(), NoSuchRow>,
    ) -> Result<()> {
        let rows = variable.shape()[0];
        let mut before = 0;
        for (indices, _) in self.iter() {
            let view = indices.reading()?;
            let indices = view.as_slice::<i64>().ok_or_else(|| {
                Error::Internal(format!("the indices of {variable:?} are not contiguous"))
            })?;
            inspect(indices, rows).map_err(|NoSuchRow { position, index }| {
                let position = before + position;
                out_of_range!(
                    "indices",
                    "{index}, at position {position} of the rows that replica {replica} adds to \
                     {variable:?}, is not in [0, {rows})"
                )
            })?;
            before += indices.len();
        }
        Ok(())
    }

    /// Refuses indices that are not rows of `variable`.
    pub(crate) fn check(&self, variable: &Variable, replica: usize) -> Result<()> {
        self.each_indices(variable, replica, order::check)
    }
}

impl RowsPiece {
    fn new(variable: &Variable, device: DeviceId, dtype: DType) -> Result<RowsPiece> {
        let home = if device.is_host_memory() {
            device
        } else {
            DeviceId::HOST
        };
        let indices = RowBuffer::new(DType::Int64, Shape::new(&[0])?, home)?;
        let values = RowBuffer::new(dtype, variable.shape(), home)?;
        Ok(RowsPiece {
            indices,
            values,
            away: None,
            guards: None,
        })
    }

    /// Sets the number of rows to `rows`, for a replica on `device` to write.
    fn resize(&mut self, rows: usize, device: DeviceId) -> Result<AddedRows> {
        self.indices.resize(rows, rows)?;
        self.values.resize(rows, rows)?;
        let indices = self.indices.tensor();
        let values = self.values.tensor();
        if device.is_host_memory() {
            return Ok(AddedRows {
                indices: indices.clone(),
                values: values.clone(),
            });
        }
        let zeros = |like: &Tensor| Tensor::zeros(like.dtype(), like.shape(), device);
        let added = AddedRows {
            indices: zeros(indices)?,
            values: zeros(values)?,
        };
        self.away = Some(added.clone());
        Ok(added)
    }

    /// Makes the replica write guarded memory instead of `added`; it is copied from there, as from
    /// a GPU.
    fn guard(&mut self, added: &AddedRows) -> Result<AddedRows> {
        let guarded =
            |like: &Tensor| GuardedMemory::tensor(like.dtype(), like.shape(), like.device());
        let (indices, around_indices) = guarded(&added.indices)?;
        let (values, around_values) = guarded(&added.values)?;
        let guarded = AddedRows { indices, values };
        self.away = Some(guarded.clone());
        self.guards = Some([around_indices, around_values]);
        Ok(guarded)
    }

    /// Keeps the first rows, whose indices are these.
    fn number(&mut self, numbers: &[i64]) -> Result<()> {
        let rows = numbers.len();
        let added = self.indices.tensor().shape()[0];
        if let Some(away) = &mut self.away {
            // No element stays unwritten, also of rows that are left out.
            for tensor in [&away.indices, &away.values] {
                let rest = tensor.slice(0, rows, added, 1)?;
                // SAFETY: only the replica uses the buffers until the step is over.
                unsafe { rest.assume_exclusive() }.fill_zeros()?;
            }
            away.indices = away.indices.slice(0, 0, rows, 1)?;
            away.values = away.values.slice(0, 0, rows, 1)?;
        }
        self.indices.resize(rows, added)?;
        self.values.resize(rows, added)?;
        let home = self.indices.tensor();
        let indices = self.away.as_ref().map_or(home, |away| &away.indices);
        // SAFETY: as above; there are as many int64 indices as numbers.
        unsafe {
            let to = indices.assume_exclusive().into_span()?.data();
            let to = to.cast::<i64>();
            to.copy_from_nonoverlapping(numbers.as_ptr(), rows);
        }
        Ok(())
    }

    fn bring_home(&mut self) -> Result<()> {
        let Some(written) = self.away.take() else {
            return Ok(());
        };
        // SAFETY: only the replica uses the buffers until the step is over, and it has just written
        // them.
        unsafe {
            self.indices
                .tensor()
                .assume_exclusive()
                .copy_from(&written.indices)?;
            self.values
                .tensor()
                .assume_exclusive()
                .copy_from(&written.values)
        }
    }
}
