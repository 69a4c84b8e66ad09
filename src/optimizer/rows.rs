//! The rows that a replica contributes to the gradient of a row-sparse variable, whose gradients
//! were declared row-sparse.

#![expect(unsafe_code, reason = "rows that a GPU has are copied for the replica that wrote them")]

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::rows::order::{self, NoSuchRow};
use crate::optimizer::row_buffer::RowBuffer;
use crate::tensor::red_zone::{Breach, GuardedMemory};
use crate::tensor::{DType, Shape, Tensor};
use crate::values::variable::Variable;
use parking_lot::{Mutex, MutexGuard};

/// Rows that a replica adds, to be written until it submits.
#[derive(Clone, Debug)]
pub struct AddedRows {
    /// Which row of the variable each of `values` belongs to: int64, of shape `[rows]`.
    pub indices: Tensor,
    /// The gradients of these rows: of the gradients' dtype, and of the variable's shape but for
    /// the number of rows.
    pub values: Tensor,
}

/// What one replica adds to one row-sparse variable in a step, piece by piece. The memory is kept
/// from step to step.
///
/// The lock is the replica's own until the step is over, and the apply's from then on.
pub(super) struct ReplicaRows {
    pieces: Mutex<Pieces>,
    device: DeviceId,
    dtype: DType,
    /// The strategy looks for mistakes of callbacks.
    is_strict: bool,
}

#[derive(Default)]
pub(super) struct Pieces {
    /// The step that the first `used` pieces are of.
    step: u64,
    used: usize,
    pieces: Vec<Piece>,
}

struct Piece {
    /// In host memory, where an apply reads.
    indices: RowBuffer,
    values: RowBuffer,
    /// Where the replica writes, if an apply reads elsewhere: on a GPU, or between the fences of strict
    /// mode.
    away: Option<AddedRows>,
    /// In strict mode what is around indices and values, where the replica writes them.
    guards: Option<[GuardedMemory; 2]>,
}

/// What a replica has written outside of what it was given.
pub(super) struct Outside {
    /// What that was.
    pub(super) what: &'static str,
    /// How many bytes it has.
    pub(super) bytes: usize,
    pub(super) breach: Breach,
}

/// Indices and values, in words.
const PARTS: [&str; 2] = ["row numbers", "rows"];

impl ReplicaRows {
    /// Of a replica on `device`, with values of type `dtype`.
    pub(super) fn new(device: DeviceId, dtype: DType, is_strict: bool) -> ReplicaRows {
        ReplicaRows { pieces: Mutex::default(), device, dtype, is_strict }
    }

    /// Room for another `rows` rows of `variable` in `step`.
    pub(super) fn add(&self, variable: &Variable, step: u64, rows: usize) -> Result<AddedRows> {
        let mut pieces = self.pieces.lock();
        if pieces.step != step {
            (pieces.step, pieces.used) = (step, 0);
        }
        let used = pieces.used;
        if used == pieces.pieces.len() {
            pieces.pieces.push(Piece::new(variable, self.device, self.dtype)?);
        }
        let piece = &mut pieces.pieces[used];
        let mut added = piece.resize(rows, self.device)?;
        if self.is_strict {
            added = piece.guard(&added)?;
        }
        pieces.used += 1;
        Ok(added)
    }

    /// What was added in the last step that added something.
    pub(super) fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock()
    }
}

