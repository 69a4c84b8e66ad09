//! Update rules: one function for each that makes an optimizer.

use super::prelude::*;
use crate::optimizer::adagrad::Adagrad;
use crate::optimizer::adam::Adam;
use crate::optimizer::adamw::AdamW;
use crate::optimizer::ftrl::Ftrl;
use crate::optimizer::lamb::Lamb;
use crate::optimizer::momentum::Momentum;
use crate::optimizer::rmsprop::RmsProp;
use crate::optimizer::sgd::Sgd;
use crate::optimizer::{Optimizer, UpdateRule};

/// The options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.01)]
#[repr(C)]
pub struct umbo_sgd_options {
    /// sizeof(umbo_sgd_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
}

/// The options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.01, momentum = 0.9)]
#[repr(C)]
pub struct umbo_momentum_options {
    /// sizeof(umbo_momentum_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The decay factor of the sum of gradients: 0 or more, less than 1. By default 0.9.
    pub momentum: f64,
    /// 1: Nesterov's momentum. 0, the default: plain momentum.
    pub nesterov: i32,
    /// What a gradient loses before it is added to the sum: 0 or more, at most 1. 0, the default:
    /// nothing. Must be 0 with Nesterov's momentum.
    pub dampening: f64,
}

/// The options of Adam. UMBO_ADAM_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8)]
#[repr(C)]
pub struct umbo_adam_options {
    /// sizeof(umbo_adam_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment: 0 or more, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment: 0 or more, less than 1. By default 0.999.
    pub beta2: f64,
    /// Added to the square root of the second moment; more than 0. By default 1e-8.
    pub epsilon: f64,
    /// 1: the step divides by the root of the largest second moment so far (AMSGrad). 0, the default: by
    /// that of the second moment.
    pub amsgrad: i32,
}

/// The options of Adam with decoupled weight decay. UMBO_ADAMW_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01)]
#[repr(C)]
pub struct umbo_adamw_options {
    /// sizeof(umbo_adamw_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment: 0 or more, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment: 0 or more, less than 1. By default 0.999.
    pub beta2: f64,
    /// Added to the square root of the second moment; more than 0. By default 1e-8.
    pub epsilon: f64,
    /// The weight decay, which is multiplied by the learning rate; finite and 0 or more. By default
    /// 0.01.
    pub weight_decay: f64,
    /// 1: the step divides by the root of the largest second moment so far (AMSGrad). 0, the default: by
    /// that of the second moment.
    pub amsgrad: i32,
}

/// The options of LAMB. UMBO_LAMB_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01)]
#[repr(C)]
pub struct umbo_lamb_options {
    /// sizeof(umbo_lamb_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment: 0 or more, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment: 0 or more, less than 1. By default 0.999.
    pub beta2: f64,
    /// Added to the square root of the second moment; more than 0. By default 1e-6.
    pub epsilon: f64,
    /// The weight decay, which is part of the direction whose norm is adapted; finite and 0 or
    /// more. By default 0.01.
    pub weight_decay: f64,
}

/// The options of Adagrad. UMBO_ADAGRAD_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.01, epsilon = 1e-10)]
#[repr(C)]
pub struct umbo_adagrad_options {
    /// sizeof(umbo_adagrad_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The first value of the sums of squares; finite and 0 or more. By default 0.
    pub initial_accumulator: f64,
    /// Added to the square root of the sum of squares; more than 0. By default 1e-10.
    pub epsilon: f64,
    /// How fast the learning rate falls: it is divided by 1 + learning_rate_decay * (t - 1) in update t
    /// of a variable. Finite and 0 or more. 0, the default: it stays.
    pub learning_rate_decay: f64,
}

