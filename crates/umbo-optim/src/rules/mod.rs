//! Update rules: the interface between a rule and the optimizer that runs it.

pub mod adafactor;
pub mod adagrad;
pub mod adam;
pub mod catalogue;
pub mod custom;
pub(crate) mod custom_kernels;
pub mod ftrl;
pub mod lars;
pub mod lion;
pub mod momentum;
pub mod muon;
pub mod nadam;
pub mod radam;
pub mod rmsprop;
pub mod sgd;

use std::borrow::Cow;
use std::fmt::Debug;

use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_kernels::dtype::DType;
use umbo_kernels::launch::Address;
use umbo_kernels::matrix::orthogonal::NewtonSchulz;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_kernels::update::factored::FactoredScalars;
use umbo_kernels::update::matrix_step::MatrixMomentum;
use umbo_kernels::update::pass::UpdatePass;
use umbo_kernels::update::rules::{RuleKind, RuleStep, SUMS};
use umbo_tensor::Shape;

/// One tensor of state that a rule keeps for each variable, of the variable's dtype, or float32 for
/// bfloat16.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The name under which the state can be read, such as `momentum`.
    pub name: Cow<'static, str>,
    /// The value of every element before the first update.
    pub initial: f64,
    /// Its shape.
    pub extent: SlotExtent,
}

/// The shape of a state, which follows from that of its variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotExtent {
    /// That of the variable.
    #[default]
    Elements,
    /// That of the variable, of variables of fewer than two dimensions. Others have no such state.
    ElementsOfVectors,
    /// An element for each row of the matrices that a variable's last two dimensions are. Variables
    /// of fewer dimensions have no such state.
    RowsOfMatrices,
    /// The same for each column.
    ColumnsOfMatrices,
}

impl SlotExtent {
    /// The shape of the state of a variable of the shape `variable`; `None` if the variable has no
    /// such state.
    pub fn shape(self, variable: &Shape) -> Option<Shape> {
        match (self, variable.len()) {
            (SlotExtent::Elements, _) | (SlotExtent::ElementsOfVectors, ..2) => Some(*variable),
            (SlotExtent::ElementsOfVectors, 2..) | (_, ..2) => None,
            (SlotExtent::RowsOfMatrices, rank) => Some(variable.without(rank - 1)),
            (SlotExtent::ColumnsOfMatrices, rank) => Some(variable.without(rank - 2)),
        }
    }

    /// Whether there is an element of the state for each of a variable with so many dimensions.
    /// Then the ranks that divide the variable divide the state; they have all of any other one.
    pub fn is_elementwise(self, dimensions: usize) -> bool {
        match self {
            SlotExtent::Elements => true,
            SlotExtent::ElementsOfVectors => dimensions < 2,
            SlotExtent::RowsOfMatrices | SlotExtent::ColumnsOfMatrices => false,
        }
    }

    /// Whether a row of the state belongs to each row of a variable with so many dimensions.
    pub(crate) fn has_rows(self, dimensions: usize) -> bool {
        self != SlotExtent::ColumnsOfMatrices || dimensions > 2
    }
}

impl Slot {
    /// State of the variable's shape, with this name, that starts at `initial`.
    pub const fn new(name: &'static str, initial: f64) -> Slot {
        Slot::with_extent(name, initial, SlotExtent::Elements)
    }

    /// The same with another shape.
    pub const fn with_extent(name: &'static str, initial: f64, extent: SlotExtent) -> Slot {
        Slot {
            name: Cow::Borrowed(name),
            initial,
            extent,
        }
    }
}

/// Scalars that a rule carries from one update of a variable to the next, such as powers of beta.
/// A rule uses as many as it needs, from the front.
pub type Running = [f64; 2];

/// The number of times that a variable was updated, and the rule's running scalars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableProgress {
    /// The number of updates so far: t - 1 in the formula of the next one, the t-th.
    pub updates: u64,
    /// Scalars such as powers of beta; a rule uses as many as it needs, from the front.
    pub running: Running,
}

