//! Weights in bfloat16 are refused by name where they cannot be rounded.

use half::{bf16, f16};
use umbo_core::error::Status;
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::{Rates, WeightDecay, catalogue};
use umbo_core::optimizer::{Gradients, GradientsOptions, Optimizer, Settings};
use umbo_core::tensor::DType;
use umbo_core::values::variable::Variable;

use super::{RATE, is_rounding, narrow, rounding};
use crate::features::AVERAGES;
use crate::setup::*;

#[test]
fn what_cannot_be_is_refused_by_name() {
    let say = |message: String, parts: &[&str]| {
        for part in parts {
            assert!(message.contains(part), "'{part}' is not in: {message}");
        }
    };
    // Without the setting.
    let variable = variable("w", &narrow(&[1.0; 5]));
    let gradients = gradients(1, &[&variable], Sum);
    let plain = optimizer("sgd", RATE);
    step(&gradients, 1, &[Some(&narrow(&[0.5; 5]))], &[1.0]);
    let refused = refusal(apply(&plain, &gradients), Status::InvalidArgument);
    say(
        refused,
        &[
            "'w'",
            "bfloat16",
            "stochastic_rounding",
            "nothing was changed",
        ],
    );
    assert_eq!(value::<bf16>(&variable), narrow(&[1.0; 5]));
    plain.configure(rounding(1)).unwrap();
    apply(&plain, &gradients).unwrap();
    plain.configure(Settings::default()).unwrap();
    step(&gradients, 2, &[Some(&narrow(&[0.5; 5]))], &[1.0]);
    refusal(apply(&plain, &gradients), Status::InvalidArgument);
    // Rules that look at more than an element, or of whose formula nothing is known.
    for name in RULES {
        let optimizer = optimizer(name, RATE);
        let configured = optimizer.configure(rounding(1));
        if is_rounding(name) {
            configured.unwrap();
            continue;
        }
        say(
            refusal(configured, Status::InvalidArgument),
            &["stochastic_rounding", "lamb"],
        );
        assert_eq!(optimizer.settings(), Settings::default());
    }
    let update = Box::new(|_: &Tile<'_>, _: &Rates, _| {});
    let custom = Custom::new("ours".into(), vec![], 0.0, WeightDecay::L2, update, None);
    let muon = catalogue::make("muon").unwrap();
    for rule in [Box::new(custom.unwrap()), muon] {
        let optimizer = Optimizer::new(STRATEGY, rule, RATE).unwrap();
        refusal(optimizer.configure(rounding(1)), Status::InvalidArgument);
    }
    let averaged = Settings {
        averaging: AVERAGES[1],
        ..rounding(1)
    };
    let refused = refusal(plain.configure(averaged), Status::InvalidArgument);
    say(refused, &["average", "stochastic_rounding"]);
    // Variables and gradients of other types.
    let made = |variable: &Variable, options| {
        Gradients::new(STRATEGY, &devices(1), vec![variable.clone()], Sum, options)
    };
    let half = crate::setup::variable("h", &[f16::ONE; 4]);
    let refused = refusal(
        made(&half, GradientsOptions::default()),
        Status::Unimplemented,
    );
    say(refused, &["'h'", "float16", "bfloat16"]);
    let table = table("t", &narrow(&[1.0; 6]), 3);
    let rows = GradientsOptions {
        row_sparse: &[true],
        ..GradientsOptions::default()
    };
    say(
        refusal(made(&table, rows), Status::Unimplemented),
        &["row_sparse[0]", "'t'"],
    );
    let doubles = GradientsOptions {
        dtype: Some(DType::Float64),
        ..GradientsOptions::default()
    };
    say(
        refusal(made(&table, doubles), Status::InvalidArgument),
        &["dtype", "'t'"],
    );
}
