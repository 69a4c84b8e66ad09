//! What the log is warned of elsewhere is an error to strict strategies and in strict processes.

use std::process::Command;
use std::sync::{Arc, Mutex};

use umbo::checkpoint::{Checkpoint, Manager, ManagerOptions, Number};
use umbo::collectives::Assignment;
use umbo::device::DeviceId;
use umbo::error::Status;
use umbo::input::Dataset;
use umbo::observe::log::{self, Level};
use umbo::observe::strict;
use umbo::optimizer::{NonFinite, Settings, apply};
use umbo::strategy::variables;
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::{Shape, Tensor};
use umbo::values::Value;

use crate::found;
use crate::scene::{Extras, Scene, Setting, TABLE, put};

/// The last replica's gradient has a NaN.
fn not_finite(variable: usize) -> Extras {
    let before = move |context: &ReplicaContext, scene: &Scene| {
        if context.replica() + 1 == context.strategy().num_replicas() && variable == TABLE {
            let added = scene.gradients.add_rows_in(context, TABLE, 1)?;
            put(added.indices.address(), umbo::tensor::DType::Int64, 0, 0.0);
            (0..3).for_each(|at| {
                put(added.values.address(), scene.setting.dtype(), at, f32::INFINITY)
            });
        } else if context.replica() + 1 == context.strategy().num_replicas() {
            let (replica, step) = (context.replica(), context.step_id());
            let buffer = scene.gradients.view(replica, step, variable, scene.setting.mode)?;
            put(buffer.address(), scene.setting.dtype(), 0, f32::NAN);
        }
        Ok(())
    };
    Extras { before: Some(Arc::new(before)), ..Extras::default() }
}

#[test]
fn gradients_that_are_not_finite_fail_the_apply() {
    for setting in crate::settings::all().into_iter().step_by(3) {
        if setting.weight(setting.replicas - 1) == 0.0 {
            continue;
        }
        for variable in [0, TABLE] {
            let scene = Scene::new(setting);
            let before = scene.bits();
            scene.train(not_finite(variable)).unwrap();
            let error = apply(&scene.optimizer, &scene.gradients).unwrap_err();
            assert_eq!(error.status(), Status::InvalidArgument, "{error}");
            assert!(error.to_string().contains("not finite"), "{error}");
            assert_eq!(scene.bits(), before, "{setting:?}");
            scene.train_well();
            // Skipping is what the program has asked for.
            let skip = Settings { non_finite: Some(NonFinite::Skip), ..Settings::default() };
            let scene = Scene::new(Setting { accumulation_steps: 1, ..setting });
            scene.optimizer.configure(skip).unwrap();
            scene.train(not_finite(variable)).unwrap();
            apply(&scene.optimizer, &scene.gradients).unwrap();
            assert!(scene.optimizer.last_report().unwrap().skipped);
        }
    }
}

#[test]
fn a_per_replica_value_of_which_one_component_counts_is_refused() {
    for strict in [true, false] {
        let scene = Scene::new(Setting { strict, ..Setting::PLAIN });
        let results = scene.strategy.run(
            &|context| {
                let shape = Shape::new(&[3, 5])?;
                let own = [context.replica() as f32 + 1.0; 15];
                Tensor::from_slice(&own, shape, DeviceId::HOST).map(|own| Some(Value::Tensor(own)))
            },
            None,
        );
        let results = results.unwrap().unwrap();
        let assigned = || variables::assign(&scene.variables[0], Assignment::Assign, &results);
        for _ in 0..2 {
            match (strict, assigned()) {
                (true, Err(error)) => {
                    assert_eq!(error.status(), Status::InvalidArgument);
                    assert!(
                        error.to_string().contains("strict mode: assign of a per-replica value")
                    );
                }
                (false, Ok(())) => {}
                (_, outcome) => panic!("{strict}: {outcome:?}"),
            }
        }
        let value = variables::read(&scene.variables[0]).unwrap().to_vec::<f32>().unwrap()[0];
        assert_eq!(value, if strict { 0.0 } else { 1.0 });
    }
}

fn numbers(count: usize) -> Dataset {
    let numbers = vec![1.0f32; count];
    let tensor = Tensor::from_slice(&numbers, Shape::new(&[count]).unwrap(), DeviceId::HOST);
    Dataset::from_tensor_slices(&Value::Tensor(tensor.unwrap())).unwrap()
}

