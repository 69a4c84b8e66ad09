//! The report of measured steps says what the trace of the same run says, however many steps there are: of
//! more than some dozen only a part is measured, and of those the latest are kept.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use umbo::input::{Dataset, MapOptions};
use umbo::observe::phase::{ByPhase, Phase};
use umbo::observe::report::{ReplicaSample, Setup, StepSample};
use umbo::observe::summary::Summary;
use umbo::observe::trace;
use umbo::optimizer::sgd::Sgd;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial};
use umbo::strategy::{Options, ReplicaContext, StepReport, Strategy};
use umbo::tensor::{DType, Shape};
use umbo::values::variable::Aggregation;

/// The calling thread is busy for at least so long.
fn burn(nanoseconds: u64) {
    let until = trace::now() + nanoseconds;
    while trace::now() < until {
        std::hint::spin_loop();
    }
}

const INPUT: u64 = 10_000;
const COMPUTE: u64 = 7_000;
const OUTSIDE: u64 = 8_000;
const ELEMENTS: usize = 4096;

/// A training of so many steps: an element whose making takes a while, a run, an update, and something
/// that the program does.
struct Training {
    strategy: Strategy,
    step: Box<dyn Fn()>,
}

impl Training {
    fn new(replicas: usize) -> Training {
        let options = Options { cpu_replicas: replicas, ..Options::default() };
        let strategy = Strategy::new(&options).unwrap();
        let new = crate::fresh::new_variable("weights", Aggregation::Sum);
        let shape = Shape::new(&[ELEMENTS]).unwrap();
        let initial =
            umbo::tensor::Tensor::zeros(DType::Float32, shape, umbo::device::DeviceId::HOST);
        let weights =
            variables::create(Some(&strategy), new, Initial::Value(&initial.unwrap())).unwrap();
        let devices = strategy.compute_devices();
        let gradients =
            Gradients::new(strategy.id(), devices, vec![weights], LossReduction::Sum).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.001).unwrap();
        let slow = |element: &umbo::values::Value| {
            burn(INPUT);
            Ok(element.clone())
        };
        let dataset = Dataset::range(0, 1 << 40, 1).unwrap();
        let iterator = dataset.map(slow, MapOptions::default()).unwrap().iterator().unwrap();
        let of_step = strategy.clone();
        let step = Box::new(move || {
            assert!(iterator.next().unwrap().is_some());
            let callback = |context: &ReplicaContext| {
                burn(COMPUTE);
                gradients.view_in(context, 0, GradientMode::Add)?;
                gradients.submit_in(context, Some(1.0))?;
                Ok(None)
            };
            of_step.run(&callback, None).unwrap();
            apply(&optimizer, &gradients).unwrap();
            burn(OUTSIDE);
        });
        strategy.measure_steps(true).unwrap();
        Training { strategy, step }
    }

    fn report(&self, steps: usize) -> StepReport {
        (0..steps).for_each(|_| (self.step)());
        self.strategy.step_report().unwrap()
    }
}

/// What every step must have spent, since the program did that: no quantity may be missing.
#[track_caller]
fn has_all(report: &StepReport, replicas: usize, what: &str) {
    let Summary { period, outside, updated, run, .. } = report.summary;
    let text = report.text();
    for replica in &report.summary.replicas {
        assert!(replica.spent[Phase::Input as usize] >= INPUT, "{what}: {text}");
        assert!(replica.spent[Phase::Compute as usize] >= COMPUTE, "{what}: {text}");
        assert!(replica.spent[Phase::Update as usize] > 0, "{what}: {text}");
    }
    assert_eq!(report.summary.replicas.len(), replicas);
    assert!(outside >= OUTSIDE && run >= COMPUTE, "{what}: {text}");
    assert!(period >= INPUT + COMPUTE + OUTSIDE, "{what}: {text}");
    assert!(updated as usize >= ELEMENTS * 4, "{what}: {updated} bytes");
}

/// What the trace says of one step.
#[derive(Default)]
struct Traced {
    step: StepSample,
    replicas: BTreeMap<u64, ReplicaSample>,
    /// From its beginning to its end.
    times: (u64, u64),
    thread: u64,
}

fn number(event: &Json, name: &str) -> u64 {
    event["args"][name].as_u64().unwrap_or(0)
}

fn phases(event: &Json, prefix: &str) -> ByPhase<u64> {
    Phase::ALL.map(|phase| number(event, &format!("{prefix}{}_ns", phase.name())))
}

/// When it began and ended, in nanoseconds.
fn times(event: &Json) -> (u64, u64) {
    let nanoseconds = |field: &str| (event[field].as_f64().unwrap() * 1000.0).round() as u64;
    (nanoseconds("ts"), nanoseconds("ts") + nanoseconds("dur"))
}

