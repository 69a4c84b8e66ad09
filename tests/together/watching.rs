//! Steps of ranks that are measured and traced: what goes between the ranks is a phase with time,
//! and its bytes are those that the engine has moved; what a step does stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;
use umbo_core::collectives::ReduceOp;
use umbo_core::diagnose::trace;
use umbo_core::error::Error;
use umbo_core::observe::Phase;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, GradientsOptions, Optimizer, apply};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::dividing::gradients;
use super::engine::{job, ranks};
use super::{alone, bytes, copy_into, on_ranks, tensor, variable};

const SPLITS: [(usize, usize); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

const ELEMENTS: usize = 3000;

const STEPS: u64 = 6;

/// Trains, with a step among them that fails; what the weights are after each.
fn train(strategy: &Strategy) -> Vec<Vec<u8>> {
    let initial = tensor(&[0.5f32; ELEMENTS], &[ELEMENTS]);
    let weights = variable(strategy, "w", Aggregation::None, &initial);
    let options = GradientsOptions::default();
    let gradients = gradients(strategy, std::slice::from_ref(&weights), options);
    let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.1).unwrap();
    let after = |step: u64| {
        let fails = step == 2;
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            let number = |at: usize| ((at * 7 + replica * 3 + step as usize) % 11) as f32 - 5.0;
            let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
            let numbers: Vec<f32> = (0..ELEMENTS).map(number).collect();
            copy_into(buffer, &tensor(&numbers, &[ELEMENTS]));
            gradients.submit_in(context, Some(1.0 + replica as f64))?;
            let loss = Value::Tensor(tensor(&[replica as f32], &[1]));
            context.all_reduce(ReduceOp::Mean, loss)?;
            match fails && replica == 1 {
                true => Err(Error::NotFound("as planned".into())),
                false => Ok(None),
            }
        };
        assert_eq!(strategy.run(&callback, None).is_err(), fails);
        if !fails {
            apply(&optimizer, &gradients).unwrap();
        }
        bytes(&read(&weights).unwrap())
    };
    (0..STEPS).map(after).collect()
}

#[test]
fn measured_steps_of_ranks_know_what_the_exchange_takes() {
    for (number, (size, replicas)) in SPLITS.into_iter().enumerate() {
        let expected = train(&alone(size * replicas));
        on_ranks(
            &job(size, Some(number as u64), None),
            replicas,
            |rank, strategy| {
                let strategy = strategy.unwrap();
                // One rank in turn is not measured: this is each rank's own.
                let is_measured = rank != number % size;
                strategy.measure_steps(is_measured).unwrap();
                assert!(
                    train(&strategy) == expected,
                    "rank {rank} of {size}×{replicas}"
                );
                if !is_measured {
                    assert!(strategy.step_report().is_err());
                    return;
                }
                let report = strategy.step_report().unwrap();
                let summary = &report.summary;
                assert_eq!(
                    (summary.replicas.len(), summary.setup.replicas),
                    (replicas, replicas as u32)
                );
                assert!((1..STEPS).contains(&summary.measured), "{summary:?}");
                let exchange = summary.central(Phase::Exchange);
                assert!(exchange > 0, "{summary:?}");
                for replica in &summary.replicas {
                    assert_eq!(
                        replica.spent[Phase::Exchange as usize],
                        exchange,
                        "{summary:?}"
                    );
                    assert_eq!(replica.spent[Phase::Input as usize], 0);
                    assert_eq!(replica.spent[Phase::Split as usize], 0);
                }
                let text = report.text();
                assert!(text.contains("exchange"), "{text}");
            },
        );
    }
}

const INSIDE: &str = "UMBO_TEST_TRACED_RANKS";

/// Runs the test of this name once more, alone in a process: a trace is the process's.
fn again_alone(name: &str, size: usize, replicas: usize) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, format!("{size} {replicas}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{size}×{replicas}: {text}\n{errors}");
}

#[test]
fn traces_of_ranks_count_the_bytes_that_the_engine_moves() {
    let Ok(setting) = std::env::var(INSIDE) else {
        let name = "watching::traces_of_ranks_count_the_bytes_that_the_engine_moves";
        return SPLITS
            .iter()
            .for_each(|&(size, replicas)| again_alone(name, size, replicas));
    };
    let (size, replicas) = setting.split_once(' ').unwrap();
    let size: usize = size.parse().unwrap();
    let replicas: usize = replicas.parse().unwrap();
    let expected = train(&alone(size * replicas));
    let path: PathBuf =
        std::env::temp_dir().join(format!("umbo-traced-ranks-{}.json", std::process::id()));
    let ranks = ranks(size);
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    let gpus = on_ranks(&ranks, replicas, |_, strategy| {
        let strategy = strategy.unwrap();
        strategy.measure_steps(true).unwrap();
        assert!(train(&strategy) == expected);
        let mut devices = strategy.compute_devices().to_vec();
        devices.push(strategy.parameter_device());
        devices.retain(|device| !device.is_host_memory());
        devices
    });
    // One more step, after all that is to be counted: counts are written at the end of steps.
    alone(1).run(&|_| Ok(None), None).unwrap();
    let account = trace::stop().unwrap();
    assert_eq!(account.dropped, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let events: Vec<Json> = serde_json::from_str(&text).unwrap();

    let counts = events.iter().filter(|event| event["ph"] == "C");
    let exchanged = counts
        .filter_map(|event| event["args"]["exchanged"].as_u64())
        .max();
    let moved: u64 = ranks.iter().map(|rank| rank.bytes()).sum();
    assert_eq!(exchanged, Some(moved));
    let spans = |name: &str| {
        events
            .iter()
            .filter(|it| it["ph"] == "X" && it["name"] == name)
            .count()
    };
    let steps = (STEPS as usize - 1) * size;
    assert_eq!(spans("step"), steps + 1);
    // Each call of the engine is one span.
    let calls: u64 = ranks.iter().map(|rank| rank.calls()).sum();
    assert_eq!(spans("exchange") as u64, calls);
    assert!(spans("exchange") > 4 * steps);
    let exchanges = events
        .iter()
        .filter(|it| it["name"] == "exchange" && it["ph"] == "X");
    assert!(exchanges.clone().all(|it| it["cat"] == "exchange"));
    let threads: BTreeSet<u64> = exchanges.filter_map(|it| it["tid"].as_u64()).collect();
    assert_eq!(
        threads.len(),
        size,
        "ranks meet on the threads that call their strategies"
    );

    // The GPUs of all ranks have rows of their own, and something was done on each.
    let gpus: BTreeSet<String> = gpus
        .concat()
        .iter()
        .map(|gpu| format!("{gpu} stream"))
        .collect();
    let names = events.iter().filter(|it| it["name"] == "thread_name");
    let names: BTreeMap<u64, &str> = names
        .map(|it| {
            (
                it["tid"].as_u64().unwrap(),
                it["args"]["name"].as_str().unwrap(),
            )
        })
        .collect();
    let spans = events.iter().filter(|it| it["ph"] == "X");
    let rows = spans.map(|it| names[&it["tid"].as_u64().unwrap()]);
    let streams: BTreeSet<&str> = rows.filter(|name| name.ends_with(" stream")).collect();
    assert_eq!(streams, gpus.iter().map(String::as_str).collect());
}
