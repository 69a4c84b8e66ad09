//! Each warning of the library, provoked: in a strict process and for a strict strategy it is a
//! failure of the call, or there is a reason why it is none. The table is held against the sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use umbo_core::checkpoint::{Checkpoint, Manager, ManagerOptions, Number};
use umbo_core::collectives::Assignment;
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::input::{Dataset, DistributeOptions, ShuffleOptions, distribute_dataset};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::observe::log::{self, Level};
use umbo_core::observe::strict;
use umbo_core::optimizer::apply;
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::variables;
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

use crate::scene::{Extras, Scene, Setting, put};

/// A call that makes the library warn: for a strategy that is strict, or is not.
type Provoke = fn(&Arc<Scene>) -> Result<()>;

enum Strictly {
    /// The calls fail, which make the library warn elsewhere: with these words.
    Fails(&'static [(&'static str, Provoke)]),
    /// As above. What it is about belongs to no strategy, so that only a strict process fails.
    FailsInProcess(&'static [(&'static str, Provoke)]),
    /// It is a warning there too.
    Warns(&'static str),
}
use Strictly::{Fails, FailsInProcess, Warns};

/// A place in the sources: its file, words near it, and what it is to those who are strict.
const SITES: &[(&str, &str, Strictly)] = &[
    (
        "crates/umbo-diagnose/src/environment.rs",
        "UMBO_TRACE: no trace",
        Warns("tells of the environment, not of the program"),
    ),
    (
        "crates/umbo-base/src/observe/log.rs",
        "Some(Err(warning))",
        Warns("as above"),
    ),
    (
        "crates/umbo-base/src/observe/strict.rs",
        "fn warn_or_fail",
        Warns("is how those are said that are failures when strict"),
    ),
    (
        "crates/umbo-base/src/observe/switch.rs",
        "and is taken as 0",
        Warns("tells of the environment, not of the program"),
    ),
    (
        "crates/umbo-check/src/first_batch.rs",
        "strategy.is_strict()",
        Warns("fails the step if strict, as ffi_gradients/first_batch.rs shows"),
    ),
    (
        "crates/umbo-strategy/src/context/first_views.rs",
        "was written through a view of it",
        Warns("fails the step if strict, as strict/in_place.rs shows"),
    ),
    (
        "crates/umbo-checkpoint/src/saving.rs",
        "warning",
        Fails(&[("with a NaN in it", saved_nan)]),
    ),
    (
        "crates/umbo-check/src/first_batch.rs",
        "not checked",
        Warns("says what UMBO_CHECK_STEPS cannot do"),
    ),
    (
        "crates/umbo-device/src/page_lock.rs",
        "at each step stay",
        Warns("tells of the memory that the system lets a process lock, and of speed alone"),
    ),
    (
        "crates/umbo-optim/src/state/saved.rs",
        "the training that was restored had",
        Warns("tells of options that may be meant, when the training is restored"),
    ),
    (
        "crates/umbo-core/src/training/trainer/choice.rs",
        "are faster with one replica",
        Warns("tells of the machine: what the first steps took"),
    ),
    (
        "crates/umbo-core/src/training/trainer/choice.rs",
        "could not be made",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-diagnose/src/trace/mod.rs",
        "ends here",
        Warns("tells of the disk"),
    ),
    (
        "crates/umbo-executor/src/workers/threads.rs",
        "fewer threads",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-executor/src/computing.rs",
        "on the calling thread",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-strategy/src/setup/central_storage.rs",
        "take turns",
        Warns("tells of the machine: how many processors there are"),
    ),
    (
        "crates/umbo-strategy/src/step/threads.rs",
        "is not bound",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-strategy/src/step/lock.rs",
        "self.wait_warning(&state)",
        Warns("tells of time, which a machine may need"),
    ),
    (
        "crates/umbo-strategy/src/variables/writing.rs",
        "component",
        Fails(&[("uses replica 0's component alone", components)]),
    ),
    (
        "crates/umbo-optim/src/apply/non_finite.rs",
        "applied as it is",
        Fails(&[("is not finite", not_finite)]),
    ),
    (
        "crates/umbo-optim/src/gradients/writing.rs",
        "fn check_written",
        Fails(&[("viewed, attached or added none", unwritten)]),
    ),
    (
        "crates/umbo-input/src/distribution/batched.rs",
        "fn check_batches",
        Fails(&[
            ("nothing has batched", unbatched),
            ("was batched twice", batched_twice),
        ]),
    ),
    (
        "crates/umbo-input/src/transforms/zip.rs",
        "elements, dataset",
        FailsInProcess(&[("different lengths", zipped)]),
    ),
    (
        "crates/umbo-input/src/transforms/suspects.rs",
        "fn part",
        FailsInProcess(&[
            ("take and skip", taken_and_skipped),
            ("shards of a", sharded),
        ]),
    ),
    (
        "crates/umbo-input/src/transforms/suspects.rs",
        "fn check_again",
        FailsInProcess(&[
            ("nothing is cached", cut_cache),
            ("a skip leaves out", skipped_again),
        ]),
    ),
    (
        "crates/umbo-input/src/transforms/suspects.rs",
        "fn check_shuffled_batches",
        Fails(&[("batches are shuffled", shuffled_batches)]),
    ),
    (
        "crates/umbo-input/src/transforms/suspects.rs",
        "fn check_remainder",
        FailsInProcess(&[("nothing is left", without_batches)]),
    ),
    (
        "crates/umbo-input/src/passes/iterator.rs",
        "fn tell_end",
        Fails(&[("once more without a reset", end_twice)]),
    ),
    (
        "crates/umbo-checkpoint/src/shelf.rs",
        "later saves try again",
        Warns("tells of the disk"),
    ),
    (
        "crates/umbo-checkpoint/src/atomic.rs",
        "might bring the old file back",
        Warns("tells of the disk"),
    ),
    (
        "crates/umbo-kernels/src/instruction_set.rs",
        "which {problem}",
        Warns("tells of the environment, not of the program"),
    ),
    (
        "crates/umbo-diagnose/src/first_runs.rs",
        "strategy {strategy}",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-diagnose/src/first_runs.rs",
        "libraries::old_kernels",
        Warns("tells of the machine"),
    ),
    (
        "crates/umbo-checkpoint/src/shelf.rs",
        "skipped",
        Fails(&[("step-000000000002", damaged)]),
    ),
    (
        "src/machinery/handle.rs",
        "fn say_many",
        Warns("may be meant: a program can need so many"),
    ),
    (
        "crates/umbo-strategy/src/context/replica_context.rs",
        "fn warn_of_swap",
        Fails(&[("as if they were swapped", swapped)]),
    ),
    (
        "crates/umbo-metrics/src/lib.rs",
        "fn warn_of_score",
        Fails(&[("is not in [0, 1]", outside_of_range)]),
    ),
];

