//! What fails on one rank fails on all, and leaves nothing behind.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbo_core::collectives::{Assignment, ReduceOp};
use umbo_core::error::{Error, Status};
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::ftrl::Ftrl;
use umbo_core::optimizer::{GradientsOptions, Optimizer, apply};
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::values::collective::ReductionOptions;
use umbo_core::strategy::variables::{self, Initial, assign, read};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::DType;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::dividing::{contribute, gradients, numbers};
use super::engine::{STRATEGY, VARIABLE, hanging, job, ranks};
use super::{bytes, named, on_ranks, on_ranks_of, tensor};

fn counter(strategy: &Strategy) -> Variable {
    counter_or_nothing(strategy).unwrap()
}

fn value(variable: &Variable) -> f32 {
    read(variable).unwrap().to_vec::<f32>().unwrap()[0]
}

fn one() -> Value {
    Value::Tensor(tensor(&[1f32], &[1]))
}

/// A step that adds one for each replica.
fn count(
    variable: &Variable,
) -> impl Fn(&ReplicaContext) -> umbo_core::error::Result<Option<Value>> {
    |_: &ReplicaContext| {
        assign(variable, Assignment::Add, &one())?;
        Ok(None)
    }
}

/// Where the rank fails; `nested` has the places within a step.
#[derive(Clone, Copy, Debug)]
enum Place {
    Arguments,
    Update,
    NewWeights,
}

#[test]
fn a_call_that_fails_on_one_rank_fails_on_all() {
    use Place::*;
    for place in [Arguments, Update, NewWeights] {
        for failing in 0..3 {
            on_ranks(&job(3, Some(5), None), 2, |rank, strategy| {
                let strategy = strategy.unwrap();
                let variable = counter(&strategy);
                strategy.run(&count(&variable), None).unwrap();
                let fails = rank == failing;
                let short = Value::per_replica(vec![tensor(&[1f32], &[1])]).unwrap();
                let error = match place {
                    Arguments => strategy.run(&count(&variable), fails.then_some(short)),
                    Update => strategy.update(&variable, None, move |variable, _| {
                        assign(variable, Assignment::Add, &one())?;
                        match fails {
                            true => Err(Error::out_of_range("index", "the one that was told to")),
                            false => Ok(None),
                        }
                    }),
                    NewWeights => {
                        let gradients = gradients(
                            &strategy,
                            slice::from_ref(&variable),
                            GradientsOptions::default(),
                        );
                        let give = |context: &_| contribute(context, &gradients, 0).map(|()| None);
                        strategy.run(&give, None).unwrap();
                        let rule = Box::new(Ftrl::new(0.0, 0.0, 0.0, 0.1).unwrap());
                        let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
                        optimizer
                            .set_schedule(Arc::new(move |_| Ok(if fails { 0.0 } else { 0.1 })));
                        apply(&optimizer, &gradients).map(|_| None)
                    }
                };
                let error = error.unwrap_err();
                let (status, words) = match place {
                    Arguments => (Status::InvalidArgument, ""),
                    Update => (Status::OutOfRange, "the one that was told to"),
                    NewWeights => (Status::InvalidArgument, "begin a warm-up above 0"),
                };
                let text = error.to_string();
                assert!(text.contains(words), "{text}");
                assert_eq!(error.status(), status, "{place:?}: {text}");
                let names = text.contains(&format!("rank {failing} failed"));
                assert_eq!(names, !fails, "{place:?} on rank {rank}: {text}");
                assert_eq!(value(&variable), 6.0);
                // The strategy continues, with step numbers that all ranks agree about.
                let look = |context: &ReplicaContext| {
                    assign(&variable, Assignment::Add, &one())?;
                    let number = tensor(&[context.step_number() as i32], &[1]);
                    context
                        .all_reduce(ReduceOp::Mean, Value::Tensor(number))
                        .map(Some)
                };
                let numbers = strategy.run(&look, None).unwrap().unwrap();
                let mean = numbers.tensor_of(0).unwrap().to_vec::<f64>().unwrap()[0];
                assert_eq!(mean.fract(), 0.0);
                assert_eq!(value(&variable), 12.0);
            });
        }
    }
}

