//! With a chosen number of replicas in sync the bits of a training do not depend on how many ranks
//! and devices there are.

use super::dividing::make;
use super::engine::ranks;
use super::on_gpus::{placed, tried};
use super::pairwise::pairwise;
use super::training::{Model, Plan, plans, rule, train};
use super::{on_ranks_of, options};
use umbo_core::error::{Error, Status};
use umbo_core::optimizer::{Gradients, GradientsOptions, LossReduction, Settings};
use umbo_core::strategy::{Options, Strategy};

/// How many replicas there are in all of these tests.
const REPLICAS: usize = 12;

/// The options of rank `rank`, on the devices that this process tests.
pub fn chosen(rank: usize, devices: usize, replicas: usize) -> Options {
    Options {
        replicas_in_sync: replicas,
        bind_threads: false,
        ..placed(rank, devices)
    }
}

/// Numbers whose sums depend on the order, over every split and with shares that are not the same.
#[test]
fn no_split_shows() {
    let models = [
        (Model::Dense, true, REPLICAS),
        (Model::Dense, false, REPLICAS + 1),
        (Model::Rows, true, REPLICAS + 5),
        (Model::Rows, false, REPLICAS),
    ];
    for choice in tried(pairwise(&[models.len(), 4, 3])) {
        let (model, deferred, replicas) = models[choice[0]];
        let size = choice[1] + 1;
        let devices = choice[2] + 1;
        let plan = Plan {
            model,
            reduction: LossReduction::Sum,
            settings: Settings {
                global_clip_norm: Some(0.7),
                ..Settings::default()
            },
            accumulation: 1,
            deferred,
            overflows: false,
            is_wide: true,
        };
        let expected = train(Strategy::new(&options(replicas)).unwrap(), &plan, rule(2));
        let came = on_ranks_of(
            &ranks(size),
            |rank| chosen(rank, devices, replicas),
            |_, strategy| train(strategy.unwrap(), &plan, rule(2)),
        );
        let same = came.iter().all(|came| *came == expected);
        assert!(same, "{replicas} replicas on {size}×{devices}, {plan:?}");
    }
}

fn errors_of(size: usize, options_of: impl Fn(usize) -> Options + Sync) -> Vec<Error> {
    on_ranks_of(&ranks(size), options_of, |_, made| made.err().unwrap())
}

#[test]
fn bad_numbers_say_what_would_be_right() {
    let error = Strategy::new(&chosen(0, 3, 2)).err().unwrap();
    assert_eq!(error.status(), Status::InvalidArgument);
    let text = error.to_string();
    assert!(
        text.contains("replicas_in_sync") && text.contains("give 3 or more"),
        "{text}"
    );
    let error = Strategy::new(&chosen(0, 1, 1025)).err().unwrap();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.to_string().contains("at most 1024"), "{error}");
    // Enough for one rank and not for the other fails on both.
    for error in errors_of(2, |rank| chosen(rank, 1 + rank, 3 - rank)) {
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
    }
    for error in errors_of(2, |rank| chosen(rank, 1, 4 + rank)) {
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("4 replicas in sync") && text.contains("5 replicas"),
            "{text}"
        );
    }
    for error in errors_of(2, |rank| chosen(rank, 1, 2 * rank)) {
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        assert!(
            error.to_string().contains("one replica for each device"),
            "{error}"
        );
    }
}

/// Their sums would depend on the split. More replicas in sync do the same.
#[test]
fn ranks_do_not_accumulate_runs() {
    on_ranks_of(
        &ranks(2),
        |rank| chosen(rank, 1, 4),
        |_, strategy| {
            let strategy = strategy.unwrap();
            let variables = make(&strategy, &[&[3]]);
            let options = GradientsOptions {
                accumulation_steps: 2,
                ..Default::default()
            };
            let devices = strategy.replica_devices();
            let sum = LossReduction::Sum;
            let error =
                Gradients::new(strategy.id(), devices, variables, sum, options).unwrap_err();
            assert_eq!(error.status(), Status::Unimplemented, "{error}");
            assert!(
                error
                    .to_string()
                    .contains("2 times as many replicas in sync"),
                "{error}"
            );
        },
    );
}

/// Ranks of one strategy may have different numbers of devices.
#[test]
fn ranks_need_not_be_alike() {
    let plan = Plan {
        is_wide: true,
        ..plans().remove(0)
    };
    let expected = train(Strategy::new(&options(7)).unwrap(), &plan, rule(1));
    let came = on_ranks_of(
        &ranks(3),
        |rank| chosen(rank, [1, 2, 2][rank], 7),
        |rank, strategy| {
            let strategy = strategy.unwrap();
            assert_eq!(strategy.num_replicas(), [2, 2, 3][rank]);
            assert_eq!(strategy.ranks().first_replica(), [0, 2, 4][rank]);
            assert_eq!(strategy.num_replicas_in_sync(), 7);
            assert_eq!(strategy.compute_devices().len(), [1, 2, 2][rank]);
            train(strategy, &plan, rule(1))
        },
    );
    assert!(came.iter().all(|came| *came == expected));
}
