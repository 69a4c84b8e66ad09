//! The list of all rules, for benchmarks and tests: a rule that is missing here is not measured and
//! not tested, and another list of them is a mistake that a test finds.

use super::adafactor::Adafactor;
use super::adagrad::Adagrad;
use super::adam::Adam;
use super::ftrl::Ftrl;
use super::lars::Lars;
use super::lion::Lion;
use super::momentum::Momentum;
use super::muon::Muon;
use super::nadam::NAdam;
use super::radam::RAdam;
use super::rmsprop::RmsProp;
use super::sgd::Sgd;
use super::{FactoredRule, Result, StepScale, UpdateRule, WeightDecay};

/// The momentum of rules that have one.
pub const MOMENTUM: f64 = 0.9;
/// The dampening of `dampened`.
pub const DAMPENING: f64 = 0.4;
/// The decay of the first moment.
pub const BETA1: f64 = 0.9;
/// The decay of the second moment.
pub const BETA2: f64 = 0.999;
/// The number that keeps divisors from being 0.
pub const EPSILON: f64 = 1e-8;
/// The weight decay of rules that have one of their own.
pub const WEIGHT_DECAY: f64 = 0.25;
/// The decay of NAdam's momentum.
pub const MOMENTUM_DECAY: f64 = 0.25;
/// The trust coefficient of LARS.
pub const TRUST_COEFFICIENT: f64 = 0.125;
/// The decay of RMSprop's averages.
pub const RHO: f64 = 0.9;
/// The first sum of squares of Adagrad and FTRL.
pub const ACCUMULATOR: f64 = 0.1;
/// The decay of the learning rate of `adagrad_decaying`.
pub const RATE_DECAY: f64 = 0.3;
/// The β of FTRL.
pub const BETA: f64 = 1.0;
/// The λ₁ of FTRL.
pub const L1: f64 = 0.02;
/// The λ₂ of FTRL.
pub const L2: f64 = 0.03;
/// The numbers of Adafactor.
pub const FACTORED: FactoredRule = FactoredRule {
    beta2_decay: -0.8,
    clip_threshold: 1.0,
    epsilon1: None,
    epsilon2: 1e-3,
};
/// The numbers of `adafactor_other`, whose steps are rarely scaled down, and with weights that are
/// small in relation to the steps.
pub const OTHER_FACTORED: FactoredRule = FactoredRule {
    beta2_decay: -0.5,
    clip_threshold: 1.25,
    epsilon1: Some(1e-4),
    epsilon2: 0.5,
};

/// A rule with numbers with which each term of its formula counts.
#[derive(Clone, Copy, Debug)]
pub struct NamedRule {
    /// The name of the rule or of its variant.
    pub name: &'static str,
    /// Whether it is a variant, with a formula or scalars of its own, of the rule before it that is
    /// none.
    pub is_variant: bool,
    /// The function that makes it.
    pub make: fn() -> Box<dyn UpdateRule>,
}

/// All rules of the table of formulas, for variables of any shape, each with its variants behind
/// it.
pub const RULES: [NamedRule; 22] = [
    rule("sgd", || Box::new(Sgd)),
    rule("momentum", || known(Momentum::new(MOMENTUM, false))),
    rule("nesterov", || known(Momentum::new(MOMENTUM, true))),
    variant("dampened", || {
        known(Momentum::new(MOMENTUM, false).and_then(|rule| rule.dampened(DAMPENING)))
    }),
    rule("adagrad", || known(Adagrad::new(ACCUMULATOR, EPSILON))),
    variant("adagrad_decaying", || {
        known(Adagrad::new(ACCUMULATOR, EPSILON).and_then(|rule| rule.decaying(RATE_DECAY)))
    }),
    rule("rmsprop", || known(RmsProp::new(RHO, 0.0, false, EPSILON))),
    variant("rmsprop_momentum", || {
        known(RmsProp::new(RHO, MOMENTUM, false, EPSILON))
    }),
    variant("rmsprop_centered", || {
        known(RmsProp::new(RHO, 0.0, true, EPSILON))
    }),
    variant("rmsprop_both", || {
        known(RmsProp::new(RHO, MOMENTUM, true, EPSILON))
    }),
    rule("adam", || known(Adam::new(BETA1, BETA2, EPSILON))),
    variant("amsgrad", || {
        known(Adam::new(BETA1, BETA2, EPSILON).map(|rule| rule.amsgrad(true)))
    }),
    rule("adamw", || {
        known(Adam::adamw(BETA1, BETA2, EPSILON, WEIGHT_DECAY))
    }),
    variant("amsgradw", || {
        known(Adam::adamw(BETA1, BETA2, EPSILON, WEIGHT_DECAY).map(|rule| rule.amsgrad(true)))
    }),
    rule("nadam", || {
        known(NAdam::new(BETA1, BETA2, EPSILON, MOMENTUM_DECAY))
    }),
    variant("nadam_decoupled", || {
        let rule = NAdam::new(BETA1, BETA2, EPSILON, MOMENTUM_DECAY);
        known(rule.map(|rule| rule.with_weight_decay(WeightDecay::Decoupled)))
    }),
    rule("radam", || known(RAdam::new(BETA1, BETA2, EPSILON))),
    variant("radam_decoupled", || {
        let rule = RAdam::new(BETA1, BETA2, EPSILON);
        known(rule.map(|rule| rule.with_weight_decay(WeightDecay::Decoupled)))
    }),
    rule("lion", || known(Lion::new(BETA1, BETA2, WEIGHT_DECAY))),
    rule("lamb", || {
        known(Adam::lamb(BETA1, BETA2, EPSILON, WEIGHT_DECAY))
    }),
    rule("lars", || {
        known(Lars::new(MOMENTUM, TRUST_COEFFICIENT, WEIGHT_DECAY))
    }),
    rule("ftrl", || known(Ftrl::new(BETA, L1, L2, ACCUMULATOR))),
];

