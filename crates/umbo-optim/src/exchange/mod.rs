//! Updates over several ranks: how each rank gets the weights that result from the gradients of all
//! replicas.
//!
//! Each rank updates its own part of every variable
//! ([`VariableSharding`](umbo_tensor::values::sharding::VariableSharding)), and keeps only the
//! state of that part. Every rank sends to each other rank its contributions to that rank's part.
//! It adds up the contributions to its own part with the loop that one process uses, in replica
//! order, and computes the new weights of its part. Then all ranks get those of all parts, and once
//! they have agreed, the variables and the state change. So the bits are those of one process, and
//! each rank sends and receives as much as in a ring. If the contributions of a rank's replicas
//! take more bytes than their sum in float64, or if runs were accumulated, that sum is sent
//! instead. The exchange runs in rounds, and its results overwrite gradients that have been sent,
//! so that it takes little memory; an update that fails has overwritten them. Norms are computed
//! from the sums of tiles, which the ranks exchange. The rows of row-sparse gradients go to all
//! ranks, and all ranks update them.
//!
//! If a rank has the variables on a GPU, all ranks get the gradients of all parts instead, and each
//! rank updates everything. Gradients on a GPU go through host memory: one copy down, and one copy
//! of all ranks' gradients up again. If all ranks have them on GPUs and the engine moves GPU
//! memory, they stay there.
//!
//! With a fixed global replica count, the bits must not depend on how replicas are distributed over
//! ranks. So contributions are always sent unsummed, and runs are not accumulated.
//!
//! - `participation`: the participation mask, which says which replica contributed to which
//!   variable.
//! - `sent`: in which form dense gradients are sent. [`shards`]: how they are divided, and in which
//!   rounds.
//! - `sums`: how they are exchanged and added up; `on_gpu`, `between_gpus`: the same for gradients
//!   on GPUs.
//! - `new_weights`: the trial, and how weights are exchanged. `sparse_rows`: rows. [`slots`]:
//!   gathering of sharded state.

pub(super) mod between_gpus;
pub(super) mod buffers;
pub(super) mod new_weights;
mod on_gpu;
mod participation;
pub(super) mod shards;
pub(super) mod slots;
mod sparse_rows;
mod sums;
mod wire_form;

use std::fmt;

use crate::apply::launcher::ApplyBackend;
use crate::apply::launchers::launcher_of;
use crate::apply::plan::TreatmentPlan;
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, ExchangeMemory};
use crate::gradients::Gradients;
use crate::rules::UpdateRule;
use crate::state::OptimizerMemory;
use umbo_base::error::Result;
use umbo_strategy::ranks::{
    AddQuantity, Call, Collective, CollectiveKind, Gathered, Quantities, Ranks, agreement,
    agreement_of,
};
use umbo_tensor::Tensor;

use participation::Participation;
use shards::{ROUND, Shards};
use sparse_rows::SparseRows;
use wire_form::sums_are_sent;

/// Which gradients an apply takes, and which part of the variables this rank updates with them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// The contributions of this rank's replicas: it is alone, or runs are accumulated that are
    /// exchanged with the last one.
    Own,
    /// Of all ranks, those of this rank's parts. The ranks exchange new weights.
    Parts,
    /// Of all ranks, and all of them. Each rank updates everything.
    Whole,
    /// The same, and they stay on GPUs: all ranks have the variables there, and the engine moves
    /// GPU memory.
    WholeOnGpus,
}

/// An exchange of gradients, with the participation of all ranks.
pub(super) struct Exchange<'a> {
    ranks: &'a Ranks,
    participation: Participation,
    route: Route,
}

