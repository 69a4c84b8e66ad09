//! Callbacks that are right, however odd.

use crate::setup::*;

const REDUCTIONS: [LossReduction; 3] = [
    LossReduction::Sum,
    LossReduction::Mean,
    LossReduction::GlobalMean,
];

fn loss(rows: &[Row]) -> Metric {
    let sum: f32 = rows.iter().map(|row| row[0] * row[0]).sum();
    Metric {
        sum: f64::from(sum),
        weight: rows.len() as f64,
    }
}

#[test]
fn each_loss_reduction_on_several_numbers_of_replicas_and_examples() {
    for reduction in REDUCTIONS {
        for (replicas, count) in [(1, 4), (2, 3), (2, 8), (3, 10), (4, 9), (5, 100)] {
            let model = Model::new(replicas, reduction);
            let report = model.check(&batch_of(&rows(count)), |context| {
                let rows = part(context);
                let factor = 1.0 / divisor(reduction, context);
                contribute(context, &model.gradients, sum(&rows), factor)?;
                context.add_metric("loss", loss(&rows))?;
                model.gradients.submit_in(context, None)?;
                Ok(None)
            });
            is_equivalent(&report);
            assert_eq!(report.findings.len(), 3, "{}", report.text);
        }
    }
}

/// Weights that are not examples: each row counts as often as it says.
#[test]
fn weights_other_than_examples() {
    let tokens = |rows: &[Row]| {
        rows.iter()
            .map(|row| f64::from(row[0].floor()))
            .sum::<f64>()
    };
    for reduction in [LossReduction::Sum, LossReduction::Mean] {
        let model = Model::new(3, reduction);
        let report = model.check(&batch_of(&rows(11)), |context| {
            let rows = part(context);
            let weight = tokens(&rows);
            let divisor = if reduction == LossReduction::Mean {
                weight.max(1.0)
            } else {
                1.0
            };
            contribute(context, &model.gradients, sum(&rows), 1.0 / divisor as f32)?;
            let metric = loss(&rows);
            context.add_metric(
                "loss",
                Metric {
                    sum: metric.sum,
                    weight,
                },
            )?;
            model.gradients.submit_in(context, Some(weight))?;
            Ok(None)
        });
        is_equivalent(&report);
    }
}

/// Terms that all but cancel within each part, in float32: what is left of them is rounding, which
/// depends on the order of the additions.
#[test]
fn sums_that_all_but_cancel() {
    let model = Model::new(4, LossReduction::Sum);
    let rows: Vec<Row> = (0..64)
        .map(|row: usize| {
            let part = row / 16;
            let place = row % 16;
            let number = |place: usize| 1e5 * (((part * 8 + place) as f32).sin() + 1.1);
            [
                if place < 8 {
                    number(place)
                } else {
                    1e-3 - number(place * 3 % 8)
                },
                1.0,
            ]
        })
        .collect();
    let sums = Mutex::new(Vec::new());
    let report = model.check(&batch_of(&rows), |context| {
        let rows = part(context);
        let sum = rows.iter().fold(0.0f32, |sum, row| sum + row[0]);
        sums.lock()
            .unwrap()
            .push((rows.len(), context.replica(), sum));
        write(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &[0.0f32; 3],
        );
        write(
            model
                .gradients
                .view_in(context, 1, GradientMode::Overwrite)?,
            &[sum],
        );
        model.gradients.submit_in(context, None)?;
        Ok(None)
    });
    is_equivalent(&report);
    // The test is worth something only if the results do differ, and needed a second look.
    let sums = sums.lock().unwrap();
    assert_eq!(sums.len(), 4 * (6 + 16));
    let sum_of = |count, replica| {
        sums.iter()
            .find(|sum| (sum.0, sum.1) == (count, replica))
            .map(|sum| sum.2)
            .unwrap()
    };
    let whole = sum_of(64, 0);
    let parts = (0..4).map(|replica| sum_of(16, replica)).sum::<f32>();
    assert!(
        (whole - parts).abs() > 0.01 * whole.abs(),
        "{whole} and {parts}"
    );
}

