//! The update rules that benchmarks measure, with usual hyperparameters.

use umbo_core::error::Result;
use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::adagrad::Adagrad;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::ftrl::Ftrl;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::rmsprop::RmsProp;
use umbo_core::optimizer::rules::sgd::Sgd;

/// The names of all rules.
pub const RULES: [&str; 9] = [
    "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lamb", "ftrl",
];

/// The rules that are measured by default: one without state, one with one tensor of state, and one
/// with two.
pub const USUAL: [&str; 3] = ["sgd", "momentum", "adamw"];

/// The rule of this name, one of [`RULES`].
pub fn rule_of(name: &str) -> Result<Box<dyn UpdateRule>> {
    Ok(match name {
        "sgd" => Box::new(Sgd),
        "momentum" => Box::new(Momentum::new(0.9, false)?),
        "nesterov" => Box::new(Momentum::new(0.9, true)?),
        "adagrad" => Box::new(Adagrad::new(0.1, 1e-7)?),
        "rmsprop" => Box::new(RmsProp::new(0.9, 0.0, false, 1e-7)?),
        "adam" => Box::new(Adam::new(0.9, 0.999, 1e-8)?),
        "adamw" => Box::new(Adam::adamw(0.9, 0.999, 1e-8, 0.01)?),
        "lamb" => Box::new(Adam::lamb(0.9, 0.999, 1e-6, 0.01)?),
        "ftrl" => Box::new(Ftrl::new(1.0, 0.0, 0.0, 0.1)?),
        other => unreachable!("{other} is none of the rules"),
    })
}

/// Pairs of each name with itself, for an option that chooses from names.
pub fn selves(names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    names.iter().map(|&name| (name, name)).collect()
}
