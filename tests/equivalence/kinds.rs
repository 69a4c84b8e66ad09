//! Metrics of every kind, those of metrics objects and those of a step: with right weights and
//! sums, and with the mistakes that one can make, on one replica and on several. What the check
//! adds is taken out again.

use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::LossReduction::Sum;

use crate::setup::*;

/// How a callback adds to a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Adds {
    /// What its examples are.
    Right,
    /// As if there were one example in each part.
    OnePerReplica,
    /// A mean where a sum belongs.
    MeanAsSum,
    /// What depends on which examples a replica has.
    Place,
}

const WAYS: [Adds; 4] = [
    Adds::Right,
    Adds::OnePerReplica,
    Adds::MeanAsSum,
    Adds::Place,
];

fn kinds() -> Vec<MetricKind> {
    vec![
        MetricKind::Sum,
        MetricKind::Mean,
        MetricKind::Count,
        MetricKind::Accuracy { classes: None },
        MetricKind::SquaredError,
        MetricKind::top_k(1).unwrap(),
        MetricKind::confusion(3).unwrap(),
        MetricKind::auc(64, -2.0, 4.0).unwrap(),
    ]
}

/// What is to be said, `None` if this mistake cannot be made with such a metric.
fn expected(kind: MetricKind, adds: Adds) -> Option<Verdict> {
    Some(match (kind, adds) {
        (_, Adds::Right) => Verdict::Equal,
        (MetricKind::Sum, Adds::OnePerReplica | Adds::MeanAsSum) => Verdict::WrongReduction,
        (MetricKind::Count, Adds::OnePerReplica) => Verdict::WrongReduction,
        (MetricKind::Mean, Adds::MeanAsSum) => Verdict::WrongReduction,
        (
            MetricKind::Mean
            | MetricKind::Accuracy { .. }
            | MetricKind::TopK { .. }
            | MetricKind::SquaredError,
            Adds::OnePerReplica,
        ) => Verdict::WrongWeight,
        (MetricKind::Confusion { .. } | MetricKind::Auc { .. }, Adds::OnePerReplica) => {
            Verdict::WrongWeight
        }
        (
            MetricKind::Mean
            | MetricKind::Sum
            | MetricKind::Confusion { .. }
            | MetricKind::Auc { .. },
            Adds::Place,
        ) => Verdict::Different,
        _ => return None,
    })
}

/// Whether the model is right about a row, and what it predicts.
fn predicted(row: &Row) -> (i64, i64) {
    let label = i64::from(row[1] > 0.0);
    (if row[0] > 1.2 { label } else { 2 }, label)
}

/// Adds what was predicted for one example: a class, or a score.
fn add_one<T: Element>(
    metrics: &Arc<Metrics>,
    context: &ReplicaContext,
    predicted: T,
    label: i64,
) -> Result<()> {
    let one = Shape::new(&[1])?;
    let predicted = Tensor::from_slice(&[predicted], one, DeviceId::HOST)?;
    let label = Tensor::from_slice(&[label], one, DeviceId::HOST)?;
    metrics.add_labels_in(context, "checked", &predicted.reading()?, &label.reading()?)
}

/// Adds the scores of three classes for some examples, each with the label of its class.
fn add_scores(metrics: &Arc<Metrics>, context: &ReplicaContext, examples: &[Row]) -> Result<()> {
    let scores: Vec<f32> = examples
        .iter()
        .flat_map(|row| [0, 1, 2].map(|class| f32::from(u8::from(class == predicted(row).0))))
        .collect();
    let labels: Vec<i64> = examples.iter().map(|row| predicted(row).1).collect();
    let count = labels.len();
    let scores = Tensor::from_slice(&scores, Shape::new(&[count, 3])?, DeviceId::HOST)?;
    let labels = Tensor::from_slice(&labels, Shape::new(&[count])?, DeviceId::HOST)?;
    metrics.add_labels_in(context, "checked", &scores.reading()?, &labels.reading()?)
}

/// Adds the first number of each example as a prediction of the second.
fn add_numbers(metrics: &Arc<Metrics>, context: &ReplicaContext, examples: &[Row]) -> Result<()> {
    let column = |index: usize| -> Result<Tensor> {
        let numbers: Vec<f32> = examples.iter().map(|row| row[index]).collect();
        Tensor::from_slice(&numbers, Shape::new(&[numbers.len()])?, DeviceId::HOST)
    };
    let [predicted, targets] = [column(0)?, column(1)?];
    metrics.add_labels_in(
        context,
        "checked",
        &predicted.reading()?,
        &targets.reading()?,
    )
}

