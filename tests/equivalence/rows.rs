//! Row-sparse gradients: a table counts as the sum of the rows that were added to it.

use umbo::optimizer::GradientsOptions;
use umbo::strategy::commit::CommitAction;

use crate::setup::*;

const ROWS: usize = 5;

/// A table of one column, to which every example adds two rows.
fn model(reduction: LossReduction) -> Model {
    let strategy = strategy(2);
    let shape = Shape::new(&[ROWS, 1]).unwrap();
    let new = NewVariable {
        name: "table".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::None,
    };
    let initial = Tensor::from_slice(&[0.0f32; ROWS], shape, DeviceId::HOST).unwrap();
    let table = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
    let options = GradientsOptions { row_sparse: &[true], ..Default::default() };
    let devices = strategy.compute_devices();
    let gradients =
        Gradients::with_options(strategy.id(), devices, vec![table], reduction, options).unwrap();
    Model { strategy, gradients }
}

fn contribute_rows(context: &ReplicaContext, gradients: &Arc<Gradients>) -> Result<()> {
    let rows = part(context);
    let added = gradients.add_rows_in(context, 0, 2 * rows.len())?;
    let named = rows.iter().flat_map(|row| [(row[0] * 7.0) as i64 % ROWS as i64, 3]);
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
    assert!(text.contains("'table'") && text.contains("4.000 times too large"), "{text}");
}

/// Rows that wait for an apply still do after a check.
#[test]
fn waiting_rows_are_put_back() {
    let model = model(LossReduction::Sum);
    let step = |context: &ReplicaContext| {
        contribute_rows(context, &model.gradients)?;
        Ok(None)
    };
    let sgd = || {
        let rule = Box::new(umbo::optimizer::sgd::Sgd);
        umbo::optimizer::Optimizer::new(model.strategy.id(), rule, 0.5).unwrap()
    };
    let weights = || model.gradients.variables()[0].committed().to_vec::<f32>().unwrap();
    let batch = || {
        umbo::input::split_rows(&batch_of(&rows(8)), 0, &[4, 4], model.strategy.compute_devices())
    };
    let apply = || {
        let mut action = umbo::optimizer::ApplyAction::new(sgd(), Arc::clone(&model.gradients));
        action.prepare().unwrap();
        action.commit();
    };
    model.strategy.run(&step, Some(batch().unwrap())).unwrap();
    apply();
    let once = weights();
    model.strategy.run(&step, Some(batch().unwrap())).unwrap();
    model.check(&batch_of(&rows(6)), step);
    apply();
    let twice: Vec<f32> = once.iter().map(|weight| weight * 2.0).collect();
    assert_eq!(weights(), twice);
}
