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
//! If a rank has the variables outside of host memory, all ranks get the gradients of all parts
//! instead, and each rank updates everything. Gradients there go through host memory: one copy
//! down, and one copy of all ranks' gradients up again. If all ranks have them there and the engine
//! moves such memory, they stay there. If the second moments of a rule are factored, each rank
//! updates everything, too.
//!
//! With a fixed global replica count, the bits must not depend on how replicas are distributed over
//! ranks. So contributions are always sent unsummed, and runs are not accumulated.
//!
//! - `agreement`: what must be equal on all ranks. `participation`: the participation mask, which
//!   says which replica contributed to which variable.
//! - `routes`: the ways that gradients take: to the rank of their part, to all ranks, or between
//!   devices.
//! - `sent`: in which form dense gradients are sent. [`shards`]: how they are divided, and in which
//!   rounds.
//! - `sums`: how they are exchanged and added up; `on_device`, `between_devices`: the same for
//!   gradients outside of host memory.
//! - `whole_matrices`: steps that need whole matrices. `new_weights`: the trial, and how weights
//!   are exchanged. `sparse_rows`: rows. [`slots`]: gathering of sharded state.

mod agreement;
pub(super) mod between_devices;
pub(super) mod buffers;
pub(super) mod new_weights;
mod on_device;
mod participation;
mod routes;
pub(super) mod shards;
pub(super) mod slots;
mod sparse_rows;
mod sums;
mod whole_matrices;
mod wire_form;

use std::fmt;

use crate::apply::launcher::Launcher;
use crate::apply::preparation::Preparation;
use crate::apply::sources::GradientSources;
use crate::apply::update_context::UpdateContext;
use crate::apply::workspace::{ApplyWorkspace, ExchangeMemory};
use crate::gradients::Gradients;
use crate::gradients::row_sums::Summing;
use umbo_base::error::Result;
use umbo_kernels::float::real;
use umbo_strategy::ranks::{
    AddQuantity, Call, Collective, CollectiveKind, Gathered, Quantities, Ranks, agreement,
    agreement_of,
};
use umbo_tensor::Tensor;

pub(super) use agreement::add_settings;
use agreement::{add_gradients, add_selected};
use participation::Participation;
use routes::{BetweenDevices, Route, ToAll, ToParts};
use shards::{ROUND, Shards};
use sparse_rows::SparseRows;
use wire_form::sums_are_sent;

/// An exchange of gradients, with the participation of all ranks. There are several ranks.
pub(super) struct Exchange<'a> {
    ranks: &'a Ranks,
    participation: Participation,
    /// The route of gradients that are not row-sparse.
    route: Box<dyn Route>,
}

/// An exchange for which this rank has done all that can fail.
struct PreparedExchange {
    /// The rows of row-sparse gradients that this rank sends.
    rows: Vec<u8>,
    /// The gradients that are not row-sparse.
    shards: Shards,
    /// This rank has only its part of a state of which it needs the whole.
    lacks_state: bool,
}

