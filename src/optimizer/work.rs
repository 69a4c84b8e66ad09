//! An apply at work: the variables that it is about, and what is done to all of them, each time in
//! one entry of the workers.

#![expect(unsafe_code, reason = "workers write parts of one tensor side by side")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result, memory};
use crate::executor::workers;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::streaming;
use crate::kernels::update::accumulate::accumulate;
use crate::kernels::update::measure::{Chunks, Squares};
use crate::kernels::update::pass::{Pass, Rows};
use crate::kernels::update::rules::SUMS;
use crate::kernels::update::weighted_sum::{Clipping, Contribution};
use crate::observe::{self, Counter};
use crate::optimizer::exchange::Words;
use crate::optimizer::exchange::parts::Parts;
use crate::optimizer::exchange::slots;
use crate::optimizer::exchange::weights::Means;
use crate::optimizer::plan::Plan;
use crate::optimizer::rule::{Rates, Running, Scalars, UpdateRule, WeightDecay};
use crate::optimizer::sources::Sources;
use crate::optimizer::state::State;
use crate::optimizer::variables::Variables;
use crate::optimizer::workspace::{Item, Update, Work};
use crate::strategy::ranks::Ranks;
use crate::values::buffer::OfCopies;
use crate::values::variable::Variable;
use parking_lot::Mutex;

/// Parts of variables start at multiples of this, so that no two workers write one cache line.
const BLOCK: usize = 64;

/// What becomes of gradients that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// They are made again when they are needed again.
    Nothing,
    /// Those that read more than two elements for one are kept, if there is memory: to write them
    /// and read that is less than to read all of it again.
    WherePossible,
}

impl Work {
    /// Selects the variables that a replica wrote in one of the runs (with `accumulated`) or in the
    /// last one, and that are not frozen. Reserves all memory but that of sums and states.
    pub(super) fn select(
        &mut self,
        sources: &Sources<'_>,
        plan: &mut Plan,
        replicas: usize,
        accumulated: bool,
    ) -> Result<()> {
        self.select_where(sources, plan, replicas, |index| match accumulated {
            true => sources.has_variable(index),
            false => sources.contributions.has_variable(index),
        })
    }

    /// Selects the variables that `has` says have a gradient, as [`Work::select`] does.
    pub(super) fn select_where(
        &mut self,
        sources: &Sources<'_>,
        plan: &mut Plan,
        replicas: usize,
        has: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let count = sources.variables().len();
        self.items.clear();
        let shares = workers::count();
        self.contributions.resize_with(self.contributions.len().max(shares), Mutex::default);
        for contributions in &self.contributions {
            let mut contributions = contributions.lock();
            contributions.clear();
            contributions.reserve(replicas);
        }
        for index in 0..count {
            if has(index) && !plan.of_variable(index).group.frozen {
                self.items.push(Item {
                    index,
                    first_sum: 0,
                    fresh: false,
                    kept: false,
                    divided: false,
                    squares: None,
                    not_finite: AtomicBool::new(false),
                    update: None,
                });
            }
        }
        Ok(())
    }

    /// Divides the variables whose gradients are not row-sparse among the ranks.
    pub(super) fn divide(&mut self, sources: &Sources<'_>) {
        for item in &mut self.items {
            item.divided = !sources.is_row_sparse(item.index);
            item.kept = item.divided;
        }
    }

    /// Takes the gradients that all ranks have exchanged as those that are kept.
    pub(super) fn keep_exchanged(&mut self, sources: &Sources<'_>) {
        for item in &mut self.items {
            item.kept = !sources.is_row_sparse(item.index);
        }
    }

    /// Has room for the state of each variable: of this rank's part, or, where it is updated by rows, of
    /// all of it. Returns whether some of the latter is not here.
    pub(super) fn meet_state(
        &mut self,
        variables: &mut Variables,
        sources: &Sources<'_>,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
    ) -> Result<bool> {
        let mut lacks = false;
        for item in &self.items {
            let variable = &sources.variables()[item.index];
            let position = match item.divided {
                true => variables.known_by_parts(variable, rule)?,
                false => variables.known_to_all(variable, rule)?,
            };
            lacks |= !item.divided && !variables.is_whole(position);
            plan.of_variable(item.index).position = Some(position);
        }
        Ok(lacks)
    }

    /// Has all of the state of the variables that are updated by rows. All ranks do it.
    pub(super) fn widen_rows(
        &self,
        ranks: &Ranks,
        state: &mut State,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
    ) -> Result<()> {
        for item in self.items.iter().filter(|item| !item.divided) {
            let Some(position) = plan.of_variable(item.index).position else { continue };
            let slots = rule.slots().iter().enumerate().map(|(index, slot)| {
                slots::whole(ranks, &slot.name, &state.variables.kept(position, index))
            });
            let slots = slots.collect::<Result<Vec<_>>>()?;
            if !state.variables.is_whole(position) {
                state.variables.widen(position, rule, &slots)?;
            }
        }
        Ok(())
    }

    /// Takes what all ranks have measured of the gradients that are divided.
    pub(super) fn take_squares(&mut self, sums: Vec<[f64; SUMS]>) {
        let divided = self.items.iter_mut().filter(|item| item.divided);
        for (item, sums) in divided.zip(sums) {
            item.squares = Some(Squares::of_sums(sums));
        }
    }

    /// How many variables are selected.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The squares of each variable's gradient, with the variable's index.
    pub(super) fn measure(
        &mut self,
        sources: &mut Sources<'_>,
        keep: Keep,
    ) -> Result<impl Iterator<Item = (usize, Squares)> + use<'_>> {
        self.pieces.clear();
        let mut chunks = 0;
        for item in &mut self.items {
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
            self.pieces.push(elements, of_variable.size, bytes);
        }
        let missing = chunks.saturating_sub(self.sums.len());
        memory::room(&mut self.sums, missing, "sums of gradients' squares")?;
        self.sums.resize_with(self.sums.len().max(chunks), || [const { AtomicU64::new(0) }; 2]);

