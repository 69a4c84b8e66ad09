//! What replicas contribute to an update: one gradient buffer per replica and variable, or rows of
//! a row-sparse variable ([`rows`](crate::optimizer::rows)), and the weight with which each replica
//! submits.

#![expect(unsafe_code, reason = "a replica's buffers are written for it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::executor::fork::Origin;
use crate::executor::lock::{Mutex, MutexGuard};
use crate::optimizer::accumulation::Accumulation;
use crate::optimizer::contributions::Contributions;
use crate::optimizer::exchange;
use crate::optimizer::gradients_options::GradientsOptions;
use crate::optimizer::plan::Plan;
use crate::optimizer::replica::{Buffer, DenseBuffer, Replica};
use crate::optimizer::rows::AddedRows;
use crate::strategy::Strategy;
use crate::strategy::commit::StepParticipant;
use crate::tensor::{DType, Tensor};
use crate::values::indexed_slices::IndexedSlices;
use crate::values::variable::Variable;

/// How a replica's callback reduces the losses of its examples, and so what its gradient stands
/// for. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum LossReduction {
    /// The callback sums over its examples: the update takes the replicas' sum, divided by the
    /// total weight.
    Sum = 1,
    /// The callback means over its examples: the update takes the replicas' mean, weighted by
    /// their weights.
    Mean = 2,
    /// The callback divides by the examples of the global batch itself: the update takes the
    /// replicas' sum.
    GlobalMean = 3,
}

impl LossReduction {
    /// The reduction with this number, if there is one.
    pub fn from_code(code: i32) -> Option<LossReduction> {
        use LossReduction::*;
        [Sum, Mean, GlobalMean].into_iter().find(|reduction| *reduction as i32 == code)
    }

    /// The factor of a replica's gradient in the sum.
    pub fn factor(self, weight: f64) -> f64 {
        match self {
            LossReduction::Sum | LossReduction::GlobalMean => 1.0,
            LossReduction::Mean => weight,
        }
    }

    /// What the sum is divided by.
    pub fn divisor(self, total_weight: f64) -> f64 {
        match self {
            LossReduction::Sum | LossReduction::Mean => total_weight,
            LossReduction::GlobalMean => 1.0,
        }
    }
}

/// What a replica wants of its gradient buffer. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GradientMode {
    /// It will write every element; the buffer holds whatever it held before.
    Overwrite = 1,
    /// It will add to the elements; they are zero at its first view in a step.
    Add = 2,
}

impl GradientMode {
    /// The mode with this number, if there is one.
    pub fn from_code(code: i32) -> Option<GradientMode> {
        use GradientMode::*;
        [Overwrite, Add].into_iter().find(|mode| *mode as i32 == code)
    }
}

/// The gradients of a list of variables, from all replicas of one strategy.
///
/// Each replica has a buffer of its own for each variable, which it views and writes in a step, and
/// submits once with a weight. When the step commits, the contributions are ready; an apply uses
/// them up. While contributions wait for an apply no other step can contribute
/// ([`Gradients::check_applied`]), unless an apply of them has failed: then the next step replaces them.
///
/// Replicas may call [`Gradients::view`] and [`Gradients::submit`] at the same time; each replica's
/// record is touched by its own thread alone. Steps have numbers that start at 1, never come twice,
/// and grow.
pub struct Gradients {
    strategy: u64,
    /// The strategy looks for mistakes of callbacks.
    is_strict: bool,
    /// In which process they were made.
    origin: Origin,
    pub(super) devices: Vec<DeviceId>,
    variables: Vec<Variable>,
    loss_reduction: LossReduction,
    pub(super) replicas: Vec<CachePadded<Replica>>,
    /// The last step that touched the gradients and its [`Phase`], in one word.
    pub(super) state: AtomicU64,
    /// How much smaller the number is by which users know the last step that touched the gradients.
    pub(super) later: AtomicU64,
    /// An apply has been prepared and is neither done nor dropped.
    claimed: AtomicBool,
    /// The last step of whose contributions an apply failed.
    refused: AtomicU64,
    /// Whether a replica has ever lent a gradient ([`lent`](crate::optimizer::lent)).
    pub(super) lends: AtomicBool,
    dtype: Option<DType>,
    accumulation_steps: u64,
    accumulation: Mutex<Accumulation>,
    plan: Mutex<Plan>,
    /// What several ranks exchange gradients in.
    pub(super) exchange: Mutex<exchange::Memory>,
}

