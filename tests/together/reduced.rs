//! Looks at the gradients that an apply of all ranks would take: every rank sees what one process
//! with all the replicas would, nothing is used up, and whoever looks at something else is told.
//! Trainings of all kinds look in `training`.

use std::sync::Arc;

use umbo_core::error::{Result, Status};
use umbo_core::optimizer::gradients::reduced::reduced;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, Optimizer, VariableGroup, apply,
};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::dividing::gradients;
use super::engine::ranks;
use super::on_gpus::runs;
use super::{bytes, on_ranks, tensor, variable};

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
        variable(
            &strategy,
            name,
            Aggregation::None,
            &tensor(&vec![0f32; size], &[size]),
        )
    };
    let variables = vec![make("a", 70), make("b", 3)];
    let options = GradientsOptions {
        accumulation_steps: accumulation,
        ..GradientsOptions::default()
    };
    let gradients = gradients(&strategy, &variables, options);
    let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 1.0).unwrap();
    Trained {
        strategy,
        variables,
        gradients,
        optimizer,
    }
}

impl Trained {
    /// A run in which the replicas for which `writes` says so write the variables; `weight` is what
    /// each submits.
    fn run(&self, writes: impl Fn(usize, usize) -> bool + Sync, weight: f64) -> Result<()> {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            for (index, size) in [(0, 70), (1, 3)] {
                if writes(replica, index) {
                    let view = self
                        .gradients
                        .view_in(context, index, GradientMode::Overwrite)?;
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
        read(&self.variables[index])
            .unwrap()
            .to_vec::<f32>()
            .unwrap()
    }
}

#[test]
fn a_look_at_nothing_fails_on_all_ranks() {
    for accumulation in [1, runs(2)] {
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

/// The gradients of a frozen variable are not accumulated. Without accumulation there is a
/// gradient, though no apply uses it.
#[test]
fn a_look_at_a_frozen_variable_finds_nothing_where_runs_are_accumulated() {
    for count in [1, 2] {
        on_ranks(&ranks(count), 1, |_, strategy| {
            let strategy = strategy.unwrap();
            for accumulation in [1, runs(3)] {
                let trained = set_up(strategy.clone(), accumulation);
                let frozen = VariableGroup {
                    frozen: true,
                    ..VariableGroup::default()
                };
                trained
                    .optimizer
                    .add_group(&trained.variables[1..], frozen)
                    .unwrap();
                for run in 0..accumulation {
                    trained.run(|_, _| true, 1.0).unwrap();
                    for (by, leaves_out) in [
                        (Some(&trained.optimizer), accumulation > 1),
                        (None, run > 0),
                    ] {
                        assert!(look(&trained.gradients, 0, by).starts_with(b"float32"));
                        let found = look(&trained.gradients, 1, by);
                        let starts = if leaves_out {
                            &b"NotFound"[..]
                        } else {
                            b"float32"
                        };
                        assert!(
                            found.starts_with(starts),
                            "{}",
                            String::from_utf8_lossy(&found)
                        );
                    }
                    apply(&trained.optimizer, &trained.gradients).unwrap();
                }
                assert_eq!(trained.weights(1), [0.0; 3]);
                assert_ne!(trained.weights(0), [0.0; 70]);
            }
        });
    }
}

#[test]
fn ranks_that_look_at_different_things_are_told() {
    on_ranks(&ranks(2), 1, |rank, strategy| {
        let trained = set_up(strategy.unwrap(), 1);
        trained.run(|_, _| true, 1.0).unwrap();
        let error = reduced(&trained.gradients, rank, None).unwrap_err();
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("the ranks disagree") && text.contains("a look at"),
            "{text}"
        );
        // One looks, the other applies.
        let error = match rank {
            0 => reduced(&trained.gradients, 0, None).map(drop).unwrap_err(),
            _ => apply(&trained.optimizer, &trained.gradients)
                .map(drop)
                .unwrap_err(),
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
            let Trained {
                strategy,
                variables,
                ..
            } = &trained;
            let other = gradients(strategy, variables, GradientsOptions::default());
            // These gradients were submitted by nobody.
            let those = if rank == failing {
                &other
            } else {
                &trained.gradients
            };
            let error = reduced(those, 0, None).unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            let told = error
                .to_string()
                .contains(&format!("rank {failing} failed"));
            assert_eq!(told, rank != failing, "{error}");
            // Nothing was used up.
            assert!(look(&trained.gradients, 0, None).starts_with(b"float32"));
            apply(&trained.optimizer, &trained.gradients).unwrap();
            assert_ne!(trained.weights(0), [0.0; 70]);
        });
    }
}
