//! Checkpoints that several ranks save together, each the state that it keeps: they resume with any
//! number of ranks, and whatever fails the old one or the new one is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions};
use umbo_core::error::Status;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::catalogue::MATRIX_RULES;
use umbo_core::optimizer::{Gradients, GradientsOptions, Optimizer, Settings, UpdateRule, apply};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::values::variable::Variable;

use super::dividing::{contribute, gradients, known, make, rules};
use super::engine::{job, ranks};
use super::on_gpus::tried;
use super::{alone, on_ranks};

/// A folder that goes when this does, with the files that ranks write beside each other.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("umbo-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("state.safetensors")
    }

    /// The names of all files, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One variable is updated by rows.
const SHAPES: [&[usize]; 5] = [&[5], &[4, 900], &[3, 700], &[0, 4], &[2048]];
/// For rules that are for matrices alone.
const MATRICES: [&[usize]; 5] = [&[5, 1], &[4, 900], &[37, 41], &[0, 4], &[32, 64]];

struct Training {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    checkpoint: Arc<Checkpoint>,
}

impl Training {
    fn new(strategy: Strategy, rule: Box<dyn UpdateRule>) -> Training {
        Training::accumulating(strategy, rule, 1)
    }

    fn accumulating(strategy: Strategy, rule: Box<dyn UpdateRule>, runs: u64) -> Training {
        let shapes = match rule.matrix_rule() {
            None => &SHAPES,
            Some(_) => &MATRICES,
        };
        let variables = make(&strategy, shapes);
        let has_rows = !rule.measures() && rule.matrix_rule().is_none();
        let row_sparse = [false, has_rows, false, false, false];
        let options = GradientsOptions {
            row_sparse: &row_sparse,
            accumulation_steps: runs,
            dtype: None,
        };
        let gradients = gradients(&strategy, &variables, options);
        let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
        let settings = Settings {
            global_clip_norm: Some(0.5),
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        let checkpoint = Checkpoint::new(&strategy);
        for variable in &variables {
            checkpoint
                .add(variable.name().as_str(), Arc::new(variable.clone()))
                .unwrap();
        }
        checkpoint
            .add("optimizer", Arc::clone(&optimizer) as _)
            .unwrap();
        checkpoint
            .add("gradients", Arc::clone(&gradients) as _)
            .unwrap();
        Training {
            strategy,
            variables,
            gradients,
            optimizer,
            checkpoint,
        }
    }

    fn train(&self, steps: std::ops::Range<usize>) {
        for step in steps {
            let callback = |context: &ReplicaContext| {
                contribute(context, &self.gradients, step)?;
                Ok(None)
            };
            self.strategy.run(&callback, None).unwrap();
            apply(&self.optimizer, &self.gradients).unwrap();
        }
    }

    fn known(&self) -> Vec<Vec<u8>> {
        known(&self.optimizer, &self.variables)
    }
}

fn adam() -> Box<dyn UpdateRule> {
    Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap())
}

/// Calls `body` with a training of each rank, also where there is but one.
fn on_trainings<R: Send>(
    (size, replicas): (usize, usize),
    rule: fn() -> Box<dyn UpdateRule>,
    body: impl Fn(usize, &Training) -> R + Sync,
) -> Vec<R> {
    match size {
        1 => vec![body(0, &Training::new(alone(replicas), rule()))],
        _ => on_ranks(&ranks(size), replicas, |rank, strategy| {
            body(rank, &Training::new(strategy.unwrap(), rule()))
        }),
    }
}

#[test]
fn what_ranks_save_goes_on_with_any_number_of_them() {
    let splits = [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 1),
        (3, 2),
        (1, 6),
        (2, 3),
    ];
    let rules = rules().chain(MATRIX_RULES.map(|rule| rule.make));
    for (number, rule) in rules.enumerate() {
        // Each rule at some of the splits, and all splits by some rules.
        let from = [
            splits[number % splits.len()],
            splits[(3 * number + 5) % splits.len()],
        ];
        for (at, from) in from.into_iter().enumerate() {
            let folder = Folder::new(&format!("splits-{number}-{at}"));
            let whole = on_trainings(from, rule, |_, training| {
                training.train(0..2);
                training.checkpoint.save(&folder.file()).unwrap();
                let saved = training.known();
                training.train(2..4);
                (saved, training.known())
            });
            let (saved, expected) = &whole[0];
            assert_eq!(folder.names().len(), from.0, "{:?}", folder.names());
            let to = splits.into_iter().filter(|(size, replicas)| {
                size * replicas == from.0 * from.1 || (size + replicas + number) % 4 == 0
            });
            for to in to {
                let came = on_trainings(to, rule, |_, training| {
                    training.checkpoint.restore(&folder.file()).unwrap();
                    let restored = training.known();
                    training.train(2..4);
                    (restored, training.known())
                });
                for (restored, gone_on) in &came {
                    let case = || format!("{:?}, {from:?} to {to:?}", rule());
                    assert!(restored == saved, "restored by {}", case());
                    let is_same = to.0 * to.1 == from.0 * from.1;
                    assert!(!is_same || gone_on == expected, "gone on by {}", case());
                }
            }
        }
    }
}