/// The options of RMSprop. UMBO_RMSPROP_OPTIONS_INIT gives the defaults.
#[c_struct(learning_rate = 0.01, rho = 0.99, epsilon = 1e-8)]
#[repr(C)]
pub struct umbo_rmsprop_options {
    /// sizeof(umbo_rmsprop_options).
    pub struct_size: usize,
    /// The learning rate; finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The decay factor of the moments: 0 or more, less than 1. By default 0.99.
    pub rho: f64,
    /// The decay factor of the sum of steps: 0 or more, less than 1. 0, the default: no momentum.
    pub momentum: f64,
    /// Added to the square root of the second moment; more than 0. By default 1e-8.
    pub epsilon: f64,
    /// 1: the second moment is taken about the mean. 0, the default: about zero.
    pub centered: i32,
}

/// The options of FTRL-Proximal. UMBO_FTRL_OPTIONS_INIT gives the defaults.
///
/// `beta`, `l2` and `initial_accumulator` must not all be 0.
#[c_struct(learning_rate = 0.1, beta = 1.0)]
#[repr(C)]
pub struct umbo_ftrl_options {
    /// sizeof(umbo_ftrl_options).
    pub struct_size: usize,
    /// The learning rate; finite and more than 0. By default 0.1.
    pub learning_rate: f64,
    /// Added to the square root of the sum of squares; finite and 0 or more. By default 1.
    pub beta: f64,
    /// The strength of the L1 regularisation; finite and 0 or more. By default 0.
    pub l1: f64,
    /// The strength of the L2 regularisation; finite and 0 or more. By default 0.
    pub l2: f64,
    /// The first value of the sums of squares; finite and 0 or more. By default 0.
    pub initial_accumulator: f64,
}

fn made<R: UpdateRule + 'static>(
    strategy: *const umbo_strategy,
    rule: R,
    learning_rate: f64,
) -> Result<*mut umbo_optimizer> {
    let strategy = get(strategy, "strategy")?.id();
    make(Optimizer::new(strategy, Box::new(rule), learning_rate)?)
}

/// Makes an optimizer: stochastic gradient descent.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w with gradient g:
///
/// ```text
/// w = w - learning_rate * g
/// ```
///
/// It keeps no state.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_sgd(
    strategy: *mut umbo_strategy,
    options: *const umbo_sgd_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    optimizer.write(made(strategy, Sgd, options.learning_rate)?);
}

/// Makes an optimizer: gradient descent with momentum.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w with gradient g:
///
/// ```text
/// a = momentum * a + g
/// w = w - learning_rate * a
/// ```
///
/// With Nesterov's momentum the second line is:
///
/// ```text
/// w = w - learning_rate * (g + momentum * a)
/// ```
///
/// With a dampening the first line is a = momentum * a + (1 - dampening) * g, but in the first update of
/// a variable a = g.
///
/// The state is "momentum" (a), which starts at 0.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_momentum(
    strategy: *mut umbo_strategy,
    options: *const umbo_momentum_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let nesterov = flag(options.nesterov, "options.nesterov")?;
    let rule = Momentum::new(options.momentum, nesterov)?.dampened(options.dampening)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adam.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w with gradient g, in update t (1, 2, ...) of its variable:
