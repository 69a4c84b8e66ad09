//! A rule of each kind.

use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::update::rules::RuleKind;
use umbo_core::optimizer::rules::{Rates, Scalars, UpdateRule, catalogue};

use crate::memory::{Memory, Noise};

/// A rule of every kind.
pub fn rules() -> Vec<Box<dyn UpdateRule>> {
    let kind_of = |rule: &dyn UpdateRule| scalars(rule, 3).step.unwrap().kind;
    let rule = |kind| {
        let mut rules = catalogue::RULES.iter().map(|named| (named.make)());
        rules.find(|rule| kind_of(&**rule) == kind)
    };
    RuleKind::ALL
        .iter()
        .map(|&kind| rule(kind).unwrap())
        .collect()
}

/// The scalars of a rule's update after some others.
pub fn scalars(rule: &dyn UpdateRule, updates: usize) -> Scalars {
    let rates = Rates {
        learning_rate: 0.1 / 3.0,
        weight_decay: rule.default_weight_decay(),
    };
    let mut progress = rule.initial_progress();
    for _ in 0..updates {
        progress.running = rule.prepare(&rates, &progress).unwrap().running;
        progress.updates += 1;
    }
    rule.prepare(&rates, &progress).unwrap()
}

/// State and weights of a rule: numbers of every kind, or those that training has.
pub fn operands(
    rule: &dyn UpdateRule,
    dtype: DType,
    elements: usize,
    tame: bool,
    noise: &mut Noise,
) -> Vec<Memory> {
    (0..1 + rule.slots().len())
        .map(|position| {
            let mut operand = Memory::dense(dtype, elements, tame, noise);
            // Roots are taken of some of the state.
            if tame && position > 0 {
                operand.make_positive();
            }
            operand
        })
        .collect()
}

#[test]
fn every_kind_has_a_rule() {
    let rules = rules();
    for (rule, kind) in rules.iter().zip(RuleKind::ALL) {
        let of_rule = (rule.slots().len(), rule.measures());
        assert_eq!(of_rule, (kind.states(), kind.measures()), "{kind:?}");
    }
}
