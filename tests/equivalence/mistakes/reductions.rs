//! Mistakes in the reduction of losses: other sums, divisors and weights than declared.

use super::*;

#[test]
fn reductions_other_than_declared() {
    // Two replicas with four examples each; the factor is that on both replicas.
    let table = [
        (
            Mean,
            Sum,
            4.0,
            "4.000 times too large: the callback writes a sum over its examples, but the loss \
             reduction MEAN is declared",
        ),
        (
            Sum,
            Mean,
            1.0 / 4.0,
            "4.000 times too small: the callback writes a mean over its examples, but the loss \
             reduction SUM is declared",
        ),
        (
            GlobalMean,
            Sum,
            8.0,
            "8.000 times too large: the callback writes a sum over its examples, but the loss \
             reduction GLOBAL_MEAN is declared",
        ),
        (
            GlobalMean,
            Mean,
            2.0,
            "2.000 times too large: the callback writes a mean over its examples, but the loss \
             reduction GLOBAL_MEAN is declared",
        ),
        (
            Sum,
            GlobalMean,
            1.0 / 8.0,
            "8.000 times too small: the callback divides by the examples of the global batch, \
             but the loss reduction SUM is declared",
        ),
        (
            Mean,
            GlobalMean,
            1.0 / 2.0,
            "2.000 times too small: the callback divides by the examples of the global batch, \
             but the loss reduction MEAN is declared",
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
                "the loss reduction {} is declared",
                ["SUM", "MEAN", "GLOBAL_MEAN"][declared as usize]
            );
            says(&report, finding, Verdict::WrongReduction, &[&text]);
        }
    }
}

#[test]
fn only_the_gradient_that_is_wrong_is_named() {
    let report = checked(2, Mean, &rows(8), |context, gradients| {
        let rows = part(context);
        let total = sum(&rows);
        let mean = total.map(|element| element / rows.len().max(1) as f32);
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
            let rows = part(context);
            let factor = 1.0 / divisor(written, context);
            let weights = sum(&rows).map(|element| element * factor);
            write(
                gradients.view_in(context, 0, GradientMode::Overwrite)?,
                &weights,
            );
            let offset = rows.len() as f32 * factor;
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
            "each replica has the same weight",
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
        let rows = part(context);
        contribute(
            context,
            &model.gradients,
            sum(&rows),
            1.0 / divisor(Mean, context),
        )?;
        model
            .gradients
            .submit_in(context, Some(if rows.is_empty() { 0.0 } else { 1.0 }))?;
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