/// The rules for matrices alone.
pub const MATRIX_RULES: [NamedRule; 3] = [
    rule("muon", || known(Muon::new(MOMENTUM, WEIGHT_DECAY, EPSILON))),
    variant("muon_plain", || {
        known(Muon::new(MOMENTUM, 0.0, EPSILON).map(|rule| rule.nesterov(false)))
    }),
    variant("muon_matching", || {
        let rule = Muon::new(MOMENTUM, WEIGHT_DECAY, EPSILON);
        known(rule.map(|rule| rule.scaled(StepScale::MatchAdamW)))
    }),
];

/// The rules whose second moments are factored, for variables of any shape.
pub const FACTORED_RULES: [NamedRule; 2] = [
    rule("adafactor", || {
        known(Adafactor::new(FACTORED, WEIGHT_DECAY))
    }),
    variant("adafactor_other", || {
        known(Adafactor::new(OTHER_FACTORED, 0.0))
    }),
];

/// The rules without a formula for each element.
pub fn other_rules() -> impl Iterator<Item = NamedRule> {
    MATRIX_RULES.into_iter().chain(FACTORED_RULES)
}

/// The names of all rules of the table.
pub const NAMES: [&str; RULES.len()] = {
    let mut names = [""; RULES.len()];
    let mut at = 0;
    while at < RULES.len() {
        names[at] = RULES[at].name;
        at += 1;
    }
    names
};

/// Whether the rule of this name can update some rows of a variable without the others. Rules of a
/// test's own can.
pub fn updates_rows(name: &str) -> bool {
    make(name).is_none_or(|rule| !rule.measures() && rule.matrix_rule().is_none())
}

/// The rule of this name.
pub fn make(name: &str) -> Option<Box<dyn UpdateRule>> {
    let mut named = RULES.into_iter().chain(other_rules());
    let named = named.find(|rule| rule.name == name)?;
    Some((named.make)())
}

const fn rule(name: &'static str, make: fn() -> Box<dyn UpdateRule>) -> NamedRule {
    NamedRule {
        name,
        is_variant: false,
        make,
    }
}

const fn variant(name: &'static str, make: fn() -> Box<dyn UpdateRule>) -> NamedRule {
    NamedRule {
        name,
        is_variant: true,
        make,
    }
}

fn known<R: UpdateRule + 'static>(rule: Result<R>) -> Box<dyn UpdateRule> {
    Box::new(rule.expect("the numbers of the list are valid"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use umbo_kernels::update::rules::RuleKind;

    use super::*;

    /// Each formula of the table of kernels has a rule in the list.
    #[test]
    fn every_formula_has_a_named_rule() {
        let formulas: HashSet<RuleKind> = RULES
            .iter()
            .map(|named| {
                let rule = (named.make)();
                let rates = crate::rules::Rates {
                    learning_rate: 0.1,
                    weight_decay: rule.default_weight_decay(),
                };
                // The second update has what the first one has counted.
                let mut progress = rule.initial_progress();
                progress.running = rule.prepare(&rates, &progress).unwrap().running;
                progress.updates = 1;
                rule.prepare(&rates, &progress).unwrap().step.unwrap().kind
            })
            .collect();
        assert_eq!(formulas.len(), RuleKind::ALL.len());
        assert_eq!(NAMES.into_iter().collect::<HashSet<_>>().len(), RULES.len());
    }
}
