//! Update rules: one function for each that makes an optimizer.

use super::boundary::{boundary, flag, out};
use super::handle::{get, make};
use super::object::{umbo_optimizer, umbo_strategy};
use super::options::{self, Extensible};
use super::status::umbo_status;
use crate::error::Result;
use crate::optimizer::adagrad::Adagrad;
use crate::optimizer::adam::Adam;
use crate::optimizer::adamw::AdamW;
use crate::optimizer::ftrl::Ftrl;
use crate::optimizer::lamb::Lamb;
use crate::optimizer::momentum::Momentum;
use crate::optimizer::rmsprop::RmsProp;
use crate::optimizer::sgd::Sgd;
use crate::optimizer::{Optimizer, UpdateRule};

/// Options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_sgd_options {
    /// sizeof(umbo_sgd_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
}

/// Options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_momentum_options {
    /// sizeof(umbo_momentum_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The decay factor of the sum of gradients, less than 1. By default 0.9.
    pub momentum: f64,
    /// 1: Nesterov's momentum.
    pub nesterov: i32,
}

/// Options of Adam. UMBO_ADAM_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_adam_options {
    /// sizeof(umbo_adam_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment, less than 1. By default 0.999.
    pub beta2: f64,
    /// What is added to the square root of the second moment. By default 1e-8.
    pub epsilon: f64,
}

/// Options of Adam with decoupled weight decay. UMBO_ADAMW_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_adamw_options {
    /// sizeof(umbo_adamw_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment, less than 1. By default 0.999.
    pub beta2: f64,
    /// What is added to the square root of the second moment. By default 1e-8.
    pub epsilon: f64,
    /// The decay, which is multiplied with the learning rate. By default 0.01.
    pub weight_decay: f64,
}

/// Options of LAMB. UMBO_LAMB_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_lamb_options {
    /// sizeof(umbo_lamb_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment, less than 1. By default 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment, less than 1. By default 0.999.
    pub beta2: f64,
    /// What is added to the square root of the second moment. By default 1e-6.
    pub epsilon: f64,
    /// The decay, as a part of the direction whose norm is adapted. By default 0.01.
    pub weight_decay: f64,
}

/// Options of Adagrad. UMBO_ADAGRAD_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_adagrad_options {
    /// sizeof(umbo_adagrad_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// Where the sums of squares start; 0 or more.
    pub initial_accumulator: f64,
    /// What is added to the square root of the sum of squares. By default 1e-10.
    pub epsilon: f64,
}

/// Options of RMSprop. UMBO_RMSPROP_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_rmsprop_options {
    /// sizeof(umbo_rmsprop_options).
    pub struct_size: usize,
    /// Finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The decay factor of the moments, less than 1. By default 0.99.
    pub rho: f64,
    /// The decay factor of the sum of steps, less than 1; 0: no momentum.
    pub momentum: f64,
    /// What is added to the square root of the second moment. By default 1e-8.
    pub epsilon: f64,
    /// 1: the second moment is taken about the mean.
    pub centered: i32,
}

/// Options of FTRL-Proximal. UMBO_FTRL_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_ftrl_options {
    /// sizeof(umbo_ftrl_options).
    pub struct_size: usize,
    /// Finite and more than 0. By default 0.1.
    pub learning_rate: f64,
    /// What is added to the square root of the sum of squares. By default 1.
    pub beta: f64,
    /// The strength of the L1 regularisation; 0 or more.
    pub l1: f64,
    /// The strength of the L2 regularisation; 0 or more.
    pub l2: f64,
    /// Where the sums of squares start; 0 or more.
    pub initial_accumulator: f64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_sgd_options {}

