//! The contributions of replicas to an update: one gradient buffer per replica and variable, or
//! rows of a row-sparse variable ([`rows`](crate::gradients::rows)), and the weight with which each
//! replica submits.

pub(crate) mod accumulation;
pub(crate) mod attached;
pub(crate) mod contribute;
pub(crate) mod contributions;
pub(crate) mod guard;
pub mod inspection;
pub(crate) mod lending;
pub(crate) mod lifecycle;
pub(crate) mod options;
pub mod reduced;
pub(crate) mod replica;
pub(crate) mod row_buffer;
pub(crate) mod row_sums;
pub mod rows;
pub mod saved;
pub(crate) mod step_state;
pub(crate) mod strict_buffers;
pub(crate) mod writing;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, OnceLock};

use crossbeam_utils::CachePadded;

use crate::apply::plan::TreatmentPlan;
use crate::gradients::accumulation::Accumulation;
use crate::gradients::options::GradientsOptions;
use crate::gradients::replica::{GradientBuffer, Replica};
use crate::gradients::step_state::StepState;
use parking_lot::{Mutex, MutexGuard};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::update::chunks::SMALLEST_CHUNK;
use umbo_strategy::ranks::Ranks;
use umbo_strategy::{Strategy, WeakStrategy};
use umbo_tensor::DType;
use umbo_tensor::values::variable::Variable;

/// How a replica's callback reduces the losses of its examples. It decides how gradients are
/// combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReduction {
    /// The callback sums over its examples: the update takes the replicas' sum, divided by the
    /// total weight.
    Sum,
    /// The callback means over its examples: the update takes the replicas' mean, weighted by
    /// their weights.
    Mean,
    /// The callback divides by the examples of the global batch itself: the update takes the
    /// replicas' sum.
    GlobalMean,
}

impl LossReduction {
    /// The factor of a replica's gradient in the sum.
    pub fn factor(self, weight: f64) -> f64 {
        match self {
            LossReduction::Sum | LossReduction::GlobalMean => 1.0,
            LossReduction::Mean => weight,
        }
    }

    /// The divisor of the sum.
    pub fn divisor(self, total_weight: f64) -> f64 {
        match self {
            LossReduction::Sum | LossReduction::Mean => total_weight,
            LossReduction::GlobalMean => 1.0,
        }
    }
}

/// How a replica uses its gradient buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientMode {
    /// The replica will write every element; the buffer holds whatever it held before.
    Overwrite,
    /// The replica will add to the elements; they are zero at its first view in a step.
    Add,
}

/// The gradients of a list of variables, from all replicas of one strategy.
///
/// Each replica has a buffer of its own for each variable, which it views and writes in a step, and
/// submits once with a weight. When the step commits, the contributions are ready; an apply uses
/// them up. While contributions wait for an apply no other step can contribute
/// ([`Gradients::check_applied`]), unless an apply of them has failed: then the next step replaces
/// them.
///
/// Replicas may call [`Gradients::view`] and [`Gradients::submit`] at the same time; each replica's
/// record is accessed only by its own thread. Step numbers start at 1 and grow, and no two steps
/// have the same.
///
/// The data that replicas only read lies in no cache line that the coordinator writes in each step,
/// nor do the counts of references before it.
#[repr(align(128))]
pub struct Gradients {
    strategy: u64,
    owner: WeakStrategy,
    /// Whether the strategy is on one rank.
    is_alone: bool,
    /// The strategy is strict: it checks callbacks for mistakes.
    is_strict: bool,
    /// A warning was logged about a replica that submitted gradients of which it had written none.
    pub(crate) warned: AtomicBool,
    /// The process in which they were made.
    pub(crate) devices: Vec<DeviceId>,
    variables: Vec<Variable>,
    loss_reduction: LossReduction,
    pub(crate) replicas: Vec<CachePadded<Replica>>,
    /// Whether replicas contribute rows, for each variable.
    row_sparse: Vec<bool>,
    /// The last step that used the gradients, and what has become of its contributions.
    pub(crate) step: CachePadded<StepState>,
    /// Whether a replica has ever lent a gradient ([`lent`](crate::gradients::attached)).
    pub(crate) lends: AtomicBool,
    dtype: Option<DType>,
    accumulation_steps: u64,
    accumulation: CachePadded<Mutex<Accumulation>>,
    plan: CachePadded<Mutex<TreatmentPlan>>,
    /// The hash of the quantities that must be equal on all ranks.
    pub(crate) agreement: OnceLock<u64>,
}

