//! A checkpoint of one process, with an object of each kind.

use std::path::Path;
use std::sync::Arc;

use umbo_core::checkpoint::{CallersTensor, Checkpoint, Number, SavedIterator};
use umbo_core::collectives::Assignment;
use umbo_core::input::{Dataset, PassIterator, ShuffleOptions};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::{Running, VariableProgress};
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossScaling, Optimizer, Settings, apply,
};
use umbo_core::strategy::variables::{assign, read};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::super::dividing::gradients;
use super::super::{alone, copy_into, tensor, try_to_copy_into, variable};
use super::{frozen, next, next_step, numbers};

struct Training {
    strategy: Strategy,
    kernel: Variable,
    bias: Variable,
    table: Variable,
    optimizer: Arc<Optimizer>,
    gradients: Arc<Gradients>,
    metrics: Arc<Metrics>,
    iterator: Arc<PassIterator>,
    tensor: Tensor,
    checkpoint: Arc<Checkpoint>,
}

impl Training {
    /// A training in which nothing has been done.
    fn new() -> Training {
        let strategy = alone(1);
        let make = |name, value: &Tensor| variable(&strategy, name, Aggregation::Mean, value);
        let kernel = make("kernel", &tensor(&[0.0f32; 4], &[2, 2]));
        let bias = make("bias", &tensor(&[0.0f64], &[]));
        let table = make("table", &tensor(&[0.0f32; 8], &[4, 2]));
        let variables = [kernel.clone(), bias.clone(), table.clone()];
        let adam = Box::new(Adam::new(0.5, 0.25, 1e-8).unwrap());
        let optimizer = Optimizer::new(strategy.id(), adam, 0.5).unwrap();
        let settings = Settings {
            loss_scaling: Some(LossScaling::Dynamic {
                initial: 8.0,
                growth_factor: 2.0,
                growth_interval: 3,
                backoff_factor: 0.25,
                minimum: 1.0,
            }),
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        let options = GradientsOptions {
            accumulation_steps: 3,
            row_sparse: &[false, false, true],
            dtype: None,
        };
        let gradients = gradients(&strategy, &variables, options);
        let metrics = Metrics::new(&strategy);
        for (name, kind) in [
            ("sum", MetricKind::Sum),
            ("mean", MetricKind::Mean),
            ("count", MetricKind::Count),
            ("accuracy", MetricKind::accuracy(3).unwrap()),
            ("any accuracy", MetricKind::accuracy(0).unwrap()),
            ("confusion", MetricKind::confusion(2).unwrap()),
            ("auc", MetricKind::auc(4, 0.0, 1.0).unwrap()),
            ("top", MetricKind::top_k(2).unwrap()),
            ("error", MetricKind::SquaredError),
        ] {
            metrics.define(name, kind).unwrap();
        }
        let shuffle = ShuffleOptions {
            buffer_size: 4,
            seed: 7,
            keep_order_each_pass: false,
        };
        let numbers = Dataset::range(0, 9, 1).unwrap().shuffle(&shuffle).unwrap();
        let iterator = Arc::new(numbers.batch(2, false).unwrap().iterator().unwrap());
        let elements = tensor(&[0i64; 3], &[3]);
        let checkpoint = Checkpoint::new(&strategy);
        let add = |name, object| checkpoint.add(name, object).unwrap();
        for variable in &variables {
            add(variable.name().as_str(), Arc::new(variable.clone()));
        }
        add("optimizer", Arc::clone(&optimizer) as _);
        add("gradients", Arc::clone(&gradients) as _);
        add("metrics", Arc::clone(&metrics) as _);
        add("pass", Arc::new(SavedIterator(Arc::clone(&iterator))) as _);
        // SAFETY: the tensor is used between saves and restores alone.
        let callers = unsafe { CallersTensor::new(elements.clone()) };
        add("elements", Arc::new(callers.unwrap()) as _);
        let set = |name, number| checkpoint.set_number(name, number).unwrap();
        set("epoch", Number::Integer(0));
        set("best", Number::Float(0.0));
        set("worst", Number::Float(0.0));
        checkpoint.set_string("notes", "").unwrap();
        Training {
            strategy,
            kernel,
            bias,
            table,
            optimizer,
            gradients,
            metrics,
            iterator,
            tensor: elements,
            checkpoint,
        }
    }

    /// Does what leads to the state that is saved: a step, whose gradients are accumulated, and
    /// settings of all that a step does not set to numbers that can be read in a file.
    fn proceed(&self) {
        let step = |context: &ReplicaContext| self.step(context);
        self.strategy.run(&step, None).unwrap();
        apply(&self.optimizer, &self.gradients).unwrap();
        let set = |variable, value: Tensor| {
            assign(variable, Assignment::Assign, &Value::Tensor(value)).unwrap();
        };
        set(&self.kernel, tensor(&[1.0f32, 2.0, -0.5, 4.25], &[2, 2]));
        set(&self.bias, tensor(&[0.1f64], &[]));
        set(
            &self.table,
            tensor(&[1.0f32, 2., 3., 4., 5., 6., 7., 8.], &[4, 2]),
        );
        let state = |name, value: [f32; 4]| {
            let value = tensor(&value, &[2, 2]);
            self.optimizer
                .set_state(&self.kernel, name, &value)
                .unwrap();
        };
        state("m", [0.5, 0.25, -0.5, 1.0]);
        state("v", [4.0, 3.0, 2.0, 1.0]);
        let progress = VariableProgress {
            updates: 5,
            running: [0.03125, 0.0009765625] as Running,
        };
        self.optimizer
            .set_variable_progress(&self.kernel, progress)
            .unwrap();
        self.optimizer.set_learning_rate(0.125).unwrap();
        self.optimizer.set_iterations(6).unwrap();
        self.optimizer.set_loss_scale(64.0, 2).unwrap();
        next(&self.iterator, 1);
        copy_into(&self.tensor, &tensor(&[i64::MIN, 0, 7], &[3]));
        let set = |name, number| self.checkpoint.set_number(name, number).unwrap();
        set("epoch", Number::Integer(-3));
        set("best", Number::Float(0.1));
        set("worst", Number::Float(f64::INFINITY));
        self.checkpoint
            .set_string("notes", "{\"layers\": 3} \u{e4}\n")
            .unwrap();
    }

    fn step(&self, context: &ReplicaContext) -> umbo_core::error::Result<Option<Value>> {
        let gradients = &self.gradients;
        let dense = |index, value: &Tensor| {
            let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
            try_to_copy_into(view, value)
        };
        dense(0, &tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]))?;
        dense(1, &tensor(&[0.5f64], &[]))?;
        let added = gradients.add_rows_in(context, 2, 2)?;
        try_to_copy_into(&added.indices, &tensor(&[3i64, 1], &[2]))?;
        try_to_copy_into(&added.values, &tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]))?;
        gradients.submit_in(context, Some(2.0))?;
        let metrics = &self.metrics;
        metrics.add_in(context, "sum", 2.5, 0.0)?;
        metrics.add_in(context, "mean", 0.75, 3.0)?;
        metrics.add_in(context, "count", 5.0, 0.0)?;
        let classes = tensor(&[0i64, 1, 1], &[3]);
        let labels = tensor(&[0i64, 1, 0], &[3]);
        let scores = tensor(&[0.1f64, 0.9, 0.6], &[3]);
        for (name, predictions) in [
            ("accuracy", &classes),
            ("any accuracy", &classes),
            ("confusion", &classes),
            ("auc", &scores),
        ] {
            metrics.add_labels_in(context, name, &predictions.reading()?, &labels.reading()?)?;
        }
        let rows = tensor(&[0.1f32, 0.9, 0.5, 0.2, 0.3, 0.6, 0.7, 0.1, 0.3], &[3, 3]);
        metrics.add_labels_in(context, "top", &rows.reading()?, &labels.reading()?)?;
        let targets = tensor(&[0.1f64, 0.4, 0.1], &[3]);
        metrics.add_labels_in(context, "error", &scores.reading()?, &targets.reading()?)?;
        Ok(None)
    }

    /// All state, a line for each piece.
    fn state(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for variable in [&self.kernel, &self.bias, &self.table] {
            let value = numbers(&read(variable).unwrap());
            lines.push(format!("{} is {value:?}", variable.name().as_str()));
        }
        let optimizer = self.optimizer.export().unwrap();
        lines.push(format!("rate {}", optimizer.learning_rate));
        lines.push(format!("iterations {}", optimizer.iterations));
        lines.push(format!("{:?}", optimizer.loss_scale));
        for state in optimizer.variables {
            let slots: Vec<_> = state.slots.iter().flatten().map(numbers).collect();
            let name = state.variable.name().as_str();
            lines.push(format!(
                "{name}: {} updates, {:?}, {slots:?}",
                state.updates, state.running
            ));
        }
        let accumulated = self.gradients.export().unwrap();
        lines.push(format!(
            "runs {}, weight {}",
            accumulated.runs, accumulated.weight
        ));
        for sum in accumulated.sums {
            lines.push(format!(
                "{}: {:?}, {:?}",
                sum.index,
                sum.rows,
                numbers(&sum.sum)
            ));
        }
        for (name, _, total) in self.metrics.export().unwrap() {
            lines.push(format!("{name}: {total:?}"));
        }
        assert_eq!(self.tensor.dtype(), DType::Int64);
        lines.push(format!(
            "elements {:?}",
            self.tensor.to_vec::<i64>().unwrap()
        ));
        for name in ["epoch", "best", "worst"] {
            lines.push(format!(
                "{name} {:?}",
                self.checkpoint.number(name).unwrap()
            ));
        }
        lines.push(format!(
            "notes {:?}",
            self.checkpoint.string("notes").unwrap()
        ));
        lines.push(format!("then {:?}", next(&self.iterator, 9)));
        lines.push(format!("step {}", next_step(&self.strategy)));
        lines
    }
}

