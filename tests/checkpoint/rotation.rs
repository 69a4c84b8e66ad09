//! Which files are there and which is the newest, beside a model, whatever happens to the folder;
//! and who may save there.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions, Number};
use umbo_core::error::Status;
use umbo_core::strategy::Strategy;

use crate::refused::{set_removable, with_failure};
use crate::scene::{Folder, bytes, strategy};

/// A checkpoint of one number, and a manager of it.
struct Run {
    checkpoint: Arc<Checkpoint>,
    manager: Arc<Manager>,
}

impl Run {
    fn new(strategy: &Strategy, folder: &Path, options: ManagerOptions) -> Run {
        let checkpoint = Checkpoint::new(strategy);
        checkpoint.set_number("value", Number::Integer(0)).unwrap();
        let manager = Manager::new(Arc::clone(&checkpoint), folder, options).unwrap();
        Run {
            checkpoint,
            manager,
        }
    }

    fn value(&self) -> Number {
        self.checkpoint.number("value").unwrap()
    }

    fn save(&self, step: u64, value: i64, metric: Option<f64>) -> umbo_core::error::Result<bool> {
        self.checkpoint
            .set_number("value", Number::Integer(value))
            .unwrap();
        self.manager.save(step, metric, true)
    }
}

/// A file that must be there.
#[derive(Clone, Debug)]
struct Expected {
    step: u64,
    value: i64,
    metric: Option<f64>,
    stays: bool,
}

/// What must be in the folder, in the order in which it was saved.
struct Model {
    files: Vec<Expected>,
    options: ManagerOptions,
}

impl Model {
    fn best_first(&self) -> Vec<&Expected> {
        let mut rated: Vec<_> = self
            .files
            .iter()
            .rev()
            .filter(|file| file.metric.is_some())
            .collect();
        let sign = if self.options.larger_is_better {
            -1.0
        } else {
            1.0
        };
        rated.sort_by(|one, other| {
            let key = |file: &Expected| sign * file.metric.unwrap();
            key(one).total_cmp(&key(other))
        });
        rated
    }

    fn save(&mut self, step: u64, value: i64, metric: Option<f64>) {
        let before = self.files.iter().position(|file| file.step == step);
        let stays = before.is_some_and(|index| self.files.remove(index).stays);
        self.files.push(Expected {
            step,
            value,
            metric,
            stays,
        });
        let newest = self.files.iter().rev().take(self.options.max_to_keep);
        let best = self
            .best_first()
            .into_iter()
            .take(self.options.max_best_to_keep);
        let kept: Vec<u64> = newest.chain(best).map(|file| file.step).collect();
        self.files
            .retain(|file| file.stays || kept.contains(&file.step));
    }

    fn check(&self, run: &Run, folder: &Path, case: &str) {
        run.manager.wait().unwrap();
        let mut steps: Vec<u64> = self.files.iter().map(|file| file.step).collect();
        steps.sort_unstable();
        assert_eq!(steps_in(folder), steps, "{case}");
        assert_eq!(run.manager.steps().unwrap(), steps, "{case}");
        let latest = self.files.last().map(|file| file.step);
        assert_eq!(run.manager.latest().unwrap(), latest, "{case}");
        let best = self.best_first().first().map(|file| file.step);
        assert_eq!(run.manager.best().unwrap(), best, "{case}");
    }
}

