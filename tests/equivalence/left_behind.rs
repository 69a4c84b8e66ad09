//! A check leaves everything as it was.

use umbo_core::collectives::Assignment;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{Optimizer, apply};

use crate::setup::*;

/// One whole step, of which nothing has been applied.
fn step(model: &Model, rows: &[Row]) {
    let batch = umbo_core::input::split_rows(
        &batch_of(rows),
        0,
        &umbo_core::input::part_sizes(rows.len(), model.strategy.num_replicas()),
        model.strategy.replica_devices(),
    );
    let run = |context: &ReplicaContext| {
        contribute(context, &model.gradients, sum(&part(context)), 1.0)?;
        context.add_metric(
            "loss",
            Metric {
                sum: 3.0,
                weight: 2.0,
            },
        )?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    };
    model.strategy.run(&run, Some(batch.unwrap())).unwrap();
}

/// What two steps of SGD make of the variables, with whatever `between` does after the apply of
/// each.
fn trained(between: &dyn Fn(&Model, &Arc<Optimizer>)) -> Vec<Vec<f32>> {
    let model = Model::new(3, LossReduction::Sum);
    let optimizer = Optimizer::new(model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
    for _ in 0..2 {
        step(&model, &rows(7));
        let before = optimizer.iterations();
        apply(&optimizer, &model.gradients).unwrap();
        assert_eq!(optimizer.iterations(), before + 1);
        // Used up, after the check as before it.
        between(&model, &optimizer);
        assert!(apply(&optimizer, &model.gradients).is_err());
    }
    let variables = model.gradients.variables().iter();
    variables
        .map(|variable| variables::read(variable).unwrap().to_vec().unwrap())
        .collect()
}

#[test]
fn metrics_and_variables_stay() {
    let expected = trained(&|_, _| {});
    let seen = trained(&|model, optimizer| {
        let metric = model.strategy.metric("loss");
        let variable = &model.gradients.variables()[0];
        let value = || variables::read(variable).unwrap().to_vec::<f32>().unwrap();
        let before = value();
        let iterations = optimizer.iterations();
        let changed = AtomicUsize::new(0);
        let report = model.check(&batch_of(&rows(9)), |context| {
            let one = Value::Tensor(Tensor::from_slice(
                &[1.0f32; 3],
                Shape::new(&[3]).unwrap(),
                DeviceId::HOST,
            )?);
            variables::assign(variable, Assignment::Add, &one)?;
            let now = variables::read(variable)?.to_vec::<f32>()?;
            changed.fetch_add(usize::from(now != before), Ordering::Relaxed);
            context.add_metric(
                "loss",
                Metric {
                    sum: 1.0,
                    weight: 1.0,
                },
            )?;
            contribute(context, &model.gradients, sum(&part(context)), 1.0)?;
            model.gradients.submit_in(context, None)?;
            // An apply inside of the step is part of it.
            apply(optimizer, &model.gradients)?;
            Ok(None)
        });
        is_equivalent(&report);
        assert_eq!(changed.load(Ordering::Relaxed), 3 * 6);
        assert_eq!((value(), optimizer.iterations()), (before, iterations));
        assert_eq!(model.strategy.metric("loss"), metric);
    });
    assert_eq!(seen, expected);
}

#[test]
fn accumulated_runs_stay() {
    let trained = |check: bool| {
        let strategy = strategy(2);
        let variable = variable(&strategy, "w", &[0.0f32; 3]);
        let devices = strategy.replica_devices();
        let variables = vec![
            variable.clone(),
            crate::setup::variable(&strategy, "v", &[0.0f32]),
        ];
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            variables,
            LossReduction::Sum,
            umbo_core::optimizer::GradientsOptions {
                accumulation_steps: 2,
                ..Default::default()
            },
        );
        let model = Model {
            strategy,
            gradients: gradients.unwrap(),
        };
        let optimizer = Optimizer::new(model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
        for _ in 0..2 {
            step(&model, &rows(5));
            apply(&optimizer, &model.gradients).unwrap();
            if check {
                is_equivalent(&model.check(&batch_of(&rows(9)), |context| {
                    contribute(context, &model.gradients, sum(&part(context)), 1.0)?;
                    model.gradients.submit_in(context, None)?;
                    apply(&optimizer, &model.gradients)?;
                    Ok(None)
                }));
            }
        }
        assert_eq!(optimizer.iterations(), 1);
        variables::read(&variable).unwrap().to_vec::<f32>().unwrap()
    };
    assert_eq!(trained(true), trained(false));
}

/// Contributions that wait for an apply stay, since replicas would overwrite them. Those that an
/// apply has refused go.
#[test]
fn contributions_that_wait_are_refused() {
    let model = Model::new(2, LossReduction::Sum);
    let submitting = |context: &ReplicaContext| {
        contribute(context, &model.gradients, sum(&part(context)), 1.0)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    };
    let checked = || {
        let gradients = Some(&model.gradients);
        check(
            &model.strategy,
            &submitting,
            &batch_of(&rows(9)),
            gradients,
            &Default::default(),
        )
    };
    step(&model, &rows(5));
    let error = checked().unwrap_err();
    assert!(
        error.to_string().contains("has not been applied"),
        "{error}"
    );
    let optimizer = Optimizer::new(model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
    apply(&optimizer, &model.gradients).unwrap();
    is_equivalent(&checked().unwrap());
    step(&model, &rows(5));
    optimizer.set_schedule(Arc::new(|_| Err(Error::precondition("not today"))));
    apply(&optimizer, &model.gradients).unwrap_err();
    is_equivalent(&checked().unwrap());
    let error = apply(&optimizer, &model.gradients).unwrap_err();
    assert!(error.to_string().contains("the last run failed"), "{error}");
}

#[test]
fn a_failing_check_leaves_nothing() {
    let expected = trained(&|_, _| {});
    let seen = trained(&|model, _| {
        let failing = |context: &ReplicaContext| {
            contribute(context, &model.gradients, [9.0; 3], 1.0)?;
            model.gradients.submit_in(context, None)?;
            match context.replica() {
                1 => Err(Error::precondition("not today")),
                _ => Ok(None),
            }
        };
        let strategy = &model.strategy;
        let gradients = Some(&model.gradients);
        let batch = batch_of(&rows(9));
        let error = check(
            strategy,
            &failing,
            &batch,
            gradients,
            &CheckOptions::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("(CPU:1)"), "{error}");
        assert!(error.to_string().contains("not today"), "{error}");
    });
    assert_eq!(seen, expected);
}

/// As documented: what the check does not know of, it cannot put back.
#[test]
fn gradients_that_are_not_given_are_as_after_a_failed_run() {
    let model = Model::new(2, LossReduction::Sum);
    let optimizer = Optimizer::new(model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
    let submitting = |context: &ReplicaContext| {
        contribute(context, &model.gradients, sum(&part(context)), 1.0)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    };
    let batch = batch_of(&rows(9));
    step(&model, &rows(5));
    // What waits for an apply is not lost to a check that does not know of it.
    let error = check(
        &model.strategy,
        &submitting,
        &batch,
        None,
        &CheckOptions::default(),
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("has not been applied"),
        "{error}"
    );
    apply(&optimizer, &model.gradients).unwrap();
    check(
        &model.strategy,
        &submitting,
        &batch,
        None,
        &CheckOptions::default(),
    )
    .unwrap();
    let error = apply(&optimizer, &model.gradients).unwrap_err();
    assert!(error.to_string().contains("the last run failed"), "{error}");
    step(&model, &rows(5));
    apply(&optimizer, &model.gradients).unwrap();
}

/// Nobody else's step sees buffers full of NaN.
#[test]
fn steps_of_another_thread_in_between() {
    let expected = trained(&|_, _| {});
    let model = Model::new(3, LossReduction::Sum);
    let optimizer = Optimizer::new(model.strategy.id(), Box::new(Sgd), 0.5).unwrap();
    let other = Model {
        strategy: model.strategy.clone(),
        gradients: Gradients::new(
            model.strategy.id(),
            model.strategy.replica_devices(),
            model.gradients.variables().to_vec(),
            LossReduction::Sum,
            Default::default(),
        )
        .unwrap(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                is_equivalent(&other.check(&batch_of(&rows(9)), |context| {
                    contribute(context, &other.gradients, sum(&part(context)), 1.0)?;
                    other.gradients.submit_in(context, None)?;
                    Ok(None)
                }));
            }
        });
        for _ in 0..2 {
            step(&model, &rows(7));
            apply(&optimizer, &model.gradients).unwrap();
        }
    });
    let variables = model.gradients.variables().iter();
    let seen: Vec<Vec<f32>> = variables
        .map(|variable| variables::read(variable).unwrap().to_vec().unwrap())
        .collect();
    assert_eq!(seen, expected);
}
