//! Variables that are written through views of them, wherever they and the replicas that write lie, in any
//! dtype that a view can have: the check of a step and strict mode name them, and later steps see on every
//! replica what the variable is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fake_cuda::harness::under_driver;
use half::{bf16, f16};
use umbo::collectives::ReduceOp;
use umbo::equivalence::{self, Report, Subject, Verdict};
use umbo::optimizer::{GradientMode, Gradients, LossReduction};
use umbo::strategy::variables::{self, Initial, NewVariable};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::{DType, Element};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};

use super::strict::put;
use super::*;
use crate::views::view;

/// How many replicas there are, their compute devices, which some share, and the parameter device.
type Place = (usize, &'static [&'static str], &'static str);

const PLACES: [Place; 16] = [
    (1, &["GPU:0"], "CPU:0"),
    (1, &["GPU:0"], "GPU:0"),
    (1, &["GPU:0"], "GPU:1"),
    (1, &["CPU:0"], "GPU:1"),
    (1, &["CPU:0"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:1"),
    (2, &["CPU:0", "CPU:1"], "GPU:0"),
    (2, &["CPU:0", "CPU:1"], "CPU:0"),
    (2, &["CPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:0", "CPU:0"], "GPU:0"),
    (2, &["CPU:0", "GPU:0"], "GPU:1"),
    (2, &["GPU:0"], "CPU:0"),
    (2, &["GPU:0"], "GPU:0"),
    (3, &["CPU:0", "GPU:1"], "GPU:1"),
];

/// The same where GPU:0 and GPU:1 are parts of one card, and GPU:2 another one.
const LOGICAL: [Place; 6] = [
    (1, &["GPU:1"], "GPU:0"),
    (2, &["GPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:2"),
    (2, &["GPU:1", "GPU:2"], "CPU:0"),
    (3, &["GPU:1", "GPU:2"], "GPU:0"),
];

const NAMES: [&str; 4] = ["weight", "wide", "half", "steps"];

/// Of the first of the variables there are gradients, of the others none.
const HAVE_GRADIENTS: usize = 2;

/// The views that there are: of which variable, in which dtype.
const VIEWS: [(usize, DType); 6] = [
    (0, DType::Float32),
    (0, DType::Float16),
    (0, DType::BFloat16),
    (1, DType::Float64),
    (2, DType::Float16),
    (3, DType::Int64),
];

/// The element that is written.
const ELEMENT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Write {
    variable: usize,
    dtype: DType,
    replica: usize,
}

struct Scene {
    place: Place,
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
}

fn made<T: Element>(strategy: &Strategy, name: &str, values: &[T]) -> Variable {
    let new = NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::Mean,
    };
    let values = Tensor::from_slice(values, shape(&[values.len()]), HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&values)).unwrap()
}

fn seven(dtype: DType) -> Tensor {
    let one = shape(&[1]);
    match dtype {
        DType::Float16 => Tensor::from_slice(&[f16::from_f32(7.0)], one, HOST),
        DType::BFloat16 => Tensor::from_slice(&[bf16::from_f32(7.0)], one, HOST),
        DType::Float64 => Tensor::from_slice(&[7f64], one, HOST),
        DType::Int64 => Tensor::from_slice(&[7i64], one, HOST),
        _ => Tensor::from_slice(&[7f32], one, HOST),
    }
    .unwrap()
}

/// The elements, which all are float64 numbers.
fn wide(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Float16 => tensor.to_vec::<f16>().unwrap().iter().map(|x| x.to_f64()).collect(),
        DType::BFloat16 => tensor.to_vec::<bf16>().unwrap().iter().map(|x| x.to_f64()).collect(),
        DType::Int64 => tensor.to_vec::<i64>().unwrap().iter().map(|&x| x as f64).collect(),
        DType::Float64 => tensor.to_vec().unwrap(),
        _ => numbers(tensor).into_iter().map(f64::from).collect(),
    }
}

fn rounded(values: &[f64], dtype: DType) -> Vec<f64> {
    let round = |&value: &f64| match dtype {
        DType::Float16 => f16::from_f32(value as f32).to_f64(),
        DType::BFloat16 => bf16::from_f32(value as f32).to_f64(),
        _ => value,
    };
    values.iter().map(round).collect()
}