fn tensor(shape: &[usize], number: f32) -> Value {
    let shape = Shape::new(shape).unwrap();
    let numbers = vec![number; shape.elements()];
    Value::Tensor(Tensor::from_slice(&numbers, shape, DeviceId::HOST).unwrap())
}

fn rows(shape: &[usize]) -> Dataset {
    Dataset::from_tensor_slices(&tensor(shape, 1.0)).unwrap()
}

fn components(scene: &Arc<Scene>) -> Result<()> {
    let parts = vec![tensor(&[3, 5], 1.0), tensor(&[3, 5], 2.0)];
    variables::assign(
        &scene.variables[0],
        Assignment::Assign,
        &Value::per_replica_of(parts)?,
    )
}

fn not_finite(scene: &Arc<Scene>) -> Result<()> {
    let write = |context: &umbo_core::strategy::ReplicaContext, scene: &Scene| {
        let mode = scene.setting.mode;
        let buffer = scene.gradients.view_in(context, 0, mode)?;
        put(buffer.address(), DType::Float32, 0, f32::NAN);
        Ok(())
    };
    scene.train(Extras {
        before: Some(Arc::new(write)),
        ..Extras::default()
    })?;
    apply(&scene.optimizer, &scene.gradients).map(drop)
}

fn unwritten(scene: &Arc<Scene>) -> Result<()> {
    let of_run = Arc::clone(scene);
    let step = move |context: &umbo_core::strategy::ReplicaContext| {
        of_run.gradients.submit_in(context, Some(1.0))?;
        Ok(None)
    };
    scene.run(Arc::new(step))?;
    apply(&scene.optimizer, &scene.gradients).map(drop)
}

