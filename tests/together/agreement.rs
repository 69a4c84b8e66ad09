//! Metrics that accumulate, and weights that ranks compare.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use umbo_core::collectives::Assignment;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::equivalence::check;
use umbo_core::error::{Error, Status};
use umbo_core::input::{DistributeOptions, distribute_dataset};
use umbo_core::metrics::kind::{MetricDefinition, MetricKind};
use umbo_core::metrics::{Metrics, Predictions};
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction};
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::variables::{assign, read};
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::engine::{job, ranks};
use super::input::rows;
use super::passed_over::epoch_over;
use super::{alone, on_ranks, on_ranks_of, tensor, variable};

const KINDS: [(&str, MetricKind); 9] = [
    ("sum", MetricKind::Sum),
    ("mean", MetricKind::Mean),
    ("count", MetricKind::Count),
    ("accuracy", MetricKind::Accuracy { classes: None }),
    ("confusion", MetricKind::Confusion { classes: 3 }),
    (
        "auc",
        MetricKind::Auc {
            bins: 8,
            lowest: 0.0,
            highest: 1.0,
        },
    ),
    ("weighted", MetricKind::Confusion { classes: 3 }),
    ("top 2", MetricKind::TopK { k: 2 }),
    ("error", MetricKind::SquaredError),
];

/// Adds to all metrics in some steps, of which one fails; what they have come to.
fn measure(strategy: &Strategy) -> Vec<String> {
    let metrics = Metrics::new(strategy);
    for (name, kind) in KINDS {
        metrics.define(name, kind).unwrap();
    }
    for step in 0..4 {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync() as i64;
            // Some replicas add nothing.
            if (replica + step) % 3 != 2 {
                metrics.add_in(context, "sum", 0.1 * replica as f64, 1.0)?;
                metrics.add_in(context, "mean", 0.3 * replica as f64 + step as f64, 0.7)?;
                metrics.add_in(context, "count", 2.0, 1.0)?;
                let class = tensor(&[replica % 3], &[1]);
                let labels = |name, said: &Tensor, label: i64| {
                    let label = tensor(&[label], &[1]);
                    metrics.add_labels_in(context, name, &said.reading()?, &label.reading()?)
                };
                labels("accuracy", &class, step % 3)?;
                labels("confusion", &class, (replica + step) % 3)?;
                labels(
                    "auc",
                    &tensor(&[(0.37 * replica as f64).fract()], &[1]),
                    step % 2,
                )?;
                let weight = tensor(&[0.3 * replica as f64 + 0.1], &[1]);
                let weighted = |name, said: &Tensor, labels: &Tensor| {
                    let added = Predictions {
                        predicted: &said.reading()?,
                        labels: &labels.reading()?,
                        weights: Some(&weight.reading()?),
                    };
                    metrics.add_predictions_in(context, name, added)
                };
                weighted("weighted", &class, &tensor(&[step % 3], &[1]))?;
                let scores = tensor(
                    &[0.1 * replica as f32, 0.2, 0.3 - 0.1 * step as f32],
                    &[1, 3],
                );
                weighted("top 2", &scores, &class)?;
                weighted("error", &weight, &tensor(&[step as f64], &[1]))?;
            }
            match step == 2 && replica == 1 {
                true => Err(umbo_core::error::Error::NotFound(
                    "this step is lost".into(),
                )),
                false => Ok(None),
            }
        };
        assert_eq!(strategy.run(&callback, None).is_err(), step == 2);
    }
    let mut known = Vec::new();
    for (name, _) in KINDS {
        let metric = metrics.result(name).unwrap();
        known.push(format!(
            "{:x} {:x}",
            metric.sum.to_bits(),
            metric.weight.to_bits()
        ));
    }
    for name in ["confusion", "auc"] {
        known.push(
            metrics
                .with_cells(name, |cells| Ok(format!("{cells:?}")))
                .unwrap(),
        );
    }
    known
}

#[test]
fn metrics_are_those_of_all_ranks() {
    for (size, replicas) in [(2, 1), (2, 2), (3, 1), (4, 2)] {
        let expected = measure(&alone(size * replicas));
        let jobs = [ranks(size), job(size, Some(1), None)];
        for ranks in jobs {
            let came = on_ranks(&ranks, replicas, |_, strategy| measure(&strategy.unwrap()));
            assert!(
                came.iter().all(|came| *came == expected),
                "{came:?}, not {expected:?}"
            );
        }
    }
}

