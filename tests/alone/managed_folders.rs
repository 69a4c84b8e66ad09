//! Folders of checkpoints where what belongs to the process matters: the working directory and the
//! log.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs};

use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions};
use umbo_core::error::Status;
use umbo_core::observe::log::{Level, set_sink};
use umbo_core::strategy::{Options, Strategy};

/// A folder that goes when this does.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = env::temp_dir().join(format!("umbo-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        Place(place.canonicalize().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn manager(folder: &Path, options: ManagerOptions) -> Arc<Manager> {
    let strategy = Strategy::new(&Options {
        cpu_replicas: 1,
        ..Options::default()
    })
    .unwrap();
    Manager::new(Checkpoint::new(&strategy), folder, options).unwrap()
}

/// A program changes its working directory, and the new one has a folder of the same name, of
/// another training.
#[test]
fn a_manager_stays_in_its_folder_when_the_program_changes_its_own() {
    let true = crate::is_alone(a_manager_stays_in_its_folder_when_the_program_changes_its_own)
    else {
        return;
    };
    for asynchronous in [false, true] {
        let place = Place::new("chdir");
        let options = ManagerOptions {
            asynchronous,
            ..Default::default()
        };
        for training in ["one", "two"] {
            fs::create_dir(place.0.join(training)).unwrap();
        }
        env::set_current_dir(place.0.join("two")).unwrap();
        let other = manager(Path::new("files"), options);
        for step in 11..=15 {
            other.save(step, None, true).unwrap();
        }
        other.wait().unwrap();
        env::set_current_dir(place.0.join("one")).unwrap();
        let manager = manager(Path::new("files"), options);
        manager.save(20, None, true).unwrap();
        for directory in ["../two", "/"] {
            env::set_current_dir(directory).unwrap();
            for step in 21..=25 {
                manager.save(step, None, true).unwrap();
            }
            assert_eq!(manager.steps().unwrap(), [21, 22, 23, 24, 25]);
            assert_eq!(manager.restore_latest().unwrap(), Some(25));
            let path = place.0.join("one/files/step-000000000025.safetensors");
            assert_eq!(manager.path(25), path);
            assert!(path.exists());
            assert_eq!(other.steps().unwrap(), [11, 12, 13, 14, 15]);
        }
    }
}

/// An old file that cannot be removed: one warning, however many saves meet it, and the others are
/// removed.
#[test]
fn failed_removals_are_warned_of_once() {
    let true = crate::is_alone(failed_removals_are_warned_of_once) else {
        return;
    };
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    set_sink(
        Level::Warning,
        Box::new(move |_, text| kept.lock().unwrap().push(text.to_owned())),
    );
    for (asynchronous, max_best_to_keep) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
        let place = Place::new("staying");
        let options = ManagerOptions {
            asynchronous,
            max_best_to_keep,
            max_to_keep: 2,
            ..Default::default()
        };
        let manager = manager(&place.0, options);
        // A folder of this name can neither be read as a checkpoint nor removed.
        fs::create_dir_all(manager.path(1)).unwrap();
        manager.restore_latest().unwrap_err();
        fs::rename(manager.path(1), place.0.join("aside")).unwrap();
        manager.save(2, Some(0.0), true).unwrap();
        manager.wait().unwrap();
        fs::rename(place.0.join("aside"), manager.path(1)).unwrap();
        fs::write(manager.path(1).join("full"), "").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(manager.path(1))
            .unwrap()
            .set_modified(old)
            .unwrap();
        for step in 3..=7 {
            assert!(manager.save(step, Some(1.0), true).unwrap());
        }
        manager.wait().unwrap();
        let best: &[u64] = if max_best_to_keep == 1 { &[2] } else { &[] };
        assert_eq!(manager.steps().unwrap(), [&[1], best, &[6, 7]].concat());
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in [
            "step-000000000001.safetensors'",
            "the new checkpoint is saved",
            "try again",
        ] {
            assert!(lines[0].contains(part), "{lines:?}");
        }
    }
}

/// In this process the test holds a folder until it is killed.
const HOLDS: &str = "UMBO_TEST_HOLDS_FOLDER";

/// Two processes on one folder: the second one is refused as long as the first one lives, however
/// that ends.
#[test]
fn a_killed_process_leaves_no_lock() {
    if let Some(folder) = env::var_os(HOLDS) {
        let manager = manager(Path::new(&folder), ManagerOptions::default());
        manager.save(1, None, true).unwrap();
        fs::write(Path::new(&folder).join("ready"), "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let true = crate::is_alone(a_killed_process_leaves_no_lock) else {
        return;
    };
    let place = Place::new("killed");
    let manager = manager(&place.0, ManagerOptions::default());
    let mut other = Command::new(env::current_exe().unwrap())
        .args([
            "managed_folders::a_killed_process_leaves_no_lock",
            "--exact",
        ])
        .env(HOLDS, &place.0)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !place.0.join("ready").exists() {
        assert!(
            other.try_wait().unwrap().is_none(),
            "the other process has ended"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(manager.restore_latest().unwrap(), Some(1));
    let refused = manager.save(2, None, true);
    other.kill().unwrap();
    other.wait().unwrap();
    let refused = refused.unwrap_err();
    assert_eq!(refused.status(), Status::FailedPrecondition);
    assert!(refused.to_string().contains("another process"), "{refused}");
    assert!(manager.save(2, None, true).unwrap());
    assert_eq!(manager.steps().unwrap(), [1, 2]);
}