/// The steps whose files are in a folder.
fn steps_in(folder: &Path) -> Vec<u64> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut steps: Vec<u64> = names
        .filter_map(|name| {
            let name = name.to_str().unwrap().strip_prefix("step-")?;
            name.strip_suffix(".safetensors")?.parse().ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

/// Points a link to another folder.
fn point(link: &Path, to: &Path) {
    let _ = fs::remove_file(link);
    symlink(to, link).unwrap();
}

fn drawn_options(random: &mut ChaCha8Rng) -> ManagerOptions {
    ManagerOptions {
        max_to_keep: random.random_range(1..5),
        max_best_to_keep: random.random_range(0..3),
        larger_is_better: random.random(),
        asynchronous: random.random(),
        ..Default::default()
    }
}

/// One drawn sequence of what a program, its user and other programs do.
fn sequence(strategy: &Strategy, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let place = Folder::new();
    let folder = place.path("run");
    let other = place.path("other");
    let link = place.path("current");
    fs::create_dir(&folder).unwrap();
    point(&link, &folder);
    let foreign = Run::new(strategy, &other, ManagerOptions::default());
    for step in 1..4 {
        foreign
            .save(step * 10, 0, Some(f64::from(random.random::<f32>())))
            .unwrap();
    }
    let foreign: Vec<_> = steps_in(&other);
    let options = drawn_options(&mut random);
    let mut model = Model {
        files: Vec::new(),
        options,
    };
    let mut run = Run::new(strategy, &link, options);
    let mut step = 0;
    let mut value = 0;
    for turn in 0..30 {
        let case = format!("seed {seed}, turn {turn}, {options:?}, {:?}", model.files);
        match random.random_range(0..12) {
            0 => {
                let best = model
                    .best_first()
                    .first()
                    .map(|file| (file.step, file.value));
                assert_eq!(
                    run.manager.restore_best().unwrap(),
                    best.map(|best| best.0),
                    "{case}"
                );
                if let Some((best, value)) = best {
                    step = best;
                    assert_eq!(run.value(), Number::Integer(value), "{case}");
                }
            }
            1 => {
                point(&link, &folder);
                drop(run);
                run = Run::new(strategy, &link, options);
                let newest = model.files.last();
                let found = run.manager.restore_latest().unwrap();
                assert_eq!(found, newest.map(|file| file.step), "{case}");
                if let Some(newest) = newest {
                    step = newest.step;
                    assert_eq!(run.value(), Number::Integer(newest.value), "{case}");
                }
            }
            2 if !model.files.is_empty() => {
                let index = random.random_range(0..model.files.len());
                let gone = model.files.remove(index);
                let path = run.manager.path(gone.step);
                set_removable(&path, true);
                fs::remove_file(path).unwrap();
            }
            3 if !model.files.is_empty() => {
                let index = random.random_range(0..model.files.len());
                let file = &mut model.files[index];
                file.stays = !file.stays;
                set_removable(&run.manager.path(file.step), !file.stays);
            }
            4 => point(&link, if random.random() { &other } else { &folder }),
            _ => {
                step += random.random_range(1..3);
                value += 1;
                let metric = random
                    .random::<bool>()
                    .then(|| f64::from(random.random_range(0..4)));
                assert!(run.save(step, value, metric).unwrap(), "{case}");
                model.save(step, value, metric);
            }
        }
        model.check(&run, &folder, &format!("{case}, then {:?}", model.files));
        assert_eq!(steps_in(&other), foreign, "{case}");
    }
    for file in &model.files {
        set_removable(&run.manager.path(file.step), true);
    }
}

/// Going back, restarts, files that others remove or that cannot be removed, links that are moved:
/// the newest is what was saved last, nothing else is removed, and no save fails.
#[test]
fn rotation_matches_the_model() {
    let strategy = strategy(1);
    for seed in 0..25 {
        sequence(&strategy, seed);
    }
}

/// A program goes back to its best checkpoint and ends. The next one resumes what was saved last.
#[test]
fn an_abandoned_branch_is_not_resumed() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let options = ManagerOptions {
        max_to_keep: 3,
        max_best_to_keep: 1,
        every_steps: Some(4),
        ..Default::default()
    };
    let first = Run::new(&strategy, &folder.path("run"), options);
    for step in 1..=12u64 {
        first
            .save(step, step as i64, Some((step as f64 - 7.0).abs()))
            .unwrap();
    }
    assert_eq!(first.manager.restore_best().unwrap(), Some(7));
    first.save(8, 108, Some(5.0)).unwrap();
    first.save(9, 109, Some(6.0)).unwrap();
    assert_eq!(first.manager.steps().unwrap(), [7, 8, 9, 12]);
    drop(first);
    let second = Run::new(&strategy, &folder.path("run"), options);
    assert_eq!(second.manager.restore_latest().unwrap(), Some(9));
    assert_eq!(second.value(), Number::Integer(109));
    // The next one is due 4 steps after it, and the rest of the branch goes first.
    assert!(!second.manager.save(12, None, false).unwrap());
    assert!(second.manager.save(13, None, false).unwrap());
    assert_eq!(second.manager.steps().unwrap(), [7, 8, 9, 13]);
}

/// Files that no manager has saved have their place by the time, and copies that of the original.
#[test]
fn files_without_a_number_have_a_place() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let place = folder.path("run");
    let run = Run::new(&strategy, &place, ManagerOptions::default());
    // As if the file had been written that many seconds after a moment in the past.
    let written_at = |step: u64, seconds: u64| {
        let file = File::options()
            .write(true)
            .open(run.manager.path(step))
            .unwrap();
        let start = SystemTime::now() - Duration::from_secs(10_000);
        file.set_modified(start + Duration::from_secs(100 * seconds))
            .unwrap();
    };
    let by_hand = |step: u64, seconds: u64| {
        run.checkpoint
            .set_number("value", Number::Integer(step as i64))
            .unwrap();
        run.checkpoint.save(&run.manager.path(step)).unwrap();
        written_at(step, seconds);
    };
    let latest = || run.manager.latest().unwrap();
    let remove = |step: u64| fs::remove_file(run.manager.path(step)).unwrap();
    // Without any number the steps decide.
    by_hand(20, 0);
    by_hand(3, 1);
    assert_eq!(run.manager.restore_latest().unwrap(), Some(20));
    // What a manager saves is newer than all that was there.
    run.save(10, 10, None).unwrap();
    assert_eq!(latest(), Some(10));
    written_at(10, 2);
    by_hand(4, 3);
    assert_eq!(latest(), Some(4));
    run.save(2, 2, None).unwrap();
    assert_eq!(latest(), Some(2));
    remove(2);
    remove(4);
    // A copy under the name of a later step is as new as the original, and comes behind it.
    fs::copy(run.manager.path(10), run.manager.path(30)).unwrap();
    assert_eq!(latest(), Some(30));
    // Copies in another folder.
    let copies = folder.path("copies");
    fs::create_dir(&copies).unwrap();
    for step in [10, 30] {
        let name = run.manager.path(step);
        fs::copy(&name, copies.join(name.file_name().unwrap())).unwrap();
    }
    let other = Run::new(&strategy, &copies, ManagerOptions::default());
    assert_eq!(other.manager.restore_latest().unwrap(), Some(30));
    assert_eq!(other.value(), Number::Integer(10));
    other.save(5, 5, None).unwrap();
    assert_eq!(other.manager.latest().unwrap(), Some(5));
    // A damaged header does not hide that there was a newer file.
    written_at(30, 2);
    fs::write(run.manager.path(1), &bytes(&run.manager.path(10))[..20]).unwrap();
    assert_eq!(latest(), Some(1));
    assert_eq!(run.manager.restore_latest().unwrap(), Some(30));
}

