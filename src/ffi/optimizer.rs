//! Optimizers.

use std::ffi::c_char;

use super::boundary::{boundary, flag, out, quietly};
use super::handle::{self, get, make};
use super::object::{umbo_gradients, umbo_optimizer, umbo_strategy, umbo_tensor, umbo_variable};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::text;
use crate::error::Result;
use crate::optimizer::adam::Adam;
use crate::optimizer::momentum::Momentum;
use crate::optimizer::sgd::Sgd;
use crate::optimizer::{Optimizer, Outcome, UpdateRule, apply};

/// Options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_sgd_options {
    /// sizeof(umbo_sgd_options).
    pub struct_size: usize,
    /// Finite and 0 or more; 0 stands for 0.01.
    pub learning_rate: f64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_momentum_options {
    /// sizeof(umbo_momentum_options).
    pub struct_size: usize,
    /// Finite and 0 or more; 0 stands for 0.01.
    pub learning_rate: f64,
    /// The decay factor of the sum of gradients, less than 1; 0 stands for 0.9.
    pub momentum: f64,
    /// 1: Nesterov's momentum.
    pub nesterov: i32,
    /// Zero.
    pub reserved0: i32,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Options of Adam. UMBO_ADAM_OPTIONS_INIT sets all to default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_adam_options {
    /// sizeof(umbo_adam_options).
    pub struct_size: usize,
    /// Finite and 0 or more; 0 stands for 0.001.
    pub learning_rate: f64,
    /// The decay factor of the first moment, less than 1; 0 stands for 0.9.
    pub beta1: f64,
    /// The decay factor of the second moment, less than 1; 0 stands for 0.999.
    pub beta2: f64,
    /// What is added to the square root of the second moment; 0 stands for 1e-8.
    pub epsilon: f64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Options of an apply: nothing to choose yet. UMBO_APPLY_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_options {
    /// sizeof(umbo_apply_options).
    pub struct_size: usize,
    /// Zero.
    pub reserved: [u64; 4],
}

/// What an apply did. Start from UMBO_APPLY_REPORT_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_apply_report {
    /// sizeof(umbo_apply_report).
    pub struct_size: usize,
    /// 1: variables were updated. 0: not yet (`deferred`), or the total weight was 0, in which case
    /// the gradients are used up and nothing was changed.
    pub applied: i32,
    /// 1: the apply was called inside of a run and waits for its commit point; the fields below
    /// are 0.
    pub deferred: i32,
    /// How many variables were updated: those that a replica of non-zero weight viewed.
    pub variables_updated: i32,
    /// Zero.
    pub reserved0: i32,
    /// The sum of the replicas' weights.
    pub total_weight: f64,
    /// How many applies of this optimizer have taken effect, with this one.
    pub iterations: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, no padding, zero is valid for all fields.
unsafe impl Extensible for umbo_sgd_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_momentum_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved0 == 0 && self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_adam_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_options {
    fn reserved_is_zero(&self) -> bool {
        self.reserved == [0; 4]
    }
}

// SAFETY: as above.
unsafe impl Extensible for umbo_apply_report {}

/// The value of an option, of which zero means default.
fn or_default(value: f64, default: f64) -> f64 {
    if value == 0.0 { default } else { value }
}

/// # Safety
/// `output` is NULL or may be written; `options` is NULL or leads to a struct of the size that it
/// states.
unsafe fn create<O: Extensible, R: UpdateRule + 'static>(
    strategy: *mut umbo_strategy,
    options: *const O,
    output: *mut *mut umbo_optimizer,
    rule: impl FnOnce(O) -> Result<(R, f64)>,
) -> umbo_status {
    boundary(|| {
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
    let rule = |options: umbo_sgd_options| Ok((Sgd, or_default(options.learning_rate, 0.01)));
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create(strategy, options, optimizer, rule) }
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
        let rule = Momentum::new(or_default(options.momentum, 0.9), nesterov)?;
        Ok((rule, or_default(options.learning_rate, 0.01)))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create(strategy, options, optimizer, rule) }
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
        let rule = Adam::new(
            or_default(options.beta1, 0.9),
            or_default(options.beta2, 0.999),
            or_default(options.epsilon, 1e-8),
        )?;
        Ok((rule, or_default(options.learning_rate, 0.001)))
    };
    // SAFETY: the caller keeps the header's promise on pointers.
    unsafe { create(strategy, options, optimizer, rule) }
}

