//! Updates of several ranks: how each comes to the weights that the gradients of all replicas make.
//!
//! Each rank updates its own part of every variable
//! ([`Division`](crate::values::division::Division)), and keeps the state of that part alone. Every rank
//! sends each other its contributions to the other's part, and adds up those to its own with the loop that
//! one process uses, in the order of the replicas; then it updates its part, and all get the weights of all
//! parts. So the bits are those of one process, and each rank sends and receives what a ring would. Where
//! several replicas of a rank together are more than their sum in float64 is, or runs were accumulated, that
//! sum is sent instead. All this goes in rounds, and what comes of it lies where gradients lay that have been
//! sent, so that it takes little memory; an update that fails has used them up. Norms are put together of the sums of tiles, which the ranks tell each other. Of
//! row-sparse gradients the rows that were touched go to all, and all update them.
//!
//! Where a rank has the variables on a GPU, all ranks get the gradients of all parts instead, and each
//! updates everything. Gradients on a GPU go through the host's memory: down in one copy, and those of all
//! ranks up again. Where all ranks have them on GPUs and the engine moves memory of those, they stay there.
//!
//! If the number of all replicas was chosen, the bits must not depend on how they are spread over ranks:
//! contributions are always sent as they are, and ranks exchange them in each run that is accumulated.
//!
//! - [`participation`]: who has contributed to what. [`divisions`]: how dense gradients are divided. [`sent`]: what
//!   is sent of them. [`shards`]: how they are exchanged. [`new_weights`]: the same of weights. [`sparse_rows`]: rows.
//!   [`slots`]: state that is put together.

mod buffers;
pub(super) mod divisions;
pub(super) mod new_weights;
pub(super) mod participation;
pub(super) mod sent;
pub(super) mod shards;
pub(super) mod slots;
pub(super) mod sparse_rows;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::optimizer::gradients::Gradients;
use crate::optimizer::host::Host;
use crate::optimizer::launcher::Launcher;
use crate::optimizer::plan::Plan;
use crate::optimizer::report::ApplyOptions;
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::Sources;
use crate::optimizer::state::State;
use crate::optimizer::work::Keep;
use crate::optimizer::workspace::Work;
use crate::strategy::Strategy;
use crate::strategy::ranks::{Call, Kind, Ranks, Tell, agreement, agreement_of};
use crate::values::variable::Variable;

pub(super) use buffers::Words;
use new_weights::{Means, Scratch};
use participation::Participation;
use sent::sums_are_sent;
use shards::between_gpus::Buffers;
use shards::{ROUND, Shards};
use sparse_rows::SparseRows;

/// What exchanges work in, kept from update to update.
#[derive(Default)]
pub(super) struct Memory {
    send: Words,
    receive: Words,
    touched: SparseRows,
    scratch: Scratch,
    /// How the variables of the last update were divided.
    shards: Option<Shards>,
    /// What all ranks' gradients must have in common.
    agreement: Option<u64>,
}

/// The ranks of the strategy `strategy`, if there are several.
pub(super) fn ranks_of(strategy: u64) -> Option<Arc<Ranks>> {
    Strategy::with_id(strategy).and_then(|strategy| strategy.ranks().cloned())
}

/// An update that all ranks make, and what each has announced for it.
pub(super) struct Exchange<'a> {
    ranks: &'a Ranks,
    announced: Arc<Participation>,
    /// All ranks have their variables on GPUs, and the engine moves memory of those.
    between_gpus: bool,
    /// Each rank updates its part; else each updates everything.
    pub divides: bool,
}

