//! The launcher of variables in host memory: the workers, each with parts of all of them.

#![expect(unsafe_code, reason = "workers write shards of one tensor side by side")]

use std::sync::atomic::AtomicU64;

use crate::error::{Error, Result, memory};
use crate::kernels::instruction_set::Instructions;
use crate::kernels::streaming;
use crate::kernels::update::accumulate::accumulate;
use crate::kernels::update::measure::{Chunks, Squares};
use crate::kernels::update::pass::{Pass, Rows};
use crate::kernels::update::weighted_sum::{Clipping, Contribution};
use crate::observe::{self, Counter};
use crate::optimizer::exchange::Words;
use crate::optimizer::exchange::new_weights::Means;
use crate::optimizer::exchange::shards::Shards;
use crate::optimizer::launcher::{Launcher, Received};
use crate::optimizer::sources::Sources;
use crate::optimizer::variable_states::Variables;
use crate::optimizer::work::Keep;
use crate::optimizer::workspace::{Item, Update, Work};
use crate::tensor::Tensor;

/// Shards of variables start at multiples of this, so that no two workers write one cache line.
const BLOCK: usize = 64;

/// The workers.
pub(super) struct Host;

impl Launcher for Host {
    fn measure(
        &'static self,
        work: &mut Work,
        sources: &mut Sources<'_>,
        keep: Keep,
        look: &mut dyn FnMut(usize, Squares),
    ) -> Result<()> {
        work.pieces.clear();
        let mut chunks = 0;
        for item in &mut work.items {
            // What is divided was measured when it was added up.
            let elements = if item.divided { 0 } else { sources.elements(item.index) };
            let of_variable = Chunks::of(elements);
            item.first_sum = chunks;
            chunks += of_variable.count();
            let variable = &sources.variables()[item.index];
            let mut bytes = sources.gradient_bytes(item.index, variable.dtype());
            // What was exchanged is kept already.
            if !item.divided && !sources.exchanged {
                item.kept = keep == Keep::WherePossible
                    && sources.rows(item.index).is_none()
                    && bytes > 2 * variable.dtype().size()
                    && sources
                        .accumulation
                        .reserve_gradient(item.index, variable, elements)
                        .is_ok();
                if item.kept {
                    bytes += variable.dtype().size();
                }
            }
            work.pieces.push(elements, of_variable.size, bytes);
        }
        let missing = chunks.saturating_sub(work.sums.len());
        memory::room(&mut work.sums, missing, "sums of gradients' squares")?;
        work.sums.resize_with(work.sums.len().max(chunks), || [const { AtomicU64::new(0) }; 2]);

        let Work { items, pieces, sums, contributions, .. } = work;
        let keeps = !sources.exchanged;
        let (sums, sources) = (&sums[..chunks], &*sources);
        let streaming = streaming::pays(pieces.bytes());
        pieces.for_each_share(contributions.len(), &|share| {
            let contributions = &mut *contributions[share.number()].lock();
            for (item, part) in share.parts() {
                let Item { index, first_sum, .. } = items[item];
                sources.collect(index, contributions);
                let kept = sources.accumulation.gradient(index);
                let kept = kept.filter(|_| keeps && items[item].kept);
                let kept = kept.map(|gradient| &gradient.writing);
                let sum = sources.sum(index, contributions);
                let sums = &sums[first_sum..];
                // SAFETY: the gradients are kept in memory of this apply, and of the part here
                // alone.
                unsafe {
                    let part = (Chunks::of(sources.elements(index)), &part);
                    sum.measure_squares(Instructions::chosen(), part, sums, kept, streaming);
                }
            }
        });
        let ends = items.iter().skip(1).map(|item| item.first_sum).chain([chunks]);
        for (item, end) in items.iter().zip(ends) {
            let squares = || Squares::of_chunks(&sums[item.first_sum..end]);
            look(item.index, item.squares.unwrap_or_else(squares));
        }
        Ok(())
    }

    fn sum(&'static self, work: &mut Work, sources: &Sources<'_>) -> Result<()> {
        work.pieces.clear();
        for item in &work.items {
            let rows_are_kept = sources.accumulation.memory(item.index).is_none();
            let elements = if rows_are_kept { 0 } else { sources.elements(item.index) };
            let bytes = sources.gradient_bytes(item.index, sources.variables()[item.index].dtype())
                + size_of::<f64>();
            work.pieces.push(elements, BLOCK, bytes);
        }
        let Work { items, pieces, contributions, .. } = work;
        pieces.for_each_share(contributions.len(), &|share| {
            let contributions = &mut *contributions[share.number()].lock();
            for (item, part) in share.parts() {
                let Item { index, fresh, .. } = items[item];
                let Some(sum) = sources.accumulation.memory(index) else { continue };
                sources.collect(index, contributions);
                // SAFETY: only this apply, which has the accumulation, writes the sums, and the
                // part here alone.
                unsafe { accumulate(Instructions::chosen(), sum, fresh, contributions, part) };
            }
        });
        Ok(())
    }

