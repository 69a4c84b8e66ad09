//! Rules of the program's on variables that a GPU holds. That they have the bits of CPUs with all options,
//! and that trainings move, is tested where the built-in rules are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake_cuda::harness::under_driver;
use umbo::kernels::cuda::{self, GpuUpdate, Gradient, on_gpu};
use umbo::kernels::update::tiles::Tile;
use umbo::kernels::update::weighted_sum::Clipping;
use umbo::optimizer::custom::Custom;
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::rule::{CustomUpdate, QueueUpdate};
use umbo::optimizer::rule::{Rates, Slot, WeightDecay};
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, UpdateRule, apply};
use umbo::strategy::{ReplicaContext, Strategy, variables};
use umbo::tensor::DType;
use umbo::values::variable::{Aggregation, Variable};

use super::scene::through_host::through_host;
use super::strategy::{strategy_on, variable};
use super::*;

/// Momentum, with a weight decay of its own if it is decoupled.
pub(super) fn momentum_of(tile: &Tile<'_>, rates: &Rates, _: u64) {
    for index in 0..tile.elements {
        // SAFETY: a tile's pointers lead to as many elements as it says.
        unsafe {
            macro_rules! update {
                ($real:ty) => {{
                    let sum = &mut *tile.slots[0].cast::<$real>().add(index);
                    let weight = &mut *tile.weights.cast::<$real>().add(index);
                    let gradient = *tile.gradient.cast::<$real>().add(index);
                    let (rate, decay) = (rates.learning_rate as $real, rates.weight_decay as $real);
                    *sum = 0.9 * *sum + gradient;
                    *weight -= rate * *sum + decay * *weight;
                }};
            }
            match tile.dtype {
                DType::Float64 => update!(f64),
                _ => update!(f32),
            }
        }
    }
}

pub(super) fn rule(meaning: WeightDecay, queue: Option<Box<QueueUpdate>>) -> Custom {
    let slots = vec![Slot { name: "sum".into(), initial: 0.25 }];
    let rule = Custom::new("own".into(), slots, 0.0, meaning, Box::new(momentum_of)).unwrap();
    match queue {
        Some(queue) => rule.with_updates_on_gpus(queue),
        None => rule,
    }
}

/// The rule on CPUs and GPUs.
pub(super) fn own(meaning: WeightDecay) -> Box<dyn UpdateRule> {
    Box::new(rule(meaning, Some(through_host(momentum_of))))
}

/// A training of three variables.
struct Training {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
}

impl Training {
    fn new(devices: &[&str], parameter_device: &str) -> Training {
        let strategy = strategy_on(devices, parameter_device).unwrap();
        let starts: [&[f32]; 3] = [&[1.0, -2.0, 3.0], &[0.5; 7], &[-1.5; 2]];
        let variables: Vec<Variable> = starts
            .iter()
            .map(|start| variable(&strategy, Aggregation::None, start).unwrap())
            .collect();
        let gradients = Gradients::new(
            strategy.id(),
            strategy.compute_devices(),
            variables.clone(),
            LossReduction::Mean,
        );
        Training { strategy, variables, gradients: gradients.unwrap() }
    }

    fn contribute(&self, context: &ReplicaContext) -> Result<()> {
        for index in 0..self.variables.len() {
            let buffer = self.gradients.view_in(context, index, GradientMode::Overwrite)?;
            let values: Vec<f32> = (0..buffer.shape().elements())
                .map(|at| (at as f32 - 1.5) * (1.0 + context.replica() as f32) / 3.0)
                .collect();
            let values = Tensor::from_slice(&values, buffer.shape(), HOST)?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
        }
        self.gradients.submit_in(context, Some(1.0))
    }

    fn run(&self) {
        self.strategy.run(&|context| self.contribute(context).map(|()| None), None).unwrap();
    }

    fn optimizer(&self, rule: impl UpdateRule + 'static) -> Arc<Optimizer> {
        Optimizer::new(self.strategy.id(), Box::new(rule), 0.1).unwrap()
    }

    fn bits(&self, optimizer: &Optimizer) -> Vec<u32> {
        let mut bits = Vec::new();
        for variable in &self.variables {
            bits.extend(numbers(&variables::read(variable).unwrap()));
            if let Ok(state) = optimizer.state(variable, &optimizer.rule().slots()[0].name) {
                bits.extend(numbers(&state));
            }
        }
        bits.into_iter().map(f32::to_bits).collect()
    }
}