impl<'a> Exchange<'a> {
    /// Meets the other ranks for an update of `gradients`, of which `sources` are this rank's part.
    pub fn begin(
        ranks: &'a Ranks,
        gradients: &Gradients,
        sources: &Sources<'_>,
        options: ApplyOptions,
    ) -> Result<Exchange<'a>> {
        let on_gpu = ranks.moves_memory_of_gpus() && matches!(sources.gpu(), Ok(Some(_)));
        let own = Participation::write(sources);
        let runs = sources.accumulation.runs;
        let agreed = *gradients
            .exchange
            .lock()
            .agreement
            .get_or_insert_with(|| agreement_of(&|tell| tell_of(gradients, tell)));
        let what =
            format_args!("an update by gradients of {} variables", gradients.variables().len());
        let quantities = |tell: &mut Tell<'_>| {
            tell_of(gradients, tell);
            tell(&"the number of runs that were accumulated before", runs.into());
            tell(&"the option flush of the apply", options.flush.into());
            tell(&"the option measure_norm of the apply", options.measure_norm.into());
        };
        let call = Call {
            agreement: agreement(&(agreed, runs, options.number())),
            quantities: &quantities,
            numbers: [u64::from(on_gpu), 0],
            length: own.as_ref().map_or(0, Vec::len),
            ..Call::to(Kind::Gradients, &what)
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

    /// Adds up the gradients of all ranks, each rank those of its part: [`Sources`] has that, and all rows,
    /// from then on; all parts where they are not divided. Selects the variables that are to be updated,
    /// and has room for their state. The squares of the gradients are found out if a rank `measures`.
    pub fn exchange(
        &self,
        sources: &mut Sources<'_>,
        work: &mut Work,
        (state, plan): (&mut State, &mut Plan),
        rule: &dyn UpdateRule,
        memory: &mut Memory,
        measures: bool,
    ) -> Result<()> {
        let Memory { send, receive, touched, scratch, shards, .. } = memory;
        let mut lacks = false;
        let mut prepare = || {
            if sums_are_sent(self.ranks, sources) {
                sources.merge_rows(plan, rule)?;
            }
            let rows = sparse_rows::pack(self.ranks, sources, plan)?;
            let has = |index| self.announced.has_variable(index);
            work.select_where(sources, plan, self.ranks.replicas()[self.ranks.rank()], has);
            if self.divides {
                work.divide(sources);
                self.check_updating(work, sources)?;
            }
            lacks = work.meet_state(&mut state.variables, sources, plan, rule)?;
            let round = if self.between_gpus { usize::MAX } else { ROUND };
            let mut shards =
                Shards::new(self.ranks, &self.announced, sources, &work.indices(), round);
            if let Some(gpu) = sources.gpu()?.filter(|_| self.between_gpus) {
                let buffers = shards.make_ready_on(gpu, sources)?;
                return Ok((rows, shards, Some(buffers)));
            }
            shards.land(|index| sources.landing(index, self.divides))?;
            shards.reserve(send, receive)?;
            scratch.reserve()?;
            Ok((rows, shards, None))
        };
        let prepared: Result<(Vec<u8>, Shards, Option<Buffers>)> = prepare();
        let length = prepared.as_ref().map_or(0, |(rows, ..)| rows.len());
        let quantities = |tell: &mut Tell<'_>| tell_selected(work, plan, sources, tell);
        let call = Call {
            numbers: [u64::from(measures), u64::from(lacks)],
            length,
            ..Call::to(Kind::Gradients, &"the exchange of gradients").agreeing(&quantities)
        };
        let (mut meeting, (rows, mut own, on_gpu)) = self.ranks.meet(call, prepared)?;
        let (any_measures, any_lacks) = meeting
            .numbers()
            .fold((false, false), |any, [one, other]| (any.0 || one != 0, any.1 || other != 0));
        if any_lacks || sources.accumulation.row_sparse(0).is_some() {
            // A rank that fails here says so before anything is used up.
            let rows = meeting.all_gather(&rows)?;
            drop(meeting);
            let mut take = || {
                touched.unpack(self.ranks, sources, plan, &self.announced, &rows)?;
                let with_before = self.ranks.has_fixed_replicas();
                sources.merge_touched(plan, rule, touched, with_before)?;
                if any_lacks { work.widen_rows(self.ranks, state, plan, rule) } else { Ok(()) }
            };
            let call = Call::to(Kind::Gradients, &"the exchange of dense gradients");
            (meeting, ()) = self.ranks.meet(call, take())?;
        }
        sources.spend();
        match on_gpu {
            Some(buffers) => own.exchange_between_gpus(&mut meeting, sources, buffers)?,
            None => {
                own.exchange(&mut meeting, sources, (send, receive), !self.divides)?;
                if !self.divides {
                    own.bring_up(sources)?;
                } else if any_measures {
                    let sums = own.total_sums(&mut meeting, send, receive)?;
                    work.take_squares(sums);
                }
            }
        }
        if !self.divides {
            sources.exchanged = true;
            work.keep_exchanged(sources);
        }
        *shards = self.divides.then_some(own);
        Ok(())
    }

    /// Has this rank compute the weights of its part, and all ranks know those of all parts. `prepared` is
    /// whether this rank can, and `options` gives what the update is made with, which is the same on all.
    pub fn exchange_weights(
        &self,
        prepared: Result<()>,
        work: &mut Work,
        means: Means<'_>,
        memory: &mut Memory,
        options: &dyn Fn(&Work, &mut Tell<'_>),
    ) -> Result<()> {
        let Memory { send, receive, scratch, shards, .. } = memory;
        let shards = prepared.and_then(|()| {
            shards.as_mut().ok_or_else(|| Error::Internal("no gradients were exchanged".into()))
        });
        let quantities = |tell: &mut Tell<'_>| options(work, tell);
        let call = Call::to(Kind::Gradients, &"the exchange of new weights").agreeing(&quantities);
        let (mut meeting, shards) = self.ranks.meet(call, shards)?;
        if means.rule.measures() {
            shards.measure(&mut meeting, &mut work.items, means, (send, receive))?;
        }
        shards.exchange_weights(&mut meeting, &work.items, means, (send, receive), scratch)?;
        drop(meeting);
        let keys = work.items.iter().map(|item| means.sources.variables()[item.index].key());
        self.ranks.updating().extend(keys);
        Ok(())
    }

    /// The weight of what all replicas have contributed to the last run.
    pub fn weight_of_run(&self) -> f64 {
        self.announced.weight_of_run()
    }

    /// Prepares to accumulate what all replicas of all ranks have contributed to the last run, which is
    /// done when they are claimed. Selects the variables that it is about. With `find_not_finite`, the
    /// first variable whose gradient would not be finite.
    pub fn accumulate(
        &self,
        sources: &mut Sources<'_>,
        work: &mut Work,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
        memory: &mut Memory,
        find_not_finite: bool,
    ) -> Result<Option<usize>> {
        let Memory { send, receive, touched, .. } = memory;
        let replicas = self.ranks.replicas()[self.ranks.rank()];
        let has = |index| self.announced.has_variable_of_run(index);
        let mut prepare = || {
            let rows = sparse_rows::pack(self.ranks, sources, plan)?;
            work.select_where(sources, plan, replicas, has);
            let selected = work.indices();
            let mut shards = Shards::new(self.ranks, &self.announced, sources, &selected, ROUND);
            shards.reserve_next(sources, send, receive)?;
            Ok((rows, shards))
        };
        let prepared: Result<(Vec<u8>, Shards)> = prepare();
        let length = prepared.as_ref().map_or(0, |(rows, _)| rows.len());
        let quantities = |tell: &mut Tell<'_>| tell_selected(work, plan, sources, tell);
        let call = Call {
            length,
            ..Call::to(Kind::Gradients, &"the accumulation of gradients").agreeing(&quantities)
        };
        let (mut meeting, (rows, shards)) = self.ranks.meet(call, prepared)?;
        let rows = meeting.all_gather(&rows)?;
        shards.accumulate(&mut meeting, sources, (send, receive))?;
        drop(meeting);
        touched.unpack(self.ranks, sources, plan, &self.announced, &rows)?;
        sources.merge_touched(plan, rule, touched, true)?;
        if !find_not_finite {
            return Ok(None);
        }
        let dense = shards.not_finite(sources);
        // Rows are those of all ranks already, and are measured as one process measures them.
        let is_row_sparse = |index| has(index) && sources.is_row_sparse(index);
        work.select_where(sources, plan, replicas, is_row_sparse);
        let mut rows = None;
        Host.measure(work, sources, Keep::Nothing, &mut |index, squares| {
            if !squares.finite {
                rows.get_or_insert(index);
            }
        })?;
        work.select_where(sources, plan, replicas, has);
        Ok(dense.into_iter().chain(rows).min())
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

impl Memory {
    /// What goes out, and what comes in.
    pub(super) fn buffers(&mut self) -> (&mut Words, &mut Words) {
        (&mut self.send, &mut self.receive)
    }

    /// The parts of the last update, whose weights have landed.
    pub(super) fn received(&mut self) -> Option<&mut Shards> {
        self.shards.as_mut()
    }
}

/// Which variables are frozen and which are selected: a rank that has frozen others would send other bytes.
fn tell_selected(work: &Work, plan: &Plan, sources: &Sources<'_>, tell: &mut Tell<'_>) {
    for (index, variable) in sources.variables().iter().enumerate() {
        let frozen = plan.treatment(index).group.frozen;
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
