//! A look at the gradients that an apply would take, over several ranks: each tells all others what its
//! replicas have contributed to one variable, and all add that up as an apply does.
//!
//! An apply has each rank add up a part of the gradients. A look is for people and for tests, and of one
//! variable: all ranks get everything, and none of what an apply keeps is touched.

#![expect(unsafe_code, reason = "fresh memory is written before anybody has it")]

use crate::device::DeviceId;
use crate::error::{Error, Result, memory};
use crate::executor::pieces::Pieces;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::accumulate::accumulate;
use crate::kernels::update::weighted_sum::{Contribution, WeightedSum};
use crate::kernels::view::Span;
use crate::optimizer::exchange::divisions::{accumulated_here, division_of};
use crate::optimizer::exchange::sent::Sent;
use crate::optimizer::exchange::sums_are_sent;
use crate::optimizer::exchange::touched::{Touched, pack_variable};
use crate::optimizer::gradients::Gradients;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::wire::{Reader, Writer};
use crate::strategy::ranks::{Call, Kind, Ranks, Tell};
use crate::tensor::{DType, Shape, Tensor};

/// What one rank has told of one variable.
struct Told {
    /// Of the runs before the last one, and of each of its replicas in the last one.
    weight_before: f64,
    weights: Vec<f64>,
    /// What all ranks have accumulated of this one's part, in a row, where the number of replicas was chosen.
    before: Option<Tensor>,
    /// Gradients with their factors, in replica order, or their sum; none of a row-sparse variable.
    dense: Vec<(Tensor, f64)>,
}

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
    let runs = sources.accumulation.runs;
    let variable = &sources.variables()[index];
    let (dtype, shape) = (variable.dtype(), variable.shape());
    let wire = sources.gradient_dtype(dtype);
    // As an apply has it, so that the bits are those of the apply.
    let sent = Sent::of_dense(ranks, sources, wire);
    let is_chosen = ranks.has_chosen_replicas();
    let what = format_args!("a look at the gradient of {variable:?}");
    let reduction = format!("{:?}", gradients.loss_reduction());
    let (name, variables) = (variable.name().clone(), sources.variables().len());
    let quantities = |tell: &mut Tell<'_>| {
        tell(&"the number of variables", variables.into());
        tell(&"the variable", name.as_str().into());
        tell(&"its number", index.into());
        tell(&"its type", dtype.name().into());
        tell(&"the type of its gradient", wire.name().into());
        tell(&"its shape", shape[..].into());
        tell(&"the number of runs that were accumulated", runs.into());
        tell(&"the factor that undoes the loss scale", unscale.into());
        tell(&"the reduction of the losses", reduction.as_str().into());
    };
    let own = tell(ranks, sources, index, sent);
    let call = Call {
        length: own.as_ref().map_or(0, Vec::len),
        ..Call::to(Kind::Gradients, &what).agreeing(&quantities)
    };
    let (mut meeting, own) = ranks.meet(call, own)?;
    let told = meeting.all_gather(&own)?;
    drop(meeting);
    let (mut of_ranks, mut touched, mut before) = (Vec::new(), Touched::default(), 0);
    let division = division_of(ranks, sources, index).filter(|_| is_chosen);
    for (rank, bytes) in told.iter().enumerate() {
        let mut from = Reader::new(rank, bytes);
        let part = division.as_ref().map_or(0, |division| division.of(rank).len());
        let of_rank = hear(&mut from, (sent.dtype(), shape), part)?;
        if sources.is_row_sparse(index) {
            touched.unpack_variable(ranks, sources, (index, before), &mut from)?;
        }
        before += of_rank.weights.len();
        of_ranks.push(of_rank);
    }
    let weights = of_ranks.iter().flat_map(|rank| &rank.weights);
    let knowing = if is_chosen { 1 } else { of_ranks.len() };
    let weight = of_ranks.iter().take(knowing).map(|rank| rank.weight_before).sum::<f64>()
        + weights.copied().sum::<f64>();
    if weight == 0.0 {
        return Err(super::reduced::no_weight());
    }
    sources.weigh(weight);
    if sources.is_row_sparse(index) {
        sources.merge_touched_of(index, &touched, is_chosen)?;
        return Ok(sources.rows(index).map_or(Reduced::Nothing, |_| Reduced::Rows));
    }
    let before = put_together(shape, of_ranks.iter().filter_map(|rank| rank.before.as_ref()))?;
    let dense: Vec<_> = of_ranks.iter().flat_map(|rank| &rank.dense).collect();
    if dense.is_empty() && before.is_none() {
        return Ok(Reduced::Nothing);
    }
    let gradient = Tensor::uninitialized(dtype, shape, DeviceId::HOST)?;
    let elements = shape.elements();
    if let (Sent::Sum, Some((first, others))) = (sent, dense.split_first()) {
        let mut sum = first.0.to_vec::<f64>()?;
        for (other, _) in others {
            let other = other.to_vec::<f64>()?;
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        let sum = Tensor::from_slice(&sum, shape, DeviceId::HOST)?;
        let sum = WeightedSum::new(dtype, elements, &[], sources.divisor)
            .starting_from(Some(span_of(&sum)?));
        write(&sum, &gradient)?;
        return Ok(Reduced::Dense(gradient));
    }
    let contributions = dense.into_iter().map(contribution).collect::<Result<Vec<_>>>()?;
    let sum = WeightedSum::new(dtype, elements, &contributions, sources.divisor)
        .starting_from(before.as_ref().map(span_of).transpose()?);
    write(&sum, &gradient)?;
    Ok(Reduced::Dense(gradient))
}