fn is_cpu(device: DeviceId) -> bool {
    device.kind == DeviceKind::Cpu
}

impl Scene {
    fn new(place: Place, strict: bool) -> Scene {
        let (replicas, devices, parameter_device) = place;
        let strategy = Strategy::new(&Options {
            compute_devices: Some(devices.iter().map(|&name| name.to_owned()).collect()),
            parameter_device: Some(parameter_device.to_owned()),
            replicas_in_sync: if replicas > devices.len() { replicas } else { 0 },
            strict,
            ..Options::default()
        });
        let strategy = strategy.unwrap();
        let variables = vec![
            made(&strategy, NAMES[0], &[0.1f32, -0.7, 1.3]),
            made(&strategy, NAMES[1], &[0.25f64, 3.5]),
            made(&strategy, NAMES[2], &[0.5f32, 0.3].map(f16::from_f32)),
            made(&strategy, NAMES[3], &[3i64, 4]),
        ];
        let of = variables[..HAVE_GRADIENTS].to_vec();
        let (id, devices) = (strategy.id(), strategy.replica_devices());
        let gradients = Gradients::new(id, devices, of, LossReduction::Sum).unwrap();
        Scene { place, strategy, variables, gradients }
    }

    /// A callback that writes the variable. All have their views by then, and have copied what they are of.
    fn write(&self, context: &ReplicaContext, write: Write) -> Result<Option<Tensor>> {
        let seen = view(context, &self.variables[write.variable], write.dtype)?;
        let ready = Value::Tensor(tensor(&[1.0], HOST));
        context.all_reduce(ReduceOp::Sum, ready)?;
        if context.replica() != write.replica {
            return Ok(None);
        }
        put(seen, ELEMENT as isize, &seven(write.dtype));
        Ok(Some(seen.clone()))
    }

    /// The check of a step whose gradient is the sum of the examples, times what the one that writes sees.
    fn check(&self, write: Option<Write>, uses: bool) -> Report {
        let step = |context: &ReplicaContext| {
            let written = write.map(|write| self.write(context, write)).transpose()?.flatten();
            let factor = match written {
                Some(seen) if uses => wide(&seen)[ELEMENT] as f32,
                _ => 1.0,
            };
            let arguments = context.arguments()?.unwrap();
            let part = arguments.tensor_of(context.replica())?.to_vec::<f32>()?;
            let sum = part.iter().sum::<f32>() * factor;
            let buffer = self.gradients.view_in(context, 0, GradientMode::Overwrite)?;
            put(buffer, 0, &tensor(&[sum; 3], HOST));
            let buffer = self.gradients.view_in(context, 1, GradientMode::Overwrite)?;
            put(buffer, 0, &Tensor::from_slice(&[f64::from(sum); 2], shape(&[2]), HOST)?);
            self.gradients.submit_in(context, None)?;
            Ok(None)
        };
        let batch: Vec<f32> = (0..7).map(|row| row as f32 * 0.75 + 0.5).collect();
        let batch = Value::Tensor(Tensor::from_slice(&batch, shape(&[7, 1]), HOST).unwrap());
        let (gradients, options) = (Some(&self.gradients), equivalence::CheckOptions::default());
        equivalence::check(&self.strategy, &step, &batch, gradients, &options).unwrap()
    }

    fn central(&self) -> Vec<Vec<f64>> {
        self.variables.iter().map(|variable| wide(&variables::read(variable).unwrap())).collect()
    }

    /// A step sees on each replica, in each dtype, what the variables are.
    #[track_caller]
    fn is_seen_as(&self, values: &[Vec<f64>], after: &str) {
        let wrong = Mutex::new(Vec::new());
        let look = |context: &ReplicaContext| {
            for (variable, dtype) in VIEWS {
                let seen = wide(view(context, &self.variables[variable], dtype)?);
                if seen != rounded(&values[variable], dtype) {
                    wrong.lock().unwrap().push((context.replica(), variable, dtype, seen));
                }
            }
            Ok(None)
        };
        assert_eq!(self.central(), values, "{:?}, after {after}", self.place);
        self.strategy.run(&look, None).unwrap();
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{:?}, after {after}: {wrong:?}", self.place);
    }

