//! Updates of several ranks: how each comes to the weights that the gradients of all replicas make.
//!
//! Each rank updates its own part of every variable
//! ([`Division`](crate::values::division::Division)), and keeps the state of that part alone. Every rank
//! sends each other its contributions to the other's part, and adds up those to its own with the loop that
//! one process uses, in the order of the replicas; then it updates its part, and all get the weights of all
//! parts. So the bits are those of one process, and each rank sends and receives what a ring would. Where
//! several replicas of a rank together are more than their sum in float64 is, or runs were accumulated, that
//! sum is sent instead. All this goes in rounds, and what comes of it lies where gradients lay that have been
//! sent, so that it takes little memory; an update that fails has used them up. Norms are put together of the sums
//! of tiles, which the ranks tell each other. Of row-sparse gradients the rows that were touched go to all, and all
//! update them.
//!
//! Where a rank has the variables on a GPU, all ranks get the gradients of all parts instead, and each
//! updates everything. Gradients on a GPU go through the host's memory: down in one copy, and those of all
//! ranks up again. Where all ranks have them on GPUs and the engine moves memory of those, they stay there.
//!
//! If the number of all replicas was chosen, the bits must not depend on how they are spread over ranks:
//! contributions are always sent as they are, and ranks exchange them in each run that is accumulated.
//!
//! - `participation`: who has contributed to what. [`divisions`]: how dense gradients are divided. `sent`: what
//!   is sent of them. [`shards`]: in which rounds. `sums`: how they are exchanged and added up; `on_gpu` and
//!   `between_gpus`: the same of what GPUs hold. `new_weights`: the same of weights. `sparse_rows`: rows. [`slots`]:
//!   state that is put together.

mod between_gpus;
pub(super) mod buffers;
pub(super) mod divisions;
mod new_weights;
mod on_gpu;
mod participation;
mod sent;
pub(super) mod shards;
pub(super) mod slots;
mod sparse_rows;
mod sums;

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::optimizer::gradients::Gradients;
use crate::optimizer::launcher::{Keep, Launcher};
use crate::optimizer::launchers::launcher_of;
use crate::optimizer::means::Means;
use crate::optimizer::plan::Plan;
use crate::optimizer::room::Room;
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::Sources;
use crate::optimizer::state::State;
use crate::optimizer::workspace::{Memory, Work};
use crate::strategy::ranks::{
    Call, Gathered, Kind, Meeting, Quantities, Ranks, Tell, agreement, agreement_of,
};
use crate::tensor::Tensor;
use crate::values::variable::Variable;

use participation::Participation;
use sent::sums_are_sent;
use shards::{ROUND, Shards};
use sparse_rows::SparseRows;

/// What all ranks do with their gradients, and what each has announced for it.
pub(super) struct Exchange<'a> {
    ranks: &'a Ranks,
    announced: Arc<Participation>,
    /// All ranks have their variables on GPUs, and the engine moves memory of those.
    between_gpus: bool,
    /// Each rank updates its part; else each updates everything.
    pub divides: bool,
}