/// The parts of all ranks as one tensor of this shape, if there are any.
fn put_together<'a>(
    shape: Shape,
    parts: impl Iterator<Item = &'a Tensor>,
) -> Result<Option<Tensor>> {
    let (mut all, mut any) = (memory::list(shape.elements(), "elements")?, false);
    for part in parts {
        all.extend(part.to_vec::<f64>()?);
        any = true;
    }
    if any { Tensor::from_slice(&all, shape, DeviceId::HOST).map(Some) } else { Ok(None) }
}

/// What this rank tells of variable `index`.
fn tell(ranks: &Ranks, sources: &mut Sources<'_>, index: usize, sent: Sent) -> Result<Vec<u8>> {
    let mut to = Writer::default();
    to.float(sources.accumulation.weight)?;
    to.number(sources.contributions.count() as u64)?;
    for replica in 0..sources.contributions.count() {
        to.float(sources.contributions.weight(replica))?;
    }
    if sources.is_row_sparse(index) {
        to.number(0)?;
        to.number(0)?;
        if sums_are_sent(ranks, sources) {
            sources.merge_rows_of(index)?;
        }
        pack_variable(ranks, sources, index, &mut to)?;
        return Ok(to.done());
    }
    let of_all = match ranks.has_chosen_replicas() {
        true => accumulated_here(ranks, sources, index)?,
        false => None,
    };
    to.number(of_all.is_some().into())?;
    of_all.iter().try_for_each(|part| to.tensor(part))?;
    let here = sources.contributed_here(index)?;
    if sent != Sent::Sum {
        to.number(here.len() as u64)?;
        for (gradient, factor) in &here {
            to.float(*factor)?;
            to.tensor(gradient)?;
        }
        return Ok(to.done());
    }
    let own = here.iter().map(contribution).collect::<Result<Vec<_>>>()?;
    let before = sources.accumulation.export(index)?.map(|sum| sum.sum);
    if here.is_empty() && before.is_none() {
        to.number(0)?;
        return Ok(to.done());
    }
    let shape = sources.variables()[index].shape();
    let sum = Tensor::uninitialized(DType::Float64, shape, DeviceId::HOST)?;
    if let Some(before) = &before {
        // SAFETY: the tensor was just made, and nobody else has it.
        unsafe { sum.assume_exclusive() }.copy_from(before)?;
    }
    if !own.is_empty() && shape.elements() > 0 {
        let mut pieces = Pieces::default();
        pieces.push(shape.elements(), 1, size_of::<f64>());
        // SAFETY: as above.
        let to = unsafe { sum.assume_exclusive() }.into_view()?.into_span();
        let to = to.ok_or_else(not_contiguous)?;
        pieces.for_each_share(1, &|share| {
            for (_, part) in share.parts() {
                // SAFETY: as above, and there is one share.
                unsafe { accumulate(Instructions::chosen(), &to, before.is_none(), &own, part) };
            }
        });
    }
    to.number(1)?;
    to.float(1.0)?;
    to.tensor(&sum)?;
    Ok(to.done())
}

/// What one rank has told, up to the rows, with gradients `like` that, of which it has accumulated `part`
/// elements.
fn hear(from: &mut Reader<'_>, like: (DType, Shape), part: usize) -> Result<Told> {
    let weight_before = from.float()?;
    let weights = (0..from.count()?).map(|_| from.float()).collect::<Result<_>>()?;
    let before = match from.number()? {
        0 => None,
        _ => Some(from.tensor_like((DType::Float64, Shape::new(&[part])?))?),
    };
    let mut dense = Vec::new();
    for _ in 0..from.count()? {
        let factor = from.float()?;
        dense.push((from.tensor_like(like)?, factor));
    }
    Ok(Told { weight_before, weights, before, dense })
}

fn contribution((gradient, factor): &(Tensor, f64)) -> Result<Contribution<'_>> {
    Ok(Contribution { gradient: span_of(gradient)?, factor: *factor })
}

fn span_of(tensor: &Tensor) -> Result<Span<'_>> {
    tensor.reading()?.span().ok_or_else(not_contiguous)
}

fn write(sum: &WeightedSum<'_>, to: &Tensor) -> Result<()> {
    // SAFETY: the tensor was just made, and nobody else has it.
    let span = unsafe { to.assume_exclusive() }.into_view()?.into_span();
    let span = span.ok_or_else(not_contiguous)?;
    // SAFETY: as above.
    unsafe { sum.write_to(Instructions::chosen(), &span) };
    Ok(())
}

fn not_contiguous() -> Error {
    Error::Internal("fresh memory is not contiguous".into())
}
