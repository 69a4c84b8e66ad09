//! Small variables that lie behind each other are updated as one: with the bits of one update for each.

use std::sync::Arc;

use umbo::device::DeviceId;
use umbo::optimizer::GradientMode::Overwrite;
use umbo::optimizer::LossReduction::Mean;
use umbo::optimizer::{
    ApplyReport, Gradients, GradientsOptions, LossScaling, NonFinite, Optimizer, Settings,
    VariableGroup,
};
use umbo::strategy::commit::StepParticipant;
use umbo::tensor::slab::Slab;
use umbo::tensor::{DType, Shape, Tensor};
use umbo::values::variable::Variable;

use crate::features::CLIPPING;
use crate::pairwise::pairwise;
use crate::setup::*;

const REPLICAS: usize = 3;

/// Groups of neighbours of 16, 64 and 7 elements; those of 7 have gaps between them.
fn sizes() -> Vec<usize> {
    [vec![16; 10], vec![64; 60], vec![7; 5], vec![64; 20]].concat()
}

/// Variables side by side, with values that differ.
fn side_by_side(slab: &mut Slab) -> Vec<Variable> {
    let make = |(index, size): (usize, usize)| {
        let shape = Shape::new(&[size]).unwrap();
        let value = slab.zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
        let numbers: Vec<f32> = (0..size).map(|at| (at * 7 + index) as f32 / 64.0 - 3.0).collect();
        write(&value, &numbers);
        variable_from(STRATEGY, &format!("v{index}"), value)
    };
    sizes().into_iter().enumerate().map(make).collect()
}

/// The gradient that a replica writes in a step, if it does.
fn gradient(replica: usize, step: u64, index: usize, size: usize) -> Option<Vec<f32>> {
    // In the second half of the steps some variables are passed over by one or by all.
    let is_left_out = step > 3 && (index == 30 || index == 50 && replica == 1);
    let element =
        |at: usize| ((at * 31 + index * 17 + replica * 5 + step as usize) % 97) as f32 / 97.0 - 0.4;
    (!is_left_out).then(|| (0..size).map(element).collect())
}

/// One step of gradients of variables of which the first is number `first` of all.
fn step(gradients: &Arc<Gradients>, optimizer: &Arc<Optimizer>, step: u64, first: usize) {
    gradients.first_touch(step);
    let mut is_any = false;
    for replica in 0..REPLICAS {
        for (index, variable) in gradients.variables().iter().enumerate() {
            let size = variable.shape().elements();
            if let Some(values) = gradient(replica, step, first + index, size) {
                write(gradients.view(replica, step, index, Overwrite).unwrap(), &values);
                is_any = true;
            }
        }
        gradients.submit(replica, step, 1.0 + replica as f64).unwrap();
    }
    gradients.commit(step);
    if is_any {
        apply(optimizer, gradients).unwrap();
    }
}

fn weights(variables: &[Variable]) -> Vec<Vec<u32>> {
    variables.iter().map(|variable| bits(&value(variable))).collect()
}

fn state(optimizer: &Optimizer, variables: &[Variable], slots: &[String]) -> Vec<Vec<u32>> {
    let of = |variable| {
        slots.iter().map(move |slot| bits(&read(&optimizer.state(variable, slot).unwrap())))
    };
    variables.iter().flat_map(of).collect()
}

/// What is updated as one is found anew in each apply: low-precision copies, staged values, another optimizer.
#[test]
fn neighbours_part_and_meet_again() {
    let (mut slab, mut other) = (Slab::new(0), Slab::new(0));
    let (together, alone) = (side_by_side(&mut slab), side_by_side(&mut other));
    let all = gradients(REPLICAS, &together.iter().collect::<Vec<_>>(), Mean);
    let single: Vec<_> =
        alone.iter().map(|variable| gradients(REPLICAS, &[variable], Mean)).collect();
    let (one, many) = (optimizer("adam", 0.1), optimizer("adam", 0.1));
    for number in 1..=6 {
        for variables in [&together, &alone] {
            match number {
                3 => {
                    // SAFETY: nobody writes the variable meanwhile.
                    let copy =
                        unsafe { variables[33].refreshed_copy(0, DeviceId::HOST, DType::BFloat16) }
                            .unwrap();
                    assert_eq!(copy.shape(), variables[33].shape());
                }
                4 => {
                    let fresh = [0.5f32; 64];
                    write(&staging(&variables[40]), &fresh);
                    variables[40].stage();
                    variables[40].publish();
                }
                _ => {}
            }
        }
        step(&all, &one, number, 0);
        for (index, own) in single.iter().enumerate() {
            step(own, &many, number, index);
        }
        assert!(weights(&together) == weights(&alone), "step {number}");
    }
    let copies = [&together, &alone].map(|variables| {
        // SAFETY: nobody writes the variable meanwhile.
        let copy =
            unsafe { variables[33].refreshed_copy(0, DeviceId::HOST, DType::BFloat16) }.unwrap();
        read::<half::bf16>(copy).iter().map(|element| element.to_bits()).collect::<Vec<_>>()
    });
    assert_eq!(copies[0], copies[1]);
    let rounded = half::bf16::from_f32(value::<f32>(&together[33])[5]);
    assert_eq!(copies[0][5], rounded.to_bits());
}

