//! The rules by their names, as a trainer's options name them.

use crate::machinery::prelude::*;
use crate::nouns::update_rule::{
    umbo_adafactor_options, umbo_adagrad_options, umbo_adam_options, umbo_adamw_options,
    umbo_ftrl_options, umbo_lamb_options, umbo_lars_options, umbo_lion_options,
    umbo_momentum_options, umbo_nadam_options, umbo_radam_options, umbo_rmsprop_options,
    umbo_sgd_options,
};
use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::adagrad::Adagrad;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::ftrl::Ftrl;
use umbo_core::optimizer::rules::lars::Lars;
use umbo_core::optimizer::rules::lion::Lion;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::nadam::NAdam;
use umbo_core::optimizer::rules::radam::RAdam;
use umbo_core::optimizer::rules::rmsprop::RmsProp;
use umbo_core::optimizer::rules::sgd::Sgd;

/// A rule with the defaults of its options, and their learning rate.
type NamedRule = (Box<dyn UpdateRule>, f64);

fn named<R: UpdateRule + 'static>(rule: R, learning_rate: f64) -> NamedRule {
    (Box::new(rule), learning_rate)
}

/// The rule of this name with the defaults of its options, and their learning rate.
pub(crate) fn rule_named(name: &str) -> Result<NamedRule> {
    if let Some(rule) = rule_with_moments_named(name)? {
        return Ok(rule);
    }
    Ok(match name {
        "sgd" => named(Sgd, umbo_sgd_options::default().learning_rate),
        "momentum" | "nesterov" => {
            let options = umbo_momentum_options::default();
            let rule = Momentum::new(options.momentum, name == "nesterov")?;
            named(rule, options.learning_rate)
        }
        "lion" => {
            let options = umbo_lion_options::default();
            let rule = Lion::new(options.beta1, options.beta2, options.weight_decay)?;
            named(rule, options.learning_rate)
        }
        "lars" => {
            let options = umbo_lars_options::default();
            let rule = Lars::new(
                options.momentum,
                options.trust_coefficient,
                options.weight_decay,
            )?;
            named(rule, options.learning_rate)
        }
        "adafactor" => {
            let options = umbo_adafactor_options::default();
            named(options.rule()?, options.learning_rate)
        }
        "adagrad" => {
            let options = umbo_adagrad_options::default();
            let rule = Adagrad::new(options.initial_accumulator, options.epsilon)?;
            named(rule, options.learning_rate)
        }
        "rmsprop" => {
            let options = umbo_rmsprop_options::default();
            let rule = RmsProp::new(options.rho, options.momentum, false, options.epsilon)?;
            named(rule, options.learning_rate)
        }
        "ftrl" => {
            let options = umbo_ftrl_options::default();
            let rule = Ftrl::new(
                options.beta,
                options.l1,
                options.l2,
                options.initial_accumulator,
            )?;
            named(rule, options.learning_rate)
        }
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

/// The same for rules that keep the moments of Adam; None: another rule.
fn rule_with_moments_named(name: &str) -> Result<Option<NamedRule>> {
    Ok(Some(match name {
        "adam" => {
            let options = umbo_adam_options::default();
            named(
                Adam::new(options.beta1, options.beta2, options.epsilon)?,
                options.learning_rate,
            )
        }
        "adamw" => {
            let options = umbo_adamw_options::default();
            let rule = Adam::adamw(
                options.beta1,
                options.beta2,
                options.epsilon,
                options.weight_decay,
            )?;
            named(rule, options.learning_rate)
        }
        "nadam" => {
            let options = umbo_nadam_options::default();
            let rule = NAdam::new(
                options.beta1,
                options.beta2,
                options.epsilon,
                options.momentum_decay,
            )?;
            named(rule, options.learning_rate)
        }
        "radam" => {
            let options = umbo_radam_options::default();
            let rule = RAdam::new(options.beta1, options.beta2, options.epsilon)?;
            named(rule, options.learning_rate)
        }
        "lamb" => {
            let options = umbo_lamb_options::default();
            let rule = Adam::lamb(
                options.beta1,
                options.beta2,
                options.epsilon,
                options.weight_decay,
            )?;
            named(rule, options.learning_rate)
        }
        _ => return Ok(None),
    }))
}
