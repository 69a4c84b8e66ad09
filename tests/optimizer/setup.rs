//! A strategy's part of the work, by hand: variables, steps, and access to memory.

use std::sync::{Arc, RwLock, Weak};

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result};
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{
    ApplyAction, ApplyOptions, ApplyReport, GradientMode, Gradients, GradientsOptions,
    LossReduction, Optimizer, UpdateRule,
};
use umbo_core::strategy::commit::{CommitAction, StepParticipant};
use umbo_core::tensor::{Element, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Keeper, Variable, VariableSpec};

pub use umbo_core::optimizer::rules::catalogue::{
    ACCUMULATOR, BETA, BETA1, BETA2, DAMPENING, EPSILON, L1, L2, MOMENTUM, MOMENTUM_DECAY,
    NAMES as RULES, RATE_DECAY, RHO, TRUST_COEFFICIENT, WEIGHT_DECAY, updates_rows,
};

pub const STRATEGY: u64 = 7;

/// Held for writing while a test changes how many workers there are, for reading by tests that
/// count allocations: a new worker's thread is allocated by whoever finds it missing.
pub static WORKER_COUNT: RwLock<()> = RwLock::new(());

struct NoKeeper;

impl Keeper for NoKeeper {
    fn keep(&self, _: &mut dyn Iterator<Item = Tensor>) {}
}

pub fn variable_of<T: Element>(strategy: u64, name: &str, values: &[T]) -> Variable {
    let value = Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST);
    variable_from(strategy, name, value.unwrap())
}

pub fn variable_from(strategy: u64, name: &str, value: Tensor) -> Variable {
    let spec = VariableSpec {
        name: name.into(),
        trainable: true,
        aggregation: Aggregation::None,
        strategy,
    };
    Variable::new(spec, value, Weak::<NoKeeper>::new())
}

pub fn variable<T: Element>(name: &str, values: &[T]) -> Variable {
    variable_of(STRATEGY, name, values)
}

/// A variable of the shape `[values.len() / width, width]`.
pub fn table<T: Element>(name: &str, values: &[T], width: usize) -> Variable {
    let shape = Shape::new(&[values.len() / width, width]).unwrap();
    variable_from(
        STRATEGY,
        name,
        Tensor::from_slice(values, shape, DeviceId::HOST).unwrap(),
    )
}

pub fn devices(replicas: usize) -> Vec<DeviceId> {
    (0..replicas)
        .map(|replica| DeviceId::cpu(replica as u32))
        .collect()
}

pub fn gradients(
    replicas: usize,
    variables: &[&Variable],
    reduction: LossReduction,
) -> Arc<Gradients> {
    let variables = variables.iter().map(|&variable| variable.clone()).collect();
    Gradients::new(
        STRATEGY,
        &devices(replicas),
        variables,
        reduction,
        Default::default(),
    )
    .unwrap()
}

/// Gradients of which those of the variables for which `row_sparse` says so are for rows.
pub fn row_gradients(
    replicas: usize,
    variables: &[&Variable],
    reduction: LossReduction,
    row_sparse: &[bool],
    accumulation_steps: u64,
) -> Arc<Gradients> {
    let variables = variables.iter().map(|&variable| variable.clone()).collect();
    let options = GradientsOptions {
        accumulation_steps,
        row_sparse,
        dtype: None,
    };
    Gradients::new(STRATEGY, &devices(replicas), variables, reduction, options).unwrap()
}

/// The rule of the library's list with this name.
pub fn rule(name: &str) -> Box<dyn UpdateRule> {
    catalogue::make(name).unwrap_or_else(|| panic!("no rule {name}"))
}

/// Whether a rule applies the weight decay apart from the gradient.
pub fn is_decoupled(name: &str) -> bool {
    matches!(
        name,
        "adamw" | "amsgradw" | "nadam_decoupled" | "radam_decoupled" | "lion" | "lamb" | "lars"
    )
}

/// The weight decay of a rule where nobody says another.
pub fn rule_decay(name: &str) -> f64 {
    if matches!(name, "adamw" | "amsgradw" | "lion" | "lamb" | "lars") {
        WEIGHT_DECAY
    } else {
        0.0
    }
}

