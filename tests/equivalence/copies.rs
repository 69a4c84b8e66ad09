//! Variables that are written through views of them, in any dtype that a view can have: the check
//! says which, and later steps see what the variable is. What lies on GPUs is tested where there
//! are some.

use std::fmt;

use half::{bf16, f16};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{Optimizer, apply};

use crate::setup::*;
use crate::views::{numbers, view};

/// What a callback writes, and where.
#[derive(Clone, Copy, Debug)]
struct Write {
    variable: usize,
    dtype: DType,
    replica: usize,
    element: usize,
    /// The replica computes its gradients with what it then sees.
    uses: bool,
}

struct Scene {
    model: Model,
    /// Those of which there are gradients first.
    variables: Vec<Variable>,
}

const NAMES: [&str; 4] = ["w1", "w2", "half", "steps"];

/// How the variables can be viewed.
const VIEWS: [(usize, DType, usize); 7] = [
    (0, DType::Float32, 2),
    (0, DType::Float16, 1),
    (0, DType::BFloat16, 0),
    (1, DType::Float16, 0),
    (2, DType::Float16, 1),
    (3, DType::Int64, 0),
    (1, DType::Float32, 0),
];

fn put_seven(view: &Tensor, element: usize) {
    let size = view.dtype().size();
    let bytes = match view.dtype() {
        DType::Float16 => f16::from_f32(7.0).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f32(7.0).to_le_bytes().to_vec(),
        DType::Int64 => 7i64.to_le_bytes().to_vec(),
        _ => 7f32.to_le_bytes().to_vec(),
    };
    let there = view.address().wrapping_add(element * size);
    // SAFETY: an element of the view, of so many bytes. Only this replica writes it, and no other
    // reads it.
    unsafe { there.copy_from_nonoverlapping(bytes.as_ptr(), size) };
}

impl Scene {
    fn new(replicas: usize, strict: bool) -> Scene {
        let strategy = strategy_that(replicas, strict);
        let floats = [&[0.1f32, -0.7, 1.3][..], &[2.0]];
        let mut variables: Vec<Variable> = floats
            .iter()
            .zip(NAMES)
            .map(|(shape, name)| variable(&strategy, name, shape))
            .collect();
        let devices = strategy.replica_devices();
        let reduction = LossReduction::Sum;
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            variables.clone(),
            reduction,
            Default::default(),
        );
        variables.push(variable(
            &strategy,
            NAMES[2],
            &[0.5, 0.25].map(f16::from_f32),
        ));
        variables.push(variable(&strategy, NAMES[3], &[3i64]));
        Scene {
            model: Model {
                strategy,
                gradients: gradients.unwrap(),
            },
            variables,
        }
    }

    fn check(&self, write: Option<Write>) -> Report {
        self.model.check(&batch_of(&rows(9)), |context| {
            let mut factor = 1.0;
            if let Some(write) = write
                && context.replica() == write.replica
            {
                let view = view(context, &self.variables[write.variable], write.dtype)?;
                put_seven(view, write.element);
                if write.uses {
                    factor = numbers(view)[write.element];
                }
            }
            contribute(context, &self.model.gradients, sum(&part(context)), factor)?;
            self.model.gradients.submit_in(context, None)?;
            Ok(None)
        })
    }

    fn central(&self) -> Vec<Vec<f32>> {
        self.variables
            .iter()
            .map(|variable| numbers(&variables::read(variable).unwrap()))
            .collect()
    }

    /// A step sees on each replica, in each dtype, what the variables are.
    #[track_caller]
    fn is_seen_as(&self, values: &[Vec<f32>], case: impl fmt::Debug) {
        let wrong = Mutex::new(Vec::new());
        let look = |context: &ReplicaContext| {
            for (variable, dtype, _) in VIEWS {
                let seen = numbers(view(context, &self.variables[variable], dtype)?);
                let rounded = values[variable].iter().map(|&value| match dtype {
                    DType::Float16 => f16::from_f32(value).to_f32(),
                    DType::BFloat16 => bf16::from_f32(value).to_f32(),
                    _ => value,
                });
                if seen != rounded.collect::<Vec<_>>() {
                    wrong
                        .lock()
                        .unwrap()
                        .push((context.replica(), variable, dtype, seen));
                }
            }
            Ok(None)
        };
        self.model.strategy.run(&look, None).unwrap();
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{case:?}: {wrong:?}");
        assert_eq!(self.central(), values, "{case:?}");
    }
}

