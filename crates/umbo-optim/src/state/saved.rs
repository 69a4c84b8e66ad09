//! Export and import of an optimizer's whole state.
//!
//! The caller of export or import holds the step lock of the optimizer's strategy, so that no apply
//! is prepared or in progress; functions that set one value take the lock themselves.

#![expect(
    unsafe_code,
    reason = "slots are given out as they are while nobody writes them"
)]

use crate::rules::{Running, VariableProgress};
use crate::state::Optimizer;
use crate::state::memory::OptimizerMemory;
use crate::state::schedule::{NamedSchedule, PlateauState};
use crate::state::settings::LossScaling;
use crate::state::stored_state::{LocalSlot, part_of};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_device::DeviceId;
use umbo_kernels::float::real;
use umbo_strategy::Strategy;
use umbo_tensor::Tensor;
use umbo_tensor::collectives::copy_to;
use umbo_tensor::values::variable::Variable;

/// The state that an optimizer keeps from apply to apply. It does not contain what a program sets
/// when it makes an optimizer: its rule's numbers, settings, groups and a schedule
/// that is a function.
#[derive(Debug)]
pub struct OptimizerState {
    /// The learning rate; while there is a schedule, that of the last apply.
    pub learning_rate: f64,
    /// The number of applies that have taken effect.
    pub iterations: u64,
    /// The loss scale, if it is dynamic. If it is not, it is a setting.
    pub loss_scale: Option<DynamicLossScale>,
    /// The schedule, if it has a name, and its observations.
    pub schedule: Option<(NamedSchedule, PlateauState)>,
    /// The state of each variable that was updated.
    pub variables: Vec<VariableState>,
}

/// A loss scale that grows and shrinks by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicLossScale {
    /// The factor of the next run's loss.
    pub scale: f64,
    /// How many applies in a row have taken effect with it.
    pub applies: u64,
}

/// An optimizer's state of one variable.
#[derive(Debug)]
pub struct VariableState {
    /// The variable.
    pub variable: Variable,
    /// The number of times that it was updated; more than 0.
    pub updates: u64,
    /// The rule's running scalars.
    pub running: Running,
    /// The optimizer's slots, in its order, of the variable's dtype, or float32 for bfloat16, and
    /// of their shapes; elementwise ones of a variable that is sharded are this rank's part,
    /// contiguous. None in the place of a state that the variable has not.
    pub slots: Vec<Option<Tensor>>,
    /// If the first slots, those of the rule, are codes of 8 bits instead: their scales, one for
    /// each block of [`STATE_BLOCK`](umbo_kernels::update::eight_bit::STATE_BLOCK) elements.
    pub scales: Vec<Tensor>,
}

/// Memory for a state that is about to be imported into an optimizer.
pub struct ReservedState(());

/// The largest settable count of updates. Files hold counts below 2^53, so counting on from here
/// reaches that limit only after more updates than any training makes.
pub const MOST_COUNTED: u64 = 1 << 52;

fn check_count(count: u64, argument: &'static str) -> Result<()> {
    if count <= MOST_COUNTED {
        return Ok(());
    }
    Err(invalid!(
        argument,
        "{count}; must be at most {MOST_COUNTED} (2^52), to be counted on from"
    ))
}

impl Optimizer {
    /// Whether the loss scale is dynamic, and so is state.
    pub fn has_dynamic_loss_scale(&self) -> bool {
        self.lock().has_dynamic_loss_scale()
    }

    /// The variables that it has updated, in the order of their first update.
    pub fn updated_variables(&self) -> Vec<Variable> {
        self.lock()
            .variables
            .updated()
            .map(|(variable, ..)| variable.clone())
            .collect()
    }

    /// A copy of all state that this process keeps, in host memory.
    pub fn export(&self) -> Result<OptimizerState> {
        self.exported(|kept| copy_to(&kept.own()?, DeviceId::HOST))
    }

    /// The same, but slots in host memory are not copied: they are the optimizer's own tensors.
    ///
    /// # Safety
    /// While they are used, no apply takes effect and nobody sets state.
    pub unsafe fn export_as_it_is(&self) -> Result<OptimizerState> {
        self.exported(|kept| kept.own()?.on_host())
    }

