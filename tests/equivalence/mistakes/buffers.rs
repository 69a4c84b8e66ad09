//! Mistakes in writing and submitting the buffers of gradients.

use super::*;

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
        "with ADD, which zeroes it",
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
        "viewed with OVERWRITE",
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
        let rows = part(context);
        let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        for (place, row) in rows.iter().enumerate() {
            let element = (first + place) / 2;
            write(&buffer.slice(0, element, element + 1, 1)?, &row[..1]);
        }
        write(
            gradients.view_in(context, 1, GradientMode::Overwrite)?,
            &[rows.len() as f32],
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
            let rows = part(context);
            if submits(context, rows.len()) {
                contribute(context, &model.gradients, sum(&rows), 1.0)?;
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
fn numbers_that_are_not_finite() {
    let model = Model::new(2, Mean);
    let report = model.check(&batch_of(&rows(8)), |context| {
        let rows = part(context);
        let count = rows.len() as f32;
        let mean = sum(&rows).map(|element| element / count);
        write(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &mean,
        );
        // Weight 1 also where the mean is NaN.
        let weight = rows.len().max(1) as f64;
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
