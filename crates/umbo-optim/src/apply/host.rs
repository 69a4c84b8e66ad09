//! The launcher of variables in host memory: workers update parts of all variables.

#![expect(
    unsafe_code,
    reason = "workers write shards of one tensor side by side"
)]

use std::array;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::apply::launcher::{ApplyBackend, Keep};
use crate::apply::sending::{in_chunks, sends};
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, PreparedUpdate, UpdateGroup};
use crate::exchange::buffers::{AlignedBytes, BLOCK, copy};
use crate::exchange::shards::{ReceivedShard, Shards};
use umbo_base::error::{Result, memory};
use umbo_base::observe::{self, Counter};
use umbo_executor::pieces::Pieces;
use umbo_executor::workers;
use umbo_kernels::float::real;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::streaming;
use umbo_kernels::update::accumulate::accumulate;
use umbo_kernels::update::average::Average;
use umbo_kernels::update::chunks::Chunks;
use umbo_kernels::update::eight_bit::STATE_BLOCK;
use umbo_kernels::update::pass::{PassRows, RowGradients, UpdatePass};
use umbo_kernels::update::tiles::MOST_SLOTS;
use umbo_kernels::update::weighted_sum::Contribution;
use umbo_kernels::view::SpanMut;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The workers.
#[derive(Clone, Copy)]
pub(crate) struct CpuBackend;

impl ApplyBackend for CpuBackend {
    fn measure(
        &self,
        work: &mut ApplyWorkspace,
        sources: &mut GradientSources<'_>,
        keep: Keep,
    ) -> Result<()> {
        cut_for_measuring(work, sources, keep)?;
        let ApplyWorkspace {
            items,
            pieces,
            sums,
            contributions,
            ..
        } = work;
        let sums = &*sums;
        let sources = &*sources;
        let streaming = streaming::pays(pieces.bytes());
        pieces.for_each_range(contributions.len(), &|range| {
            let contributions = &mut *contributions[range.worker()].lock();
            for (item, part) in range.parts() {
                let index = items[item].index;
                collect(sources, &items[item], contributions);
                let kept = items[item].gradient.filter(|_| !sources.exchanged);
                let kept = kept.and_then(|_| sources.accumulation.gradient(index));
                let sum = sources.sum(index, items[item].count, contributions);
                let sums = &sums[items[item].sums.clone()];
                // SAFETY: the gradients are kept in this apply's memory, and each range writes only
                // its part.
                unsafe {
                    let kept = kept.and_then(|kept| kept.assume_exclusive().into_span().ok());
                    let chunks = items[item].chunks(sources);
                    sum.measure_squares(
                        Instructions::chosen(),
                        chunks,
                        &part,
                        sums,
                        kept.as_ref(),
                        streaming,
                    );
                }
            }
        });
        Ok(())
    }

    fn sum(&self, work: &mut ApplyWorkspace, sources: &GradientSources<'_>) -> Result<()> {
        work.pieces.clear();
        for item in &work.items {
            let rows_are_kept = sources.accumulation.memory(item.index).is_none();
            let elements = if rows_are_kept {
                0
            } else {
                sources.elements(item.index)
            };
            let bytes = sources.gradient_bytes(item.index, sources.variables()[item.index].dtype())
                + size_of::<f64>();
            work.pieces.push(elements, BLOCK, bytes);
        }
        let ApplyWorkspace {
            items,
            pieces,
            contributions,
            ..
        } = work;
        pieces.for_each_range(contributions.len(), &|range| {
            let contributions = &mut *contributions[range.worker()].lock();
            for (item, part) in range.parts() {
                let UpdateGroup { index, fresh, .. } = items[item];
                let Some(sum) = sources.accumulation.memory(index) else {
                    continue;
                };
                sources.collect(index, contributions);
                // SAFETY: only this apply, which owns the accumulation, writes the sums, and each
                // range writes only its part.
                unsafe {
                    let Ok(sum) = sum.assume_exclusive().into_span() else {
                        continue;
                    };
                    accumulate(Instructions::chosen(), &sum, fresh, contributions, part);
                }
            }
        });
        Ok(())
    }

