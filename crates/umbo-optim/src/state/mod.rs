//! An optimizer: its rule, its learning rate, its settings, and its state.

pub mod average;
pub mod averaged;
pub(crate) mod coded;
pub(crate) mod memory;
pub mod rows;
pub mod saved;
pub mod schedule;
pub mod settings;
pub(crate) mod slot_list;
pub(crate) mod stored_state;
pub(crate) mod variable_states;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::apply::report::ApplyReport;
use crate::exchange::slots;
use crate::gradients::Gradients;
use crate::rules::{Slot, UpdateRule, check_not_negative};
use crate::state::memory::{OptimizerMemory, RateSource};
use crate::state::schedule::{NamedSchedule, PlateauState};
use crate::state::settings::{Settings, StateBits, VariableGroup};
use crate::state::slot_list::SlotList;
use crate::state::stored_state::LocalSlot;
use crate::state::variable_states::Variables;
use parking_lot::{Mutex, MutexGuard};
use umbo_base::error::{Error, Result};
use umbo_base::text::Text;
use umbo_strategy::Strategy;
use umbo_tensor::collectives;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

/// The learning rate of an update, by the number of updates that came before it.
pub type Schedule = dyn Fn(u64) -> Result<f64> + Send + Sync;

/// An optimizer of one strategy's variables: a rule, a learning rate, and the rule's state, held
/// once for each variable on the variable's device.
///
/// It changes through [`ApplyAction`](crate::ApplyAction), which keeps its memory here so that
/// applying allocates nothing once every variable has been updated. All methods may be called from
/// any thread; they wait for an apply that is in progress.
pub struct Optimizer {
    id: u64,
    strategy: u64,
    rule: Box<dyn UpdateRule>,
    rule_name: Text,
    state: Mutex<OptimizerMemory>,
}

impl Optimizer {
    /// An optimizer of variables of the strategy with id `strategy` that follows `rule`. The
    /// learning rate must be finite and at least 0.
    pub fn new(
        strategy: u64,
        rule: Box<dyn UpdateRule>,
        learning_rate: f64,
    ) -> Result<Arc<Optimizer>> {
        check_not_negative("learning_rate", learning_rate)?;
        rule.check_learning_rate(learning_rate)?;
        let settings = Settings::default();
        let state = Mutex::new(OptimizerMemory {
            learning_rate,
            settings,
            loss_scale: settings.initial_loss_scale(),
            variables: Variables::new(&*rule),
            ..OptimizerMemory::default()
        });
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let rule_name = Text::from(rule.name());
        Ok(Arc::new(Optimizer {
            id,
            strategy,
            rule,
            rule_name,
            state,
        }))
    }

    /// A number that no other optimizer ever has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The id of the strategy whose variables it updates.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// The rule.
    pub fn rule(&self) -> &dyn UpdateRule {
        &*self.rule
    }

