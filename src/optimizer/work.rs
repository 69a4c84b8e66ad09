//! An apply at work: the variables that it is about, and what is done to all of them, each time in
//! one entry of the workers.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::executor::workers;
use crate::kernels::instruction_set::Instructions;
use crate::kernels::update::measure::Squares;
use crate::kernels::update::rules::SUMS;
use crate::kernels::update::weighted_sum::Clipping;
use crate::optimizer::exchange::shards::Shards;
use crate::optimizer::exchange::slots;
use crate::optimizer::launcher::Launcher;
use crate::optimizer::means::Means;
use crate::optimizer::plan::Plan;
use crate::optimizer::rule::{Rates, Running, Scalars, UpdateRule, WeightDecay};
use crate::optimizer::sources::Sources;
use crate::optimizer::state::State;
use crate::optimizer::variable_states::{VariableState, Variables};
use crate::optimizer::workspace::{Item, Update, Work};
use crate::strategy::ranks::Ranks;
use crate::values::buffer::OfCopies;
use crate::values::variable::Variable;
use parking_lot::Mutex;

impl Work {
    /// Selects the variables that `has` says have a gradient, and that are not frozen. Reserves all memory but
    /// that of sums and states. Of small variables that follow each other in memory, in all that an update by
    /// `rule` reads and writes, one item is made, if their `states` are given. Fails if a row-sparse one is not to
    /// be updated by `rule`.
    pub(super) fn select(
        &mut self,
        sources: &Sources<'_>,
        plan: &Plan,
        rule: &dyn UpdateRule,
        states: Option<&Variables>,
        has: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let replicas = sources.replicas();
        self.items.clear();
        let shares = workers::count();
        self.contributions.resize_with(self.contributions.len().max(shares), Mutex::default);
        for contributions in &self.contributions {
            let mut contributions = contributions.lock();
            contributions.clear();
            contributions.reserve(replicas);
        }
        let is_elementwise = rule.is_elementwise();
        let follows = |index| {
            is_elementwise
                && sources.follow(index)
                && plan
                    .follows(index)
                    .is_some_and(|position| states.is_some_and(|states| states.follows(position)))
        };
        for (index, variable) in sources.variables().iter().enumerate() {
            let last = self.items.last_mut().filter(|last| last.variables().end == index);
            if let Some(last) = last.filter(|_| follows(index)) {
                last.count += 1;
                continue;
            }
            if !has(index) || !plan.updates(index) {
                continue;
            }
            if rule.measures() && sources.is_row_sparse(index) {
                return Err(needs_all_rows(variable, rule));
            }
            self.items.push(Item { index, count: 1, ..Item::default() });
        }
        Ok(())
    }

    /// Divides the variables whose gradients are not row-sparse among the ranks.
    pub(super) fn divide(&mut self, sources: &Sources<'_>) {
        self.items.iter_mut().for_each(|item| item.divided = !sources.is_row_sparse(item.index));
    }

    /// Has room for the state of each variable: of this rank's part, or, where it is updated by rows, of
    /// all of it. Returns whether some of the latter is not here.
    pub(super) fn prepare_state(
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
    pub(super) fn gather_row_state(
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
                state.variables.gather_state(position, rule, &slots)?;
            }
        }
        Ok(())
    }

    /// Takes what the ranks have exchanged, and what they have measured of it, if they did.
    pub(super) fn take_exchanged(
        &mut self,
        sources: &Sources<'_>,
        shards: Shards,
        measured: Option<Vec<[f64; SUMS]>>,
    ) {
        let dense = self.items.iter_mut().filter(|item| !sources.is_row_sparse(item.index));
        let mut measured = measured.into_iter().flatten();
        for (item, shard) in dense.zip(&shards.items) {
            item.gradient = shard.gradient();
            item.squares = measured.next().map(Squares::of_sums);
        }
        self.exchange.shards = Some(shards).filter(|_| !sources.exchanged);
    }

    /// Which variables are selected.
    pub(super) fn indices(&self) -> Vec<usize> {
        self.items.iter().flat_map(Item::variables).collect()
    }

    /// How many variables are selected.
    pub(super) fn len(&self) -> usize {
        self.items.iter().map(|item| item.count).sum()
    }

    /// Makes memory for the sums that [`Work::accumulate`] adds to.
    pub(super) fn reserve_sums(&self, sources: &mut Sources<'_>) -> Result<()> {
        let variables = sources.variables();
        for &Item { index, .. } in &self.items {
            sources.accumulation.reserve(index, &variables[index], None)?;
        }
        Ok(())
    }

    /// Has the sums count to which the last run's contributions are added, or are already, if they `are_made`.
    pub(super) fn accumulate(
        &mut self,
        launcher: &'static dyn Launcher,
        sources: &mut Sources<'_>,
        are_made: bool,
    ) -> Result<()> {
        for item in &mut self.items {
            item.fresh = sources.accumulation.claim(item.index);
        }
        if are_made { Ok(()) } else { launcher.sum(self, sources) }
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
                Ok(update) => {
                    let all = state.variables.run(update.position, self.items[at].count);
                    all.iter_mut().skip(1).for_each(VariableState::claim);
                    self.items[at].update = Some(update);
                }
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
        for item in &mut self.items {
            if let Some(update) = item.update.take() {
                let all = variables.run(update.position, item.count);
                all.iter_mut().for_each(VariableState::release);
            }
        }
    }

    /// Does the updates that were prepared. Returns the first variable whose gradient was not finite. If it
    /// fails, weights may have been written by halves.
    pub(super) fn update(
        &mut self,
        launcher: &'static dyn Launcher,
        variables: &mut Variables,
        sources: &Sources<'_>,
        (rule, clipping): (&dyn UpdateRule, Clipping),
    ) -> Result<Option<usize>> {
        launcher.update(self, Means { variables, sources, rule, clipping })?;
        let mut found = None;
        for item in &mut self.items {
            let Some(Update { position, buffer, copies, scalars, .. }) = item.update.take() else {
                continue;
            };
            if found.is_none() && item.not_finite.load(Ordering::Relaxed) {
                found = item.first_not_finite(sources, clipping);
            }
            let all = variables.run(position, item.count).iter_mut();
            for (variable, known) in sources.variables()[item.variables()].iter().zip(all) {
                variable.end_update(buffer, copies);
                known.running = scalars.running;
                known.updates += 1;
                known.release();
            }
        }
        Ok(found)
    }
}

impl Item {
    /// The first variable whose gradient, which is there still if there are several, is not finite.
    fn first_not_finite(&self, sources: &Sources<'_>, clipping: Clipping) -> Option<usize> {
        let mut contributions = Vec::new();
        let is_not_finite = |&index: &usize| {
            sources.collect(index, &mut contributions);
            let gradient = sources.sum(index, 1, &contributions).clipped(clipping);
            !gradient.squares(Instructions::chosen()).finite
        };
        if self.count == 1 { Some(self.index) } else { self.variables().find(is_not_finite) }
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
    let buffer = known.prepare_visible()?;
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

fn needs_all_rows(variable: &Variable, rule: &dyn UpdateRule) -> Error {
    Error::invalid(
        "gradients",
        format!(
            "those of {variable:?} are row-sparse, and {} needs norms of whole variables; nothing was \
             changed. Use another rule for it, or make its gradients without row_sparse",
            rule.name()
        ),
    )
}
