//! Gradients that an optimizer applies and that were not added: what they hold is not lost
//! silently.

use std::sync::Arc;

use umbo_core::checkpoint::Checkpoint;
use umbo_core::error::Status;
use umbo_core::optimizer::{Gradients, apply};
use umbo_core::strategy::ReplicaContext;

use crate::scene::{Feature, Folder, Scene};

/// What the gradients hold when the checkpoint is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Nothing,
    Accumulated,
    Submitted,
    Both,
    /// A run in which no replica had an example.
    NoWeight,
}

const HELD: [Held; 5] = [
    Held::Nothing,
    Held::Accumulated,
    Held::Submitted,
    Held::Both,
    Held::NoWeight,
];

/// A run whose submissions nobody applies.
fn submit(scene: &Scene, gradients: &Arc<Gradients>, weight: f64) {
    let callback = |context: &ReplicaContext| {
        for index in 0..gradients.variables().len() {
            if gradients.is_row_sparse(index) {
                gradients.add_rows_in(context, index, 1)?;
            } else {
                gradients.view_in(context, index, umbo_core::optimizer::GradientMode::Add)?;
            }
        }
        gradients.submit_in(context, Some(weight))?;
        Ok(None)
    };
    scene.strategy.run(&callback, None).unwrap();
}

#[test]
fn what_gradients_hold_is_not_lost_silently() {
    let features = [
        Feature::Plain,
        Feature::Accumulation,
        Feature::RowsAccumulation,
        Feature::TwoOptimizers,
    ];
    let mut refused = 0;
    for feature in features {
        let accumulates = matches!(feature, Feature::Accumulation | Feature::RowsAccumulation);
        for held in HELD {
            if matches!(held, Held::Accumulated | Held::Both) && !accumulates {
                continue;
            }
            for added in [false, true] {
                let case = format!("{feature:?}, {held:?}, added: {added}");
                let folder = Folder::new();
                let scene = Scene::new("adam", feature, 2);
                // Three runs make an update of those that accumulate.
                scene.train(match held {
                    Held::Accumulated | Held::Both => 4,
                    _ => 3,
                });
                let (optimizer, gradients) = &scene.trainers[0];
                match held {
                    Held::Submitted | Held::Both => submit(&scene, gradients, 1.0),
                    Held::NoWeight => submit(&scene, gradients, 0.0),
                    _ => {}
                }
                let checkpoint = Checkpoint::new(&scene.strategy);
                checkpoint
                    .add("the optimizer", Arc::clone(optimizer) as _)
                    .unwrap();
                if added {
                    checkpoint
                        .add("gradients", Arc::clone(gradients) as _)
                        .unwrap();
                }
                let saved = checkpoint.save(&folder.path("file"));
                let is_lost = match held {
                    Held::Nothing | Held::NoWeight => false,
                    // What is added is saved, or says by itself that it was not applied.
                    Held::Accumulated => !added,
                    Held::Submitted | Held::Both => true,
                };
                assert_eq!(saved.is_err(), is_lost, "{case}: {saved:?}");
                if let Err(error) = saved {
                    refused += 1;
                    assert_eq!(
                        error.status(),
                        Status::FailedPrecondition,
                        "{case}: {error}"
                    );
                    let text = error.to_string();
                    assert!(folder.names().is_empty(), "{case}");
                    if !added {
                        for part in ["'the optimizer'", "'dense/kernel'", "not added", WAYS_OUT] {
                            assert!(text.contains(part), "{case}: {text}");
                        }
                        let more = text.contains("1 more");
                        assert_eq!(more, feature != Feature::TwoOptimizers, "{case}: {text}");
                        let runs = text.contains("accumulated runs (1)")
                            || text.contains("and 1 before it");
                        assert_eq!(runs, held != Held::Submitted, "{case}: {text}");
                    }
                }
                // Weights alone have no use for them.
                checkpoint.save_weights(&folder.path("weights")).unwrap();
            }
        }
    }
    assert!(refused >= 10, "{refused}");
}

const WAYS_OUT: &str = "add them, or save after the update that takes them";

/// Gradients that the optimizer never applied, and those that are gone, are none of its business.
#[test]
fn other_gradients_are_left_alone() {
    let folder = Folder::new();
    let scene = Scene::new("adam", Feature::Plain, 1);
    let path = folder.path("file");
    let optimizer = &scene.trainers[0].0;
    let checkpoint = Checkpoint::new(&scene.strategy);
    checkpoint
        .add("optimizer", Arc::clone(optimizer) as _)
        .unwrap();
    let gradients = || {
        let devices = scene.strategy.replica_devices();
        let variables = scene.variables.clone();
        let reduction = scene.trainers[0].1.loss_reduction();
        Gradients::new(
            scene.strategy.id(),
            devices,
            variables,
            reduction,
            Default::default(),
        )
        .unwrap()
    };
    let other = gradients();
    submit(&scene, &other, 1.0);
    checkpoint.save(&path).unwrap();
    apply(optimizer, &other).unwrap();
    submit(&scene, &other, 1.0);
    checkpoint.save(&path).unwrap_err();
    drop(other);
    checkpoint.save(&path).unwrap();
    // However many there were.
    for _ in 0..100 {
        let more = gradients();
        submit(&scene, &more, 1.0);
        apply(optimizer, &more).unwrap();
    }
    assert_eq!(optimizer.applied().len(), 0);
    checkpoint.save(&path).unwrap();
}