/// The rates of one update of one variable.
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
    /// The formula for each element; `None` if the program's function computes it.
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
        Scalars {
            rates: *rates,
            step: Some(RuleStep::new(kind, scalars)),
            running,
        }
    }

    /// The scalars of an update that no formula of the kernels computes, by a rule whose first
    /// running scalar counts the updates of a variable, this one among them.
    pub(crate) fn counted(rates: &Rates, [updates, unused]: Running) -> Scalars {
        Scalars {
            rates: *rates,
            step: None,
            running: [updates + 1.0, unused],
        }
    }

    /// The sums over all elements of a variable, or of tiles of it, that its rule needs before it
    /// updates one of them, such as squares of norms. `pass` is the one that is about to be
    /// run. Cannot fail.
    pub fn sums(&self, pass: &UpdatePass<'_>) -> [f64; SUMS] {
        self.step.map_or([0.0; SUMS], |step| step.measure(pass))
    }
}

/// How a rule applies a weight decay λ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightDecay {
    /// L2 regularisation: the optimizer adds λ·w to the gradient before the rule sees it.
    L2,
    /// Decoupled (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019): the
    /// gradient and the state do not contain it, and the rule itself shrinks the weight.
    Decoupled,
}

impl WeightDecay {
    /// The setting of a rule that has both kinds, with its name.
    pub(crate) fn setting(self) -> (&'static str, f64) {
        let is_decoupled = self == WeightDecay::Decoupled;
        ("decoupled_weight_decay", f64::from(is_decoupled))
    }

    /// The factor of the weights before the step of a rule that applies a decoupled weight decay
    /// this way, as AdamW does; 1 with L2, since the optimizer applies that.
    pub(crate) fn kept(self, rates: &Rates) -> f64 {
        match self {
            WeightDecay::L2 => 1.0,
            WeightDecay::Decoupled => 1.0 - rates.learning_rate * rates.weight_decay,
        }
    }
}

/// Whether the library has the rules of the feature `rules-extra`: all but gradient descent, with
/// and without momentum, Adam and AdamW.
const HAS_EXTRA: bool = cfg!(feature = "rules-extra");

impl dyn UpdateRule + '_ {
    /// [`UpdateRule::matrix_rule`]. No rule is for matrices in a library without such rules, from
    /// which the compiler leaves out what serves them.
    #[inline(always)]
    pub(crate) fn matrices(&self) -> Option<&MatrixRule> {
        if HAS_EXTRA { self.matrix_rule() } else { None }
    }

    /// [`UpdateRule::factored_rule`], in the same way.
    #[inline(always)]
    pub(crate) fn factors(&self) -> Option<&FactoredRule> {
        if HAS_EXTRA {
            self.factored_rule()
        } else {
            None
        }
    }
}

/// A rule of gradient descent: its state, and its formula for one element.
///
/// A rule is immutable. The optimizer holds what changes from update to update, the slots and the
/// progress. Both are kept per variable, so that a variable that is updated seldom counts
/// only its own updates.
pub trait UpdateRule: Send + Sync + Debug {
    /// The name, such as `adam`.
    fn name(&self) -> &str;

    /// The numbers that it was made with, by the names of the C options. True is 1, false is 0.
    fn settings(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// The state that it keeps for each variable. Of a variable of any shape those that are
    /// [elementwise](SlotExtent::is_elementwise) come first.
    fn slots(&self) -> &[Slot];

    /// The maps by which the slots can be kept in 8 bits, if they can. They start at 0.
    fn code_maps(&self) -> Option<&'static [CodeMap]> {
        None
    }

    /// The running scalars before the first update.
    fn initial_running(&self) -> Running {
        Running::default()
    }

    /// The progress of a variable before its first update.
    fn initial_progress(&self) -> VariableProgress {
        VariableProgress {
            updates: 0,
            running: self.initial_running(),
        }
    }