impl<'a> Exchange<'a> {
    /// Starts the collective `what` on `gradients`; `sources` are this rank's contributions. The
    /// `further` quantities must be equal on all ranks, too. A rank that is alone exchanges
    /// nothing.
    pub fn begin(
        ranks: &'a Ranks,
        gradients: &Gradients,
        sources: &GradientSources<'_>,
        what: &dyn fmt::Display,
        further: &Quantities<'_>,
    ) -> Result<Exchange<'a>> {
        if ranks.is_alone() {
            return Ok(Exchange::of_own(ranks));
        }
        let on_gpu = ranks.moves_memory_of_gpus()
            && gradients
                .variables()
                .iter()
                .all(|of| !of.device().is_host_memory());
        let own = Participation::write(sources);
        let runs = sources.accumulation.runs;
        let agreed = gradients
            .agreement
            .get_or_init(|| agreement_of(&|add| add_quantities(gradients, add)));
        let quantities = |add: &mut AddQuantity<'_>| {
            add_quantities(gradients, add);
            add(
                &"the number of runs that were accumulated before",
                runs.into(),
            );
            further(add);
        };
        let call = Call {
            agreement: agreement(&(agreed, runs, agreement_of(further))),
            quantities: &quantities,
            numbers: [u64::from(on_gpu), 0],
            length: own.as_ref().map_or(0, Vec::len),
            ..Call::to(CollectiveKind::Gradients, what)
        };
        let (mut collective, own) = ranks.start_collective(call, own)?;
        let participation = Participation::read(&collective.all_gather(&own)?)?;
        let route = match gradients
            .variables()
            .iter()
            .all(|of| of.sharding().is_some())
        {
            true => Route::Parts,
            false if collective.numbers().all(|[on_gpu, _]| on_gpu == 1) => Route::WholeOnGpus,
            false => Route::Whole,
        };
        Ok(Exchange {
            ranks,
            participation,
            route,
        })
    }

    /// No exchange: the gradients are those of this rank.
    pub fn of_own(ranks: &'a Ranks) -> Exchange<'a> {
        Exchange {
            ranks,
            participation: Participation::default(),
            route: Route::Own,
        }
    }

    /// The weight of all replicas' contributions to all runs; that of this rank's replicas is
    /// `own`.
    pub fn total_weight(&self, own: f64) -> f64 {
        if self.route == Route::Own {
            own
        } else {
            self.participation.total_weight()
        }
    }

    /// Whether any replica has contributed to variable `index`.
    pub fn has_variable(&self, sources: &GradientSources<'_>, index: usize) -> bool {
        match self.route {
            Route::Own => {
                sources.contributions.has_variable(index) || sources.accumulation.has_before(index)
            }
            _ => self.participation.has_variable(index),
        }
    }

    /// The rows that this rank sends, of the variables for which `chosen` returns true.
    fn pack_rows(
        &self,
        sources: &mut GradientSources<'_>,
        chosen: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<u8>> {
        if sums_are_sent(sources) {
            sources.merge_own_rows(chosen)?;
        }
        sparse_rows::pack(sources, chosen)
    }

    /// Computes the gradients of row-sparse variables from the rows of all ranks.
    fn take_rows(
        &self,
        sources: &mut GradientSources<'_>,
        chosen: &dyn Fn(usize) -> bool,
        received: &Gathered,
    ) -> Result<()> {
        let rows = SparseRows::unpack(sources, chosen, &self.participation, received)?;
        sources.merge_rows(false, |index| rows.of_variable(index))
    }

    /// Starts a collective with what was `prepared`: the rows that are sent, and more.
    fn start_collective<T>(
        &self,
        what: &'static str,
        numbers: [u64; 2],
        quantities: &Quantities<'_>,
        prepared: Result<(Vec<u8>, T)>,
    ) -> Result<(Collective<'_>, (Vec<u8>, T))> {
        let length = prepared.as_ref().map_or(0, |(rows, _)| rows.len());
        let call = Call::to(CollectiveKind::Gradients, &what).agreeing(quantities);
        self.ranks.start_collective(
            Call {
                numbers,
                length,
                ..call
            },
            prepared,
        )
    }

    /// Selects the variables to update, and adds up the gradients of all ranks, each rank those of
    /// its part. Afterwards `work` has the gradients of this rank's part, or of all parts if
    /// they are not sharded, and the sources have all rows. Memory is reserved for the state.
    /// The squares of the gradients are computed if a rank `measures`. Gradients of this rank
    /// alone are left where they are.
    pub fn exchange(
        &self,
        sources: &mut GradientSources<'_>,
        work: &mut ApplyWorkspace,
        (state, plan): (&mut OptimizerMemory, &mut TreatmentPlan),
        rule: &dyn UpdateRule,
        launcher: &'static dyn ApplyBackend,
        measures: bool,
    ) -> Result<()> {
        if self.route == Route::Own {
            sources.merge_own_rows(&|index| plan.updates(index))?;
            state.variables.refresh_layout();
            let states = Some(&state.variables);
            let has = |index| self.has_variable(sources, index);
            return work.select(sources, plan, rule, states, has);
        }
        let divides = self.route == Route::Parts;
        let mut lacks = false;
        let mut prepare = || {
            let rows = self.pack_rows(sources, &|index| plan.updates(index))?;
            work.select(sources, plan, rule, None, |index| {
                self.participation.has_variable(index)
            })?;
            if divides {
                work.divide(sources);
            }
            lacks = work.prepare_state(&mut state.variables, sources, plan, rule)?;
            let round = if self.route == Route::WholeOnGpus {
                usize::MAX
            } else {
                ROUND
            };
            let ranks = self.ranks;
            let participation = &self.participation;
            let mut shards = Shards::new(ranks, participation, sources, &work.indices(), round);
            shards.set_receive_buffers(|index| sources.receive_buffer(index, divides))?;
            if self.route == Route::WholeOnGpus {
                let buffers = launcher.pack_on_device(&shards, sources)?;
                return Ok((rows, (shards, buffers)));
            }
            shards.reserve(&mut work.exchange.send, &mut work.exchange.receive)?;
            Ok((rows, (shards, None)))
        };
        let prepared = prepare();
        let quantities = |add: &mut AddQuantity<'_>| add_selected(work, plan, sources, add);
        let numbers = [u64::from(measures), u64::from(lacks)];
        let (mut collective, (rows, (shards, on_gpu))) =
            self.start_collective("the exchange of gradients", numbers, &quantities, prepared)?;
        let (any_measures, any_lacks) = collective
            .numbers()
            .fold((false, false), |any, [one, other]| {
                (any.0 || one != 0, any.1 || other != 0)
            });
        if any_lacks || sources.accumulation.row_sparse().next().is_some() {
            // A rank that fails here reports it before any gradient is overwritten.
            let rows = collective.all_gather(&rows)?;
            drop(collective);
            let mut take = || {
                self.take_rows(sources, &|index| plan.updates(index), &rows)?;
                if any_lacks {
                    work.gather_row_state(self.ranks, state, plan, rule)
                } else {
                    Ok(())
                }
            };
            let call = Call::to(
                CollectiveKind::Gradients,
                &"the exchange of dense gradients",
            );
            (collective, ()) = self.ranks.start_collective(call, take())?;
        }
        sources.consume();
        match on_gpu {
            Some(buffers) => shards.exchange_between_gpus(&mut collective, sources, buffers)?,
            None => {
                let memory = &mut work.exchange;
                shards.exchange(&mut collective, sources, launcher, memory, !divides)?;
            }
        }
        let measured = match any_measures && divides {
            true => Some(shards.total_sums(&mut collective, &mut work.exchange)?),
            false => None,
        };
        sources.exchanged = !divides;
        work.take_exchanged(sources, shards, measured);
        Ok(())
    }

    /// Does the part of an update that can fail. If each rank updates its part, all ranks get the
    /// new weights of all parts. `prepared` is an error if this rank cannot; `options` adds the
    /// update's settings, which must be equal on all ranks.
    pub fn reserve_update(
        &self,
        prepared: Result<()>,
        work: &mut ApplyWorkspace,
        means: UpdateContext<'_>,
        launcher: &'static dyn ApplyBackend,
        options: &dyn Fn(&ApplyWorkspace, &mut AddQuantity<'_>),
    ) -> Result<()> {
        if self.route != Route::Parts {
            return prepared.and_then(|()| launcher.reserve_update(work, means));
        }
        let quantities = |add: &mut AddQuantity<'_>| options(work, add);
        let call = Call::to(CollectiveKind::Gradients, &"the exchange of new weights")
            .agreeing(&quantities);
        let prepared = prepared.and_then(|()| work.check_first_updates(means.sources));
        let (mut collective, ()) = self.ranks.start_collective(call, prepared)?;
        let Some(shards) = work.exchange.shards.take() else {
            return Ok(());
        };
        if means.rule.measures() {
            shards.measure(&mut collective, &mut work.items, means, &mut work.exchange)?;
        }
        shards.exchange_weights(&mut collective, work, means, launcher)
    }

    /// The gradient of variable `index` of all ranks, if it is not row-sparse. If it is, the
    /// sources have its rows afterwards. No contribution is overwritten. Nothing is returned if
    /// the gradients are this rank's alone.
    pub fn inspect(
        &self,
        sources: &mut GradientSources<'_>,
        index: usize,
    ) -> Result<Option<Tensor>> {
        let chosen = |other: usize| other == index;
        if self.route == Route::Own {
            return sources.merge_own_rows(&chosen).map(|()| None);
        }
        let variable = &sources.variables()[index];
        let mut memory = ExchangeMemory::default();
        let mut prepare = || {
            let rows = self.pack_rows(sources, &chosen)?;
            let ranks = self.ranks;
            let participation = &self.participation;
            let mut shards = Shards::new(ranks, participation, sources, &[index], ROUND);
            let dtype = variable.dtype();
            let shape = variable.shape();
            let device = variable.device();
            shards.set_receive_buffers(|_| Tensor::uninitialized(dtype, shape, device))?;
            shards.reserve(&mut memory.send, &mut memory.receive)?;
            Ok((rows, (shards, launcher_of(sources.variables())?)))
        };
        let (mut collective, (rows, (shards, launcher))) =
            self.start_collective("the exchange of a gradient", [0; 2], &|_| {}, prepare())?;
        if sources.is_row_sparse(index) {
            let rows = collective.all_gather(&rows)?;
            drop(collective);
            self.take_rows(sources, &chosen, &rows)?;
            return Ok(None);
        }
        shards.exchange(&mut collective, sources, launcher, &mut memory, true)?;
        Ok(shards
            .items
            .first()
            .and_then(|item| item.receive_buffer.clone()))
    }
}

/// Adds which variables are frozen and which are selected: a rank that froze other variables would
/// send other bytes.
fn add_selected(
    work: &ApplyWorkspace,
    plan: &TreatmentPlan,
    sources: &GradientSources<'_>,
    add: &mut AddQuantity<'_>,
) {
    for (index, variable) in sources.variables().iter().enumerate() {
        let frozen = !plan.updates(index);
        add(
            &format_args!("whether '{}' is frozen", variable.name()),
            frozen.into(),
        );
    }
    for item in &work.items {
        let name = sources.variables()[item.index].name();
        add(&"the next variable that is updated", name.as_str().into());
    }
}

/// Adds the quantities of gradients that must be equal on all ranks.
fn add_quantities(gradients: &Gradients, add: &mut AddQuantity<'_>) {
    add(
        &"the number of variables",
        gradients.variables().len().into(),
    );
    for (index, variable) in gradients.variables().iter().enumerate() {
        let name = variable.name();
        add(
            &format_args!("the name of variable {index}"),
            name.as_str().into(),
        );
        add(
            &format_args!("the type of '{name}'"),
            variable.dtype().name().into(),
        );
        let dtype = gradients.dtype(index);
        add(
            &format_args!("the type of the gradient of '{name}'"),
            dtype.name().into(),
        );
        add(
            &format_args!("the shape of '{name}'"),
            variable.shape()[..].into(),
        );
        let shards = variable.sharding().map(|sharding| sharding.boundaries());
        add(&format_args!("where '{name}' is divided"), shards.into());
        let is_row_sparse = gradients.is_row_sparse(index);
        add(
            &format_args!("whether the gradient of '{name}' is row-sparse"),
            is_row_sparse.into(),
        );
    }
    let reduction = format!("{:?}", gradients.loss_reduction());
    add(&"the reduction of the losses", reduction.as_str().into());
    add(
        &"the number of accumulation steps",
        gradients.accumulation_steps().into(),
    );
}