/// Ranks whose metrics differ, in names, their order, kinds or what is ignored: nothing of the run
/// counts, and nothing is mixed.
#[test]
fn metrics_that_differ_on_ranks_are_refused() {
    let plain = |kind: MetricKind| MetricDefinition::from(kind);
    let any = MetricKind::Accuracy { classes: None };
    let mean = ("a", plain(MetricKind::Mean));
    let others = [
        vec![("b", plain(MetricKind::Mean)), mean],
        vec![mean, ("c", plain(MetricKind::Mean))],
        vec![mean, ("b", plain(MetricKind::Sum))],
        vec![mean, ("b", MetricDefinition::ignoring(any, 2).unwrap())],
        vec![mean],
        vec![mean, ("b", plain(MetricKind::Mean)), ("c", plain(any))],
    ];
    for other in &others {
        on_ranks(&ranks(2), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            let metrics = Metrics::new(&strategy);
            let first = vec![mean, ("b", plain(MetricKind::Mean))];
            for (name, definition) in if rank == 0 { &first } else { other } {
                metrics.define(name, *definition).unwrap();
            }
            let step = |context: &ReplicaContext| {
                metrics.add_in(context, "a", 1.0, 2.0)?;
                Ok(None)
            };
            let error = strategy.run(&step, None).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            let words = "what metrics object 1 has";
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(metrics.result("a").unwrap().weight, 0.0, "rank {rank}");
        });
    }
}

