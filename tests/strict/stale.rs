//! Memory that a callback was given and uses when it is not its any more.

use std::ops::{Add, Div, Mul, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use umbo_core::error::Result;
use umbo_core::optimizer::{GradientMode, apply};
use umbo_core::strategy::ReplicaContext;
use umbo_core::tensor::DType;

use crate::found;
use crate::scene::{Extras, Scene, Setting, put};

/// An address that outlives what it is of.
#[derive(Default)]
struct Kept(AtomicUsize);

impl Kept {
    fn keep(&self, address: *mut u8) {
        self.0.store(address.expose_provenance(), Ordering::SeqCst);
    }

    fn address(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0.load(Ordering::SeqCst))
    }
}

fn settings() -> impl Iterator<Item = Setting> {
    [
        (1, false, false),
        (2, false, false),
        (2, true, false),
        (2, false, true),
    ]
    .into_iter()
    .map(|(replicas, is_bounded, is_nested)| Setting {
        replicas,
        is_bounded,
        is_nested,
        ..Setting::PLAIN
    })
}

fn last(context: &ReplicaContext) -> bool {
    context.replica() + 1 == context.strategy().num_replicas()
}

/// Keeps where the last replica's scratch memory and its first gradient are.
fn keep(scratch: &Arc<Kept>, gradient: &Arc<Kept>) -> Extras {
    let scratch = Arc::clone(scratch);
    let gradient = Arc::clone(gradient);
    let before = move |context: &ReplicaContext, scene: &Scene| {
        if last(context) {
            scratch.keep(context.scratch(64)?);
            let replica = context.replica();
            let step = context.step_id();
            let mode = GradientMode::Overwrite;
            gradient.keep(scene.gradients.view(replica, step, 0, mode)?.address());
        }
        Ok(())
    };
    Extras {
        before: Some(Arc::new(before)),
        ..Extras::default()
    }
}

#[test]
fn memory_is_nan_after_its_lifetime() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let scratch = Arc::new(Kept::default());
        let gradient = Arc::new(Kept::default());
        let first = |kept: &Kept| {
            // SAFETY: the library keeps both.
            unsafe { kept.address().cast::<f32>().read() }
        };
        scene.train(keep(&scratch, &gradient)).unwrap();
        assert!(first(&scratch).is_nan());
        assert!(!first(&gradient).is_nan(), "an apply reads it");
        apply(&scene.optimizer, &scene.gradients).unwrap();
        assert!(first(&gradient).is_nan());
    }
}

/// Changes the element at `index` from `data` on, as a program does that has an array of `dtype`.
fn change(data: *mut u8, dtype: DType, index: usize, operator: &str, operand: f32) {
    fn apply<T>(at: *mut T, operator: &str, by: T)
    where
        T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T>,
    {
        let by = std::hint::black_box(by);
        // SAFETY: an element of a buffer that the library keeps.
        unsafe {
            let was = at.read();
            at.write(match operator {
                "=" => by,
                "+=" => was + by,
                "-=" => was - by,
                "*=" => was * by,
                "/=" => was / by,
                _ => panic!("no test has {operator}"),
            });
        }
    }
    match dtype {
        DType::Float32 => apply(data.cast::<f32>().wrapping_add(index), operator, operand),
        DType::Float64 => apply(
            data.cast::<f64>().wrapping_add(index),
            operator,
            operand.into(),
        ),
        DType::Float16 => apply(
            data.cast::<f16>().wrapping_add(index),
            operator,
            f16::from_f32(operand),
        ),
        _ => apply(
            data.cast::<bf16>().wrapping_add(index),
            operator,
            bf16::from_f32(operand),
        ),
    }
}

/// Gradients are added up more often than they are assigned.
#[test]
fn each_operator_through_an_old_view_is_found() {
    let f32 = DType::Float32;
    let f64 = DType::Float64;
    let dtypes = [
        (f32, None),
        (f64, None),
        (f32, Some(DType::Float16)),
        (f32, Some(DType::BFloat16)),
    ];
    for (variables, gradients) in dtypes {
        let setting = Setting {
            variables,
            gradients,
            ..Setting::PLAIN
        };
        let scene = Scene::new(setting);
        for operator in ["=", "+=", "-=", "*=", "/="] {
            for operand in [0.0, 1.0, -1.0, 0.5, 1e-3, 1e3] {
                let scratch = Arc::new(Kept::default());
                let gradient = Arc::new(Kept::default());
                scene.train(keep(&scratch, &gradient)).unwrap();
                apply(&scene.optimizer, &scene.gradients).unwrap();
                change(gradient.address(), setting.dtype(), 2, operator, operand);
                let outcome = scene.train(Extras::default());
                let case = format!("{} {operator} {operand}", setting.dtype());
                assert!(outcome.is_err(), "{case} went unnoticed");
                found(outcome, &["'weight'", "view in each step", "at byte "]);
                scene.train_well();
            }
        }
    }
}

#[test]
fn scratch_memory_that_is_written_between_steps_is_found() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let scratch = Arc::new(Kept::default());
        let gradient = Arc::new(Kept::default());
        scene.train(keep(&scratch, &gradient)).unwrap();
        apply(&scene.optimizer, &scene.gradients).unwrap();
        put(scratch.address(), DType::Float32, 3, 5.0);
        found(
            scene.train(Extras::default()),
            &["scratch memory", "(region 1, 64 bytes)", "at byte 12"],
        );
        scene.train_well();
    }
}

/// Memory that a callback lends instead of writing its buffer: nothing is missing in the buffer,
/// and what was lent stays as it was when it was submitted.
#[test]
fn gradients_that_are_lent() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let lend = |mistake: bool| {
            let of_run = Arc::clone(&scene);
            let step = move |context: &ReplicaContext| -> Result<Option<umbo_core::values::Value>> {
                let shape = umbo_core::tensor::Shape::new(&[64])?;
                let attached =
                    umbo_core::tensor::Tensor::from_slice(&[1.0f32; 64], shape, context.device())?;
                let mode = GradientMode::Overwrite;
                // Viewed first, thought better of, and lent.
                of_run.gradients.view_in(context, 3, mode)?;
                of_run.gradients.discard_in(context, 3)?;
                of_run.gradients.attach_in(context, 3, attached.clone())?;
                of_run.gradients.submit_in(context, Some(1.0))?;
                if mistake && last(context) {
                    put(attached.address(), DType::Float32, 7, 3.0);
                }
                Ok(None)
            };
            scene.run(Arc::new(step))
        };
        for _ in 0..2 {
            lend(false).unwrap();
            apply(&scene.optimizer, &scene.gradients).unwrap();
            found(lend(true), &["'bias'", "after it had submitted it"]);
            scene.train_well();
        }
    }
}
