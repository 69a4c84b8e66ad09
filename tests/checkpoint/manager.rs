//! Which files are kept, when one is due, and what is written in the background.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use umbo_core::checkpoint::{Manager, ManagerOptions, Number};
use umbo_core::error::{Error, Status};

use crate::scene::{Feature, Folder, Scene, bytes};

fn manager(scene: &Scene, folder: &Folder, options: ManagerOptions) -> Arc<Manager> {
    Manager::new(
        Arc::clone(&scene.checkpoint),
        &folder.path("checkpoints"),
        options,
    )
    .unwrap()
}

fn each_way() -> [ManagerOptions; 2] {
    [true, false].map(|asynchronous| ManagerOptions {
        asynchronous,
        ..Default::default()
    })
}

#[test]
fn the_newest_and_the_best_are_kept() {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    for way in each_way() {
        for (larger_is_better, kept, best) in [
            (false, vec![1, 2, 4, 7, 8], 4),
            (true, vec![0, 3, 5, 7, 8], 3),
        ] {
            let folder = Folder::new();
            let options = ManagerOptions {
                max_to_keep: 2,
                max_best_to_keep: 3,
                larger_is_better,
                ..way
            };
            let manager = manager(&scene, &folder, options);
            let losses = [5.0, 2.0, 3.0, 9.0, 1.0, 5.0, f64::NAN, 4.0];
            for (step, loss) in losses.into_iter().enumerate() {
                assert!(manager.save(step as u64, Some(loss), true).unwrap());
            }
            // One without a metric.
            manager.save(8, None, true).unwrap();
            assert_eq!(manager.steps().unwrap(), kept);
            assert_eq!(
                (manager.latest().unwrap(), manager.best().unwrap()),
                (Some(8), Some(best))
            );
            assert_eq!(manager.restore_best().unwrap(), Some(best));
        }
    }
}

#[test]
fn a_file_is_due_by_steps_or_by_time() {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    for way in each_way() {
        let folder = Folder::new();
        let by_steps = ManagerOptions {
            every_steps: Some(10),
            ..way
        };
        let saved = |manager: &Manager, steps: std::ops::Range<u64>| -> Vec<u64> {
            steps
                .filter(|&step| manager.save(step, None, false).unwrap())
                .collect()
        };
        let first = manager(&scene, &folder, by_steps);
        assert_eq!(saved(&first, 0..35), [10, 20, 30]);
        // Another process resumes from the newest file, not from 0.
        drop(first);
        let second = manager(&scene, &folder, by_steps);
        assert_eq!(saved(&second, 35..45), [40]);
        assert!(second.save(41, None, true).unwrap());
        assert_eq!(saved(&second, 42..52), [51]);
        // After going back, earlier steps are due.
        assert_eq!(saved(&second, 3..14), [3, 13]);

        let folder = Folder::new();
        let by_time = |every| ManagerOptions {
            every_steps: None,
            every: Some(every),
            ..way
        };
        let always = manager(&scene, &folder, by_time(Duration::ZERO));
        assert_eq!(saved(&always, 0..3), [0, 1, 2]);
        let never = manager(&scene, &folder, by_time(Duration::MAX));
        assert_eq!(saved(&never, 3..6), [0; 0]);
    }
}

/// What is saved is the state of the call, whatever happens while it is written.
#[test]
fn training_goes_on_while_a_copy_is_written() {
    let folder = Folder::new();
    let scene = Scene::new("adam", Feature::Accumulation, 2);
    let options = ManagerOptions {
        max_to_keep: 100,
        asynchronous: true,
        ..Default::default()
    };
    let manager = manager(&scene, &folder, options);
    let mut states = Vec::new();
    for step in 1..=20 {
        scene.train(1);
        states.push(scene.bits());
        assert!(manager.save(step, None, false).unwrap());
    }
    manager.wait().unwrap();
    for (step, state) in states.into_iter().enumerate() {
        let fresh = Scene::new("adam", Feature::Accumulation, 2);
        fresh
            .checkpoint
            .restore(&manager.path(step as u64 + 1))
            .unwrap();
        assert_eq!(fresh.bits(), state);
    }
}

