//! The memory that applies work in, and the operations of an apply on all of its variables. Each
//! operation enters the worker set once.

use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::apply::device_operands::ReservedMemory;
use crate::apply::factored::{FactoredMemory, MeasuredUpdate};
use crate::apply::launcher::Launcher;
use crate::apply::matrix_steps::{StepMemory, check_matrix};
use crate::apply::plan::TreatmentPlan;
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::exchange::buffers::AlignedBytes;
use crate::exchange::new_weights::put_weights;
use crate::exchange::shards::Shards;
use crate::exchange::slots;
use crate::rules::{Rates, Scalars, UpdateRule, VariableProgress, WeightDecay};
use crate::state::memory::OptimizerMemory;
use crate::state::settings::Settings;
use crate::state::slot_list::SlotList;
use crate::state::variable_states::Variables;
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_executor::pieces::Pieces;
use umbo_executor::workers;
use umbo_kernels::float::real;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::update::chunks::ChunkSums;
use umbo_kernels::update::rounding::Rounding;
use umbo_kernels::update::rules::SUMS;
use umbo_kernels::update::squares::Squares;
use umbo_kernels::update::weighted_sum::{Clipping, Contribution};
use umbo_kernels::view::{Span, SpanMut};
use umbo_strategy::ranks::Ranks;
use umbo_tensor::values::buffer::OfCopies;
use umbo_tensor::values::initial::name_hash;
use umbo_tensor::values::sharding::VariableSharding;
use umbo_tensor::values::variable::Variable;

/// The memory that an apply works in. The next apply uses it again, so that a steady step allocates
/// nothing.
#[derive(Default)]
pub(crate) struct ApplyWorkspace {
    pub(crate) items: Vec<UpdateGroup>,
    /// The value of [`Variable::layout_epoch`] when items of several variables were selected.
    pub(crate) changes: u64,
    pub(crate) pieces: Pieces,
    pub(crate) sums: Vec<ChunkSums<2>>,
    /// The contributions, for each worker, to the variable that it is at.
    pub(crate) contributions: Vec<Mutex<Vec<Contribution<'static>>>>,
    /// Memory of the device that holds the variables, from the apply's preparation to its end.
    pub(crate) ready: Option<ReservedMemory>,
    /// The steps of whole matrices.
    pub(crate) steps: StepMemory,
    /// The sums of updates by factored moments.
    pub(crate) factored: FactoredMemory,
    /// Memory for the exchange of gradients.
    pub(crate) exchange: ExchangeMemory,
}

/// The choices that say which variables an optimizer can update: its rule, the states that this
/// keeps, and whether new weights are rounded where they have 16 bits.
#[derive(Clone, Copy)]
pub(crate) struct KeptBy<'a> {
    pub(crate) rule: &'a dyn UpdateRule,
    pub(crate) list: &'a SlotList,
    pub(crate) rounds: bool,
}

/// The memory that exchanges work in.
#[derive(Default)]
pub(crate) struct ExchangeMemory {
    pub(crate) send: AlignedBytes,
    pub(crate) receive: AlignedBytes,
    /// The sharding of the update, if each rank makes that of its part.
    pub(crate) shards: Option<Shards>,
}

/// One variable of an apply, or several that are updated as one.
#[derive(Default)]
pub(crate) struct UpdateGroup {
    /// The index of its first variable among those of the gradients.
    pub(crate) index: usize,
    /// The number of variables it has. They have the same number of elements, and follow each other
    /// in memory.
    pub(crate) count: usize,
    /// The place where the sums of its chunks are.
    pub(crate) sums: Range<usize>,
    /// Its accumulated sum does not count.
    pub(crate) fresh: bool,
    /// Its gradient, if it was put into host memory when it was measured or exchanged; if it is
    /// divided, this rank's part of it.
    pub(crate) gradient: Option<Span<'static>>,
    /// It is sharded: each rank updates its part. If the gradient was measured, these are the
    /// squares of all parts.
    pub(crate) divided: bool,
    pub(crate) squares: Option<Squares>,
    /// The step of a matrix, or this rank's part of it, if the rule makes steps of whole matrices.
    pub(crate) step: Option<SpanMut<'static>>,
    /// The measurements before an update by factored moments.
    pub(crate) measured: Option<MeasuredUpdate>,
    /// How many bytes an update that has begun in host memory reads and writes for one element.
    pub(crate) cost: usize,
    /// An element of the gradient that was applied is not finite.
    pub(crate) not_finite: AtomicBool,
    /// The prepared update, if there is one.
    pub(crate) update: Option<PreparedUpdate>,
}

