//! A steady step allocates nothing, on no thread.

use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use umbo_core::device::DeviceId;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::input::{Dataset, DistributeOptions, ShuffleOptions, distribute_dataset};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::observe::log::{self, Level};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{Element, Shape, Tensor};
use umbo_core::training::Epoch;
use umbo_core::values::Value;

#[track_caller]
fn steady(case: &str, mut step: impl FnMut()) {
    const STEPS: usize = 200;
    for _ in 0..STEPS {
        step();
    }
    let before = crate::allocator::of_all_threads();
    for _ in 0..STEPS {
        step();
    }
    let allocations = crate::allocator::of_all_threads() - before;
    assert_eq!(allocations, 0, "{case}: allocations in {STEPS} steps");
}

/// Takes its time to join a step, with the lock that its other replicas want.
struct Slow;

impl StepParticipant for Slow {
    fn join(&self, _: u64) -> bool {
        std::thread::sleep(Duration::from_millis(5));
        false
    }

    fn commit(&self, _: u64) {}

    fn roll_back(&self, _: u64) {}
}

/// Replicas that meet at a lock wait for it without memory, also when they do for the first time in
/// the life of the process: when that is depends on how the threads are scheduled.
fn replicas_that_meet_at_a_lock() {
    let strategy = Strategy::new(&Options {
        cpu_replicas: 2,
        ..Options::default()
    })
    .unwrap();
    let slow = Arc::new(Slow);
    let together = Barrier::new(2);
    let meet = |context: &ReplicaContext| {
        together.wait();
        strategy.join_step(context.step_number(), &slow)?;
        Ok(None)
    };
    let apart = |_: &ReplicaContext| {
        together.wait();
        Ok(None)
    };
    for _ in 0..20 {
        strategy.run(&apart, None).unwrap();
    }
    let before = crate::allocator::of_all_threads();
    strategy.run(&meet, None).unwrap();
    let allocations = crate::allocator::of_all_threads() - before;
    assert_eq!(allocations, 0, "replicas that meet at a lock");
}

/// The steps of an epoch, whose elements the iterator could give again: so it notes where each
/// began.
fn steps_of_an_epoch(strategy: &Strategy, read_ahead: i64) {
    let shape = Shape::new(&[50]).unwrap();
    let rows = Tensor::from_slice(&[1.0f32; 50], shape, DeviceId::HOST).unwrap();
    let data = Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap();
    let shuffle = ShuffleOptions {
        buffer_size: 20,
        ..ShuffleOptions::default()
    };
    let data = data
        .shuffle(&shuffle)
        .unwrap()
        .batch(8, false)
        .unwrap()
        .repeat(-1)
        .unwrap();
    let options = DistributeOptions {
        read_ahead: Some(read_ahead),
        ..DistributeOptions::default()
    };
    let distributed = distribute_dataset(strategy, &data, &options).unwrap();
    let iterator = distributed.iterator().unwrap();
    let epoch = Epoch {
        strategy,
        iterator: &iterator,
        update: None,
        metrics: None,
        limits: Limits::default(),
        max_steps: Some(400),
        flush: true,
        keep_metrics: false,
        reset: true,
        evaluates: false,
    };
    let mut before = 0;
    let mut allocations = None;
    let step: Arc<umbo_core::strategy::ReplicaFunction> = Arc::new(|context| {
        context.add_metric(
            "loss",
            Metric {
                sum: 1.0,
                weight: 2.0,
            },
        )?;
        Ok(None)
    });
    let counted = epoch.run(
        &OwnedCallback::of(step),
        &|_, _, _| Ok(()),
        &mut |report, _| {
            match report.steps {
                200 => before = crate::allocator::of_all_threads(),
                400 => allocations = Some(crate::allocator::of_all_threads() - before),
                _ => {}
            }
            Ok(())
        },
    );
    assert_eq!(counted.unwrap().steps, 400);
    assert_eq!(
        strategy.metric("loss").unwrap().weight,
        800.0 * strategy.num_replicas() as f64
    );
    assert_eq!(
        allocations,
        Some(0),
        "an epoch, {read_ahead} elements ahead"
    );
}

fn vector<T: Element>(elements: impl Iterator<Item = T>) -> Tensor {
    let elements: Vec<T> = elements.collect();
    Tensor::from_slice(
        &elements,
        Shape::new(&[elements.len()]).unwrap(),
        DeviceId::HOST,
    )
    .unwrap()
}

