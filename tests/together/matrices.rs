//! Matrices whose steps are made of all of their elements: they are dealt out over the ranks as
//! wholes, and what comes of it are the bits of one process.

use umbo_core::error::Status;
use umbo_core::optimizer::rules::catalogue::MATRIX_RULES;
use umbo_core::optimizer::rules::muon::Muon;
use umbo_core::optimizer::{GradientsOptions, Optimizer, apply};
use umbo_core::strategy::{Options, ReplicaContext};

use super::dividing::{Plan, contribute, gradients, known, make, plans, train_shapes};
use super::engine::{job, ranks};
use super::reproducible::chosen;
use super::{alone, on_ranks, on_ranks_of};

/// Wide, tall and square ones, one of less than a tile, one that is empty, and more of them than
/// ranks; the parts of most begin within a row.
const SHAPES: [&[usize]; 7] = [
    &[3, 700],
    &[900, 5],
    &[0, 4],
    &[48, 48],
    &[2, 2],
    &[1, 1],
    &[33, 129],
];

#[test]
fn every_matrix_rule_divided_comes_to_the_bits_of_one_process() {
    let splits = [(2, 1), (2, 2), (3, 1), (4, 1), (2, 3), (5, 1)];
    let cases = MATRIX_RULES
        .iter()
        .flat_map(|rule| plans().into_iter().map(move |plan| (rule.make, plan)));
    for (number, (make, plan)) in cases.enumerate() {
        let in_sync = [0, 5][number % 2];
        let (size, devices) = splits[number % splits.len()];
        let all = [size * devices, in_sync][usize::from(in_sync > 0)];
        let accumulation = if in_sync == 0 { plan.accumulation } else { 1 };
        let plan = Plan {
            accumulation,
            ..plan
        };
        let expected = train_shapes(alone(all), &SHAPES, make(), plan);
        let options = |rank: usize| Options {
            strict: (rank + number).is_multiple_of(3),
            ..chosen(rank, devices, in_sync)
        };
        let ranks = job(size, Some(number as u64), None);
        let came = on_ranks_of(&ranks, options, |_, strategy| {
            train_shapes(strategy.unwrap(), &SHAPES, make(), plan)
        });
        for came in came {
            assert!(came == expected, "{all} on {size}×{devices}, {plan:?}");
        }
    }
}

/// All ranks refuse a variable that is not a matrix, and continue to train.
#[test]
fn what_is_no_matrix_is_refused_on_all_ranks() {
    on_ranks(&ranks(3), 1, |_, strategy| {
        let strategy = strategy.unwrap();
        let variables = make(&strategy, &[&[30, 40], &[40]]);
        let both = gradients(&strategy, &variables, GradientsOptions::default());
        let matrix = gradients(&strategy, &variables[..1], GradientsOptions::default());
        let rule = Muon::new(0.95, 0.1, 1e-7).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
        let before = known(&optimizer, &variables);
        for (gradients, is_refused) in [(&both, true), (&matrix, false)] {
            let callback = |context: &ReplicaContext| {
                contribute(context, gradients, 0)?;
                Ok(None)
            };
            strategy.run(&callback, None).unwrap();
            let applied = apply(&optimizer, gradients);
            assert_eq!(applied.is_err(), is_refused);
            if let Err(error) = applied {
                assert_eq!(error.status(), Status::InvalidArgument);
                assert!(error.to_string().contains("1 dimensions"), "{error}");
                assert!(known(&optimizer, &variables) == before);
            }
        }
        assert!(known(&optimizer, &variables) != before);
    });
}