impl ApplyWorkspace {
    /// Selects the variables that have a gradient, as `has` says, and that are not frozen. Reserves
    /// all memory except that of sums and states. If `states` are given, small variables that
    /// follow each other in memory, in all operands of an update by `rule`, become one item.
    /// Fails if `rule`, with its states and settings, cannot update a selected variable.
    pub(crate) fn select(
        &mut self,
        sources: &GradientSources<'_>,
        plan: &TreatmentPlan,
        KeptBy { rule, list, rounds }: KeptBy<'_>,
        states: Option<&Variables>,
        has: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let replicas = sources.replicas();
        self.items.clear();
        let workers = workers::count();
        self.contributions
            .resize_with(self.contributions.len().max(workers), Mutex::default);
        for contributions in &mut self.contributions {
            let contributions = contributions.get_mut();
            contributions.clear();
            contributions.reserve(replicas);
        }
        let states = states.filter(|_| rule.is_elementwise());
        self.changes = states.map_or(0, |states| states.changes);
        let alike = |run: &Range<usize>, position| {
            states.is_some_and(|states| states.are_alike(position..position + run.len()))
                && sources.are_alike(run)
        };
        let mut select = |run: Range<usize>| {
            let index = run.start;
            let count = run.len();
            if !has(index) || !plan.updates(index) {
                return Ok(());
            }
            let variable = &sources.variables()[index];
            if rule.measures() && sources.is_row_sparse(index) {
                return Err(needs_all_rows(variable, rule));
            }
            if sources.is_row_sparse(index) && list.codes(variable) {
                return Err(needs_whole_blocks(variable));
            }
            if !rounds && !real::is_supported(variable.dtype()) {
                return Err(needs_rounding(variable));
            }
            check_matrix(variable, rule, sources.is_row_sparse(index))?;
            if rule.matrix_rule().is_some() && !variable.device().is_host_memory() {
                return Err(needs_host_memory(variable, rule));
            }
            self.items.push(UpdateGroup {
                index,
                count,
                ..UpdateGroup::default()
            });
            Ok(())
        };
        plan.runs
            .iter()
            .try_for_each(|run| plan.divide(run.clone(), &alike, &mut select))
    }

    /// Divides the variables whose gradients are not row-sparse among the ranks.
    pub(crate) fn divide(&mut self, sources: &GradientSources<'_>) {
        self.items
            .iter_mut()
            .for_each(|item| item.divided = !sources.is_row_sparse(item.index));
    }

    /// Reserves the state of each variable: of this rank's part, or the whole state if it is
    /// updated by rows. Returns whether a part of a whole state is missing on this rank.
    pub(crate) fn prepare_state(
        &mut self,
        variables: &mut Variables,
        sources: &GradientSources<'_>,
        plan: &mut TreatmentPlan,
    ) -> Result<bool> {
        let mut lacks = false;
        for item in &self.items {
            let variable = &sources.variables()[item.index];
            let position = match item.divided {
                true => variables.known_by_parts(variable)?,
                false => variables.known_or(variable, 0..variable.shape().elements())?,
            };
            lacks |= !item.divided && !variables.state(position).is_whole();
            plan.treatments[item.index].position = Some(position);
        }
        Ok(lacks)
    }