impl Default for umbo_sgd_options {
    fn default() -> Self {
        umbo_sgd_options { struct_size: size_of::<Self>(), learning_rate: 0.01 }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_momentum_options {}

impl Default for umbo_momentum_options {
    fn default() -> Self {
        umbo_momentum_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.01,
            momentum: 0.9,
            nesterov: 0,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_adam_options {}

impl Default for umbo_adam_options {
    fn default() -> Self {
        umbo_adam_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.001,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_adamw_options {}

impl Default for umbo_adamw_options {
    fn default() -> Self {
        umbo_adamw_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.001,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_lamb_options {}

impl Default for umbo_lamb_options {
    fn default() -> Self {
        umbo_lamb_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.001,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.01,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_adagrad_options {}

impl Default for umbo_adagrad_options {
    fn default() -> Self {
        umbo_adagrad_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.01,
            initial_accumulator: 0.0,
            epsilon: 1e-10,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_rmsprop_options {}

impl Default for umbo_rmsprop_options {
    fn default() -> Self {
        umbo_rmsprop_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.01,
            rho: 0.99,
            momentum: 0.0,
            epsilon: 1e-8,
            centered: 0,
        }
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_ftrl_options {}

impl Default for umbo_ftrl_options {
    fn default() -> Self {
        umbo_ftrl_options {
            struct_size: size_of::<Self>(),
            learning_rate: 0.1,
            beta: 1.0,
            l1: 0.0,
            l2: 0.0,
            initial_accumulator: 0.0,
        }
    }
}

/// # Safety
/// `output` is NULL or may be written; `options` is NULL or leads to a struct of the size that it
/// states.
unsafe fn create<O: Extensible + Default, R: UpdateRule + 'static>(
    function: &'static str,
    strategy: *mut umbo_strategy,
    options: *const O,
    output: *mut *mut umbo_optimizer,
    rule: impl FnOnce(O) -> Result<(R, f64)>,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller's promise is the same.
        let (output, options) =
            unsafe { (out(output, "optimizer")?, options::read(options, "options")?) };
        let (rule, learning_rate) = rule(options)?;
        let strategy = get(strategy, "strategy")?.id();
        output.write(make(Optimizer::new(strategy, Box::new(rule), learning_rate)?)?);
        Ok(())
    })
}

/// Stochastic gradient descent, for variables of the strategy: w = w - learning_rate * g.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_sgd(
    strategy: *mut umbo_strategy,
    options: *const umbo_sgd_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_sgd_options| Ok((Sgd, options.learning_rate));
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_sgd", strategy, options, optimizer, rule) }
}

/// Gradient descent with momentum, for variables of the strategy: a = momentum * a + g, then
/// w = w - learning_rate * a, or with Nesterov's momentum w = w - learning_rate * (g + momentum * a).
/// The state "momentum" is a. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_momentum(
    strategy: *mut umbo_strategy,
    options: *const umbo_momentum_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_momentum_options| {
        let nesterov = flag(options.nesterov, "options.nesterov")?;
        let rule = Momentum::new(options.momentum, nesterov)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_momentum", strategy, options, optimizer, rule) }
}

/// Adam (Kingma and Ba, 2015, Algorithm 1), for variables of the strategy: m = beta1 * m +
/// (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, and with both corrected for their start
/// at zero, w = w - learning_rate * m / (sqrt(v) + epsilon). The states are "m" and "v", before the
/// correction. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_adam(
    strategy: *mut umbo_strategy,
    options: *const umbo_adam_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_adam_options| {
        let rule = Adam::new(options.beta1, options.beta2, options.epsilon)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_adam", strategy, options, optimizer, rule) }
}

/// AdamW (Loshchilov and Hutter, 2019), for variables of the strategy: w = (1 - learning_rate *
/// weight_decay) * w, then the step of Adam, whose states "m" and "v" have nothing of the decay.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_adamw(
    strategy: *mut umbo_strategy,
    options: *const umbo_adamw_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_adamw_options| {
        let rule = AdamW::new(options.beta1, options.beta2, options.epsilon, options.weight_decay)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_adamw", strategy, options, optimizer, rule) }
}

/// LAMB (You et al., 2020), for variables of the strategy: with Adam's direction r = m / (sqrt(v) +
/// epsilon), corrected, and u = r + weight_decay * w, it is w = w - learning_rate * |w| / |u| * u
/// for each variable, where |w| / |u| is 1 if one of the norms is 0. The states are "m" and "v". The
/// norms cost one more pass over memory. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_lamb(
    strategy: *mut umbo_strategy,
    options: *const umbo_lamb_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_lamb_options| {
        let rule = Lamb::new(options.beta1, options.beta2, options.epsilon, options.weight_decay)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_lamb", strategy, options, optimizer, rule) }
}

/// Adagrad (Duchi, Hazan and Singer, 2011), for variables of the strategy: n = n + g * g, then
/// w = w - learning_rate * g / (sqrt(n) + epsilon). The state "accumulator" is n. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_adagrad(
    strategy: *mut umbo_strategy,
    options: *const umbo_adagrad_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_adagrad_options| {
        let epsilon = options.epsilon;
        let rule = Adagrad::new(options.initial_accumulator, epsilon)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_adagrad", strategy, options, optimizer, rule) }
}

/// RMSprop (Tieleman and Hinton, 2012), for variables of the strategy: v = rho * v + (1 - rho) *
/// g * g and d = sqrt(v) + epsilon; centered (Graves, 2013), a = rho * a + (1 - rho) * g and
/// d = sqrt(v - a * a) + epsilon; then w = w - learning_rate * g / d, or with momentum b = momentum *
/// b + g / d and w = w - learning_rate * b. The states are "v", "mean" (a) and "momentum" (b), as far
/// as there are any. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_rmsprop(
    strategy: *mut umbo_strategy,
    options: *const umbo_rmsprop_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_rmsprop_options| {
        let rule = RmsProp::new(
            options.rho,
            options.momentum,
            flag(options.centered, "options.centered")?,
            options.epsilon,
        )?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_rmsprop", strategy, options, optimizer, rule) }
}

/// FTRL-Proximal (McMahan et al., 2013, Algorithm 1), for variables of the strategy: s = (sqrt(n + g *
/// g) - sqrt(n)) / learning_rate, z = z + g - s * w, n = n + g * g, then w = 0 where |z| <= l1, else
/// w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2). The states are "z" and "n".
/// Weights follow from the states alone: start them at 0. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_create_ftrl(
    strategy: *mut umbo_strategy,
    options: *const umbo_ftrl_options,
    optimizer: *mut *mut umbo_optimizer,
) -> umbo_status {
    let rule = |options: umbo_ftrl_options| {
        let rule = Ftrl::new(options.beta, options.l1, options.l2, options.initial_accumulator)?;
        Ok((rule, options.learning_rate))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create("umbo_optimizer_create_ftrl", strategy, options, optimizer, rule) }
}