/// What became of the last step that touched the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Phase {
    /// There is none, or its contributions have been applied.
    Applied = 0,
    /// It is running.
    InFlight = 1,
    /// It was committed.
    Ready = 2,
    /// It was rolled back.
    RolledBack = 3,
}

const PHASE_BITS: u32 = 2;

fn pack(step: u64, phase: Phase) -> u64 {
    step << PHASE_BITS | phase as u64
}

fn unpack(state: u64) -> (u64, Phase) {
    let phases = [Phase::Applied, Phase::InFlight, Phase::Ready, Phase::RolledBack];
    (state >> PHASE_BITS, phases[(state & ((1 << PHASE_BITS) - 1)) as usize])
}

impl Gradients {
    /// Gradient buffers, all zero, for `variables` on each of the replicas' `devices` (in replica
    /// order), of the strategy with id `strategy`.
    ///
    /// The variables must have been made by that strategy, differ from each other, and be float32
    /// or float64.
    pub fn new(
        strategy: u64,
        devices: &[DeviceId],
        variables: Vec<Variable>,
        loss_reduction: LossReduction,
    ) -> Result<Arc<Gradients>> {
        Gradients::accumulating(strategy, devices, variables, loss_reduction, 1)
    }

    /// As [`Gradients::new`], but an update takes `steps` applies.
    pub fn accumulating(
        strategy: u64,
        devices: &[DeviceId],
        variables: Vec<Variable>,
        loss_reduction: LossReduction,
        steps: u64,
    ) -> Result<Arc<Gradients>> {
        let options = GradientsOptions { accumulation_steps: steps, ..Default::default() };
        Gradients::with_options(strategy, devices, variables, loss_reduction, options)
    }

    /// As [`Gradients::new`], with options.
    pub fn with_options(
        strategy: u64,
        devices: &[DeviceId],
        variables: Vec<Variable>,
        loss_reduction: LossReduction,
        options: GradientsOptions<'_>,
    ) -> Result<Arc<Gradients>> {
        options.check(strategy, &variables)?;
        let is_row_sparse = |index| options.is_row_sparse(index);
        let mut replicas = Vec::new();
        let is_strict = Strategy::with_id(strategy).is_some_and(|strategy| strategy.is_strict());
        for (replica, &device) in devices.iter().enumerate() {
            let own = Replica::new(replica, device, &variables, &options, is_strict)?;
            replicas.push(CachePadded::new(own));
        }
        Ok(Arc::new(Gradients {
            strategy,
            is_strict,
            origin: Origin::here(),
            devices: devices.to_vec(),
            dtype: options.dtype,
            accumulation_steps: options.accumulation_steps,
            accumulation: Mutex::new(Accumulation::new(&variables, is_row_sparse)?),
            plan: Mutex::new(Plan::default()),
            exchange: Mutex::default(),
            variables,
            loss_reduction,
            replicas,
            state: AtomicU64::new(pack(0, Phase::Applied)),
            later: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            lends: AtomicBool::new(false),
        }))
    }

    /// The id of the strategy whose replicas write the gradients.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// Whether mistakes of callbacks are looked for, because the strategy is strict.
    pub(super) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// FAILED_PRECONDITION in the child of a fork that happened since the gradients were made: steps of
    /// the parent's count here, one of them may never end, and a thread that the child does not have
    /// may hold the locks. To be asked before a lock is taken and before a step is joined.
    #[inline]
    pub(super) fn check_process(&self) -> Result<()> {
        if self.origin.is_here() { Ok(()) } else { Err(of_the_parent()) }
    }

