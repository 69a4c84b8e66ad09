//! Update rules: one function for each that makes an optimizer.

use crate::machinery::prelude::*;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{Optimizer, UpdateRule};

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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
/// an apply returns UMBO_STATUS_UNIMPLEMENTED. Source: Jordan et al., 2024.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_muon(
    strategy: *const umbo_strategy,
    options: *const umbo_muon_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
/// An apply of row-sparse gradients is refused. On a GPU an apply returns
/// UMBO_STATUS_UNIMPLEMENTED. Source: Shazeer and Stern, 2018, in PyTorch's form.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adafactor(
    strategy: *const umbo_strategy,
    options: *const umbo_adafactor_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
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
    optimizer.write(made(strategy, options.rule()?, options.learning_rate)?);
}