    /// Gathers the whole state of the variables that are updated by rows. A collective call.
    pub(crate) fn gather_row_state(
        &self,
        ranks: &Ranks,
        state: &mut OptimizerMemory,
        plan: &mut TreatmentPlan,
    ) -> Result<()> {
        for item in self.items.iter().filter(|item| !item.divided) {
            let Some(position) = plan.treatments[item.index].position else {
                continue;
            };
            let slots = state
                .variables
                .list()
                .iter()
                .enumerate()
                .map(|(index, slot)| {
                    let variables = &state.variables;
                    let kept = variables.state(position).kept(index, variables.list());
                    slots::whole(ranks, &slot.name, &kept)
                });
            let slots = slots.collect::<Result<Vec<_>>>()?;
            if !state.variables.state(position).is_whole() {
                let elements = state.variables.state(position).elements();
                state.variables.replace(position, 0..elements, &slots)?;
            }
        }
        Ok(())
    }

    /// Takes over the exchanged gradients, and their squares if the ranks have measured them.
    pub(crate) fn take_exchanged(
        &mut self,
        sources: &GradientSources<'_>,
        shards: Shards,
        measured: Option<Vec<[f64; SUMS]>>,
    ) {
        let dense = self
            .items
            .iter_mut()
            .filter(|item| !sources.is_row_sparse(item.index));
        let mut measured = measured.into_iter().flatten();
        for (item, shard) in dense.zip(&shards.items) {
            item.gradient = shard.gradient();
            item.squares = measured.next().map(Squares::of_sums);
        }
        self.exchange.shards = Some(shards).filter(|_| !sources.exchanged);
    }

    /// The positions of the variables that are selected.
    pub(crate) fn indices(&self) -> Vec<usize> {
        self.items.iter().flat_map(UpdateGroup::variables).collect()
    }

    /// How many variables are selected.
    pub(crate) fn len(&self) -> usize {
        self.items.iter().map(|item| item.count).sum()
    }

    /// Makes memory for the sums that [`ApplyWorkspace::accumulate`] adds to.
    pub(crate) fn reserve_sums(&self, sources: &mut GradientSources<'_>) -> Result<()> {
        let variables = sources.variables();
        for &UpdateGroup { index, .. } in &self.items {
            sources.accumulation.reserve(index, &variables[index])?;
        }
        Ok(())
    }

    /// Adds the last run's contributions to the sums, which it claims.
    pub(crate) fn accumulate(
        &mut self,
        launcher: Launcher,
        sources: &mut GradientSources<'_>,
    ) -> Result<()> {
        for item in &mut self.items {
            item.fresh = sources.accumulation.claim(item.index);
        }
        launcher.sum(self, sources)
    }