#[test]
fn ranks_that_disagree_are_told_who_is_where() {
    type Step = fn(&ReplicaContext, &Variable) -> umbo_core::error::Result<()>;
    let sum: Step = |context, _| context.all_reduce(ReduceOp::Sum, one()).map(drop);
    let mean: Step = |context, _| context.all_reduce(ReduceOp::Mean, one()).map(drop);
    let gather: Step = |context, _| context.all_gather(one(), 0).map(drop);
    let assigns: Step = |_, variable| assign(variable, Assignment::Add, &one());
    let nothing: Step = |_, _| Ok(());
    let twice: Step = |context, _| {
        let pair = Value::tuple(vec![one(), one()])?;
        context.all_reduce(ReduceOp::Sum, pair).map(drop)
    };
    let cases = [
        (sum, mean, "reduce SUM", "reduce MEAN"),
        (sum, gather, "reduce SUM", "gather along axis 0"),
        (gather, assigns, "gather along axis 0", "assign_add to"),
        (sum, nothing, "reduce SUM", "the commit point"),
        (nothing, assigns, "the commit point", "assign_add to"),
        (
            sum,
            twice,
            "reduce SUM",
            "the number of per-replica values in it is 1 on rank 0, 2 on rank 1",
        ),
    ];
    for (first, second, first_place, second_place) in cases {
        on_ranks(&ranks(2), 2, |rank, strategy| {
            let strategy = strategy.unwrap();
            let variable = counter(&strategy);
            let step = |context: &ReplicaContext| {
                assign(&variable, Assignment::Add, &one())?;
                (if rank == 0 { first } else { second })(context, &variable)?;
                Ok(None)
            };
            let error = strategy.run(&step, None).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
            for part in [first_place, second_place, "rank 0", "rank 1", "step 1"] {
                assert!(text.contains(part), "'{part}' is missing: {text}");
            }
            assert_eq!(value(&variable), 0.0);
            strategy.run(&count(&variable), None).unwrap();
            assert_eq!(value(&variable), 4.0);
        });
    }
}

#[test]
fn variables_are_made_together() {
    on_ranks(&ranks(2), 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let make = |name: &str, shape: &[usize]| {
            let value = tensor(&vec![0f32; shape.iter().product()], shape);
            let new = named(name, Aggregation::Sum);
            variables::create(Some(&strategy), new, Initial::Value(&value))
        };
        let error = make(["left", "right"][rank], &[2]).unwrap_err();
        assert!(error.to_string().contains("variable 'left'"), "{error}");
        assert!(error.to_string().contains("variable 'right'"), "{error}");
        let error = make("same", &[2 + rank]).unwrap_err();
        assert!(
            error.to_string().contains("[2]") && error.to_string().contains("[3]"),
            "{error}"
        );
        // One rank cannot make it at all.
        let mut fill = |_: &_| match rank {
            0 => Ok(()),
            _ => Err(Error::NotFound("no file of weights".into())),
        };
        let initial = Initial::Fill {
            dtype: DType::Float32,
            shape: umbo_core::tensor::Shape::scalar(),
            fill: &mut fill,
        };
        let error =
            variables::create(Some(&strategy), named("w", Aggregation::Sum), initial).unwrap_err();
        assert_eq!(error.status(), Status::NotFound, "{error}");
        make("whole", &[3]).unwrap();
    });
}

#[test]
fn strategies_are_made_together() {
    let options = |rank| super::options([1, 9999][rank]);
    let errors = on_ranks_of(&ranks(2), options, |_, made| made.err().unwrap());
    assert!(
        errors[0]
            .to_string()
            .contains("rank 1 failed: INVALID_ARGUMENT: cpu_replicas")
    );
    assert!(
        matches!(errors[1], Error::InvalidArgument { .. }),
        "{}",
        errors[1]
    );
}

/// A rank dies at each of its calls of the engine in turn: nothing hangs, nothing is half applied,
/// and from then on all that needs the others says so.
#[test]
fn deaths_are_reported_and_nothing_hangs() {
    for at in STRATEGY.. {
        let ranks = job(3, Some(at), Some((1, at)));
        let ends = on_ranks(&ranks, 2, |rank, strategy| {
            let strategy = strategy.unwrap();
            let variable = counter_or_nothing(&strategy)?;
            for step in 0..3 {
                match strategy.run(&count(&variable), None) {
                    Ok(_) => assert_eq!(value(&variable), 6.0 * (step + 1) as f32),
                    Err(error) => {
                        assert_eq!(value(&variable), 6.0 * step as f32);
                        if rank != 1 {
                            assert_eq!(error.status(), Status::Unavailable, "{error}");
                            assert!(error.to_string().contains("rank 1 has died"), "{error}");
                        }
                        let again = strategy.run(&count(&variable), None).unwrap_err();
                        assert_eq!(again.status(), Status::Unavailable, "{again}");
                        let plain = Value::per_replica(vec![tensor(&[1f32], &[1]); 2]).unwrap();
                        let how = ReductionOptions::default();
                        let reduced = strategy.reduce(ReduceOp::Sum, &plain, &how).unwrap_err();
                        assert_eq!(reduced.status(), Status::Unavailable);
                        return Some(());
                    }
                }
            }
            None
        });
        if ends.iter().all(Option::is_none) && ranks[1].calls() < at {
            assert!(at > 5);
            return;
        }
    }
}