#[test]
fn what_one_process_has_accumulated_is_restored_once_and_saved_by_no_rank() {
    let uncut = Training::accumulating(alone(4), adam(), 3);
    uncut.train(0..6);
    let folder = Folder::new("accumulated");
    let training = Training::accumulating(alone(4), adam(), 3);
    training.train(0..2);
    training.checkpoint.save(&folder.file()).unwrap();
    for (size, replicas) in [(2, 2), (4, 1)] {
        on_ranks(&ranks(size), replicas, |_, strategy| {
            let training = Training::accumulating(strategy.unwrap(), adam(), 3);
            training.checkpoint.restore(&folder.file()).unwrap();
            training.train(2..6);
            assert!(training.known() == uncut.known(), "{size}×{replicas}");
            training.train(6..7);
            let error = training
                .checkpoint
                .save(&folder.0.join("never"))
                .unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            assert!(
                error.to_string().contains("each rank has its own part"),
                "{error}"
            );
        });
    }
}

/// What the checkpoint at `path` has, for one process.
fn restored(path: &Path) -> Vec<Vec<u8>> {
    let training = Training::new(alone(2), adam());
    training.checkpoint.restore(path).unwrap();
    training.known()
}

/// A rank dies at each of its calls while a checkpoint replaces another one.
#[test]
fn a_rank_that_dies_leaves_the_old_checkpoint_or_the_new_one() {
    for dying in tried([0, 1, 2]) {
        let mut ends = [0; 2];
        for at in 0.. {
            let folder = Folder::new(&format!("deaths-{dying}-{at}"));
            // How many calls come before is found out by a training in which nobody dies.
            let count = |ranks: &[Arc<super::engine::Rank>]| {
                on_ranks(ranks, 1, |rank, strategy| {
                    let training = Training::new(strategy.unwrap(), adam());
                    training.train(0..1);
                    training.checkpoint.save(&folder.file()).unwrap();
                    let old = training.known();
                    training.train(1..2);
                    let new = training.known();
                    let before = ranks[rank].calls();
                    let saved = training.checkpoint.save(&folder.file()).is_ok();
                    (old, new, before, saved)
                })
            };
            let all = ranks(3);
            let (old, new, before, _) = count(&all).swap_remove(dying);
            let calls = all[dying].calls() - before;
            assert!(restored(&folder.file()) == new);
            let came = count(&job(3, Some(at), Some((dying, before + at))));
            let found = restored(&folder.file());
            let is_new = found == new;
            assert!(is_new || found == old, "rank {dying} died at {at}");
            ends[usize::from(is_new)] += 1;
            if at >= calls {
                assert!(came.iter().all(|(.., saved)| *saved));
                break;
            }
            assert!(came.iter().any(|(.., saved)| !saved));
            // What was left over goes with the next.
            on_trainings((2, 1), adam, |_, training| {
                training.train(0..1);
                training.checkpoint.save(&folder.file()).unwrap();
            });
            assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
        }
        assert!(ends.iter().all(|&count| count > 0), "{ends:?}");
    }
}

