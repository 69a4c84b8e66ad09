//! What the log says.

use std::sync::{Arc, Mutex};

use umbo_core::error::Error;
use umbo_core::executor::affinity;
use umbo_core::observe::log::{self, Level};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::variable::{Aggregation, Variable};

struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn new(level: Level) -> Recorder {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        log::set_sink(
            level,
            Box::new(move |level, text| {
                kept.lock()
                    .unwrap()
                    .push(format!("{}: {text}", level.name()));
            }),
        );
        Recorder { lines }
    }

    /// The lines so far, which are forgotten.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
}

fn variable(strategy: &Strategy, name: &str) -> Variable {
    let new = crate::fresh::new_variable(name, Aggregation::Sum);
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
fn names_forge_no_lines_and_no_terminal_obeys_them() {
    let true = crate::is_alone(names_forge_no_lines_and_no_terminal_obeys_them) else {
        return;
    };
    let recorder = Recorder::new(Level::Warning);
    let strategy = strategy(1);
    let name = "w\u{1b}[31m\numbo: ERROR: \u{9b}";
    let variable = variable(&strategy, name);
    assert_eq!(variable.name(), name);
    let shown = "w\\u{1b}[31m\\numbo: ERROR: \\u{9b}";
    // What is not known as a name keeps the ends of its lines, which messages have themselves.
    log::log(Level::Warning, || {
        format!("{}, in a file '{name}'", variable.name())
    });
    let of_file = shown.replacen("\\n", "\n", 1);
    assert_eq!(
        recorder.take(),
        [format!("WARNING: {shown}, in a file '{of_file}'")]
    );
}

#[test]
fn at_info_it_says_what_a_strategy_was_set_up_with() {
    let true = crate::is_alone(at_info_it_says_what_a_strategy_was_set_up_with) else {
        return;
    };
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
            let allowed = affinity::current_thread_processors()?;
            *processors.lock().unwrap() = allowed.to_string();
        }
        Ok(None)
    };
    strategy.run(&look, None).unwrap();
    let bound = format!("1 to {})", processors.into_inner().unwrap());
    has(
        &lines[0],
        &["replica threads bound to processors (0 to ", &bound],
    );
    let options = Options {
        cpu_replicas: 2,
        bind_threads: false,
        ..Options::default()
    };
    let _free = Strategy::new(&options).unwrap();
    has(&recorder.take()[0], &["replica threads not bound"]);
}

#[test]
fn more_replicas_than_processors_are_one_warning() {
    let true = crate::is_alone(more_replicas_than_processors_are_one_warning) else {
        return;
    };
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
    has(
        &lines[0],
        &[
            "WARNING: ",
            &format!("{} replicas on {most} processors", most + 1),
        ],
    );
}

#[test]
fn at_debug_it_says_how_each_step_ended() {
    let true = crate::is_alone(at_debug_it_says_how_each_step_ended) else {
        return;
    };
    let recorder = Recorder::new(Level::Debug);
    let strategy = strategy(2);
    recorder.take();
    strategy.run(&|_| Ok(None), None).unwrap();
    let failing = |context: &ReplicaContext| match context.replica() {
        1 => Err(Error::DataLoss("half of it".into())),
        _ => Ok(None),
    };
    strategy.run(&failing, None).unwrap_err();
    let mut lines = recorder.take();
    // A busy machine has something to say about processors.
    lines.retain(|line| line.contains("step "));
    assert_eq!(lines.len(), 2, "{lines:?}");
    has(&lines[0], &["DEBUG: ", "step 1: committed"]);
    has(
        &lines[1],
        &[
            "DEBUG: ",
            "step 2: rolled back",
            "DATA_LOSS",
            "replica 1",
            "half of it",
        ],
    );
}

/// Both where an apply acts at once and where it acts at the commit point, whose locks the sink
/// must not meet: it reads the variable.
#[test]
fn a_gradient_that_is_applied_and_not_finite_is_one_warning() {
    let true = crate::is_alone(a_gradient_that_is_applied_and_not_finite_is_one_warning) else {
        return;
    };
    for inside in [false, true] {
        let strategy = strategy(2);
        let weights = variable(&strategy, "weights");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let read = weights.clone();
        let sink = move |_: Level, text: &str| {
            variables::read(&read).unwrap();
            seen.lock().unwrap().push(text.to_owned());
        };
        log::set_sink(Level::Warning, Box::new(sink));
        let id = strategy.id();
        let devices = strategy.compute_devices();
        let gradients = Gradients::new(
            id,
            devices,
            vec![weights],
            LossReduction::Sum,
            Default::default(),
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
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        has(&lines[0], &["weights", "not finite", "skipped", "step 1 "]);
        assert!(optimizer.last_report().unwrap().non_finite.is_some());
    }
}