fn add_to(
    metrics: &Arc<Metrics>,
    context: &ReplicaContext,
    kind: MetricKind,
    adds: Adds,
) -> Result<()> {
    let rows = part(context);
    if rows.is_empty() {
        return Ok(());
    }
    let count = rows.len() as f64;
    let number = |row: &Row| f64::from(row[0] + row[1]);
    let sum: f64 = rows.iter().map(number).sum();
    let hits = rows
        .iter()
        .map(predicted)
        .filter(|(predicted, label)| predicted == label)
        .count();
    let taken = if adds == Adds::OnePerReplica {
        &rows[..1]
    } else {
        &rows[..]
    };
    let shift = if adds == Adds::Place {
        context.replica() as i64
    } else {
        0
    };
    match (kind, adds) {
        (MetricKind::Sum | MetricKind::Mean, Adds::Right) => {
            metrics.add_in(context, "checked", sum, count)
        }
        (MetricKind::Sum | MetricKind::Mean, Adds::OnePerReplica) => {
            metrics.add_in(context, "checked", sum / count, 1.0)
        }
        (MetricKind::Sum | MetricKind::Mean, Adds::MeanAsSum) => {
            metrics.add_in(context, "checked", sum / count, count)
        }
        (MetricKind::Sum | MetricKind::Mean, Adds::Place) => {
            metrics.add_in(context, "checked", sum + shift as f64, count)
        }
        (MetricKind::Count, Adds::OnePerReplica) => metrics.add_in(context, "checked", 1.0, 0.0),
        (MetricKind::Count, _) => metrics.add_in(context, "checked", count, 0.0),
        (MetricKind::Accuracy { .. }, Adds::OnePerReplica) => {
            metrics.add_in(context, "checked", f64::from(2 * hits > rows.len()), 1.0)
        }
        (MetricKind::Accuracy { .. }, _) => metrics.add_in(context, "checked", hits as f64, count),
        (MetricKind::TopK { .. }, _) => add_scores(metrics, context, taken),
        (MetricKind::SquaredError, _) => add_numbers(metrics, context, taken),
        (MetricKind::Confusion { .. }, _) => taken.iter().try_for_each(|row| {
            let (predicted, label) = predicted(row);
            add_one(metrics, context, (predicted + shift) % 3, label)
        }),
        (MetricKind::Auc { .. }, _) => taken.iter().try_for_each(|row| {
            let score = f64::from(row[0]) - shift as f64;
            add_one(metrics, context, score, i64::from(row[1] > 0.0))
        }),
    }
}

#[test]
fn every_kind_and_every_mistake_on_every_number_of_replicas() {
    for replicas in 1..=4 {
        for kind in kinds() {
            for adds in WAYS {
                let Some(expected) = expected(kind, adds) else {
                    continue;
                };
                let model = Model::new(replicas, Sum);
                // One object beside others, and an entry that nobody adds to.
                let others = Metrics::new(&model.strategy);
                let metrics = Metrics::new(&model.strategy);
                others.define("checked", MetricKind::Mean).unwrap();
                metrics.define("unused", MetricKind::Mean).unwrap();
                metrics.define("checked", kind).unwrap();
                let step = |context: &ReplicaContext| {
                    add_to(&metrics, context, kind, adds)?;
                    let weight = part(context).len() as f64;
                    others.add_in(context, "checked", 0.5 * weight, weight)?;
                    context.add_metric(
                        "checked",
                        Metric {
                            sum: weight,
                            weight,
                        },
                    )?;
                    Ok(None)
                };
                // What has been accumulated before stays, bit by bit.
                let data = batch_of(&rows(8 * replicas));
                let sizes = vec![8; replicas];
                let split = umbo_core::input::split_rows(
                    &data,
                    0,
                    &sizes,
                    model.strategy.replica_devices(),
                );
                let once = split.unwrap();
                model.strategy.run(&step, Some(once.clone())).unwrap();
                let before = (metrics.export().unwrap(), others.export().unwrap());
                let before_check = model.strategy.metric("checked");
                let options = CheckOptions::default();
                let report =
                    check(&model.strategy, &step, &batch_of(&rows(11)), None, &options).unwrap();
                let case = format!("{kind:?}, {adds:?}, {replicas} replicas: {}", report.text);
                assert_eq!(
                    (metrics.export().unwrap(), others.export().unwrap()),
                    before,
                    "{case}"
                );
                assert_eq!(model.strategy.metric("checked"), before_check, "{case}");
                let is_of_metric = |subject: &Subject| match subject {
                    Subject::Metric { name } => name == "checked",
                    _ => false,
                };
                let found: Vec<Verdict> = report
                    .findings
                    .iter()
                    .filter(|finding| is_of_metric(&finding.subject))
                    .map(|finding| finding.verdict)
                    .collect();
                let seen = if replicas == 1 {
                    Verdict::Equal
                } else {
                    expected
                };
                assert_eq!(found, [Verdict::Equal, Verdict::Equal, seen], "{case}");
                assert_eq!(report.equivalent, seen == Verdict::Equal, "{case}");
                // And the next step adds to it as if there had been no check.
                model.strategy.run(&step, Some(once)).unwrap();
                let twice = metrics.export().unwrap();
                assert_eq!(twice.len(), before.0.len());
                assert_ne!(twice, before.0, "{case}");
            }
        }
    }
}
