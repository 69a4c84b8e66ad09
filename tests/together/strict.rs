//! Strict ranks: a mistake of one rank's callback fails the step on all of them, with the rank and
//! the mistake named. That strict ranks without mistakes have the bits of others is seen in
//! `dividing`.

use umbo_core::error::Status;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, GradientsOptions, Optimizer, apply};
use umbo_core::strategy::ReplicaContext;

use super::dividing::{contribute, gradients, known, make};
use super::engine::ranks;
use super::on_ranks_strict_where;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    BehindGradient,
    BesideScratch,
}

#[test]
fn strict_mistake_of_one_rank_fails_the_step_on_all() {
    for (size, replicas) in [(2, 1), (2, 2), (3, 1)] {
        for (wrong, all) in (0..size * replicas).flat_map(|wrong| [(wrong, false), (wrong, true)]) {
            let wrong_rank = wrong / replicas;
            // All ranks are strict, or only the one with the mistake.
            let is_strict = |rank| all || rank == wrong_rank;
            on_ranks_strict_where(&ranks(size), replicas, is_strict, |rank, strategy| {
                let strategy = strategy.unwrap();
                let variables = make(&strategy, &[&[6], &[3]]);
                let gradients = gradients(&strategy, &variables, GradientsOptions::default());
                let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.25).unwrap();
                let step = |mistake: Option<Mistake>| {
                    let callback = |context: &ReplicaContext| {
                        let own_mistake = mistake.filter(|_| context.replica_in_sync() == wrong);
                        let behind = match own_mistake {
                            Some(Mistake::BehindGradient) => {
                                let mode = GradientMode::Overwrite;
                                let view = gradients.view_in(context, 0, mode)?;
                                Some(view.address().wrapping_add(6 * size_of::<f32>()))
                            }
                            Some(Mistake::BesideScratch) => {
                                Some(context.scratch(64)?.wrapping_add(64))
                            }
                            None => None,
                        };
                        if let Some(behind) = behind {
                            // SAFETY: in the fence of a strict strategy.
                            unsafe { behind.write(1) };
                        }
                        contribute(context, &gradients, 0)?;
                        apply(&optimizer, &gradients)?;
                        Ok(None)
                    };
                    strategy.run(&callback, None).map(drop)
                };
                step(None).unwrap();
                let before = known(&optimizer, &variables);
                for (mistake, says) in [
                    (Mistake::BehindGradient, "'v0'"),
                    (Mistake::BesideScratch, "outside of its scratch memory"),
                ] {
                    let error = step(Some(mistake)).unwrap_err();
                    let text = error.to_string();
                    assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
                    let told = text.contains(&format!("rank {wrong_rank} failed"));
                    assert_eq!(told, rank != wrong_rank, "{text}");
                    let replica = format!("replica {}", wrong % replicas);
                    assert!(
                        text.contains("strict mode") && text.contains(&replica),
                        "{text}"
                    );
                    // Others get as much of the message as fits.
                    assert!(rank != wrong_rank || text.contains(says), "{text}");
                    assert!(known(&optimizer, &variables) == before, "{mistake:?}");
                }
                step(None).unwrap();
                assert!(known(&optimizer, &variables) != before);
            });
        }
    }
}
