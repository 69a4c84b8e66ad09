//! What the log is told. The sink is the process's, so each test takes the lock, and is in a program of its own.

use std::sync::{Arc, Mutex, MutexGuard};

use umbo::checkpoint::{Checkpoint, Manager, ManagerOptions};
use umbo::collectives::Assignment;
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::executor::affinity;
use umbo::observe::log::{self, Level};
use umbo::optimizer::sgd::Sgd;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial, NewVariable, assign};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::Tensor;
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};

struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    _alone: MutexGuard<'static, ()>,
}

impl Recorder {
    fn new(level: Level) -> Recorder {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        log::set_sink(
            level,
            Box::new(move |level, text| {
                kept.lock().unwrap().push(format!("{}: {text}", level.name()));
            }),
        );
        Recorder { lines, _alone: alone }
    }

    /// The lines so far, which are forgotten.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        log::clear_sink();
    }
}

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options { cpu_replicas: replicas, ..Options::default() }).unwrap()
}

fn variable(strategy: &Strategy, name: &str) -> Variable {
    let new = NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::Sum,
    };
    let initial = Tensor::scalar(1.0f32).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

#[track_caller]
fn has(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "'{part}' is not in: {line}");
    }
}

#[test]
fn at_info_it_says_what_a_strategy_was_set_up_with() {
    let recorder = Recorder::new(Level::Info);
    let strategy = strategy(2);
    let lines = recorder.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    has(
        &lines[0],
        &[
            "INFO: ",
            "CPU:0, CPU:1",
            "variables on",
            "processors",
            "workers",
            "instruction set",
            "bytes of memory available",
        ],
    );
    // What it says replica 1 is bound to is what its thread may run on.
    let processors = Mutex::new(String::new());
    let look = |context: &ReplicaContext| {
        if context.replica() == 1 {
            let own = affinity::current_thread_processors()?;
            *processors.lock().unwrap() = own.to_string();
        }
        Ok(None)
    };
    strategy.run(&look, None).unwrap();
    let bound = format!("1 to {})", processors.into_inner().unwrap());
    has(&lines[0], &["replica threads bound to processors (0 to ", &bound]);
    let options = Options { cpu_replicas: 2, bind_threads: false, ..Options::default() };
    let _free = Strategy::new(&options).unwrap();
    has(&recorder.take()[0], &["replica threads not bound"]);
}

#[test]
fn more_replicas_than_processors_are_one_warning() {
    let recorder = Recorder::new(Level::Warning);
    let most = affinity::available();
    let fitting = strategy(most);
    assert_eq!(recorder.take(), [""; 0]);
    drop(fitting);
    let strategy = strategy(most + 1);
    for _ in 0..2 {
        strategy.run(&|_| Ok(None), None).unwrap();
    }
    let lines = recorder.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    has(&lines[0], &["WARNING: ", &format!("{} replicas on {most} processors", most + 1)]);
}

#[test]
fn at_debug_it_says_how_each_step_ended() {
    let recorder = Recorder::new(Level::Debug);
    let strategy = strategy(2);
    recorder.take();
    strategy.run(&|_| Ok(None), None).unwrap();
    let failing = |context: &ReplicaContext| match context.replica() {
        1 => Err(Error::DataLoss("half of it".into())),
        _ => Ok(None),
    };
    strategy.run(&failing, None).unwrap_err();
    let lines = recorder.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    has(&lines[0], &["DEBUG: ", "step 1: committed"]);
    has(&lines[1], &["DEBUG: ", "step 2: rolled back", "DATA_LOSS", "replica 1", "half of it"]);
}

