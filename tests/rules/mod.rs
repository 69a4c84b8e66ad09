//! All rules, each by a name, with settings that tests may compute with.

use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::adagrad::Adagrad;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::ftrl::Ftrl;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::rmsprop::RmsProp;
use umbo_core::optimizer::rules::sgd::Sgd;

pub const RULES: [&str; 16] = [
    "sgd",
    "momentum",
    "nesterov",
    "adam",
    "adamw",
    "lamb",
    "adagrad",
    "rmsprop",
    "rmsprop_momentum",
    "rmsprop_centered",
    "rmsprop_both",
    "ftrl",
    "dampened",
    "amsgrad",
    "amsgradw",
    "adagrad_decaying",
];
pub const MOMENTUM: f64 = 0.9;
pub const DAMPENING: f64 = 0.4;
pub const RATE_DECAY: f64 = 0.3;
pub const BETA1: f64 = 0.9;
pub const BETA2: f64 = 0.999;
pub const EPSILON: f64 = 1e-8;
pub const RULE_DECAY: f64 = 0.25;
pub const RHO: f64 = 0.9;
pub const ACCUMULATOR: f64 = 0.1;
pub const BETA: f64 = 1.0;
pub const L1: f64 = 0.02;
pub const L2: f64 = 0.03;

pub fn rule(name: &str) -> Box<dyn UpdateRule> {
    match name {
        "sgd" => Box::new(Sgd),
        "momentum" => Box::new(Momentum::new(MOMENTUM, false).unwrap()),
        "nesterov" => Box::new(Momentum::new(MOMENTUM, true).unwrap()),
        "adam" => Box::new(Adam::new(BETA1, BETA2, EPSILON).unwrap()),
        "adamw" => Box::new(Adam::adamw(BETA1, BETA2, EPSILON, RULE_DECAY).unwrap()),
        "lamb" => Box::new(Adam::lamb(BETA1, BETA2, EPSILON, RULE_DECAY).unwrap()),
        "adagrad" => Box::new(Adagrad::new(ACCUMULATOR, EPSILON).unwrap()),
        "rmsprop" => Box::new(RmsProp::new(RHO, 0.0, false, EPSILON).unwrap()),
        "rmsprop_momentum" => Box::new(RmsProp::new(RHO, MOMENTUM, false, EPSILON).unwrap()),
        "rmsprop_centered" => Box::new(RmsProp::new(RHO, 0.0, true, EPSILON).unwrap()),
        "rmsprop_both" => Box::new(RmsProp::new(RHO, MOMENTUM, true, EPSILON).unwrap()),
        "ftrl" => Box::new(Ftrl::new(BETA, L1, L2, ACCUMULATOR).unwrap()),
        "dampened" => Box::new(
            Momentum::new(MOMENTUM, false)
                .unwrap()
                .dampened(DAMPENING)
                .unwrap(),
        ),
        "amsgrad" => Box::new(Adam::new(BETA1, BETA2, EPSILON).unwrap().amsgrad(true)),
        "amsgradw" => Box::new(
            Adam::adamw(BETA1, BETA2, EPSILON, RULE_DECAY)
                .unwrap()
                .amsgrad(true),
        ),
        "adagrad_decaying" => Box::new(
            Adagrad::new(ACCUMULATOR, EPSILON)
                .unwrap()
                .decaying(RATE_DECAY)
                .unwrap(),
        ),
        other => panic!("no rule {other}"),
    }
}