pub fn optimizer(name: &str, learning_rate: f64) -> Arc<Optimizer> {
    Optimizer::new(STRATEGY, rule(name), learning_rate).unwrap()
}

pub fn read<T: Element>(tensor: &Tensor) -> Vec<T> {
    assert_eq!(tensor.dtype(), T::DTYPE);
    let first = tensor.address().cast::<T>();
    // SAFETY: the tensors of these tests are contiguous, initialised, and used by one thread.
    (0..tensor.shape().elements())
        .map(|index| unsafe { first.add(index).read() })
        .collect()
}

pub fn write<T: Element>(tensor: &Tensor, values: &[T]) {
    assert_eq!(
        (tensor.dtype(), tensor.shape().elements()),
        (T::DTYPE, values.len())
    );
    for (index, value) in values.iter().enumerate() {
        // SAFETY: as in `read`.
        unsafe { tensor.address().cast::<T>().add(index).write(*value) };
    }
}

/// The value that the step in flight sees, in tests that use a variable on one thread alone.
pub fn visible(variable: &Variable) -> &Tensor {
    // SAFETY: nobody writes while this thread reads.
    unsafe { variable.visible() }
}

/// The committed value, in such tests.
pub fn committed(variable: &Variable) -> &Tensor {
    // SAFETY: as above.
    unsafe { variable.committed() }
}

/// What the step in flight writes, in such tests.
pub fn staging(variable: &Variable) -> Tensor {
    // SAFETY: as above.
    unsafe { variable.staging() }.unwrap().done()
}

/// The committed value to be written, in such tests.
pub fn changing(variable: &Variable) -> Tensor {
    // SAFETY: as above.
    unsafe { variable.changing() }.done()
}

pub fn value<T: Element>(variable: &Variable) -> Vec<T> {
    read(committed(variable))
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Replica `replica` overwrites its gradient of variable `index`.
pub fn overwrite<T: Element>(
    gradients: &Gradients,
    step: u64,
    replica: usize,
    index: usize,
    data: &[T],
) {
    gradients.try_begin_step(step);
    let buffer = gradients
        .view(replica, step, index, GradientMode::Overwrite)
        .unwrap();
    write(buffer, data);
}

/// Replica `replica` adds rows to its gradient of variable `index`.
pub fn add_rows<T: Element>(
    gradients: &Gradients,
    step: u64,
    replica: usize,
    index: usize,
    indices: &[i64],
    values: &[T],
) {
    gradients.try_begin_step(step);
    let added = gradients
        .add_rows(replica, step, index, indices.len())
        .unwrap();
    write(&added.indices, indices);
    write(&added.values, values);
}

pub fn submit(gradients: &Gradients, step: u64, weights: &[f64]) {
    gradients.try_begin_step(step);
    for (replica, &weight) in weights.iter().enumerate() {
        gradients.submit(replica, step, weight).unwrap();
    }
}

/// A whole committed step on one variable: `data[r]` is what replica `r` writes, if it does.
pub fn step<T: Element>(gradients: &Gradients, step: u64, data: &[Option<&[T]>], weights: &[f64]) {
    for (replica, data) in data.iter().enumerate() {
        if let Some(data) = data {
            overwrite(gradients, step, replica, 0, data);
        }
    }
    submit(gradients, step, weights);
    gradients.commit(step);
}

pub fn apply(optimizer: &Arc<Optimizer>, gradients: &Arc<Gradients>) -> Result<ApplyReport> {
    apply_with(optimizer, gradients, ApplyOptions::default())
}

pub fn apply_with(
    optimizer: &Arc<Optimizer>,
    gradients: &Arc<Gradients>,
    options: ApplyOptions,
) -> Result<ApplyReport> {
    let action = ApplyAction::new(Arc::clone(optimizer), Arc::clone(gradients));
    let mut action = action.with(options);
    action.prepare()?;
    action.commit();
    Ok(action.report())
}

/// The message of a refusal of this status.
pub fn refusal<T: std::fmt::Debug>(result: Result<T>, status: umbo_core::error::Status) -> String {
    let error: Error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    error.to_string()
}
