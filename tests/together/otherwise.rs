//! Ranks that would update otherwise than the others: each computes weights for all, so what came
//! of it would be of two kinds, and a rank that leaves a variable out would send other bytes. They
//! are told, and nothing changes.

use umbo_core::error::Status;
use umbo_core::optimizer::rules::VariableProgress;
use umbo_core::optimizer::rules::adafactor::Adafactor;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{
    ApplyOptions, Gradients, GradientsOptions, LossReduction, Optimizer, Settings, UpdateRule,
    VariableGroup, apply, apply_with,
};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::DType;
use umbo_core::values::variable::{Aggregation, Variable};

use super::dividing::{contribute, gradients, known, make};
use super::engine::ranks;
use super::on_gpus::{may_hold_variables, tried};
use super::reproducible::chosen;
use super::{named, on_ranks, on_ranks_of, tensor};

/// Makes an optimizer update otherwise.
type Change = fn(&Optimizer, &[Variable]);

/// With where it is found out, and what is said of it: the first option that differs, as it is on
/// the rank that differs and on the others.
const CHANGES: [(&str, [&str; 3], Change); 9] = [
    (
        WEIGHTS,
        ["the learning rate", "0.2", "0.1"],
        |optimizer, _| optimizer.set_learning_rate(0.2).unwrap(),
    ),
    (
        WEIGHTS,
        ["the clip value", "0.5", "nothing"],
        |optimizer, _| {
            let settings = Settings {
                clip_value: Some(0.5),
                ..Settings::default()
            };
            optimizer.configure(settings).unwrap();
        },
    ),
    (
        WEIGHTS,
        ["the global clip norm", "0.01", "nothing"],
        |optimizer, _| {
            let settings = Settings {
                global_clip_norm: Some(0.01),
                ..Settings::default()
            };
            optimizer.configure(settings).unwrap();
        },
    ),
    (
        WEIGHTS,
        ["the weight decay", "0.5", "nothing"],
        |optimizer, _| {
            let settings = Settings {
                weight_decay: Some(0.5),
                ..Settings::default()
            };
            optimizer.configure(settings).unwrap();
        },
    ),
    (
        WEIGHTS,
        ["the learning rate of 'v0'", "0.05", "0.1"],
        |optimizer, variables| {
            let group = VariableGroup {
                learning_rate_factor: 0.5,
                ..VariableGroup::default()
            };
            optimizer.add_group(&variables[..1], group).unwrap();
        },
    ),
    // Of the variable that is updated by rows.
    (
        WEIGHTS,
        ["the weight decay of 'v1'", "0.25", "0"],
        |optimizer, variables| {
            let group = VariableGroup {
                weight_decay: Some(0.25),
                ..VariableGroup::default()
            };
            optimizer.add_group(&variables[1..2], group).unwrap();
        },
    ),
    (
        WEIGHTS,
        ["the updates of 'v2' so far", "0.225", "0.81"],
        |optimizer, variables| {
            let progress = VariableProgress {
                updates: 7,
                running: [0.25, 0.5],
            };
            optimizer
                .set_variable_progress(&variables[2], progress)
                .unwrap();
        },
    ),
    (
        GRADIENTS,
        ["whether 'v0' is frozen", "yes", "no"],
        |optimizer, variables| {
            let group = VariableGroup {
                frozen: true,
                ..VariableGroup::default()
            };
            optimizer.add_group(&variables[..1], group).unwrap();
        },
    ),
    (
        GRADIENTS,
        ["whether 'v1' is frozen", "yes", "no"],
        |optimizer, variables| {
            let group = VariableGroup {
                frozen: true,
                ..VariableGroup::default()
            };
            optimizer.add_group(&variables[1..2], group).unwrap();
        },
    ),
];

const WEIGHTS: &str = "the exchange of new weights";
/// In the place of that, if each rank updates everything.
const EVERYTHING: &str = "the update of all variables on each rank";
const GRADIENTS: &str = "the exchange of gradients";

