//! Each mistake is called by its name.

use crate::setup::*;

use LossReduction::{GlobalMean, Mean, Sum};

/// A callback that reduces as `written` says, under gradients that are declared as `declared`.
fn reduced(
    replicas: usize,
    count: usize,
    declared: LossReduction,
    written: LossReduction,
) -> Report {
    checked(replicas, declared, &rows(count), |context, gradients| {
        contribute(
            context,
            gradients,
            sum(&part(context)),
            1.0 / divisor(written, context),
        )
    })
}

/// What the check says of a callback that contributes what `contribute` does, and submits.
fn checked(
    replicas: usize,
    declared: LossReduction,
    rows: &[Row],
    contribute: impl Fn(&ReplicaContext, &Arc<Gradients>) -> Result<()> + Send + Sync,
) -> Report {
    let model = Model::new(replicas, declared);
    model.check(&batch_of(rows), |context| {
        contribute(context, &model.gradients)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    })
}

#[test]
fn reductions_other_than_declared() {
    // Two replicas with four examples each; the factor is that on both replicas.
    let table = [
        (
            Mean,
            Sum,
            4.0,
            "4.000 times too large: the callback writes a sum over its examples, UMBO_LOSS_MEAN \
             is declared",
        ),
        (
            Sum,
            Mean,
            1.0 / 4.0,
            "4.000 times too small: the callback writes a mean over its examples, UMBO_LOSS_SUM \
             is declared",
        ),
        (
            GlobalMean,
            Sum,
            8.0,
            "8.000 times too large: the callback writes a sum over its examples, \
             UMBO_LOSS_GLOBAL_MEAN is declared",
        ),
        (
            GlobalMean,
            Mean,
            2.0,
            "2.000 times too large: the callback writes a mean over its examples, \
             UMBO_LOSS_GLOBAL_MEAN is declared",
        ),
        (
            Sum,
            GlobalMean,
            1.0 / 8.0,
            "8.000 times too small: the callback divides by the examples of the global batch, \
             UMBO_LOSS_SUM is declared",
        ),
        (
            Mean,
            GlobalMean,
            1.0 / 2.0,
            "2.000 times too small: the callback divides by the examples of the global batch, \
             UMBO_LOSS_MEAN is declared",
        ),
    ];
    for (declared, written, factor, text) in table {
        let report = reduced(2, 8, declared, written);
        for name in ["w1", "w2"] {
            let finding = of_gradient(&report, name);
            let text = format!("gradient of '{name}': {text}");
            says(&report, finding, Verdict::WrongReduction, &[&text]);
            // The least squares are of float32 sums.
            assert!(
                (finding.factor / factor - 1.0).abs() < 0.06,
                "{}",
                finding.factor
            );
        }
        // Parts of different sizes as well, and empty ones.
        for (replicas, count) in [(3, 10), (4, 9), (5, 8)] {
            let report = reduced(replicas, count, declared, written);
            let finding = of_gradient(&report, "w1");
            let text = format!(
                "UMBO_LOSS_{} is declared",
                ["SUM", "MEAN", "GLOBAL_MEAN"][declared as usize]
            );
            says(&report, finding, Verdict::WrongReduction, &[&text]);
        }
    }
}

#[test]
fn only_the_gradient_that_is_wrong_is_named() {
    let report = checked(2, Mean, &rows(8), |context, gradients| {
        let own = part(context);
        let total = sum(&own);
        let mean = total.map(|element| element / own.len().max(1) as f32);
        write(
            gradients.view_in(context, 0, GradientMode::Overwrite)?,
            &mean,
        );
        write(
            gradients.view_in(context, 1, GradientMode::Overwrite)?,
            &total[..1],
        );
        Ok(())
    });
    assert_eq!(of_gradient(&report, "w1").verdict, Verdict::Equal);
    says(
        &report,
        of_gradient(&report, "w2"),
        Verdict::WrongReduction,
        &["'w2'", "writes a sum"],
    );
    assert!(!report.text.contains("'w1'"), "{}", report.text);
}