/// The same values in memory of their own each: nothing follows anything.
fn apart() -> Vec<Variable> {
    let copy =
        |(index, of): (usize, Variable)| variable::<f32>(&format!("v{index}"), &value::<f32>(&of));
    side_by_side(&mut Slab::new(0)).into_iter().enumerate().map(copy).collect()
}

/// What an apply may meet.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rule: &'static str,
    replicas: usize,
    dtype: Option<DType>,
    bounds: (Option<f64>, Option<f64>),
    accumulation: u64,
    non_finite: NonFinite,
    scaling: Option<LossScaling>,
    maximize: bool,
}

fn plans() -> Vec<Plan> {
    let dtypes = [None, Some(DType::BFloat16), Some(DType::Float16)];
    let scalings = [None, Some(LossScaling::Fixed(32.0))];
    let choices = [RULES.len(), 3, dtypes.len(), CLIPPING.len(), 2, 2, scalings.len(), 2];
    let plan = |choice: Vec<usize>| Plan {
        rule: RULES[choice[0]],
        replicas: 1 + choice[1],
        dtype: dtypes[choice[2]],
        bounds: CLIPPING[choice[3]],
        accumulation: 1 + choice[4] as u64,
        non_finite: [NonFinite::Ignore, NonFinite::Skip][choice[5]],
        scaling: scalings[choice[6]],
        maximize: choice[7] == 1,
    };
    pairwise(&choices).into_iter().map(plan).collect()
}

fn write_as(to: &Tensor, values: &[f32]) {
    match to.dtype() {
        DType::BFloat16 => {
            write(to, &values.iter().map(|&v| half::bf16::from_f32(v)).collect::<Vec<_>>())
        }
        DType::Float16 => {
            write(to, &values.iter().map(|&v| half::f16::from_f32(v)).collect::<Vec<_>>())
        }
        _ => write(to, values),
    }
}

/// Six runs with their applies, of which one has a gradient that is not finite: what each reports, and the weights
/// and states at the end.
fn trained(plan: &Plan, variables: &[Variable]) -> (Vec<String>, Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let options = GradientsOptions {
        accumulation_steps: plan.accumulation,
        dtype: plan.dtype,
        row_sparse: &[],
    };
    let devices = devices(plan.replicas);
    let gradients = Gradients::new(STRATEGY, &devices, variables.to_vec(), Mean, options).unwrap();
    let optimizer = optimizer(plan.rule, 0.1);
    let settings = Settings {
        global_clip_norm: plan.bounds.0,
        clip_value: plan.bounds.1,
        non_finite: Some(plan.non_finite),
        loss_scaling: plan.scaling,
        maximize: plan.maximize,
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    let frozen = VariableGroup { frozen: true, ..VariableGroup::default() };
    optimizer.add_group(&variables[20..22], frozen).unwrap();
    let mut reports = Vec::new();
    for step in 1..=6 {
        gradients.first_touch(step);
        for replica in 0..plan.replicas {
            for (index, variable) in variables.iter().enumerate() {
                let size = variable.shape().elements();
                let Some(mut values) = gradient(replica, step, index, size) else { continue };
                if step == 3 && index == 60 && replica == 0 {
                    values[size - 1] = f32::INFINITY;
                }
                write_as(gradients.view(replica, step, index, Overwrite).unwrap(), &values);
            }
            gradients.submit(replica, step, replica as f64 * 2.0 + 1.0).unwrap();
        }
        gradients.commit(step);
        let report = apply(&optimizer, &gradients).unwrap();
        let found = report.non_finite.as_ref().map(|variable| variable.name().to_string());
        let ApplyReport { applied, skipped, gradient_norm, variables_updated, .. } = report;
        let norm = gradient_norm.map(f64::to_bits);
        reports.push(format!("{applied} {skipped} {found:?} {norm:?} {variables_updated}"));
    }
    let slots: Vec<_> = rule(plan.rule).slots().iter().map(|slot| slot.name.to_string()).collect();
    let thawed = [&variables[..20], &variables[22..]].concat();
    (reports, weights(variables), state(&optimizer, &thawed, &slots))
}

/// Whatever an apply meets, it is as if the variables lay apart.
#[test]
fn neighbours_are_updated_as_variables_that_lie_apart() {
    let plans = plans();
    assert!((60..200).contains(&plans.len()), "{}", plans.len());
    for plan in plans {
        let mut slab = Slab::new(0);
        assert_eq!(trained(&plan, &side_by_side(&mut slab)), trained(&plan, &apart()), "{plan:?}");
    }
}
