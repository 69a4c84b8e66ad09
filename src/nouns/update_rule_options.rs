//! Options of update rules, and the rules that they make.

use crate::machinery::prelude::*;
use umbo_core::optimizer::rules::adafactor::Adafactor;
use umbo_core::optimizer::rules::adagrad::Adagrad;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::ftrl::Ftrl;
use umbo_core::optimizer::rules::lars::Lars;
use umbo_core::optimizer::rules::lion::Lion;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::muon::Muon;
use umbo_core::optimizer::rules::nadam::NAdam;
use umbo_core::optimizer::rules::radam::RAdam;
use umbo_core::optimizer::rules::rmsprop::RmsProp;
use umbo_core::optimizer::rules::{FactoredRule, StepScale, WeightDecay};

/// Options of gradient descent.
#[c_struct(learning_rate = 0.01)]
pub struct umbo_sgd_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
}

/// Options of gradient descent with momentum.
#[c_struct(learning_rate = 0.01, momentum = 0.9)]
pub struct umbo_momentum_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the sum of gradients; in [0, 1).
    pub momentum: f64,
    /// 1: Nesterov's momentum.
    pub nesterov: i32,
    /// The share of a gradient that is left out of the sum; in [0, 1]. 0 with Nesterov's momentum.
    /// Without effect if `momentum` is 0.
    pub dampening: f64,
}

impl umbo_momentum_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Momentum> {
        let nesterov = flag(self.nesterov, "options.nesterov")?;
        Momentum::new(self.momentum, nesterov)?.dampened(self.dampening)
    }
}

/// Options of Adam.
#[c_struct(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8)]
pub struct umbo_adam_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the first moment; in [0, 1).
    pub beta1: f64,
    /// The decay of the second moment; in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// 1: the largest second moment so far takes the place of the second moment (AMSGrad).
    pub amsgrad: i32,
}

impl umbo_adam_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Adam> {
        let amsgrad = flag(self.amsgrad, "options.amsgrad")?;
        Ok(Adam::new(self.beta1, self.beta2, self.epsilon)?.amsgrad(amsgrad))
    }
}

/// Options of AdamW.
#[c_struct(
    learning_rate = 0.001,
    beta1 = 0.9,
    beta2 = 0.999,
    epsilon = 1e-8,
    weight_decay = 0.01
)]
pub struct umbo_adamw_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the first moment; in [0, 1).
    pub beta1: f64,
    /// The decay of the second moment; in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// Is multiplied by the learning rate; finite and 0 or more.
    pub weight_decay: f64,
    /// 1: the largest second moment so far takes the place of the second moment (AMSGrad).
    pub amsgrad: i32,
}

impl umbo_adamw_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Adam> {
        let amsgrad = flag(self.amsgrad, "options.amsgrad")?;
        let rule = Adam::adamw(self.beta1, self.beta2, self.epsilon, self.weight_decay)?;
        Ok(rule.amsgrad(amsgrad))
    }
}

/// Options of NAdam.
#[c_struct(
    learning_rate = 0.002,
    beta1 = 0.9,
    beta2 = 0.999,
    epsilon = 1e-8,
    momentum_decay = 0.004
)]
pub struct umbo_nadam_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the first moment; in [0, 1).
    pub beta1: f64,
    /// The decay of the second moment; in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// How fast the momentum rises from about half of beta1 to beta1; finite and 0 or more.
    pub momentum_decay: f64,
    /// 1: the weight decay of umbo_optimizer_options is applied apart from the gradient, as AdamW
    /// does. 0: it is added to the gradient.
    pub decoupled_weight_decay: i32,
}

impl umbo_nadam_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<NAdam> {
        let rule = NAdam::new(self.beta1, self.beta2, self.epsilon, self.momentum_decay)?;
        Ok(rule.with_weight_decay(weight_decay(self.decoupled_weight_decay)?))
    }
}

/// Options of RAdam.
#[c_struct(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8)]
pub struct umbo_radam_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the first moment; in [0, 1).
    pub beta1: f64,
    /// The decay of the second moment; in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// As in umbo_nadam_options.
    pub decoupled_weight_decay: i32,
}

impl umbo_radam_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<RAdam> {
        let rule = RAdam::new(self.beta1, self.beta2, self.epsilon)?;
        Ok(rule.with_weight_decay(weight_decay(self.decoupled_weight_decay)?))
    }
}

/// Options of Lion.
#[c_struct(learning_rate = 0.0001, beta1 = 0.9, beta2 = 0.99)]
pub struct umbo_lion_options {
    /// The size of each step; finite and 0 or more.
    pub learning_rate: f64,
    /// The share of the momentum in a step; in [0, 1).
    pub beta1: f64,
    /// The decay of the momentum; in [0, 1).
    pub beta2: f64,
    /// Is multiplied by the learning rate; finite and 0 or more.
    pub weight_decay: f64,
}

impl umbo_lion_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Lion> {
        Lion::new(self.beta1, self.beta2, self.weight_decay)
    }
}

/// Options of LAMB.
#[c_struct(
    learning_rate = 0.001,
    beta1 = 0.9,
    beta2 = 0.999,
    epsilon = 1e-6,
    weight_decay = 0.01
)]
pub struct umbo_lamb_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the first moment; in [0, 1).
    pub beta1: f64,
    /// The decay of the second moment; in [0, 1).
    pub beta2: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// A part of the direction whose norm is adapted; finite and 0 or more.
    pub weight_decay: f64,
}

