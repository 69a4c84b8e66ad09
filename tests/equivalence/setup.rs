//! A step over rows of two numbers, whose gradient and loss are sums over the rows, and the
//! mistakes that one can make in it.

pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};

pub use umbo_core::device::DeviceId;
pub use umbo_core::equivalence::{CheckOptions, Finding, Report, Subject, Verdict, check};
pub use umbo_core::error::{Error, Result, Status};
pub use umbo_core::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction};
pub use umbo_core::strategy::context::metrics::Metric;
pub use umbo_core::strategy::context::replica_context::BatchPosition;
pub use umbo_core::strategy::variables::{self, Initial};
pub use umbo_core::strategy::{ReplicaContext, Strategy};
pub use umbo_core::tensor::{DType, Element, Shape, Tensor};
pub use umbo_core::values::Value;
pub use umbo_core::values::variable::{Aggregation, Variable};

pub type Row = [f32; 2];

/// Says that replicas share their devices in this process.
pub const SHARES: &str = "UMBO_CHECKED_REPLICAS_SHARE_DEVICES";

pub fn strategy(replicas: usize) -> Strategy {
    strategy_that(replicas, false)
}

pub fn strategy_that(replicas: usize, strict: bool) -> Strategy {
    let (cpu_replicas, replicas_in_sync) = match std::env::var_os(SHARES) {
        None => (replicas, 0),
        Some(_) => (replicas.div_ceil(2), replicas),
    };
    let options = umbo_core::strategy::Options {
        cpu_replicas,
        replicas_in_sync,
        strict,
        ..umbo_core::strategy::Options::default()
    };
    Strategy::new(&options).unwrap()
}

