//! Gradients of several ranks: how an update comes to have those of all replicas of all ranks.
//!
//! Dense gradients are laid end to end and cut into one part for each rank. Every rank sends each other
//! its contributions to the other's part, and adds up those to its own with the loop that one process
//! uses, in the order of the replicas; then all get the gradients of all parts. So the bits are those of
//! one process, and each rank sends and receives what a ring would. Where several replicas of a rank
//! together are more than their sum in float64 is, or runs were accumulated, that sum is sent instead.
//! Of row-sparse gradients the rows that were touched go to all.
//!
//! Gradients on a GPU go through the host's memory: down in one copy, and those of all ranks up again. Where
//! all ranks have them on GPUs and the engine moves memory of those, they stay there.
//!
//! If the number of all replicas was chosen, the bits must not depend on how they are spread over ranks:
//! contributions are always sent as they are, and ranks exchange them in each run that is accumulated.
//!
//! - [`announcement`]: who has contributed to what. [`parts`]: how dense gradients are cut and
//!   exchanged. `next`: what is accumulated of them. [`touched`]: rows.

pub(super) mod announcement;
mod buffers;
mod next;
pub(super) mod parts;
pub(super) mod touched;

use std::sync::Arc;

use crate::error::Result;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::plan::Plan;
use crate::optimizer::rule::UpdateRule;
use crate::optimizer::sources::Sources;
use crate::optimizer::work::Keep;
use crate::optimizer::workspace::Work;
use crate::strategy::Strategy;
use crate::strategy::ranks::{Call, Kind, Ranks, agreement};
use crate::values::variable::Variable;

use announcement::Announcement;
use buffers::Words;
use next::Next;
use parts::Parts;
use parts::between_gpus::Buffers;
use touched::Touched;

/// What exchanges work in, kept from update to update.
#[derive(Default)]
pub(super) struct Memory {
    send: Words,
    receive: Words,
    touched: Touched,
    next: Next,
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
    announced: Announcement,
    /// All ranks have their variables on GPUs, and the engine moves memory of those.
    between_gpus: bool,
}