#[test]
fn ranks_with_different_updates_are_refused() {
    let adam = || -> Box<dyn UpdateRule> { Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap()) };
    // Ranks whose variables are on GPUs update everything, by each rule.
    let everything = |place| if place == WEIGHTS { EVERYTHING } else { place };
    let of_adam = CHANGES.map(|(place, quantity, change)| match may_hold_variables() {
        true => (everything(place), quantity, change),
        false => (place, quantity, change),
    });
    refuse_different_updates(adam, of_adam);
    let of_factored = CHANGES.map(|(place, [name, odd, usual], change)| {
        let place = everything(place);
        // The scalar of Adam, or the number of updates.
        let [odd, usual] = match odd {
            "0.225" => ["1.25", "2"],
            _ => [odd, usual],
        };
        (place, [name, odd, usual], change)
    });
    let adafactor =
        || -> Box<dyn UpdateRule> { Box::new(Adafactor::new(catalogue::FACTORED, 0.0).unwrap()) };
    refuse_different_updates(adafactor, of_factored);
}

fn refuse_different_updates(
    make_rule: fn() -> Box<dyn UpdateRule>,
    changes: [(&str, [&str; 3], Change); 9],
) {
    let has_rows = !make_rule().measures();
    let changes = changes.into_iter().enumerate();
    for (number, (place, [name, odd, usual], change)) in tried(changes) {
        for in_sync in [0, 5] {
            let wrong = number % 3;
            on_ranks_of(
                &ranks(3),
                |rank| chosen(rank, 1, in_sync),
                |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let variables = make(&strategy, &[&[3000], &[6, 4], &[3]]);
                    let row_sparse = [false, has_rows, false];
                    let options = GradientsOptions {
                        row_sparse: &row_sparse,
                        ..GradientsOptions::default()
                    };
                    let gradients = gradients(&strategy, &variables, options);
                    let optimizer = Optimizer::new(strategy.id(), make_rule(), 0.1).unwrap();
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
                    let case = || format!("change {number}, {in_sync} in sync: {error}");
                    assert_eq!(error.status(), Status::FailedPrecondition, "{}", case());
                    let text = error.to_string();
                    assert!(text.contains("the ranks disagree"), "{}", case());
                    assert!(text.contains(place), "{}", case());
                    assert!(
                        text.contains(&format!("rank {wrong} differs")),
                        "{}",
                        case()
                    );
                    for part in [name, odd, usual] {
                        assert!(text.contains(part), "'{part}' is missing: {}", case());
                    }
                    assert!(known(&optimizer, &variables) == before, "{}", case());
                    assert_eq!(optimizer.iterations(), 1);
                    // Once all do the same they continue.
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

/// How a rank makes its gradients and applies them.
#[derive(Clone)]
struct Way {
    names: [&'static str; 2],
    shape: Vec<usize>,
    row_sparse: [bool; 2],
    dtype: Option<DType>,
    reduction: LossReduction,
    accumulation_steps: u64,
    options: ApplyOptions,
    adam: [f64; 3],
}

/// Makes it otherwise.
type Twist = fn(&mut Way);

/// With the first option that differs, as it is on the rank that differs and on the others.
const TWISTS: [([&str; 3], Twist); 9] = [
    (["", "'c'", "'b'"], |way| way.names[1] = "c"),
    (
        [
            "",
            "'a', float32 of shape [4, 3]",
            "'a', float32 of shape [3, 4]",
        ],
        |way| {
            way.shape = vec![4, 3];
        },
    ),
    (
        ["the type of the gradient of 'a'", "'float16'", "'float32'"],
        |way| {
            way.dtype = Some(DType::Float16);
        },
    ),
    (
        ["whether the gradient of 'b' is row-sparse", "yes", "no"],
        |way| way.row_sparse[1] = true,
    ),
    (["the reduction of the losses", "'Sum'", "'Mean'"], |way| {
        way.reduction = LossReduction::Sum
    }),
    (["the number of accumulation steps", "1", "2"], |way| {
        way.accumulation_steps = 1
    }),
    (
        ["the option measure_norm of the apply", "yes", "no"],
        |way| way.options.measure_norm = true,
    ),
    (["the rule's beta1", "0.8", "0.9"], |way| way.adam[0] = 0.8),
    (["the rule's epsilon", "0.5", "0.25"], |way| {
        way.adam[2] = 0.5
    }),
];

#[test]
fn the_first_option_that_differs_is_named_with_its_values() {
    let usual = Way {
        names: ["a", "b"],
        shape: vec![3, 4],
        row_sparse: [false; 2],
        dtype: None,
        reduction: LossReduction::Mean,
        accumulation_steps: 2,
        options: ApplyOptions {
            flush: true,
            ..ApplyOptions::default()
        },
        adam: [0.9, 0.999, 0.25],
    };
    for ([name, odd, usually], twist) in TWISTS {
        for size in [2, 3] {
            for wrong in 0..size {
                let came = on_ranks(&ranks(size), 1, |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let mut way = usual.clone();
                    if rank == wrong {
                        twist(&mut way);
                    }
                    train(&strategy, &way).unwrap_err()
                });
                for error in came {
                    let text = error.to_string();
                    assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
                    let said = [
                        format!("{odd} on rank {wrong}"),
                        format!("{usually} on rank"),
                    ];
                    // What a variable is is a part of where a rank is.
                    let is_variable = [odd, usually]
                        .iter()
                        .all(|value| text.contains(&format!("the making of variable {value}")));
                    let is_named = said.iter().all(|part| text.contains(part.as_str()));
                    assert!(
                        is_variable || (is_named && text.contains(name)),
                        "{name}: {text}"
                    );
                    let differs = format!("rank {wrong} differs from the others");
                    assert_eq!(text.contains(&differs), size > 2, "{text}");
                }
            }
        }
    }
}

/// Ranks compare 4096 quantities at once. Here there are more, and the last ones differ.
#[test]
fn the_last_of_many_options_is_named() {
    let came = on_ranks(&ranks(2), 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let variables = make(&strategy, &[&[1][..]; 700]);
        let options = GradientsOptions {
            accumulation_steps: 2 + rank as u64,
            ..GradientsOptions::default()
        };
        let gradients = gradients(&strategy, &variables, options);
        let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.1).unwrap();
        let callback = |context: &ReplicaContext| contribute(context, &gradients, 0).map(|()| None);
        strategy.run(&callback, None).unwrap();
        let options = ApplyOptions {
            flush: true,
            ..ApplyOptions::default()
        };
        apply_with(&optimizer, &gradients, options)
            .unwrap_err()
            .to_string()
    });
    for text in came {
        let expected = "the number of accumulation steps is 2 on rank 0, 3 on rank 1";
        assert!(text.contains(expected), "{text}");
    }
}

fn train(strategy: &Strategy, way: &Way) -> umbo_core::error::Result<()> {
    let count = way.shape.iter().product();
    let mut variables = Vec::new();
    for name in way.names {
        let value = tensor(&vec![1f32; count], &way.shape);
        let new = named(name, Aggregation::None);
        variables.push(variables::create(
            Some(strategy),
            new,
            Initial::Value(&value),
        )?);
    }
    let options = GradientsOptions {
        accumulation_steps: way.accumulation_steps,
        dtype: way.dtype,
        row_sparse: &way.row_sparse,
    };
    let devices = strategy.replica_devices();
    let gradients = Gradients::new(strategy.id(), devices, variables, way.reduction, options)?;
    let [beta1, beta2, epsilon] = way.adam;
    let rule = Box::new(Adam::new(beta1, beta2, epsilon)?);
    let optimizer = Optimizer::new(strategy.id(), rule, 0.1)?;
    let callback = |context: &ReplicaContext| contribute(context, &gradients, 0).map(|()| None);
    strategy.run(&callback, None)?;
    apply_with(&optimizer, &gradients, way.options).map(drop)
}
