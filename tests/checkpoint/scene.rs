//! A training set-up of which every piece of state differs from step to step, and depends on the
//! number of the step.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use half::bf16;
use umbo_core::checkpoint::{Checkpoint, Number, SavedIterator};
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::input::{Dataset, PassIterator, ShuffleOptions, distribute_dataset};
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::{MetricDefinition, MetricKind};
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::{Rates, Slot, WeightDecay, catalogue};
use umbo_core::optimizer::{
    AverageKind, Averaging, GradientMode, Gradients, GradientsOptions, LossReduction, LossScaling,
    Optimizer, Settings, StateBits, UpdateRule, apply,
};
use umbo_core::strategy::variables::{Initial, create, read};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Variable};

#[path = "plateau.rs"]
mod plateau;
#[path = "through_host.rs"]
pub mod through_host;

pub use plateau::PLATEAU;
use through_host::through_host;

/// The names of all rules of the library, and of one of the program.
pub fn rules() -> impl Iterator<Item = &'static str> {
    let others = catalogue::other_rules().map(|rule| rule.name);
    let named = catalogue::NAMES.into_iter().chain(["custom"]);
    named.chain(others)
}

fn vector<T: Element>(elements: &[T]) -> Tensor {
    Tensor::from_slice(elements, shape(&[elements.len()]), DeviceId::HOST).unwrap()
}

/// What a training has beside its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Plain,
    ClipNorm,
    ClipValue,
    WeightDecay,
    /// With gradients of 16 bits of which some overflow, so that applies are skipped.
    DynamicLossScale,
    /// Three runs make an update.
    Accumulation,
    Schedule,
    /// Rows of the table.
    Rows,
    RowsAccumulation,
    /// Two optimizers apply gradients of different variables.
    TwoOptimizers,
    /// A moving average of weights.
    Average,
    /// A schedule with a name, which observes a value after each step.
    Plateau,
    /// States in 8 bits, of a variable that is large enough for it.
    EightBits,
    /// Weights in bfloat16, with states in 8 bits where the rule has such.
    Rounding,
}

pub const FEATURES: [Feature; 14] = [
    Feature::Plain,
    Feature::ClipNorm,
    Feature::ClipValue,
    Feature::WeightDecay,
    Feature::DynamicLossScale,
    Feature::Accumulation,
    Feature::Schedule,
    Feature::Rows,
    Feature::RowsAccumulation,
    Feature::TwoOptimizers,
    Feature::Average,
    Feature::Plateau,
    Feature::EightBits,
    Feature::Rounding,
];

impl Feature {
    fn has_rows(self) -> bool {
        matches!(self, Feature::Rows | Feature::RowsAccumulation)
    }

    /// Whether a rule can have it.
    pub fn fits(self, rule: &str) -> bool {
        match self {
            Feature::EightBits => keeps_eight_bits(rule),
            Feature::Rounding => rounds(rule),
            _ => !self.has_rows() || catalogue::updates_rows(rule),
        }
    }
}

/// Whether the states of a rule can have 8 bits.
pub fn keeps_eight_bits(rule: &str) -> bool {
    catalogue::make(rule).is_some_and(|rule| rule.code_maps().is_some())
}

/// Whether new weights of a rule can be rounded.
pub fn rounds(name: &str) -> bool {
    rule(name).rounds()
}

pub struct Scene {
    pub strategy: Strategy,
    pub variables: Vec<Variable>,
    pub trainers: Vec<(Arc<Optimizer>, Arc<Gradients>)>,
    pub metrics: Arc<Metrics>,
    /// Global batches of numbers, shuffled anew in each of some passes.
    pub iterator: Arc<PassIterator>,
    pub checkpoint: Arc<Checkpoint>,
}

pub fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
}

/// The same number of replicas, on fewer devices if there are several.
pub fn sharing(replicas: usize) -> Strategy {
    let options = Options {
        cpu_replicas: replicas.div_ceil(2),
        replicas_in_sync: replicas,
        ..Options::default()
    };
    Strategy::new(&options).unwrap()
}

pub fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

