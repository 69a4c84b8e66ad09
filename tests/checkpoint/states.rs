//! Each piece of an optimizer's state can be set by itself.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::optimizer::rules::VariableProgress;
use umbo_core::optimizer::state::saved::MOST_COUNTED;
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::variables::read;
use umbo_core::tensor::{DType, Tensor};

use crate::scene::{Feature, Folder, Scene, strategy, values, variable};

/// Moments, step counts, iterations and loss scale, set one by one in fresh objects.
#[test]
fn state_that_is_set_piece_by_piece_gives_the_same_bits() {
    for (rule, feature) in [
        ("adam", Feature::Plain),
        ("lamb", Feature::DynamicLossScale),
        ("custom", Feature::Schedule),
        ("adamw", Feature::Average),
        ("adafactor", Feature::Plain),
    ] {
        let from = Scene::new(rule, feature, 2);
        let to = Scene::new(rule, feature, 2);
        from.train(4);
        let source = &from.trainers[0].0;
        let target = &to.trainers[0].0;
        for (source_variable, target_variable) in from.variables.iter().zip(&to.variables) {
            umbo_core::strategy::variables::assign(
                target_variable,
                umbo_core::collectives::Assignment::Assign,
                &umbo_core::values::Value::Tensor(read(source_variable).unwrap()),
            )
            .unwrap();
            for slot in &source.slots() {
                let Ok(state) = source.state(source_variable, &slot.name) else {
                    // Factored second moments depend on the variable's shape.
                    assert_eq!(rule, "adafactor");
                    continue;
                };
                target
                    .set_state(target_variable, &slot.name, &state)
                    .unwrap();
            }
            target
                .set_variable_progress(
                    target_variable,
                    source.variable_progress(source_variable).unwrap(),
                )
                .unwrap();
        }
        target.set_iterations(source.iterations()).unwrap();
        let state = source.export().unwrap();
        if let Some(scale) = state.loss_scale {
            target.set_loss_scale(scale.scale, scale.applies).unwrap();
        }
        to.iterator
            .restore_position(&from.iterator.save_position().unwrap())
            .unwrap();
        // The number of the step, on which the gradients depend.
        to.strategy
            .lock_between_steps()
            .unwrap()
            .set_steps(from.strategy.lock_between_steps().unwrap().steps());
        from.train(4);
        to.train(4);
        assert_eq!(from.bits().0, to.bits().0, "{rule}, {feature:?}");
    }
}

#[test]
fn states_are_checked() {
    let scene = Scene::new("momentum", Feature::Plain, 2);
    let optimizer = &scene.trainers[0].0;
    let wide = &scene.variables[2];
    let value = Tensor::zeros(DType::Float64, wide.shape(), wide.device()).unwrap();
    let status = |result: umbo_core::error::Result<()>| result.unwrap_err().status();
    assert_eq!(
        status(optimizer.set_state(wide, "m", &value)),
        Status::NotFound
    );
    let other = &scene.variables[0];
    assert_eq!(
        status(optimizer.set_state(other, "momentum", &value)),
        Status::InvalidArgument
    );
    let strategy = strategy(1);
    let foreign = variable(&strategy, "f", &[70, 3], DType::Float64);
    assert_eq!(
        status(optimizer.set_state(&foreign, "momentum", &value)),
        Status::InvalidArgument
    );
    let whole = variable(&scene.strategy, "whole", &[2], DType::Float32)
        .spec()
        .clone();
    let zeros = Tensor::zeros(DType::UInt16, other.shape(), other.device()).unwrap();
    let initial = umbo_core::strategy::variables::Initial::Value(&zeros);
    let new = crate::fresh::new_variable(&whole.name, whole.aggregation);
    let whole =
        umbo_core::strategy::variables::create(Some(&scene.strategy), new, initial).unwrap();
    assert_eq!(
        status(optimizer.set_state(&whole, "momentum", &zeros)),
        Status::InvalidArgument
    );
    let progress = VariableProgress {
        updates: 1,
        running: [1.0, 0.0],
    };
    assert_eq!(
        status(optimizer.set_variable_progress(&whole, progress)),
        Status::InvalidArgument
    );
    let progress = VariableProgress {
        updates: 1,
        running: [f64::NAN, 0.0],
    };
    assert_eq!(
        status(optimizer.set_variable_progress(wide, progress)),
        Status::InvalidArgument
    );
    for scale in [0.0, -1.0, f64::NAN, 1e300] {
        assert_eq!(
            status(optimizer.set_loss_scale(scale, 0)),
            Status::InvalidArgument
        );
    }
    // Before the first update there is no state; what is set is seen.
    assert!(optimizer.state(wide, "momentum").is_err());
    optimizer.set_state(wide, "momentum", &value).unwrap();
    assert_eq!(
        values(&optimizer.state(wide, "momentum").unwrap()),
        [0.0; 210]
    );
    assert_eq!(optimizer.variable_progress(wide).unwrap().updates, 1);
    // Not inside of a step.
    let inner = Arc::clone(optimizer);
    let inside = move |_: &ReplicaContext| {
        assert_eq!(status(inner.set_iterations(3)), Status::FailedPrecondition);
        Ok(None)
    };
    scene.strategy.run(&inside, None).unwrap();
}

/// Counts that were set as far as they go are counted on from, saved and restored.
#[test]
fn the_greatest_counts_are_counted_on_from() {
    let folder = Folder::new();
    let scene = Scene::new("custom", Feature::DynamicLossScale, 1);
    scene.train(1);
    let optimizer = &scene.trainers[0].0;
    let wide = &scene.variables[2];
    let running = optimizer.variable_progress(wide).unwrap().running;
    // What could not be counted on from is refused.
    const MOST: u64 = MOST_COUNTED;
    for (count, fits) in [
        (0, true),
        (MOST, true),
        (MOST + 1, false),
        (i64::MAX as u64, false),
    ] {
        let progress = VariableProgress {
            updates: count,
            running: [0.0, 0.0],
        };
        let set = [
            optimizer.set_iterations(count),
            optimizer.set_loss_scale(1.0, count),
            optimizer.set_variable_progress(wide, progress),
        ];
        for result in set {
            match result {
                Ok(()) => assert!(fits, "{count}"),
                Err(error) => {
                    assert!(
                        !fits && error.status() == Status::InvalidArgument,
                        "{count}: {error}"
                    )
                }
            }
        }
    }
    let most = MOST_COUNTED;
    optimizer.set_iterations(most).unwrap();
    optimizer
        .set_variable_progress(
            wide,
            VariableProgress {
                updates: most,
                running,
            },
        )
        .unwrap();
    scene.train(2);
    assert_eq!(
        optimizer.iterations(),
        most + 1,
        "one of the two was skipped"
    );
    scene.checkpoint.save(&folder.path("file")).unwrap();
    scene.checkpoint.restore(&folder.path("file")).unwrap();
    assert_eq!(optimizer.iterations(), most + 1);
}