#[test]
fn a_damaged_file_is_passed_over() {
    let folder = Folder::new();
    let scene = Scene::new("adam", Feature::Plain, 1);
    let manager = manager(&scene, &folder, ManagerOptions::default());
    assert_eq!(manager.restore_latest().unwrap(), None);
    for step in 1..=3 {
        scene
            .checkpoint
            .set_number("epoch", Number::Integer(step))
            .unwrap();
        manager.save(step as u64, None, true).unwrap();
    }
    manager.wait().unwrap();
    let damage = |step| {
        let path = manager.path(step);
        let mut text = bytes(&path);
        *text.last_mut().unwrap() ^= 1;
        fs::write(path, text).unwrap();
    };
    for (step, expected) in [(3, 2), (2, 1)] {
        damage(step);
        assert_eq!(manager.restore_latest().unwrap(), Some(expected));
        let epoch = scene.checkpoint.number("epoch").unwrap();
        assert_eq!(epoch, Number::Integer(expected as i64));
    }
    damage(1);
    assert_eq!(
        manager.restore_latest().unwrap_err().status(),
        Status::DataLoss
    );
}

/// A failure in the background is told by the next call, once. A call that saves has saved then.
#[test]
fn failures_in_the_background_are_told() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let options = ManagerOptions {
        asynchronous: true,
        every_steps: Some(100),
        ..Default::default()
    };
    let manager = manager(&scene, &folder, options);
    let is_of_step_7 = |error: &Error| {
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        assert!(error.to_string().contains("step 7"), "{error}");
    };
    manager.save(6, None, true).unwrap();
    fs::create_dir(manager.path(7)).unwrap();
    manager.save(7, None, true).unwrap();
    is_of_step_7(&manager.wait().unwrap_err());
    manager.wait().unwrap();
    manager.save(7, None, true).unwrap();
    // The next call saves, and tells it.
    let told = manager.save_telling(8, None, true).unwrap();
    assert!(told.saved);
    let error = told.earlier_failure.unwrap();
    is_of_step_7(&error);
    assert!(error.to_string().contains("step 8 was copied"), "{error}");
    manager.wait().unwrap();
    assert!(manager.path(8).is_file());
    // A call that fails itself leaves it to the next one.
    manager.save(7, None, true).unwrap();
    let refused = scene.strategy.run(
        &|_| {
            assert!(manager.save(9, None, true).is_err());
            Ok(None)
        },
        None,
    );
    refused.unwrap();
    let told = loop {
        let told = manager.save_telling(9, None, false).unwrap();
        assert!(!told.saved);
        if told.earlier_failure.is_some() {
            break told;
        }
    };
    is_of_step_7(&told.into_result().unwrap_err());
    manager.wait().unwrap();
    fs::remove_dir(manager.path(7)).unwrap();
    assert_eq!(manager.latest().unwrap(), Some(8));
}

#[test]
fn options_and_other_files_are_looked_at() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let refused = |options: ManagerOptions| {
        let made = Manager::new(Arc::clone(&scene.checkpoint), &folder.path("x"), options);
        let error = made.unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument);
        error.to_string()
    };
    refused(ManagerOptions {
        max_to_keep: 0,
        ..Default::default()
    });
    refused(ManagerOptions {
        every_steps: Some(0),
        ..Default::default()
    });
    fs::write(folder.path("x"), "").unwrap();
    let text = refused(ManagerOptions::default());
    assert!(text.ends_with("x' is a file; name a folder"), "{text}");
    // What is no checkpoint of its own is left alone.
    let manager = manager(
        &scene,
        &folder,
        ManagerOptions {
            max_to_keep: 1,
            ..Default::default()
        },
    );
    let others = [
        "step-.safetensors",
        "step-1x.safetensors",
        "notes.txt",
        "step-99999999999999999999999.safetensors",
    ];
    for name in others {
        fs::write(folder.path("checkpoints").join(name), "x").unwrap();
    }
    for step in 0..3u64 {
        manager.save(step, Some(1.0), true).unwrap();
    }
    assert_eq!(manager.steps().unwrap(), [2]);
    for name in others {
        assert!(folder.path("checkpoints").join(name).exists(), "{name}");
    }
    assert!(manager.save(1 << 53, None, true).is_err());
}

