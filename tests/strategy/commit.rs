//! The commit point: what assignments become, and when.

use crate::*;

#[test]
fn assignments_follow_the_aggregation() {
    let s = strategy(2);
    let table = [
        (Aggregation::Sum, [3.0, 13.0, 7.0]),
        (Aggregation::Mean, [1.5, 11.5, 8.5]),
        (Aggregation::OnlyFirstReplica, [1.0, 11.0, 9.0]),
    ];
    let kinds = [Assignment::Assign, Assignment::Add, Assignment::Subtract];
    for (aggregation, expected) in table {
        for (kind, expected) in kinds.into_iter().zip(expected) {
            let v = variable(&s, aggregation, 10.0);
            let seen = s
                .run(
                    &|context| {
                        assign(&v, kind, &scalar(context.replica() as f32 + 1.0))?;
                        read(&v).map(|tensor| Some(Value::Tensor(tensor)))
                    },
                    None,
                )
                .unwrap()
                .unwrap();
            assert_eq!(components(&seen), [[expected], [expected]]);
            assert_eq!(value_of(&v), expected);
        }
    }
    let v = variable(&s, Aggregation::None, 10.0);
    let error = s.run(
        &|_| {
            assign(&v, Assignment::Assign, &scalar(1.0))?;
            Ok(None)
        },
        None,
    );
    refused(error, Status::InvalidArgument, &["NONE", "'v'"]);
    assign(&v, Assignment::Add, &scalar(1.0)).unwrap();
    assert_eq!(value_of(&v), 11.0);
    // A variable of no strategy is written by each replica in turn.
    let plain = variable(&Strategy::default_strategy(), Aggregation::None, 10.0);
    s.run(
        &|context| {
            assign(&plain, Assignment::Add, &scalar(context.replica() as f32 + 1.0))?;
            Ok(None)
        },
        None,
    )
    .unwrap();
    assert_eq!(value_of(&plain), 13.0);
    let other = strategy(2);
    let scope = other.enter_scope().unwrap();
    refused(assign(&v, Assignment::Add, &scalar(1.0)), Status::FailedPrecondition, &["mixing"]);
    drop(scope.exit().unwrap());
}

#[test]
fn a_failed_step_leaves_central_state_as_it_was() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 10.0);
    for failing in 0..2 {
        let error = s.run(
            &|context| {
                assign(&v, Assignment::Add, &scalar(1.0))?;
                assert_eq!(value_of(&v), 12.0);
                match context.replica() == failing {
                    true => Err(Error::DataLoss("after the assignment".into())),
                    false => Ok(None),
                }
            },
            None,
        );
        refused(error, Status::DataLoss, &["after the assignment"]);
        assert_eq!(value_of(&v), 10.0);
    }
    let failed = s.update(&v, None, |v, _| {
        assign(v, Assignment::Add, &scalar(1.0))?;
        assert_eq!(value_of(v), 11.0);
        Err(Error::DataLoss("in update".into()))
    });
    refused(failed, Status::DataLoss, &["in update"]);
    assert_eq!(value_of(&v), 10.0);
    s.update(&v, Some(&scalar(5.0)), |v, value| {
        assign(v, Assignment::Add, &value.unwrap())?;
        Ok(None)
    })
    .unwrap();
    assert_eq!(value_of(&v), 15.0);
    // A run inside of a merge call that fails after an assignment: catching its error does not
    // bring the step through.
    let error = s.run(
        &|context| {
            let v = v.clone();
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |strategy, _| {
                    let nested = strategy.run(
                        &|context| {
                            assign(&v, Assignment::Add, &scalar(1.0))?;
                            match context.replica() {
                                0 => Err(Error::DataLoss("nested".into())),
                                _ => Ok(None),
                            }
                        },
                        None,
                    );
                    assert!(nested.is_err());
                    Ok(None)
                }),
            )
        },
        None,
    );
    refused(error, Status::FailedPrecondition, &["nested"]);
    assert_eq!(value_of(&v), 15.0);
}
