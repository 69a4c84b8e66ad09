//! Memory that a callback was given and uses when it is not its any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use umbo::error::Result;
use umbo::optimizer::{GradientMode, apply};
use umbo::strategy::ReplicaContext;
use umbo::tensor::DType;

use crate::found;
use crate::scene::{Extras, Scene, Setting, VARIABLES, put};

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
    [(1, false, false), (2, false, false), (2, true, false), (2, false, true)].into_iter().map(
        |(replicas, is_bounded, is_nested)| Setting {
            replicas,
            is_bounded,
            is_nested,
            ..Setting::PLAIN
        },
    )
}

fn last(context: &ReplicaContext) -> bool {
    context.replica() + 1 == context.strategy().num_replicas()
}

/// Keeps where the last replica's scratch memory and its first gradient are.
fn keep(scratch: &Arc<Kept>, gradient: &Arc<Kept>) -> Extras {
    let (scratch, gradient) = (Arc::clone(scratch), Arc::clone(gradient));
    let before = move |context: &ReplicaContext, scene: &Scene| {
        if last(context) {
            scratch.keep(context.scratch(64)?);
            let (replica, step) = (context.replica(), context.step_id());
            let mode = GradientMode::Overwrite;
            gradient.keep(scene.gradients.view(replica, step, 0, mode)?.address());
        }
        Ok(())
    };
    Extras { before: Some(Arc::new(before)), ..Extras::default() }
}

#[test]
fn what_is_read_when_it_is_over_is_no_number() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let (scratch, gradient) = (Arc::new(Kept::default()), Arc::new(Kept::default()));
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

#[test]
fn gradients_that_are_written_between_steps_are_found() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let (scratch, gradient) = (Arc::new(Kept::default()), Arc::new(Kept::default()));
        scene.train(keep(&scratch, &gradient)).unwrap();
        apply(&scene.optimizer, &scene.gradients).unwrap();
        put(gradient.address(), DType::Float32, 2, 5.0);
        let who = format!("replica {}", setting.replicas - 1);
        found(
            scene.train(Extras::default()),
            &[&who, "'weight'", "at byte 8", "view in each step"],
        );
        scene.train_well();
    }
}

/// A callback that has viewed once and keeps the addresses: what it writes counts for nothing, and
/// nothing else tells it.
#[test]
fn a_callback_that_views_in_its_first_step_only() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let kept: Arc<Mutex<Vec<Vec<usize>>>> =
            Arc::new(Mutex::new(vec![Vec::new(); setting.replicas]));
        let of_run = (Arc::clone(&scene), Arc::clone(&kept));
        let step = move |context: &ReplicaContext| -> Result<Option<umbo::values::Value>> {
            let (scene, kept) = &of_run;
            let replica = context.replica();
            let addresses = &mut kept.lock().unwrap()[replica];
            if addresses.is_empty() {
                for index in [0, 3] {
                    let mode = GradientMode::Overwrite;
                    let buffer = scene.gradients.view_in(context, index, mode)?;
                    addresses.push(buffer.address().expose_provenance());
                }
            }
            for (address, index) in addresses.iter().zip([0, 3]) {
                for element in 0..VARIABLES[index].1.iter().product::<usize>() {
                    let buffer = std::ptr::with_exposed_provenance_mut(*address);
                    put(buffer, DType::Float32, element as isize, 1.0);
                }
            }
            scene.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        let step = Arc::new(step);
        scene.run(step.clone()).unwrap();
        apply(&scene.optimizer, &scene.gradients).unwrap();
        found(scene.run(step), &["replica 0", "'weight'", "without a view of this step"]);
        scene.train_well();
    }
}

#[test]
fn scratch_memory_that_is_written_between_steps_is_found() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let (scratch, gradient) = (Arc::new(Kept::default()), Arc::new(Kept::default()));
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

/// Memory that a callback lends instead of writing its buffer: nothing is missing in the buffer, and
/// what was lent stays as it was when it was submitted.
#[test]
fn gradients_that_are_lent() {
    for setting in settings() {
        let scene = Scene::new(setting);
        let lend = |mistake: bool| {
            let of_run = Arc::clone(&scene);
            let step = move |context: &ReplicaContext| -> Result<Option<umbo::values::Value>> {
                let shape = umbo::tensor::Shape::new(&[64])?;
                let own = umbo::tensor::Tensor::from_slice(&[1.0f32; 64], shape, context.device())?;
                let mode = GradientMode::Overwrite;
                // Viewed first, thought better of, and lent.
                of_run.gradients.view_in(context, 3, mode)?;
                of_run.gradients.withdraw_in(context, 3)?;
                of_run.gradients.attach_in(context, 3, own.clone())?;
                of_run.gradients.submit_in(context, Some(1.0))?;
                if mistake && last(context) {
                    put(own.address(), DType::Float32, 7, 3.0);
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