/// What the check says of a write, and that nothing is left of that.
#[track_caller]
fn found(scene: &Scene, write: Write) {
    let values = scene.central();
    let report = scene.check(Some(write));
    let name = NAMES[write.variable];
    let of_variables = |finding: &&Finding| matches!(finding.subject, Subject::Variable { .. });
    let findings: Vec<&Finding> = report.findings.iter().filter(of_variables).collect();
    let [finding] = findings[..] else {
        panic!("{write:?}: {}", report.text)
    };
    assert!(!report.equivalent, "{write:?}: {}", report.text);
    assert_eq!(
        finding.verdict,
        Verdict::VariableWritten,
        "{write:?}: {}",
        report.text
    );
    let index = (write.variable < 2).then_some(write.variable);
    assert_eq!(
        finding.subject,
        Subject::Variable {
            index,
            name: name.into()
        },
        "{write:?}"
    );
    assert_eq!(
        finding.element,
        Some(write.element),
        "{write:?}: {}",
        report.text
    );
    let is_copy = write.dtype != scene.variables[write.variable].dtype();
    let of_copy = format!(
        "in its {} copy on CPU:0 element [{}]",
        write.dtype, write.element
    );
    assert_eq!(
        finding.text.contains(&of_copy),
        is_copy,
        "{write:?}: {}",
        report.text
    );
    assert!(
        finding.text.contains("and became 7."),
        "{write:?}: {}",
        report.text
    );
    // Nothing else is to blame, unless what is computed depends on the variable.
    for finding in &report.findings {
        let is_expected =
            matches!(finding.verdict, Verdict::Equal | Verdict::VariableWritten) || write.uses;
        assert!(is_expected, "{write:?}: {}", report.text);
    }
    scene.is_seen_as(&values, write);
}

fn writes(replicas: usize) -> impl Iterator<Item = Write> {
    let whose = (0..replicas).flat_map(|replica| [(replica, false), (replica, true)]);
    whose.flat_map(|(replica, uses)| {
        let of_view = move |(variable, dtype, element)| Write {
            variable,
            dtype,
            replica,
            element,
            uses,
        };
        VIEWS.into_iter().map(of_view)
    })
}

/// The copies may be there before, or come into being when they are written.
#[test]
fn writes_through_views_of_copies() {
    for replicas in [1, 2] {
        for strict in [false, true] {
            for write in writes(replicas) {
                let scene = Scene::new(replicas, strict);
                found(&scene, write);
                found(&scene, write);
                is_equivalent(&scene.check(None), write);
            }
            let scene = Scene::new(replicas, strict);
            let optimizer = Optimizer::new(scene.model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
            scene.is_seen_as(&scene.central(), "at first");
            for write in writes(replicas) {
                found(&scene, write);
                // An apply writes the copies along.
                let add = |context: &ReplicaContext| {
                    contribute(context, &scene.model.gradients, [0.3, 0.7, -0.9], 1.0)?;
                    scene.model.gradients.submit_in(context, Some(1.0))?;
                    Ok(None)
                };
                scene.model.strategy.run(&add, None).unwrap();
                apply(&optimizer, &scene.model.gradients).unwrap();
                scene.is_seen_as(&scene.central(), write);
            }
        }
    }

    #[track_caller]
    fn is_equivalent(report: &Report, write: Write) {
        assert!(report.equivalent, "after {write:?}: {}", report.text);
    }
}

/// What rounding makes of numbers that are none, or too large for the copy, is no write.
#[test]
fn copies_of_what_is_no_number() {
    let strategy = strategy_that(2, false);
    let signalling = f32::from_bits(0x7f80_0001);
    let strange = [
        f32::NAN,
        -f32::NAN,
        signalling,
        f32::INFINITY,
        1e30,
        1e-40,
        65519.9,
        -0.0,
    ];
    let strange = variable(&strategy, "strange", &strange);
    let report = check(
        &strategy,
        &|context| {
            for dtype in [DType::Float32, DType::Float16, DType::BFloat16] {
                view(context, &strange, dtype)?;
            }
            Ok(None)
        },
        &batch_of(&rows(4)),
        None,
        &CheckOptions::default(),
    );
    is_equivalent(&report.unwrap());
}

/// Updates round as they write, with the same bits.
#[test]
fn copies_that_an_update_has_made_no_numbers() {
    for (gradient, dtype) in [(f32::NAN, DType::Float16), (-f32::NAN, DType::BFloat16)] {
        let scene = Scene::new(2, false);
        let optimizer = Optimizer::new(scene.model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
        let add = |context: &ReplicaContext| {
            view(context, &scene.variables[0], dtype)?;
            contribute(
                context,
                &scene.model.gradients,
                [gradient, f32::INFINITY, 1e30],
                1.0,
            )?;
            scene.model.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        scene.model.strategy.run(&add, None).unwrap();
        apply(&optimizer, &scene.model.gradients).unwrap();
        assert!(scene.central()[0][0].is_nan());
        let report = scene.model.check(&batch_of(&rows(4)), |context| {
            view(context, &scene.variables[0], dtype)?;
            contribute(context, &scene.model.gradients, sum(&part(context)), 1.0)?;
            scene.model.gradients.submit_in(context, None)?;
            Ok(None)
        });
        is_equivalent(&report);
    }
}