#[test]
fn weights_are_compared_when_it_is_due() {
    let options = |_| Options {
        fingerprint_interval: 2,
        bind_threads: false,
        ..super::options(1)
    };
    on_ranks_of(&ranks(3), options, |rank, strategy| {
        let strategy = strategy.unwrap();
        let variable = variable(&strategy, "w", Aggregation::Sum, &tensor(&[0f32], &[1]));
        let one = || Value::Tensor(tensor(&[1f32], &[1]));
        let step = |_: &ReplicaContext| {
            assign(&variable, Assignment::Add, &one())?;
            Ok(None)
        };
        let value = || read(&variable).unwrap().to_vec::<f32>().unwrap()[0];
        for _ in 0..3 {
            strategy.run(&step, None).unwrap();
        }
        if rank == 2 {
            assign(&variable, Assignment::Add, &one()).unwrap();
        }
        // The fourth step comes before the comparison after four.
        strategy.run(&step, None).unwrap();
        let before = value();
        let error = strategy.run(&step, None).unwrap_err();
        assert_eq!(error.status(), Status::DataLoss, "{error}");
        for part in ["after step 4", "rank 0", "rank 2"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(value(), before);
        if rank == 2 {
            assign(&variable, Assignment::Subtract, &one()).unwrap();
        }
        strategy.run(&step, None).unwrap();
        assert_eq!(value(), 15.0);
    });
}

/// The check of one rank looks closer if that of another has found something.
#[test]
fn steps_are_checked_on_all_ranks() {
    for wrong in [None, Some(0), Some(1)] {
        on_ranks(&ranks(2), 2, |rank, strategy| {
            let strategy = strategy.unwrap();
            let zero = tensor(&[0f32], &[1]);
            let variable = variable(&strategy, "w", Aggregation::None, &zero);
            let gradients = Gradients::new(
                strategy.id(),
                strategy.replica_devices(),
                vec![variable],
                LossReduction::Sum,
                Default::default(),
            )
            .unwrap();
            let callback = |context: &ReplicaContext| {
                let rows = context
                    .arguments()?
                    .unwrap()
                    .tensor_of(0)?
                    .to_vec::<f32>()?;
                let sum: f32 = rows.iter().sum();
                let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
                // The mistake: a mean where a sum is promised.
                let is_wrong = wrong == Some(rank) && !rows.is_empty();
                let factor = if is_wrong {
                    1.0 / rows.len() as f32
                } else {
                    1.0
                };
                super::copy_into(view, &tensor(&[sum * factor], &[1]));
                gradients.submit_in(context, None)?;
                Ok(None)
            };
            let numbers: Vec<f32> = (0..9).map(|row| (row * row + rank) as f32).collect();
            let batch = Value::Tensor(tensor(&numbers, &[9]));
            let options = Default::default();
            let report = check(&strategy, &callback, &batch, Some(&gradients), &options).unwrap();
            assert_eq!(report.equivalent, wrong != Some(rank), "{}", report.text);
            // Batches of different sizes would need other runs.
            let batch = Value::Tensor(tensor(&numbers[..9 - rank], &[9 - rank]));
            let checked = check(&strategy, &callback, &batch, Some(&gradients), &options);
            assert_eq!(checked.unwrap_err().status(), Status::FailedPrecondition);
        });
    }
}

/// After an epoch a strategy's metrics are those of the steps that took effect, of all ranks: 11
/// numbers in batches of four, of which the second fails once. Replicas that have no rows add
/// nothing.
fn measures_an_epoch(strategy: &Strategy, replicas: usize, case: &str) {
    let data = rows(0..11).batch(4, false).unwrap();
    let distributed = distribute_dataset(strategy, &data, &DistributeOptions::default()).unwrap();
    let iterator = distributed.iterator().unwrap();
    let epoch = epoch_over(strategy, &iterator);
    let fails = AtomicBool::new(true);
    let step: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
        let rows = context
            .arguments()?
            .unwrap()
            .tensor_of(0)?
            .to_vec::<i32>()?;
        let sum = f64::from(rows.iter().sum::<i32>());
        let weight = rows.len() as f64;
        if weight > 0.0 {
            context.add_metric("x", Metric { sum, weight })?;
        }
        if rows.contains(&9) {
            context.add_metric(
                "late",
                Metric {
                    sum: 0.5,
                    weight: 1.0,
                },
            )?;
        }
        match rows.contains(&5) && fails.swap(false, Ordering::Relaxed) {
            true => Err(Error::NotFound("the second".into())),
            false => Ok(None),
        }
    });
    let metric = |name: &str| {
        strategy
            .metric(name)
            .map(|metric| (metric.sum, metric.weight))
    };
    let mut of_steps = Vec::new();
    let mut run = |step: &Arc<ReplicaFunction>| {
        epoch.run(
            &OwnedCallback::of(Arc::clone(step)),
            &|_, _, _| Ok(()),
            &mut |_, _| {
                of_steps.push(metric("x"));
                Ok(())
            },
        )
    };
    assert_eq!(run(&step).unwrap_err().status(), Status::NotFound, "{case}");
    assert_eq!(
        (metric("x"), metric("late")),
        (Some((6.0, 4.0)), None),
        "{case}"
    );
    assert_eq!(run(&step).unwrap().steps, 2, "{case}");
    assert_eq!(
        (metric("x"), metric("late")),
        (Some((49.0, 7.0)), Some((0.5, 1.0))),
        "{case}"
    );
    iterator.reset().unwrap();
    assert_eq!(run(&step).unwrap().steps, 3, "{case}");
    assert_eq!(
        (metric("x"), metric("late")),
        (Some((55.0, 11.0)), Some((0.5, 1.0))),
        "{case}"
    );
    // A run is of itself alone, and an epoch that measures nothing leaves nothing.
    let one = |context: &ReplicaContext| {
        context.add_metric(
            "x",
            Metric {
                sum: 2.0,
                weight: 1.0,
            },
        )?;
        Ok(None)
    };
    strategy.run(&one, None).unwrap();
    let of_run = (Some((2.0 * replicas as f64, replicas as f64)), None);
    assert_eq!((metric("x"), metric("late")), of_run, "{case}");
    iterator.reset().unwrap();
    let nothing: Arc<ReplicaFunction> = Arc::new(|_: &ReplicaContext| Ok(None));
    assert_eq!(run(&nothing).unwrap().steps, 3, "{case}");
    assert_eq!((metric("x"), metric("late")), (None, None), "{case}");
    // In between they are those of the last step, or of the run before.
    let steps = [(6.0, 4.0), (22.0, 4.0), (27.0, 3.0)].map(Some);
    let seen = [&steps[..], &steps, &[of_run.0; 3]].concat();
    assert_eq!(of_steps, seen, "{case}");
}

#[test]
fn metrics_of_an_epoch_are_of_all_its_steps_on_all_ranks() {
    for replicas in 1..=5 {
        measures_an_epoch(&alone(replicas), replicas, &format!("{replicas} replicas"));
    }
    for (size, replicas) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        on_ranks(&ranks(size), replicas, |rank, strategy| {
            let case = format!("rank {rank} of {size}, {replicas} replicas");
            measures_an_epoch(&strategy.unwrap(), size * replicas, &case);
        });
    }
}