        let Work { items, pieces, sums, contributions, .. } = self;
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
        Ok(items.iter().zip(ends).map(|(item, end)| {
            let squares = || Squares::of_chunks(&sums[item.first_sum..end]);
            (item.index, item.squares.unwrap_or_else(squares))
        }))
    }

    /// Makes memory for the sums that [`Work::accumulate`] adds to.
    pub(super) fn reserve_sums(&self, sources: &mut Sources<'_>) -> Result<()> {
        let variables = sources.variables();
        for &Item { index, .. } in &self.items {
            sources.accumulation.reserve(index, &variables[index])?;
        }
        Ok(())
    }

    /// Adds the last run's contributions to the sums.
    pub(super) fn accumulate(&mut self, sources: &mut Sources<'_>) {
        self.pieces.clear();
        for item in &mut self.items {
            item.fresh = sources.accumulation.claim(item.index);
            let rows_are_kept = sources.accumulation.memory(item.index).is_none();
            let elements = if rows_are_kept { 0 } else { sources.elements(item.index) };
            let bytes = sources.gradient_bytes(item.index, sources.variables()[item.index].dtype())
                + size_of::<f64>();
            self.pieces.push(elements, BLOCK, bytes);
        }
        let Work { items, pieces, contributions, .. } = self;
        let sources = &*sources;
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
    }

    /// Prepares the update of every variable, or, on failure, of none. What is prepared must be
    /// done ([`Work::update`]) or dropped ([`Work::drop_updates`]).
    pub(super) fn prepare(
        &mut self,
        state: &mut State,
        sources: &Sources<'_>,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
        learning_rate: f64,
    ) -> Result<()> {
        let mut last = None;
        for at in 0..self.items.len() {
            let index = self.items[at].index;
            let (variable, treatment) = (&sources.variables()[index], plan.of_variable(index));
            let rates = state.rates(&treatment.group, rule, learning_rate);
            let known = match treatment.position {
                Some(position) => Ok(position),
                None => state.variables.known(variable, rule),
            };
            let update = known.and_then(|position| {
                treatment.position = Some(position);
                prepare_update(&mut state.variables, position, variable, rule, rates, &mut last)
            });
            match update {
                Ok(update) => self.items[at].update = Some(update),
                Err(error) => {
                    self.drop_updates(&mut state.variables);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Drops what was prepared.
    pub(super) fn drop_updates(&mut self, variables: &mut Variables) {
        self.ready = None;
        for update in self.items.iter_mut().filter_map(|item| item.update.take()) {
            variables.at(update.position).release();
        }
    }

    /// Does the updates that were prepared. Returns the first variable whose gradient was not finite.
    pub(super) fn update(
        &mut self,
        variables: &mut Variables,
        sources: &Sources<'_>,
        rule: &dyn UpdateRule,
        clipping: Clipping,
        mut received: Option<(&mut Parts, &Words)>,
    ) -> Option<usize> {
        let Work { items, pieces, contributions, .. } = self;
        let means = Means { variables, sources, rule, clipping };
        let mut parts = 0;
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
                *first_sum = parts;
                parts += 1;
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
        let parts = received.as_ref().map(|(parts, _)| &**parts);
        pieces.for_each_share(contributions.len(), &|share| {
            let contributions = &mut *contributions[share.number()].lock();
            for (item, part) in share.parts() {
                if let (true, Some(parts)) = (items[item].divided, parts) {
                    let (item, at) = (&items[item], items[item].first_sum);
                    // SAFETY: the apply has claimed the variable, and the shares have different parts.
                    unsafe { parts.update_own(at, item, means, part, streaming) };
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
        if let Some((parts, weights)) = &mut received {
            parts.put_weights(items, variables, sources, weights);
        }
        let mut found = None;
        for Item { index, update, not_finite, .. } in items {
            let Some(update) = update.take() else { continue };
            if not_finite.load(Ordering::Relaxed) {
                found.get_or_insert(*index);
            }
            sources.variables()[*index].end_update(update.buffer, update.copies);
            let known = variables.at(update.position);
            known.running = update.scalars.running;
            known.updates += 1;
            known.release();
        }
        found
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

/// Claims a variable for an update. `last` is what the rule made for the variable before: those
/// that are treated alike have the same scalars.
fn prepare_update(
    variables: &mut Variables,
    position: usize,
    variable: &Variable,
    rule: &dyn UpdateRule,
    rates: Rates,
    last: &mut Option<(Rates, Running, Scalars)>,
) -> Result<Update> {
    let known = variables.at(position);
    let buffer = known.meet_visible()?;
    if known.is_claimed() {
        return Err(Error::precondition(format!(
            "{variable:?}: this optimizer has another apply to it waiting for the commit point; \
             apply to a variable once for each run"
        )));
    }
    let scalars = match last {
        Some((of_rates, of_running, scalars))
            if (&rates, &known.running) == (of_rates, of_running) =>
        {
            *scalars
        }
        _ => {
            let scalars = rule.prepare(&rates, &known.running)?;
            last.insert((rates, known.running, scalars)).2
        }
    };
    known.claim();
    let l2 = match rule.weight_decay() {
        WeightDecay::L2 => rates.weight_decay,
        WeightDecay::Decoupled => 0.0,
    };
    Ok(Update { position, buffer, copies: OfCopies::default(), l2, scalars })
}
