//! Which files are kept, when one is due, and what is written in the background.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use umbo::checkpoint::{Manager, ManagerOptions, Number};
use umbo::error::Status;

use crate::scene::{Feature, Folder, Scene, bytes};

fn manager(scene: &Scene, folder: &Folder, options: ManagerOptions) -> Arc<Manager> {
    Manager::new(Arc::clone(&scene.checkpoint), &folder.path("checkpoints"), options).unwrap()
}

fn each_way() -> [ManagerOptions; 2] {
    [true, false].map(|in_background| ManagerOptions { in_background, ..Default::default() })
}

#[test]
fn the_newest_and_the_best_are_kept() {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    for way in each_way() {
        for (larger_is_better, kept, best) in
            [(false, vec![1, 2, 4, 7, 8], 4), (true, vec![0, 3, 5, 7, 8], 3)]
        {
            let folder = Folder::new();
            let options = ManagerOptions { keep: 2, keep_best: 3, larger_is_better, ..way };
            let manager = manager(&scene, &folder, options);
            let losses = [5.0, 2.0, 3.0, 9.0, 1.0, 5.0, f64::NAN, 4.0];
            for (step, loss) in losses.into_iter().enumerate() {
                assert!(manager.save(step as u64, Some(loss), true).unwrap());
            }
            // One without a metric.
            manager.save(8, None, true).unwrap();
            assert_eq!(manager.steps().unwrap(), kept);
            assert_eq!((manager.latest().unwrap(), manager.best().unwrap()), (Some(8), Some(best)));
            assert_eq!(manager.restore_best().unwrap(), Some(best));
        }
    }
}

#[test]
fn a_file_is_due_by_steps_or_by_time() {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    for way in each_way() {
        let folder = Folder::new();
        let by_steps = ManagerOptions { every_steps: Some(10), ..way };
        let saved = |manager: &Manager, steps: std::ops::Range<u64>| -> Vec<u64> {
            steps.filter(|&step| manager.save(step, None, false).unwrap()).collect()
        };
        let first = manager(&scene, &folder, by_steps);
        assert_eq!(saved(&first, 0..35), [10, 20, 30]);
        // Another process goes on from the newest file, not from 0.
        drop(first);
        let second = manager(&scene, &folder, by_steps);
        assert_eq!(saved(&second, 35..45), [40]);
        assert!(second.save(41, None, true).unwrap());
        assert_eq!(saved(&second, 42..52), [51]);
        // After going back, earlier steps are due.
        assert_eq!(saved(&second, 3..14), [3, 13]);

        let folder = Folder::new();
        let by_time = |every| ManagerOptions { every_steps: None, every: Some(every), ..way };
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
    let manager = manager(&scene, &folder, ManagerOptions { keep: 100, ..Default::default() });
    let mut states = Vec::new();
    for step in 1..=20 {
        scene.train(1);
        states.push(scene.bits());
        assert!(manager.save(step, None, false).unwrap());
    }
    manager.wait().unwrap();
    for (step, state) in states.into_iter().enumerate() {
        let fresh = Scene::new("adam", Feature::Accumulation, 2);
        fresh.checkpoint.restore(&manager.path(step as u64 + 1)).unwrap();
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
        scene.checkpoint.set_number("epoch", Number::Integer(step)).unwrap();
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
    assert_eq!(manager.restore_latest().unwrap_err().status(), Status::DataLoss);
}

/// A failure in the background is told by the next call, once, and the next checkpoint is written.
#[test]
fn failures_in_the_background_are_told() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let manager = manager(&scene, &folder, ManagerOptions::default());
    let (there, away) = (folder.path("checkpoints"), folder.path("away"));
    fs::rename(&there, &away).unwrap();
    manager.save(7, None, true).unwrap();
    let error = manager.wait().unwrap_err();
    assert_eq!(error.status(), Status::NotFound, "{error}");
    assert!(error.to_string().contains("step 7"), "{error}");
    manager.wait().unwrap();
    fs::rename(&away, &there).unwrap();
    manager.save(8, None, true).unwrap();
    assert_eq!(manager.latest().unwrap(), Some(8));
}

#[test]
fn options_and_other_files_are_looked_at() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let refused = |options: ManagerOptions| {
        let made = Manager::new(Arc::clone(&scene.checkpoint), &folder.path("x"), options);
        assert_eq!(made.unwrap_err().status(), Status::InvalidArgument);
    };
    refused(ManagerOptions { keep: 0, ..Default::default() });
    refused(ManagerOptions { every_steps: Some(0), ..Default::default() });
    // What is no checkpoint of its own is left alone.
    let manager = manager(&scene, &folder, ManagerOptions { keep: 1, ..Default::default() });
    let others = [
        "step-.safetensors",
        "step-1x.safetensors",
        "notes.txt",
        "step-99999999999999999999999.safetensors",
    ];
    for name in others {
        fs::write(folder.path("checkpoints").join(name), "x").unwrap();
    }
    for step in 0..3 {
        manager.save(step, Some(1.0), true).unwrap();
    }
    assert_eq!(manager.steps().unwrap(), [2]);
    for name in others {
        assert!(folder.path("checkpoints").join(name).exists(), "{name}");
    }
    assert!(manager.save(1 << 53, None, true).is_err());
}
