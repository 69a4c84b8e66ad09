//! A look at the gradient of one variable that an apply would take, over several ranks: they exchange and add
//! up what their replicas have contributed to it as an apply has them do, and use none of it up.

#![expect(unsafe_code, reason = "fresh memory is written before anybody has it")]

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::optimizer::exchange::participation::Participation;
use crate::optimizer::exchange::sent::sums_are_sent;
use crate::optimizer::exchange::shards::{ROUND, Shards};
use crate::optimizer::exchange::sparse_rows::{SparseRows, pack_variable};
use crate::optimizer::gradients::Gradients;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::wire::{Reader, Writer};
use crate::strategy::ranks::{Call, Kind, Ranks, Tell};
use crate::tensor::Tensor;

/// What all ranks together have of one variable.
pub(super) enum Reduced {
    /// Nobody contributed to it.
    Nothing,
    /// The gradient, in host memory.
    Dense(Tensor),
    /// `sources` have the rows.
    Rows,
}

/// Meets the other ranks for a look at variable `index`, of which `sources` have what this rank's replicas
/// have contributed. The loss scale is undone by `unscale`.
///
/// FAILED_PRECONDITION, on all ranks, if all weights are 0, or the ranks do not look at the same.
pub(super) fn reduce(
    ranks: &Ranks,
    gradients: &Gradients,
    sources: &mut Sources<'_>,
    index: usize,
    unscale: f64,
) -> Result<Reduced> {
    let variables = sources.variables();
    let variable = &variables[index];
    let (dtype, shape) = (variable.dtype(), variable.shape());
    let what = format_args!("a look at the gradient of {variable:?}");
    let reduction = format!("{:?}", gradients.loss_reduction());
    let runs = sources.accumulation.runs;
    let quantities = |tell: &mut Tell<'_>| {
        tell(&"the number of variables", variables.len().into());
        tell(&"the variable", variable.name().as_str().into());
        tell(&"its number", index.into());
        tell(&"its type", dtype.name().into());
        tell(&"the type of its gradient", gradients.dtype(index).name().into());
        tell(&"its shape", shape[..].into());
        tell(&"the number of runs that were accumulated", runs.into());
        tell(&"the factor that undoes the loss scale", unscale.into());
        tell(&"the reduction of the losses", reduction.as_str().into());
    };
    let own = Participation::write(sources);
    let call = Call {
        length: own.as_ref().map_or(0, Vec::len),
        ..Call::to(Kind::Gradients, &what).agreeing(&quantities)
    };
    let (mut meeting, own) = ranks.meet(call, own)?;
    let announced = Participation::read(ranks, &meeting.all_gather(&own)?)?;
    drop(meeting);
    sources.weigh(announced.total_weight());
    if sources.total_weight == 0.0 {
        return Err(super::reduced::no_weight());
    }
    match announced.has_variable(index) {
        false => Ok(Reduced::Nothing),
        true if sources.is_row_sparse(index) => rows(ranks, &announced, sources, index),
        true => dense(ranks, &Arc::new(announced), gradients, sources, index),
    }
}

/// Has `sources` have the rows of all ranks.
fn rows(
    ranks: &Ranks,
    announced: &Participation,
    sources: &mut Sources<'_>,
    index: usize,
) -> Result<Reduced> {
    let mut prepare = || {
        if sums_are_sent(ranks, sources) {
            sources.merge_rows_of(index)?;
        }
        let mut to = Writer::default();
        pack_variable(ranks, sources, index, &mut to)?;
        Ok(to.done())
    };
    let own: Result<Vec<u8>> = prepare();
    let call = Call::to(Kind::Gradients, &"the exchange of rows");
    let call = Call { length: own.as_ref().map_or(0, Vec::len), ..call };
    let (mut meeting, own) = ranks.meet(call, own)?;
    let rows = meeting.all_gather(&own)?;
    drop(meeting);
    let (mut touched, mut before) = (SparseRows::default(), 0);
    for ((rank, bytes), of_rank) in rows.iter().enumerate().zip(announced.ranks()) {
        let mut from = Reader::new(rank, bytes);
        touched.unpack_variable(ranks, sources, (index, before), &mut from)?;
        before += of_rank.replicas.len();
    }
    sources.merge_touched_of(index, &touched, ranks.has_fixed_replicas())?;
    Ok(sources.rows(index).map_or(Reduced::Nothing, |_| Reduced::Rows))
}

/// The gradient of a variable that is not row-sparse.
fn dense(
    ranks: &Ranks,
    announced: &Arc<Participation>,
    gradients: &Gradients,
    sources: &Sources<'_>,
    index: usize,
) -> Result<Reduced> {
    let mut memory = gradients.exchange.lock();
    let (send, receive) = memory.buffers();
    let variable = &sources.variables()[index];
    let mut prepare = || {
        let gradient = Tensor::uninitialized(variable.dtype(), variable.shape(), DeviceId::HOST)?;
        // SAFETY: the tensor was just made, and outlives the parts.
        let landing = unsafe { gradient.assume_exclusive().into_view()?.into_span() };
        let landing =
            landing.ok_or_else(|| Error::Internal("fresh memory is not contiguous".into()))?;
        let mut shards = Shards::new(ranks, announced, sources, &[index], ROUND);
        // SAFETY: as above.
        shards.land(|_| Ok(Some(unsafe { landing.part(&(0..landing.elements())).held() })))?;
        shards.reserve(send, receive)?;
        Ok((gradient, shards))
    };
    let call = Call::to(Kind::Gradients, &"the exchange of a gradient");
    let (mut meeting, (gradient, mut shards)) = ranks.meet(call, prepare())?;
    shards.exchange(&mut meeting, sources, (send, receive), true)?;
    Ok(Reduced::Dense(gradient))
}
