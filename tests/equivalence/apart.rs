//! What a check keeps apart: steps of its own from those of training, variables that are written
//! from values that are right, and what depends on the size of a batch from what depends on its
//! split.

use umbo_core::collectives::ReduceOp;

use crate::setup::*;

/// The number by which a callback keys what is random.
fn step_of(context: &ReplicaContext) -> u64 {
    context.step_number()
}

#[test]
fn masks_keyed_by_step_and_example() {
    let model = Model::new(3, LossReduction::Sum);
    let numbers = Mutex::new(Vec::new());
    let train = || {
        model
            .strategy
            .run(
                &|context: &ReplicaContext| {
                    if context.replica() == 0 {
                        numbers.lock().unwrap().push(step_of(context));
                    }
                    Ok(None)
                },
                None,
            )
            .unwrap();
    };
    train();
    train();
    let before = numbers.lock().unwrap().clone();
    for _ in 0..2 {
        let seen = Mutex::new(Vec::new());
        let report = model.check(&batch_of(&rows(10)), |context| {
            let step = step_of(context);
            seen.lock().unwrap().push(step);
            let first = context.batch_position().first_example;
            let rows = part(context);
            let key = |row: usize| (step * 31 + (first + row as u64) * 17) % 5;
            let kept = rows.iter().enumerate().filter(|(row, _)| key(*row) < 3);
            let kept: Vec<Row> = kept.map(|(_, row)| *row).collect();
            contribute(context, &model.gradients, sum(&kept), 1.0)?;
            model.gradients.submit_in(context, None)?;
            Ok(None)
        });
        is_equivalent(&report);
        // Of the step that comes next, in each of the runs.
        let next = before.last().unwrap() + 1;
        assert_eq!(seen.into_inner().unwrap(), vec![next; 3 * 6]);
    }
    train();
    let last = *before.last().unwrap();
    assert_eq!(numbers.into_inner().unwrap(), [last - 1, last, last + 1]);
}

/// Batch normalisation with the mean over the examples of all replicas: exact, on any number of
/// them.
#[test]
fn statistics_of_the_whole_batch() {
    for replicas in [2, 3] {
        let model = Model::new(replicas, LossReduction::Sum);
        let report = model.check(&batch_of(&rows(9)), |context| {
            let rows = part(context);
            let local = [
                rows.iter().map(|row| row[1]).sum::<f32>(),
                rows.len() as f32,
            ];
            let local = Tensor::from_slice(&local, Shape::new(&[2])?, DeviceId::HOST)?;
            let all = context.all_reduce(ReduceOp::Sum, Value::Tensor(local))?;
            let all = all.tensor_of(context.replica())?.to_vec::<f32>()?;
            let mean = all[0] / all[1];
            let centred: Vec<Row> = rows.iter().map(|row| [row[0], row[1] - mean]).collect();
            let loss = centred.iter().map(|row| f64::from(row[1] * row[1])).sum();
            context.add_metric(
                "loss",
                Metric {
                    sum: loss,
                    weight: rows.len() as f64,
                },
            )?;
            contribute(context, &model.gradients, sum(&centred), 1.0)?;
            model.gradients.submit_in(context, None)?;
            Ok(None)
        });
        assert!(report.equivalent, "{}", report.text);
        assert!(report.text.starts_with("equivalent"), "{}", report.text);
        for finding in [of_gradient(&report, "w1"), of_metric(&report, "loss")] {
            assert_eq!(finding.verdict, Verdict::SizeDependent, "{}", report.text);
            assert!(
                finding.text.contains("however the batch is split"),
                "{}",
                finding.text
            );
            // Reported, though it does no harm.
            assert!(report.text.contains(&finding.text), "{}", report.text);
        }
        let words = ["smaller batch", "batch normalisation"];
        for word in words {
            assert!(
                of_gradient(&report, "w1").text.contains(word),
                "{}",
                report.text
            );
        }
    }
}

/// The sum over parts is that over the batch, but it depends on how large the batch is.
#[test]
fn sizes_that_count_twice() {
    let model = Model::new(2, LossReduction::Sum);
    let report = model.check(&batch_of(&rows(8)), |context| {
        let global = context.batch_position().global_examples.unwrap() as f32;
        contribute(context, &model.gradients, sum(&part(context)), global)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    });
    let finding = of_gradient(&report, "w1");
    assert!(report.equivalent, "{}", report.text);
    assert_eq!(finding.verdict, Verdict::SizeDependent, "{}", report.text);
    assert!(
        finding.text.contains("size of the batch"),
        "{}",
        finding.text
    );
}