/// One rank cannot write: all are told, and the old checkpoint is there.
#[test]
fn a_rank_that_cannot_write_fails_the_checkpoint_on_all() {
    for failing in 0..3 {
        let folder = Folder::new(&format!("failing-{failing}"));
        let nowhere = folder.0.join("nowhere").join("state.safetensors");
        let came = on_trainings((3, 2), adam, |rank, training| {
            training.train(0..1);
            training.checkpoint.save(&folder.file()).unwrap();
            let old = training.known();
            training.train(1..2);
            let path = if rank == failing {
                nowhere.clone()
            } else {
                folder.file()
            };
            let error = training.checkpoint.save(&path).unwrap_err();
            assert_eq!(error.status(), Status::NotFound, "{error}");
            let names = error
                .to_string()
                .contains(&format!("rank {failing} failed"));
            assert_eq!(names, rank != failing, "{error}");
            old
        });
        assert!(restored(&folder.file()) == came[0]);
        on_trainings((3, 2), adam, |_, training| {
            training.train(0..2);
            training.checkpoint.save(&folder.file()).unwrap();
        });
        assert_eq!(folder.names().len(), 3, "{:?}", folder.names());
        // One process that saves in its place leaves no parts.
        let training = Training::new(alone(1), adam());
        training.checkpoint.save(&folder.file()).unwrap();
        assert_eq!(folder.names(), ["state.safetensors"]);
    }
}

/// The same state makes the same files, so that saves can be compared; and a save that fails leaves
/// those of the one before it, whose parts have the names that its own would have.
#[test]
fn the_same_state_makes_the_same_files() {
    let folders = ["one", "two"].map(|name| Folder::new(&format!("same-{name}")));
    let contents = |folder: &Folder| -> Vec<(String, Vec<u8>)> {
        let names = folder.names().into_iter();
        names
            .map(|name| (name.clone(), fs::read(folder.0.join(name)).unwrap()))
            .collect()
    };
    for folder in &folders {
        on_trainings((3, 1), adam, |_, training| {
            training.train(0..2);
            training.checkpoint.save(&folder.file()).unwrap();
        });
    }
    let expected = contents(&folders[0]);
    assert_eq!(expected.len(), 3);
    assert!(contents(&folders[1]) == expected);
    let folder = &folders[0];
    // What a rank that was killed has left goes with the next save, whatever that has in it.
    let left_over = folder
        .0
        .join(".state.0123456789abcdef-00002-of-00003.safetensors.1.0.partial");
    fs::write(&left_over, "part").unwrap();
    let others = [
        ".state.x.1.0.partial",
        ".other.0123456789abcdef-00002-of-00003.safetensors.1.0.partial",
    ];
    others
        .iter()
        .for_each(|name| fs::write(folder.0.join(name), "part").unwrap());
    on_trainings((3, 1), adam, |rank, training| {
        training.train(0..2);
        let nowhere = folder.0.join("nowhere").join("state.safetensors");
        let path = if rank == 1 { nowhere } else { folder.file() };
        training.checkpoint.save(&path).unwrap_err();
        if rank == 0 {
            restored(&folder.file());
        }
        training.checkpoint.save(&folder.file()).unwrap();
    });
    others
        .iter()
        .for_each(|name| fs::remove_file(folder.0.join(name)).unwrap());
    assert!(contents(folder) == expected);
}

/// A part that is missing, damaged, or of another save: nobody restores anything.
#[test]
fn parts_that_do_not_belong_are_found() {
    let folder = Folder::new("damage");
    let save = |steps: usize, path: &Path| {
        on_trainings((3, 1), adam, |_, training| {
            training.train(0..steps);
            training.checkpoint.save(path).unwrap();
        });
    };
    let other = folder.0.join("other.safetensors");
    save(1, &other);
    save(2, &folder.file());
    let part = |start: &str, rank_part: &str| {
        let names = folder.names();
        let found = names
            .iter()
            .find(|name| name.starts_with(start) && name.contains(rank_part));
        folder.0.join(found.unwrap())
    };
    let second = part("state.", "-00002-of-00003");
    let third = part("state.", "-00003-of-00003");
    let whole = fs::read(&third).unwrap();
    let damages: [(&str, &dyn Fn()); 4] = [
        ("missing", &|| fs::remove_file(&third).unwrap()),
        ("another save", &|| {
            fs::copy(part("other.", "-00003-of-00003"), &third).unwrap();
        }),
        ("another save", &|| {
            fs::copy(&second, &third).unwrap();
        }),
        ("damaged", &|| {
            let mut bytes = whole.clone();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(&third, bytes).unwrap();
        }),
    ];
    for (text, damage) in damages {
        damage();
        for split in [(1, 2), (2, 1), (3, 1)] {
            on_trainings(split, adam, |_, training| {
                let before = training.known();
                let error = training.checkpoint.restore(&folder.file()).unwrap_err();
                assert_eq!(error.status(), Status::DataLoss, "{error}");
                assert!(error.to_string().contains(text), "{text}: {error}");
                assert!(training.known() == before);
            });
        }
        fs::write(&third, &whole).unwrap();
    }
    restored(&folder.file());
}