/// What an earlier training has left: files of steps 1 to 3, of which the second is the best.
fn left_by_another() -> Folder {
    let folder = Folder::new();
    let scene = Scene::new("adam", Feature::Plain, 1);
    let options = ManagerOptions {
        asynchronous: false,
        ..Default::default()
    };
    let manager = manager(&scene, &folder, options);
    for (step, loss) in [(1, 0.5), (2, 0.1), (3, 0.4)] {
        scene.train(1);
        manager.save(step, Some(loss), true).unwrap();
    }
    folder
}

fn contents(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_type().unwrap().is_file());
    let mut all: Vec<_> = files
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                bytes(&entry.path()),
            )
        })
        .collect();
    all.sort();
    all
}

/// A manager saves where its checkpoint is at home, and nowhere else: each way to be at home there,
/// or not.
#[test]
fn a_folder_is_for_one_training() {
    type Before = fn(&Scene, &Manager, &Folder);
    let remove_all = |folder: &Folder| {
        for (name, _) in contents(&folder.path("checkpoints")) {
            fs::remove_file(folder.path("checkpoints").join(name)).unwrap();
        }
    };
    let ways: [(&str, bool, Before); 9] = [
        ("nothing", false, |_, _, _| {}),
        ("looking", false, |_, manager, _| {
            assert_eq!(
                (manager.latest().unwrap(), manager.best().unwrap()),
                (Some(3), Some(2))
            );
        }),
        ("the newest", true, |_, manager, _| {
            assert_eq!(manager.restore_latest().unwrap(), Some(3));
        }),
        ("the best", true, |_, manager, _| {
            assert_eq!(manager.restore_best().unwrap(), Some(2));
        }),
        ("any file of a step", true, |scene, manager, _| {
            scene.checkpoint.restore(&manager.path(1)).unwrap();
        }),
        ("another path there", true, |scene, _, folder| {
            let path = folder.path("checkpoints/../checkpoints/step-000000000001.safetensors");
            scene.checkpoint.restore(&path).unwrap();
        }),
        ("another manager", true, |scene, _, folder| {
            let other = self::manager(scene, folder, ManagerOptions::default());
            other.restore_latest().unwrap();
        }),
        ("a copy elsewhere", false, |scene, manager, folder| {
            let copy = folder.path("step-000000000001.safetensors");
            fs::copy(manager.path(1), &copy).unwrap();
            scene.checkpoint.restore(&copy).unwrap();
        }),
        ("weights alone", false, |scene, manager, _| {
            scene
                .checkpoint
                .load_weights(&manager.path(1), None)
                .unwrap();
        }),
    ];
    for way in each_way() {
        for (name, may_save, before) in ways {
            let folder = left_by_another();
            let scene = Scene::new("adam", Feature::Plain, 1);
            // Told at once, and not when the first one is due.
            let seldom = ManagerOptions {
                every_steps: Some(1000),
                ..way
            };
            let first = manager(&scene, &folder, seldom);
            before(&scene, &first, &folder);
            let old = contents(&folder.path("checkpoints"));
            for (manager, must) in [(&first, false), (&manager(&scene, &folder, way), true)] {
                let saved = manager.save(7, None, must);
                if may_save {
                    assert_eq!(saved.unwrap(), must, "{name}");
                    continue;
                }
                let refused = saved.unwrap_err();
                assert_eq!(
                    refused.status(),
                    Status::FailedPrecondition,
                    "{name}: {refused}"
                );
                let text = refused.to_string();
                for part in [
                    "of step 3",
                    "start_fresh",
                    folder.path("").to_str().unwrap(),
                ] {
                    assert!(text.contains(part), "{name}: {text}");
                }
                assert!(contents(&folder.path("checkpoints")) == old, "{name}");
            }
            first.wait().unwrap();
            // Whoever was refused may save once the folder is empty; whoever has saved there,
            // always.
            remove_all(&folder);
            assert!(first.save(9, None, true).unwrap(), "{name}");
            assert_eq!(first.steps().unwrap(), [9], "{name}");
            // Another training, which found nothing before it, must not.
            let late = Scene::new("adam", Feature::Plain, 1);
            let late = manager(&late, &folder, way);
            assert_eq!(
                late.save(9, None, true).unwrap_err().status(),
                Status::FailedPrecondition
            );
        }
    }
    // What resumes first, in an empty folder too, never asks itself which it is.
    let folder = Folder::new();
    for step in 0..3u64 {
        let scene = Scene::new("adam", Feature::Plain, 1);
        let manager = manager(&scene, &folder, ManagerOptions::default());
        assert_eq!(manager.restore_latest().unwrap(), step.checked_sub(1));
        assert!(manager.save(step, None, true).unwrap());
    }
}