fn swapped(scene: &Arc<Scene>) -> Result<()> {
    let step = |context: &umbo_core::strategy::ReplicaContext| {
        let metric = Metric {
            sum: 3.0,
            weight: 0.25,
        };
        context.add_metric("loss", metric)?;
        Ok(None)
    };
    let rows = Value::per_replica_of(vec![tensor(&[3, 5], 1.0), tensor(&[3, 5], 2.0)])?;
    scene.strategy.run(&step, Some(rows)).map(drop)
}

fn outside_of_range(scene: &Arc<Scene>) -> Result<()> {
    let metrics = Metrics::new(&scene.strategy);
    metrics.define("auc", MetricKind::auc(10, 0.0, 1.0)?)?;
    let step = move |context: &umbo_core::strategy::ReplicaContext| {
        let shape = Shape::new(&[2])?;
        let scores = Tensor::from_slice(&[0.5f32, 1.5], shape, DeviceId::HOST)?;
        let labels = Tensor::from_slice(&[0i64, 1], shape, DeviceId::HOST)?;
        metrics.add_labels_in(context, "auc", &scores.reading()?, &labels.reading()?)?;
        Ok(None)
    };
    scene.run(Arc::new(step))
}

fn distribute(scene: &Arc<Scene>, dataset: &Dataset) -> Result<()> {
    distribute_dataset(&scene.strategy, dataset, &DistributeOptions::default()).map(drop)
}

fn unbatched(scene: &Arc<Scene>) -> Result<()> {
    distribute(scene, &rows(&[6, 4]))
}

fn batched_twice(scene: &Arc<Scene>) -> Result<()> {
    distribute(scene, &rows(&[6, 4]).batch(2, false)?.batch(2, false)?)
}

fn zipped(_: &Arc<Scene>) -> Result<()> {
    Dataset::zip(&[rows(&[3]), rows(&[4])], None).map(drop)
}

fn shuffled(dataset: &Dataset) -> Result<Dataset> {
    dataset.shuffle(&ShuffleOptions::default())
}

fn taken_and_skipped(_: &Arc<Scene>) -> Result<()> {
    let all = shuffled(&rows(&[6]))?;
    all.take(4)?;
    all.skip(4).map(drop)
}

fn sharded(_: &Arc<Scene>) -> Result<()> {
    let all = shuffled(&rows(&[6]))?;
    all.shard(2, 0)?;
    all.shard(2, 1).map(drop)
}

/// Two passes over the dataset, each to its end.
fn passes(dataset: &Dataset) -> Result<()> {
    let iterator = dataset.iterator()?;
    for _ in 0..2 {
        while iterator.next()?.is_some() {}
        iterator.reset()?;
    }
    Ok(())
}

fn cut_cache(_: &Arc<Scene>) -> Result<()> {
    passes(&Dataset::range(0, 6, 1)?.cache()?.take(4)?)
}

fn skipped_again(_: &Arc<Scene>) -> Result<()> {
    passes(&shuffled(&rows(&[6]))?.skip(4)?)
}

fn shuffled_batches(scene: &Arc<Scene>) -> Result<()> {
    distribute(scene, &shuffled(&rows(&[6, 4]).batch(2, false)?)?)
}

fn without_batches(_: &Arc<Scene>) -> Result<()> {
    rows(&[6]).batch(64, true).map(drop)
}

fn end_twice(scene: &Arc<Scene>) -> Result<()> {
    let batches = rows(&[6, 4]).batch(2, false)?;
    let distributed = distribute_dataset(&scene.strategy, &batches, &DistributeOptions::default())?;
    let iterator = distributed.iterator()?;
    while iterator.next()?.is_some() {}
    iterator.next().map(drop)
}

/// Of batches that are repeated nobody knows how many there will be.
fn folder() -> PathBuf {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    std::env::temp_dir().join(format!("umbo-each-warning-{}-{number}", std::process::id()))
}

