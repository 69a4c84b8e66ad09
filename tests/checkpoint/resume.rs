//! n steps, a file, new objects and m steps give the bits of n + m steps: for every rule, with
//! every feature; the number of replicas varies, with a device for each or fewer.

use std::sync::Arc;

use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{NamedSchedule, ScheduleKind};

use crate::scene::{
    self, FEATURES, Feature, Folder, PLATEAU, Scene, bytes, keeps_eight_bits, rounds, rules,
    same_bytes,
};

/// Steps before the file, of which some end within an accumulation, and behind it.
const BEFORE: [u64; 2] = [4, 7];
const BEHIND: u64 = 5;

fn resume(rule: &str, feature: Feature, replicas: usize, before: u64) {
    let case = format!("{rule}, {feature:?}, {replicas} replicas, {before} steps before");
    let folder = Folder::new();
    let middle = folder.path("middle");
    let end = folder.path("end");
    let other_end = folder.path("other");
    // On a device for each replica, and on fewer.
    let strategies = [scene::strategy(replicas), scene::sharing(replicas)];
    let [one, other] = strategies.map(|strategy| Scene::with(rule, feature, strategy));
    let (uninterrupted, resumed) = if before == BEFORE[0] {
        (one, other)
    } else {
        (other, one)
    };
    uninterrupted.train(before);
    uninterrupted.checkpoint.save(&middle).unwrap();
    resumed.checkpoint.restore(&middle).unwrap();
    assert_eq!(resumed.bits(), uninterrupted.bits(), "{case}: restored");
    uninterrupted.train(BEHIND);
    resumed.train(BEHIND);
    assert_eq!(resumed.bits(), uninterrupted.bits(), "{case}: trained on");
    // The files have all state: moments, step counts, sums, loss scales, the number of the step.
    uninterrupted.checkpoint.save(&end).unwrap();
    resumed.checkpoint.save(&other_end).unwrap();
    same_bytes(&end, &other_end, &case);
    assert!(bytes(&middle) != bytes(&end), "{case}: nothing changes");
}

#[test]
fn training_goes_on_with_the_same_bits() {
    let mut cases = 0;
    for rule in rules() {
        for feature in FEATURES.into_iter().filter(|feature| feature.fits(rule)) {
            resume(rule, feature, 1 + cases % 3, BEFORE[cases % 2]);
            cases += 1;
        }
    }
    // Rows come in two of the features.
    let without_rows = rules().filter(|rule| !catalogue::updates_rows(rule));
    let in_full = rules().filter(|rule| !keeps_eight_bits(rule));
    let exact = rules().filter(|rule| !rounds(rule));
    let left_out = 2 * without_rows.count() + in_full.count() + exact.count();
    assert_eq!(cases, rules().count() * FEATURES.len() - left_out);
}

/// What was there before a file is restored leaves no trace, also in objects that have trained.
#[test]
fn objects_that_have_trained_are_restored_as_fresh_ones() {
    let folder = Folder::new();
    let middle = folder.path("middle");
    let again = folder.path("again");
    for feature in FEATURES {
        let scene = Scene::new("adam", feature, 2);
        scene.train(4);
        scene.checkpoint.save(&middle).unwrap();
        let there = scene.bits();
        scene.train(5);
        assert_ne!(scene.bits(), there);
        scene.checkpoint.restore(&middle).unwrap();
        assert_eq!(scene.bits(), there, "{feature:?}");
        scene.checkpoint.save(&again).unwrap();
        same_bytes(&middle, &again, &format!("{feature:?}"));
    }
}

/// A file of before the first step takes back what optimizers have kept since.
#[test]
fn a_file_of_the_beginning_takes_all_back() {
    let folder = Folder::new();
    let start = folder.path("start");
    let end = folder.path("end");
    let other = folder.path("other");
    let scene = Scene::new("adagrad", Feature::Rows, 2);
    scene.checkpoint.save(&start).unwrap();
    scene.train(3);
    scene.checkpoint.save(&end).unwrap();
    scene.checkpoint.restore(&start).unwrap();
    scene.train(3);
    scene.checkpoint.save(&other).unwrap();
    same_bytes(&end, &other, "from the beginning");
}

/// State is held once, so the number of replicas does not matter to it.
#[test]
fn any_number_of_replicas_takes_it_over() {
    let folder = Folder::new();
    let one = folder.path("one");
    let two = folder.path("two");
    for feature in FEATURES {
        let three = Scene::new("adamw", feature, 3);
        three.train(4);
        three.checkpoint.save(&one).unwrap();
        for replicas in [1, 2, 5] {
            let other = Scene::new("adamw", feature, replicas);
            other.checkpoint.restore(&one).unwrap();
            assert_eq!(other.bits(), three.bits());
            other.checkpoint.save(&two).unwrap();
            same_bytes(&one, &two, &format!("{feature:?} on {replicas}"));
            other.train(3);
        }
    }
}

/// A schedule of the program's own stays; without one the saved schedule is followed.
#[test]
fn schedules_are_restored_where_there_is_none() {
    let folder = Folder::new();
    let path = folder.path("middle");
    let saved = Scene::new("adam", Feature::Plateau, 1);
    saved.train(6);
    let (schedule, observed) = saved.trainers[0].0.named_schedule().unwrap();
    assert!(schedule == PLATEAU && observed.factor < 1.0 && observed.best.is_some());
    saved.checkpoint.save(&path).unwrap();

    let restored = |prepare: &dyn Fn(&Scene)| {
        let scene = Scene::new("adam", Feature::Plain, 1);
        prepare(&scene);
        scene.checkpoint.restore(&path).unwrap();
        scene.trainers[0].0.named_schedule()
    };
    assert_eq!(restored(&|_| {}), Some((schedule, observed)));
    let of_function = restored(&|scene| {
        scene.trainers[0].0.set_schedule(Arc::new(|_| Ok(0.5)));
    });
    assert_eq!(of_function, None);
    let patient = NamedSchedule {
        learning_rate: 0.25,
        ..PLATEAU
    };
    let longer = restored(&|scene| scene.trainers[0].0.set_named_schedule(patient).unwrap());
    assert_eq!(longer, Some((patient, observed)));
    let constant = NamedSchedule {
        kind: ScheduleKind::Constant,
        ..PLATEAU
    };
    let other = restored(&|scene| scene.trainers[0].0.set_named_schedule(constant).unwrap());
    assert_eq!(other.unwrap().0, constant);
}