pub fn variable(strategy: &Strategy, name: &str, sizes: &[usize], dtype: DType) -> Variable {
    let elements: usize = sizes.iter().product();
    let start = (0..elements).map(|index| 0.3 + 0.1 * index as f64);
    let value = match dtype {
        DType::Float64 => {
            let values: Vec<f64> = start.collect();
            Tensor::from_slice(&values, shape(sizes), DeviceId::HOST)
        }
        DType::BFloat16 => {
            let values: Vec<bf16> = start.map(bf16::from_f64).collect();
            Tensor::from_slice(&values, shape(sizes), DeviceId::HOST)
        }
        _ => {
            let values: Vec<f32> = start.map(|value| value as f32).collect();
            Tensor::from_slice(&values, shape(sizes), DeviceId::HOST)
        }
    };
    let new = crate::fresh::new_variable(name, Aggregation::Mean);
    create(Some(strategy), new, Initial::Value(&value.unwrap())).unwrap()
}

/// Whether the rule updates matrices alone.
fn is_for_matrices(name: &str) -> bool {
    rule(name).matrix_rule().is_some()
}

fn rule(name: &str) -> Box<dyn UpdateRule> {
    match name {
        "custom" => {
            let slots = vec![Slot::new("first", 0.5), Slot::new("second", 0.0)];
            let update = Box::new(drifting);
            let on_gpu = Some(through_host(drifting));
            let meaning = WeightDecay::L2;
            Box::new(Custom::new("drifting".into(), slots, 0.0, meaning, update, on_gpu).unwrap())
        }
        name => catalogue::make(name).unwrap(),
    }
}

/// A rule that makes use of the number of the update.
fn drifting(tile: &Tile<'_>, rates: &Rates, updates: u64) {
    for index in 0..tile.elements {
        // SAFETY: a tile's pointers lead to as many elements as it says.
        unsafe {
            macro_rules! update {
                ($real:ty) => {{
                    let first = &mut *tile.slots[0].cast::<$real>().add(index);
                    let second = &mut *tile.slots[1].cast::<$real>().add(index);
                    let gradient = *tile.gradient.cast::<$real>().add(index);
                    *first = *first * 0.5 + gradient;
                    *second += *first / (updates + 1) as $real;
                    let weight = &mut *tile.weights.cast::<$real>().add(index);
                    *weight -= rates.learning_rate as $real * *second;
                }};
            }
            match tile.dtype {
                DType::Float64 => update!(f64),
                _ => update!(f32),
            }
        }
    }
}

impl Scene {
    pub fn new(name: &str, feature: Feature, replicas: usize) -> Scene {
        Scene::with(name, feature, strategy(replicas))
    }