    /// How this rule applies a weight decay.
    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::L2
    }

    /// The default coefficient of the weight decay, which the optimizer's settings can replace.
    fn default_weight_decay(&self) -> f64 {
        0.0
    }

    /// Refuses a learning rate, finite and at least 0, with which no update can be computed. Called
    /// when the program sets the rate; rates from a schedule, and rates times a group's factor,
    /// are checked by [`UpdateRule::prepare`].
    fn check_learning_rate(&self, _learning_rate: f64) -> Result<()> {
        Ok(())
    }

    /// The scalars of the next update of a variable. They depend on the arguments alone: variables
    /// with the same rates and progress may share the answer. Fails if they cannot be computed; the
    /// apply then changes nothing.
    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars>;

    /// Whether the rule needs sums over the whole variable. Then the update of an element depends
    /// on all others, and rows cannot be updated alone.
    fn measures(&self) -> bool {
        false
    }

    /// Whether the update of an element depends only on its value, and not on its position.
    fn is_elementwise(&self) -> bool {
        !self.measures() && self.matrix_rule().is_none()
    }

    /// Whether the rule updates bfloat16 weights, whose new values are rounded.
    fn rounds(&self) -> bool {
        self.is_elementwise() || self.factored_rule().is_some()
    }

    /// Fills in the scalars that depend on the measured norms. Cannot fail.
    fn measured(&self, mut scalars: Scalars, sums: [f64; SUMS]) -> Scalars {
        if self.measures() {
            scalars.step = scalars.step.map(|step| step.trusting(sums));
        }
        scalars
    }

    /// Measures, where the pass is over a whole variable.
    fn measure(&self, scalars: Scalars, pass: &UpdatePass<'_>) -> Scalars {
        self.measured(scalars, scalars.sums(pass))
    }

    /// How the rule makes the step of a whole matrix, if it is for matrices alone, which it updates
    /// in host memory. The pass of such a rule has the step as a further slot behind its own.
    fn matrix_rule(&self) -> Option<&MatrixRule> {
        None
    }

    /// The numbers of a rule whose second moments are factored, if they are.
    fn factored_rule(&self) -> Option<&FactoredRule> {
        None
    }

    /// How the program updates a variable that a GPU holds, with these scalars; `None` if it does
    /// not. Called for rules without a formula in the table.
    fn custom_kernel(&self, _scalars: &Scalars) -> Option<CustomKernel<'_>> {
        None
    }

    /// Updates a variable's weights and slots, the latter in the order of [`UpdateRule::slots`].
    /// Cannot fail.
    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        let step = scalars
            .step
            .expect("a rule without steps updates by itself");
        step.run(pass);
    }
}

/// The part of a rule that makes steps of whole matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixRule {
    /// The momentum that the steps are made of.
    pub momentum: MatrixMomentum,
    /// How they become orthogonal.
    pub iteration: NewtonSchulz,
    /// How large they are.
    pub scale: StepScale,
}

/// The factor of orthogonal steps, by the shape of their matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepScale {
    /// √max(1, rows/columns).
    Original,
    /// 0.2·√max(rows, columns): the root mean square of AdamW's steps.
    MatchAdamW,
}

impl StepScale {
    /// The factor for a matrix of so many rows and columns.
    pub fn factor(self, (rows, columns): (usize, usize)) -> f64 {
        let rows = rows as f64;
        let columns = columns as f64;
        match self {
            StepScale::Original => (rows / columns).max(1.0).sqrt(),
            StepScale::MatchAdamW => 0.2 * rows.max(columns).sqrt(),
        }
    }
}

/// The numbers of a rule whose second moments are factored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactoredRule {
    /// The exponent of t in the gradient's share of the moments; at most 0.
    pub beta2_decay: f64,
    /// d: the size from which on steps are scaled down; at least 1.
    pub clip_threshold: f64,
    /// ε₁: the least root of a moment; `None` is the distance from 1 to the next number of the
    /// variable's type.
    pub epsilon1: Option<f64>,
    /// ε₂: the least size of the weights from which the length of a step follows; at least 0.
    pub epsilon2: f64,
}

impl FactoredRule {
    /// The numbers of an update that is prepared; its running scalar is t.
    pub(crate) fn scalars(&self, Scalars { rates, running, .. }: &Scalars) -> FactoredScalars {
        let update = running[0];
        FactoredScalars {
            share: update.powf(self.beta2_decay),
            epsilon1: self.epsilon1,
            epsilon2: self.epsilon2,
            clip_threshold: self.clip_threshold,
            rate: rates.learning_rate.min(1.0 / update.sqrt()),
            kept: WeightDecay::Decoupled.kept(rates),
        }
    }
}

