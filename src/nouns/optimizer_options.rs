//! Optimizers: what they do besides their rule, for all variables and for groups of them.

use crate::machinery::prelude::*;
use umbo_core::optimizer::{
    AverageKind, Averaging, LossScaling, NonFinite, Settings, StateBits, VariableGroup,
};

/// The treatment of a gradient that is not finite (infinite or NaN).
pub type umbo_non_finite = i32;

/// SKIP with a dynamic loss scale, FAIL with `global_clip_norm`, which one such element would make
/// useless, and IGNORE in all other cases.
pub const UMBO_NON_FINITE_AUTO: umbo_non_finite = 0;
/// It uses the gradient like any other. The report names the first such variable, and the log gets
/// one warning for each optimizer.
pub const UMBO_NON_FINITE_IGNORE: umbo_non_finite = 1401;
/// It changes no variable and no state, uses the gradients up, and reports `skipped`.
pub const UMBO_NON_FINITE_SKIP: umbo_non_finite = 1402;
/// It fails with UMBO_STATUS_INVALID_ARGUMENT and changes nothing. The message names the variable,
/// the step, the replica and the first such element.
pub const UMBO_NON_FINITE_FAIL: umbo_non_finite = 1403;

constants! { NonFinite {
    UMBO_NON_FINITE_IGNORE = Ignore, UMBO_NON_FINITE_SKIP = Skip, UMBO_NON_FINITE_FAIL = Fail,
} }

/// Whether losses are multiplied by a factor, so that small 16-bit gradients do not become zero.
pub type umbo_loss_scaling = i32;

/// There is no factor.
pub const UMBO_LOSS_SCALING_NONE: umbo_loss_scaling = 0;
/// The factor is the same in all runs.
pub const UMBO_LOSS_SCALING_FIXED: umbo_loss_scaling = 1501;
/// The factor grows after some applies that took effect, and shrinks when one is skipped.
pub const UMBO_LOSS_SCALING_DYNAMIC: umbo_loss_scaling = 1502;

/// Whether an optimizer keeps a moving average of the weights.
pub type umbo_average = i32;

/// There is no average.
pub const UMBO_AVERAGE_NONE: umbo_average = 0;
/// An exponential moving average: average = decay * average + (1 - decay) * weights.
pub const UMBO_AVERAGE_EXPONENTIAL: umbo_average = 2001;
/// The mean of all weights that are averaged, as stochastic weight averaging (SWA) takes it.
pub const UMBO_AVERAGE_MEAN: umbo_average = 2002;

/// The options of an optimizer besides its update rule.
///
/// An apply does this in order: it combines what the replicas submitted, divides by the loss scale,
/// clips by norm, clips by value, adds the weight decay, and updates. By default it only combines
/// and updates.
#[c_struct(
    weight_decay = UMBO_AUTO as f64, global_clip_norm = UMBO_INFINITE as f64,
    clip_value = UMBO_INFINITE as f64, loss_scale = 65536.0, loss_scale_growth_factor = 2.0,
    loss_scale_backoff_factor = 0.5, loss_scale_minimum = 1.0, loss_scale_growth_interval = 2000,
    average_decay = 0.999, average_interval = 1
)]
pub struct umbo_optimizer_options {
    /// Finite and 0 or more. AdamW, Lion, LAMB, LARS, Muon, Adafactor and rules with
    /// `decoupled_weight_decay` apply it apart from the gradient; other rules add weight_decay * w
    /// to the gradient (L2). UMBO_AUTO: that of the rule's options, or none.
    pub weight_decay: f64,
    /// The largest norm of all gradients of an apply together: if it is larger, all are scaled down
    /// to it. More than 0, or UMBO_INFINITE. It takes a pass over the gradients and, with more than
    /// two replicas or several accumulated runs, as much memory as the variables have; without that
    /// memory it takes more time. So does the search for values that are not finite.
    pub global_clip_norm: f64,
    /// The largest magnitude of each element of a gradient. More than 0, or UMBO_INFINITE.
    pub clip_value: f64,
    /// A dynamic loss scale needs AUTO or SKIP. If runs are accumulated, FAIL checks each run
    /// before it is added, and SKIP checks the sum when it is applied.
    pub non_finite: umbo_non_finite,
    /// Whether there is a loss scale, and whether it adapts.
    pub loss_scaling: umbo_loss_scaling,
    /// The factor, or what a dynamic one starts with; more than 0. `loss_scale` of
    /// umbo_optimizer_info is the present one.
    pub loss_scale: f64,
    /// The factor of a dynamic loss scale when it grows; more than 1.
    pub loss_scale_growth_factor: f64,
    /// The factor when it shrinks; more than 0 and less than 1.
    pub loss_scale_backoff_factor: f64,
    /// Its smallest value; more than 0, and at most `loss_scale`.
    pub loss_scale_minimum: f64,
    /// It grows after this many applies in a row that took effect; 1 or more.
    pub loss_scale_growth_interval: i64,
    /// 1: the loss is maximised: after clipping, the gradient changes its sign.
    pub maximize: i32,
    /// Chosen before the first update. The average is the state "average" of each variable, and
    /// umbo_optimizer_with_average() puts it in the place of the weights.
    pub average: umbo_average,
    /// The decay of an exponential average; 0 or more and less than 1.
    pub average_decay: f64,
    /// The updates of a variable during which the average is a copy of the weights; 0 or more.
    pub average_start: i64,
    /// The average moves after this many updates; 1 or more.
    pub average_interval: i64,
    /// 1: the decay of the i-th move is at most (1 + i) / (10 + i).
    pub average_warmup: i32,
    /// The bits of an element of the rule's states, chosen before the first update. 0: as many as
    /// the variable has. 8: those of float32 variables of 4096 or more elements have 8 bits, if the
    /// rule has such states, as AdamW has. That saves memory; updates take longer. Such a variable
    /// has no row-sparse gradients, and on a GPU its first apply fails with
    /// UMBO_STATUS_UNIMPLEMENTED.
    pub state_bits: i64,
    /// 1: bfloat16 variables are updated, too. An update computes in float32, and rounds each new
    /// weight up or down at random, to either with the probability of the other's distance, so that
    /// small steps are not lost and no float32 copy is kept. The rule is neither LAMB, LARS, Muon
    /// nor one of the program's own, and there is no `average`.
    pub stochastic_rounding: i32,
    /// The seed of the rounding, which follows from it, the variable's name, how often the variable
    /// was updated, and the index of the element alone.
    pub rounding_seed: u64,
}

