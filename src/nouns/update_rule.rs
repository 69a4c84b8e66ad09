//! Update rules: one function for each that makes an optimizer.

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
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::rules::{FactoredRule, StepScale, WeightDecay};
use umbo_core::optimizer::{Optimizer, UpdateRule};

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

/// How a rule applies the weight decay, by its option `decoupled_weight_decay`.
fn weight_decay(decoupled: i32) -> Result<WeightDecay> {
    Ok(match flag(decoupled, "options.decoupled_weight_decay")? {
        true => WeightDecay::Decoupled,
        false => WeightDecay::L2,
    })
}

fn made<R: UpdateRule + 'static>(
    strategy: *const umbo_strategy,
    rule: R,
    learning_rate: f64,
) -> Result<*mut umbo_optimizer> {
    let strategy = get(strategy, "strategy")?.id();
    make(Optimizer::new(strategy, Box::new(rule), learning_rate)?)
}

/// Makes an optimizer: gradient descent. It keeps no state.
///
/// For each element w with gradient g: w = w - learning_rate * g
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_sgd(
    strategy: *const umbo_strategy,
    options: *const umbo_sgd_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    optimizer.write(made(strategy, Sgd, options.learning_rate)?);
}

/// Makes an optimizer: gradient descent with momentum. Its state is "momentum" (a), at first 0.
///
/// ```text
/// a = momentum * a + g
/// w = w - learning_rate * a                      with nesterov: g + momentum * a in place of a
/// ```
///
/// With a dampening it adds (1 - dampening) * g, except in the first update of a variable and if
/// momentum is 0.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_momentum(
    strategy: *const umbo_strategy,
    options: *const umbo_momentum_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let nesterov = flag(options.nesterov, "options.nesterov")?;
    let rule = Momentum::new(options.momentum, nesterov)?.dampened(options.dampening)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adam. Its states are "m" and "v", with `amsgrad` also "v_max".
///
/// In update t (1, 2, ...) of a variable:
///
/// ```text
/// m = beta1 * m + (1 - beta1) * g                m' = m / (1 - beta1^t)
/// v = beta2 * v + (1 - beta2) * g * g            v' = v / (1 - beta2^t)
/// w = w - learning_rate * m' / (sqrt(v') + epsilon)
/// ```
///
/// With `amsgrad` the last line takes the largest v so far. Sources: Kingma and Ba, 2015, Algorithm
/// 1; Reddi, Kale and Kumar, 2018.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adam(
    strategy: *const umbo_strategy,
    options: *const umbo_adam_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let amsgrad = flag(options.amsgrad, "options.amsgrad")?;
    let rule = Adam::new(options.beta1, options.beta2, options.epsilon)?.amsgrad(amsgrad);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: AdamW, Adam with decoupled weight decay. Its states are Adam's.
///
/// First w = (1 - learning_rate * weight_decay) * w, then the step of umbo_optimizer_create_adam(),
/// whose states do not contain the decay. Source: Loshchilov and Hutter, 2019.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adamw(
    strategy: *const umbo_strategy,
    options: *const umbo_adamw_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let amsgrad = flag(options.amsgrad, "options.amsgrad")?;
    let rule = Adam::adamw(
        options.beta1,
        options.beta2,
        options.epsilon,
        options.weight_decay,
    )?;
    let rule = rule.amsgrad(amsgrad);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: NAdam, Adam with Nesterov's momentum. Its states are "m" and "v".
///
/// In update t (1, 2, ...) of a variable:
///
/// ```text
/// p(t) = beta1 * (1 - 0.5 * 0.96^(t * momentum_decay))
/// q(t) = 1 - p(1) * p(2) * ... * p(t)
/// m = beta1 * m + (1 - beta1) * g
/// v = beta2 * v + (1 - beta2) * g * g            v' = v / (1 - beta2^t)
/// u = (1 - p(t)) / q(t) * g + p(t + 1) / q(t + 1) * m
/// w = w - learning_rate * u / (sqrt(v') + epsilon)
/// ```
///
/// With `decoupled_weight_decay` first w = (1 - learning_rate * weight_decay) * w. Source: Dozat,
/// 2016.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_nadam(
    strategy: *const umbo_strategy,
    options: *const umbo_nadam_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = NAdam::new(
        options.beta1,
        options.beta2,
        options.epsilon,
        options.momentum_decay,
    )?;
    let rule = rule.with_weight_decay(weight_decay(options.decoupled_weight_decay)?);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: RAdam, Adam whose first steps are rectified. Its states are "m" and "v".
