//! What an update rule tells the optimizer that runs it.

use std::borrow::Cow;
use std::fmt::Debug;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::kernels::cuda::Address;
use crate::kernels::dtype::DType;
use crate::kernels::update::pass::Pass;
use crate::kernels::update::rules::{RuleKind, RuleStep, SUMS};

/// One tensor of state that a rule keeps for each variable, of the variable's dtype and shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The name under which the state can be read, such as `momentum`.
    pub name: Cow<'static, str>,
    /// What every element is before the first update.
    pub initial: f64,
}

impl Slot {
    /// State with this name that starts at `initial`.
    pub const fn new(name: &'static str, initial: f64) -> Slot {
        Slot { name: Cow::Borrowed(name), initial }
    }
}

/// Scalars that a rule carries from one update of a variable to the next, such as powers of beta.
/// A rule uses as many as it needs, from the front.
pub type Running = [f64; 2];

/// How often a variable was updated, and the rule's running scalars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableProgress {
    /// How often.
    pub updates: u64,
    /// Such as powers of beta; a rule uses as many as it needs, from the front.
    pub running: Running,
}

/// What the optimizer says about one update of one variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The learning rate, with the factor of the variable's group.
    pub learning_rate: f64,
    /// The coefficient of the weight decay; see [`UpdateRule::weight_decay`].
    pub weight_decay: f64,
}

/// The scalars of one update of one variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalars {
    /// The rates of this update.
    pub rates: Rates,
    /// What it does to each element; `None` if the program's own function does it.
    pub step: Option<RuleStep>,
    /// The running scalars, once this update is done.
    pub running: Running,
}

impl Scalars {
    /// The scalars of an update by a rule of the table, in the table's order.
    pub fn of(
        rates: &Rates,
        running: Running,
        kind: RuleKind,
        scalars: impl IntoIterator<Item = f64>,
    ) -> Scalars {
        Scalars { rates: *rates, step: Some(RuleStep::new(kind, scalars)), running }
    }

    /// The sums over all elements of a variable, or of tiles of it, that its rule needs before it updates one
    /// of them, such as squares of norms. `pass` is the one that is about to be run. Cannot fail.
    pub fn sums(&self, pass: &Pass<'_>) -> [f64; SUMS] {
        self.step.map_or([0.0; SUMS], |step| step.measure(pass))
    }
}

/// What a weight decay λ means to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightDecay {
    /// L2 regularisation: the optimizer adds λ·w to the gradient before the rule sees it.
    L2,
    /// Decoupled (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019): the
    /// gradient and the state stay free of it, and the rule itself shrinks the weight.
    Decoupled,
}

/// A rule of gradient descent: which state it keeps, and what it does to one element.
///
/// A rule is immutable. What changes from update to update is held by the optimizer for each
/// variable: the slots and the running scalars. Both are per variable so that a variable whose
/// gradient comes seldom is treated as if its updates were all there are.
pub trait UpdateRule: Send + Sync + Debug {
    /// The name, such as `adam`.
    fn name(&self) -> &str;

    /// The numbers that it was made with, by the names of the C options. Yes is 1, no is 0.
    fn settings(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// The state that it keeps for each variable.
    fn slots(&self) -> &[Slot];

    /// The running scalars before the first update.
    fn initial_running(&self) -> Running {
        Running::default()
    }

    /// What a weight decay means to this rule.
    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::L2
    }

    /// The coefficient of the weight decay where the optimizer's settings say nothing else.
    fn default_weight_decay(&self) -> f64 {
        0.0
    }

    /// Refuses a learning rate, finite and at least 0, with which no update could be computed. Asked when
    /// the program sets it; what a schedule gives, and what a group makes of it, is seen by
    /// [`UpdateRule::prepare`].
    fn check_learning_rate(&self, _learning_rate: f64) -> Result<()> {
        Ok(())
    }

    /// The scalars of the next update of a variable whose running scalars are `running`, and of
    /// nothing else: variables with the same rates and running scalars may share the answer. Fails
    /// if they cannot be computed; the apply then changes nothing.
    fn prepare(&self, rates: &Rates, running: &Running) -> Result<Scalars>;

    /// Whether [`Scalars::sums`] are needed: what becomes of an element then depends on all others, and rows
    /// of a variable cannot be updated alone.
    fn measures(&self) -> bool {
        false
    }

    /// Whether what becomes of an element depends on that alone, and not on which element it is.
    fn is_elementwise(&self) -> bool {
        !self.measures()
    }

    /// `scalars`, completed by what the sums are. Cannot fail.
    fn measured(&self, scalars: Scalars, _sums: [f64; SUMS]) -> Scalars {
        scalars
    }

    /// Measures, where the pass is over a whole variable.
    fn measure(&self, scalars: Scalars, pass: &Pass<'_>) -> Scalars {
        self.measured(scalars, scalars.sums(pass))
    }

    /// How the program updates a variable that a GPU holds, with these scalars; `None` if it does not.
    /// Asked for rules without steps.
    fn custom_kernel(&self, _scalars: &Scalars) -> Option<CustomKernel<'_>> {
        None
    }

    /// Updates a variable's weights and slots, the latter in the order of [`UpdateRule::slots`].
    /// Cannot fail.
    fn update(&self, scalars: &Scalars, pass: &Pass<'_>) {
        let step = scalars.step.expect("a rule without steps updates by itself");
        step.run(pass);
    }
}

/// What a rule of the program's is to compute on a GPU: new weights and states of one variable, or of
/// those of its rows that have gradients. All addresses are of as many contiguous elements, which nobody
/// else has.
#[derive(Debug)]
pub struct CustomUpdate<'a> {
    /// The GPU, in whose context the function is called.
    pub device: DeviceId,
    /// The stream on which everything is to be queued.
    pub stream: *mut std::ffi::c_void,
    /// Of weights, gradient and states.
    pub dtype: DType,
    /// How many elements there are, 1 or more.
    pub elements: usize,
    /// To be read and written.
    pub weights: Address,
    /// To be read.
    pub gradient: Address,
    /// To be read and written.
    pub slots: &'a [Address],
    /// The numbers of the rows that the elements are, one after the other, and how many these are; all of
    /// the variable is updated if there are none.
    pub rows: Option<(Address, usize)>,
    /// The rates; the weight decay is what the function itself has to do.
    pub rates: Rates,
    /// How many updates of this variable came before.
    pub step: u64,
}

/// Queues the kernels of one variable's update. If it fails, nothing changes.
pub type QueueUpdate = dyn Fn(&CustomUpdate<'_>) -> Result<()> + Send + Sync;

/// What a rule of the program's does about one variable.
pub struct CustomKernel<'a> {
    /// What queues its kernels.
    pub queue: &'a QueueUpdate,
    /// See [`CustomUpdate::rates`].
    pub rates: Rates,
    /// See [`CustomUpdate::step`].
    pub step: u64,
}

/// Refuses an epsilon that does not keep a division from being 0/0, in float32 too.
pub(super) fn check_epsilon(epsilon: f64) -> Result<()> {
    if epsilon.is_finite() && epsilon as f32 > 0.0 {
        return Ok(());
    }
    let problem = format!("{epsilon}; must be finite and more than 0 as a float32");
    Err(Error::invalid("epsilon", problem))
}

/// Refuses what is not a finite number of at least 0.
pub(super) fn check_not_negative(argument: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(argument, format!("{value}; must be finite and at least 0")))
}

/// Refuses a decay factor outside of [0, 1).
pub(super) fn check_decay(argument: &'static str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(argument, format!("{value}; must be at least 0 and less than 1")))
}
