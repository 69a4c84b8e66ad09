//! All rules, and their steps as data.

use umbo::kernels::dtype::DType;
use umbo::kernels::float::real::Real;
use umbo::kernels::instruction_set::Instructions;
use umbo::kernels::update::pass::Pass;
use umbo::kernels::update::step::StepKind;
use umbo::kernels::update::weighted_sum::{Contribution, WeightedSum};
use umbo::optimizer::adagrad::Adagrad;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::adamw::AdamW;
use umbo::optimizer::ftrl::Ftrl;
use umbo::optimizer::lamb::Lamb;
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::rmsprop::RmsProp;
use umbo::optimizer::rule::{Rates, Scalars, UpdateRule};
use umbo::optimizer::sgd::Sgd;

use crate::memory::{Lie, Memory, Noise};

/// A rule of every kind.
pub fn rules() -> Vec<Box<dyn UpdateRule>> {
    vec![
        Box::new(Sgd),
        Box::new(Momentum::new(0.9, false).unwrap()),
        Box::new(Momentum::new(0.85, true).unwrap()),
        Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap()),
        Box::new(AdamW::new(0.9, 0.98, 1e-8, 0.01).unwrap()),
        Box::new(Adagrad::new(0.1, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.0, false, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.5, false, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.0, true, 1e-7).unwrap()),
        Box::new(RmsProp::new(0.9, 0.5, true, 1e-7).unwrap()),
        Box::new(Lamb::new(0.9, 0.999, 1e-6, 0.01).unwrap()),
        Box::new(Ftrl::new(1.0, 0.01, 0.02, 0.1).unwrap()),
        Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap().amsgrad(true)),
        Box::new(AdamW::new(0.9, 0.98, 1e-8, 0.01).unwrap().amsgrad(true)),
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
    let sign = !(1u64 << (8 * dtype.size() - 1));
    (0..1 + rule.slots().len())
        .map(|position| {
            Memory::new(dtype, &[elements], Lie::Dense, || match (tame, position) {
                (false, _) => noise.element(dtype),
                (true, 0) => noise.tame(dtype),
                // Roots are taken of some of the state.
                (true, _) => noise.tame(dtype) & sign,
            })
        })
        .collect()
}

#[test]
fn every_kind_has_a_rule() {
    let kinds: Vec<StepKind> =
        rules().iter().map(|rule| rule.step(&scalars(&**rule, 3)).unwrap().kind).collect();
    assert_eq!(kinds, StepKind::ALL);
    for (rule, kind) in rules().iter().zip(StepKind::ALL) {
        assert_eq!(rule.slots().len(), kind.slots(), "{kind:?}");
    }
}

/// What a rule does is what its step says.
fn check<T: Real>(rule: &dyn UpdateRule, updates: usize, tame: bool, noise: &mut Noise) {
    const ELEMENTS: usize = 500;
    let mut operands = operands(rule, T::DTYPE, ELEMENTS, tame, noise);
    let model = operands.clone();
    let gradient = Memory::new(T::DTYPE, &[ELEMENTS], Lie::Dense, || match tame {
        true => noise.tame(T::DTYPE),
        false => noise.element(T::DTYPE),
    });
    let contributions = [Contribution { gradient: gradient.span(), factor: 1.0 / 3.0 }];
    let mut scalars = scalars(rule, updates);
    let instructions = Instructions::chosen();
    let mut made = Memory::new(T::DTYPE, &[ELEMENTS], Lie::Dense, || 0);
    {
        let sum = WeightedSum::new(T::DTYPE, ELEMENTS, &contributions, 0.7);
        // SAFETY: nobody else has the memory.
        unsafe { sum.write_to(instructions, &made.span_mut()) };
        let mut spans: Vec<_> = operands.iter_mut().map(Memory::span_mut).collect();
        let slots = spans.split_off(1);
        // SAFETY: nobody else has the operands.
        let pass = unsafe { Pass::new(instructions, &spans[0], &slots, &contributions, 0.7) };
        if rule.measures() {
            scalars = rule.measure(scalars, &pass);
        }
        rule.update(&scalars, &pass);
    }
    let step = rule.step(&scalars).unwrap();
    let all: Vec<Vec<T>> =
        model.iter().map(|memory| memory.view().as_slice::<T>().unwrap().to_vec()).collect();
    let gradient = made.view().as_slice::<T>().unwrap();
    for index in 0..ELEMENTS {
        let mut slots: Vec<T> = all[1..].iter().map(|slot| slot[index]).collect();
        let weight = step.apply(all[0][index], &mut slots, gradient[index]);
        for (position, value) in std::iter::once(weight).chain(slots).enumerate() {
            let found = operands[position].view().as_slice::<T>().unwrap()[index];
            let same = found.to_f64().to_bits() == value.to_f64().to_bits();
            assert!(
                same || found.to_f64().is_nan() && value.to_f64().is_nan(),
                "{} {}: operand {position} of element {index} is {found:?}, its step says {value:?}",
                rule.name(),
                T::DTYPE
            );
        }
    }
}

#[test]
fn rules_and_their_steps_say_the_same() {
    let mut noise = Noise::new(31);
    for rule in rules() {
        for updates in [0, 1, 100] {
            for tame in [true, false] {
                check::<f32>(&*rule, updates, tame, &mut noise);
                check::<f64>(&*rule, updates, tame, &mut noise);
            }
        }
    }
}
