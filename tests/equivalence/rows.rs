//! Row-sparse gradients: a table counts as the sum of the rows that were added to it.

use crate::setup::*;

const ROWS: usize = 5;

/// A table of one column, to which every example adds two rows.
fn model(reduction: LossReduction) -> Model {
    let strategy = strategy(2);
    let shape = Shape::new(&[ROWS, 1]).unwrap();
    let new = crate::fresh::new_variable("table", Aggregation::None);
    let initial = Tensor::from_slice(&[0.0f32; ROWS], shape, DeviceId::HOST).unwrap();
    let table = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
    let options = GradientsOptions {
        row_sparse: &[true],
        ..Default::default()
    };
    let devices = strategy.replica_devices();
    let gradients =
        Gradients::new(strategy.id(), devices, vec![table], reduction, options).unwrap();
    Model {
        strategy,
        gradients,
    }
}

fn contribute_rows(context: &ReplicaContext, gradients: &Arc<Gradients>) -> Result<()> {
    let rows = part(context);
    let added = gradients.add_rows_in(context, 0, 2 * rows.len())?;
    let named = rows
        .iter()
        .flat_map(|row| [(row[0] * 7.0) as i64 % ROWS as i64, 3]);
    write(&added.indices, &named.collect::<Vec<i64>>());
    write(&added.values, rows.as_flattened());
    gradients.submit_in(context, None)
}

#[test]
fn rows_are_compared_as_what_they_add_up_to() {
    let model = model(LossReduction::Sum);
    let report = model.check(&batch_of(&rows(8)), |context| {
        contribute_rows(context, &model.gradients)?;
        Ok(None)
    });
    assert!(report.equivalent, "{}", report.text);
}

#[test]
fn a_sum_over_rows_is_no_mean() {
    let model = model(LossReduction::Mean);
    let report = model.check(&batch_of(&rows(8)), |context| {
        contribute_rows(context, &model.gradients)?;
        Ok(None)
    });
    assert!(!report.equivalent);
    let text = report.text;
    assert!(
        text.contains("'table'") && text.contains("4.000 times too large"),
        "{text}"
    );
}

/// What one callback gets wrong in a table: each replica adds rows, of which those of replica 1 are
/// named by `index`, and submits with `weight`, if it does.
fn checked_with(
    index: impl Fn(i64) -> i64 + Send + Sync,
    weight: impl Fn(&ReplicaContext, usize) -> Option<f64> + Send + Sync,
) -> Report {
    let model = model(LossReduction::Sum);
    model.check(&batch_of(&rows(8)), |context| {
        let rows = part(context);
        let added = model.gradients.add_rows_in(context, 0, rows.len())?;
        let place = |at: usize| (context.batch_position().first_example as usize + at) % ROWS;
        let named = (0..rows.len()).map(|at| match context.replica() {
            1 => index(place(at) as i64),
            _ => place(at) as i64,
        });
        write(&added.indices, &named.collect::<Vec<i64>>());
        write(
            &added.values,
            &rows.iter().map(|row| row[0]).collect::<Vec<f32>>(),
        );
        if let Some(weight) = weight(context, rows.len()) {
            model.gradients.submit_in(context, Some(weight))?;
        }
        Ok(None)
    })
}

/// Nobody checks the indices of rows that are submitted with weight 0, and no apply reads them.
#[test]
fn rows_of_weight_0_need_no_index() {
    let only_replica_0 = |context: &ReplicaContext, count: usize| {
        Some(if context.replica() == 0 {
            count as f64
        } else {
            0.0
        })
    };
    for index in [-1, ROWS as i64, i64::MAX] {
        let report = checked_with(|_| index, only_replica_0);
        let words = ["do not follow their examples"];
        says(&report, of_step(&report), Verdict::WrongWeight, &words);
        let report = checked_with(|_| index, |_, _| Some(0.0));
        let words = ["all replicas submit with weight 0"];
        says(&report, of_step(&report), Verdict::WrongWeight, &words);
    }
    // Where the indices are right, so is what is said of the table.
    let report = checked_with(|index| index, only_replica_0);
    let words = ["because the weights do not follow the examples"];
    says(
        &report,
        of_gradient(&report, "table"),
        Verdict::WrongWeight,
        &words,
    );
}

#[test]
fn rows_that_are_not_submitted_need_no_index() {
    for index in [-1, ROWS as i64] {
        let submits = |context: &ReplicaContext, count: usize| {
            (context.replica() == 0).then_some(count as f64)
        };
        let report = checked_with(|_| index, submits);
        let words = ["replica 1 does not submit its gradients when its part has 4 examples"];
        says(&report, of_step(&report), Verdict::NotSubmitted, &words);
        let report = checked_with(|_| index, |_, _| None);
        says(
            &report,
            of_step(&report),
            Verdict::NotSubmitted,
            &["no replica submits"],
        );
    }
}
