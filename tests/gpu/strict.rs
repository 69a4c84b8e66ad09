//! Strict mode where callbacks compute on GPUs: the same mistakes are found in their memory.
//! Weights that are written are those of `equivalence_copies`.

use std::sync::{Arc, Mutex};

use fake_cuda::harness::under_driver;
use umbo_core::collectives::Assignment;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::variables::{self, Initial, assign, refreshed_copy};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Layout};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::fresh::new_variable;
use super::strategy::{Place, options_of};
use super::*;

const PLACES: [Place<'_>; 6] = [
    (1, &["GPU:0"], "GPU:0"),
    (2, &["GPU:0", "GPU:1"], "CPU:0"),
    (2, &["GPU:0", "GPU:1"], "GPU:1"),
    (2, &["CPU:0", "GPU:1"], "CPU:0"),
    (3, &["GPU:0"], "GPU:0"),
    (3, &["CPU:0", "GPU:1"], "GPU:1"),
];

struct Scene {
    strategy: Strategy,
    weight: Variable,
    table: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

fn variable(strategy: &Strategy, name: &str, sizes: &[usize]) -> Variable {
    let new = new_variable(name, Aggregation::Sum);
    let zeros = Tensor::zeros(DType::Float32, shape(sizes), HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&zeros)).unwrap()
}

fn scene(place: Place<'_>, strict: bool) -> Scene {
    let strategy = Strategy::new(&Options {
        strict,
        ..options_of(place)
    })
    .unwrap();
    let weight = variable(&strategy, "weight", &[6]);
    let table = variable(&strategy, "table", &[4, 2]);
    let options = GradientsOptions {
        row_sparse: &[false, true],
        ..GradientsOptions::default()
    };
    let gradients = Gradients::new(
        strategy.id(),
        strategy.replica_devices(),
        vec![weight.clone(), table.clone()],
        LossReduction::Sum,
        options,
    );
    let rule = Momentum::new(0.5, false).unwrap();
    let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.25).unwrap();
    Scene {
        gradients: gradients.unwrap(),
        strategy,
        weight,
        table,
        optimizer,
    }
}

/// Writes these elements from element `first` of a buffer on, wherever that is.
pub(super) fn put(buffer: &Tensor, first: isize, elements: &Tensor) {
    let (storage, offset) = buffer.storage();
    let layout = Layout::row_major(elements.shape());
    let offset = offset.strict_add_signed(first * elements.dtype().size() as isize);
    let there =
        Tensor::from_storage(Arc::clone(storage), elements.dtype(), layout, offset).unwrap();
    // SAFETY: a callback's own buffer, or what is beside it.
    unsafe { there.assume_exclusive() }
        .copy_from(elements)
        .unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    BehindGradient,
    BeforeGradient,
    LeftOut,
    AfterSubmit,
    BesideRows,
    RowLeftOut,
    BesideNewTensor,
}

impl Scene {
    fn step(&self, context: &ReplicaContext, mistake: Mistake) -> Result<()> {
        let last = context.replica() + 1 == context.strategy().num_replicas();
        let mistake = if last { mistake } else { Mistake::None };
        let one = tensor(&[1.0], HOST);
        let buffer = self
            .gradients
            .view_in(context, 0, GradientMode::Overwrite)?;
        let count = if mistake == Mistake::LeftOut { 5 } else { 6 };
        put(
            buffer,
            0,
            &tensor(&[0.5, 1.0, 1.5, 2.0, 2.5, 3.0][..count], HOST),
        );
        match mistake {
            Mistake::BehindGradient => put(buffer, 6, &one),
            Mistake::BeforeGradient => put(buffer, -1, &one),
            _ => {}
        }
        let rows = self.gradients.add_rows_in(context, 1, 2)?;
        put(
            &rows.indices,
            0,
            &Tensor::from_slice(&[3i64, 1], shape(&[2]), HOST)?,
        );
        let written = if mistake == Mistake::RowLeftOut { 3 } else { 4 };
        put(
            &rows.values,
            0,
            &tensor(&[1.0, 2.0, 3.0, 4.0][..written], HOST),
        );
        if mistake == Mistake::BesideRows {
            put(&rows.values, 4, &one);
        }
        if mistake == Mistake::BesideNewTensor {
            let made = context.guarded_tensor(DType::Float32, shape(&[3]), context.device())?;
            put(&made.unwrap(), 3, &one);
        }
        self.gradients.submit_in(context, Some(1.0))?;
        if mistake == Mistake::AfterSubmit {
            put(buffer, 1, &tensor(&[9.0], HOST));
        }
        Ok(())
    }

