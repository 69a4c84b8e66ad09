//! An optimizer: its rule, its learning rate, and its state for each variable.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::kernels::update::{self, Contribution, for_real};
use crate::kernels::view::ViewMut;
use crate::optimizer::gradients::CACHE_SHIFT;
use crate::optimizer::rule::{Running, Scalars, Slot, UpdateRule};
use crate::tensor::storage::Storage;
use crate::tensor::{Layout, Tensor};
use crate::values::variable::Variable;

/// From this size on, slots are shifted against the variable and the gradients; see [`allocate`].
const LARGE: usize = 2 << 20;

/// An optimizer of one strategy's variables: a rule, a learning rate, and the rule's state, held
/// once for each variable on the variable's device.
///
/// It changes through [`ApplyAction`](crate::optimizer::ApplyAction), which keeps its memory here
/// so that applying allocates nothing once every variable has been updated. All methods may be
/// called from any thread; they wait for an apply that is at work.
pub struct Optimizer {
    strategy: u64,
    rule: Box<dyn UpdateRule>,
    state: Mutex<State>,
}

/// What applies change, and the memory they work in.
pub(super) struct State {
    pub(super) learning_rate: f64,
    pub(super) iterations: u64,
    /// By [`Variable::key`].
    pub(super) variables: HashMap<usize, VariableState>,
    /// The operands of one variable's pass; empty between passes.
    pub(super) contributions: Vec<Contribution>,
    /// See `contributions`.
    pub(super) slots: Vec<ViewMut>,
}

/// The state of one variable.
pub(super) struct VariableState {
    /// Keeps the variable alive, and so its key from naming another.
    variable: Variable,
    pub(super) slots: Vec<Tensor>,
    pub(super) running: Running,
    /// How often it was updated; what the slots hold is seen from the first time on.
    pub(super) updates: u64,
    /// The scalars of an update that was prepared and is neither done nor dropped.
    pub(super) prepared: Option<Scalars>,
}

impl Optimizer {
    /// An optimizer of variables of the strategy with id `strategy` that follows `rule`. The
    /// learning rate must be finite and at least 0.
    pub fn new(
        strategy: u64,
        rule: Box<dyn UpdateRule>,
        learning_rate: f64,
    ) -> Result<Arc<Optimizer>> {
        check_learning_rate(learning_rate)?;
        let state = Mutex::new(State {
            learning_rate,
            iterations: 0,
            variables: HashMap::new(),
            contributions: Vec::new(),
            slots: Vec::new(),
        });
        Ok(Arc::new(Optimizer { strategy, rule, state }))
    }

    /// The id of the strategy whose variables it updates.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// The rule.
    pub fn rule(&self) -> &dyn UpdateRule {
        &*self.rule
    }

    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The learning rate of the next apply.
    pub fn learning_rate(&self) -> f64 {
        self.lock().learning_rate
    }

    /// Sets the learning rate from the next apply on. Must be finite and at least 0.
    pub fn set_learning_rate(&self, learning_rate: f64) -> Result<()> {
        check_learning_rate(learning_rate)?;
        self.lock().learning_rate = learning_rate;
        Ok(())
    }

    /// How many applies have taken effect. One whose total weight was 0 has not.
    pub fn iterations(&self) -> u64 {
        self.lock().iterations
    }

    /// A copy of the state `name` of `variable`, in the variable's dtype and shape. NotFound before
    /// the variable's first update, and for a name that the rule does not have.
    pub fn state(&self, variable: &Variable, name: &str) -> Result<Tensor> {
        let slots = self.rule.slots();
        let Some(index) = slots.iter().position(|slot| slot.name == name) else {
            let names: Vec<&str> = slots.iter().map(|slot| slot.name).collect();
            let known = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            let problem = format!("'{name}'; {} keeps {known}", self.rule.name());
            return Err(Error::NotFound(format!("name: {problem}")));
        };
        let state = self.lock();
        let known = state.variables.get(&variable.key()).filter(|known| known.updates > 0);
        let Some(slot) = known.and_then(|known| known.slots.get(index)) else {
            return Err(Error::NotFound(format!(
                "state '{name}' of {variable:?}: this optimizer has not updated it yet"
            )));
        };
        let (view, shape) = (slot.reading()?, slot.shape());
        for_real!(slot.dtype(), T => {
            let elements = view.as_slice::<T>().ok_or_else(|| {
                Error::Internal(format!("state '{name}' of {variable:?} is not contiguous"))
            })?;
            Tensor::from_slice(elements, shape, slot.device())
        })
    }
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "optimizer {:?}", self.rule)
    }
}

impl State {
    /// The state of a variable, made at its first update. What is made is not seen before the
    /// update is done.
    pub(super) fn of_variable(
        &mut self,
        variable: &Variable,
        rule: &dyn UpdateRule,
    ) -> Result<&mut VariableState> {
        let out_of_memory =
            |_| Error::ResourceExhausted(format!("memory for the state of {variable:?}"));
        // Room first: the entry itself then allocates nothing. A known variable needs none.
        if !self.variables.contains_key(&variable.key()) {
            self.variables.try_reserve(1).map_err(out_of_memory)?;
        }
        match self.variables.entry(variable.key()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let slots = rule.slots().iter().enumerate();
                let slots = slots.map(|(index, slot)| allocate(variable, index, slot));
                Ok(place.insert(VariableState {
                    variable: variable.clone(),
                    slots: slots.collect::<Result<_>>()?,
                    running: rule.initial_running(),
                    updates: 0,
                    prepared: None,
                }))
            }
        }
    }
}

impl std::fmt::Debug for VariableState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} slots of {:?}", self.slots.len(), self.variable)
    }
}

/// The slot's initial tensor. Large ones start at cache lines that differ, modulo 4 KiB and 64 KiB,
/// from those of the variable, of the replicas' gradients (which are shifted the other way) and of
/// the variable's other slots, since one pass touches them all at once.
fn allocate(variable: &Variable, index: usize, slot: &Slot) -> Result<Tensor> {
    const PERIOD: usize = 64 << 10;
    let (dtype, shape) = (variable.dtype(), variable.shape());
    let bytes = shape.bytes(dtype)?;
    let offset = if bytes >= LARGE { PERIOD - CACHE_SHIFT * (index + 1) % PERIOD } else { 0 };
    let whole = bytes.checked_add(offset).ok_or_else(|| {
        Error::ResourceExhausted(format!("state '{}' of {variable:?}", slot.name))
    })?;
    let storage = Arc::new(Storage::zeroed(whole, variable.device())?);
    let tensor = Tensor::from_storage(storage, dtype, Layout::row_major(shape), offset)?;
    if slot.initial != 0.0 {
        update::fill(&mut tensor.writing()?, slot.initial);
    }
    Ok(tensor)
}

fn check_learning_rate(learning_rate: f64) -> Result<()> {
    if learning_rate.is_finite() && learning_rate >= 0.0 {
        return Ok(());
    }
    let problem = format!("{learning_rate}; must be finite and at least 0");
    Err(Error::invalid("learning_rate", problem))
}