impl<'a> Exchange<'a> {
    /// Meets the other ranks for an update of `gradients`, of which `sources` are this rank's part.
    /// `options` are the apply's, as a number.
    pub fn begin(
        ranks: &'a Ranks,
        gradients: &Gradients,
        sources: &Sources<'_>,
        options: u64,
    ) -> Result<Exchange<'a>> {
        let on_gpu = ranks.moves_memory_of_gpus() && matches!(sources.gpu(), Ok(Some(_)));
        let own = Announcement::write(sources);
        let runs = sources.accumulation.runs;
        let agreed =
            *gradients.exchange.lock().agreement.get_or_insert_with(|| agreement_of(gradients));
        let what =
            format_args!("an update by gradients of {} variables", gradients.variables().len());
        let call = Call {
            agreement: agreement(&(agreed, runs, options)),
            numbers: [u64::from(on_gpu), 0],
            length: own.as_ref().map_or(0, Vec::len),
            ..Call::to(Kind::Gradients, &what)
        };
        let (mut meeting, own) = ranks.meet(call, own)?;
        // What chosen replicas have accumulated is in host memory.
        let between_gpus =
            !ranks.has_chosen_replicas() && meeting.numbers().all(|[on_gpu, _]| on_gpu == 1);
        let announced =
            Announcement::read(&meeting.all_gather(&own)?, ranks.has_chosen_replicas())?;
        Ok(Exchange { ranks, announced, between_gpus })
    }

    /// The weight of all replicas' contributions to all runs.
    pub fn total_weight(&self) -> f64 {
        self.announced.total_weight()
    }

    /// Puts the gradients of all ranks in the place of this rank's: [`Sources`] has them from then on.
    /// Selects the variables that are to be updated.
    pub fn exchange(
        &self,
        sources: &mut Sources<'_>,
        work: &mut Work,
        plan: &mut Plan,
        rule: &dyn UpdateRule,
        memory: &mut Memory,
    ) -> Result<()> {
        let Memory { send, receive, touched, .. } = memory;
        let mut prepare = || {
            let is_sum = sums_are_sent(self.ranks, sources);
            if is_sum {
                sources.merge_rows(plan, rule)?;
            }
            let rows = touched::pack(sources, plan, is_sum)?;
            let has = |index| self.announced.has_variable(index);
            work.select_where(sources, plan, self.ranks.replicas()[self.ranks.rank()], has)?;
            let mut parts = Parts::new(self.ranks, &self.announced, sources, work);
            let gpu = sources.gpu()?;
            if let Some(gpu) = gpu.filter(|_| self.between_gpus) {
                let buffers = parts.make_ready_on(gpu, sources)?;
                return Ok((rows, parts, Some(buffers)));
            }
            parts.reserve(sources, send, receive)?;
            match gpu {
                Some(gpu) => parts.pack_on_gpu(gpu, sources, send)?,
                None => parts.pack(sources, send),
            }
            Ok((rows, parts, None))
        };
        let prepared: Result<(Vec<u8>, Parts<'_>, Option<Buffers>)> = prepare();
        let length = prepared.as_ref().map_or(0, |(rows, ..)| rows.len());
        let call = Call { length, ..Call::to(Kind::Gradients, &"the exchange of gradients") };
        let (mut meeting, (rows, mut parts, on_gpu)) = self.ranks.meet(call, prepared)?;
        let rows = meeting.all_gather(&rows)?;
        match on_gpu {
            Some(buffers) => {
                parts.exchange_between_gpus(&mut meeting, sources, buffers)?;
                drop(meeting);
            }
            None => {
                parts.exchange(&mut meeting, sources, send, receive)?;
                drop(meeting);
                parts.bring_up(sources)?;
            }
        }
        sources.exchanged = true;
        work.keep_exchanged(sources);
        touched.unpack(
            sources,
            plan,
            &self.announced,
            &rows,
            sums_are_sent(self.ranks, sources),
        )?;
        sources.merge_touched(plan, rule, touched, self.ranks.has_chosen_replicas())
    }

    /// Whether what is accumulated is that of all ranks, and not each rank's own.
    pub fn accumulates_together(ranks: &Ranks) -> bool {
        ranks.has_chosen_replicas()
    }

    /// The weight of what all replicas have contributed to the last run.
    pub fn weight_of_run(&self) -> f64 {
        self.announced.weight_of_run()
    }

    /// Prepares to accumulate what all replicas of all ranks have contributed to the last run, which is
    /// done by [`Memory::keep_run`]. Selects the variables that it is about. With `find_not_finite`, the
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
        let Memory { send, receive, touched, next, .. } = memory;
        let replicas = self.ranks.replicas()[self.ranks.rank()];
        let has = |index| self.announced.has_variable_of_run(index);
        let mut prepare = || {
            let rows = touched::pack(sources, plan, false)?;
            work.select_where(sources, plan, replicas, has)?;
            let parts = Parts::new(self.ranks, &self.announced, sources, work);
            parts.reserve_next(sources, send, receive, next)?;
            match sources.gpu()? {
                Some(gpu) => parts.pack_on_gpu(gpu, sources, send)?,
                None => parts.pack(sources, send),
            }
            Ok((rows, parts))
        };
        let prepared: Result<(Vec<u8>, Parts<'_>)> = prepare();
        let length = prepared.as_ref().map_or(0, |(rows, _)| rows.len());
        let call = Call { length, ..Call::to(Kind::Gradients, &"the accumulation of gradients") };
        let (mut meeting, (rows, parts)) = self.ranks.meet(call, prepared)?;
        let rows = meeting.all_gather(&rows)?;
        parts.accumulate(&mut meeting, sources, (send, receive), next)?;
        drop(meeting);
        touched.unpack(sources, plan, &self.announced, &rows, false)?;
        sources.merge_touched(plan, rule, touched, true)?;
        if !find_not_finite {
            return Ok(None);
        }
        let dense = next.not_finite(sources);
        // Rows are those of all ranks already, and are measured as one process measures them.
        let is_row_sparse = |index| has(index) && sources.is_row_sparse(index);
        work.select_where(sources, plan, replicas, is_row_sparse)?;
        let measured = work.measure(sources, Keep::Nothing)?;
        let rows = measured.filter(|(_, squares)| !squares.finite).map(|(index, _)| index).min();
        work.select_where(sources, plan, replicas, has)?;
        Ok(dense.into_iter().chain(rows).min())
    }
}

/// Whether a rank sends the sum of what its replicas have contributed to several runs.
fn sums_are_sent(ranks: &Ranks, sources: &Sources<'_>) -> bool {
    sources.accumulation.runs > 0 && !ranks.has_chosen_replicas()
}

impl Memory {
    /// Keeps what [`Exchange::accumulate`] has prepared of the variables that are selected.
    pub(super) fn keep_run(&self, sources: &mut Sources<'_>, work: &Work) {
        self.next.put(sources);
        for item in &work.items {
            if sources.is_row_sparse(item.index) {
                sources.accumulation.claim(item.index);
            }
        }
    }
}

/// What must be the same on all ranks.
fn agreement_of(gradients: &Gradients) -> u64 {
    let of_variable = |(index, variable): (usize, &Variable)| {
        let dtypes = (variable.dtype() as u64, gradients.dtype(index) as u64);
        let sizes = variable.shape().to_vec();
        (variable.name().to_string(), dtypes, sizes, gradients.is_row_sparse(index))
    };
    let variables: Vec<_> = gradients.variables().iter().enumerate().map(of_variable).collect();
    agreement(&(variables, gradients.loss_reduction() as i32, gradients.accumulation_steps()))
}
