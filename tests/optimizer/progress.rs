//! The progress of a variable, which its rule is told before each update.

use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::kernels::update::rules::RuleKind;
use umbo_core::optimizer::rules::{Rates, Scalars, Slot, UpdateRule, VariableProgress};
use umbo_core::optimizer::{LossReduction, Optimizer};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::slab::Slab;
use umbo_core::tensor::{DType, Shape};
use umbo_core::values::variable::Variable;

use crate::setup::*;

/// Gradient descent whose t-th update of a variable has t times the learning rate.
#[derive(Debug)]
struct Growing;

impl UpdateRule for Growing {
    fn name(&self) -> &str {
        "growing"
    }

    fn slots(&self) -> &[Slot] {
        &[]
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        let rate = rates.learning_rate * (progress.updates + 1) as f64;
        Ok(Scalars::of(rates, progress.running, RuleKind::Sgd, [rate]))
    }
}

/// Three variables of zeros, which lie side by side and may be updated as one.
fn neighbours() -> Vec<Variable> {
    let mut slab = Slab::new(0);
    let shape = Shape::new(&[16]).unwrap();
    ["a", "b", "c"]
        .map(|name| {
            let zeros = slab.zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
            variable_from(STRATEGY, name, zeros)
        })
        .into()
}

#[test]
fn a_rule_is_told_how_often_each_variable_was_updated() {
    let variables = neighbours();
    let list: Vec<&Variable> = variables.iter().collect();
    let gradients = gradients(1, &list, LossReduction::Mean);
    let optimizer = Optimizer::new(STRATEGY, Box::new(Growing), 1.0).unwrap();
    // In two steps `b` has no gradient.
    let all = [0, 1, 2].as_slice();
    let without_b = [0, 2].as_slice();
    for (step, with_gradient) in (1..).zip([all, without_b, without_b, all, all]) {
        for &index in with_gradient {
            overwrite(&gradients, step, 0, index, &[1.0f32; 16]);
        }
        submit(&gradients, step, &[1.0]);
        gradients.commit(step);
        apply(&optimizer, &gradients).unwrap();
    }
    let updates = variables
        .iter()
        .map(|variable| optimizer.variable_progress(variable).unwrap().updates);
    assert_eq!(updates.collect::<Vec<_>>(), [5, 3, 5]);
    let sums = [-15.0, -6.0, -15.0f32];
    for (variable, sum) in variables.iter().zip(sums) {
        assert_eq!(value::<f32>(variable), [sum; 16], "{variable:?}");
    }
}