    /// What the check says of a write, and that nothing is left of that.
    #[track_caller]
    fn checked(&self, write: Write, uses: bool) {
        let (values, what) = (self.central(), format!("{write:?}, uses: {uses}"));
        let report = self.check(Some(write), uses);
        let context = format!("{:?}, {what}: {}", self.place, report.text);
        let of_variables = report.findings.iter().filter_map(|finding| match &finding.subject {
            Subject::Variable { index, name } => Some((*index, name.as_str(), finding)),
            _ => None,
        });
        let [(index, name, finding)] = of_variables.collect::<Vec<_>>()[..] else {
            panic!("{context}")
        };
        let expected = (write.variable < HAVE_GRADIENTS).then_some(write.variable);
        assert_eq!((index, name), (expected, NAMES[write.variable]), "{context}");
        assert_eq!(finding.verdict, Verdict::VariableWritten, "{context}");
        assert_eq!(finding.element, Some(ELEMENT), "{context}");
        let device = self.strategy.replica_devices()[write.replica];
        let device = if is_cpu(device) { HOST } else { device };
        let is_copy = device != self.strategy.parameter_device()
            || write.dtype != self.variables[write.variable].dtype();
        let copy = format!("in its {} copy on {device} element [{ELEMENT}] was", write.dtype);
        assert_eq!(finding.text.contains(&copy), is_copy, "{context}");
        assert!(finding.text.contains("and became 7."), "{context}");
        assert!(!report.equivalent && !report.text.contains("they share"), "{context}");
        let guesses = [Verdict::NotRepeatable, Verdict::Different];
        assert!(report.findings.iter().all(|finding| !guesses.contains(&finding.verdict)));
        self.is_seen_as(&values, &what);
    }

    /// What strict mode says of a write, and that nothing is left of that.
    #[track_caller]
    fn caught(&self, write: Write) {
        let (values, what) = (self.central(), format!("{write:?}, strictly"));
        let result = self.strategy.run(&|context| self.write(context, write).map(|_| None), None);
        let variable = format!("strict mode: variable '{}'", NAMES[write.variable]);
        refused(result, Status::FailedPrecondition, &[&variable, "written through a view"]);
        self.is_seen_as(&values, &what);
    }
}

fn writes(replicas: usize) -> impl Iterator<Item = Write> {
    let of_views = VIEWS.into_iter();
    of_views.flat_map(move |(variable, dtype)| {
        (0..replicas).map(move |replica| Write { variable, dtype, replica })
    })
}

/// Whatever was written is found, whether the copy comes into being then or was there before. Of the writes
/// in each place a third is tried, others in each, so that every view is tried in every third place.
fn all_writes(control: &Control, places: &[Place]) {
    let mut tried = BTreeSet::new();
    for (seed, &place) in places.iter().enumerate() {
        control.seed(seed as u64);
        for strict in [false, true] {
            let used = Scene::new(place, strict);
            let third =
                |&(number, _): &(usize, Write)| (number + seed + usize::from(strict)) % 3 == 0;
            for (_, write) in writes(place.0).enumerate().filter(third) {
                let new = Scene::new(place, strict);
                new.checked(write, false);
                used.checked(write, true);
                let report = used.check(None, false);
                assert!(report.equivalent, "{place:?}, after {write:?}: {}", report.text);
                let Write { variable, dtype, replica } = write;
                tried.insert((seed, strict, format!("{variable} as {dtype}"), replica));
                if strict {
                    Scene::new(place, strict).caught(write);
                    used.caught(write);
                }
            }
        }
        clean(control);
    }
    let replicas = places.iter().map(|place| place.0).sum::<usize>();
    assert_eq!(tried.len(), 2 * VIEWS.len() * replicas / 3);
    let views: BTreeSet<_> = tried.into_iter().map(|(_, strict, view, _)| (strict, view)).collect();
    assert_eq!(views.len(), 2 * VIEWS.len());
}

#[test]
fn writes_through_views_are_found_and_put_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    registry::ensure_logical_cpus(2).unwrap();
    all_writes(&control, &PLACES);
}

#[test]
fn writes_through_views_on_logical_gpus_are_found_and_put_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    registry::split_gpu(0, &[None, None]).unwrap();
    all_writes(&control, &LOGICAL);
}