/// A gradient that is the same for all examples, as that of an offset often is: replicas that take
/// means, or have equally many examples, then have the same gradient rightly.
#[test]
fn gradients_that_do_not_depend_on_the_example() {
    for (declared, written) in [(Sum, Mean), (Mean, Sum)] {
        let report = checked(2, declared, &rows(8), |context, gradients| {
            let own = part(context);
            let factor = 1.0 / divisor(written, context);
            let weights = sum(&own).map(|element| element * factor);
            write(
                gradients.view_in(context, 0, GradientMode::Overwrite)?,
                &weights,
            );
            let offset = own.len() as f32 * factor;
            write(
                gradients.view_in(context, 1, GradientMode::Overwrite)?,
                &[offset],
            );
            Ok(())
        });
        for name in ["w1", "w2"] {
            says(
                &report,
                of_gradient(&report, name),
                Verdict::WrongReduction,
                &["4.000 times"],
            );
        }
    }
}

/// Right as long as all parts are full, wrong at the end of an epoch.
#[test]
fn a_fixed_divisor() {
    for (declared, fixed) in [(Mean, 4.0), (GlobalMean, 8.0)] {
        let report = checked(2, declared, &rows(8), |context, gradients| {
            contribute(context, gradients, sum(&part(context)), 1.0 / fixed)
        });
        let words = ["divides by a fixed number, such as the rows of a full part"];
        says(
            &report,
            of_gradient(&report, "w1"),
            Verdict::WrongReduction,
            &words,
        );
    }
}

/// A mean of means: right only where all parts are equally large.
#[test]
fn weights_that_are_one_for_each_replica() {
    for declared in [Sum, Mean] {
        let model = Model::new(2, declared);
        let report = model.check(&batch_of(&rows(8)), |context| {
            let factor = 1.0 / divisor(declared, context);
            contribute(context, &model.gradients, sum(&part(context)), factor)?;
            model.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        });
        let words = [
            "1 for 8 examples on one replica, 1 for 6 examples and 1 for 2 examples on two",
            "1 for the empty part of replica 1",
            "each replica counts the same",
            "submit without a weight",
        ];
        says(&report, of_step(&report), Verdict::WrongWeight, &words);
        if declared == Mean {
            let words = ["because the weights do not follow the examples"];
            says(
                &report,
                of_gradient(&report, "w1"),
                Verdict::WrongWeight,
                &words,
            );
        }
    }
    // Also where an empty part submits with 0, and where the split is even.
    let model = Model::new(2, Mean);
    let report = model.check(&batch_of(&rows(8)), |context| {
        let own = part(context);
        contribute(
            context,
            &model.gradients,
            sum(&own),
            1.0 / divisor(Mean, context),
        )?;
        model
            .gradients
            .submit_in(context, Some(if own.is_empty() { 0.0 } else { 1.0 }))?;
        Ok(None)
    });
    says(
        &report,
        of_step(&report),
        Verdict::WrongWeight,
        &["do not follow their examples"],
    );
}

#[test]
fn buffers_that_are_added_to_but_not_zeroed() {
    let model = Model::new(2, Sum);
    let report = model.check(&batch_of(&rows(8)), |context| {
        let total = sum(&part(context));
        add(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &total,
        );
        write(
            model
                .gradients
                .view_in(context, 1, GradientMode::Overwrite)?,
            &total[..1],
        );
        model.gradients.submit_in(context, None)?;
        Ok(None)
    });
    let finding = of_gradient(&report, "w1");
    let words = [
        "3 elements of replica 0's buffer, element [0] first, are added to",
        "UMBO_GRADIENT_ADD",
    ];
    says(&report, finding, Verdict::NotOverwritten, &words);
    assert_eq!(finding.element, Some(0));
    assert_eq!(of_gradient(&report, "w2").verdict, Verdict::Equal);
}