/// Reduces the gradients that the replicas submitted and updates the variables, in one pass over
/// memory. Uses the gradients up: apply once for each run. `options` may be NULL; `report` may be NULL.
///
/// After a run it acts at once; it waits for a run that another thread has in progress. Inside of a
/// run it is deferred to the commit point, takes what the replicas have submitted by then, and is
/// reported as `deferred`; called by a replica's callback it synchronises, and all replicas call
/// it. If the run fails, nothing is applied; if a deferred apply fails, so does the run. An apply
/// that fails changes nothing.
///
/// FAILED_PRECONDITION: nothing was submitted since the last apply, a replica did not submit (it is
/// named), the last run failed, the context of another strategy, a strategy that was released.
/// INVALID_ARGUMENT: optimizer and gradients of different strategies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_apply(
    optimizer: *mut umbo_optimizer,
    gradients: *mut umbo_gradients,
    options: *const umbo_apply_options,
    report: *mut umbo_apply_report,
) -> umbo_status {
    boundary(|| {
        let report = if report.is_null() {
            None
        } else {
            // SAFETY: not NULL, so the caller gives a struct of the size that it states.
            Some(unsafe { options::out(report, "report") }?)
        };
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        unsafe { options::read(options, "options") }?;
        let (optimizer, gradients) = (get(optimizer, "optimizer")?, get(gradients, "gradients")?);
        let outcome = apply(&optimizer, &gradients)?;
        if let Some(report) = report {
            report.write(report_of(outcome));
        }
        Ok(())
    })
}

fn report_of(outcome: Outcome) -> umbo_apply_report {
    let (deferred, done) = match outcome {
        Outcome::Done(report) => (0, report),
        Outcome::Deferred => (1, Default::default()),
    };
    umbo_apply_report {
        struct_size: size_of::<umbo_apply_report>(),
        applied: done.applied.into(),
        deferred,
        // Gradients list their variables by an `i32`.
        variables_updated: done.variables_updated as i32,
        reserved0: 0,
        total_weight: done.total_weight,
        iterations: done.iterations as i64,
    }
}

/// Sets the learning rate, from the next apply on: finite and 0 or more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_set_learning_rate(
    optimizer: *mut umbo_optimizer,
    learning_rate: f64,
) -> umbo_status {
    boundary(|| get(optimizer, "optimizer")?.set_learning_rate(learning_rate))
}

/// The learning rate of the next apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_learning_rate(
    optimizer: *const umbo_optimizer,
    learning_rate: *mut f64,
) -> umbo_status {
    boundary(|| {
        // SAFETY: the caller gives NULL or a place for the output.
        let learning_rate = unsafe { out(learning_rate, "learning_rate") }?;
        learning_rate.write(get(optimizer, "optimizer")?.learning_rate());
        Ok(())
    })
}

/// How many applies have taken effect. One whose total weight was 0 has not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_iterations(
    optimizer: *const umbo_optimizer,
    iterations: *mut i64,
) -> umbo_status {
    boundary(|| {
        // SAFETY: the caller gives NULL or a place for the output.
        let iterations = unsafe { out(iterations, "iterations") }?;
        iterations.write(get(optimizer, "optimizer")?.iterations() as i64);
        Ok(())
    })
}

/// A copy of what the optimizer keeps for a variable under `name`: "momentum", or "m" or "v" of
/// Adam; of the variable's dtype and shape. NOT_FOUND: a name that its rule does not have, or a
/// variable that it has not updated yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_state(
    optimizer: *const umbo_optimizer,
    variable: *const umbo_variable,
    name: *const c_char,
    state: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary(|| {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (state, name) = unsafe { (out(state, "state")?, text(name, "name")?) };
        let variable = get(variable, "variable")?;
        state.write(make(get(optimizer, "optimizer")?.state(&variable, name)?)?);
        Ok(())
    })
}

/// One more reference to the handle, to be released like the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_retain(optimizer: *const umbo_optimizer) -> umbo_status {
    boundary(|| handle::retain(optimizer, "optimizer"))
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_optimizer_release(optimizer: *const umbo_optimizer) {
    quietly("umbo_optimizer_release", || handle::release(optimizer, "optimizer"));
}
