//! A manager's folder.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions, Number};

use super::super::alone;
use super::super::saving::Folder;
use super::{contents, frozen};

fn manager(folder: &Path) -> (Arc<Manager>, Arc<Checkpoint>) {
    let checkpoint = Checkpoint::new(&alone(1));
    checkpoint.set_number("epoch", Number::Integer(0)).unwrap();
    let manager = Manager::new(Arc::clone(&checkpoint), folder, ManagerOptions::default());
    (manager.unwrap(), checkpoint)
}

/// The step, the epoch and the metric of each file, in the order in which they were saved: a
/// training that has gone back once.
const SAVES: [(u64, i64, Option<f64>); 4] = [
    (10, 1, Some(0.5)),
    (20, 2, Some(0.25)),
    (30, 3, Some(f64::INFINITY)),
    (15, 4, None),
];

pub fn save(folder: &Path) {
    let (manager, checkpoint) = manager(folder);
    for (step, epoch, metric) in SAVES {
        checkpoint
            .set_number("epoch", Number::Integer(epoch))
            .unwrap();
        assert!(manager.save(step, metric, true).unwrap());
    }
}

#[test]
fn a_manager_finds_the_files_of_its_folder() {
    let folder = Folder::new("frozen-manager");
    for file in super::files(&frozen().join("manager")) {
        fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    let (manager, checkpoint) = manager(folder.path());
    let epoch = || checkpoint.number("epoch").unwrap();
    assert_eq!(manager.steps().unwrap(), [10, 15, 20, 30]);
    assert_eq!(manager.restore_best().unwrap(), Some(20));
    assert_eq!(epoch(), Number::Integer(2));
    assert_eq!(manager.restore_latest().unwrap(), Some(15));
    assert_eq!(epoch(), Number::Integer(4));
    // Later saves have greater numbers.
    assert!(manager.save(12, None, true).unwrap());
    assert_eq!(manager.latest().unwrap(), Some(12));
    let (metadata, _) = contents(&manager.path(12));
    assert_eq!(
        metadata["manager"],
        serde_json::json!({"step": 12, "save": 5})
    );
}