    /// The variables whose gradients these are.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// What the contributions stand for.
    pub fn loss_reduction(&self) -> LossReduction {
        self.loss_reduction
    }

    /// Whether replicas contribute rows of variable `index`, which there is.
    pub fn is_row_sparse(&self, index: usize) -> bool {
        let buffer = self.replicas.first().map(|own| &own.buffers[index]);
        matches!(buffer, Some(Buffer::Rows(_)))
    }

    /// The element type of the gradients of variable `index`, which there is.
    pub fn dtype(&self, index: usize) -> DType {
        self.dtype_for(self.variables[index].dtype())
    }

    /// The element type of the gradients of a variable of type `variable`.
    pub(super) fn dtype_for(&self, variable: DType) -> DType {
        self.dtype.unwrap_or(variable)
    }

    /// How many applies make one update.
    pub fn accumulation_steps(&self) -> u64 {
        self.accumulation_steps
    }

    /// How many runs are accumulated and wait for an update.
    pub fn accumulated_runs(&self) -> Result<u64> {
        self.check_process()?;
        Ok(self.accumulation().runs)
    }

    /// What earlier runs have contributed. For the apply that has claimed the gradients.
    pub(super) fn accumulation(&self) -> MutexGuard<'_, Accumulation> {
        self.accumulation.lock()
    }

    /// What the last optimizer does with each variable. For the apply that has claimed the
    /// gradients.
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    /// Whether a committed step's contributions wait for an apply.
    pub(super) fn has_unapplied(&self) -> bool {
        unpack(self.state.load(Ordering::Acquire)).1 == Phase::Ready
    }

    /// Refuses another step while what an earlier one has contributed waits for an apply: it would be
    /// replaced, and nobody would hear of it. Contributions of weight 0 are none.
    pub(super) fn check_applied(&self) -> Result<()> {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        let contributed = |own: &CachePadded<Replica>| {
            own.submitted.load(Ordering::Acquire) == step && own.weight() != 0.0
        };
        if phase != Phase::Ready
            || self.refused.load(Ordering::Acquire) == step
            || !self.replicas.iter().any(contributed)
        {
            return Ok(());
        }
        Err(Error::precondition(
            "gradients: what the run before this one submitted has not been applied, and this run \
             would replace it. Apply after each run; to add several runs up, make the gradients with \
             accumulation_steps and apply after each of them; to drop what was submitted, make new \
             gradients",
        ))
    }

    /// Notes that an apply of what waits has failed: the next step may replace it.
    pub(super) fn note_refused(&self) {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        if phase == Phase::Ready {
            self.refused.store(step, Ordering::Release);
        }
    }

    /// Lets what waits for an apply be none of the steps' business, until the state is put back.
    pub(super) fn set_aside(&self) {
        let (step, _) = unpack(self.state.load(Ordering::Acquire));
        self.state.store(pack(step, Phase::Applied), Ordering::Release);
    }

    /// How many replicas contribute.
    pub fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// Whether the gradients take part in this step, or in a later one.
    pub(super) fn takes_part_in(&self, step: u64) -> bool {
        unpack(self.state.load(Ordering::Acquire)).0 >= step
    }

    /// A step is known to users by the number `shown`.
    pub(super) fn note_step(&self, step: u64, shown: u64) {
        // What is known to differ is written, so that replicas do not write memory that they share.
        let later = step - shown;
        if self.later.load(Ordering::Relaxed) != later {
            self.later.store(later, Ordering::Relaxed);
        }
    }

    /// The number by which users know the last step in which replicas wrote.
    pub(super) fn shown(&self, step: u64) -> u64 {
        step - self.later.load(Ordering::Relaxed).min(step)
    }

    /// Makes `step` the one whose contributions count; those of earlier steps count no more. Returns true to exactly one caller a step, who then lets the gradients take
    /// part in the step's commit. To be called before a replica's [`Gradients::view`] or
    /// [`Gradients::submit`]; after the first it is a load.
    pub fn first_touch(&self, step: u64) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        while unpack(state).0 < step {
            let fresh = pack(step, Phase::InFlight);
            let exchange =
                self.state.compare_exchange(state, fresh, Ordering::AcqRel, Ordering::Acquire);
            match exchange {
                Ok(_) => return true,
                Err(current) => state = current,
            }
        }
        false
    }

    /// Replica `replica`'s buffer for variable `index`, to be written until the replica submits.
    /// The variable then counts as written by this replica in this step. Nothing is allocated.
    ///
    /// Fails if there is no such variable, if its gradients are row-sparse, if the step is over, or
    /// if the replica has submitted.
    pub fn view(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        mode: GradientMode,
    ) -> Result<&Tensor> {
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let Buffer::Dense(dense @ DenseBuffer { tensor, lent, .. }) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {:?} were made for rows (row_sparse); add rows to it",
                self.variables[index]
            )));
        };
        if lent.is_of(step) {
            return Err(Error::precondition(format!(
                "replica {replica} has attached its gradient of {:?} in this step; withdraw that before \
                 you view the buffer",
                self.variables[index]
            )));
        }
        let is_first = viewed.load(Ordering::Acquire) != step;
        if is_first && self.is_strict {
            self.begin_strictly(replica, index, dense, mode)?;
        }
        if mode == GradientMode::Add && is_first {
            // SAFETY: until it submits, the buffer is the replica's, which is here.
            unsafe { tensor.assume_exclusive() }.fill_zeros()?;
        }
        viewed.store(step, Ordering::Release);
        Ok(tensor)
    }

    /// Room for `rows` more rows that replica `replica` contributes to variable `index`, to be
    /// written until the replica submits: their numbers and their gradients. A row that is named
    /// several times, here, in another call or by another replica, counts as the sum. The variable
    /// then counts as written by this replica in this step, also with 0 rows. Allocates nothing
    /// once a step had as many rows, in as many calls.
    ///
    /// Fails if there is no such variable, if its gradients are not row-sparse, if there is no
    /// memory, if the step is over, or if the replica has submitted.
    pub fn add_rows(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        rows: usize,
    ) -> Result<AddedRows> {
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let variable = &self.variables[index];
        let Buffer::Rows(own) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {variable:?} were not made for rows; say so when they are made \
                 (row_sparse), or view and write them"
            )));
        };
        let added = own.add(variable, step, rows)?;
        viewed.store(step, Ordering::Release);
        Ok(added)
    }

    /// The same with copies of `slices`, which are of the variable's dtype and shape.
    pub fn add_indexed_slices(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        slices: &IndexedSlices,
    ) -> Result<()> {
        let (_, _) = self.writable(replica, step, index)?;
        let variable = &self.variables[index];
        if (slices.dtype(), slices.dense_shape()) != (self.dtype(index), variable.shape()) {
            let (dtype, shape) = (slices.dtype(), slices.dense_shape());
            let problem = format!(
                "slices of {dtype} and shape {shape} for {variable:?}, whose gradients are {}",
                self.dtype(index)
            );
            return Err(Error::invalid("slices", problem));
        }
        let added = self.add_rows(replica, step, index, slices.indices().shape()[0])?;
        // SAFETY: the rows were just added, for this replica to write.
        unsafe {
            added.indices.assume_exclusive().copy_from(slices.indices())?;
            added.values.assume_exclusive().copy_from(slices.values())
        }
    }

    /// What replica `replica` writes for variable `index`, and the step in which it last did.
    pub(super) fn writable(
        &self,
        replica: usize,
        step: u64,
        index: usize,
    ) -> Result<(&Buffer, &AtomicU64)> {
        let own = self.replica_in_step(replica, step)?;
        let (Some(buffer), Some(viewed)) = (own.buffers.get(index), own.viewed.of(index)) else {
            let problem = format!(
                "{index} is not in [0, {}), the variables that the gradients were made of, in that order",
                self.variables.len()
            );
            return Err(Error::out_of_range("index", problem));
        };
        if own.submitted.load(Ordering::Acquire) == step {
            return Err(Error::precondition(format!(
                "replica {replica} has submitted its gradients in this step; view and write them before"
            )));
        }
        Ok((buffer, viewed))
    }

    /// Replica `replica` has written what it wants to contribute in this step, with `weight`:
    /// usually the examples that the gradients stand for. With weight 0 nothing of it is read.
    ///
    /// Fails if the weight is not finite or negative, if an index is no row of its variable, if the
    /// step is over, or if the replica submitted in this step before.
    pub fn submit(&self, replica: usize, step: u64, weight: f64) -> Result<()> {
        let own = self.replica_in_step(replica, step)?;
        if !(weight.is_finite() && weight >= 0.0) {
            let problem = format!("{weight}; must be finite and at least 0");
            return Err(Error::invalid("weight", problem));
        }
        if own.submitted.load(Ordering::Acquire) == step {
            return Err(Error::precondition(format!(
                "replica {replica} has submitted its gradients in this step already; submit once"
            )));
        }
        if self.is_strict {
            self.check_strictly(replica, own, step, weight)?;
        }
        // An apply does not read what has no weight; who tries a callback out looks at it.
        if own.is_remote && (weight != 0.0 || own.is_trial.load(Ordering::Acquire)) {
            self.bring_home(own, step)?;
        }
        if weight != 0.0 {
            self.check_rows(replica, own, step)?;
        }
        own.weight.store(weight.to_bits(), Ordering::Release);
        own.submitted.store(step, Ordering::Release);
        Ok(())
    }

    /// Brings what the replica has written on another device to where an apply reads it.
    fn bring_home(&self, own: &Replica, step: u64) -> Result<()> {
        for (index, buffer) in own.buffers.iter().enumerate() {
            if own.viewed.in_step(index, step) {
                match buffer {
                    Buffer::Dense(dense) => dense.bring_home(step)?,
                    Buffer::Rows(rows) => rows.pieces().bring_home()?,
                }
            }
        }
        Ok(())
    }

    /// Refuses indices that are no rows of their variable.
    fn check_rows(&self, replica: usize, own: &Replica, step: u64) -> Result<()> {
        for (index, (buffer, variable)) in own.buffers.iter().zip(&self.variables).enumerate() {
            if let Buffer::Rows(rows) = buffer
                && own.viewed.in_step(index, step)
            {
                rows.pieces().check(variable, replica)?;
            }
        }
        Ok(())
    }

    fn replica_in_step(&self, replica: usize, step: u64) -> Result<&Replica> {
        if self.state.load(Ordering::Acquire) != pack(step, Phase::InFlight) {
            return Err(Error::precondition(format!(
                "gradients: step {} is over or has not begun; replicas write gradients inside of run",
                self.shown(step)
            )));
        }
        self.replicas.get(replica).map(|own| &**own).ok_or_else(|| {
            Error::out_of_range("replica", format!("{replica} of {}", self.replicas.len()))
        })
    }

    /// The step whose contributions can be applied: the last one if it was committed, or, at the
    /// commit point of step `committing`, that step. Fails if there is none, if a replica did not
    /// submit in it, or if the weights have no finite sum. With `flush`, and if earlier runs are
    /// accumulated, it may be that there are none.
    pub(super) fn applicable(
        &self,
        committing: Option<u64>,
        flush: bool,
    ) -> Result<Contributions<'_>> {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        match phase {
            Phase::Applied | Phase::RolledBack if flush && self.accumulation().runs > 0 => {
                return Ok(Contributions::none(step));
            }
            Phase::Ready => {}
            Phase::InFlight if committing == Some(step) => {}
            Phase::Applied if step == 0 => {
                return Err(Error::precondition(
                    "gradients: there has been no run that submitted any; run a step first",
                ));
            }
            Phase::Applied => {
                return Err(Error::precondition(
                    "gradients: they have been applied, and there was no run that submitted new \
                     ones since the last apply; apply once for each run",
                ));
            }
            Phase::RolledBack => {
                return Err(Error::precondition(
                    "gradients: the last run failed, so its contributions were dropped; run the \
                     step again before the apply",
                ));
            }
            Phase::InFlight => {
                return Err(Error::precondition(
                    "gradients: the step that writes them is still running; apply after it",
                ));
            }
        }
        let contributions = self.contributions(step);
        contributions.check_submitted(&self.devices)?;
        let total = contributions.total_weight();
        if !total.is_finite() {
            return Err(Error::invalid(
                "weight",
                "the replicas' weights have no finite sum; weigh by examples or smaller numbers",
            ));
        }
        Ok(contributions)
    }

    /// What the replicas submitted in `step`, which [`Gradients::applicable`] found.
    pub(super) fn contributions(&self, step: u64) -> Contributions<'_> {
        Contributions::of_step(&self.replicas, step)
    }

    /// Reserves the contributions for one apply, until [`Gradients::release`].
    pub(super) fn claim(&self) -> Result<Claim<'_>> {
        if self.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::precondition(
                "gradients: another apply of them waits for the commit point; apply once for each run",
            ));
        }
        Ok(Claim(self))
    }

    /// Gives up the reservation, or ends it once the contributions of `applied` are used up.
    pub(super) fn release(&self, applied: Option<u64>) {
        let state = self.state.load(Ordering::Acquire);
        if let Some(step) = applied.filter(|&step| unpack(state).0 == step) {
            self.spend_strictly();
            self.state.store(pack(step, Phase::Applied), Ordering::Release);
        }
        self.claimed.store(false, Ordering::Release);
    }

    /// Whether `step` is running and has not been rolled back.
    pub(super) fn is_in_flight(&self, step: u64) -> bool {
        self.state.load(Ordering::Acquire) == pack(step, Phase::InFlight)
    }

    /// Whether what replicas contribute in `step` counts, or may come to count.
    pub(super) fn counts(&self, step: u64) -> bool {
        let state = unpack(self.state.load(Ordering::Acquire));
        matches!(state, (last, Phase::InFlight | Phase::Ready) if last == step)
    }

    fn finish(&self, step: u64, phase: Phase) {
        // Fails, and rightly does nothing, if the contributions were applied at the commit point,
        // or all was made as it was before the step (`Gradients::restore`).
        let _ = self.state.compare_exchange(
            pack(step, Phase::InFlight),
            pack(step, phase),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

#[cold]
fn of_the_parent() -> Error {
    Error::precondition(
        "gradients: they were made before this process was forked, and the runs that contribute to \
         them are those of the parent, whose threads are not here to end what they began; make new \
         gradients in this process",
    )
}

/// A reservation that ends with this, unless it is to be kept.
pub(super) struct Claim<'a>(&'a Gradients);

impl Claim<'_> {
    /// Keeps the reservation until [`Gradients::release`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release(None);
    }
}

impl StepParticipant for Gradients {
    fn join(&self, step: u64) -> bool {
        self.first_touch(step)
    }

    fn commit(&self, step: u64) {
        self.finish(step, Phase::Ready);
    }

    fn roll_back(&self, step: u64) {
        self.finish(step, Phase::RolledBack);
    }

    fn settle(&self) {
        Gradients::settle(self);
    }
}

impl std::fmt::Debug for Gradients {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (variables, replicas) = (self.variables.len(), self.replicas.len());
        write!(formatter, "gradients of {variables} variables from {replicas} replicas")
    }
}
