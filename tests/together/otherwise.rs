//! Ranks that would update otherwise than the others: each computes weights for all, so what came of it would be
//! of two kinds, and a rank that leaves a variable out would send other bytes. They are told, and nothing changes.

use umbo::error::Status;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::rule::VariableProgress;
use umbo::optimizer::{GradientsOptions, Group, Optimizer, Settings, apply};
use umbo::strategy::ReplicaContext;
use umbo::values::variable::Variable;

use super::dividing::{contribute, gradients, known, make};
use super::engine::ranks;
use super::on_ranks_of;
use super::reproducible::chosen;

/// Makes an optimizer update otherwise.
type Change = fn(&Optimizer, &[Variable]);

/// With where it is found out.
const CHANGES: [(&str, Change); 9] = [
    (WEIGHTS, |optimizer, _| optimizer.set_learning_rate(0.2).unwrap()),
    (WEIGHTS, |optimizer, _| {
        let settings = Settings { clip_value: Some(0.5), ..Settings::default() };
        optimizer.configure(settings).unwrap();
    }),
    (WEIGHTS, |optimizer, _| {
        let settings = Settings { global_clip_norm: Some(0.01), ..Settings::default() };
        optimizer.configure(settings).unwrap();
    }),
    (WEIGHTS, |optimizer, _| {
        let settings = Settings { weight_decay: Some(0.5), ..Settings::default() };
        optimizer.configure(settings).unwrap();
    }),
    (WEIGHTS, |optimizer, variables| {
        let group = Group { learning_rate_factor: 0.5, ..Group::default() };
        optimizer.add_group(&variables[..1], group).unwrap();
    }),
    // Of the variable that is updated by rows.
    (WEIGHTS, |optimizer, variables| {
        let group = Group { weight_decay: Some(0.25), ..Group::default() };
        optimizer.add_group(&variables[1..2], group).unwrap();
    }),
    (WEIGHTS, |optimizer, variables| {
        let progress = VariableProgress { updates: 7, running: [0.25, 0.5] };
        optimizer.set_variable_progress(&variables[2], progress).unwrap();
    }),
    (GRADIENTS, |optimizer, variables| {
        let group = Group { frozen: true, ..Group::default() };
        optimizer.add_group(&variables[..1], group).unwrap();
    }),
    (GRADIENTS, |optimizer, variables| {
        let group = Group { frozen: true, ..Group::default() };
        optimizer.add_group(&variables[1..2], group).unwrap();
    }),
];

const WEIGHTS: &str = "the exchange of new weights";
const GRADIENTS: &str = "the exchange of gradients";

#[test]
fn ranks_that_update_otherwise_are_told() {
    for (number, (place, change)) in CHANGES.into_iter().enumerate() {
        for in_sync in [0, 5] {
            let wrong = number % 3;
            on_ranks_of(
                &ranks(3),
                |rank| chosen(rank, 1, in_sync),
                |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let variables = make(&strategy, &[&[3000], &[6, 4], &[3]]);
                    let row_sparse = [false, true, false];
                    let options =
                        GradientsOptions { row_sparse: &row_sparse, ..GradientsOptions::default() };
                    let gradients = gradients(&strategy, &variables, options);
                    let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
                    let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.1).unwrap();
                    let step = |step: usize| {
                        let callback = |context: &ReplicaContext| {
                            contribute(context, &gradients, step).map(|()| None)
                        };
                        strategy.run(&callback, None).unwrap();
                        apply(&optimizer, &gradients)
                    };
                    step(0).unwrap();
                    let before = known(&optimizer, &variables);
                    if rank == wrong {
                        change(&optimizer, &variables);
                    }
                    let error = step(1).unwrap_err();
                    let what = || format!("change {number}, {in_sync} in sync: {error}");
                    assert_eq!(error.status(), Status::FailedPrecondition, "{}", what());
                    let text = error.to_string();
                    assert!(text.contains("the ranks disagree"), "{}", what());
                    assert!(text.contains(place), "{}", what());
                    assert!(known(&optimizer, &variables) == before, "{}", what());
                    assert_eq!(optimizer.iterations(), 1);
                    // Once all do the same they go on.
                    if rank != wrong {
                        change(&optimizer, &variables);
                    }
                    step(2).unwrap();
                    assert!(known(&optimizer, &variables) != before, "change {number}");
                },
            );
        }
    }
}