/// How an optimizer treats the variables of a group.
#[c_struct(learning_rate_factor = 1.0, weight_decay = UMBO_AUTO as f64)]
pub struct umbo_group_options {
    /// The factor of the learning rate; finite and 0 or more.
    pub learning_rate_factor: f64,
    /// Finite and 0 or more; 0 is usual for biases and normalisation. UMBO_AUTO: the optimizer's.
    pub weight_decay: f64,
    /// 1: they are not updated, and their gradients are not read, also not for the norm.
    pub frozen: i32,
}

fn averaging(options: &umbo_optimizer_options) -> Result<Option<Averaging>> {
    let kind = one_of!(options.average, "options.average", {
        UMBO_AVERAGE_NONE => None,
        UMBO_AVERAGE_EXPONENTIAL => Some(AverageKind::Exponential {
            decay: options.average_decay,
            warmup: flag(options.average_warmup, "options.average_warmup")?,
        }),
        UMBO_AVERAGE_MEAN => Some(AverageKind::Mean),
    })?;
    let Some(kind) = kind else { return Ok(None) };
    Ok(Some(Averaging {
        kind,
        start: natural(options.average_start, "options.average_start")?,
        interval: positive(options.average_interval, "options.average_interval")?,
    }))
}

fn settings(options: &umbo_optimizer_options) -> Result<Settings> {
    let non_finite = match options.non_finite {
        UMBO_NON_FINITE_AUTO => None,
        code => Some(constant(code, "options.non_finite")?),
    };
    let loss_scaling = one_of!(options.loss_scaling, "options.loss_scaling", {
        UMBO_LOSS_SCALING_NONE => None,
        UMBO_LOSS_SCALING_FIXED => Some(LossScaling::Fixed(options.loss_scale)),
        UMBO_LOSS_SCALING_DYNAMIC => Some(LossScaling::Dynamic {
            initial: options.loss_scale,
            growth_factor: options.loss_scale_growth_factor,
            growth_interval: positive(
                options.loss_scale_growth_interval,
                "options.loss_scale_growth_interval",
            )?,
            backoff_factor: options.loss_scale_backoff_factor,
            minimum: options.loss_scale_minimum,
        }),
    })?;
    let limit = |limit, argument| unless(limit, UMBO_INFINITE, argument);
    Ok(Settings {
        weight_decay: unless(options.weight_decay, UMBO_AUTO, "options.weight_decay")?,
        global_clip_norm: limit(options.global_clip_norm, "options.global_clip_norm")?,
        clip_value: limit(options.clip_value, "options.clip_value")?,
        non_finite,
        loss_scaling,
        maximize: flag(options.maximize, "options.maximize")?,
        averaging: averaging(options)?,
        state_bits: state_bits(options.state_bits)?,
        stochastic_rounding: flag(options.stochastic_rounding, "options.stochastic_rounding")?
            .then_some(options.rounding_seed),
    })
}

/// The option of this name, of an optimizer or a trainer.
pub(crate) fn state_bits(bits: i64) -> Result<StateBits> {
    match bits {
        0 => Ok(StateBits::Full),
        8 => Ok(StateBits::Eight),
        bits => Err(invalid!(
            "options.state_bits",
            "{bits}; 0 (those of the variable) and 8 are possible"
        )),
    }
}

/// Replaces all settings of an optimizer, from the next apply on.
///
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: settings out of range, or that exclude each other.
/// - UMBO_STATUS_FAILED_PRECONDITION: an average begins or ends, or `state_bits` changes, after the
///   first update.
///
/// If a setting of the loss scale changes, it starts again at `loss_scale`.
#[c_call(options(options), get(optimizer))]
pub fn umbo_optimizer_configure(
    optimizer: *mut umbo_optimizer,
    options: *const umbo_optimizer_options,
) {
    optimizer.configure(settings(&options)?)
}

/// Treats some variables differently from what umbo_optimizer_configure() says.
///
/// @param[in] variables Variables of the optimizer's strategy. Each is in one group at most.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy or in a group
///   already, or an option out of range. Then the group is not made.
#[c_call(handles(variables, count), options(options))]
pub fn umbo_optimizer_add_group(
    optimizer: *mut umbo_optimizer,
    count: i64,
    variables: *const *mut umbo_variable,
    options: *const umbo_group_options,
) {
    let group = VariableGroup {
        learning_rate_factor: options.learning_rate_factor,
        weight_decay: unless(options.weight_decay, UMBO_AUTO, "options.weight_decay")?,
        frozen: flag(options.frozen, "options.frozen")?,
    };
    get(optimizer, "optimizer")?.add_group(&variables, group)
}