impl Gradients {
    /// Gradient buffers, all zero, for `variables` on each of the replicas' `devices` (in replica
    /// order), of the strategy with id `strategy`.
    ///
    /// The variables must have been made by that strategy, differ from each other, and be float32,
    /// float64 or, in host memory, bfloat16.
    pub fn new(
        strategy: u64,
        devices: &[DeviceId],
        variables: Vec<Variable>,
        loss_reduction: LossReduction,
        options: GradientsOptions<'_>,
    ) -> Result<Arc<Gradients>> {
        options.check(strategy, &variables)?;
        variables
            .iter()
            .try_for_each(Variable::check_not_replaced)?;
        let is_row_sparse = |index| options.is_row_sparse(index);
        let mut replicas = Vec::new();
        let of_strategy = Strategy::with_id(strategy);
        let is_strict = of_strategy.as_ref().is_some_and(Strategy::is_strict);
        let refuses_runs =
            of_strategy
                .as_ref()
                .and_then(|strategy| match strategy.ranks().has_fixed_replicas() {
                    true => Some("replicas_in_sync over several ranks"),
                    false => strategy.is_elastic().then_some("an elastic strategy"),
                });
        if let Some(refusing) = refuses_runs.filter(|_| options.accumulation_steps > 1) {
            return Err(Error::Unimplemented(format!(
                "accumulation_steps: {0}, with {refusing}; give {0} times as many replicas in \
                 sync, and batches as many times as large, which has the same sums",
                options.accumulation_steps
            )));
        }
        for (replica, &device) in devices.iter().enumerate() {
            let state = Replica::new(replica, device, &variables, &options, is_strict)?;
            replicas.push(CachePadded::new(state));
        }
        Ok(Arc::new(Gradients {
            strategy,
            owner: of_strategy
                .as_ref()
                .map(Strategy::downgrade)
                .unwrap_or_default(),
            is_alone: of_strategy
                .as_ref()
                .is_none_or(|strategy| strategy.ranks().is_alone()),
            is_strict,
            warned: AtomicBool::new(false),
            devices: devices.to_vec(),
            dtype: options.dtype,
            accumulation_steps: options.accumulation_steps,
            accumulation: CachePadded::new(Mutex::new(Accumulation::new(
                &variables,
                is_row_sparse,
            )?)),
            plan: CachePadded::default(),
            row_sparse: (0..variables.len()).map(is_row_sparse).collect(),
            agreement: OnceLock::new(),
            variables,
            loss_reduction,
            replicas,
            step: CachePadded::new(StepState::new()),
            lends: AtomicBool::new(false),
        }))
    }

    /// The id of the strategy whose replicas write the gradients.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// Whether that strategy is on one rank.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The ranks of that strategy; a process alone if the strategy does not exist any more.
    pub(crate) fn ranks(&self) -> Arc<Ranks> {
        static ALONE: LazyLock<Arc<Ranks>> = LazyLock::new(|| Ranks::alone(1));
        let ranks = |strategy: Strategy| Arc::clone(strategy.ranks());
        let owner = self.owner.upgrade();
        owner.map_or_else(|| Arc::clone(&ALONE), ranks)
    }

    /// Whether callbacks are checked for mistakes, because the strategy is strict.
    pub(crate) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The variables whose gradients these are.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// How callbacks reduce the losses of their examples.
    pub fn loss_reduction(&self) -> LossReduction {
        self.loss_reduction
    }

    /// Whether all replicas' own gradients of variable `index` lie right behind those of the
    /// variable before, which there is, and are as many elements.
    pub(crate) fn follows(&self, index: usize) -> bool {
        self.replicas.iter().all(|replica| {
            let [GradientBuffer::Dense(before), GradientBuffer::Dense(this)] =
                &replica.buffers[index - 1..=index]
            else {
                return false;
            };
            let [elements, of_this] = [before, this].map(|buffer| buffer.tensor.shape().elements());
            elements == of_this && of_this <= SMALLEST_CHUNK && this.follows(before)
        })
    }

    /// Whether replicas contribute rows of variable `index`, which there is.
    pub fn is_row_sparse(&self, index: usize) -> bool {
        self.row_sparse[index]
    }

    /// The element type of the gradients of variable `index`, which there is.
    pub fn dtype(&self, index: usize) -> DType {
        self.dtype_for(self.variables[index].dtype())
    }

    /// The element type of the gradients of a variable of type `variable`.
    pub(crate) fn dtype_for(&self, variable: DType) -> DType {
        self.dtype.unwrap_or(variable)
    }

    /// The number of applies that make one update.
    pub fn accumulation_steps(&self) -> u64 {
        self.accumulation_steps
    }

    /// The number of runs that are accumulated and wait for an update.
    pub fn accumulated_runs(&self) -> Result<u64> {
        Ok(self.accumulation().runs)
    }

    /// The accumulated contributions of earlier runs. Only the apply that has claimed the gradients
    /// calls it.
    pub(crate) fn accumulation(&self) -> MutexGuard<'_, Accumulation> {
        self.accumulation.lock()
    }

    /// How the last optimizer treats each variable. Only the apply that has claimed the gradients
    /// calls it.
    pub(crate) fn plan(&self) -> MutexGuard<'_, TreatmentPlan> {
        self.plan.lock()
    }

    /// How many replicas contribute.
    pub fn replicas(&self) -> usize {
        self.replicas.len()
    }
}

impl std::fmt::Debug for Gradients {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let variables = self.variables.len();
        let replicas = self.replicas.len();
        write!(
            formatter,
            "gradients of {variables} variables from {replicas} replicas"
        )
    }
}