/// The steps of the strategy, in order, and the spans beside them by thread.
fn read(path: &PathBuf, strategy: u64) -> (Vec<Traced>, Vec<Json>) {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let events: Vec<Json> = serde_json::from_str(&text).unwrap();
    let mut steps: BTreeMap<u64, Traced> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in events.into_iter().filter(|event| event["ph"] == "X") {
        let of_step = event["args"]["strategy"] == strategy;
        match (event["name"].as_str().unwrap(), of_step) {
            ("step", true) => {
                let traced = steps.entry(number(&event, "step")).or_default();
                traced.step = StepSample {
                    period: number(&event, "period_ns"),
                    run: number(&event, "run_ns"),
                    before: phases(&event, "before_"),
                    central: phases(&event, ""),
                    updated: number(&event, "updated_bytes"),
                };
                traced.times = times(&event);
                traced.thread = event["tid"].as_u64().unwrap();
            }
            ("compute", true) => {
                let sample = ReplicaSample {
                    begun: number(&event, "begun_ns"),
                    wall: number(&event, "wall_ns"),
                    spent: phases(&event, ""),
                    clocks: None,
                };
                let traced = steps.entry(number(&event, "step")).or_default();
                traced.replicas.insert(number(&event, "replica"), sample);
            }
            _ => spans.push(event),
        }
    }
    (steps.into_values().collect(), spans)
}

/// What the trace says of a step agrees with the spans of its thread since the step before.
#[track_caller]
fn agree_with_spans(steps: &[Traced], spans: &[Json]) {
    let mut of_thread: Vec<(u64, u64)> =
        spans.iter().filter(|span| span["tid"] == steps[0].thread).map(times).collect();
    of_thread.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    let mut rest = of_thread.into_iter().peekable();
    for pair in steps.windows(2) {
        let (begin, (start, end)) = (pair[0].times.1, pair[1].times);
        // The outermost spans between the two runs.
        let (mut sum, mut until) = (0, 0);
        while let Some((from, to)) = rest.next_if(|&(from, _)| from < start) {
            if from >= begin && from >= until {
                (sum, until) = (sum + to - from, to);
            }
        }
        let Traced { step, .. } = &pair[1];
        let before: u64 = step.before.iter().sum();
        // Times in the file are rounded to what a number of this size can be.
        assert!(before.abs_diff(sum) <= 2000, "{step:?}: spans of {sum} ns");
        assert!(step.period <= end - begin + 2000, "{step:?}: {} ns", end - begin);
        assert!(step.period >= step.run + before, "{step:?}");
    }
}

/// Every quantity by its name, of one summary.
fn quantities(summary: &Summary) -> Vec<(String, u64)> {
    let Summary { period, run, outside, coordination, updated, replicas, .. } = summary;
    let mut all = vec![
        ("period".to_owned(), *period),
        ("run".to_owned(), *run),
        ("outside".to_owned(), *outside),
        ("coordination".to_owned(), *coordination),
        ("updated".to_owned(), *updated),
        ("busiest".to_owned(), summary.busiest()),
        ("work".to_owned(), summary.work()),
    ];
    for (at, replica) in replicas.iter().enumerate() {
        for phase in Phase::ALL {
            let name = format!("{} of replica {at}", phase.name());
            all.push((name, replica.spent[phase as usize]));
        }
        all.push((format!("busy of replica {at}"), replica.busy));
    }
    all
}

#[test]
fn every_quantity_is_the_trace_s() {
    let true = crate::is_alone(every_quantity_is_the_trace_s) else { return };
    for (replicas, steps) in [(1, 10), (1, 100), (1, 2000), (2, 10), (2, 100), (2, 1000)] {
        let what = format!("{replicas} replicas, {steps} steps");
        let name = format!("umbo-report-{}-{replicas}-{steps}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        trace::start(&path, trace::MOST_EVENTS).unwrap();
        let training = Training::new(replicas);
        let report = training.report(steps);
        assert_eq!(trace::stop().unwrap().dropped, 0);
        let (traced, spans) = read(&path, training.strategy.id());
        assert_eq!(traced.len(), steps, "{what}");
        has_all(&report, replicas, &what);
        agree_with_spans(&traced, &spans);

        let processors = u32::try_from(umbo::executor::affinity::available()).unwrap();
        let count = u32::try_from(replicas).unwrap();
        let setup = Setup { replicas: count, devices: count, cpu_devices: count, processors };
        let of = |traced: &[Traced]| {
            let samples: Vec<StepSample> = traced.iter().map(|traced| traced.step).collect();
            let replicas: Vec<ReplicaSample> =
                traced.iter().flat_map(|traced| traced.replicas.values().copied()).collect();
            Summary::of(setup, &samples, &replicas)
        };
        let reported = quantities(&report.summary);
        if steps <= 32 {
            // All of them were measured.
            assert_eq!(reported, quantities(&of(&traced)), "{what}");
            assert_eq!(report.summary.mean, of(&traced).mean, "{what}");
            continue;
        }
        // What was measured is a part of them: its medians lie well within what all steps took.
        let each: Vec<Vec<(String, u64)>> =
            traced[1..].iter().map(|step| quantities(&of(std::slice::from_ref(step)))).collect();
        for (at, (name, median)) in reported.into_iter().enumerate() {
            let mut all: Vec<u64> = each.iter().map(|step| step[at].1).collect();
            all.sort_unstable();
            let (low, high) = (all[all.len() / 20], all[all.len() - 1 - all.len() / 20]);
            // The sums of medians are not the medians of sums.
            let slack = if matches!(&*name, "busiest" | "work") { high / 2 } else { 0 };
            let range = low.saturating_sub(slack)..=high + slack;
            assert!(range.contains(&median), "{what}: {name} is {median}, not in {range:?}");
        }
    }
}
