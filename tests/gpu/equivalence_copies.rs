//! Variables that are written through views of them, wherever they and the replicas that write lie,
//! also in another dtype: the check of a step and strict mode name them, and later steps see on
//! every replica what the variable is. The check finds wrong gradients there, too.

use std::sync::{Arc, Mutex};

use fake_cuda::harness::under_driver;
use half::bf16;
use umbo_core::collectives::ReduceOp;
use umbo_core::equivalence::{self, Report, Subject, Verdict};
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Element};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::fresh::new_variable;
use super::strategy::{Place, options_of};
use super::strict::put;
use super::*;
use crate::views::{numbers as elements, view};

/// GPU:0 and GPU:1 are parts of one card, and GPU:2 is another one.
const PLACES: [Place<'_>; 14] = [
    (1, &["GPU:0"], "CPU:0"),
    (1, &["GPU:0"], "GPU:0"),
    (1, &["GPU:1"], "GPU:0"),
    (1, &["GPU:0"], "GPU:2"),
    (1, &["CPU:0"], "GPU:2"),
    (2, &["GPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:0"),
    (2, &["GPU:0", "GPU:2"], "GPU:2"),
    (2, &["GPU:1", "GPU:2"], "CPU:0"),
    (2, &["CPU:0", "CPU:1"], "GPU:0"),
    (2, &["CPU:0", "GPU:1"], "CPU:0"),
    (2, &["CPU:0", "GPU:0"], "GPU:2"),
    (2, &["GPU:0"], "GPU:0"),
    (3, &["GPU:1", "GPU:2"], "GPU:0"),
];

/// Of the first there are gradients.
const NAMES: [&str; 2] = ["weight", "steps"];

/// The views that there are: of which variable, in which dtype.
const VIEWS: [(usize, DType); 3] = [(0, DType::Float32), (0, DType::BFloat16), (1, DType::Int64)];

/// The element that is written.
const ELEMENT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Write {
    variable: usize,
    dtype: DType,
    replica: usize,
}

struct Scene {
    place: Place<'static>,
    strategy: Strategy,
    variables: [Variable; 2],
    gradients: Arc<Gradients>,
}

fn made<T: Element>(strategy: &Strategy, name: &str, values: &[T]) -> Variable {
    let values = Tensor::from_slice(values, shape(&[values.len()]), HOST).unwrap();
    let new = new_variable(name, Aggregation::Mean);
    variables::create(Some(strategy), new, Initial::Value(&values)).unwrap()
}

fn seven(dtype: DType) -> Tensor {
    let one = shape(&[1]);
    match dtype {
        DType::BFloat16 => Tensor::from_slice(&[bf16::from_f32(7.0)], one, HOST),
        DType::Int64 => Tensor::from_slice(&[7i64], one, HOST),
        _ => Tensor::from_slice(&[7f32], one, HOST),
    }
    .unwrap()
}

impl Scene {
    fn new(place: Place<'static>, strict: bool) -> Scene {
        let strategy = Strategy::new(&Options {
            strict,
            ..options_of(place)
        })
        .unwrap();
        let variables = [
            made(&strategy, NAMES[0], &[0.5f32, -0.75, 1.25]),
            made(&strategy, NAMES[1], &[3i64, 4]),
        ];
        let id = strategy.id();
        let devices = strategy.replica_devices();
        let written = vec![variables[0].clone()];
        let gradients =
            Gradients::new(id, devices, written, LossReduction::Sum, Default::default()).unwrap();
        Scene {
            place,
            strategy,
            variables,
            gradients,
        }
    }

    /// A callback that writes the variable. All have their views by then, and have copied what they
    /// are of.
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

    /// The check of a step whose gradient is the sum of the examples, times what the one that
    /// writes sees; or their mean, which is wrong.
    fn check(&self, write: Option<Write>, uses: bool, mean: bool) -> Report {
        let step = |context: &ReplicaContext| {
            let written = write
                .map(|write| self.write(context, write))
                .transpose()?
                .flatten();
            let factor = written
                .filter(|_| uses)
                .map_or(1.0, |seen| elements(&seen)[ELEMENT]);
            let arguments = context.arguments()?.unwrap();
            let part = arguments.tensor_of(context.replica())?.to_vec::<f32>()?;
            let count = if mean { part.len().max(1) } else { 1 };
            let sum = part.iter().sum::<f32>() * factor / count as f32;
            let buffer = self
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?;
            put(buffer, 0, &tensor(&[sum; 3], HOST));
            self.gradients.submit_in(context, None)?;
            Ok(None)
        };
        let batch: Vec<f32> = (0..7).map(|row| row as f32 * 0.75 + 0.5).collect();
        let batch = Value::Tensor(Tensor::from_slice(&batch, shape(&[7, 1]), HOST).unwrap());
        let gradients = Some(&self.gradients);
        let options = equivalence::CheckOptions::default();
        equivalence::check(&self.strategy, &step, &batch, gradients, &options).unwrap()
    }

    fn central(&self) -> [Vec<f32>; 2] {
        self.variables
            .each_ref()
            .map(|variable| elements(&variables::read(variable).unwrap()))
    }

    /// A step sees on each replica, in each dtype, what the variables are.
    #[track_caller]
    fn is_seen_as(&self, values: &[Vec<f32>; 2], after: &str) {
        let wrong = Mutex::new(Vec::new());
        let look = |context: &ReplicaContext| {
            for (variable, dtype) in VIEWS {
                let seen = elements(view(context, &self.variables[variable], dtype)?);
                if seen != values[variable] {
                    wrong
                        .lock()
                        .unwrap()
                        .push((context.replica(), variable, dtype, seen));
                }
            }
            Ok(None)
        };
        assert_eq!(self.central(), *values, "{:?}, after {after}", self.place);
        self.strategy.run(&look, None).unwrap();
        let wrong = wrong.into_inner().unwrap();
        assert!(
            wrong.is_empty(),
            "{:?}, after {after}: {wrong:?}",
            self.place
        );
    }

    /// What the check says of a write, and that nothing is left of that.
    #[track_caller]
    fn checked(&self, write: Write, uses: bool) {
        let values = self.central();
        let case = format!("{write:?}, uses: {uses}");
        let report = self.check(Some(write), uses, false);
        let context = format!("{:?}, {case}: {}", self.place, report.text);
        let of_variables = report
            .findings
            .iter()
            .filter_map(|finding| match &finding.subject {
                Subject::Variable { index, name } => Some((*index, name.as_str(), finding)),
                _ => None,
            });
        let [(index, name, finding)] = of_variables.collect::<Vec<_>>()[..] else {
            panic!("{context}")
        };
        let expected = (write.variable == 0).then_some(0);
        assert_eq!(
            (index, name),
            (expected, NAMES[write.variable]),
            "{context}"
        );
        assert_eq!(finding.verdict, Verdict::VariableWritten, "{context}");
        assert_eq!(finding.element, Some(ELEMENT), "{context}");
        let device = self.strategy.replica_devices()[write.replica];
        let device = if device.kind == DeviceKind::Cpu {
            HOST
        } else {
            device
        };
        let is_copy = device != self.strategy.parameter_device()
            || write.dtype != self.variables[write.variable].dtype();
        let copy = format!(
            "in its {} copy on {device} element [{ELEMENT}] was",
            write.dtype
        );
        assert_eq!(finding.text.contains(&copy), is_copy, "{context}");
        assert!(finding.text.contains("and became 7."), "{context}");
        assert!(
            !report.equivalent && !report.text.contains("they share"),
            "{context}"
        );
        self.is_seen_as(&values, &case);
    }

    /// What strict mode says of a write, and that nothing is left of that.
    #[track_caller]
    fn caught(&self, write: Write) {
        let values = self.central();
        let case = format!("{write:?}, strictly");
        let result = self
            .strategy
            .run(&|context| self.write(context, write).map(|_| None), None);
        let variable = format!("strict mode: variable '{}'", NAMES[write.variable]);
        refused(
            result,
            Status::FailedPrecondition,
            &[&variable, "written through a view"],
        );
        self.is_seen_as(&values, &case);
    }
}

/// Whatever was written is found, whether the copy comes into being then or was there before.
#[test]
fn writes_through_views_are_found_and_put_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY.ensure_logical_cpus(2).unwrap();
    registry::REGISTRY.split_gpu(0, &[None, None]).unwrap();
    for (seed, place) in PLACES.into_iter().enumerate() {
        control.seed(seed as u64);
        for strict in [false, true] {
            let used = Scene::new(place, strict);
            let report = used.check(None, false, true);
            // One replica has no other to differ from.
            assert_eq!(
                report.equivalent,
                place.0 == 1,
                "{place:?}: {}",
                report.text
            );
            for (replica, (variable, dtype)) in
                (0..place.0).flat_map(|replica| VIEWS.map(|view| (replica, view)))
            {
                let write = Write {
                    variable,
                    dtype,
                    replica,
                };
                Scene::new(place, strict).checked(write, false);
                used.checked(write, true);
                let report = used.check(None, false, false);
                assert!(
                    report.equivalent,
                    "{place:?}, after {write:?}: {}",
                    report.text
                );
                if strict {
                    Scene::new(place, strict).caught(write);
                    used.caught(write);
                }
            }
        }
        clean(&control);
    }
}