impl<'a> Exchange<'a> {
    /// Starts the collective for `purpose` on `gradients`; `sources` are this rank's contributions.
    /// The `further` quantities must be equal on all ranks, too. If each rank `updates_all`, the
    /// gradients go to all ranks.
    pub fn begin(
        ranks: &'a Ranks,
        gradients: &Gradients,
        sources: &GradientSources<'_>,
        purpose: &dyn fmt::Display,
        further: &Quantities<'_>,
        updates_all: bool,
    ) -> Result<Exchange<'a>> {
        let variables = gradients.variables();
        let on_devices = ranks.moves_device_memory()
            && variables
                .iter()
                .all(|variable| !variable.device().is_host_memory());
        let participation = Participation::write(sources);
        let runs = sources.accumulation.runs;
        let agreed = gradients
            .agreement
            .get_or_init(|| agreement_of(&|add| add_gradients(gradients, add)));
        let quantities = |add: &mut AddQuantity<'_>| {
            add_gradients(gradients, add);
            add(
                &"the number of runs that were accumulated before",
                runs.into(),
            );
            add(
                &"whether each rank updates all of a variable",
                updates_all.into(),
            );
            further(add);
        };
        let hash = participation
            .as_deref()
            .map_or(0, |bytes| agreement(&bytes));
        let call = Call {
            agreement: agreement(&(agreed, runs, updates_all, agreement_of(further))),
            quantities: &quantities,
            numbers: [u64::from(on_devices), hash],
            length: participation.as_ref().map_or(0, Vec::len),
            ..Call::to(CollectiveKind::Gradients, purpose)
        };
        let (mut collective, participation) = ranks.start_collective(call, participation)?;
        // Most ranks contribute to the same variables, with the same number of examples.
        let are_alike = collective.numbers().all(|[_, of_rank]| of_rank == hash);
        let participation = match are_alike {
            true => Participation::alike(&participation, ranks.size())?,
            false => Participation::read(collective.all_gather(&participation)?.iter())?,
        };
        let are_sharded = variables
            .iter()
            .all(|variable| variable.sharding().is_some());
        let route: Box<dyn Route> = if are_sharded && !updates_all {
            Box::new(ToParts)
        } else if collective.numbers().all(|[on_devices, _]| on_devices == 1) {
            Box::new(BetweenDevices::default())
        } else {
            Box::new(ToAll)
        };
        Ok(Exchange {
            ranks,
            participation,
            route,
        })
    }

    /// The weight of all replicas' contributions to all runs.
    pub fn total_weight(&self) -> f64 {
        self.participation.total_weight()
    }

    /// Whether any replica has contributed to variable `index`.
    pub fn has_variable(&self, index: usize) -> bool {
        self.participation.has_variable(index)
    }

    /// Whether each rank updates its part of the variables, and gets the new weights of the others.
    pub fn divides(&self) -> bool {
        self.route.divides()
    }

    /// Selects the variables to update, and adds up the gradients of all ranks, each rank those of
    /// its part. Afterwards the work has the gradients of this rank's part, or of all parts if
    /// they are not sharded, and the sources have all rows. Memory is reserved for the state.
    /// The squares of the gradients are computed if a rank `measures`.
    pub fn exchange(&mut self, apply: &mut Preparation<'_, '_>, measures: bool) -> Result<()> {
        let prepared = self.prepare(apply);
        let lacks_state = prepared.as_ref().is_ok_and(|prepared| prepared.lacks_state);
        let numbers = [u64::from(measures), u64::from(lacks_state)];
        let quantities = |add: &mut AddQuantity<'_>| {
            add_selected(apply.work, apply.plan, apply.sources, add);
        };
        let purpose = "the exchange of gradients";
        let (mut collective, prepared) =
            start(self.ranks, purpose, numbers, &quantities, prepared)?;
        let PreparedExchange { rows, shards, .. } = prepared;
        let any_measures = collective.numbers().any(|[measures, _]| measures != 0);
        let any_lacks = collective.numbers().any(|[_, lacks]| lacks != 0);
        if any_lacks || apply.sources.accumulation.row_sparse().next().is_some() {
            collective = self.exchange_rows(collective, &rows, apply, any_lacks)?;
        }
        apply.sources.consume();
        self.route.exchange(&shards, &mut collective, apply)?;
        let divides = self.route.divides();
        let measured = if any_measures && divides {
            Some(shards.total_sums(&mut collective, &mut apply.work.exchange)?)
        } else {
            None
        };
        apply.sources.exchanged = !divides;
        apply.work.take_exchanged(apply.sources, shards, measured);
        Ok(())
    }

    /// Does what can fail on this rank before the others take part.
    fn prepare(&mut self, apply: &mut Preparation<'_, '_>) -> Result<PreparedExchange> {
        let participation = &self.participation;
        let rows = pack_rows(apply.sources, &|index| apply.plan.updates(index))?;
        let kept = apply.state.kept_by(apply.rule);
        apply
            .work
            .select(apply.sources, apply.plan, kept, None, |index| {
                participation.has_variable(index)
            })?;
        let divides = self.route.divides();
        if divides {
            apply.work.divide(apply.sources);
        }
        let lacks_state =
            apply
                .work
                .prepare_state(&mut apply.state.variables, apply.sources, apply.plan)?;
        let mut shards = Shards::new(
            self.ranks,
            participation,
            apply.sources,
            &apply.work.indices(),
            self.route.round(),
        );
        shards.set_receive_buffers(|index| apply.sources.receive_buffer(index, divides))?;
        self.route.reserve(&mut shards, apply)?;
        Ok(PreparedExchange {
            rows,
            shards,
            lacks_state,
        })
    }

    /// Exchanges this rank's `rows`, and computes the gradients of row-sparse variables. If a rank
    /// `lacks_state`, all ranks gather that. Returns the collective that follows.
    fn exchange_rows(
        &self,
        mut collective: Collective<'a>,
        rows: &[u8],
        apply: &mut Preparation<'_, '_>,
        lacks_state: bool,
    ) -> Result<Collective<'a>> {
        // A rank that fails here reports it before any gradient is overwritten.
        let rows = collective.all_gather(rows)?;
        drop(collective);
        let plan = &*apply.plan;
        let taken = take_rows(
            &self.participation,
            apply.sources,
            &|index| plan.updates(index),
            &rows,
        );
        let taken = taken.and_then(|()| match lacks_state {
            true => apply
                .work
                .gather_row_state(self.ranks, apply.state, apply.plan),
            false => Ok(()),
        });
        let purpose = "the exchange of dense gradients";
        let call = Call::to(CollectiveKind::Gradients, &purpose);
        let (collective, ()) = self.ranks.start_collective(call, taken)?;
        Ok(collective)
    }

    /// Does the part of an update that can fail, if each rank updates its part: all ranks get the
    /// new weights of all parts. `prepared` is an error if this rank cannot; `options` adds the
    /// update's settings, which must be equal on all ranks.
    pub fn exchange_weights(
        &self,
        prepared: Result<()>,
        work: &mut ApplyWorkspace,
        context: UpdateContext<'_>,
        launcher: Launcher,
        options: &dyn Fn(&ApplyWorkspace, &mut AddQuantity<'_>),
    ) -> Result<()> {
        let prepared = prepared
            .and_then(|()| work.check_first_updates(context.sources))
            .and_then(|()| reserve_matrices(work, context));
        let quantities = |add: &mut AddQuantity<'_>| options(work, add);
        let call = Call::to(CollectiveKind::Gradients, &"the exchange of new weights")
            .agreeing(&quantities);
        let (mut collective, ()) = self.ranks.start_collective(call, prepared)?;
        let Some(shards) = work.exchange.shards.take() else {
            return Ok(());
        };
        if context.rule.measures() {
            shards.measure(
                &mut collective,
                &mut work.items,
                context,
                &mut work.exchange,
            )?;
        }
        if let Some(matrices) = context.rule.matrices() {
            let dealt = shards.deal(context.sources);
            dealt.make(&mut collective, work, context, matrices)?;
        }
        shards.exchange_weights(&mut collective, work, context, launcher)
    }

    /// Agrees on an update in which each rank updates everything. `prepared` is an error if this
    /// rank cannot; `options` adds the update's settings, which must be equal on all ranks.
    pub fn agree(
        &self,
        prepared: Result<()>,
        work: &ApplyWorkspace,
        options: &dyn Fn(&ApplyWorkspace, &mut AddQuantity<'_>),
    ) -> Result<()> {
        let quantities = |add: &mut AddQuantity<'_>| options(work, add);
        let purpose = "the update of all variables on each rank";
        let call = Call::to(CollectiveKind::Gradients, &purpose).agreeing(&quantities);
        let (_, ()) = self.ranks.start_collective(call, prepared)?;
        Ok(())
    }

    /// The gradient of variable `index` of all ranks, if it is not row-sparse. If it is, the
    /// sources have its rows afterwards. No contribution is overwritten.
    pub fn inspect(
        &self,
        sources: &mut GradientSources<'_>,
        index: usize,
        launcher: Launcher,
    ) -> Result<Option<Tensor>> {
        let chosen = |other: usize| other == index;
        let mut memory = ExchangeMemory::default();
        let prepared = self.prepare_inspection(sources, index, &mut memory);
        let purpose = "the exchange of a gradient";
        let (mut collective, prepared) = start(self.ranks, purpose, [0; 2], &|_| {}, prepared)?;
        let PreparedExchange { rows, shards, .. } = prepared;
        if sources.is_row_sparse(index) {
            let rows = collective.all_gather(&rows)?;
            drop(collective);
            take_rows(&self.participation, sources, &chosen, &rows)?;
            return Ok(None);
        }
        shards.exchange(&mut collective, sources, launcher, &mut memory, true)?;
        Ok(shards
            .items
            .first()
            .and_then(|item| item.receive_buffer.clone()))
    }

    /// Does what can fail on this rank, before an inspection of variable `index`.
    fn prepare_inspection(
        &self,
        sources: &mut GradientSources<'_>,
        index: usize,
        memory: &mut ExchangeMemory,
    ) -> Result<PreparedExchange> {
        let variable = &sources.variables()[index];
        let rows = pack_rows(sources, &|other| other == index)?;
        let mut shards = Shards::new(self.ranks, &self.participation, sources, &[index], ROUND);
        shards.set_receive_buffers(|_| {
            let dtype = real::computing(variable.dtype());
            Tensor::uninitialized(dtype, variable.shape(), variable.device())
        })?;
        shards.reserve(&mut memory.send, &mut memory.receive)?;
        Ok(PreparedExchange {
            rows,
            shards,
            lacks_state: false,
        })
    }
}

/// Reserves the memory for steps of whole matrices, if the rule makes them.
fn reserve_matrices(work: &mut ApplyWorkspace, context: UpdateContext<'_>) -> Result<()> {
    if context.rule.matrices().is_none() {
        return Ok(());
    }
    work.reserve_matrix_steps(context)?;
    let Some(shards) = work.exchange.shards.take() else {
        return Ok(());
    };
    let reserved = shards.deal(context.sources).reserve(work);
    work.exchange.shards = Some(shards);
    reserved
}

/// Starts a collective with what was `prepared`.
fn start<'a>(
    ranks: &'a Ranks,
    purpose: &'static str,
    numbers: [u64; 2],
    quantities: &Quantities<'_>,
    prepared: Result<PreparedExchange>,
) -> Result<(Collective<'a>, PreparedExchange)> {
    let length = prepared.as_ref().map_or(0, |prepared| prepared.rows.len());
    let call = Call::to(CollectiveKind::Gradients, &purpose).agreeing(quantities);
    ranks.start_collective(
        Call {
            numbers,
            length,
            ..call
        },
        prepared,
    )
}

/// The rows that this rank sends, of the variables for which `chosen` returns true.
fn pack_rows(sources: &mut GradientSources<'_>, chosen: &dyn Fn(usize) -> bool) -> Result<Vec<u8>> {
    if sums_are_sent(sources) {
        sources.merge_own_rows(chosen, Summing::AtOnce)?;
    }
    sparse_rows::pack(sources, chosen)
}

/// Computes the gradients of row-sparse variables from the rows of all ranks.
fn take_rows(
    participation: &Participation,
    sources: &mut GradientSources<'_>,
    chosen: &dyn Fn(usize) -> bool,
    received: &Gathered,
) -> Result<()> {
    let rows = SparseRows::unpack(sources, chosen, participation, received)?;
    sources.merge_rows(|index| rows.of_variable(index))
}