    fn reserve_update(&self, work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()> {
        work.factored.reserve(&work.items, context)?;
        work.reserve_matrix_steps(context)
    }

    fn update(&self, work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()> {
        work.make_matrix_steps(context);
        let ApplyWorkspace {
            items,
            pieces,
            contributions,
            factored,
            ..
        } = work;
        factored.measure(items, context, contributions[0].get_mut());
        let UpdateContext { sources, rule, .. } = context;
        pieces.clear();
        for item in &mut *items {
            let Some(bytes) = begin_update(item, context, work.changes) else {
                // Shares count on one piece for each item.
                pieces.push(0, BLOCK, 0);
                continue;
            };
            item.cost = bytes;
            push_piece(pieces, sources, item);
            // The ranks have measured all parts of sharded variables.
            if rule.measures() && rule.factors().is_none() && !item.divided {
                let contributions = contributions[0].get_mut();
                let measure = |update: &PreparedUpdate, pass: UpdatePass<'_>| {
                    rule.measure(update.scalars, &pass)
                };
                let measured = with_pass(context, item, contributions, false, measure);
                if let (Some(update), Some(scalars)) = (&mut item.update, measured) {
                    update.scalars = scalars;
                }
            }
        }
        observe::count(Counter::Updated, || pieces.bytes() as u64);
        let streaming = streaming::pays(pieces.bytes());
        let items = &*items;
        let update =
            |pieces: &mut Pieces, item_of: &(dyn Fn(usize) -> usize + Sync)| {
                pieces.for_each_range(contributions.len(), &|range| {
                    let contributions = &mut *contributions[range.worker()].lock();
                    for (at, part) in range.parts() {
                        let item = &items[item_of(at)];
                        with_pass(context, item, contributions, streaming, |update, pass| {
                            match &item.measured {
                                None => rule.update(&update.scalars, &pass.over(&part)),
                                Some(measured) => {
                                    let variable = &sources.variables()[item.index];
                                    measured.run(context, update, variable, &pass.over(&part));
                                }
                            }
                        });
                    }
                });
            };
        match sends(items, sources) {
            true => in_chunks(items, sources, pieces, &update),
            false => update(pieces, &|item| item),
        }
        follow_tables(items, context, pieces);
        Ok(())
    }

    fn pack(
        &self,
        shards: &Shards,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()> {
        shards.pack(round, sources, send);
        Ok(())
    }

    fn scatter(&self, all: &[ReceivedShard<'_>]) -> Result<()> {
        let mut pieces = Pieces::default();
        for ReceivedShard { elements, .. } in all {
            pieces.push(elements.elements(), BLOCK, 2 * elements.dtype().size());
        }
        pieces.for_each_range(workers::count(), &|range| {
            for (at, part) in range.parts() {
                let ReceivedShard {
                    elements,
                    to,
                    first,
                } = &all[at];
                let part = part.range();
                // SAFETY: the old contents were sent and are read no more, and the ranges have
                // different parts.
                unsafe {
                    let Ok(to) = to.assume_exclusive().into_span() else {
                        continue;
                    };
                    copy(
                        elements.part(&part),
                        &to.part(&(first + part.start..first + part.end)),
                    )
                };
            }
        });
        Ok(())
    }

    fn write_gradient(
        &self,
        sources: &GradientSources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()> {
        let mut contributions = Vec::new();
        if sources.rows(index).is_none() {
            sources.collect(index, &mut contributions);
        }
        // SAFETY: the tensor is new, and nobody else has it.
        unsafe {
            let to = to.assume_exclusive().into_span()?;
            sources
                .sum(index, 1, &contributions)
                .write_to(Instructions::chosen(), &to);
        }
        Ok(())
    }
}

/// Cuts the gradients into pieces of which workers measure the squares, and reserves memory for the
/// sums, and for the gradients that are to be kept.
fn cut_for_measuring(
    work: &mut ApplyWorkspace,
    sources: &mut GradientSources<'_>,
    keep: Keep,
) -> Result<()> {
    work.pieces.clear();
    let mut chunks = 0;
    for item in &mut work.items {
        // Sharded gradients were measured when they were added up.
        let of_variable = item.chunks(sources);
        item.sums = chunks..chunks + of_variable.count();
        chunks = item.sums.end;
        let variable = &sources.variables()[item.index];
        let mut bytes = sources.gradient_bytes(item.index, variable.dtype());
        let kept = real::computing(variable.dtype()).size();
        // Exchanged gradients are kept already.
        if item.gradient.is_none()
            && item.count == 1
            && !item.divided
            && keep == Keep::WherePossible
            && sources.rows(item.index).is_none()
            && bytes > 2 * kept
            && sources
                .accumulation
                .reserve_gradient(item.index, variable)
                .is_ok()
        {
            item.gradient = sources.kept(item.index);
            bytes += kept;
        }
        work.pieces
            .push(of_variable.elements, of_variable.size, bytes);
    }
    let missing = chunks.saturating_sub(work.sums.len());
    memory::reserve(&mut work.sums, missing, "sums of gradients' squares")?;
    work.sums.resize_with(work.sums.len().max(chunks), || {
        [const { AtomicU64::new(0) }; 2]
    });
    Ok(())
}

impl UpdateGroup {
    /// How its gradient is cut into chunks when it is measured. It is not cut if the ranks have
    /// measured it when they added it up.
    fn chunks(&self, sources: &GradientSources<'_>) -> Chunks {
        let elements = if self.divided {
            0
        } else {
            sources.elements(self.index)
        };
        match self.count {
            1 => Chunks::of(elements),
            count => Chunks::each(count * elements, elements),
        }
    }
}

/// Moves the averages of the tables of which `items` update rows: those of all rows, since the
/// weights of a row that stay as they are enter its average, too.
fn follow_tables(items: &[UpdateGroup], context: UpdateContext<'_>, pieces: &mut Pieces) {
    let of_table = |item: &UpdateGroup| {
        context.sources.rows(item.index)?;
        let update = item.update.as_ref()?;
        Some((
            context.average(update)?,
            context.operands(update).0.reading(),
        ))
    };
    if !items.iter().any(|item| of_table(item).is_some()) {
        return;
    }
    pieces.clear();
    for item in items {
        let (elements, bytes) = of_table(item).map_or((0, 0), |(_, weights)| {
            (weights.elements(), 3 * weights.dtype().size())
        });
        pieces.push(elements, BLOCK, bytes);
    }
    pieces.for_each_range(workers::count(), &|range| {
        for (item, part) in range.parts() {
            let Some((average, weights)) = of_table(&items[item]) else {
                continue;
            };
            let (values, newest) = average;
            // SAFETY: this apply has claimed the variable, and parts that are written at the same
            // time do not overlap.
            unsafe {
                let values = values.over(weights.elements());
                Average { values, newest }.follow(Instructions::chosen(), weights, part.range());
            }
        }
    });
}

/// Begins the prepared update of an item, if there is one. Returns how many bytes it reads and
/// writes for one element. `changes` is what [`Variable::layout_epoch`] was when the items were
/// selected.
fn begin_update(item: &mut UpdateGroup, context: UpdateContext<'_>, changes: u64) -> Option<usize> {
    let sources = context.sources;
    let all = &sources.variables()[item.variables()];
    let variable = &all[0];
    let update = item.update.as_mut()?;
    if item.count == 1 {
        let is_dense = sources.rows(item.index).is_none();
        update.copies = variable.begin_update(update.buffer, is_dense);
    } else if changes != Variable::layout_epoch() {
        // Low-precision copies that were requested during the update are made again at the next
        // request.
        for variable in all {
            variable.begin_update(update.buffer, true);
        }
    }
    let copies = update.copies.into_iter().filter(|written| *written).count();
    let dtype = variable.dtype();
    let gradient = match (item.gradient, sources.row_gradients(item.index)) {
        (Some(_), _) => real::computing(dtype).size(),
        // The entries are counted.
        (None, Some(RowGradients::Terms(_))) => 0,
        (None, _) => sources.gradient_bytes(item.index, dtype),
    };
    let slots = context.variables.slot_bytes(update.position);
    Some(gradient + 2 * (dtype.size() + slots) + copies * size_of::<u16>())
}

/// Adds the piece of an item whose update has begun: its elements, its rows, or the entries that
/// name rows, if the update adds them up.
pub(super) fn push_piece(pieces: &mut Pieces, sources: &GradientSources<'_>, item: &UpdateGroup) {
    let bytes = item.cost;
    let Some(rows) = sources.rows(item.index) else {
        let variable = &sources.variables()[item.index];
        return pieces.push(item.own(variable).len(), STATE_BLOCK, bytes);
    };
    let all = bytes * rows.elements();
    match sources.row_gradients(item.index) {
        Some(RowGradients::Terms(terms)) => {
            let entries = terms.entries();
            pieces.push(entries, 1, all / entries.max(1) + terms.bytes_of_entry());
        }
        _ => pieces.push(rows.rows().len(), 1, bytes * rows.row_elements()),
    }
}

/// Replaces `contributions` by those of the last run to the variables of an item.
fn collect(
    sources: &GradientSources<'_>,
    item: &UpdateGroup,
    contributions: &mut Vec<Contribution<'static>>,
) {
    sources.collect(item.index, contributions);
    for contribution in contributions.iter_mut().filter(|_| item.count > 1) {
        // SAFETY: the gradients of the item's variables are contiguous in one block: they were
        // selected so.
        contribution.gradient = unsafe {
            contribution
                .gradient
                .over(item.count * contribution.gradient.elements())
        };
    }
}

/// The average of the weights that the update of an item moves, in the pass of `elements` elements
/// that writes them; `None` for a table, of which it updates rows.
///
/// # Safety
/// This apply has claimed the item's variables.
unsafe fn average_of<'a>(
    context: UpdateContext<'a>,
    item: &UpdateGroup,
    update: &PreparedUpdate,
    elements: usize,
) -> Option<Average<'a>> {
    if context.sources.rows(item.index).is_some() {
        return None;
    }
    let (values, newest) = context.average(update)?;
    // SAFETY: the caller's promise; the averages of the variables follow each other in memory.
    let values = unsafe { values.over(elements) };
    Some(Average { values, newest })
}

/// The weights and the slots of an item that has several variables, or a step behind the slots of
/// one. `whole` has the first variable's weights and `of_first` its slots.
///
/// # Safety
/// As for [`SpanMut::over`], for all variables of the item.
unsafe fn operands_over<'a>(
    item: &'a UpdateGroup,
    whole: &'a SpanMut<'a>,
    of_first: &'a [SpanMut<'a>],
    own_range: &Range<usize>,
) -> (SpanMut<'a>, [SpanMut<'a>; MOST_SLOTS]) {
    let behind = item.step.as_ref().unwrap_or(whole);
    // SAFETY: the caller's promise.
    unsafe {
        let weights = match item.count {
            1 => whole.part(own_range),
            _ => whole.over(own_range.len()),
        };
        let slots = array::from_fn(|slot| {
            let first = of_first.get(slot).unwrap_or(behind);
            first.over(own_range.len())
        });
        (weights, slots)
    }
}