/// A manager passes over its newest file, which is damaged, or does not.
fn of_damaged_files(is_on: bool) {
    let folder = std::env::temp_dir().join(format!("umbo-strict-{}", std::process::id()));
    let checkpoint = Checkpoint::new(&Strategy::default_strategy());
    let manager =
        Manager::new(Arc::clone(&checkpoint), &folder, ManagerOptions::default()).unwrap();
    for step in [1, 2] {
        checkpoint.set_number("step", Number::Integer(step)).unwrap();
        manager.save(step as u64, None, true).unwrap();
    }
    manager.wait().unwrap();
    let mut bytes = std::fs::read(manager.path(2)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(manager.path(2), bytes).unwrap();
    match manager.restore_latest() {
        Err(error) if is_on => assert_eq!(error.status(), Status::DataLoss),
        Ok(Some(1)) if !is_on => {}
        other => panic!("{is_on}: {other:?}"),
    }
    drop(manager);
    std::fs::remove_dir_all(folder).unwrap();
}

/// In a process of its own, whose environment is what is tested: `wanted` is what UMBO_STRICT is there.
#[test]
#[ignore = "is run by the test below, with other environments"]
fn of_the_environment() {
    let text = std::env::var(strict::VARIABLE).ok();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let sink = move |_: Level, text: &str| kept.lock().unwrap().push(text.to_owned());
    log::set_sink(Level::Warning, Box::new(sink));
    let is_on = text.as_deref() == Some("1");
    assert_eq!(strict::is_on(), is_on);
    for own in [false, true] {
        let options = Options { cpu_replicas: 1, strict: own, ..Options::default() };
        assert_eq!(Strategy::new(&options).unwrap().is_strict(), is_on || own);
    }
    assert_eq!(Strategy::default_strategy().is_strict(), is_on);
    let complaints =
        |word: &str| lines.lock().unwrap().iter().filter(|line| line.contains(word)).count();
    let known = matches!(text.as_deref(), None | Some("" | "0" | "1"));
    assert_eq!(complaints("UMBO_STRICT is '"), if known { 0 } else { 2 });
    // What belongs to no strategy.
    let zipped = Dataset::zip(&[numbers(3), numbers(4)], None);
    match zipped {
        Err(error) if is_on => {
            assert_eq!(error.status(), Status::InvalidArgument);
            assert!(error.to_string().contains("strict mode: datasets of different lengths"));
        }
        Ok(_) if !is_on => assert_eq!(complaints("different lengths"), 1),
        _ => panic!("{is_on}"),
    }
    // Of batches that are repeated nobody knows how many there will be.
    let batches = |count| {
        let batches = numbers(count).batch(3, false).unwrap().repeat(2).unwrap();
        let mapped = batches.map(|element| Ok(element.clone()), Default::default()).unwrap();
        mapped.rebatch(&[2], false).unwrap()
    };
    assert_eq!(batches(4).cardinality(), umbo::input::Cardinality::Unknown);
    let zipped = Dataset::zip(&[batches(8), batches(4)], None).unwrap().iterator().unwrap();
    let mut elements = 0;
    let end = loop {
        match zipped.next() {
            Ok(Some(_)) => elements += 1,
            end => break end,
        }
    };
    match end {
        Err(error) if is_on => {
            assert_eq!(error.status(), Status::FailedPrecondition);
            assert!(error.to_string().contains("strict mode: datasets of different lengths"));
        }
        Ok(None) if !is_on => assert_eq!(complaints("has ended"), 1),
        _ => panic!("{is_on}"),
    }
    assert!(elements > 2 && zipped.next().unwrap().is_none());
    of_damaged_files(is_on);
    if is_on {
        let scene = Scene::new(Setting { strict: false, ..Setting::PLAIN });
        let extras = crate::mistakes::beside_scratch_memory(1);
        found(scene.train(extras), &["replica 1", "scratch memory"]);
    }
    println!("all was said");
}

/// In a process of its own, whose log the environment turns on.
#[test]
#[ignore = "is run by the test below"]
fn of_one_strategy() {
    drop(Strategy::new(&Options { cpu_replicas: 1, ..Options::default() }).unwrap());
}

/// The first strategy complains, too: the level of the log is known by then.
#[test]
fn what_the_environment_says_wrong_is_printed_once_for_each_strategy() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "warnings::of_one_strategy"]);
    command.env("UMBO_LOG", "warning").env(strict::VARIABLE, "yes");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("UMBO_STRICT is 'yes'").count(), 1, "{said}");
}

#[test]
fn the_environment_makes_processes_strict() {
    for text in [None, Some(""), Some("0"), Some("1"), Some("yes"), Some("2")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", "warnings::of_the_environment"]);
        match text {
            Some(text) => command.env(strict::VARIABLE, text),
            None => command.env_remove(strict::VARIABLE),
        };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_good = output.status.success() && said.contains("all was said");
        assert!(is_good, "{text:?}: {said}\n{complaint}");
    }
}