#[test]
fn buffers_that_are_not_written_in_full() {
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let total = sum(&part(context));
        let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        write(&buffer.slice(0, 0, 2, 1)?, &total[..2]);
        // An empty part may leave its buffer as it is.
        if total != [0.0; 3] {
            write(
                gradients.view_in(context, 1, GradientMode::Overwrite)?,
                &total[..1],
            );
        }
        Ok(())
    });
    let finding = of_gradient(&report, "w1");
    let words = [
        "element [2] of replica 0's buffer is not written",
        "UMBO_GRADIENT_OVERWRITE",
    ];
    says(&report, finding, Verdict::NotOverwritten, &words);
    assert_eq!(finding.element, Some(2));
    assert_eq!(
        of_gradient(&report, "w2").verdict,
        Verdict::Equal,
        "{}",
        report.text
    );
}

/// Only some rows are written, and which ones depends on the part.
#[test]
fn a_leak_that_shows_on_several_replicas_only() {
    let report = checked(2, Sum, &rows(6), |context, gradients| {
        let first = context.batch_position().first_example as usize;
        let own = part(context);
        let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        for (place, row) in own.iter().enumerate() {
            let element = (first + place) / 2;
            write(&buffer.slice(0, element, element + 1, 1)?, &row[..1]);
        }
        write(
            gradients.view_in(context, 1, GradientMode::Overwrite)?,
            &[own.len() as f32],
        );
        Ok(())
    });
    let words = ["element [2] of replica 0's buffer is not written"];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::NotOverwritten,
        &words,
    );
}

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
        let own = &whole[..part(context).len()];
        contribute(context, gradients, sum(own), 1.0)
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
        let own = part(context);
        let kept = own
            .iter()
            .enumerate()
            .filter(|(row, _)| (row * 5 + call * 3) % 7 < 4);
        let kept: Vec<Row> = kept.map(|(_, row)| *row).collect();
        contribute(context, gradients, sum(&kept), 1.0)?;
        context.add_metric(
            "kept",
            Metric {
                sum: kept.len() as f64,
                weight: own.len() as f64,
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
        let own = part(context);
        let mut total = sum(&own);
        if context.replica() == 1 && !own.is_empty() {
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
        let own = part(context);
        let kept = own.iter().enumerate().filter(|(row, _)| row % 3 != 0);
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
fn regularisers_of_each_replica() {
    for (declared, replicas) in [(Sum, 2), (Sum, 4), (GlobalMean, 3)] {
        let report = checked(replicas, declared, &rows(10), |context, gradients| {
            let factor = 1.0 / divisor(declared, context);
            let mut total = sum(&part(context)).map(|element| element * factor);
            total[1] += 0.25;
            contribute(context, gradients, total, 1.0)
        });
        let finding = of_gradient(&report, "w1");
        let words = [
            "does not depend on its examples",
            "2.5000",
            "in element [1]",
            "optimizer",
        ];
        says(&report, finding, Verdict::TermPerReplica, &words);
        assert_eq!(
            of_gradient(&report, "w2").verdict,
            Verdict::Equal,
            "{}",
            report.text
        );
    }
}

#[test]
fn clipping_of_each_replica() {
    let report = checked(3, Sum, &rows(10), |context, gradients| {
        let total = sum(&part(context));
        let norm = total
            .iter()
            .map(|element| element * element)
            .sum::<f32>()
            .sqrt();
        contribute(context, gradients, total, (1.0 / norm).min(1.0))
    });
    let words = ["clipping before the sum over replicas"];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::Different,
        &words,
    );
    assert!(
        !report.text.contains("relative_tolerance"),
        "{}",
        report.text
    );
}

#[test]
fn gradients_that_one_replica_alone_writes() {
    let report = checked(3, Sum, &rows(9), |context, gradients| {
        let total = sum(&part(context));
        write(
            gradients.view_in(context, 0, GradientMode::Overwrite)?,
            &total,
        );
        if context.replica() == 0 {
            write(
                gradients.view_in(context, 1, GradientMode::Overwrite)?,
                &total[..1],
            );
        }
        Ok(())
    });
    assert_eq!(of_gradient(&report, "w1").verdict, Verdict::Equal);
    let words = [
        "replicas 1, 2 have examples and do not write it",
        "only replicas 0 do",
    ];
    says(
        &report,
        of_gradient(&report, "w2"),
        Verdict::PartlyWritten,
        &words,
    );
}

/// That is no difference, but worth a word.
#[test]
fn gradients_that_nobody_writes() {
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let total = sum(&part(context));
        write(
            gradients.view_in(context, 0, GradientMode::Overwrite)?,
            &total,
        );
        Ok(())
    });
    assert!(report.equivalent);
    assert_eq!(of_gradient(&report, "w2").verdict, Verdict::NotWritten);
    assert!(
        report.text.contains("'w2': no replica writes it"),
        "{}",
        report.text
    );
}