    fn exported(&self, slot: impl Fn(&LocalSlot) -> Result<Tensor>) -> Result<OptimizerState> {
        let state = self.lock();
        self.check_weights(state.shows_average, "save a checkpoint")?;
        let variables = state
            .variables
            .updated()
            .map(|(variable, progress, slots)| {
                Ok(VariableState {
                    variable: variable.clone(),
                    updates: progress.updates,
                    running: progress.running,
                    slots: slots
                        .iter()
                        .map(|kept| kept.shape().map(|_| slot(kept)).transpose())
                        .collect::<Result<_>>()?,
                    scales: slots
                        .iter()
                        .filter_map(|kept| Some(&kept.scales.as_ref()?.1))
                        .map(|scales| copy_to(scales, DeviceId::HOST))
                        .collect::<Result<_>>()?,
                })
            });
        Ok(OptimizerState {
            learning_rate: state.learning_rate,
            iterations: state.iterations,
            schedule: state.named_schedule(),
            loss_scale: state.has_dynamic_loss_scale().then_some(DynamicLossScale {
                scale: state.loss_scale,
                applies: state.applies_at_scale,
            }),
            variables: variables.collect::<Result<_>>()?,
        })
    }

    /// Reserves the memory for [`Optimizer::import`]. Changes nothing that is visible.
    pub fn reserve(&self, variables: &[VariableState]) -> Result<ReservedState> {
        let state = &mut *self.lock();
        self.check_weights(state.shows_average, "restore a checkpoint")?;
        for VariableState { variable, .. } in variables {
            state.variables.known_by_parts(variable)?;
        }
        Ok(ReservedState(()))
    }

    /// Replaces all state by an exported one; variables that are not in it count as never updated.
    /// The loss scale changes only if it is dynamic in both optimizers. A schedule of the program's
    /// stays, and continues with the imported number of iterations; without one the saved one is
    /// followed. If a schedule with a name stays that is not the saved one, the log says so. With
    /// reserved memory it cannot fail.
    pub fn import(&self, from: &OptimizerState, _room: ReservedState) -> Result<()> {
        let mut state = self.lock();
        let followed = self.imported(&mut state, from)?;
        drop(state);
        if let Some(followed) = followed {
            log::keep(Level::Warning, || {
                let saved = match &from.schedule {
                    Some((schedule, _)) => schedule.to_string(),
                    None => "no schedule with a name".to_owned(),
                };
                format!(
                    "the training that was restored had {saved}, and its learning rate now follows \
                     {followed}, which the program has set; set the same one, or none, unless \
                     another is meant"
                )
            });
        }
        Ok(())
    }

    /// Replaces all state. Returns a schedule with a name that is followed in place of another one.
    fn imported(
        &self,
        state: &mut OptimizerMemory,
        from: &OptimizerState,
    ) -> Result<Option<NamedSchedule>> {
        state.variables.forget();
        for VariableState {
            variable,
            updates,
            running,
            slots,
            scales,
        } in &from.variables
        {
            let position = state.variables.known_by_parts(variable)?;
            for (index, slot) in slots.iter().enumerate() {
                let Some(slot) = slot else { continue };
                let scales = scales.get(index);
                state.variables.put_slot(position, index, slot, scales)?;
            }
            let progress = VariableProgress {
                updates: *updates,
                running: *running,
            };
            state.variables.set_progress(position, progress);
        }
        state.variables.clear_unseen()?;
        state.learning_rate = from.learning_rate;
        state.iterations = from.iterations;
        let followed = state.restore_schedule(from.schedule);
        if let Some(DynamicLossScale { scale, applies }) = from.loss_scale
            && state.has_dynamic_loss_scale()
        {
            state.put_loss_scale(scale, applies);
        }
        Ok(followed)
    }