/// Ranks of another training are refused together, and begin anew together, beside the parts of the
/// old one.
#[test]
fn ranks_begin_anew_together() {
    let folder = Folder::new("anew");
    let options = ManagerOptions {
        max_to_keep: 1,
        ..ManagerOptions::default()
    };
    let manager = |training: &Training, start_fresh| {
        let checkpoint = Arc::clone(&training.checkpoint);
        Manager::new(
            checkpoint,
            &folder.0,
            ManagerOptions {
                start_fresh,
                ..options
            },
        )
        .unwrap()
    };
    let old = on_trainings((3, 1), adam, |_, training| {
        training.train(0..1);
        manager(training, false).save(5, None, true).unwrap();
        training.known()
    });
    let names = folder.names();
    assert_eq!(names.len(), 3);
    let new = on_trainings((2, 1), adam, |_, training| {
        training.train(0..2);
        let refused = manager(training, false).save(1, None, true).unwrap_err();
        assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
        let anew = manager(training, true);
        assert_eq!(anew.restore_latest().unwrap(), None);
        anew.save(1, None, true).unwrap();
        assert_eq!(anew.steps().unwrap(), [1]);
        training.known()
    });
    let now = folder.names();
    assert_eq!(now.len(), 3, "{now:?}");
    assert!(now.contains(&"before-1".to_owned()), "{now:?}");
    let place = Folder(folder.0.join("before-1"));
    assert_eq!(place.names(), names);
    for (place, known, step) in [(&folder, &new[0], 1), (&place, &old[0], 5)] {
        on_trainings((3, 2), adam, |_, training| {
            let checkpoint = Arc::clone(&training.checkpoint);
            let manager = Manager::new(checkpoint, &place.0, options).unwrap();
            assert_eq!(manager.restore_latest().unwrap(), Some(step));
            assert!(training.known() == *known);
            assert!(manager.save(9, None, true).unwrap());
            assert_eq!(manager.steps().unwrap(), [9]);
            let parts = place
                .names()
                .into_iter()
                .filter(|name| name.contains(".safetensors"));
            assert_eq!(parts.count(), 3, "the parts of old ones are gone");
        });
    }
}

/// One rank finds damage where another one cannot read: nobody goes back to an older checkpoint.
/// Each has a copy of the folder here, so that they find different things.
#[test]
fn ranks_pass_over_a_file_together_or_not_at_all() {
    let folders: Vec<_> = (0..3)
        .map(|rank| Folder::new(&format!("refused-{rank}")))
        .collect();
    let options = ManagerOptions::default();
    on_trainings((3, 1), adam, |_, training| {
        let checkpoint = Arc::clone(&training.checkpoint);
        let manager = Manager::new(checkpoint, &folders[0].0, options).unwrap();
        for step in 1..3 {
            training.train(0..1);
            manager.save(step, None, true).unwrap();
        }
    });
    let names = folders[0].names();
    for (name, folder) in names
        .iter()
        .flat_map(|name| folders[1..].iter().map(move |to| (name, to)))
    {
        fs::copy(folders[0].0.join(name), folder.0.join(name)).unwrap();
    }
    let newest = |ending: &str| names.iter().rfind(|name| name.contains(ending)).unwrap();
    // The elements of its part.
    let damaged = folders[1].0.join(newest("-00002-of-00003"));
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let restore = || {
        on_trainings((3, 1), adam, |rank, training| {
            let checkpoint = Arc::clone(&training.checkpoint);
            let manager = Manager::new(checkpoint, &folders[rank].0, options).unwrap();
            (manager.restore_latest(), training.known())
        })
    };
    for (came, _) in restore() {
        assert_eq!(came.unwrap(), Some(1));
    }
    let refused = folders[2].0.join(newest("-00003-of-00003"));
    fs::remove_file(&refused).unwrap();
    fs::create_dir(&refused).unwrap();
    let before = Training::new(alone(3), adam()).known();
    for (came, known) in restore() {
        came.unwrap_err();
        assert!(known == before);
    }
}
