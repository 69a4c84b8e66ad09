//! Rules of the program's over ranks on GPUs: one that fails on one rank changes nothing on any
//! rank. That they have the bits of CPUs is tested with the built-in rules.

use fake_cuda::harness::under_driver;
use umbo_core::optimizer::apply;
use umbo_core::optimizer::rules::{QueueUpdate, WeightDecay};
use umbo_core::strategy::{ReplicaContext, Strategy};

use super::on_gpus::let_engines_move_memory_of_gpus;
use super::optimizers::{Case, STEPS, Training, cases};
use super::own_rules::{failing, momentum_of, rule};
use super::ranks::{Places, on_ranks};
use super::scene::through_host::through_host;
use super::*;

/// Trains, and takes each step again that fails. The bits after each step, and how often the rule
/// of some rank has failed. `deferred`: applies are deferred to the commit points of the runs.
fn train(
    case: Case,
    deferred: bool,
    strategy: Strategy,
    queue: Box<QueueUpdate>,
) -> (Vec<Vec<u64>>, usize) {
    let meaning = match case.rule {
        "own" => WeightDecay::L2,
        _ => WeightDecay::Decoupled,
    };
    let training = Training::over(case, strategy);
    let optimizer = training.optimizer(Box::new(rule(meaning, Some(queue))));
    // An apply over ranks that fails has used up what the run submitted, so both are made again.
    let step = |number: u64| {
        let scale = optimizer.loss_scale();
        let callback = |context: &ReplicaContext| {
            training.contribute(context, number, scale)?;
            if deferred {
                apply(&optimizer, &training.gradients)?;
            }
            Ok(None)
        };
        training.strategy.run(&callback, None)?;
        match deferred {
            true => Ok(()),
            false => apply(&optimizer, &training.gradients).map(drop),
        }
    };
    let mut known = vec![training.bits(&optimizer)];
    let mut failures = 0;
    for number in 0..STEPS {
        while let Err(error) = step(number) {
            refused(
                Err::<(), _>(error),
                Status::DataLoss,
                &["the rule does not like it"],
            );
            assert_eq!(training.bits(&optimizer), known[known.len() - 1]);
            failures += 1;
            assert!(failures < 2);
        }
        known.push(training.bits(&optimizer));
    }
    (known, failures)
}

/// The cases of rules of the program's.
fn own_cases() -> impl Iterator<Item = Case> {
    cases()
        .into_iter()
        .filter(|case| case.rule.starts_with("own"))
}

#[test]
fn a_rule_that_fails_on_one_rank_changes_nothing_on_any() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    // How many replicas there are if not one for each device.
    let places: [(Places<'_>, usize); 5] = [
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1"], "GPU:1")], 0),
        ([(&["CPU:0"], "CPU:0"), (&["GPU:0", "GPU:1"], "GPU:1")], 0),
        ([(&["CPU:0"], "GPU:2"), (&["GPU:0"], "CPU:0")], 0),
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1", "CPU:0"], "GPU:2")], 5),
        ([(&["GPU:1"], "CPU:0"), (&["GPU:1"], "GPU:1")], 4),
    ];
    let mut failed = 0;
    for (number, mut case) in own_cases().enumerate() {
        let (place, in_sync) = places[number % places.len()];
        case.accumulation = if in_sync > 0 { 1 } else { case.accumulation };
        let deferred = number / 2 % 2 == 1;
        control.seed(number as u64);
        let_engines_move_memory_of_gpus(number % 3 == 0);
        let works = || through_host(momentum_of);
        let whole = on_ranks(place, in_sync, |_, strategy| {
            train(case, deferred, strategy, works())
        });
        assert_eq!(whole[0], whole[1], "{case:?}");
        for wrong in (0..2).filter(|&rank| place[rank].1.starts_with("GPU")) {
            // Each update calls the rule for three variables.
            let at = (number * 5 + wrong) % if case.accumulation == 1 { 8 } else { 3 };
            let late = (number / 4 + wrong) % 2 == 0;
            let came = on_ranks(place, in_sync, |rank, strategy| {
                let queue = if rank == wrong {
                    failing(at, late)
                } else {
                    works()
                };
                train(case, deferred, strategy, queue)
            });
            let case = format!("rank {wrong}, call {at}, late {late}, {deferred}: {case:?}");
            assert_eq!(came[0].1, came[1].1, "{case}");
            failed += came[0].1;
            for (known, _) in came {
                assert_eq!(known, whole[0].0, "{case}");
            }
        }
    }
    // Steps that are skipped call no rule.
    assert!(failed > 15, "{failed}");
    clean(&control);
    all_freed(&control, 3);
}