impl<'a> Exchange<'a> {
    /// Meets the other ranks to do `what` with `gradients`, of which `sources` are this rank's part, if they are
    /// alike in `further` quantities, too.
    pub fn begin(
        ranks: &'a Ranks,
        gradients: &Gradients,
        sources: &Sources<'_>,
        what: &dyn fmt::Display,
        further: &Quantities<'_>,
    ) -> Result<Exchange<'a>> {
        let gpu = launcher_of(gradients.variables()).map(Launcher::gpu);
        let on_gpu = ranks.moves_memory_of_gpus() && matches!(gpu, Ok(Some(_)));
        let own = Participation::write(sources);
        let runs = sources.accumulation.runs;
        let agreed =
            gradients.agreement.get_or_init(|| agreement_of(&|tell| tell_of(gradients, tell)));
        let quantities = |tell: &mut Tell<'_>| {
            tell_of(gradients, tell);
            tell(&"the number of runs that were accumulated before", runs.into());
            further(tell);
        };
        let call = Call {
            agreement: agreement(&(agreed, runs, agreement_of(further))),
            quantities: &quantities,
            numbers: [u64::from(on_gpu), 0],
            length: own.as_ref().map_or(0, Vec::len),
            ..Call::to(Kind::Gradients, what)
        };
        let (mut meeting, own) = ranks.meet(call, own)?;
        // What chosen replicas have accumulated is in host memory.
        let between_gpus =
            !ranks.has_fixed_replicas() && meeting.numbers().all(|[on_gpu, _]| on_gpu == 1);
        let announced = Arc::new(Participation::read(ranks, &meeting.all_gather(&own)?)?);
        let divides = gradients.variables().iter().all(|variable| variable.division().is_some());
        Ok(Exchange { ranks, announced, between_gpus, divides })
    }

    /// The weight of all replicas' contributions to all runs.
    pub fn total_weight(&self) -> f64 {
        self.announced.total_weight()
    }

    /// The weight of what all replicas have contributed to the last run.
    pub fn weight_of_run(&self) -> f64 {
        self.announced.weight_of_run()
    }

    /// Whether anybody has contributed to variable `index`.
    pub fn has_variable(&self, index: usize) -> bool {
        self.announced.has_variable(index)
    }

    /// What this rank sends of the rows of those variables that are `chosen`.
    fn pack_rows(
        &self,
        sources: &mut Sources<'_>,
        chosen: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<u8>> {
        if sums_are_sent(self.ranks, sources) {
            sources.merge_own_rows(chosen)?;
        }
        sparse_rows::pack(self.ranks, sources, chosen)
    }

    /// Makes the gradients of row-sparse variables of the rows that all ranks have sent.
    fn take_rows(
        &self,
        sources: &mut Sources<'_>,
        chosen: &dyn Fn(usize) -> bool,
        received: &Gathered,
    ) -> Result<()> {
        let (ranks, announced) = (self.ranks, &self.announced);
        let rows = SparseRows::unpack(ranks, sources, chosen, announced, received)?;
        sources.merge_rows(ranks.has_fixed_replicas(), |index| rows.of_variable(index))
    }

    /// Which of the variables `selected` are divided how, and what is sent of them in which round.
    fn shards(&self, sources: &Sources<'_>, selected: &[usize]) -> Shards {
        let round = if self.between_gpus { usize::MAX } else { ROUND };
        Shards::new(self.ranks, &self.announced, sources, selected, round)
    }

    /// Meets the others with what was `prepared`: the rows that are sent, and more.
    fn meet<T>(
        &self,
        what: &'static str,
        numbers: [u64; 2],
        quantities: &Quantities<'_>,
        prepared: Result<(Vec<u8>, T)>,
    ) -> Result<(Meeting<'_>, (Vec<u8>, T))> {
        let length = prepared.as_ref().map_or(0, |(rows, _)| rows.len());
        let call = Call::to(Kind::Gradients, &what).agreeing(quantities);
        self.ranks.meet(Call { numbers, length, ..call }, prepared)
    }

    /// Adds up the gradients of all ranks, each rank those of its part: `work` has that, and [`Sources`] all
    /// rows, from then on; all parts where they are not divided. Selects the variables that are to be updated,
    /// and has room for their state. The squares of the gradients are found out if a rank `measures`.
    pub fn exchange(
        &self,
        sources: &mut Sources<'_>,
        work: &mut Work,
        (state, plan): (&mut State, &mut Plan),
        rule: &dyn UpdateRule,
        launcher: &'static dyn Launcher,
        measures: bool,
    ) -> Result<()> {
        let mut lacks = false;
        let mut prepare = || {
            let rows = self.pack_rows(sources, &|index| plan.updates(index))?;
            work.select(sources, plan, rule, None, |index| self.has_variable(index))?;
            if self.divides {
                work.divide(sources);
                self.check_updating(work, sources)?;
            }
            lacks = work.meet_state(&mut state.variables, sources, plan, rule)?;
            let mut shards = self.shards(sources, &work.indices());
            shards.land(|index| sources.landing(index, self.divides))?;
            if let Some(gpu) = launcher.gpu().filter(|_| self.between_gpus) {
                let buffers = shards.make_ready_on(gpu, sources)?;
                return Ok((rows, (shards, Some(buffers))));
            }
            let Memory { send, receive, scratch, .. } = &mut work.exchange;
            shards.reserve(send, receive)?;
            scratch.reserve()?;
            Ok((rows, (shards, None)))
        };
        let prepared = prepare();
        let quantities = |tell: &mut Tell<'_>| tell_selected(work, plan, sources, tell);
        let numbers = [u64::from(measures), u64::from(lacks)];
        let (mut meeting, (rows, (shards, on_gpu))) =
            self.meet("the exchange of gradients", numbers, &quantities, prepared)?;
        let (any_measures, any_lacks) = meeting
            .numbers()
            .fold((false, false), |any, [one, other]| (any.0 || one != 0, any.1 || other != 0));
        if any_lacks || sources.accumulation.has_row_sparse() {
            // A rank that fails here says so before anything is used up.
            let rows = meeting.all_gather(&rows)?;
            drop(meeting);
            let mut take = || {
                self.take_rows(sources, &|index| plan.updates(index), &rows)?;
                if any_lacks { work.widen_rows(self.ranks, state, plan, rule) } else { Ok(()) }
            };
            let call = Call::to(Kind::Gradients, &"the exchange of dense gradients");
            (meeting, ()) = self.ranks.meet(call, take())?;
        }
        sources.spend();
        let Memory { send, receive, .. } = &mut work.exchange;
        match on_gpu {
            Some(buffers) => shards.exchange_between_gpus(&mut meeting, sources, buffers)?,
            None => {
                let memory = (&mut *send, &mut *receive);
                shards.exchange(&mut meeting, sources, launcher, memory, !self.divides)?;
            }
        }
        let measured = match any_measures && self.divides {
            true => Some(shards.total_sums(&mut meeting, send, receive)?),
            false => None,
        };
        sources.exchanged = !self.divides;
        work.take_exchanged(sources, shards, measured);
        Ok(())
    }

    /// Has this rank compute the weights of its part, and all ranks know those of all parts. `prepared` is
    /// whether this rank can, and `options` gives what the update is made with, which is the same on all.
    pub fn exchange_weights(
        &self,
        prepared: Result<()>,
        work: &mut Work,
        means: Means<'_>,
        launcher: &'static dyn Launcher,
        options: &dyn Fn(&Work, &mut Tell<'_>),
    ) -> Result<()> {
        let quantities = |tell: &mut Tell<'_>| options(work, tell);
        let call = Call::to(Kind::Gradients, &"the exchange of new weights").agreeing(&quantities);
        let (mut meeting, ()) = self.ranks.meet(call, prepared)?;
        let Work { items, exchange: Memory { send, receive, scratch, shards }, .. } = work;
        let none = || Error::Internal("no gradients were exchanged".into());
        let shards = shards.as_ref().ok_or_else(none)?;
        if means.rule.measures() {
            shards.measure(&mut meeting, items, means, (send, receive))?;
        }
        let memory = (send, receive, &*scratch);
        shards.exchange_weights(&mut meeting, items, means, launcher, memory)?;
        drop(meeting);
        let keys = items.iter().map(|item| means.sources.variables()[item.index].key());
        self.ranks.updating().extend(keys);
        Ok(())
    }

    /// Prepares to accumulate what all replicas of all ranks have contributed to the last run, which is
    /// done when they are claimed. Selects the variables that it is about. With `find_not_finite`, the
    /// first variable whose gradient would not be finite.
    pub fn accumulate(
        &self,
        sources: &mut Sources<'_>,
        work: &mut Work,
        plan: &Plan,
        rule: &dyn UpdateRule,
        launcher: &'static dyn Launcher,
        find_not_finite: bool,
    ) -> Result<Option<usize>> {
        let has = |index| self.announced.has_variable_of_run(index);
        let mut prepare = || {
            let rows = self.pack_rows(sources, &|index| plan.updates(index))?;
            work.select(sources, plan, rule, None, has)?;
            let mut shards = self.shards(sources, &work.indices());
            let Memory { send, receive, .. } = &mut work.exchange;
            shards.reserve_next(sources, send, receive)?;
            Ok((rows, shards))
        };
        let prepared = prepare();
        let quantities = |tell: &mut Tell<'_>| tell_selected(work, plan, sources, tell);
        let (mut meeting, (rows, shards)) =
            self.meet("the accumulation of gradients", [0; 2], &quantities, prepared)?;
        let rows = meeting.all_gather(&rows)?;
        let Memory { send, receive, .. } = &mut work.exchange;
        shards.accumulate(&mut meeting, sources, launcher, (send, receive))?;
        drop(meeting);
        self.take_rows(sources, &|index| plan.updates(index), &rows)?;
        if !find_not_finite {
            return Ok(None);
        }
        let dense = shards.not_finite(sources);
        // Rows are those of all ranks already, and are measured as one process measures them.
        let is_row_sparse = |index| has(index) && sources.is_row_sparse(index);
        work.select(sources, plan, rule, None, is_row_sparse)?;
        let mut rows = None;
        launcher.measure(work, sources, Keep::Nothing, &mut |index, squares| {
            if !squares.finite {
                rows.get_or_insert(index);
            }
        })?;
        work.select(sources, plan, rule, None, has)?;
        Ok(dense.into_iter().chain(rows).min())
    }

    /// The gradient of variable `index`, if it is not row-sparse; else [`Sources`] have its rows from then on.
    /// Nothing is used up.
    pub fn look(&self, sources: &mut Sources<'_>, index: usize) -> Result<Option<Tensor>> {
        let chosen = |other: usize| other == index;
        let variable = &sources.variables()[index];
        let Memory { mut send, mut receive, .. } = Memory::default();
        let mut prepare = || {
            let rows = self.pack_rows(sources, &chosen)?;
            let (ranks, announced) = (self.ranks, &self.announced);
            let mut shards = Shards::new(ranks, announced, sources, &[index], ROUND);
            let (dtype, shape, device) = (variable.dtype(), variable.shape(), variable.device());
            shards.land(|_| Tensor::uninitialized(dtype, shape, device))?;
            shards.reserve(&mut send, &mut receive)?;
            Ok((rows, (shards, launcher_of(sources.variables())?)))
        };
        let (mut meeting, (rows, (shards, launcher))) =
            self.meet("the exchange of a gradient", [0; 2], &|_| {}, prepare())?;
        if sources.is_row_sparse(index) {
            let rows = meeting.all_gather(&rows)?;
            drop(meeting);
            self.take_rows(sources, &chosen, &rows)?;
            return Ok(None);
        }
        shards.exchange(&mut meeting, sources, launcher, (&mut send, &mut receive), true)?;
        let landing = shards.items.first().and_then(|item| item.landing.as_ref());
        Ok(landing.map(Room::tensor).cloned())
    }

    /// Refuses variables whose weights will change before this update is carried out: the ranks would
    /// exchange what is made of the weights before that.
    fn check_updating(&self, work: &Work, sources: &Sources<'_>) -> Result<()> {
        let updating = self.ranks.updating();
        let variables = work.items.iter().map(|item| &sources.variables()[item.index]);
        match variables.clone().find(|variable| updating.contains(&variable.key())) {
            Some(variable) => Err(Error::precondition(format!(
                "{variable:?}: another apply to it waits for the same commit point, and with several \
                 ranks there can be one; do the second apply after the run"
            ))),
            None => Ok(()),
        }
    }
}

/// Lets the variables of an update, which was carried out or dropped, be updated by others.
pub(super) fn forget_updating(ranks: &Ranks, work: &Work, variables: &[Variable]) {
    let mut updating = ranks.updating();
    for item in &work.items {
        let key = variables[item.index].key();
        if let Some(at) = updating.iter().position(|known| *known == key) {
            updating.swap_remove(at);
        }
    }
}

/// Which variables are frozen and which are selected: a rank that has frozen others would send other bytes.
fn tell_selected(work: &Work, plan: &Plan, sources: &Sources<'_>, tell: &mut Tell<'_>) {
    for (index, variable) in sources.variables().iter().enumerate() {
        let frozen = !plan.updates(index);
        tell(&format_args!("whether '{}' is frozen", variable.name()), frozen.into());
    }
    for item in &work.items {
        let name = sources.variables()[item.index].name();
        tell(&"the next variable that is updated", name.as_str().into());
    }
}

/// What must be the same on all ranks of their gradients.
fn tell_of(gradients: &Gradients, tell: &mut Tell<'_>) {
    tell(&"the number of variables", gradients.variables().len().into());
    for (index, variable) in gradients.variables().iter().enumerate() {
        let name = variable.name();
        tell(&format_args!("the name of variable {index}"), name.as_str().into());
        tell(&format_args!("the type of '{name}'"), variable.dtype().name().into());
        let dtype = gradients.dtype(index);
        tell(&format_args!("the type of the gradient of '{name}'"), dtype.name().into());
        tell(&format_args!("the shape of '{name}'"), variable.shape()[..].into());
        let shards = variable.division().map(|division| division.boundaries());
        tell(&format_args!("where '{name}' is divided"), shards.into());
        let is_row_sparse = gradients.is_row_sparse(index);
        tell(&format_args!("whether the gradient of '{name}' is row-sparse"), is_row_sparse.into());
    }
    let reduction = format!("{:?}", gradients.loss_reduction());
    tell(&"the reduction of the losses", reduction.as_str().into());
    tell(&"the number of accumulation steps", gradients.accumulation_steps().into());
}