/// A loss with a sign, summed in float32, whose sum is little beside its terms.
#[test]
fn metrics_that_all_but_cancel() {
    let strategy = strategy(4);
    let rows: Vec<Row> = (0..64)
        .map(|row: usize| {
            let number = |place: usize| 1e5 * ((place as f32).sin() + 1.1);
            [
                if row % 16 < 8 {
                    number(row % 8)
                } else {
                    1e-3 - number(row * 3 % 8)
                },
                1.0,
            ]
        })
        .collect();
    let step = |context: &ReplicaContext| {
        let rows = part(context);
        let sum = rows.iter().fold(0.0f32, |sum, row| sum + row[0]);
        context.add_metric(
            "error",
            Metric {
                sum: f64::from(sum),
                weight: rows.len() as f64,
            },
        )?;
        Ok(None)
    };
    let batch = batch_of(&rows);
    let strict = CheckOptions {
        relative_tolerance: Some(1e-12),
        absolute_tolerance: 0.0,
    };
    let report = check(&strategy, &step, &batch, None, &strict).unwrap();
    assert!(
        of_metric(&report, "error").difference > 0.01,
        "{}",
        report.text
    );
    is_equivalent(&check(&strategy, &step, &batch, None, &CheckOptions::default()).unwrap());
}

/// Gradients so small that float16 has only a few numbers of their size.
#[test]
fn gradients_near_the_smallest_numbers() {
    for reduction in REDUCTIONS {
        for (replicas, count) in [(2, 9), (3, 10), (4, 40)] {
            let model = Model::of_dtype(replicas, reduction, Some(DType::Float16));
            let report = model.check(&batch_of(&rows(count)), |context| {
                let factor = 1e-6 / divisor(reduction, context);
                contribute(context, &model.gradients, sum(&part(context)), factor)?;
                model.gradients.submit_in(context, None)?;
                Ok(None)
            });
            is_equivalent(&report);
        }
    }
}

#[test]
fn variables_that_only_some_replicas_write() {
    let model = Model::new(2, LossReduction::Sum);
    // Only the last row has a gradient for w2, so only the last replica writes it.
    let report = model.check(&batch_of(&rows(6)), |context| {
        let place = context.batch_position();
        let rows = part(context);
        let first = place.first_example;
        let end = place.first_example + rows.len() as u64;
        write(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &sum(&rows),
        );
        if (first..end).contains(&5) {
            write(
                model
                    .gradients
                    .view_in(context, 1, GradientMode::Overwrite)?,
                &[3.0f32],
            );
        }
        model.gradients.submit_in(context, None)?;
        Ok(None)
    });
    is_equivalent(&report);
}

#[test]
fn float64_and_metrics_alone() {
    let strategy = strategy(3);
    let variable = variable(&strategy, "w", &[0.0f64; 2]);
    let gradients = Gradients::new(
        strategy.id(),
        strategy.replica_devices(),
        vec![variable],
        LossReduction::Mean,
        Default::default(),
    );
    let gradients = gradients.unwrap();
    let step = |context: &ReplicaContext| {
        let rows = part(context);
        let mean = |column: usize| {
            rows.iter().map(|row| f64::from(row[column])).sum::<f64>() / rows.len() as f64
        };
        context.add_metric("loss", loss(&rows))?;
        // Without examples this is NaN, with weight 0.
        write(
            gradients.view_in(context, 0, GradientMode::Overwrite)?,
            &[mean(0), mean(1)],
        );
        gradients.submit_in(context, None)?;
        Ok(None)
    };
    let batch = batch_of(&rows(10));
    let report = check(
        &strategy,
        &step,
        &batch,
        Some(&gradients),
        &CheckOptions::default(),
    )
    .unwrap();
    is_equivalent(&report);
    assert!(
        report
            .text
            .contains("1 replica and 3, on 4 + 4 + 2 examples"),
        "{}",
        report.text
    );
    let evaluate = |context: &ReplicaContext| {
        context.add_metric("loss", loss(&part(context)))?;
        Ok(None)
    };
    let report = check(&strategy, &evaluate, &batch, None, &CheckOptions::default()).unwrap();
    is_equivalent(&report);
    assert_eq!(report.findings.len(), 1);
}
