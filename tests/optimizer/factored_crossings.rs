//! Adafactor beside everything else that an optimizer does, for both types of variables: replicas
//! do not show, and an apply that fails changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use half::bf16;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Status};
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::rules::catalogue::FACTORED_RULES;
use umbo_core::optimizer::{
    Averaging, Gradients, GradientsOptions, LossScaling, NonFinite, Optimizer, Settings,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::variable::Variable;

use crate::features::{AVERAGES, CLIPPING, DYNAMIC};
use crate::pairwise::pairwise;
use crate::setup::*;

/// What is done around the rule.
#[derive(Clone, Copy, Debug)]
struct Case {
    rule: &'static str,
    /// Variables of float64; else of float32, with gradients of this type.
    is_wide: bool,
    gradients: Option<DType>,
    /// What is done with an infinite gradient, of which there is one then.
    overflow: Option<NonFinite>,
    clipping: (Option<f64>, Option<f64>),
    scaling: Option<LossScaling>,
    averaging: Option<Averaging>,
    accumulation: u64,
    has_schedule: bool,
}

const SHAPES: [&[usize]; 5] = [&[5, 3], &[2, 3, 4], &[7], &[33, 40], &[2, 1, 2, 3]];

/// Each two choices meet, as far as they can.
fn cases() -> Vec<Case> {
    let overflows = [None, Some(NonFinite::Ignore), Some(NonFinite::Skip)];
    let scalings = [None, Some(LossScaling::Fixed(4.0)), Some(DYNAMIC)];
    let case = |choice: Vec<usize>| {
        let is_wide = choice[1] == 2;
        let scaling = scalings[choice[4]];
        // A dynamic scale skips.
        let overflow = match overflows[choice[2]] {
            Some(_) if scaling == Some(DYNAMIC) => Some(NonFinite::Skip),
            overflow => overflow,
        };
        Case {
            rule: FACTORED_RULES[choice[0]].name,
            is_wide,
            gradients: (choice[1] == 1).then_some(DType::BFloat16),
            overflow,
            clipping: CLIPPING[choice[3]],
            scaling,
            averaging: AVERAGES[choice[5]],
            accumulation: 1 + choice[6] as u64,
            has_schedule: choice[7] == 1,
        }
    };
    let counts = [2, 3, 3, CLIPPING.len(), 3, AVERAGES.len(), 2, 2];
    pairwise(&counts).into_iter().map(case).collect()
}

/// Small whole numbers, whose sums all types have.
fn whole(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + seed * 104_729 + at / 5) % 7) as f32 - 3.0;
    (0..count).map(number).collect()
}

fn variable_of(index: usize, is_wide: bool) -> Variable {
    let shape = Shape::new(SHAPES[index]).unwrap();
    let start = whole(shape.elements(), index);
    let start: Vec<f32> = start.iter().map(|value| value / 4.0).collect();
    let value = match is_wide {
        false => Tensor::from_slice(&start, shape, DeviceId::HOST),
        true => {
            let wide: Vec<f64> = start.into_iter().map(f64::from).collect();
            Tensor::from_slice(&wide, shape, DeviceId::HOST)
        }
    };
    variable_from(STRATEGY, &format!("v{index}"), value.unwrap())
}

/// The bits of numbers of either type; all NaNs are alike.
fn bits_of(tensor: &Tensor) -> Vec<u64> {
    fn all<T: Element + Into<f64>>(tensor: &Tensor) -> Vec<u64> {
        let bits = |value: f64| {
            if value.is_nan() {
                u64::MAX
            } else {
                value.to_bits()
            }
        };
        read::<T>(tensor)
            .into_iter()
            .map(|value| bits(value.into()))
            .collect()
    }
    match tensor.dtype() {
        DType::Float64 => all::<f64>(tensor),
        _ => all::<f32>(tensor),
    }
}

