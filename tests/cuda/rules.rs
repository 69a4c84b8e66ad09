//! A rule of each kind.

use umbo::kernels::dtype::DType;
use umbo::kernels::update::rules::RuleKind;
use umbo::optimizer::adagrad::Adagrad;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::ftrl::Ftrl;
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::rmsprop::RmsProp;
use umbo::optimizer::rule::{Rates, Scalars, UpdateRule};
use umbo::optimizer::sgd::Sgd;

use crate::memory::{Memory, Noise};

/// A rule of every kind.
pub fn rules() -> Vec<Box<dyn UpdateRule>> {
    vec![
        Box::new(Sgd),
        Box::new(Momentum::new(0.9, false).unwrap()),
        Box::new(Momentum::new(0.9, false).unwrap().dampened(0.3).unwrap()),
        Box::new(Momentum::new(0.85, true).unwrap()),
        Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap()),
        Box::new(Adam::adamw(0.9, 0.98, 1e-8, 0.01).unwrap()),
        Box::new(Adagrad::new(0.1, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.0, false, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.5, false, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.0, true, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.5, true, 1e-7).unwrap()),
        Box::new(Adam::lamb(0.9, 0.999, 1e-6, 0.01).unwrap()),
        Box::new(Ftrl::new(1.0, 0.01, 0.02, 0.1).unwrap()),
        Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap().amsgrad(true)),
        Box::new(Adam::adamw(0.9, 0.98, 1e-8, 0.01).unwrap().amsgrad(true)),
    ]
}

/// The scalars of a rule's update after some others.
pub fn scalars(rule: &dyn UpdateRule, updates: usize) -> Scalars {
    let rates = Rates { learning_rate: 0.1 / 3.0, weight_decay: rule.default_weight_decay() };
    let mut running = rule.initial_running();
    for _ in 0..updates {
        running = rule.prepare(&rates, &running).unwrap().running;
    }
    rule.prepare(&rates, &running).unwrap()
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
    let kinds = rules.iter().map(|rule| scalars(&**rule, 3).step.unwrap().kind);
    assert_eq!(kinds.collect::<Vec<_>>(), RuleKind::ALL);
    for (rule, kind) in rules.iter().zip(RuleKind::ALL) {
        let of_rule = (rule.slots().len(), rule.measures());
        assert_eq!(of_rule, (kind.states(), kind.measures()), "{kind:?}");
    }
}
