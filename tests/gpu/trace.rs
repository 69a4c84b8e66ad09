//! What GPUs do in the trace: rows for their streams, with the library's copies and kernels, each
//! within its step; and nothing else changes by it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fake_cuda::harness::under_driver;
use serde_json::Value as Json;
use umbo_core::diagnose::summary::ReplicaTimes;
use umbo_core::diagnose::trace;
use umbo_core::observe::Phase;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::strategy::{ReplicaContext, Strategy};

use super::strategy::{Place, strategy_of};
use super::training::Training;
use super::*;

const STEPS: usize = 6;

/// The one that fails.
const FAILS: usize = 3;

fn training(strategy: Strategy) -> Training {
    Training::new(
        strategy,
        &[&[0.25; 500]],
        Adam::new(0.9, 0.999, 1e-7).unwrap(),
    )
    .unwrap()
}

/// A training on one GPU.
fn alone() -> Training {
    training(strategy_of((1, &["GPU:0"], "GPU:0")))
}

/// Some steps; one of them fails.
fn train(training: &Training) {
    for step in 0..STEPS {
        let callback = |context: &ReplicaContext| {
            training.contribute(context, (context.replica() + step) as f32)?;
            training.apply()?;
            match step == FAILS && context.replica() == 0 {
                true => Err(Error::NotFound("as planned".into())),
                false => Ok(None),
            }
        };
        assert_eq!(
            training.strategy.run(&callback, None).is_err(),
            step == FAILS
        );
    }
}

/// A span: name, category, begin and end in nanoseconds, bytes.
struct Seen {
    name: String,
    category: String,
    start: u64,
    end: u64,
    bytes: u64,
}

/// Rows by their names.
fn rows(path: &PathBuf) -> BTreeMap<String, Vec<Seen>> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let events: Vec<Json> = serde_json::from_str(&text).unwrap();
    let named = events.iter().filter(|event| event["name"] == "thread_name");
    let names: BTreeMap<u64, String> = named
        .map(|it| {
            (
                it["tid"].as_u64().unwrap(),
                it["args"]["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let mut rows: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let time = |field: &str| (event[field].as_f64().unwrap() * 1000.0).round() as u64;
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        rows.entry(names[&event["tid"].as_u64().unwrap()].clone())
            .or_default()
            .push(Seen {
                name: text("name"),
                category: text("cat"),
                start: time("ts"),
                end: time("ts") + time("dur"),
                bytes: event["args"]["bytes"].as_u64().unwrap_or(0),
            });
    }
    rows
}

/// Microseconds of the file have this much rounding as numbers.
const ROUNDING: u64 = 1000;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("umbo-gpu-trace-{}-{name}.json", std::process::id()))
}

#[test]
fn streams_are_rows_whose_spans_lie_in_their_steps() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    let places: [Place<'_>; 6] = [
        (1, &["GPU:0"], "GPU:0"),
        (2, &["GPU:0", "GPU:1"], "GPU:0"),
        (2, &["GPU:1", "GPU:2"], "CPU:0"),
        (2, &["CPU:0", "GPU:2"], "GPU:1"),
        (3, &["GPU:0"], "GPU:0"),
        (3, &["CPU:0", "GPU:2"], "GPU:2"),
    ];
    for (number, place) in places.into_iter().enumerate() {
        let plain = training(strategy_of(place));
        train(&plain);
        for seed in 0..4 {
            control.seed(seed);
            let training = training(strategy_of(place));
            training.strategy.measure_steps(true).unwrap();
            let path = file(&format!("{number}-{seed}"));
            trace::start(&path, trace::MOST_EVENTS).unwrap();
            train(&training);
            let account = trace::stop().unwrap();
            assert_eq!(account.dropped, 0);
            assert_eq!(training.bits(), plain.bits(), "{place:?}");
            let report = training.strategy.step_report().unwrap().summary;
            assert_eq!(
                (report.replicas.len(), report.seen),
                (place.0, STEPS as u64)
            );
            let computes = |it: &ReplicaTimes| it.spent[Phase::Compute as usize] > 0;
            assert!(report.replicas.iter().all(computes));
            check(&rows(&path), place);
        }
    }
    clean(&control);
}