/// Calls `run` with the prepared update of an item and its pass over what this process updates of
/// the variable. The operands of the gradient are collected into `contributions`.
#[inline(always)]
pub(crate) fn with_pass<R>(
    context: UpdateContext<'_>,
    item: &UpdateGroup,
    contributions: &mut Vec<Contribution<'static>>,
    streaming: bool,
    run: impl FnOnce(&PreparedUpdate, UpdatePass<'_>) -> R,
) -> Option<R> {
    let index = item.index;
    let update = item.update.as_ref()?;
    let sources = context.sources;
    let variable = &sources.variables()[index];
    let own_range = item.own(variable);
    let (whole, of_first) = context.operands(update);
    let slots: &[SpanMut<'_>];
    let instructions = Instructions::chosen();
    let divisor = sources.divisor;
    let copies = variable.copies_to_write(update.buffer, update.copies);
    // SAFETY: this apply has claimed the variable, so that nobody else uses it, and parts that are
    // updated at the same time do not overlap.
    unsafe {
        let (weights, all_slots);
        (weights, slots) = match (item.count, &item.step) {
            (1, None) => (whole.part(&own_range), of_first),
            (_, step) => {
                let all;
                (all, all_slots) = operands_over(item, whole, of_first, &own_range);
                let count = of_first.len() + usize::from(step.is_some());
                (all, &all_slots[..count])
            }
        };
        let average = average_of(context, item, update, own_range.len());
        let copies = copies.map(|copy| copy.map(|copy| copy.part(&own_range)));
        let copies = copies.each_ref().map(Option::as_ref);
        let rows = sources.rows(index).zip(sources.row_gradients(index));
        let pass = match (rows, item.gradient) {
            (Some((merged, gradients)), _) => {
                let rows = PassRows {
                    numbers: merged.rows(),
                    elements: merged.row_elements(),
                };
                UpdatePass::at_rows(instructions, &weights, slots, rows, gradients, divisor)
            }
            (None, Some(gradient)) => {
                contributions.clear();
                contributions.push(Contribution {
                    gradient: gradient.part(&own_range),
                    factor: 1.0,
                });
                UpdatePass::new(instructions, &weights, slots, contributions, 1.0)
            }
            (None, None) => {
                collect(sources, item, contributions);
                UpdatePass::new(instructions, &weights, slots, contributions, divisor)
                    .starting_from(sources.accumulated(index))
            }
        };
        let pass = pass
            .clipped(context.clipping)
            .with_l2(update.l2)
            .from_element(own_range.start);
        Some(run(
            update,
            pass.with_eight_bit(context.eight_bit(update))
                .with_rounding(update.rounding)
                .with_copies(&copies, streaming)
                .with_average(average.as_ref())
                .noting(&item.not_finite),
        ))
    }
}