#[test]
fn without_a_function_for_gpus_the_rule_is_refused_and_nothing_changes() {
    let Some(control) = under_driver(&[]) else { return };
    let training = Training::new(&["GPU:0"], "GPU:0");
    let optimizer = training.optimizer(rule(WeightDecay::L2, None));
    training.run();
    let before = training.bits(&optimizer);
    let outcome = apply(&optimizer, &training.gradients);
    refused(outcome, Status::Unimplemented, &["'own'", "GPU:0", "update_on_gpu", "CPU:0"]);
    assert_eq!(training.bits(&optimizer), before);
    clean(&control);
}

/// The function queues a kernel, here the library's own of the same rule.
#[test]
fn kernels_that_are_queued_have_the_bits_of_the_rule_that_they_are() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    for seed in 0..10 {
        control.seed(seed);
        let queue = |own: &CustomUpdate<'_>| {
            let gradient = [cuda::GpuContribution { gradient: own.gradient, factor: 1.0 }];
            let rule = Momentum::new(0.9, false).unwrap();
            let step = rule.prepare(&own.rates, &rule.initial_running())?.step.unwrap();
            let update = GpuUpdate {
                gradient: Gradient {
                    dtype: own.dtype,
                    elements: own.elements as u64,
                    gradient_dtype: own.dtype,
                    contributions: &gradient,
                    accumulated: None,
                    divisor: 1.0,
                },
                clipping: Clipping::NONE,
                l2: 0.0,
                step: Some(step),
                weights: own.weights,
                slots: own.slots,
                rows: None,
                not_finite: None,
            };
            let gpu = registry::gpu(own.device)?;
            // SAFETY: all of it is this call's.
            on_gpu(gpu, |launcher| unsafe { launcher.update(&[update]) })
        };
        let (own, built_in) = [(), ()].map(|()| Training::new(&["GPU:0", "GPU:1"], "GPU:1")).into();
        let slots = vec![Slot { name: "sum".into(), initial: 0.0 }];
        let custom =
            Custom::new("own".into(), slots, 0.0, WeightDecay::L2, Box::new(momentum_of)).unwrap();
        let custom = own.optimizer(custom.with_updates_on_gpus(Box::new(queue)));
        let momentum = built_in.optimizer(Momentum::new(0.9, false).unwrap());
        for _ in 0..3 {
            own.run();
            apply(&custom, &own.gradients).unwrap();
            built_in.run();
            apply(&momentum, &built_in.gradients).unwrap();
            assert_eq!(own.bits(&custom), built_in.bits(&momentum));
        }
    }
    clean(&control);
    all_freed(&control, 2);
}

/// Fails at its `at`-th call, before or after it has written.
pub(super) fn failing(at: usize, late: bool) -> Box<QueueUpdate> {
    let (calls, works) = (AtomicUsize::new(0), through_host(momentum_of));
    Box::new(move |own| {
        let fails = calls.fetch_add(1, Ordering::Relaxed) == at;
        if !fails || late {
            works(own)?;
        }
        match fails {
            true => Err(Error::Callback {
                status: Status::DataLoss,
                message: "the rule does not like it".into(),
                payload: None,
            }),
            false => Ok(()),
        }
    })
}

#[test]
fn a_function_that_fails_changes_nothing() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    let parts = ["the rule does not like it"];
    for (at, late) in (0..6).flat_map(|at| [(at, false), (at, true)]) {
        control.seed(at as u64);
        let expected = Training::new(&["GPU:0", "CPU:0"], "GPU:0");
        let reference = expected.optimizer(rule(WeightDecay::L2, Some(through_host(momentum_of))));
        let training = Training::new(&["GPU:0", "CPU:0"], "GPU:0");
        let optimizer = training.optimizer(rule(WeightDecay::L2, Some(failing(at, late))));
        for step in 0..3 {
            expected.run();
            apply(&reference, &expected.gradients).unwrap();
            training.run();
            let before = training.bits(&optimizer);
            if at / 3 == step {
                refused(apply(&optimizer, &training.gradients), Status::DataLoss, &parts);
                assert_eq!(training.bits(&optimizer), before);
            }
            apply(&optimizer, &training.gradients).unwrap();
            assert_eq!(training.bits(&optimizer), expected.bits(&reference), "{at} {late} {step}");
        }
    }
    clean(&control);
    all_freed(&control, 2);
}