const STATE: [&str; 27] = [
    "kernel is [1.0, 2.0, -0.5, 4.25]",
    "bias is [0.1]",
    "table is [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]",
    "rate 0.125",
    "iterations 6",
    "Some(DynamicLossScale { scale: 64.0, applies: 2 })",
    "kernel: 5 updates, [0.03125, 0.0009765625], [[0.5, 0.25, -0.5, 1.0], [4.0, 3.0, 2.0, 1.0]]",
    "runs 1, weight 2",
    "0: None, [0.25, 0.5, 0.75, 1.0]",
    "1: None, [0.125]",
    "2: Some([1, 3]), [0.75, 1.0, 0.25, 0.5]",
    "sum: Numbers { sum: 2.5, weight: 0.0 }",
    "mean: Numbers { sum: 0.75, weight: 3.0 }",
    "count: Counts { hits: 5, predictions: 0 }",
    "accuracy: Numbers { sum: 2.0, weight: 3.0 }",
    "any accuracy: Numbers { sum: 2.0, weight: 3.0 }",
    "confusion: Cells([1.0, 1.0, 0.0, 1.0])",
    "auc: Cells([1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])",
    "top: Numbers { sum: 2.0, weight: 3.0 }",
    "error: Numbers { sum: 0.5, weight: 3.0 }",
    "elements [-9223372036854775808, 0, 7]",
    "epoch Integer(-3)",
    "best Float(0.1)",
    "worst Float(inf)",
    r#"notes "{\"layers\": 3} ä\n""#,
    "then [[0.0, 5.0], [7.0, 8.0], [4.0, 6.0], [2.0]]",
    "step 2",
];

pub fn save(folder: &Path) {
    let training = Training::new();
    training.proceed();
    let save = |name| folder.join(name);
    training
        .checkpoint
        .save(&save("checkpoint.safetensors"))
        .unwrap();
    training
        .checkpoint
        .save_weights(&save("weights.safetensors"))
        .unwrap();
    assert_eq!(training.state(), STATE);
}

#[test]
fn a_checkpoint_of_one_process_is_restored() {
    let training = Training::new();
    assert_ne!(training.state(), STATE);
    let path = frozen().join("one_process/checkpoint.safetensors");
    training.checkpoint.restore(&path).unwrap();
    assert_eq!(training.state(), STATE);
}

#[test]
fn weights_are_loaded() {
    let training = Training::new();
    let path = frozen().join("one_process/weights.safetensors");
    training.checkpoint.load_weights(&path, None).unwrap();
    assert_eq!(training.state()[..3], STATE[..3]);
}