/// The same in updates: the weights and the state of whoever is left are those before the update
/// that fails.
#[test]
fn deaths_in_updates_leave_weights_and_state_as_they_were() {
    for deferred in [false, true] {
        for at in STRATEGY.. {
            let ranks = job(3, Some(at), Some((1, at)));
            let ends = on_ranks(&ranks, 2, |rank, strategy| {
                let strategy = strategy.unwrap();
                let make = |(name, count)| {
                    let value = tensor(&numbers(count, count), &[count]);
                    let new = named(name, Aggregation::Sum);
                    variables::create(Some(&strategy), new, Initial::Value(&value)).ok()
                };
                let variables = [("large", 5000), ("small", 7)].map(make);
                let variables: Vec<_> = variables.into_iter().collect::<Option<_>>()?;
                let gradients = gradients(&strategy, &variables, GradientsOptions::default());
                // Norms of whole variables are exchanged, too.
                let rule = Box::new(Adam::lamb(0.9, 0.999, 1e-6, 0.01).unwrap());
                let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
                let step = |step: usize| {
                    let callback = |context: &ReplicaContext| {
                        contribute(context, &gradients, step)?;
                        if deferred {
                            apply(&optimizer, &gradients)?;
                        }
                        Ok(None)
                    };
                    strategy.run(&callback, None)?;
                    if deferred {
                        Ok(())
                    } else {
                        apply(&optimizer, &gradients).map(drop)
                    }
                };
                let known = || {
                    let kept = optimizer.export().unwrap();
                    let mut known = format!("{}", kept.iterations);
                    for state in kept.variables {
                        let slots: Vec<_> = state.slots.iter().flatten().map(bytes).collect();
                        known += &format!("{} {:?} {slots:?}", state.updates, state.running);
                    }
                    (
                        variables
                            .iter()
                            .map(|it| bytes(&read(it).unwrap()))
                            .collect::<Vec<_>>(),
                        known,
                    )
                };
                let mut before = known();
                for number in 0..3 {
                    let Err(error) = step(number) else {
                        before = known();
                        continue;
                    };
                    assert!(known() == before, "rank {rank}, call {at}, step {number}");
                    for error in [error, step(number).unwrap_err()] {
                        let text = error.to_string();
                        // NCCL does not say which rank it has lost.
                        let is_told =
                            text.contains("rank 1 has died") || text.contains("NCCL says");
                        let is_right = error.status() == Status::Unavailable && is_told;
                        assert!(rank == 1 || is_right, "{at}: {text}");
                    }
                    return Some((number, before.0));
                }
                None
            });
            assert!(
                ends[0] == ends[2],
                "the ranks that are left disagree, call {at}"
            );
            if ends.iter().all(Option::is_none) && ranks[1].calls() < at {
                assert!(at > 20, "there are not so few calls: {at}");
                break;
            }
        }
    }
}

fn counter_or_nothing(strategy: &Strategy) -> Option<Variable> {
    let new = named("counter", Aggregation::Sum);
    variables::create(Some(strategy), new, Initial::Value(&tensor(&[0f32], &[1]))).ok()
}

/// The call that has waited in vain says so, whatever it was at; those that follow do not wait.
#[test]
fn a_rank_that_hangs_is_a_deadline_and_then_unavailable() {
    let mut at = Vec::new();
    for call in STRATEGY + VARIABLE..14 {
        at.extend(on_ranks(&hanging(2, call), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let variable = counter(&strategy);
            let step = |context: &ReplicaContext| {
                assign(&variable, Assignment::Add, &one())?;
                context.all_reduce(ReduceOp::Sum, one()).map(Some)
            };
            let error = loop {
                if let Err(error) = strategy.run(&step, None) {
                    break error;
                }
            };
            assert_eq!(error.status(), Status::DeadlineExceeded, "{call}: {error}");
            let again = strategy.run(&step, None).unwrap_err();
            assert_eq!(again.status(), Status::Unavailable, "{call}: {again}");
            error.to_string()
        }));
    }
    // In several calls of a step.
    for place in [
        "the beginning of a run",
        "assign_add",
        "reduce SUM",
        "the commit point",
    ] {
        assert!(
            at.iter().any(|error| error.contains(place)),
            "{place}: {at:?}"
        );
    }
}

/// The wait for another rank is not cut short by a limit of a run: it ends when that rank comes, or
/// by a limit of that rank.
#[test]
fn the_time_limit_of_a_run_is_that_of_the_rank_s_own_callbacks() {
    const SHORT: Duration = Duration::from_millis(500);
    for late_has_limit in [false, true] {
        on_ranks(&ranks(2), 1, |rank, strategy| {
            let strategy = strategy.unwrap();
            // What a first run sets up takes its time, on GPUs above all.
            strategy.run(&|_| Ok(None), None).unwrap();
            let callback = move |_: &ReplicaContext| {
                std::thread::sleep(if rank == 1 { 3 * SHORT } else { Duration::ZERO });
                Ok(None)
            };
            let begun = Instant::now();
            let deadline = (rank == 0 || late_has_limit).then(|| begun + SHORT);
            let limits = Limits {
                deadline,
                ..Limits::default()
            };
            let done = strategy.run_within(Arc::new(callback), None, limits, None);
            match late_has_limit {
                false => {
                    done.unwrap();
                    assert!(begun.elapsed() >= 3 * SHORT);
                }
                true => assert_eq!(done.unwrap_err().status(), Status::DeadlineExceeded),
            }
        });
    }
}