#[test]
fn a_steady_step_allocates_nothing() {
    let true = crate::is_alone(a_steady_step_allocates_nothing) else {
        return;
    };
    // The threads of the process are looked at in some of the first long runs, for a warning that
    // nobody wants here.
    log::set_sink(Level::Error, Box::new(|_, _| {}));
    replicas_that_meet_at_a_lock();
    for replicas in 1..=3 {
        let options = Options {
            cpu_replicas: replicas,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).unwrap();
        steady("empty", || {
            assert!(strategy.run(&|_| Ok(None), None).unwrap().is_none())
        });

        let per_replica = |elements: usize| {
            let shape = Shape::new(&[elements]).unwrap();
            let tensor = || Tensor::from_slice(&vec![1.0f32; elements], shape, DeviceId::HOST);
            Value::per_replica((0..replicas).map(|_| tensor().unwrap()).collect()).unwrap()
        };
        let batch = Value::structure(vec![
            ("image".into(), per_replica(64)),
            ("label".into(), per_replica(4)),
        ])
        .unwrap();
        let parts: Vec<_> = (0..replicas)
            .map(|_| Mutex::new(Value::nothing()))
            .collect();
        let callback = |context: &ReplicaContext| {
            let mut part = parts[context.replica()].lock().unwrap();
            assert!(context.arguments_into(&mut part)?, "the run has arguments");
            let image = part.at_path("image")?.tensor_of(context.replica())?;
            assert_eq!(image.shape().elements(), 64);
            assert_eq!(
                context.batch_position().global_examples,
                Some(64 * replicas as u64)
            );
            context.scratch(1000)?;
            context.scratch(5000)?;
            context.add_metric(
                "loss",
                Metric {
                    sum: 1.0,
                    weight: 4.0,
                },
            )?;
            assert!(!context.is_cancelled());
            part.hollow();
            Ok(None)
        };
        steady("arguments, scratch memory, a metric", || {
            strategy.run(&callback, Some(batch.clone())).unwrap();
        });
        assert_eq!(
            strategy.metric("loss").unwrap().weight,
            4.0 * replicas as f64
        );
        strategy.measure_steps(true).unwrap();
        steady("the same, measured", || {
            strategy.run(&callback, Some(batch.clone())).unwrap();
        });
        // Long enough that the clocks of the threads are read too.
        strategy.measure_steps(true).unwrap();
        let long = |_: &ReplicaContext| {
            std::thread::sleep(Duration::from_micros(1500));
            Ok(None)
        };
        steady("long and measured", || {
            drop(strategy.run(&long, None).unwrap())
        });
        assert!(
            strategy.step_report().unwrap().summary.replicas[0]
                .ready
                .is_some()
        );
        strategy.measure_steps(false).unwrap();
        assert!(strategy.step_report().unwrap().summary.measured >= 32);

        steps_of_an_epoch(&strategy, 0);
        steps_of_an_epoch(&strategy, 2);

        let metrics = Metrics::new(&strategy);
        metrics.define("loss", MetricKind::Mean).unwrap();
        metrics
            .define("matrix", MetricKind::confusion(1000).unwrap())
            .unwrap();
        metrics
            .define("auc", MetricKind::auc(200, 0.0, 1.0).unwrap())
            .unwrap();
        let examples = || 0..100i64;
        let classes = vector(examples());
        let labels = vector(examples().map(|one| 2 * one));
        let scores = vector(examples().map(|one| 0.01 * one as f64));
        let sides = vector(examples().map(|one| one % 2));
        let callback = |context: &ReplicaContext| {
            metrics.add_in(context, "loss", 1.0, 4.0)?;
            metrics.add_labels_in(context, "matrix", &classes.reading()?, &labels.reading()?)?;
            metrics.add_labels_in(context, "auc", &scores.reading()?, &sides.reading()?)?;
            Ok(None)
        };
        steady("metrics that accumulate", || {
            strategy.run(&callback, None).unwrap();
        });
        assert_eq!(
            metrics.result("matrix").unwrap().weight,
            (400 * 100 * replicas) as f64
        );

        let callback: Arc<umbo_core::strategy::ReplicaFunction> = Arc::new(|_| Ok(None));
        steady("a deadline", || {
            let deadline = Some(Instant::now() + Duration::from_secs(600));
            let limits = Limits {
                deadline,
                ..Limits::default()
            };
            strategy
                .run_within(Arc::clone(&callback), None, limits, None)
                .unwrap();
        });
    }
}