    /// The rule's name, for C.
    pub fn rule_name(&self) -> &Text {
        &self.rule_name
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OptimizerMemory> {
        self.state.lock()
    }

    /// The gradients that it has applied. The caller drops them while it holds no lock, since that
    /// may run the program's code.
    pub fn applied(&self) -> Vec<Arc<Gradients>> {
        self.lock()
            .applied
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// The learning rate of the next apply; while there is a schedule, that of the last one.
    pub fn learning_rate(&self) -> f64 {
        self.lock().learning_rate
    }

    /// Sets the learning rate from the next apply on, and ends a schedule. Must be finite and at
    /// least 0.
    pub fn set_learning_rate(&self, learning_rate: f64) -> Result<()> {
        check_not_negative("learning_rate", learning_rate)?;
        self.rule.check_learning_rate(learning_rate)?;
        let mut state = self.lock();
        state.learning_rate = learning_rate;
        let ended = state.schedule.take();
        // The old schedule is dropped outside the lock: it may run the program's code.
        drop(state);
        drop(ended);
        Ok(())
    }

    /// Takes the learning rate of each update from `schedule`. If that fails, or gives a rate that
    /// is not finite or negative, the apply fails and changes nothing. It is called without a
    /// lock of the optimizer, and must not apply gradients or run steps.
    pub fn set_schedule(&self, schedule: Arc<Schedule>) {
        self.replace_schedule(RateSource::Function(schedule));
    }

    /// Takes the learning rate of each update from a schedule with a name, without observations so
    /// far.
    pub fn set_named_schedule(&self, schedule: NamedSchedule) -> Result<()> {
        schedule.check()?;
        self.rule.check_learning_rate(schedule.learning_rate)?;
        self.replace_schedule(RateSource::Named(schedule, PlateauState::default()));
        Ok(())
    }

    fn replace_schedule(&self, source: RateSource) {
        // The old schedule is dropped outside the lock: it may run the program's code.
        let replaced = self.lock().schedule.replace(source);
        drop(replaced);
    }

    /// The schedule, if it has a name, and its observations.
    pub fn named_schedule(&self) -> Option<(NamedSchedule, PlateauState)> {
        self.lock().named_schedule()
    }

    /// Tells a schedule that reduces the rate on a plateau a value, such as the loss of an
    /// evaluation. FAILED_PRECONDITION if there is no such schedule.
    pub fn observe(&self, value: f64) -> Result<()> {
        let is_observed = match &mut self.lock().schedule {
            Some(RateSource::Named(schedule, plateau)) => schedule.observe(plateau, value),
            Some(RateSource::Function(_)) | None => false,
        };
        if is_observed {
            return Ok(());
        }
        Err(Error::precondition(
            "optimizer: its learning rate does not depend on observed values; set a schedule \
             that reduces it on a plateau first",
        ))
    }

    /// Whether there is a schedule.
    pub fn has_schedule(&self) -> bool {
        self.lock().schedule.is_some()
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.lock().settings
    }

    /// Replaces all settings, from the next apply on. The loss scale starts anew if its settings
    /// are other ones. FAILED_PRECONDITION if there is state of variables, and an average of
    /// weights begins or ends, or the bits of states change.
    pub fn configure(&self, settings: Settings) -> Result<()> {
        settings.check()?;
        self.check_rounding(&settings)?;
        let mut state = self.lock();
        self.check_coded(&state.variables, settings.state_bits)?;
        self.keep_average(&mut state.variables, settings.averaging.is_some())?;
        self.keep_coded(&mut state.variables, settings.state_bits);
        if settings.loss_scaling != state.settings.loss_scaling {
            state.put_loss_scale(settings.initial_loss_scale(), 0);
        }
        state.settings = settings;
        Ok(())
    }

    /// Whether it keeps the states of `variable` in 8 bits.
    pub fn keeps_eight_bits(&self, variable: &Variable) -> bool {
        self.lock().variables.list().codes(variable)
    }

    /// Fails if the rule cannot update weights that are rounded.
    fn check_rounding(&self, settings: &Settings) -> Result<()> {
        if settings.stochastic_rounding.is_none() || self.rule.rounds() {
            return Ok(());
        }
        Err(invalid!(
            "stochastic_rounding",
            "1; lamb, lars, muon and rules of the program's own update float32 and float64 weights \
             alone, and the rule of this optimizer is {:?}",
            self.rule
        ))
    }

    /// Makes the slots those of an optimizer that keeps an average of weights, or keeps none.
    fn keep_average(&self, variables: &mut Variables, averages: bool) -> Result<()> {
        if variables.list().average().is_some() == averages {
            return Ok(());
        }
        if !variables.is_empty() {
            return Err(Error::precondition(match averages {
                true => {
                    "average: this optimizer has updated variables without one; choose the average \
                     before the first update, with average_start where it is to begin later"
                }
                false => {
                    "average: this optimizer keeps averages of the variables that it has updated; \
                     give the options of the average again"
                }
            }));
        }
        let is_taken = |slot: &Slot| slot.name == average::AVERAGE;
        if averages && self.rule.slots().iter().any(is_taken) {
            return Err(invalid!(
                "average",
                "the rule '{}' has a state 'average' of its own; give that another name",
                self.rule.name()
            ));
        }
        let is_coded = variables.list().is_coded();
        variables.set_list(SlotList::of(&*self.rule, averages, is_coded));
        Ok(())
    }

    /// Fails if the optimizer cannot keep states of these bits, or keeps others already.
    fn check_coded(&self, variables: &Variables, bits: StateBits) -> Result<()> {
        let is_coded = bits == StateBits::Eight;
        if is_coded && self.rule.factored_rule().is_some() {
            return Err(invalid!(
                "state_bits",
                "8; adafactor keeps a number for each row and column of a matrix, so that fewer \
                 bits save nothing. Leave state_bits unset"
            ));
        }
        if is_coded && self.rule.code_maps().is_none() {
            return Err(invalid!(
                "state_bits",
                "8; adam, adamw and momentum have states in 8 bits, adam and adamw without \
                 amsgrad, and the rule of this optimizer is {:?}",
                self.rule
            ));
        }
        if variables.list().is_coded() == is_coded || variables.is_empty() {
            return Ok(());
        }
        Err(Error::precondition(match is_coded {
            true => {
                "state_bits: 8; this optimizer has updated variables with states in full; choose \
                 the bits before the first update, or restore a checkpoint of it into an \
                 optimizer that has chosen them"
            }
            false => {
                "state_bits: 0; this optimizer keeps states in 8 bits of the variables that it has \
                 updated; give state_bits 8 again"
            }
        }))
    }

    /// Makes the slots those of these bits, which were checked.
    fn keep_coded(&self, variables: &mut Variables, bits: StateBits) {
        let is_coded = bits == StateBits::Eight;
        if variables.list().is_coded() != is_coded {
            let averages = variables.list().average().is_some();
            variables.set_list(SlotList::of(&*self.rule, averages, is_coded));
        }
    }

    /// The settings, with defaults filled in for the weight decay and for gradients that are not
    /// finite.
    pub fn effective_settings(&self) -> Settings {
        let settings = self.settings();
        let weight_decay = settings
            .weight_decay
            .unwrap_or(self.rule.default_weight_decay());
        Settings {
            weight_decay: Some(weight_decay),
            non_finite: Some(settings.non_finite()),
            ..settings
        }
    }

    /// The group settings that apply to a variable of the optimizer's strategy, with the weight
    /// decay that updates use.
    pub fn group(&self, variable: &Variable) -> Result<VariableGroup> {
        self.check_strategy_of(variable)?;
        let of_optimizer = self.effective_settings().weight_decay;
        let group = self.lock().group(variable);
        Ok(VariableGroup {
            weight_decay: group.weight_decay.or(of_optimizer),
            ..group
        })
    }

    /// The factor that callbacks multiply their loss with.
    pub fn loss_scale(&self) -> f64 {
        self.lock().loss_scale
    }

    /// Treats `variables`, which are of the optimizer's strategy and in no group yet, as `group`
    /// says. If one of them is refused, none is in the group.
    pub fn add_group(&self, variables: &[Variable], group: VariableGroup) -> Result<()> {
        group.check()?;
        let state = &mut *self.lock();
        for (index, variable) in variables.iter().enumerate() {
            let wrong = |problem: &str| {
                let name = format!("variables[{index}] ('{}')", variable.name());
                Err(Error::invalid(name, problem.to_owned()))
            };
            if variable.spec().strategy != self.strategy {
                return wrong("made by a strategy other than the optimizer's");
            }
            if state.groups.contains_key(&variable.key())
                || variables[..index]
                    .iter()
                    .any(|other| other.is_same(variable))
            {
                return wrong("in a group already; a variable is in one group at most");
            }
        }
        let members = variables
            .iter()
            .map(|variable| (variable.key(), (variable.clone(), group)));
        state.groups.extend(members);
        state.groups_revision += 1;
        Ok(())
    }

    /// The report of the last apply that was committed, deferred ones included.
    pub fn last_report(&self) -> Option<ApplyReport> {
        self.lock().last_report.clone()
    }

    /// The number of applies that have taken effect. One whose total weight was 0 has not.
    pub fn iterations(&self) -> u64 {
        self.lock().iterations
    }

    /// Fails if another strategy has made the variable.
    pub(crate) fn check_strategy_of(&self, variable: &Variable) -> Result<()> {
        if variable.spec().strategy == self.strategy {
            return Ok(());
        }
        Err(invalid!(
            "variable",
            "made by a strategy other than the optimizer's"
        ))
    }

    /// A copy of the state `name` of `variable`, in the variable's dtype, or float32 for bfloat16,
    /// and of the shape that its [extent](Slot::extent) says. NotFound before the variable's first
    /// update, for a name that the rule does not have, and for one that it has for variables of
    /// other shapes. With several ranks, each of which keeps a part, all ranks make this call,
    /// between two steps.
    pub fn state(&self, variable: &Variable, name: &str) -> Result<Tensor> {
        self.check_strategy_of(variable)?;
        let (index, _) = self.slot_of(variable, name)?;
        let find = |state: &OptimizerMemory| {
            state.variables.slot(variable, index).ok_or_else(|| {
                Error::NotFound(format!(
                    "state '{name}' of {variable:?}: this optimizer has not updated it yet"
                ))
            })
        };
        if variable.sharding().is_some()
            && let Some(strategy) = Strategy::with_id(self.strategy)
        {
            let _quiet = strategy.lock_between_steps()?;
            let kept = find(&self.lock())?.in_full()?;
            return slots::whole(strategy.ranks(), name, &kept);
        }
        // Under the lock nobody updates it.
        let state = self.lock();
        let kept = find(&state)?;
        if kept.scales.is_some() {
            return Ok(kept.in_full()?.tensor);
        }
        let LocalSlot { tensor, .. } = kept;
        collectives::copy_to(&tensor, tensor.device())
    }

    /// All slots that it keeps for each variable: those of its rule, and its own.
    pub fn slots(&self) -> SlotList {
        self.lock().variables.list().clone()
    }

    /// The position of the slot of this name, and its shape. NotFound if `variable` has none; if no
    /// variable has, with all names.
    pub(crate) fn slot_of(&self, variable: &Variable, name: &str) -> Result<(usize, Shape)> {
        let state = self.lock();
        let list = state.variables.list();
        let index = list.index_of(name, self.rule.name())?;
        let shape = list[index].extent.shape(&variable.shape());
        let shape = shape.ok_or_else(|| {
            let kept = list.iter().filter_map(|slot| {
                slot.extent.shape(&variable.shape())?;
                Some(&*slot.name)
            });
            Error::NotFound(format!(
                "name: '{name}'; of {variable:?}, by its shape, {} keeps {}",
                self.rule.name(),
                kept.collect::<Vec<_>>().join(", ")
            ))
        })?;
        Ok((index, shape))
    }
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "optimizer {:?}", self.rule)
    }
}