    /// Prepares the updates of all variables, or, on failure, of none. Prepared updates must be
    /// carried out ([`ApplyWorkspace::update`]) or dropped ([`ApplyWorkspace::drop_updates`]).
    pub(crate) fn prepare(
        &mut self,
        state: &mut OptimizerMemory,
        sources: &GradientSources<'_>,
        plan: &mut TreatmentPlan,
        rule: &dyn UpdateRule,
        learning_rate: f64,
    ) -> Result<()> {
        let settings = state.settings;
        let mut last = None;
        for at in 0..self.items.len() {
            let index = self.items[at].index;
            let variable = &sources.variables()[index];
            let treatment = &mut plan.treatments[index];
            let rates = state.rates(&treatment.group, rule, learning_rate);
            let known = match treatment.position {
                Some(position) => Ok(position),
                None => state.variables.known(variable),
            };
            let update = known.and_then(|position| {
                treatment.position = Some(position);
                prepare_update(
                    &mut state.variables,
                    position,
                    variable,
                    rule,
                    rates,
                    &settings,
                    &mut last,
                )
            });
            match update {
                Ok(update) => {
                    state
                        .variables
                        .set_claimed(update.position, self.items[at].count, true);
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

    /// Drops the prepared updates.
    pub(crate) fn drop_updates(&mut self, variables: &mut Variables) {
        self.ready = None;
        for item in &mut self.items {
            if let Some(update) = item.update.take() {
                variables.set_claimed(update.position, item.count, false);
            }
        }
    }

    /// Carries out the prepared updates. Returns the first variable whose gradient was not finite.
    /// If it fails, weights may be partly written.
    pub(crate) fn update(
        &mut self,
        launcher: Launcher,
        variables: &mut Variables,
        sources: &GradientSources<'_>,
        rule: &dyn UpdateRule,
        clipping: Clipping,
    ) -> Result<Option<usize>> {
        let context = UpdateContext {
            variables,
            sources,
            rule,
            clipping,
        };
        if let Err(error) = launcher.update(self, context) {
            self.drop_updates(variables);
            return Err(error);
        }
        put_weights(&self.items, context);
        let mut found = None;
        for item in &mut self.items {
            let Some(PreparedUpdate {
                position,
                buffer,
                copies,
                scalars,
                ..
            }) = item.update.take()
            else {
                continue;
            };
            if found.is_none() && item.not_finite.load(Ordering::Relaxed) {
                found = item.first_not_finite(sources, clipping);
            }
            let variable = &sources.variables()[item.index];
            if copies.contains(&true) || variable.sends(buffer) {
                variable.end_update(buffer, copies);
            }
            variables.end_update(position, item.count, scalars.running);
        }
        Ok(found)
    }

    /// Fails if another update of a variable that is divided among the ranks is prepared: this
    /// one's new weights are computed before that is carried out.
    pub(crate) fn check_first_updates(&self, sources: &GradientSources<'_>) -> Result<()> {
        let mut divided = self.items.iter().filter(|item| item.divided);
        divided.try_for_each(|item| sources.variables()[item.index].check_first_update())
    }

    /// The device's memory, which was reserved when the apply was prepared.
    pub(super) fn take_ready(&mut self) -> Result<ReservedMemory> {
        let ready = self.ready.take();
        ready.ok_or_else(|| Error::Internal("an apply was not made ready for its device".into()))
    }

    /// Calls `inspect` with the index of each variable and the squares of its gradient, which was
    /// measured.
    pub(crate) fn for_each_squares(&self, mut inspect: impl FnMut(usize, Squares)) {
        for item in &self.items {
            let sums = &self.sums[item.sums.clone()];
            match item.squares {
                Some(squares) => inspect(item.index, squares),
                None if item.count == 1 => inspect(item.index, Squares::of_chunks(sums)),
                // Each variable is one chunk.
                None => item.variables().zip(sums).for_each(|(index, of_variable)| {
                    inspect(index, Squares::of_chunks(slice::from_ref(of_variable)));
                }),
            }
        }
    }
}

impl UpdateGroup {
    /// The elements that an update covers, of `variable` and of the item's other variables.
    pub(crate) fn own(&self, variable: &Variable) -> Range<usize> {
        let sharding = variable.sharding().filter(|_| self.divided);
        sharding.map_or(
            0..self.count * variable.shape().elements(),
            VariableSharding::own,
        )
    }

    /// The indices of its variables.
    pub(crate) fn variables(&self) -> Range<usize> {
        self.index..self.index + self.count
    }

    /// The variables of `items` whose updates were prepared, and these.
    pub(crate) fn prepared(
        items: &[UpdateGroup],
    ) -> impl Iterator<Item = (usize, &PreparedUpdate)> {
        items
            .iter()
            .filter_map(|item| Some((item.index, item.update.as_ref()?)))
    }

    /// The first variable of an item whose gradient is not finite. If the item has several
    /// variables, their gradient still exists.
    fn first_not_finite(&self, sources: &GradientSources<'_>, clipping: Clipping) -> Option<usize> {
        let mut contributions = Vec::new();
        let is_not_finite = |&index: &usize| {
            sources.collect(index, &mut contributions);
            let gradient = sources.sum(index, 1, &contributions).clipped(clipping);
            !gradient.squares(Instructions::chosen()).finite
        };
        if self.count == 1 {
            Some(self.index)
        } else {
            self.variables().find(is_not_finite)
        }
    }
}

/// A prepared update: where the optimizer keeps the variable's state, which of the variable's
/// buffers it writes, which low-precision copies it also writes, and its scalars.
pub(crate) struct PreparedUpdate {
    pub(crate) position: usize,
    pub(crate) buffer: usize,
    /// Set just before the update is carried out.
    pub(crate) copies: OfCopies<bool>,
    pub(crate) l2: f64,
    pub(crate) scalars: Scalars,
    /// The weight of the new weights in the average of weights, if that moves.
    pub(crate) newest: Option<f64>,
    /// How new weights are rounded, if they have 16 bits.
    pub(crate) rounding: Option<Rounding>,
}

/// Prepares an update of a variable, which is not claimed yet. `last` holds the scalars of the
/// variable before: variables that are treated alike have the same scalars.
fn prepare_update(
    variables: &mut Variables,
    position: usize,
    variable: &Variable,
    rule: &dyn UpdateRule,
    rates: Rates,
    settings: &Settings,
    last: &mut Option<(Rates, VariableProgress, Scalars)>,
) -> Result<PreparedUpdate> {
    let buffer = variables.prepare_visible(position)?;
    let progress = variables.progress(position);
    if variables.claimed[position] {
        return Err(Error::precondition(format!(
            "{variable:?}: this optimizer has another apply to it waiting for the commit point; \
             apply to a variable once for each run"
        )));
    }
    let scalars = match last {
        Some((last_rates, last_progress, scalars))
            if (&rates, &progress) == (last_rates, last_progress) =>
        {
            *scalars
        }
        _ => {
            let scalars = rule.prepare(&rates, &progress)?;
            last.insert((rates, progress, scalars)).2
        }
    };
    let l2 = match rule.weight_decay() {
        WeightDecay::L2 => rates.weight_decay,
        WeightDecay::Decoupled => 0.0,
    };
    Ok(PreparedUpdate {
        position,
        buffer,
        copies: OfCopies::default(),
        l2,
        scalars,
        newest: settings
            .averaging
            .and_then(|averaging| averaging.newest(progress.updates)),
        rounding: settings
            .stochastic_rounding
            .filter(|_| !real::is_supported(variable.dtype()))
            .map(|seed| Rounding::new(seed, name_hash(variable.name()), progress.updates)),
    })
}

fn needs_whole_blocks(variable: &Variable) -> Error {
    invalid!(
        "gradients",
        "those of {variable:?} are row-sparse, and this optimizer keeps its states in 8 bits, in \
         blocks that rows do not divide; nothing was changed. Use an optimizer with state_bits 0 \
         for it, or make its gradients without row_sparse"
    )
}

fn needs_rounding(variable: &Variable) -> Error {
    invalid!(
        "optimizer",
        "{variable:?} is bfloat16, and rounding its new weights to the nearest would lose small \
         steps; nothing was changed. Configure the optimizer with stochastic_rounding, or \
         make the variable float32"
    )
}

fn needs_host_memory(variable: &Variable, rule: &dyn UpdateRule) -> Error {
    Error::Unimplemented(format!(
        "{variable:?} is on {}, where {} cannot update it. Make the strategy with \
         parameter_device CPU:0, or take another rule",
        variable.device(),
        rule.name()
    ))
}

fn needs_all_rows(variable: &Variable, rule: &dyn UpdateRule) -> Error {
    invalid!(
        "gradients",
        "those of {variable:?} are row-sparse, and {} needs norms of whole variables; nothing was \
         changed. Use another rule for it, or make its gradients without row_sparse",
        rule.name()
    )
}