    /// On the devices of a strategy.
    pub fn with(name: &str, feature: Feature, strategy: Strategy) -> Scene {
        let of_bias: &[usize] = if is_for_matrices(name) { &[1, 1] } else { &[] };
        let (kernel, of_kernel): (&[usize], _) = match feature {
            Feature::EightBits => (&[91, 47], DType::Float32),
            Feature::Rounding => (&[91, 47], DType::BFloat16),
            _ => (&[5, 3], DType::Float32),
        };
        let variables = vec![
            variable(&strategy, "dense/kernel", kernel, of_kernel),
            variable(&strategy, "dense/bias", of_bias, DType::Float32),
            variable(&strategy, "wide", &[70, 3], DType::Float64),
            variable(&strategy, "table", &[6, 2], DType::Float32),
        ];
        let accumulates = matches!(feature, Feature::Accumulation | Feature::RowsAccumulation);
        let optimizer = Optimizer::new(strategy.id(), rule(name), 0.05).unwrap();
        let settings = match feature {
            Feature::ClipNorm => Settings {
                global_clip_norm: Some(0.2),
                ..Settings::default()
            },
            Feature::ClipValue => Settings {
                clip_value: Some(0.1),
                ..Settings::default()
            },
            Feature::WeightDecay => Settings {
                weight_decay: Some(0.05),
                ..Settings::default()
            },
            Feature::DynamicLossScale => Settings {
                loss_scaling: Some(LossScaling::Dynamic {
                    initial: 64.0,
                    growth_factor: 2.0,
                    growth_interval: 3,
                    backoff_factor: 0.25,
                    minimum: 1.0,
                }),
                ..Settings::default()
            },
            Feature::Average => Settings {
                averaging: Some(Averaging {
                    kind: AverageKind::Mean,
                    start: 1,
                    interval: 2,
                }),
                ..Settings::default()
            },
            Feature::EightBits => Settings {
                state_bits: StateBits::Eight,
                ..Settings::default()
            },
            Feature::Rounding => Settings {
                state_bits: match keeps_eight_bits(name) {
                    true => StateBits::Eight,
                    false => StateBits::Full,
                },
                stochastic_rounding: Some(17),
                ..Settings::default()
            },
            _ => Settings::default(),
        };
        optimizer.configure(settings).unwrap();
        if feature == Feature::Schedule {
            optimizer.set_schedule(Arc::new(|step| Ok(0.1 / (step + 1) as f64)));
        }
        if feature == Feature::Plateau {
            optimizer.set_named_schedule(PLATEAU).unwrap();
        }
        let row_sparse = [false, false, false, feature.has_rows()];
        let gradients = |variables: &[Variable], row_sparse| {
            let options = GradientsOptions {
                accumulation_steps: if accumulates { 3 } else { 1 },
                row_sparse,
                dtype: None,
            };
            let devices = strategy.replica_devices();
            let variables = variables.to_vec();
            let reduction = LossReduction::Mean;
            Gradients::new(strategy.id(), devices, variables, reduction, options).unwrap()
        };
        let trainers = match feature {
            Feature::TwoOptimizers => {
                let other = Optimizer::new(strategy.id(), super::scene::rule("momentum"), 0.01);
                vec![
                    (optimizer, gradients(&variables[..2], &[])),
                    (other.unwrap(), gradients(&variables[2..], &[])),
                ]
            }
            _ => vec![(optimizer, gradients(&variables, &row_sparse))],
        };
        let metrics = Metrics::new(&strategy);
        metrics.define("loss", MetricKind::Mean).unwrap();
        metrics.define("seen", MetricKind::Count).unwrap();
        let kind = MetricKind::accuracy(0).unwrap();
        let accuracy = MetricDefinition::ignoring(kind, 2).unwrap();
        metrics.define("accuracy", accuracy).unwrap();
        metrics
            .define("matrix", MetricKind::confusion(3).unwrap())
            .unwrap();
        metrics
            .define("auc", MetricKind::auc(4, 0.0, 1.0).unwrap())
            .unwrap();
        let shuffle = ShuffleOptions {
            buffer_size: 7,
            seed: 3,
            keep_order_each_pass: false,
        };
        let numbers = Dataset::range(1, 18, 1).unwrap().shuffle(&shuffle).unwrap();
        let batches = numbers.repeat(-1).unwrap().batch(5, false).unwrap();
        let batches = distribute_dataset(&strategy, &batches, &Default::default()).unwrap();
        let iterator = Arc::new(batches.iterator().unwrap());
        let checkpoint = Checkpoint::new(&strategy);
        checkpoint
            .add("pass", Arc::new(SavedIterator(Arc::clone(&iterator))))
            .unwrap();
        for variable in &variables {
            let name = format!("model/{}", variable.name().as_str());
            checkpoint.add(&name, Arc::new(variable.clone())).unwrap();
        }
        for (index, (optimizer, gradients)) in trainers.iter().enumerate() {
            checkpoint
                .add(&format!("optimizer{index}"), Arc::clone(optimizer) as _)
                .unwrap();
            checkpoint
                .add(&format!("gradients{index}"), Arc::clone(gradients) as _)
                .unwrap();
        }
        checkpoint
            .add("metrics", Arc::clone(&metrics) as _)
            .unwrap();
        checkpoint.set_number("epoch", Number::Integer(0)).unwrap();
        checkpoint
            .set_number("best loss", Number::Float(f64::INFINITY))
            .unwrap();
        Scene {
            strategy,
            variables,
            trainers,
            metrics,
            iterator,
            checkpoint,
        }
    }

    /// A run, whose gradients wait for an update.
    pub fn run(&self) {
        let element = self.iterator.next().unwrap();
        self.strategy
            .run(&|context: &ReplicaContext| self.step(context), element)
            .unwrap();
    }

    /// Takes as many steps. Gradients follow from the weights and from the number of the step.
    pub fn train(&self, steps: u64) {
        for _ in 0..steps {
            self.run();
            for (optimizer, gradients) in &self.trainers {
                apply(optimizer, gradients).unwrap();
                if optimizer.named_schedule().is_some() {
                    let value = (optimizer.iterations() * 7 % 5) as f64;
                    optimizer.observe(value).unwrap();
                }
            }
            let Number::Integer(epoch) = self.checkpoint.number("epoch").unwrap() else {
                panic!()
            };
            self.checkpoint
                .set_number("epoch", Number::Integer(epoch + 1))
                .unwrap();
            self.checkpoint
                .set_number("best loss", Number::Float(0.1 * epoch as f64))
                .unwrap();
        }
    }

