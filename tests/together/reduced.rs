//! Looks at the gradients that an apply of all ranks would take: every rank sees what one process with all the
//! replicas would, nothing is used up, and whoever looks at something else is told. Trainings of all kinds look
//! in `training`.

use std::sync::Arc;

use umbo::error::{Result, Status};
use umbo::optimizer::reduced::reduced;
use umbo::optimizer::sgd::Sgd;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, Settings, apply};
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Variable};

use super::engine::{job, ranks};
use super::reproducible::chosen;
use super::{alone, bytes, named, on_ranks, on_ranks_of, tensor};

/// What a look at variable `index` finds, or with which status it fails, as bytes.
pub fn look(gradients: &Arc<Gradients>, index: usize, by: Option<&Arc<Optimizer>>) -> Vec<u8> {
    match reduced(gradients, index, by) {
        Ok(Value::Tensor(gradient)) => {
            let mut all = format!("{} {}", gradient.dtype(), gradient.shape()).into_bytes();
            all.extend(bytes(&gradient));
            all
        }
        Ok(Value::IndexedSlices(slices)) => {
            let mut all = format!("rows of {}", slices.dense_shape()).into_bytes();
            all.extend(bytes(slices.indices()));
            all.extend(bytes(slices.values()));
            all
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => format!("{:?}", error.status()).into_bytes(),
    }
}

struct Trained {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

/// Two variables that begin with zeros.
fn set_up(strategy: Strategy, accumulation: u64) -> Trained {
    let make = |name: &str, size: usize| {
        let zeros = tensor(&vec![0f32; size], &[size]);
        let new = named(name, Aggregation::None);
        variables::create(Some(&strategy), new, Initial::Value(&zeros)).unwrap()
    };
    let variables = vec![make("a", 70), make("b", 3)];
    let gradients = Gradients::accumulating(
        strategy.id(),
        strategy.replica_devices(),
        variables.clone(),
        LossReduction::Mean,
        accumulation,
    );
    let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 1.0).unwrap();
    Trained { strategy, variables, gradients: gradients.unwrap(), optimizer }
}

impl Trained {
    /// A run in which the replicas for which `writes` says so write the variables; `weight` is what each
    /// submits.
    fn run(&self, writes: impl Fn(usize, usize) -> bool + Sync, weight: f64) -> Result<()> {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            for (index, size) in [(0, 70), (1, 3)] {
                if writes(replica, index) {
                    let view = self.gradients.view_in(context, index, GradientMode::Overwrite)?;
                    let number = |at: usize| (1 + replica) as f32 + at as f32 / 4.0;
                    let numbers: Vec<f32> = (0..size).map(number).collect();
                    super::copy_into(view, &tensor(&numbers, &[size]));
                }
            }
            self.gradients.submit_in(context, Some(weight))?;
            Ok(None)
        };
        self.strategy.run(&callback, None).map(drop)
    }

    fn weights(&self, index: usize) -> Vec<f32> {
        read(&self.variables[index]).unwrap().to_vec::<f32>().unwrap()
    }
}

/// What is seen is what is applied: weights of zero become its negative, without clipping.
#[test]
fn a_look_is_what_the_apply_takes_before_clipping() {
    for (size, replicas) in [(2, 1), (2, 2), (3, 1), (2, 4)] {
        for accumulation in [1, 3] {
            for clipped in [false, true] {
                let seen = on_ranks(&job(size, Some(7), None), replicas, |_, strategy| {
                    let trained = set_up(strategy.unwrap(), accumulation);
                    if clipped {
                        let settings =
                            Settings { global_clip_norm: Some(0.5), ..Settings::default() };
                        trained.optimizer.configure(settings).unwrap();
                    }
                    let mut seen = Vec::new();
                    for run in 0..accumulation {
                        // Variable 1 is the last replica's alone.
                        let all = size * replicas;
                        trained
                            .run(|replica, index| index == 0 || replica + 1 == all, 2.0)
                            .unwrap();
                        for _ in 0..2 {
                            let gradient = reduced(&trained.gradients, 0, None).unwrap();
                            seen = gradient.tensor_of(0).unwrap().to_vec::<f32>().unwrap();
                        }
                        let last = look(&trained.gradients, 1, Some(&trained.optimizer));
                        assert!(last.starts_with(b"float32"), "{}", String::from_utf8_lossy(&last));
                        apply(&trained.optimizer, &trained.gradients).unwrap();
                        let zero = trained.weights(0).iter().all(|&weight| weight == 0.0);
                        assert_eq!(zero, run + 1 < accumulation);
                    }
                    // The mean over replicas and runs.
                    let mean = |at: usize| (1 + size * replicas) as f32 / 2.0 + at as f32 / 4.0;
                    assert!((0..70).all(|at| (seen[at] - mean(at)).abs() < 1e-4), "{seen:?}");
                    let negative: Vec<f32> = seen.iter().map(|gradient| -gradient).collect();
                    assert_eq!(trained.weights(0) == negative, !clipped);
                    seen
                });
                assert!(seen.iter().all(|seen| *seen == seen_alone(size * replicas, accumulation)));
            }
        }
    }
}