///
/// In update t (1, 2, ...) of a variable, with n = 2 / (1 - beta2) - 1:
///
/// ```text
/// m = beta1 * m + (1 - beta1) * g                m' = m / (1 - beta1^t)
/// v = beta2 * v + (1 - beta2) * g * g            v' = (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
/// p = n - 2 * t * beta2^t / (1 - beta2^t)
/// r = sqrt((p - 4) * (p - 2) * n / ((n - 4) * (n - 2) * p))
/// w = w - learning_rate * m' * r / v'            if p is at most 5: w - learning_rate * m'
/// ```
///
/// With `decoupled_weight_decay` first w = (1 - learning_rate * weight_decay) * w. Source: Liu et
/// al., 2020.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_radam(
    strategy: *const umbo_strategy,
    options: *const umbo_radam_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = RAdam::new(options.beta1, options.beta2, options.epsilon)?;
    let rule = rule.with_weight_decay(weight_decay(options.decoupled_weight_decay)?);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Lion, whose steps are signs. Its state is "m".
///
/// ```text
/// u = sign(beta1 * m + (1 - beta1) * g)          sign(0) is 0
/// w = w - learning_rate * (u + weight_decay * w)
/// m = beta2 * m + (1 - beta2) * g
/// ```
///
/// Source: Chen et al., 2023, whose learning rates for it are 3 to 10 times smaller than for AdamW,
/// and whose weight decays are as many times larger.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_lion(
    strategy: *const umbo_strategy,
    options: *const umbo_lion_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Lion::new(options.beta1, options.beta2, options.weight_decay)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: LAMB. Its states are "m" and "v".
///
/// For each variable, with m' and v' as in umbo_optimizer_create_adam():
///
/// ```text
/// u = m' / (sqrt(v') + epsilon) + weight_decay * w
/// w = w - learning_rate * |w| / |u| * u          |w| / |u| is 1 if one of the norms is 0
/// ```
///
/// The norms take one more pass over memory, and whole variables: row-sparse gradients are refused.
/// Source: You et al., 2020.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_lamb(
    strategy: *const umbo_strategy,
    options: *const umbo_lamb_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Adam::lamb(
        options.beta1,
        options.beta2,
        options.epsilon,
        options.weight_decay,
    )?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: LARS. Its state is "momentum" (a).
///
/// For each variable:
///
/// ```text
/// u = g + weight_decay * w
/// r = trust_coefficient * |w| / |u|              1 if one of the norms is 0
/// a = momentum * a + learning_rate * r * u
/// w = w - a
/// ```
///
/// Each variable has a trust ratio r of its own. The norms take one more pass over memory, and
/// whole variables: row-sparse gradients are refused. Biases and normalisations, which LARS usually
/// leaves out, belong to gradients and an optimizer of their own, such as that of
/// umbo_optimizer_create_momentum(). Source: You, Gitman and Ginsburg, 2017.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_lars(
    strategy: *const umbo_strategy,
    options: *const umbo_lars_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Lars::new(
        options.momentum,
        options.trust_coefficient,
        options.weight_decay,
    )?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Muon, whose steps are orthogonal matrices. Its state is "momentum" (a).
