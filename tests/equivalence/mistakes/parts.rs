//! Mistakes in what a replica computes of its part of a batch.

use super::*;

#[test]
fn replicas_that_all_compute_the_whole_batch() {
    let whole = rows(8);
    for declared in [Sum, GlobalMean] {
        let model = Model::new(4, declared);
        let report = model.check(&batch_of(&whole), |context| {
            let factor = if declared == Sum { 1.0 } else { 1.0 / 8.0 };
            contribute(context, &model.gradients, sum(&whole), factor)?;
            model.gradients.submit_in(context, None)?;
            Ok(None)
        });
        let finding = of_gradient(&report, "w1");
        let words =
            ["4.000 times too large: each replica contributes the gradient of the whole batch"];
        says(&report, finding, Verdict::WholeBatch, &words);
        assert!((finding.factor - 4.0).abs() < 1e-5);
    }
}

#[test]
fn replicas_that_all_read_the_first_rows() {
    let whole = rows(8);
    let report = checked(4, Sum, &whole, |context, gradients| {
        let rows = &whole[..part(context).len()];
        contribute(context, gradients, sum(rows), 1.0)
    });
    let words = ["replicas 0 and 1 have different examples and the very same gradient"];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::SameExamples,
        &words,
    );
}

#[test]
fn random_numbers_that_are_not_keyed() {
    let calls = [const { AtomicUsize::new(0) }; 3];
    let report = checked(3, Sum, &rows(9), |context, gradients| {
        let call = calls[context.replica()].fetch_add(1, Ordering::Relaxed);
        let rows = part(context);
        let kept = rows
            .iter()
            .enumerate()
            .filter(|(row, _)| (row * 5 + call * 3) % 7 < 4);
        let kept: Vec<Row> = kept.map(|(_, row)| *row).collect();
        contribute(context, gradients, sum(&kept), 1.0)?;
        context.add_metric(
            "kept",
            Metric {
                sum: kept.len() as f64,
                weight: rows.len() as f64,
            },
        )?;
        Ok(())
    });
    let words = [
        "two runs with the same examples differ",
        "of replica 0",
        "not keyed by example",
    ];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::NotRepeatable,
        &words,
    );
    says(
        &report,
        of_metric(&report, "kept"),
        Verdict::NotRepeatable,
        &["two runs"],
    );
}

/// What a race does, without one: replicas other than 0 find another value each time.

#[test]
fn memory_that_replicas_share() {
    let shared = AtomicUsize::new(0);
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let rows = part(context);
        let mut total = sum(&rows);
        if context.replica() == 1 && !rows.is_empty() {
            total[0] += shared.fetch_add(1, Ordering::Relaxed) as f32;
        }
        contribute(context, gradients, total, 1.0)
    });
    let words = [
        "element [0] of replica 1",
        "on several replicas and not on one",
        "share",
    ];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::NotRepeatable,
        &words,
    );
}

#[test]
fn masks_keyed_by_the_row_in_the_part() {
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let rows = part(context);
        let kept = rows.iter().enumerate().filter(|(row, _)| row % 3 != 0);
        let kept: Vec<Row> = kept.map(|(_, row)| *row).collect();
        contribute(context, gradients, sum(&kept), 1.0)
    });
    let words = [
        "on one replica",
        "with 4 + 4 examples on 2",
        "keyed by the row in the part",
        "statistics",
    ];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::Different,
        &words,
    );
    assert!(of_gradient(&report, "w1").difference > 0.01);
}

/// Weight decay in the callback, which counts once for each replica.

#[test]
fn callbacks_that_cannot_do_with_an_empty_part() {
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let rows = part(context);
        if rows.is_empty() {
            return Err(Error::invalid("rows", "none at all"));
        }
        contribute(context, gradients, sum(&rows), 1.0)
    });
    let device = strategy(2).replica_devices()[1];
    let words = [
        "fails with all 8 examples on replica 0 and empty parts on the others",
        "replica 1 (",
        &format!("({device}): INVALID_ARGUMENT: rows: none at all"),
    ];
    says(&report, of_step(&report), Verdict::Failed, &words);
    assert_eq!(report.findings.len(), 1, "once is enough: {}", report.text);
}

#[test]
fn metrics_with_wrong_weights_and_sums() {
    let model = Model::new(3, Sum);
    let report = model.check(&batch_of(&rows(10)), |context| {
        let rows = part(context);
        let count = rows.len() as f64;
        let sum = rows.iter().map(|row| f64::from(row[0])).sum::<f64>();
        if !rows.is_empty() {
            context.add_metric(
                "mean of means",
                Metric {
                    sum: sum / count,
                    weight: 1.0,
                },
            )?;
        }
        context.add_metric(
            "mean as sum",
            Metric {
                sum: sum / count.max(1.0),
                weight: count,
            },
        )?;
        context.add_metric("right", Metric { sum, weight: count })?;
        let spread = rows.iter().map(|row| f64::from(row[0])).fold(0.0, f64::max);
        context.add_metric(
            "largest",
            Metric {
                sum: spread,
                weight: count,
            },
        )?;
        context.add_metric(
            "rate",
            Metric {
                sum: 0.5,
                weight: 1.0,
            },
        )?;
        Ok(None)
    });
    let words = [
        "added with weight 1 for 4 examples and with 1 for all 10",
        "not examples",
    ];
    says(
        &report,
        of_metric(&report, "mean of means"),
        Verdict::WrongWeight,
        &words,
    );
    let words = ["adds a mean with the number of its examples"];
    says(
        &report,
        of_metric(&report, "mean as sum"),
        Verdict::WrongReduction,
        &words,
    );
    assert!(of_metric(&report, "mean as sum").difference > 0.1);
    says(
        &report,
        of_metric(&report, "largest"),
        Verdict::Different,
        &["not a sum over examples"],
    );
    assert_eq!(of_metric(&report, "right").verdict, Verdict::Equal);
    assert_eq!(of_metric(&report, "rate").verdict, Verdict::Equal);
}