fn seen_alone(replicas: usize, accumulation: u64) -> Vec<f32> {
    let trained = set_up(alone(replicas), accumulation);
    for run in 0..accumulation {
        trained.run(|_, index| index == 0, 2.0).unwrap();
        if run + 1 < accumulation {
            apply(&trained.optimizer, &trained.gradients).unwrap();
        }
    }
    let gradient = reduced(&trained.gradients, 0, None).unwrap();
    gradient.tensor_of(0).unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn a_look_at_nothing_fails_on_all_ranks() {
    for accumulation in [1, 2] {
        on_ranks(&ranks(2), 2, |_, strategy| {
            let trained = set_up(strategy.unwrap(), accumulation);
            let fails = |index, status, part: &str| {
                let error = reduced(&trained.gradients, index, None).unwrap_err();
                assert_eq!(error.status(), status, "{error}");
                assert!(error.to_string().contains(part), "{error}");
            };
            fails(0, Status::FailedPrecondition, "");
            fails(2, Status::OutOfRange, "not in [0, 2)");
            trained.run(|_, index| index == 0, 1.0).unwrap();
            fails(1, Status::NotFound, "no replica contributed");
            assert!(look(&trained.gradients, 0, None).starts_with(b"float32"));
            apply(&trained.optimizer, &trained.gradients).unwrap();
            match accumulation {
                // Applied, or waiting for another run.
                1 => fails(0, Status::FailedPrecondition, ""),
                _ => assert!(look(&trained.gradients, 0, None).starts_with(b"float32")),
            }
        });
        on_ranks(&ranks(2), 1, |_, strategy| {
            let trained = set_up(strategy.unwrap(), accumulation);
            trained.run(|_, index| index == 0, 0.0).unwrap();
            let error = reduced(&trained.gradients, 0, None).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            assert!(error.to_string().contains("all weights are 0"), "{error}");
        });
    }
}

/// One rank has weight 0 and nothing else: the gradient is that of the other.
#[test]
fn ranks_without_examples_see_what_the_others_have() {
    let seen = on_ranks(&ranks(3), 1, |rank, strategy| {
        let trained = set_up(strategy.unwrap(), 1);
        let weight = if rank == 1 { 4.0 } else { 0.0 };
        trained.run(|replica, _| replica == 1, weight).unwrap();
        let gradient = reduced(&trained.gradients, 1, None).unwrap();
        gradient.tensor_of(0).unwrap().to_vec::<f32>().unwrap()
    });
    assert!(seen.iter().all(|seen| *seen == [2.0, 2.25, 2.5]), "{seen:?}");
}

#[test]
fn ranks_that_look_at_different_things_are_told() {
    on_ranks(&ranks(2), 1, |rank, strategy| {
        let trained = set_up(strategy.unwrap(), 1);
        trained.run(|_, _| true, 1.0).unwrap();
        let error = reduced(&trained.gradients, rank, None).unwrap_err();
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        let text = error.to_string();
        assert!(text.contains("the ranks disagree") && text.contains("a look at"), "{text}");
        // One looks, the other applies.
        let error = match rank {
            0 => reduced(&trained.gradients, 0, None).map(drop).unwrap_err(),
            _ => apply(&trained.optimizer, &trained.gradients).map(drop).unwrap_err(),
        };
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        assert_eq!(trained.weights(0), [0.0; 70]);
    });
}

/// A rank that cannot look tells the others, whoever it is.
#[test]
fn a_rank_that_cannot_look_fails_the_look_of_all() {
    for failing in 0..2 {
        on_ranks(&ranks(2), 1, |rank, strategy| {
            let trained = set_up(strategy.unwrap(), 1);
            trained.run(|_, _| true, 1.0).unwrap();
            let other = set_up_again(&trained);
            // These gradients were submitted by nobody.
            let gradients = if rank == failing { &other } else { &trained.gradients };
            let error = reduced(gradients, 0, None).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            let told = error.to_string().contains(&format!("rank {failing} failed"));
            assert_eq!(told, rank != failing, "{error}");
            // Nothing was used up.
            assert!(look(&trained.gradients, 0, None).starts_with(b"float32"));
            apply(&trained.optimizer, &trained.gradients).unwrap();
            assert_ne!(trained.weights(0), [0.0; 70]);
        });
    }
}

fn set_up_again(trained: &Trained) -> Arc<Gradients> {
    let Trained { strategy, variables, .. } = trained;
    let reduction = LossReduction::Mean;
    let devices = strategy.replica_devices();
    Gradients::new(strategy.id(), devices, variables.clone(), reduction).unwrap()
}

/// Where the number of replicas was chosen, a look has the same bits over any number of ranks, also at what
/// they have accumulated, of which each has a part.
#[test]
fn ranks_of_a_chosen_number_of_replicas_see_the_same() {
    let look_at_all = |trained: &Trained| {
        (0..2)
            .map(|index| look(&trained.gradients, index, Some(&trained.optimizer)))
            .collect::<Vec<_>>()
    };
    let program = |strategy: Strategy| {
        let trained = set_up(strategy, 3);
        let mut seen = Vec::new();
        for run in 0..3 {
            trained.run(|replica, index| replica % 2 == 0 || index == run % 2, 2.0).unwrap();
            seen.extend(look_at_all(&trained));
            // Nothing was used up.
            seen.extend(look_at_all(&trained));
            apply(&trained.optimizer, &trained.gradients).unwrap();
            // What waits for another run, if there is any.
            seen.extend(look_at_all(&trained));
            seen.push(bytes(&read(&trained.variables[0]).unwrap()));
        }
        seen
    };
    let expected = program(alone(6));
    assert!(expected.iter().filter(|seen| seen.starts_with(b"float32")).count() > 12);
    for size in [1, 2, 3, 4] {
        for devices in [1, 6 / size.max(2)] {
            let options = |rank| chosen(rank, devices, 6);
            let came = on_ranks_of(&ranks(size), options, |_, strategy| program(strategy.unwrap()));
            assert!(came.iter().all(|came| *came == expected), "{size}×{devices}");
        }
    }
}