fn check(rows: &BTreeMap<String, Vec<Seen>>, (_, devices, parameter_device): Place<'_>) {
    let all = rows.values().flatten();
    let mut steps: Vec<(u64, u64)> = all
        .filter(|it| it.name == "step" && it.category == "step")
        .map(|it| (it.start, it.end))
        .collect();
    steps.sort_unstable();
    assert_eq!(steps.len(), STEPS - 1);
    // The step that fails has no span of its own and is what is between two. The last that it has
    // queued is told in the next one, which may show it a little late.
    steps.insert(FAILS, (steps[FAILS - 1].1, steps[FAILS].1));
    let mut used: Vec<&str> = devices.to_vec();
    used.push(parameter_device);
    used.sort_unstable();
    used.dedup();
    let gpus = used.iter().filter(|device| device.starts_with("GPU"));
    assert_eq!(
        rows.keys().filter(|name| name.ends_with(" stream")).count(),
        gpus.clone().count()
    );
    for gpu in gpus {
        let spans = &rows[&format!("{gpu} stream")];
        // One thing after the other, as the stream does it.
        for pair in spans.windows(2) {
            assert!(
                pair[0].end <= pair[1].start + ROUNDING,
                "{} {}",
                pair[0].name,
                pair[1].name
            );
        }
        for span in spans {
            let around = |&&(start, end): &&(u64, u64)| {
                start <= span.start + ROUNDING && span.end <= end + ROUNDING
            };
            assert!(
                steps.iter().filter(around).count() > 0,
                "{} on {gpu}",
                span.name
            );
        }
        // A gradient goes up in each step, and comes down where the variables are elsewhere.
        if devices.contains(gpu) {
            let up = spans
                .iter()
                .filter(|it| it.name == "copy to the GPU" && it.bytes == 2000);
            assert!(up.count() >= STEPS);
            assert!(
                spans
                    .iter()
                    .any(|it| it.name == "copy from the GPU" && it.category == "copy")
            );
        }
        if *gpu == parameter_device {
            let updates = spans.iter().filter(|it| it.name == "umbo_adam_f32");
            assert_eq!(updates.clone().count(), STEPS - 1);
            assert!(updates.clone().all(|it| it.category == "gpu"));
        }
    }
}

/// Without a trace the driver is asked nothing more than before there was one.
#[test]
fn without_a_trace_there_are_no_more_calls() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let training = alone();
    train(&training);
    let count = || {
        control.fault("");
        train(&training);
        (
            control.calls("*"),
            control.calls("cuEventRecord"),
            control.calls("cuEventElapsedTime"),
        )
    };
    let before = count();
    let path = file("calls");
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    let traced = count();
    trace::stop().unwrap();
    assert!(
        traced.1 > before.1 && traced.2 > 2 * STEPS as u64,
        "{before:?} {traced:?}"
    );
    assert_eq!((count(), before.2), (before, 0));
    assert!(rows(&path).contains_key("GPU:0 stream"));
    clean(&control);
}

/// What the trace cannot be told does no harm.
#[test]
fn a_trace_that_the_driver_does_not_serve_changes_nothing() {
    let Some(control) = under_driver(&[("FAKE_CUDA_QUIET", "1")]) else {
        return;
    };
    let plain = alone();
    train(&plain);
    for (number, fault) in [
        "cuEventCreate:0:2",
        "cuEventElapsedTime:0:1",
        "cuEventElapsedTime:7:2",
    ]
    .iter()
    .enumerate()
    {
        let training = alone();
        let path = file(&format!("faults-{number}"));
        trace::start(&path, trace::MOST_EVENTS).unwrap();
        control.fault(fault);
        train(&training);
        trace::stop().unwrap();
        assert!(control.injected() > 0, "{fault}");
        control.fault("");
        assert_eq!(training.bits(), plain.bits(), "{fault}");
        let spans = rows(&path)
            .remove("GPU:0 stream")
            .map_or(0, |spans| spans.len());
        assert_eq!(spans > 0, number == 2, "{fault}: {spans}");
    }
    clean(&control);
}

/// A trace that ends while something is still queued has it.
#[test]
fn what_is_still_queued_at_the_end_is_told() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let held = tensor(&[1.0; 64], gpu(0));
    let copies_in = |rows: &BTreeMap<String, Vec<Seen>>| {
        rows["GPU:0 stream"]
            .iter()
            .filter(|it| it.name.starts_with("umbo_copy"))
            .count()
    };
    let path = file("queued");
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    let copies: Vec<Tensor> = (0..3).map(|_| held.copied_to(gpu(0)).unwrap()).collect();
    trace::stop().unwrap();
    assert_eq!(copies_in(&rows(&path)), copies.len());
    // More than are kept until somebody waits.
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    for _ in 0..1500 {
        held.copied_to(gpu(0)).unwrap();
    }
    trace::stop().unwrap();
    assert_eq!(copies_in(&rows(&path)), 1500);
    drop((held, copies));
    clean(&control);
    all_freed(&control, 1);
}
