//! The check of a step, and steps that end without a replica, under a strict strategy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use umbo_core::device::DeviceId;
use umbo_core::equivalence::{self, Verdict};
use umbo_core::error::{Result, Status};
use umbo_core::observe::log::{self, Level};
use umbo_core::optimizer::{GradientMode, apply};
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::limits::Limits;
use umbo_core::strategy::variables::refreshed_copy;
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

use crate::scene::{Scene, Setting, put};

fn batch() -> Value {
    let numbers: Vec<f32> = (0..8).map(|number| number as f32 + 0.5).collect();
    let shape = Shape::new(&[8, 1]).unwrap();
    Value::Tensor(Tensor::from_slice(&numbers, shape, DeviceId::HOST).unwrap())
}

/// What a check says of a callback that sums its examples into the bias, and of one that makes a
/// mistake.
fn verdicts(scene: &Arc<Scene>, left_out: bool, writes: bool) -> Vec<Verdict> {
    let step = |context: &ReplicaContext| -> Result<Option<Value>> {
        let Some(Value::Tensor(part)) = context.arguments()? else {
            panic!("no part")
        };
        let sum: f32 = part.to_vec::<f32>()?.iter().sum();
        let buffer = scene
            .gradients
            .view_in(context, 3, GradientMode::Overwrite)?;
        for element in 0..if left_out { 63 } else { 64 } {
            put(buffer.address(), DType::Float32, element, sum);
        }
        if writes {
            // SAFETY: nobody assigns; that it is written is what is tested.
            let view = unsafe {
                refreshed_copy(
                    Some(context),
                    &scene.variables[0],
                    scene.variables[0].dtype(),
                )
            }?;
            put(view.address(), DType::Float32, 0, 3.0);
        }
        scene.gradients.submit_in(context, None)?;
        Ok(None)
    };
    let options = equivalence::CheckOptions::default();
    let gradients = Some(&scene.gradients);
    let report = equivalence::check(&scene.strategy, &step, &batch(), gradients, &options).unwrap();
    report
        .findings
        .iter()
        .map(|finding| finding.verdict)
        .collect()
}

#[test]
fn the_check_of_a_step_says_what_it_says_elsewhere() {
    for replicas in [1, 2] {
        let strict = Scene::new(Setting {
            replicas,
            ..Setting::PLAIN
        });
        let lax = Scene::new(Setting {
            replicas,
            strict: false,
            ..Setting::PLAIN
        });
        for _ in 0..2 {
            for (left_out, writes) in [(false, false), (true, false), (false, true), (true, true)] {
                let said = verdicts(&strict, left_out, writes);
                assert_eq!(said, verdicts(&lax, left_out, writes));
                assert_eq!(
                    said.contains(&Verdict::NotOverwritten),
                    left_out,
                    "{said:?}"
                );
                assert_eq!(said.contains(&Verdict::VariableWritten), writes, "{said:?}");
            }
            strict.train_well();
            lax.train_well();
            assert_eq!(strict.bits(), lax.bits());
        }
    }
}

/// A replica that comes back after its run has is told of by the log.
#[test]
fn a_late_replica_with_a_mistake() {
    let scene = Scene::new(Setting::PLAIN);
    scene.train_well();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let sink = move |_: Level, text: &str| kept.lock().unwrap().push(text.to_owned());
    log::set_sink(Level::Error, Box::new(sink));
    let go_on = Arc::new(AtomicBool::new(false));
    let of_run = Arc::clone(&scene);
    let free = Arc::clone(&go_on);
    let token = Cancellation::new();
    let cancels = token.clone();
    let step = move |context: &ReplicaContext| -> Result<Option<Value>> {
        if context.replica() == 1 {
            let memory = context.scratch(8)?;
            of_run
                .gradients
                .view_in(context, 3, GradientMode::Overwrite)?;
            cancels.cancel();
            while !free.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            put(memory, DType::Float32, 2, 1.0);
        }
        Ok(None)
    };
    let limits = Limits {
        cancellation: Some(token),
        ..Limits::default()
    };
    let late = scene
        .strategy
        .run_within(Arc::new(step), None, limits, None)
        .unwrap_err();
    assert_eq!(late.status(), Status::Cancelled, "{late}");
    go_on.store(true, Ordering::Release);
    scene.strategy.synchronize().unwrap();
    let said = lines.lock().unwrap().join("\n");
    assert!(
        said.contains("strict mode: replica 1 has written outside of its scratch memory"),
        "{said}"
    );
    crate::messages::are_output_of_the_test();
    let twin = Scene::new(Setting {
        strict: false,
        ..Setting::PLAIN
    });
    twin.train_well();
    for _ in 0..2 {
        scene.train_well();
        twin.train_well();
    }
    assert_eq!(scene.bits(), twin.bits());
    assert!(apply(&scene.optimizer, &scene.gradients).is_err());
}
