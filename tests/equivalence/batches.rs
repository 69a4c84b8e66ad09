//! Batches of other kinds, and what the callback sees of them.

use crate::setup::*;

#[test]
fn structures_are_split_leaf_by_leaf() {
    let strategy = strategy(2);
    let labels = Tensor::from_slice(
        &[0i64, 1, 2, 3, 4],
        Shape::new(&[5]).unwrap(),
        DeviceId::HOST,
    );
    let batch = Value::structure(vec![
        ("x".into(), batch_of(&rows(5))),
        ("y".into(), Value::Tensor(labels.unwrap())),
    ])
    .unwrap();
    let seen = Mutex::new(Vec::new());
    let step = |context: &ReplicaContext| {
        let part = context.arguments()?.unwrap().component(context.replica())?;
        let labels = part.at_path("y")?.tensor_of(0)?.to_vec::<i64>()?;
        let x = part.at_path("x")?.tensor_of(0)?.clone();
        assert_eq!(x.shape()[0], labels.len());
        assert_eq!(x.device(), context.device());
        let place = context.batch_position();
        assert_eq!(place.local_examples, Some(labels.len() as u64));
        seen.lock()
            .unwrap()
            .push((place.global_examples.unwrap(), place.first_example, labels));
        Ok(None)
    };
    is_equivalent(&check(&strategy, &step, &batch, None, &CheckOptions::default()).unwrap());
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    seen.dedup();
    let expected = [
        (4, 0, vec![0, 1, 2, 3]),
        (4, 4, vec![]),
        (5, 0, vec![0, 1, 2]),
        (5, 0, vec![0, 1, 2, 3]),
        (5, 0, vec![0, 1, 2, 3, 4]),
        (5, 3, vec![3, 4]),
        (5, 4, vec![4]),
        (5, 5, vec![]),
    ];
    assert_eq!(seen, expected);
}

/// Nothing tells which of equal examples a replica has read: what is right stays right, and a wrong
/// reduction is still seen.
#[test]
fn equal_examples() {
    let batch = batch_of(&[[1.5, 2.0]; 8]);
    let step = |model: &Model, written| {
        model.check(&batch, |context| {
            let factor = 1.0 / divisor(written, context);
            contribute(context, &model.gradients, sum(&part(context)), factor)?;
            model.gradients.submit_in(context, None)?;
            Ok(None)
        })
    };
    let model = Model::new(2, LossReduction::Sum);
    is_equivalent(&step(&model, LossReduction::Sum));
    let report = step(&model, LossReduction::Mean);
    let words = ["4.000 times too small: the callback writes a mean"];
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::WrongReduction,
        &words,
    );
}

#[test]
fn one_replica_shows_what_it_can() {
    let model = Model::new(1, LossReduction::Mean);
    let report = model.check(&batch_of(&rows(4)), |context| {
        let total = sum(&part(context));
        add(
            model
                .gradients
                .view_in(context, 0, GradientMode::Overwrite)?,
            &total,
        );
        model.gradients.submit_in(context, None)?;
        Ok(None)
    });
    says(
        &report,
        of_gradient(&report, "w1"),
        Verdict::NotOverwritten,
        &["added to"],
    );
    assert!(
        report.text.contains("as far as one replica shows"),
        "{}",
        report.text
    );
}

/// A callback cannot tell the first look from the others but by counting.
#[test]
fn how_often_the_callback_is_called() {
    let model = Model::new(3, LossReduction::Sum);
    let calls = AtomicUsize::new(0);
    let step = |written: LossReduction| {
        calls.store(0, Ordering::Relaxed);
        model.check(&batch_of(&rows(100)), |context| {
            calls.fetch_add(1, Ordering::Relaxed);
            let factor = 1.0 / divisor(written, context);
            contribute(context, &model.gradients, sum(&part(context)), factor)?;
            model.gradients.submit_in(context, None)?;
            Ok(None)
        });
        calls.load(Ordering::Relaxed)
    };
    assert_eq!(step(LossReduction::Sum), 3 * 6);
    assert_eq!(step(LossReduction::Mean), 3 * (6 + 16));
}