struct Training {
    case: Case,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(case: Case, replicas: usize) -> Training {
        let variables: Vec<Variable> = (0..SHAPES.len())
            .map(|index| variable_of(index, case.is_wide))
            .collect();
        let options = GradientsOptions {
            accumulation_steps: case.accumulation,
            dtype: case.gradients,
            row_sparse: &[],
        };
        let all = variables.clone();
        let gradients = Gradients::new(STRATEGY, &devices(replicas), all, Sum, options).unwrap();
        let optimizer = optimizer(case.rule, 0.1);
        let settings = Settings {
            non_finite: case.overflow,
            global_clip_norm: case
                .clipping
                .0
                .filter(|_| case.overflow != Some(NonFinite::Ignore)),
            clip_value: case.clipping.1,
            loss_scaling: case.scaling,
            averaging: case.averaging,
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        if case.has_schedule {
            let rate = |updates| Ok(0.125 / (1.0 + updates as f64));
            optimizer.set_schedule(Arc::new(rate));
        }
        Training {
            case,
            variables,
            gradients,
            optimizer,
        }
    }

    fn write(&self, step: u64, replica: usize, index: usize, values: &[f32]) {
        let to = &self.gradients;
        match (self.case.is_wide, self.case.gradients) {
            (true, _) => {
                let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
                overwrite(to, step, replica, index, &wide);
            }
            (false, None) => overwrite(to, step, replica, index, values),
            (false, Some(_)) => {
                let narrow: Vec<bf16> = values.iter().copied().map(bf16::from_f32).collect();
                overwrite(to, step, replica, index, &narrow);
            }
        }
    }

    /// A run whose eight examples are split over the replicas.
    fn run(&self, step: u64, replicas: usize) {
        let each = 8 / replicas;
        for replica in 0..replicas {
            for (index, variable) in self.variables.iter().enumerate() {
                let count = variable.shape().elements();
                let mut sum = vec![0.0; count];
                for example in replica * each..(replica + 1) * each {
                    let one = whole(count, step as usize * 64 + example * 8 + index);
                    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
                }
                let breaks = (step, replica, index) == (3, replicas - 1, 1);
                if breaks && self.case.overflow.is_some() {
                    sum[count / 2] = f32::INFINITY;
                }
                self.write(step, replica, index, &sum);
            }
        }
        submit(&self.gradients, step, &vec![each as f64; replicas]);
        self.gradients.commit(step);
    }

    fn bits(&self) -> Vec<Vec<u64>> {
        let weights = self.variables.iter().map(|one| bits_of(committed(one)));
        let states = self.variables.iter().flat_map(|variable| {
            let slots = self.optimizer.slots();
            let states = slots
                .iter()
                .filter_map(|slot| self.optimizer.state(variable, &slot.name).ok());
            states.map(|state| bits_of(&state)).collect::<Vec<_>>()
        });
        weights.chain(states).collect()
    }
}

#[test]
fn replicas_change_no_bit_of_either_type() {
    for case in cases() {
        let trained = |replicas| {
            let training = Training::new(case, replicas);
            for step in 1..=6 {
                training.run(step, replicas);
                apply(&training.optimizer, &training.gradients).unwrap();
            }
            training
        };
        let one = trained(1);
        for replicas in [2, 4] {
            assert!(
                trained(replicas).bits() == one.bits(),
                "{replicas} {case:?}"
            );
        }
        // The weight with the infinite gradient alone is spoilt, and only if that was applied: the
        // moments stay finite, and the others take no step.
        let was_applied = case.overflow == Some(NonFinite::Ignore) && case.clipping.1.is_none();
        for (index, weights) in one.bits().iter().take(SHAPES.len()).enumerate() {
            let is_spoilt = was_applied && index == 1;
            let nans = weights.iter().filter(|&&bits| bits == u64::MAX).count();
            assert_eq!(nans, usize::from(is_spoilt), "v{index} {case:?}");
        }
    }
}

/// A schedule that fails changes nothing: the training continues as if it had been asked later.
#[test]
fn a_schedule_that_fails_changes_nothing() {
    for rule in FACTORED_RULES {
        for is_wide in [false, true] {
            let case = Case {
                rule: rule.name,
                is_wide,
                gradients: None,
                overflow: None,
                clipping: (None, None),
                scaling: None,
                averaging: AVERAGES[1],
                accumulation: 1,
                has_schedule: false,
            };
            let fails = Arc::new(AtomicBool::new(false));
            let trained = |is_tried: bool| {
                let training = Training::new(case, 2);
                let fails = Arc::clone(&fails);
                let asked = Arc::clone(&fails);
                let rate = move |updates: u64| match asked.load(Ordering::Relaxed) {
                    true => Err(Error::precondition("the schedule has no rate")),
                    false => Ok(0.5 / (1.0 + updates as f64)),
                };
                training.optimizer.set_schedule(Arc::new(rate));
                for step in 1..=4 {
                    training.run(step, 2);
                    if is_tried {
                        let before = training.bits();
                        fails.store(true, Ordering::Relaxed);
                        let refused = apply(&training.optimizer, &training.gradients);
                        fails.store(false, Ordering::Relaxed);
                        let refused = refusal(refused.map(drop), Status::FailedPrecondition);
                        assert!(refused.contains("no rate"), "{refused}");
                        assert_eq!(training.bits(), before);
                        assert_eq!(training.optimizer.iterations(), step - 1);
                    }
                    apply(&training.optimizer, &training.gradients).unwrap();
                }
                training.bits()
            };
            assert!(trained(true) == trained(false), "{case:?}");
        }
    }
}
