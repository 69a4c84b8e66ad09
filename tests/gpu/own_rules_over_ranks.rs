//! Rules of the program's over ranks on GPUs: one that fails on one rank, or loses its card, changes nothing on
//! any rank. That they have the bits of CPUs is tested with the built-in rules.

use std::sync::Arc;

use fake_cuda::harness::under_driver;
use umbo::optimizer::rule::WeightDecay;
use umbo::optimizer::rule::{CustomUpdate, QueueUpdate};
use umbo::optimizer::{Optimizer, apply};
use umbo::strategy::{ReplicaContext, Strategy};

use super::on_gpus::let_engines_move_memory_of_gpus;
use super::optimizers::{Case, STEPS, Training, cases};
use super::own_rules::{failing, momentum_of, rule};
use super::ranks::{Places, on_ranks};
use super::scene::through_host::through_host;
use super::*;

/// A training that can be gone on with after a step that failed.
struct Work {
    training: Training,
    optimizer: Arc<Optimizer>,
    /// The apply is deferred to the commit point of the run.
    deferred: bool,
}

impl Work {
    fn new(case: Case, deferred: bool, strategy: Strategy, queue: Box<QueueUpdate>) -> Work {
        let meaning = match case.rule {
            "own" => WeightDecay::L2,
            _ => WeightDecay::Decoupled,
        };
        let training = Training::over(case, strategy);
        let optimizer = training.optimizer(Box::new(rule(meaning, Some(queue))));
        Work { training, optimizer, deferred }
    }

    /// One step. An apply over ranks that fails has used up what the run submitted, so both are made again.
    fn step(&self, number: u64) -> Result<()> {
        let Work { training, optimizer, deferred } = self;
        let scale = optimizer.loss_scale();
        let callback = |context: &ReplicaContext| {
            training.contribute(context, number, scale)?;
            if *deferred {
                apply(optimizer, &training.gradients)?;
            }
            Ok(None)
        };
        training.strategy.run(&callback, None)?;
        match deferred {
            true => Ok(()),
            false => apply(optimizer, &training.gradients).map(drop),
        }
    }

    fn bits(&self) -> Vec<u64> {
        self.training.bits(&self.optimizer)
    }
}

/// The bits after each step, and how often the rule of some rank has failed.
fn train(work: &Work) -> (Vec<Vec<u64>>, usize) {
    let (mut known, mut failures) = (vec![work.bits()], 0);
    for number in 0..STEPS {
        while let Err(error) = work.step(number) {
            let text = error.to_string();
            assert_eq!(error.status(), Status::DataLoss, "{text}");
            assert!(text.contains("the rule does not like it"), "{text}");
            assert_eq!(work.bits(), known[known.len() - 1], "{text}");
            failures += 1;
            assert!(failures < 2, "{text}");
        }
        known.push(work.bits());
    }
    (known, failures)
}

/// The cases of rules of the program's.
fn own_cases() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| case.rule.starts_with("own"))
}

#[test]
fn a_rule_that_fails_on_one_rank_changes_nothing_on_any() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else { return };
    // How many replicas there are if not one for each device.
    let places: [(Places<'_>, usize); 5] = [
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1"], "GPU:1")], 0),
        ([(&["CPU:0"], "CPU:0"), (&["GPU:0", "GPU:1"], "GPU:1")], 0),
        ([(&["CPU:0"], "GPU:2"), (&["GPU:0"], "CPU:0")], 0),
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1", "CPU:0"], "GPU:2")], 5),
        ([(&["GPU:1"], "CPU:0"), (&["GPU:1"], "GPU:1")], 4),
    ];
    let mut failed = 0;
    for (number, case) in own_cases().enumerate() {
        let (place, in_sync) = places[number % places.len()];
        let deferred = number / 2 % 2 == 1;
        control.seed(number as u64);
        let_engines_move_memory_of_gpus(number % 3 == 0);
        let works = || through_host(momentum_of);
        let whole = on_ranks(place, in_sync, |_, strategy| {
            train(&Work::new(case, deferred, strategy, works()))
        });
        assert_eq!(whole[0], whole[1], "{case:?}");
        for wrong in (0..2).filter(|&rank| place[rank].1.starts_with("GPU")) {
            // Each update calls the rule for three variables.
            let at = (number * 5 + wrong) % if case.accumulation == 1 { 8 } else { 3 };
            let late = (number / 4 + wrong) % 2 == 0;
            let came = on_ranks(place, in_sync, |rank, strategy| {
                let queue = if rank == wrong { failing(at, late) } else { works() };
                train(&Work::new(case, deferred, strategy, queue))
            });
            let what = format!("rank {wrong}, call {at}, late {late}, {deferred}: {case:?}");
            assert_eq!(came[0].1, came[1].1, "{what}");
            failed += came[0].1;
            for (known, _) in came {
                assert_eq!(known, whole[0].0, "{what}");
            }
        }
    }
    // Steps that are skipped call no rule.
    assert!(failed > 15, "{failed}");
    clean(&control);
    all_freed(&control, 3);
}

#[test]
fn a_card_that_a_rule_loses_on_one_rank_leaves_the_others_the_step_before() {
    let settings = [("FAKE_CUDA_DEVICES", "4"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else { return };
    let cards =
        [(["GPU:0"], "GPU:0"), (["GPU:1"], "GPU:1"), (["GPU:2"], "GPU:2"), (["CPU:0"], "GPU:3")];
    let cases: Vec<Case> = own_cases().filter(|case| case.accumulation == 1).collect();
    for (number, (devices, parameter_device)) in cards.iter().enumerate() {
        let (case, deferred) = (cases[number % cases.len()], number % 2 == 1);
        let place: Places<'_> = [(&["CPU:0"], "CPU:0"), (devices, *parameter_device)];
        let in_sync = [0, 3][number / 2];
        on_ranks(place, in_sync, |rank, strategy| {
            let works = through_host(momentum_of);
            let queue: Box<QueueUpdate> = Box::new(move |own: &CustomUpdate<'_>| {
                works(own)?;
                // No update of a variable came before the first one.
                if own.step == 1 {
                    let control = Control::open().expect("the driver is loaded");
                    control.fault("cuStreamSynchronize:1:719");
                }
                Ok(())
            });
            let work = Work::new(case, deferred, strategy, queue);
            let (mut before, mut number) = (work.training.weights(), 0);
            let error = loop {
                match work.step(number) {
                    Ok(()) => before = work.training.weights(),
                    Err(error) => break error,
                }
                number += 1;
                assert!(number < 4, "nothing was lost");
            };
            let again = work.step(number).unwrap_err();
            for error in [error, again] {
                let text = error.to_string();
                assert_eq!(error.status(), Status::Unavailable, "{text}");
                assert_eq!(text.contains("rank 1 failed"), rank == 0, "{text}");
            }
            if rank == 0 {
                assert_eq!(work.training.weights(), before);
            }
        });
        control.fault("");
    }
    drop(control.take_reports());
}