pub fn variable<T: Element>(strategy: &Strategy, name: &str, values: &[T]) -> Variable {
    let new = crate::fresh::new_variable(name, Aggregation::Mean);
    let shape = Shape::new(&[values.len()]).unwrap();
    let initial = Tensor::from_slice(values, shape, DeviceId::HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

/// Rows that have little in common.
pub fn rows(count: usize) -> Vec<Row> {
    (0..count)
        .map(|row| {
            [
                (row as f32 * 0.7).sin() + 1.5,
                (row as f32 * 1.3).cos() * 2.0,
            ]
        })
        .collect()
}

pub fn batch_of(rows: &[Row]) -> Value {
    let shape = Shape::new(&[rows.len(), 2]).unwrap();
    Value::Tensor(Tensor::from_slice(rows.as_flattened(), shape, DeviceId::HOST).unwrap())
}

/// A strategy with variables 'w1' of three elements and 'w2' of one, and gradients of both.
pub struct Model {
    pub strategy: Strategy,
    pub gradients: Arc<Gradients>,
}

impl Model {
    pub fn new(replicas: usize, reduction: LossReduction) -> Model {
        Model::of_dtype(replicas, reduction, None)
    }

    /// With gradients of `dtype`, if that is not the variables'.
    pub fn of_dtype(replicas: usize, reduction: LossReduction, dtype: Option<DType>) -> Model {
        let strategy = strategy(replicas);
        let variables = vec![
            variable(&strategy, "w1", &[0.0f32; 3]),
            variable(&strategy, "w2", &[0.0f32]),
        ];
        let devices = strategy.replica_devices();
        let options = GradientsOptions {
            dtype,
            ..Default::default()
        };
        let gradients =
            Gradients::new(strategy.id(), devices, variables, reduction, options).unwrap();
        Model {
            strategy,
            gradients,
        }
    }

    pub fn check(
        &self,
        batch: &Value,
        function: impl Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync,
    ) -> Report {
        let strategy = &self.strategy;
        let gradients = Some(&self.gradients);
        check(
            strategy,
            &function,
            batch,
            gradients,
            &CheckOptions::default(),
        )
        .unwrap()
    }
}

/// The rows of this replica's part.
pub fn part(context: &ReplicaContext) -> Vec<Row> {
    let arguments = context.arguments().unwrap().unwrap();
    let tensor = arguments.tensor_of(context.replica()).unwrap();
    tensor.to_vec::<f32>().unwrap().as_chunks().0.to_vec()
}

/// The gradient of 'w1' for one row; that of 'w2' is the first element.
pub fn of_row(row: &Row) -> [f32; 3] {
    [row[0] * row[1], row[0] + row[1], row[1] * row[1] - 1.0]
}

pub fn sum(rows: &[Row]) -> [f32; 3] {
    rows.iter().map(of_row).fold([0.0; 3], |sum, row| {
        std::array::from_fn(|i| sum[i] + row[i])
    })
}

/// Adds `gradient` times `factor` to the buffers of both variables.
pub fn contribute(
    context: &ReplicaContext,
    gradients: &Arc<Gradients>,
    gradient: [f32; 3],
    factor: f32,
) -> Result<()> {
    write_rounded(
        gradients.view_in(context, 0, GradientMode::Add)?,
        &gradient.map(|g| g * factor),
    );
    write_rounded(
        gradients.view_in(context, 1, GradientMode::Add)?,
        &[gradient[0] * factor],
    );
    Ok(())
}

pub fn write<T: Element>(tensor: &Tensor, values: &[T]) {
    assert_eq!(
        (tensor.dtype(), tensor.shape().elements()),
        (T::DTYPE, values.len())
    );
    for (index, value) in values.iter().enumerate() {
        // SAFETY: a replica's own buffer, contiguous, of this type and length, as just checked.
        unsafe { tensor.address().cast::<T>().add(index).write(*value) };
    }
}

/// The same, rounded to the tensor's dtype.
pub fn write_rounded(tensor: &Tensor, values: &[f32]) {
    let values = values.iter().copied();
    match tensor.dtype() {
        DType::Float16 => write(tensor, &values.map(half::f16::from_f32).collect::<Vec<_>>()),
        DType::BFloat16 => write(
            tensor,
            &values.map(half::bf16::from_f32).collect::<Vec<_>>(),
        ),
        _ => write(tensor, &values.collect::<Vec<_>>()),
    }
}

pub fn add<T: Element + std::ops::Add<Output = T>>(tensor: &Tensor, values: &[T]) {
    let old = tensor.to_vec::<T>().unwrap();
    let new: Vec<T> = old
        .into_iter()
        .zip(values)
        .map(|(old, &value)| old + value)
        .collect();
    write(tensor, &new);
}

/// What the callback should divide its sum by, when the gradients are declared as `reduction`.
pub fn divisor(reduction: LossReduction, context: &ReplicaContext) -> f32 {
    let BatchPosition {
        local_examples,
        global_examples,
        ..
    } = context.batch_position();
    match reduction {
        LossReduction::Sum => 1.0,
        LossReduction::Mean => local_examples.unwrap_or(0).max(1) as f32,
        LossReduction::GlobalMean => global_examples.unwrap().max(1) as f32,
    }
}

/// What a report finds about the subject that `is_it` knows.
#[track_caller]
fn found<'a>(report: &'a Report, name: &str, is_it: impl Fn(&Subject) -> bool) -> &'a Finding {
    let found = report
        .findings
        .iter()
        .find(|finding| is_it(&finding.subject));
    found.unwrap_or_else(|| panic!("no finding about {name} in: {}", report.text))
}

#[track_caller]
pub fn of_gradient<'a>(report: &'a Report, name: &str) -> &'a Finding {
    found(
        report,
        name,
        |it| matches!(it, Subject::Gradient { name: other, .. } if other == name),
    )
}

#[track_caller]
pub fn of_metric<'a>(report: &'a Report, name: &str) -> &'a Finding {
    found(
        report,
        name,
        |it| matches!(it, Subject::Metric { name: other } if other == name),
    )
}

#[track_caller]
pub fn of_step(report: &Report) -> &Finding {
    found(report, "the step", |it| *it == Subject::Step)
}

/// The finding has this verdict and its text, which is in the report's, these parts.
#[track_caller]
pub fn says(report: &Report, finding: &Finding, verdict: Verdict, parts: &[&str]) {
    assert_eq!(finding.verdict, verdict, "{}", report.text);
    assert!(!report.equivalent, "{}", report.text);
    assert!(report.text.starts_with("not equivalent"), "{}", report.text);
    assert!(report.text.contains(&finding.text), "{}", report.text);
    for part in parts {
        assert!(
            finding.text.contains(part),
            "'{part}' is not in: {}",
            finding.text
        );
    }
}

#[track_caller]
pub fn is_equivalent(report: &Report) {
    assert!(report.equivalent, "{}", report.text);
    assert!(report.text.starts_with("equivalent"), "{}", report.text);
    let well = |finding: &Finding| finding.verdict == Verdict::Equal;
    assert!(report.findings.iter().all(well), "{}", report.text);
}
