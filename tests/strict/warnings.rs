//! What the log is warned of elsewhere is an error to strict strategies and in strict processes.

use std::process::Command;
use std::sync::{Arc, Mutex};

use umbo_core::error::Status;
use umbo_core::observe::log::{self, Level};
use umbo_core::observe::strict;
use umbo_core::optimizer::{NonFinite, Settings, apply};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};

use crate::found;
use crate::scene::{Extras, Scene, Setting, TABLE, put};

/// The last replica's gradient has a NaN.
fn not_finite(variable: usize) -> Extras {
    let before = move |context: &ReplicaContext, scene: &Scene| {
        if context.replica() + 1 == context.strategy().num_replicas() && variable == TABLE {
            let added = scene.gradients.add_rows_in(context, TABLE, 1)?;
            put(
                added.indices.address(),
                umbo_core::tensor::DType::Int64,
                0,
                0.0,
            );
            (0..3).for_each(|at| {
                put(
                    added.values.address(),
                    scene.setting.dtype(),
                    at,
                    f32::INFINITY,
                )
            });
        } else if context.replica() + 1 == context.strategy().num_replicas() {
            let replica = context.replica();
            let step = context.step_id();
            let buffer = scene
                .gradients
                .view(replica, step, variable, scene.setting.mode)?;
            put(buffer.address(), scene.setting.dtype(), 0, f32::NAN);
        }
        Ok(())
    };
    Extras {
        before: Some(Arc::new(before)),
        ..Extras::default()
    }
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
            let skip = Settings {
                non_finite: Some(NonFinite::Skip),
                ..Settings::default()
            };
            let scene = Scene::new(Setting {
                accumulation_steps: 1,
                ..setting
            });
            scene.optimizer.configure(skip).unwrap();
            scene.train(not_finite(variable)).unwrap();
            apply(&scene.optimizer, &scene.gradients).unwrap();
            assert!(scene.optimizer.last_report().unwrap().skipped);
        }
    }
}

/// In a process of its own, whose environment is what is tested: `wanted` is what UMBO_STRICT is
/// there.
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
    for option in [false, true] {
        let options = Options {
            cpu_replicas: 1,
            strict: option,
            ..Options::default()
        };
        assert_eq!(
            Strategy::new(&options).unwrap().is_strict(),
            is_on || option
        );
    }
    assert_eq!(Strategy::default_strategy().is_strict(), is_on);
    let complaints = |word: &str| {
        lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.contains(word))
            .count()
    };
    let known = matches!(text.as_deref(), None | Some("" | "0" | "1"));
    assert_eq!(complaints("UMBO_STRICT is '"), if known { 0 } else { 2 });
    if is_on {
        let scene = Scene::new(Setting {
            strict: false,
            ..Setting::PLAIN
        });
        let extras = crate::mistakes::beside_scratch_memory(1);
        found(scene.train(extras), &["replica 1", "scratch memory"]);
    }
    println!("all was said");
}

#[test]
fn the_environment_makes_processes_strict() {
    for text in [None, Some(""), Some("0"), Some("1"), Some("yes"), Some("2")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "--ignored",
            "--nocapture",
            "warnings::of_the_environment",
        ]);
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