    fn train(&self, mistake: Mistake) -> Result<()> {
        let step = |context: &ReplicaContext| self.step(context, mistake).map(|()| None);
        self.strategy.run(&step, None).map(drop)
    }

    fn train_well(&self) {
        self.train(Mistake::None).unwrap();
        apply(&self.optimizer, &self.gradients).unwrap();
    }

    fn bits(&self) -> [Vec<f32>; 2] {
        [&self.weight, &self.table].map(|variable| numbers(&variables::read(variable).unwrap()))
    }
}

#[test]
fn mistakes_in_the_memory_of_gpus_are_found() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    for (number, place) in PLACES.into_iter().enumerate() {
        control.seed(number as u64);
        let scene = scene(place, true);
        let lax = self::scene(place, false);
        for (mistake, says) in [
            (
                Mistake::BehindGradient,
                "'weight' (float32 [6]), which has 24 bytes: past its end, at byte 24",
            ),
            (Mistake::BeforeGradient, "before its beginning, at byte -1"),
            (Mistake::LeftOut, "not written element 5;"),
            (Mistake::AfterSubmit, "after it had submitted it"),
            (Mistake::BesideRows, "rows of variable 'table'"),
            (Mistake::RowLeftOut, "element 3 of the rows"),
            (
                Mistake::BesideNewTensor,
                "a tensor that it made (float32 of shape [3])",
            ),
        ] {
            let who = format!("replica {}", place.0 - 1);
            refused(
                scene.train(mistake),
                Status::FailedPrecondition,
                &["strict mode", &who, says],
            );
            scene.train_well();
            lax.train_well();
            assert_eq!(scene.bits(), lax.bits(), "{place:?}, {mistake:?}");
        }
    }
    clean(&control);
}

/// Views before, between and after assignments of one step are those of different values.
#[test]
fn assignments_in_steps_are_no_mistakes() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    for place in PLACES {
        let scene = scene(place, true);
        for step in 0..3 {
            let ran = scene.strategy.run(
                &|context| {
                    for value in [1.0, 2.0, 3.0] {
                        // SAFETY: nobody assigns while it is looked at.
                        unsafe {
                            refreshed_copy(Some(context), &scene.weight, scene.weight.dtype())?;
                            refreshed_copy(Some(context), &scene.weight, DType::BFloat16)?;
                        }
                        let assigned = tensor(&[value; 6], context.device());
                        assign(&scene.weight, Assignment::Assign, &Value::Tensor(assigned))?;
                    }
                    // SAFETY: as above.
                    unsafe { refreshed_copy(Some(context), &scene.weight, scene.weight.dtype()) }?;
                    Ok(None)
                },
                None,
            );
            ran.unwrap();
            let sum = 3.0 * scene.strategy.num_replicas() as f32;
            let expected = if scene.strategy.num_replicas() == 1 {
                3.0
            } else {
                sum
            };
            assert_eq!(scene.bits()[0], [expected; 6], "{place:?}, step {step}");
        }
    }
    clean(&control);
}

#[test]
fn gradients_of_gpus_that_are_written_between_steps_are_found() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    for place in PLACES {
        let scene = scene(place, true);
        let kept: Mutex<Option<Tensor>> = Mutex::new(None);
        let view = |context: &ReplicaContext| {
            let buffer = scene
                .gradients
                .view_in(context, 0, GradientMode::Add)?
                .clone();
            kept.lock().unwrap().replace(buffer);
            scene.gradients.submit_in(context, Some(0.0))?;
            Ok(None)
        };
        scene.strategy.run(&view, None).unwrap();
        apply(&scene.optimizer, &scene.gradients).unwrap();
        put(
            kept.lock().unwrap().as_ref().unwrap(),
            1,
            &tensor(&[1.0], HOST),
        );
        let says = &["strict mode", "'weight'", "at byte 4", "view in each step"];
        refused(scene.train(Mistake::None), Status::FailedPrecondition, says);
        scene.train_well();
    }
    clean(&control);
}