///
/// For each variable, which is a matrix of r rows and c columns:
///
/// ```text
/// a = momentum * a + (1 - momentum) * g
/// u = a                                          with nesterov: momentum * a + (1 - momentum) * g
/// x = u / max(|u|, epsilon)
/// x = 3.4445 * x + (-4.7750 * y + 2.0315 * y * y) * x, with y = x * transposed(x); five times
/// s = sqrt(max(1, r / c))                        with match_adamw: 0.2 * sqrt(max(r, c))
/// w = w - learning_rate * (s * x + weight_decay * w)
/// ```
///
/// The iteration is computed in float32. Variables that are not matrices, which Muon is not for,
/// and embeddings and the last layer, for which it is worse than AdamW, belong to gradients and an
/// optimizer of their own; an apply of these is refused, and so are row-sparse gradients. On a GPU
/// an apply answers UMBO_STATUS_UNIMPLEMENTED. Source: Jordan et al., 2024.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_muon(
    strategy: *const umbo_strategy,
    options: *const umbo_muon_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let nesterov = flag(options.nesterov, "options.nesterov")?;
    let scale = match flag(options.match_adamw, "options.match_adamw")? {
        true => StepScale::MatchAdamW,
        false => StepScale::Original,
    };
    let rule = Muon::new(options.momentum, options.weight_decay, options.epsilon)?;
    let rule = rule.nesterov(nesterov).scaled(scale);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adafactor, whose second moments are the means of rows and columns. Its
/// states are "v_row" (R) and "v_column" (C), of a variable of r rows and c columns; for each
/// further dimension before these two it has as many matrices. The state of a variable of fewer
/// dimensions is "v". |x| is the root of the mean of the squares of x.
///
/// ```text
/// share = t^beta2_decay
/// R = R + share * (mean over columns of g * g - R)
/// C = C + share * (mean over rows of g * g - C)
/// v = R * C / max(epsilon1, mean of R)                  fewer dimensions: v + share * (g * g - v)
/// u = g / sqrt(max(v, epsilon1 * epsilon1))
/// rate = max(epsilon2, |w|) * min(learning_rate, 1 / sqrt(t)) / max(1, |u| / clip_threshold)
/// w = (1 - learning_rate * weight_decay) * w - rate * u
/// ```
///
/// An apply of row-sparse gradients is refused. On a GPU an apply answers
/// UMBO_STATUS_UNIMPLEMENTED. Source: Shazeer and Stern, 2018, in PyTorch's form.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adafactor(
    strategy: *const umbo_strategy,
    options: *const umbo_adafactor_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = options.rule()?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adagrad. Its state is "accumulator" (n), at first `initial_accumulator`.
///
/// ```text
/// n = n + g * g
/// w = w - learning_rate * g / (sqrt(n) + epsilon)
/// ```
///
/// Source: Duchi, Hazan and Singer, 2011.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adagrad(
    strategy: *const umbo_strategy,
    options: *const umbo_adagrad_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Adagrad::new(options.initial_accumulator, options.epsilon)?;
    let rule = rule.decaying(options.learning_rate_decay)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: RMSprop. Its states are "v", with `centered` also "mean" (a), with momentum
/// also "momentum" (b).
///
/// ```text
/// v = rho * v + (1 - rho) * g * g
/// a = rho * a + (1 - rho) * g                    only if centered
/// d = sqrt(v) + epsilon                          if centered: sqrt(v - a * a) + epsilon
/// w = w - learning_rate * g / d                  with momentum: b = momentum * b + g / d
///                                                               w = w - learning_rate * b
/// ```
///
/// Sources: Tieleman and Hinton, 2012; the centered form: Graves, 2013.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_rmsprop(
    strategy: *const umbo_strategy,
    options: *const umbo_rmsprop_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let centered = flag(options.centered, "options.centered")?;
    let rule = RmsProp::new(options.rho, options.momentum, centered, options.epsilon)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: FTRL-Proximal. Its states are "z" and "n".
///
/// ```text
/// s = (sqrt(n + g * g) - sqrt(n)) / learning_rate
/// z = z + g - s * w
/// n = n + g * g
/// w = 0 if |z| <= l1, else -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2)
/// ```
///
/// An update computes w from the states alone: let variables start at 0. Source: McMahan et al.,
/// 2013, Algorithm 1.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_ftrl(
    strategy: *const umbo_strategy,
    options: *const umbo_ftrl_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Ftrl::new(
        options.beta,
        options.l1,
        options.l2,
        options.initial_accumulator,
    )?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}