/// An update that a custom rule computes on a GPU: new weights and states of one variable, or of
/// those of its rows that have gradients. Each address is of as many contiguous elements, which
/// nobody else accesses.
#[derive(Debug)]
pub struct CustomUpdate<'a> {
    /// The GPU, in whose context the function is called.
    pub device: DeviceId,
    /// The stream on which the function queues its kernels.
    pub stream: *mut std::ffi::c_void,
    /// The element type of weights, gradient and states.
    pub dtype: DType,
    /// The number of elements, 1 or more.
    pub elements: usize,
    /// The weights, to be read and written.
    pub weights: Address,
    /// The gradient, to be read.
    pub gradient: Address,
    /// The states, to be read and written.
    pub slots: &'a [Address],
    /// The address and the number of the row indices, in the order of the elements; none if the
    /// whole variable is updated.
    pub rows: Option<(Address, usize)>,
    /// The rates; the weight decay is what the function itself has to do.
    pub rates: Rates,
    /// The number of updates of this variable that came before.
    pub step: u64,
}

/// Queues the kernels of one variable's update. If it fails, nothing changes.
pub type QueueUpdate = dyn Fn(&CustomUpdate<'_>) -> Result<()> + Send + Sync;

/// The custom kernel for one variable.
pub struct CustomKernel<'a> {
    /// The function that queues its kernels.
    pub queue: &'a QueueUpdate,
    /// See [`CustomUpdate::rates`].
    pub rates: Rates,
    /// See [`CustomUpdate::step`].
    pub step: u64,
}

/// Refuses an epsilon that does not prevent 0/0, in float32 as well.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<()> {
    if epsilon.is_finite() && epsilon as f32 > 0.0 {
        return Ok(());
    }
    Err(invalid!(
        "epsilon",
        "{epsilon}; must be finite and more than 0 as a float32"
    ))
}

/// Refuses a number that is not finite or is negative.
pub(crate) fn check_not_negative(argument: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(invalid!(argument, "{value}; must be finite and at least 0"))
}

/// Refuses a decay factor outside of [0, 1).
pub(crate) fn check_decay(argument: &'static str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(invalid!(
        argument,
        "{value}; must be at least 0 and less than 1"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_state_follows_from_that_of_its_variable() {
        let shape_of = |extent: SlotExtent, variable: &[usize]| {
            let shape = extent.shape(&Shape::new(variable).unwrap());
            shape.map(|shape| shape.to_vec())
        };
        type Sizes = &'static [usize];
        let cases: [(Sizes, [Option<Sizes>; 4]); 5] = [
            (&[], [Some(&[]), Some(&[]), None, None]),
            (&[3], [Some(&[3]), Some(&[3]), None, None]),
            (&[3, 5], [Some(&[3, 5]), None, Some(&[3]), Some(&[5])]),
            (&[0, 5], [Some(&[0, 5]), None, Some(&[0]), Some(&[5])]),
            (
                &[2, 3, 5, 7],
                [
                    Some(&[2, 3, 5, 7]),
                    None,
                    Some(&[2, 3, 5]),
                    Some(&[2, 3, 7]),
                ],
            ),
        ];
        for (variable, expected) in cases {
            let extents = [
                SlotExtent::Elements,
                SlotExtent::ElementsOfVectors,
                SlotExtent::RowsOfMatrices,
                SlotExtent::ColumnsOfMatrices,
            ];
            for (extent, expected) in extents.into_iter().zip(expected) {
                assert_eq!(
                    shape_of(extent, variable).as_deref(),
                    expected,
                    "{extent:?}"
                );
                let is_elementwise = extent.is_elementwise(variable.len());
                let has_its_shape = expected == Some(variable);
                assert!(!has_its_shape || is_elementwise, "{extent:?} {variable:?}");
            }
        }
    }
}