///
/// ```text
/// m = beta1 * m + (1 - beta1) * g
/// v = beta2 * v + (1 - beta2) * g * g
/// w = w - learning_rate * m' / (sqrt(v') + epsilon)
/// ```
///
/// m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t) correct for the start at zero. The states are
/// "m" and "v", without the correction.
///
/// With `amsgrad` the largest v of all updates so far takes the place of v in the last line. It is a state,
/// too: "v_max".
///
/// Source: Kingma and Ba, 2015, Algorithm 1; AMSGrad: Reddi, Kale and Kumar, 2018.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adam(
    strategy: *mut umbo_strategy,
    options: *const umbo_adam_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let amsgrad = flag(options.amsgrad, "options.amsgrad")?;
    let rule = Adam::new(options.beta1, options.beta2, options.epsilon)?.amsgrad(amsgrad);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adam with decoupled weight decay (AdamW).
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w:
///
/// ```text
/// w = (1 - learning_rate * weight_decay) * w
/// ```
///
/// Then follows the step of umbo_optimizer_create_adam(). The states are "m" and "v", and "v_max" with
/// `amsgrad`. They do not contain the decay.
///
/// Source: Loshchilov and Hutter, 2019.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adamw(
    strategy: *mut umbo_strategy,
    options: *const umbo_adamw_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let amsgrad = flag(options.amsgrad, "options.amsgrad")?;
    let rule = AdamW::new(options.beta1, options.beta2, options.epsilon, options.weight_decay)?;
    let rule = rule.amsgrad(amsgrad);
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: LAMB.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each variable w, with m' and v' as in umbo_optimizer_create_adam():
///
/// ```text
/// r = m' / (sqrt(v') + epsilon)
/// u = r + weight_decay * w
/// w = w - learning_rate * |w| / |u| * u
/// ```
///
/// If one of the norms |w| and |u| is 0, their quotient counts as 1. The states are "m" and "v".
/// The norms cost one more pass over memory. Row-sparse gradients are not possible, since they need
/// the norms of whole variables.
///
/// Source: You et al., 2020.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_lamb(
    strategy: *mut umbo_strategy,
    options: *const umbo_lamb_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Lamb::new(options.beta1, options.beta2, options.epsilon, options.weight_decay)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: Adagrad.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w with gradient g:
///
/// ```text
/// n = n + g * g
/// w = w - learning_rate * g / (sqrt(n) + epsilon)
/// ```
///
/// With `learning_rate_decay` the learning rate in update t (1, 2, ...) of the variable is
/// learning_rate / (1 + learning_rate_decay * (t - 1)).
///
/// The state is "accumulator" (n), which starts at `initial_accumulator`.
///
/// Source: Duchi, Hazan and Singer, 2011.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_adagrad(
    strategy: *mut umbo_strategy,
    options: *const umbo_adagrad_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Adagrad::new(options.initial_accumulator, options.epsilon)?;
    let rule = rule.decaying(options.learning_rate_decay)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: RMSprop.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
///
/// For each element w with gradient g:
///
/// ```text
/// v = rho * v + (1 - rho) * g * g
/// d = sqrt(v) + epsilon
/// w = w - learning_rate * g / d
/// ```
///
/// With `centered`, the second moment is taken about the mean a:
///
/// ```text
/// a = rho * a + (1 - rho) * g
/// d = sqrt(v - a * a) + epsilon
/// ```
///
/// With momentum, the last step is:
///
/// ```text
/// b = momentum * b + g / d
/// w = w - learning_rate * b
/// ```
///
/// The states are "v", with `centered` also "mean" (a), and with momentum also "momentum" (b).
///
/// Source: Tieleman and Hinton, 2012; the centered form: Graves, 2013.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_rmsprop(
    strategy: *mut umbo_strategy,
    options: *const umbo_rmsprop_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let centered = flag(options.centered, "options.centered")?;
    let rule = RmsProp::new(options.rho, options.momentum, centered, options.epsilon)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}

/// Makes an optimizer: FTRL-Proximal.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] options The options; `options` may be NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, or `beta`, `l2` and
///   `initial_accumulator` that are all 0.
///
/// For each element w with gradient g:
///
/// ```text
/// s = (sqrt(n + g * g) - sqrt(n)) / learning_rate
/// z = z + g - s * w
/// n = n + g * g
/// w = 0 if |z| <= l1, else -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2)
/// ```
///
/// The states are "z" and "n". An update computes the elements from the states alone: let variables
/// start at 0.
///
/// Source: McMahan et al., 2013, Algorithm 1.
#[c_call(out(optimizer), options(options))]
pub fn umbo_optimizer_create_ftrl(
    strategy: *mut umbo_strategy,
    options: *const umbo_ftrl_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    let rule = Ftrl::new(options.beta, options.l1, options.l2, options.initial_accumulator)?;
    optimizer.write(made(strategy, rule, options.learning_rate)?);
}