impl umbo_lamb_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Adam> {
        Adam::lamb(self.beta1, self.beta2, self.epsilon, self.weight_decay)
    }
}

/// Options of LARS.
#[c_struct(learning_rate = 0.1, momentum = 0.9, trust_coefficient = 0.001)]
pub struct umbo_lars_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the sum of steps; in [0, 1).
    pub momentum: f64,
    /// The factor of the quotient of the norms; finite and 0 or more.
    pub trust_coefficient: f64,
    /// A part of the direction whose norm is adapted; finite and 0 or more.
    pub weight_decay: f64,
}

impl umbo_lars_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Lars> {
        Lars::new(self.momentum, self.trust_coefficient, self.weight_decay)
    }
}

/// Options of Muon.
#[c_struct(
    learning_rate = 0.001,
    momentum = 0.95,
    nesterov = 1,
    weight_decay = 0.1,
    epsilon = 1e-7
)]
pub struct umbo_muon_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the momentum; in [0, 1).
    pub momentum: f64,
    /// 1: Nesterov's momentum.
    pub nesterov: i32,
    /// Is multiplied by the learning rate; finite and 0 or more.
    pub weight_decay: f64,
    /// The least norm that a matrix is divided by; more than 0.
    pub epsilon: f64,
    /// 1: steps are as large as those of AdamW, for its learning rate and weight decay.
    pub match_adamw: i32,
}

impl umbo_muon_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Muon> {
        let nesterov = flag(self.nesterov, "options.nesterov")?;
        let scale = match flag(self.match_adamw, "options.match_adamw")? {
            true => StepScale::MatchAdamW,
            false => StepScale::Original,
        };
        let rule = Muon::new(self.momentum, self.weight_decay, self.epsilon)?;
        Ok(rule.nesterov(nesterov).scaled(scale))
    }
}

/// Options of Adafactor.
#[c_struct(
    learning_rate = 0.01,
    beta2_decay = -0.8,
    epsilon2 = 1e-3,
    clip_threshold = 1.0
)]
pub struct umbo_adafactor_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The exponent of t in a gradient's share of the second moments; 0 or less.
    pub beta2_decay: f64,
    /// The least root of a second moment, more than 0; 0: the distance from 1 to the next number of
    /// the variable's type.
    pub epsilon1: f64,
    /// The least size of the weights from which the length of a step follows; 0 or more.
    pub epsilon2: f64,
    /// The size (d) from which on steps are scaled down; 1 or more.
    pub clip_threshold: f64,
    /// Is multiplied by the learning rate; finite and 0 or more.
    pub weight_decay: f64,
}

impl umbo_adafactor_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Adafactor> {
        let numbers = FactoredRule {
            beta2_decay: self.beta2_decay,
            clip_threshold: self.clip_threshold,
            epsilon1: (self.epsilon1 != 0.0).then_some(self.epsilon1),
            epsilon2: self.epsilon2,
        };
        Adafactor::new(numbers, self.weight_decay)
    }
}

/// Options of Adagrad.
#[c_struct(learning_rate = 0.01, epsilon = 1e-10)]
pub struct umbo_adagrad_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The first value of the sums of squares; finite and 0 or more.
    pub initial_accumulator: f64,
    /// Added to the root of the sum of squares; more than 0.
    pub epsilon: f64,
    /// In update t of a variable the rate is divided by 1 + learning_rate_decay * (t - 1).
    pub learning_rate_decay: f64,
}

impl umbo_adagrad_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Adagrad> {
        let rule = Adagrad::new(self.initial_accumulator, self.epsilon)?;
        rule.decaying(self.learning_rate_decay)
    }
}

/// Options of RMSprop.
#[c_struct(learning_rate = 0.01, rho = 0.99, epsilon = 1e-8)]
pub struct umbo_rmsprop_options {
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// The decay of the moments; in [0, 1).
    pub rho: f64,
    /// The decay of the sum of steps; in [0, 1). 0: no momentum.
    pub momentum: f64,
    /// Added to the root of the second moment; more than 0.
    pub epsilon: f64,
    /// 1: the second moment is taken about the mean. 0: about zero.
    pub centered: i32,
}

impl umbo_rmsprop_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<RmsProp> {
        let centered = flag(self.centered, "options.centered")?;
        RmsProp::new(self.rho, self.momentum, centered, self.epsilon)
    }
}

/// Options of FTRL-Proximal. `beta`, `l2` and `initial_accumulator` must not all be 0.
#[c_struct(learning_rate = 0.1, beta = 1.0)]
pub struct umbo_ftrl_options {
    /// Finite and more than 0.
    pub learning_rate: f64,
    /// Added to the root of the sum of squares; finite and 0 or more.
    pub beta: f64,
    /// The strength of the L1 regularisation; finite and 0 or more.
    pub l1: f64,
    /// The strength of the L2 regularisation; finite and 0 or more.
    pub l2: f64,
    /// The first value of the sums of squares; finite and 0 or more.
    pub initial_accumulator: f64,
}

impl umbo_ftrl_options {
    /// The rule with these options.
    pub(crate) fn rule(&self) -> Result<Ftrl> {
        Ftrl::new(self.beta, self.l1, self.l2, self.initial_accumulator)
    }
}

/// How a rule applies the weight decay, by its option `decoupled_weight_decay`.
fn weight_decay(decoupled: i32) -> Result<WeightDecay> {
    Ok(match flag(decoupled, "options.decoupled_weight_decay")? {
        true => WeightDecay::Decoupled,
        false => WeightDecay::L2,
    })
}
