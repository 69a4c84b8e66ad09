//! The report of measured steps says what the trace of the same run says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use umbo_core::device::DeviceId;
use umbo_core::diagnose::report::{ReplicaSample, Setup, StepSample};
use umbo_core::diagnose::summary::Summary;
use umbo_core::diagnose::trace;
use umbo_core::input::{Dataset, MapOptions};
use umbo_core::observe::phase::{ByPhase, Phase};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, StepReport, Strategy};
use umbo_core::system::clock;
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::Aggregation;

/// The calling thread is busy for at least so long.
fn burn(nanoseconds: u64) {
    let until = clock::now() + nanoseconds;
    while clock::now() < until {
        std::hint::spin_loop();
    }
}

const INPUT: u64 = 10_000;
const COMPUTE: u64 = 7_000;
const OUTSIDE: u64 = 8_000;
const ELEMENTS: usize = 4096;

/// A training of so many steps: an element whose making takes a while, a run, an update, and
/// something that the program does.
struct Training {
    strategy: Strategy,
    step: Box<dyn Fn()>,
}

impl Training {
    fn new(replicas: usize) -> Training {
        let options = Options {
            cpu_replicas: replicas,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).unwrap();
        let new = crate::fresh::new_variable("weights", Aggregation::Sum);
        let shape = Shape::new(&[ELEMENTS]).unwrap();
        let initial = Tensor::zeros(DType::Float32, shape, DeviceId::HOST);
        let weights =
            variables::create(Some(&strategy), new, Initial::Value(&initial.unwrap())).unwrap();
        let devices = strategy.compute_devices();
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            vec![weights],
            LossReduction::Sum,
            Default::default(),
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.001).unwrap();
        let slow = |element: &umbo_core::values::Value| {
            burn(INPUT);
            Ok(element.clone())
        };
        let dataset = Dataset::range(0, 1 << 40, 1).unwrap();
        let iterator = dataset
            .map(slow, MapOptions::default())
            .unwrap()
            .iterator()
            .unwrap();
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

/// What the trace says of one step.
#[derive(Default)]
struct Traced {
    step: StepSample,
    replicas: BTreeMap<u64, ReplicaSample>,
}

fn number(event: &Json, name: &str) -> u64 {
    event["args"][name].as_u64().unwrap_or(0)
}

fn phases(event: &Json, prefix: &str) -> ByPhase<u64> {
    Phase::ALL.map(|phase| number(event, &format!("{prefix}{}_ns", phase.name())))
}

/// The steps of the strategy, in order.
fn read(path: &PathBuf, strategy: u64) -> Vec<Traced> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let events: Vec<Json> = serde_json::from_str(&text).unwrap();
    let mut steps: BTreeMap<u64, Traced> = BTreeMap::new();
    let of_strategy = |event: &&Json| event["args"]["strategy"] == strategy;
    for event in events
        .iter()
        .filter(|event| event["ph"] == "X")
        .filter(of_strategy)
    {
        let traced = steps.entry(number(event, "step")).or_default();
        match event["name"].as_str().unwrap() {
            "step" => {
                traced.step = StepSample {
                    period: number(event, "period_ns"),
                    run: number(event, "run_ns"),
                    before: phases(event, "before_"),
                    central: phases(event, ""),
                    updated: number(event, "updated_bytes"),
                };
            }
            "compute" => {
                let sample = ReplicaSample {
                    begun: number(event, "begun_ns"),
                    wall: number(event, "wall_ns"),
                    spent: phases(event, ""),
                    clocks: None,
                };
                traced.replicas.insert(number(event, "replica"), sample);
            }
            _ => {}
        }
    }
    steps.into_values().collect()
}

/// Every quantity by its name, of one summary.
fn quantities(summary: &Summary) -> Vec<(String, u64)> {
    let Summary {
        period,
        run,
        outside,
        coordination,
        updated,
        replicas,
        ..
    } = summary;
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
    let true = crate::is_alone(every_quantity_is_the_trace_s) else {
        return;
    };
    // So few steps that all of them are measured.
    const STEPS: usize = 10;
    for replicas in [1, 2] {
        let name = format!("umbo-report-{}-{replicas}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        trace::start(&path, trace::MOST_EVENTS).unwrap();
        let training = Training::new(replicas);
        let report = training.report(STEPS);
        assert_eq!(trace::stop().unwrap().dropped, 0);
        let traced = read(&path, training.strategy.id());
        assert_eq!(traced.len(), STEPS);

        let processors = u32::try_from(umbo_core::executor::affinity::available()).unwrap();
        let count = u32::try_from(replicas).unwrap();
        let setup = Setup {
            replicas: count,
            devices: count,
            cpu_devices: count,
            processors,
        };
        let steps: Vec<StepSample> = traced.iter().map(|traced| traced.step).collect();
        let of_replicas: Vec<ReplicaSample> = traced
            .iter()
            .flat_map(|traced| traced.replicas.values().copied())
            .collect();
        let of_trace = Summary::of(setup, &steps, &of_replicas);
        assert_eq!(quantities(&report.summary), quantities(&of_trace));
        assert_eq!(report.summary.mean, of_trace.mean);

        // What the program did in every step is there.
        let Summary {
            period,
            outside,
            updated,
            run,
            replicas: of_replicas,
            ..
        } = &report.summary;
        assert_eq!(of_replicas.len(), replicas);
        let text = report.text();
        for replica in of_replicas {
            assert!(replica.spent[Phase::Input as usize] >= INPUT, "{text}");
            assert!(replica.spent[Phase::Compute as usize] >= COMPUTE, "{text}");
            assert!(replica.spent[Phase::Update as usize] > 0, "{text}");
        }
        assert!(*outside >= OUTSIDE && *run >= COMPUTE, "{text}");
        assert!(*period >= INPUT + COMPUTE + OUTSIDE, "{text}");
        assert!(*updated as usize >= ELEMENTS * 4, "{updated} bytes");
    }
}