    /// Replaces the state `name` of `variable`, as if an update had left it, by the elements of
    /// `value`. NotFound for a name that the rule does not have; INVALID_ARGUMENT for another
    /// dtype or shape, and for a variable of another strategy.
    pub fn set_state(&self, variable: &Variable, name: &str, value: &Tensor) -> Result<()> {
        let (index, shape) = self.slot_of(variable, name)?;
        self.check_variable(variable)?;
        let dtype = real::computing(variable.dtype());
        if (value.dtype(), value.shape()) != (dtype, shape) {
            let problem = format!(
                "{} of shape {}; the state '{name}' of {variable:?} is {dtype} of shape {shape}",
                value.dtype(),
                value.shape()
            );
            return Err(Error::invalid("state", problem));
        }
        // The value is copied first, since the caller's memory may be that of the state.
        let value = copy_to(value, variable.device())?;
        self.between_steps(|state| {
            let position = state.variables.known(variable)?;
            let of_variable = state.variables.state(position);
            let kept = match of_variable.kept(index, state.variables.list()).is_whole() {
                true => value,
                false => part_of(&value, &of_variable.shard_range)?,
            };
            state.variables.put_slot(position, index, &kept, None)?;
            let updates = &mut state.variables.updates[position];
            *updates = (*updates).max(1);
            Ok(())
        })
    }

    /// How often `variable` was updated, and its running scalars: those before the first update if
    /// there was none.
    pub fn variable_progress(&self, variable: &Variable) -> Result<VariableProgress> {
        self.check_variable(variable)?;
        let progress = self.lock().variables.progress_of(variable);
        Ok(progress.unwrap_or_else(|| self.rule().initial_progress()))
    }

    /// Sets both; at most [`MOST_COUNTED`] updates. With 0 updates the variable has no state that
    /// can be read.
    pub fn set_variable_progress(
        &self,
        variable: &Variable,
        progress: VariableProgress,
    ) -> Result<()> {
        self.check_variable(variable)?;
        check_count(progress.updates, "progress.update_count")?;
        let fields = ["progress.first_running", "progress.second_running"];
        let mut running = fields.iter().zip(&progress.running);
        if let Some((field, scalar)) = running.find(|(_, scalar)| !scalar.is_finite()) {
            return Err(invalid!(*field, "{scalar}; must be finite"));
        }
        self.between_steps(|state| {
            let position = state.variables.known(variable)?;
            state.variables.set_progress(position, progress);
            Ok(())
        })
    }

    /// Sets how many applies have taken effect, which is the argument of a schedule; at most
    /// [`MOST_COUNTED`].
    pub fn set_iterations(&self, iterations: u64) -> Result<()> {
        check_count(iterations, "iterations")?;
        self.between_steps(|state| {
            state.iterations = iterations;
            Ok(())
        })
    }

    /// Sets the factor of the next run's loss, and how many applies in a row have taken effect with
    /// it. It is positive, and finite as a float32.
    pub fn set_loss_scale(&self, scale: f64, applies: u64) -> Result<()> {
        LossScaling::Fixed(scale).check()?;
        check_count(applies, "applies")?;
        self.between_steps(|state| {
            state.put_loss_scale(scale, applies);
            Ok(())
        })
    }

    /// Calls `change` between two steps of the strategy, while no apply is prepared.
    fn between_steps<R>(
        &self,
        change: impl FnOnce(&mut OptimizerMemory) -> Result<R>,
    ) -> Result<R> {
        let strategy = Strategy::with_id(self.strategy());
        let strategy = strategy.ok_or_else(|| {
            Error::precondition(
                "optimizer: its strategy was released; keep that until the last apply",
            )
        })?;
        let _quiet = strategy.lock_between_steps()?;
        change(&mut self.lock())
    }

    /// Fails if the optimizer cannot update this variable.
    pub fn check_variable(&self, variable: &Variable) -> Result<()> {
        self.check_strategy_of(variable)?;
        if !real::is_supported(real::computing(variable.dtype())) {
            return Err(invalid!(
                "variable",
                "{variable:?}; optimizers update float32, float64 and bfloat16"
            ));
        }
        Ok(())
    }
}

impl OptimizerMemory {
    fn has_dynamic_loss_scale(&self) -> bool {
        matches!(
            self.settings.loss_scaling,
            Some(LossScaling::Dynamic { .. })
        )
    }
}
