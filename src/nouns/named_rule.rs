//! The rules by their names, as a trainer's options name them.

use crate::machinery::prelude::*;
use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::sgd::Sgd;

/// A rule with the defaults of its options, and their learning rate.
type NamedRule = (Box<dyn UpdateRule>, f64);

/// The rule of options, and their learning rate.
macro_rules! rule_of {
    ($options:expr) => {{
        let options = $options;
        (Box::new(options.rule()?), options.learning_rate)
    }};
}

/// The rule of this name with the defaults of its options, and their learning rate.
pub(crate) fn rule_named(name: &str) -> Result<NamedRule> {
    Ok(match name {
        "sgd" => (Box::new(Sgd), umbo_sgd_options::default().learning_rate),
        "momentum" => rule_of!(umbo_momentum_options::default()),
        "nesterov" => rule_of!(umbo_momentum_options {
            nesterov: 1,
            ..Default::default()
        }),
        "adam" => rule_of!(umbo_adam_options::default()),
        "adamw" => rule_of!(umbo_adamw_options::default()),
        "nadam" => rule_of!(umbo_nadam_options::default()),
        "radam" => rule_of!(umbo_radam_options::default()),
        "lion" => rule_of!(umbo_lion_options::default()),
        "lamb" => rule_of!(umbo_lamb_options::default()),
        "lars" => rule_of!(umbo_lars_options::default()),
        "adafactor" => rule_of!(umbo_adafactor_options::default()),
        "adagrad" => rule_of!(umbo_adagrad_options::default()),
        "rmsprop" => rule_of!(umbo_rmsprop_options::default()),
        "ftrl" => rule_of!(umbo_ftrl_options::default()),
        _ => {
            return Err(invalid!(
                "options.rule",
                "'{name}'; valid are sgd, momentum, nesterov, adam, adamw, nadam, radam, lion, \
                 lamb, lars, adafactor, adagrad, rmsprop and ftrl (options.optimizer takes any \
                 other)"
            ));
        }
    })
}