    fn update(
        &'static self,
        work: &mut Work,
        means: Means<'_>,
        mut received: Received<'_>,
    ) -> Result<()> {
        let Work { items, pieces, contributions, .. } = work;
        let Means { variables, sources, rule, clipping } = means;
        let mut shards = 0;
        let slots = rule.slots().len();
        let passes = Passes { variables, sources, slots, clipping };
        pieces.clear();
        for &mut Item { index, kept, divided, ref mut first_sum, ref mut update, .. } in &mut *items
        {
            let Some(update) = update else {
                // Shares count on one piece for each item.
                pieces.push(0, BLOCK, 0);
                continue;
            };
            let (variable, rows) = (&sources.variables()[index], sources.rows(index));
            update.copies = variable.begin_update(update.buffer, rows.is_none());
            let copies = update.copies.into_iter().filter(|written| *written).count();
            let weights = variables.weights(update.position, update.buffer);
            let state = 2 * (1 + slots) * weights.dtype().size() + copies * size_of::<u16>();
            let gradient = match kept {
                true => weights.dtype().size(),
                false => sources.gradient_bytes(index, weights.dtype()),
            };
            let bytes = gradient + state;
            if divided {
                // Which of the parts it is.
                *first_sum = shards;
                shards += 1;
                pieces.push(variables.extent(update.position).len(), BLOCK, bytes);
                continue;
            }
            match rows {
                Some(rows) => pieces.push(rows.rows().len(), 1, bytes * rows.row_elements()),
                None => pieces.push(weights.elements(), BLOCK, bytes),
            }
            if rule.measures() {
                let contributions = &mut *contributions[0].lock();
                let pass = passes.of(index, kept, update, contributions);
                update.scalars = rule.measure(update.scalars, &pass);
            }
        }
        observe::count(Counter::Updated, || pieces.bytes() as u64);
        let streaming = streaming::pays(pieces.bytes());
        let shards = received.as_deref();
        pieces.for_each_share(contributions.len(), &|share| {
            let contributions = &mut *contributions[share.number()].lock();
            for (item, part) in share.parts() {
                if let (true, Some(shards)) = (items[item].divided, shards) {
                    let (item, at) = (&items[item], items[item].first_sum);
                    // SAFETY: the apply has claimed the variable, and the shares have different parts.
                    unsafe { shards.update_own(at, item, means, part, streaming) };
                    continue;
                }
                let Item { index, kept, update: Some(ref update), ref not_finite, .. } =
                    items[item]
                else {
                    continue;
                };
                let copies =
                    sources.variables()[index].copies_to_write(update.buffer, update.copies);
                let pass = passes.of(index, kept, update, contributions);
                rule.update(
                    &update.scalars,
                    &pass.with_copies(&copies, streaming).noting(not_finite).over(&part),
                );
            }
        });
        if let Some(shards) = &mut received {
            shards.put_weights(items, variables, sources);
        }
        Ok(())
    }

    fn pack(
        &'static self,
        shards: &Shards,
        round: usize,
        sources: &Sources<'_>,
        send: &mut Words,
    ) -> Result<()> {
        shards.pack(round, sources, send);
        Ok(())
    }

    fn write_gradient(
        &'static self,
        sources: &Sources<'_>,
        index: usize,
        to: &Tensor,
    ) -> Result<()> {
        let mut contributions = Vec::new();
        if sources.rows(index).is_none() {
            sources.collect(index, &mut contributions);
        }
        // SAFETY: the tensor was just made, and nobody else has it.
        let span = unsafe { to.assume_exclusive() }.into_view()?.into_span();
        let span = span.ok_or_else(|| Error::Internal("fresh memory is not contiguous".into()))?;
        // SAFETY: as above.
        unsafe { sources.sum(index, &contributions).write_to(Instructions::chosen(), &span) };
        Ok(())
    }
}

/// Makes the passes of one apply.
struct Passes<'a> {
    variables: &'a Variables,
    sources: &'a Sources<'a>,
    /// How many the rule has.
    slots: usize,
    clipping: Clipping,
}

impl Passes<'_> {
    /// The update of variable `index`, whose gradient was `kept`, or is made of what is collected
    /// into `contributions`.
    #[inline(always)]
    fn of<'p>(
        &'p self,
        index: usize,
        kept: bool,
        update: &Update,
        contributions: &'p mut Vec<Contribution<'static>>,
    ) -> Pass<'p> {
        let (weights, slots) = self.variables.operands(update.position, update.buffer, self.slots);
        let (instructions, divisor) = (Instructions::chosen(), self.sources.divisor);
        let gradient = self.sources.accumulation.gradient(index).filter(|_| kept);
        let pass = match (self.sources.rows(index), gradient) {
            (Some(merged), _) => {
                let rows = Rows { numbers: merged.rows(), elements: merged.row_elements() };
                // SAFETY: the strategy has nobody at the variable but this apply, which has claimed
                // it, and parts that are updated side by side have nothing in common.
                unsafe { Pass::at_rows(instructions, weights, slots, rows, merged.sums(), divisor) }
            }
            (None, Some(gradient)) => {
                contributions.clear();
                contributions.push(Contribution { gradient: gradient.reading, factor: 1.0 });
                // SAFETY: as above.
                unsafe { Pass::new(instructions, weights, slots, contributions, 1.0) }
            }
            (None, None) => {
                self.sources.collect(index, contributions);
                // SAFETY: as above.
                unsafe { Pass::new(instructions, weights, slots, contributions, divisor) }
                    .starting_from(self.sources.accumulated(index))
            }
        };
        pass.clipped(self.clipping).with_l2(update.l2)
    }
}