impl Pieces {
    /// Indices and values, in the order in which they were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Tensor, &Tensor)> {
        let used = self.pieces[..self.used].iter();
        used.map(|piece| (piece.indices.tensor(), piece.values.tensor()))
    }

    /// Forgets what was added, and keeps the memory.
    pub(super) fn forget(&mut self) {
        self.used = 0;
    }

    /// Brings what was written elsewhere to where an apply reads it.
    pub(super) fn bring_home(&mut self) -> Result<()> {
        self.pieces[..self.used].iter_mut().try_for_each(Piece::bring_home)
    }

    /// What strict mode looks at, and what it is around.
    fn guards(&self) -> impl Iterator<Item = (usize, usize, &GuardedMemory)> {
        self.pieces[..self.used].iter().flat_map(|piece| {
            let sizes = [piece.indices.tensor().dtype(), piece.values.tensor().dtype()];
            let guards = piece.guards.iter().flatten().enumerate();
            guards.map(move |(part, guard)| (part, sizes[part].size(), guard))
        })
    }

    /// What the replica has written outside of what it was given, if strict mode looks.
    pub(super) fn breach(&self) -> Result<Option<Outside>> {
        for (part, _, guard) in self.guards() {
            if let Some(breach) = guard.red_zone.breach()? {
                let (what, bytes) = (PARTS[part], guard.region.bytes());
                return Ok(Some(Outside { what, bytes, breach }));
            }
        }
        Ok(None)
    }

    /// What the replica has not written of what it was given, if strict mode looks.
    pub(super) fn unwritten(&self) -> Result<Option<String>> {
        for (part, size, guard) in self.guards() {
            if let Some(element) = guard.region.first_unwritten(size)? {
                return Ok(Some(format!("element {element} of the {}", PARTS[part])));
            }
        }
        Ok(None)
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.iter().map(|(indices, _)| indices.shape()[0]).sum()
    }

    /// Hands `inspect` the indices of one piece after the other. An index that it finds to be no row
    /// of
    /// `variable` is reported as replica `replica`'s.
    pub(super) fn each_indices(
        &self,
        variable: &Variable,
        replica: usize,
        mut inspect: impl FnMut(&[i64], usize) -> Result<(), NoSuchRow>,
    ) -> Result<()> {
        let (rows, mut before) = (variable.shape()[0], 0);
        for (indices, _) in self.iter() {
            let view = indices.reading()?;
            let indices = view.as_slice::<i64>().ok_or_else(|| {
                Error::Internal(format!("the indices of {variable:?} are not contiguous"))
            })?;
            inspect(indices, rows).map_err(|NoSuchRow { position, index }| {
                let position = before + position;
                Error::out_of_range(
                    "indices",
                    format!(
                        "{index}, at position {position} of the rows that replica {replica} adds to \
                         {variable:?}, is not in [0, {rows})"
                    ),
                )
            })?;
            before += indices.len();
        }
        Ok(())
    }

    /// Refuses indices that are no rows of `variable`.
    pub(super) fn check(&self, variable: &Variable, replica: usize) -> Result<()> {
        self.each_indices(variable, replica, order::check)
    }
}

impl Piece {
    fn new(variable: &Variable, device: DeviceId, dtype: DType) -> Result<Piece> {
        let home = if device.is_host_memory() { device } else { DeviceId::HOST };
        let indices = RowBuffer::new(DType::Int64, Shape::new(&[0])?, home)?;
        let values = RowBuffer::new(dtype, variable.shape(), home)?;
        Ok(Piece { indices, values, away: None, guards: None })
    }

    /// Has `rows` rows from now on, which a replica on `device` writes.
    fn resize(&mut self, rows: usize, device: DeviceId) -> Result<AddedRows> {
        self.indices.resize(rows, rows)?;
        self.values.resize(rows, rows)?;
        let (indices, values) = (self.indices.tensor(), self.values.tensor());
        if device.is_host_memory() {
            return Ok(AddedRows { indices: indices.clone(), values: values.clone() });
        }
        let on_gpu = |like: &Tensor| Tensor::zeros(like.dtype(), like.shape(), device);
        let added = AddedRows { indices: on_gpu(indices)?, values: on_gpu(values)? };
        self.away = Some(added.clone());
        Ok(added)
    }

    /// Has the replica write memory with fences instead of `added`; as on a GPU, it is brought home from
    /// there.
    fn guard(&mut self, added: &AddedRows) -> Result<AddedRows> {
        let guarded =
            |like: &Tensor| GuardedMemory::tensor(like.dtype(), like.shape(), like.device());
        let ((indices, around_indices), (values, around_values)) =
            (guarded(&added.indices)?, guarded(&added.values)?);
        let guarded = AddedRows { indices, values };
        self.away = Some(guarded.clone());
        self.guards = Some([around_indices, around_values]);
        Ok(guarded)
    }

    fn bring_home(&mut self) -> Result<()> {
        let Some(written) = self.away.take() else { return Ok(()) };
        // SAFETY: the buffers are the replica's until the step is over, and it has just written them.
        unsafe {
            self.indices.tensor().assume_exclusive().copy_from(&written.indices)?;
            self.values.tensor().assume_exclusive().copy_from(&written.values)
        }
    }
}
