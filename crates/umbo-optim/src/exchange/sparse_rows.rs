//! The rows of row-sparse gradients, of all ranks.

#![expect(
    unsafe_code,
    reason = "rows that were received are written where an apply reads them"
)]

use super::participation::Participation;
use super::wire_form::WireForm;
use crate::apply::sources::GradientSources;
use crate::gradients::row_sums::RowSource;
use crate::gradients::rows::ReplicaRows;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_strategy::ranks::Gathered;
use umbo_strategy::ranks::wire::{Reader, Writer};
use umbo_tensor::DType;

/// The rows of all ranks.
pub(super) struct SparseRows(Vec<SentRows>);

/// The rows of one variable that one replica, or all replicas of one rank, contributed.
struct SentRows {
    index: usize,
    /// The global replica id.
    replica: usize,
    rows: ReplicaRows,
    factor: f64,
}

/// Encodes this rank's rows, of the variables for which `chosen` returns true.
pub(super) fn pack(
    sources: &GradientSources<'_>,
    chosen: &dyn Fn(usize) -> bool,
) -> Result<Vec<u8>> {
    let mut to = Writer::default();
    let mut all = sources
        .accumulation
        .row_sparse()
        .filter(|&index| chosen(index));
    all.try_for_each(|index| pack_variable(sources, index, &mut to))?;
    Ok(to.done())
}

/// The form in which the rows of variable `index` are sent.
fn sent(sources: &GradientSources<'_>, index: usize) -> WireForm {
    WireForm::of_rows(
        sources,
        sources.gradient_dtype(sources.variables()[index].dtype()),
    )
}

/// Encodes the rows of variable `index`: each replica's rows unsummed, or the sum of them and of
/// the earlier runs.
fn pack_variable(sources: &GradientSources<'_>, index: usize, to: &mut Writer) -> Result<()> {
    if sent(sources, index) == WireForm::Sum {
        let merged = sources.accumulation.rows(index);
        to.number(u64::from(merged.is_some()))?;
        if let Some(merged) = merged {
            to.number(0)?; // As of its first replica.
            to.float(1.0)?;
            to.number(1)?;
            to.tensor(&merged.indices(DeviceId::HOST)?)?;
            to.tensor(merged.tensor())?;
        }
        return Ok(());
    }
    let writers = || sources.own_rows(index);
    to.number(writers().count() as u64)?;
    for (replica, rows, factor) in writers() {
        to.number(replica as u64)?;
        to.float(factor)?;
        let pieces = rows.pieces();
        to.number(pieces.iter().count() as u64)?;
        for (indices, values) in pieces.iter() {
            to.tensor(indices)?;
            to.tensor(values)?;
        }
    }
    Ok(())
}

impl SparseRows {
    /// Decodes the rows of all ranks, of the variables for which `chosen` returns true.
    pub(super) fn unpack(
        sources: &GradientSources<'_>,
        chosen: &dyn Fn(usize) -> bool,
        participation: &Participation,
        received: &Gathered,
    ) -> Result<SparseRows> {
        let mut rows = SparseRows(Vec::new());
        let mut before = 0;
        for ((rank, bytes), of_rank) in received.iter().enumerate().zip(participation.ranks()) {
            let mut from = Reader::new(rank, bytes);
            for index in sources
                .accumulation
                .row_sparse()
                .filter(|&index| chosen(index))
            {
                rows.unpack_variable(sources, index, before, &mut from)?;
            }
            before += of_rank.replicas.len();
        }
        Ok(rows)
    }

    /// Decodes one rank's rows of variable `index`; the ranks before it have `before` replicas.
    fn unpack_variable(
        &mut self,
        sources: &GradientSources<'_>,
        index: usize,
        before: usize,
        from: &mut Reader<'_>,
    ) -> Result<()> {
        for _ in 0..from.count()? {
            let replica = usize::try_from(from.number()?).ok();
            let replica = replica.and_then(|replica| before.checked_add(replica));
            let replica = replica.ok_or_else(|| from.damaged())?;
            let factor = from.float()?;
            let rows = read_rows(sources, index, sent(sources, index).dtype(), from)?;
            self.0.push(SentRows {
                index,
                replica,
                rows,
                factor,
            });
        }
        Ok(())
    }

    /// The rows of variable `index`, in the order of the replicas.
    pub fn of_variable(&self, index: usize) -> impl Iterator<Item = RowSource<'_>> + Clone {
        let contributions = self
            .0
            .iter()
            .filter(move |contribution| contribution.index == index);
        contributions.map(|contribution| {
            (
                contribution.replica,
                &contribution.rows,
                contribution.factor,
            )
        })
    }
}

/// Decodes the rows that one replica, or one rank, has sent for variable `index`.
fn read_rows(
    sources: &GradientSources<'_>,
    index: usize,
    dtype: DType,
    from: &mut Reader<'_>,
) -> Result<ReplicaRows> {
    let variable = &sources.variables()[index];
    let known = 0..variable.shape()[0] as i64;
    let rows = ReplicaRows::new(DeviceId::HOST, dtype, false);
    for _ in 0..from.count()? {
        let indices = from.tensor()?;
        let values = from.tensor()?;
        let count = values.shape().first().copied().unwrap_or(0);
        let are_rows = values.dtype() == dtype
            && values.shape() == variable.shape().with_size(0, count)
            && (indices.dtype(), &indices.shape()[..]) == (DType::Int64, &[count][..])
            && indices
                .to_vec::<i64>()?
                .iter()
                .all(|row| known.contains(row));
        if !are_rows {
            return Err(from.damaged());
        }
        let added = rows.add(variable, 1, count)?;
        // SAFETY: the rows were just made, and nobody else has them.
        unsafe {
            added.indices.assume_exclusive().copy_from(&indices)?;
            added.values.assume_exclusive().copy_from(&values)?;
        }
    }
    Ok(rows)
}