/// A training that begins anew neither finds, counts nor removes the files of another one.
#[test]
fn a_training_that_begins_anew_leaves_the_files_of_another() {
    for way in each_way() {
        let folder = left_by_another();
        let place = folder.path("checkpoints");
        let old = contents(&place);
        fs::write(place.join("notes.txt"), "mine").unwrap();
        let anew = ManagerOptions {
            start_fresh: true,
            every_steps: Some(2),
            max_to_keep: 2,
            max_best_to_keep: 1,
            ..way
        };
        let scene = Scene::new("adam", Feature::Plain, 1);
        let first = manager(&scene, &folder, anew);
        let before = scene.bits();
        let nothing = || {
            assert_eq!(
                (first.latest().unwrap(), first.best().unwrap()),
                (None, None)
            );
            assert_eq!(first.steps().unwrap(), [0; 0]);
            assert_eq!(
                (
                    first.restore_latest().unwrap(),
                    first.restore_best().unwrap()
                ),
                (None, None)
            );
        };
        nothing();
        // Steps are counted from none, and nothing is touched before something is saved.
        assert!(!first.save(1, None, false).unwrap());
        nothing();
        assert!(scene.bits() == before && place.join(&old[2].0).exists());
        for step in 2..=9 {
            scene.train(1);
            first.save(step, Some(step as f64), false).unwrap();
        }
        assert_eq!(first.steps().unwrap(), [2, 6, 8]);
        assert_eq!(
            (first.latest().unwrap(), first.best().unwrap()),
            (Some(8), Some(2))
        );
        assert!(contents(&place.join("before-1")) == old);
        assert!(place.join("notes.txt").exists());
        // A training that resumes there finds the new ones, and can resume from the old ones, too.
        let new = Scene::new("adam", Feature::Plain, 1);
        let old = Scene::new("adam", Feature::Plain, 1);
        let anew = ManagerOptions {
            start_fresh: false,
            ..anew
        };
        assert_eq!(
            manager(&new, &folder, anew).restore_latest().unwrap(),
            Some(8)
        );
        let others =
            Manager::new(Arc::clone(&old.checkpoint), &place.join("before-1"), anew).unwrap();
        assert_eq!(others.restore_latest().unwrap(), Some(3));
        // Again, and where there is nothing.
        drop(first);
        let again = ManagerOptions {
            start_fresh: true,
            ..anew
        };
        assert!(manager(&old, &folder, again).save(2, None, true).unwrap());
        assert_eq!(contents(&place.join("before-2")).len(), 3);
        let empty = Folder::new();
        assert!(manager(&old, &empty, again).save(2, None, true).unwrap());
        assert_eq!(fs::read_dir(empty.path("checkpoints")).unwrap().count(), 1);
    }
}