/// An apply at the commit point makes its step fail.
#[test]
fn a_step_whose_rule_fails_changes_nothing() {
    let Some(control) = under_driver(&[]) else { return };
    let training = Training::new(&["GPU:0"], "GPU:0");
    let total = variable(&training.strategy, Aggregation::Sum, &[0.0]).unwrap();
    let optimizer = training.optimizer(rule(WeightDecay::L2, Some(failing(4, true))));
    let step = |context: &ReplicaContext| {
        training.contribute(context)?;
        let one = Tensor::from_slice(&[1.0f32], shape(&[1]), context.device())?;
        let one = umbo::values::Value::Tensor(one);
        variables::assign(&total, umbo::collectives::Assignment::Add, &one)?;
        apply(&optimizer, &training.gradients).map(|_| None)
    };
    for failed in [false, true, false] {
        let before = (training.bits(&optimizer), numbers(&variables::read(&total).unwrap()));
        let ran = training.strategy.run(&step, None);
        let after = (training.bits(&optimizer), numbers(&variables::read(&total).unwrap()));
        match failed {
            true => refused(ran, Status::DataLoss, &["the rule does not like it"]),
            false => drop(ran.unwrap()),
        }
        assert_eq!(after == before, failed);
    }
    clean(&control);
}

/// What the program's kernel does wrong is found before anything is written; the card is lost.
#[test]
fn a_kernel_that_fails_loses_the_card_and_says_so() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else { return };
    let training = Training::new(&["GPU:1"], "GPU:0");
    let works = through_host(momentum_of);
    let queue: Box<QueueUpdate> = Box::new(move |own| {
        works(own)?;
        let control = Control::open().expect("the driver is loaded");
        control.fault("cuStreamSynchronize:1:719");
        Ok(())
    });
    let optimizer = training.optimizer(rule(WeightDecay::L2, Some(queue)));
    training.run();
    let outcome = apply(&optimizer, &training.gradients);
    control.fault("");
    refused(outcome, Status::Unavailable, &["GPU 0", "a kernel failed"]);
    let again = apply(&optimizer, &training.gradients);
    refused(again, Status::Unavailable, &["GPU 0", "lost to this process"]);
    // The other card goes on.
    let other = Training::new(&["GPU:1"], "GPU:1");
    let optimizer = other.optimizer(rule(WeightDecay::L2, Some(through_host(momentum_of))));
    other.run();
    apply(&optimizer, &other.gradients).unwrap();
    drop(control.take_reports());
}

/// Variables on the second logical GPU of a card, whose stream the function gets.
#[test]
fn each_logical_gpu_has_its_own_stream() {
    let Some(control) = under_driver(&[]) else { return };
    registry::set_logical_count(DeviceKind::Gpu, 0, 2).unwrap();
    let expected = Training::new(&["CPU:0"], "CPU:0");
    let reference = expected.optimizer(rule(WeightDecay::Decoupled, None));
    for parameter_device in ["GPU:0", "GPU:1"] {
        let training = Training::new(&["GPU:0"], parameter_device);
        let own = rule(WeightDecay::Decoupled, Some(through_host(momentum_of)));
        let optimizer = training.optimizer(own);
        training.run();
        apply(&optimizer, &training.gradients).unwrap();
        if parameter_device == "GPU:0" {
            expected.run();
            apply(&reference, &expected.gradients).unwrap();
        }
        assert_eq!(training.bits(&optimizer), expected.bits(&reference), "{parameter_device}");
    }
    clean(&control);
}

/// Two optimizers at one commit point: the second would compute from what the first has not written yet.
#[test]
fn a_second_apply_at_the_same_commit_point_is_refused() {
    let Some(control) = under_driver(&[]) else { return };
    let training = Training::new(&["GPU:0"], "GPU:0");
    let others = Gradients::new(
        training.strategy.id(),
        training.strategy.compute_devices(),
        training.variables.clone(),
        LossReduction::Mean,
    )
    .unwrap();
    let first = training.optimizer(rule(WeightDecay::L2, Some(through_host(momentum_of))));
    let second = training.optimizer(rule(WeightDecay::L2, Some(through_host(momentum_of))));
    let built_in = training.optimizer(Momentum::new(0.9, false).unwrap());
    let step = |one: &Arc<Optimizer>, two: &Arc<Optimizer>| {
        let run = |context: &ReplicaContext| {
            training.contribute(context)?;
            let buffer = others.view_in(context, 1, GradientMode::Overwrite)?;
            let values = Tensor::from_slice(&[0.5f32; 7], buffer.shape(), HOST)?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
            others.submit_in(context, Some(1.0))?;
            apply(one, &training.gradients)?;
            apply(two, &others).map(|_| None)
        };
        training.strategy.run(&run, None)
    };
    for one in [&second, &built_in] {
        let before = training.bits(&first);
        refused(step(one, &first), Status::FailedPrecondition, &["another optimizer's apply"]);
        assert_eq!(training.bits(&first), before);
    }
    // What comes behind it takes what it has written.
    step(&first, &built_in).unwrap();
    training.run();
    apply(&second, &training.gradients).unwrap();
    clean(&control);
}