    fn step(&self, context: &ReplicaContext) -> Result<Option<umbo_core::values::Value>> {
        let number = context.step_number();
        let replica = context.replica();
        let part = context.arguments()?.unwrap();
        let examples = part.tensor_of(0)?.to_vec::<i64>()?;
        let sum = examples.iter().sum::<i64>() as f64 / 50.0;
        for (optimizer, gradients) in &self.trainers {
            let scale = optimizer.loss_scale();
            for (index, variable) in gradients.variables().iter().enumerate() {
                // Some variables are left out of some steps, and counted apart.
                if (number + index as u64).is_multiple_of(4) {
                    continue;
                }
                if gradients.is_row_sparse(index) {
                    let added = gradients.add_rows_in(context, index, 2)?;
                    let row = (number as usize + replica) % 6;
                    let rows = [row as i64, (row as i64 + 1) % 6];
                    let rows = Tensor::from_slice(&rows, shape(&[2]), DeviceId::HOST)?;
                    // SAFETY: the rows are the replica's own to write.
                    unsafe { added.indices.assume_exclusive() }.copy_from(&rows)?;
                    fill(&added.values, |place| wave(number, replica, place) * scale);
                    continue;
                }
                let weights = values(&read(variable)?);
                let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
                // An overflow, so that a dynamic loss scale backs off.
                let spoilt = number % 5 == 2 && optimizer.has_dynamic_loss_scale();
                fill(view, |place| match spoilt && place == 0 {
                    true => f64::INFINITY,
                    false => (weights[place] + sum + wave(number, replica, place)) * scale,
                });
            }
            gradients.submit_in(context, Some(1.0 + replica as f64 + number as f64))?;
        }
        let loss = wave(number, replica, 9);
        self.metrics.add_in(context, "loss", loss, 1.0)?;
        self.metrics.add_in(context, "seen", 2.0, 0.0)?;
        let class = vector(&[number as i64 % 3]);
        let label = vector(&[replica as i64 % 3]);
        self.metrics
            .add_labels_in(context, "matrix", &class.reading()?, &label.reading()?)?;
        self.metrics
            .add_labels_in(context, "accuracy", &class.reading()?, &label.reading()?)?;
        let score = vector(&[loss.abs().min(1.0)]);
        let label = vector(&[number as i64 % 2]);
        self.metrics
            .add_labels_in(context, "auc", &score.reading()?, &label.reading()?)?;
        Ok(None)
    }

    /// The bits of all variables, and what the metrics say.
    pub fn bits(&self) -> (Vec<Vec<u64>>, Vec<u64>) {
        let variables = self.variables.iter().map(|variable| {
            values(&read(variable).unwrap())
                .into_iter()
                .map(f64::to_bits)
                .collect()
        });
        let metrics = self.metrics.names().into_iter().flat_map(|name| {
            let metric = self.metrics.result(&name).unwrap();
            [metric.sum.to_bits(), metric.weight.to_bits()]
        });
        (variables.collect(), metrics.collect())
    }
}

fn wave(step: u64, replica: usize, place: usize) -> f64 {
    (step as f64 * 1.7 + replica as f64 * 0.6 + place as f64 * 0.37).sin()
}

/// The elements of a tensor of floats.
pub fn values(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Float64 => tensor.to_vec::<f64>().unwrap(),
        DType::BFloat16 => tensor
            .to_vec::<bf16>()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect(),
        _ => tensor
            .to_vec::<f32>()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect(),
    }
}

fn fill(tensor: &Tensor, mut value: impl FnMut(usize) -> f64) {
    let mut place = 0;
    let mut next = || {
        place += 1;
        value(place - 1)
    };
    // SAFETY: the tensor is the replica's own to write.
    unsafe { tensor.assume_exclusive() }
        .fill_with(&mut next)
        .unwrap();
}

/// A folder for one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("umbo-checkpoint-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of the files in it.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Two files have the same bytes. If not, their headers are shown.
#[track_caller]
pub fn same_bytes(one: &Path, other: &Path, case: &str) {
    let one = bytes(one);
    let other = bytes(other);
    if one != other {
        let header = |bytes: &[u8]| {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            String::from_utf8_lossy(&bytes[8..8 + length]).into_owned()
        };
        panic!(
            "{case}: some state differs\n{}\n{}",
            header(&one),
            header(&other)
        );
    }
}