fn damaged(scene: &Arc<Scene>) -> Result<()> {
    let folder = folder();
    let checkpoint = Checkpoint::new(&scene.strategy);
    let manager = Manager::new(Arc::clone(&checkpoint), &folder, ManagerOptions::default())?;
    for step in [1, 2] {
        checkpoint.set_number("step", Number::Integer(step))?;
        manager.save(step as u64, None, true)?;
    }
    manager.wait()?;
    let mut bytes = std::fs::read(manager.path(2)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(manager.path(2), bytes).unwrap();
    let outcome = manager.restore_latest().map(drop);
    drop(manager);
    std::fs::remove_dir_all(folder).unwrap();
    outcome
}

fn saved_nan(scene: &Arc<Scene>) -> Result<()> {
    let weight = &scene.variables[0];
    variables::assign(weight, Assignment::Assign, &tensor(&[3, 5], f32::NAN))?;
    let checkpoint = Checkpoint::new(&scene.strategy);
    checkpoint.add("weight", Arc::new(weight.clone()))?;
    let path = folder();
    let outcome = checkpoint.save(&path);
    let _ = std::fs::remove_file(path);
    outcome
}

/// Provokes all warnings of calls. `is_on`: the process is strict.
fn provoke_all(is_on: bool) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let sink = move |_: Level, text: &str| kept.lock().unwrap().push(text.to_owned());
    log::set_sink(Level::Warning, Box::new(sink));
    for (file, _, strictly) in SITES {
        let (provokes, in_process) = match strictly {
            Fails(provokes) => (provokes, false),
            FailsInProcess(provokes) => (provokes, true),
            Warns(_) => continue,
        };
        for (words, provoke) in *provokes {
            for strict in [false, true] {
                let scene = Scene::new(Setting {
                    strict,
                    ..Setting::PLAIN
                });
                lines.lock().unwrap().clear();
                let outcome = provoke(&scene);
                let case =
                    format!("{file}, {words}: {outcome:?}, strict {strict}, process {is_on}");
                let said = lines
                    .lock()
                    .unwrap()
                    .iter()
                    .filter(|line| line.contains(words))
                    .count();
                match is_on || strict && !in_process {
                    true => {
                        let text = outcome.expect_err(&case).to_string();
                        assert!(text.contains(words), "{case}");
                        assert_eq!(said, 0, "{case}");
                    }
                    false => {
                        outcome.expect(&case);
                        assert_eq!(said, 1, "{case}: {:?}", lines.lock().unwrap());
                    }
                }
            }
        }
    }
    crate::messages::are_output_of_the_test();
}

#[test]
#[ignore = "is run by the test below, in processes of its own"]
fn provoked() {
    provoke_all(std::env::var(strict::VARIABLE).is_ok_and(|text| text == "1"));
    println!("all were provoked");
}

#[test]
fn each_warning_is_a_failure_to_those_who_are_strict() {
    for strict in ["0", "1"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "--ignored",
            "--nocapture",
            "each_warning::provoked",
        ]);
        let output = command.env(strict::VARIABLE, strict).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let is_good = output.status.success() && said.contains("all were provoked");
        assert!(
            is_good,
            "{strict}: {said}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The places of warnings in a file: what stands around each, without tests and comments.
fn sites(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let is_one = |&number: &usize| {
        let line: &str = lines[number];
        // The name of the function is on this line, or up to two lines above among its arguments.
        let call = &lines[number.saturating_sub(2)..=number];
        let logs = line.contains("Level::Warning")
            && call.iter().any(|line| {
                ["log(", "log_anyway(", "keep(", "say("]
                    .iter()
                    .any(|function| line.contains(function))
            });
        logs || line.contains("strict::warn_or_fail(")
    };
    let around = |number: usize| {
        let end = (number + 14).min(lines.len());
        lines[number.saturating_sub(40)..end].join("\n")
    };
    (0..lines.len()).filter(is_one).map(around).collect()
}

fn scan(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scan(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(sites(&text).into_iter().map(|site| (name.clone(), site)));
        }
    }
}

#[test]
fn each_warning_of_the_sources_is_in_the_table() {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in ["src", "crates"] {
        scan(&root, &root.join(folder), &mut found);
    }
    let mut files: Vec<&str> = found.iter().map(|(file, _)| &**file).collect();
    let mut known: Vec<&str> = SITES.iter().map(|(file, ..)| *file).collect();
    files.sort();
    known.sort();
    assert_eq!(
        files, known,
        "a warning without a row in SITES, or a row without a warning"
    );
    for (file, words, strictly) in SITES {
        assert!(
            !matches!(strictly, Warns("")),
            "{file}: why is it no failure?"
        );
        let is_there = |(source, site): &&(String, String)| source == file && site.contains(words);
        assert!(
            found.iter().any(|site| is_there(&site)),
            "{file}: no warning near '{words}'"
        );
    }
}