/// Each operation of a save that removes old files fails in turn. The save fails only if its file
/// is not there.
#[test]
fn a_save_whose_file_is_there_has_not_failed() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let options = ManagerOptions {
        max_to_keep: 1,
        max_best_to_keep: 1,
        ..Default::default()
    };
    let run = Run::new(&strategy, &folder.path("run"), options);
    for (error, step) in [
        (libc::EIO, 1000u64),
        (libc::EACCES, 2000),
        (libc::EMFILE, 3000),
    ] {
        let mut failed = 0;
        for at in 1.. {
            run.save(step + 3 * at, 0, Some(1.0)).unwrap();
            run.save(step + 3 * at + 1, 0, Some(2.0)).unwrap();
            let last = step + 3 * at + 2;
            let case = format!("call {at}, error {error}");
            let Some(saved) = with_failure(at, error, || run.save(last, 1, Some(0.0))) else {
                break;
            };
            let is_there = run.manager.path(last).exists();
            match &saved {
                Ok(saved) => assert!(*saved && is_there, "{case}"),
                // The name is in place, perhaps not for good.
                Err(refused) if refused.to_string().contains("synchronising its folder") => {}
                Err(refused) => assert!(!is_there, "{case}: {refused}"),
            }
            failed += usize::from(saved.is_err());
        }
        assert!(failed > 3, "{failed}");
        // What could not be removed went with a later save.
        run.save(step + 999, 0, Some(-1.0)).unwrap();
        assert_eq!(steps_in(&folder.path("run")), [step + 999]);
    }
}

/// A part that cannot be removed with its checkpoint goes with a later save.
#[test]
fn parts_that_stay_go_later() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let place = folder.path("run");
    let options = ManagerOptions {
        max_to_keep: 1,
        ..Default::default()
    };
    let run = Run::new(&strategy, &place, options);
    run.save(1, 1, None).unwrap();
    let part = place.join("step-000000000001.0123456789abcdef-00002-of-00002.safetensors");
    fs::write(&part, "part").unwrap();
    set_removable(&part, false);
    run.save(2, 2, None).unwrap();
    assert!(part.exists() && run.manager.steps().unwrap() == [2]);
    set_removable(&part, true);
    run.save(3, 3, None).unwrap();
    assert!(!part.exists());
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files.filter(|path| path.is_file()).collect();
    all.sort();
    all.into_iter()
        .map(|path| (path.file_name().unwrap().into(), bytes(&path)))
        .collect()
}

/// Where older checkpoints cannot be moved away, they stay together.
#[test]
fn older_checkpoints_are_moved_together_or_not_at_all() {
    let strategy = strategy(1);
    let mut moved = 0;
    let mut stayed = 0;
    for at in 1.. {
        let folder = Folder::new();
        let place = folder.path("run");
        let old = Run::new(&strategy, &place, ManagerOptions::default());
        for step in 1..4 {
            old.save(step, 0, None).unwrap();
            let part = format!("step-{step:012}.0123456789abcdef-00002-of-00002.safetensors");
            fs::write(place.join(part), "part").unwrap();
        }
        drop(old);
        let before = contents(&place);
        let options = ManagerOptions {
            start_fresh: true,
            ..Default::default()
        };
        let new = Run::new(&strategy, &place, options);
        let Some(saved) = with_failure(at, libc::EPERM, || new.save(7, 7, None)) else {
            break;
        };
        let aside = place.join("before-1");
        if aside.exists() {
            moved += 1;
            assert!(contents(&aside) == before, "call {at}");
        } else {
            stayed += 1;
            saved.unwrap_err();
            assert!(contents(&place) == before, "call {at}");
        }
        new.save(8, 8, None).unwrap();
        assert!(contents(&aside) == before, "call {at}");
    }
    assert!(moved > 3 && stayed > 6, "{moved} {stayed}");
}