#[test]
fn components_that_an_assignment_leaves_out_are_one_warning() {
    let recorder = Recorder::new(Level::Warning);
    let strategy = strategy(2);
    let (one, other) = (variable(&strategy, "one"), variable(&strategy, "other"));
    recorder.take();
    let parts = [1.0f32, 2.0].map(|number| Tensor::scalar(number).unwrap());
    let value = Value::per_replica(parts.into()).unwrap();
    for variable in [&one, &one, &other] {
        assign(variable, Assignment::Add, &value).unwrap();
    }
    let lines = recorder.take();
    assert_eq!(lines.len(), 2, "{lines:?}");
    has(&lines[0], &["WARNING: ", "assign_add", "'one'", "replica 0's", "inside of a run"]);
    has(&lines[1], &["'other'"]);
    // A value of one component leaves nothing out.
    let single = Value::per_replica(vec![Tensor::scalar(1.0f32).unwrap()]).unwrap();
    assign(&variable(&strategy, "third"), Assignment::Assign, &single).unwrap();
    assert_eq!(recorder.take(), [""; 0]);
    // Rows do not say either, and nothing has ever used them so.
    let refused = variables_of_rows(&strategy);
    assert_eq!(refused.unwrap_err().status(), Status::InvalidArgument);
}

fn variables_of_rows(strategy: &Strategy) -> Result<()> {
    use umbo::kernels::rows::scatter::ScatterOp;
    use umbo::tensor::Shape;
    let shape = Shape::new(&[2])?;
    let new = NewVariable {
        name: "rows".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::Sum,
    };
    let initial = Tensor::from_slice(&[0.0f32, 0.0], shape, DeviceId::HOST)?;
    let rows = variables::create(Some(strategy), new, Initial::Value(&initial))?;
    let part = || {
        let one = Shape::new(&[1])?;
        let values = Tensor::from_slice(&[1.0f32], one, DeviceId::HOST)?;
        let indices = Tensor::from_slice(&[1i64], one, DeviceId::HOST)?;
        Value::indexed_slices(values, indices, shape)
    };
    let value = Value::per_replica_of(vec![part()?, part()?])?;
    umbo::strategy::scatter::scatter(&rows, ScatterOp::Add, &value)
}

/// Both where an apply acts at once and where it acts at the commit point, whose locks the sink must
/// not meet: it reads the variable.
#[test]
fn a_gradient_that_is_applied_and_not_finite_is_one_warning() {
    for inside in [false, true] {
        let recorder = Recorder::new(Level::Warning);
        let strategy = strategy(2);
        let weights = variable(&strategy, "weights");
        recorder.take();
        let seen = Arc::clone(&recorder.lines);
        let read = weights.clone();
        log::set_sink(
            Level::Warning,
            Box::new(move |_, text| {
                variables::read(&read).unwrap();
                seen.lock().unwrap().push(text.to_owned());
            }),
        );
        let gradients = Gradients::new(
            strategy.id(),
            strategy.compute_devices(),
            vec![weights.clone()],
            LossReduction::Sum,
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        for _ in 0..3 {
            let step = |context: &ReplicaContext| {
                let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
                // SAFETY: the buffer is this replica's, a scalar of float32, until it submits.
                unsafe { buffer.address().cast::<f32>().write(f32::NAN) };
                gradients.submit_in(context, Some(1.0))?;
                if inside {
                    apply(&optimizer, &gradients)?;
                }
                Ok(None)
            };
            strategy.run(&step, None).unwrap();
            if !inside {
                apply(&optimizer, &gradients).unwrap();
            }
        }
        let lines = recorder.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        has(&lines[0], &["weights", "not finite", "skipped", "step 1 "]);
        assert!(optimizer.last_report().unwrap().non_finite.is_some());
    }
}

/// A damaged checkpoint that is passed over is named, whatever passes over it.
#[test]
fn a_damaged_checkpoint_is_named() {
    let recorder = Recorder::new(Level::Warning);
    let folder = std::env::temp_dir().join(format!("umbo-log-{}", std::process::id()));
    let checkpoint = Checkpoint::new(&strategy(1));
    let options = ManagerOptions { asynchronous: false, ..ManagerOptions::default() };
    let manager = Manager::new(checkpoint, &folder, options).unwrap();
    for step in [1, 2] {
        manager.save(step, Some(0.5), true).unwrap();
    }
    let damaged = manager.path(2);
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    type Restore = fn(&Manager) -> Result<Option<u64>>;
    for restore in [Manager::restore_latest as Restore, Manager::restore_best, Manager::best] {
        assert_eq!(restore(&manager).unwrap(), Some(1));
        let lines = recorder.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        has(&lines[0], &["WARNING", "passed over", damaged.to_str().unwrap(), "damaged"]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