#[test]
fn replicas_that_do_not_submit() {
    let run = |submits: &(dyn Fn(&ReplicaContext, usize) -> bool + Sync)| {
        let model = Model::new(2, Sum);
        model.check(&batch_of(&rows(8)), |context| {
            let own = part(context);
            if submits(context, own.len()) {
                contribute(context, &model.gradients, sum(&own), 1.0)?;
                model.gradients.submit_in(context, None)?;
            }
            Ok(None)
        })
    };
    let report = run(&|_, count| count > 0);
    let words = ["replica 1 does not submit its gradients when its part is empty"];
    says(&report, of_step(&report), Verdict::NotSubmitted, &words);
    // The rest is judged all the same.
    assert_eq!(of_gradient(&report, "w1").verdict, Verdict::Equal);
    let report = run(&|context, _| context.replica() == 0);
    let words = ["replica 1 does not submit its gradients when its part has 4 examples"];
    says(&report, of_step(&report), Verdict::NotSubmitted, &words);
    let report = run(&|_, _| false);
    says(
        &report,
        of_step(&report),
        Verdict::NotSubmitted,
        &["no replica submits"],
    );
}

#[test]
fn callbacks_that_cannot_do_with_an_empty_part() {
    let report = checked(2, Sum, &rows(8), |context, gradients| {
        let own = part(context);
        if own.is_empty() {
            return Err(Error::invalid("rows", "none at all"));
        }
        contribute(context, gradients, sum(&own), 1.0)
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
fn numbers_that_are_not_finite() {
    let model = Model::new(2, Mean);
    let report = model.check(&batch_of(&rows(8)), |context| {
        let own = part(context);
        let count = own.len() as f32;
        let mean = sum(&own).map(|element| element / count);
        write(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &mean,
        );
        // Weight 1 also where the mean is NaN.
        let weight = own.len().max(1) as f64;
        context.add_metric(
            "loss",
            Metric {
                sum: f64::from(mean[0]) * weight,
                weight,
            },
        )?;
        model.gradients.submit_in(context, Some(weight))?;
        Ok(None)
    });
    let words = ["element [0] is NaN on replica 1, whose part has 0 examples"];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::NotFinite,
        &words,
    );
    let words = [
        "a part of 0 examples adds NaN with weight 1",
        "add 0 with weight 0",
    ];
    says(
        &report,
        of_metric(&report, "loss"),
        Verdict::NotFinite,
        &words,
    );
}

#[test]
fn metrics_with_wrong_weights_and_sums() {
    let model = Model::new(3, Sum);
    let report = model.check(&batch_of(&rows(10)), |context| {
        let own = part(context);
        let count = own.len() as f64;
        let sum = own.iter().map(|row| f64::from(row[0])).sum::<f64>();
        if !own.is_empty() {
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
        let spread = own.iter().map(|row| f64::from(row[0])).fold(0.0, f64::max);
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
        &["no sum over examples"],
    );
    assert_eq!(of_metric(&report, "right").verdict, Verdict::Equal);
    assert_eq!(of_metric(&report, "rate").verdict, Verdict::Equal);
}