/// A lock that another process has looks as one of another descriptor does.
#[test]
fn one_process_saves_to_a_folder_at_a_time() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let place = folder.path("run");
    for start_fresh in [false, true] {
        let options = ManagerOptions {
            start_fresh,
            ..Default::default()
        };
        let run = Run::new(&strategy, &place, options);
        run.manager.restore_latest().unwrap();
        let before = contents(&place);
        let other = File::open(&place).unwrap();
        other.try_lock().unwrap();
        let refused = run.save(1, 1, None).unwrap_err();
        assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
        assert!(refused.to_string().contains("another process"), "{refused}");
        assert!(contents(&place) == before);
        other.unlock().unwrap();
        run.save(1, 1, None).unwrap();
        assert!(other.try_lock().is_err());
        // Who looks does not save.
        let looks = Run::new(&strategy, &place, ManagerOptions::default());
        assert_eq!(looks.manager.restore_latest().unwrap(), Some(1));
        // Managers of one checkpoint share it.
        let second = Manager::new(Arc::clone(&run.checkpoint), &place, Default::default()).unwrap();
        second.save(2, None, true).unwrap();
        drop(run.manager);
        assert!(other.try_lock().is_err());
        second.save(3, None, true).unwrap();
        drop(second);
        other.try_lock().unwrap();
    }
}

/// Another checkpoint of the process takes over what it was restored from since, and nothing else.
#[test]
fn trainings_of_one_process_follow_each_other() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let place = folder.path("run");
    let run = || Run::new(&strategy, &place, ManagerOptions::default());
    let first = run();
    let early = run();
    // Both have found nothing.
    assert_eq!(early.manager.restore_latest().unwrap(), None);
    first.save(1, 1, None).unwrap();
    let refused = |run: &Run, step: u64, text: &str| {
        let refused = run.save(step, 0, None).unwrap_err();
        assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
        assert!(refused.to_string().contains(text), "{refused}");
        assert!(!run.manager.path(step).exists());
    };
    refused(&early, 2, "has checkpoints already");
    fs::remove_file(first.manager.path(1)).unwrap();
    refused(&early, 2, "in this process");
    first.save(1, 1, None).unwrap();
    let second = run();
    assert_eq!(second.manager.restore_latest().unwrap(), Some(1));
    second.save(2, 2, None).unwrap();
    refused(&first, 3, "in this process");
    refused(&first, 3, "in this process");
    assert_eq!(first.manager.restore_latest().unwrap(), Some(2));
    first.save(3, 3, None).unwrap();
    refused(&second, 4, "in this process");
    drop(first);
    refused(&second, 4, "in this process");
}

/// Where another folder has the path of the first one, nothing is written or removed.
#[test]
fn a_folder_that_was_replaced_is_noticed() {
    let strategy = strategy(1);
    let folder = Folder::new();
    let place = folder.path("run");
    for asynchronous in [false, true] {
        let options = ManagerOptions {
            asynchronous,
            max_to_keep: 1,
            ..Default::default()
        };
        let run = Run::new(&strategy, &place, options);
        let other = Run::new(&strategy, &folder.path("other"), ManagerOptions::default());
        run.save(20, 20, None).unwrap();
        other.save(11, 11, None).unwrap();
        run.manager.wait().unwrap();
        let status = |run: &Run| run.save(21, 21, None).unwrap_err().status();
        fs::rename(&place, folder.path("away")).unwrap();
        assert_eq!(status(&run), Status::NotFound);
        fs::rename(folder.path("other"), &place).unwrap();
        assert_eq!(status(&run), Status::FailedPrecondition);
        assert_eq!(
            run.manager.latest().unwrap_err().status(),
            Status::FailedPrecondition
        );
        assert_eq!(steps_in(&place), [11]);
        fs::rename(&place, folder.path("other")).unwrap();
        fs::rename(folder.path("away"), &place).unwrap();
        run.save(22, 22, None).unwrap();
        assert_eq!(run.manager.steps().unwrap(), [22]);
        fs::remove_dir_all(&place).unwrap();
        fs::remove_dir_all(folder.path("other")).unwrap();
    }
}
