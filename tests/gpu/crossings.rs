//! Where GPUs meet deadlines, cancellation, other strategies and other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fake_cuda::harness::under_driver;
use umbo::strategy::cancellation::Cancellation;
use umbo::strategy::run::Limits;
use umbo::strategy::variables::{self, assign};
use umbo::values::Value;
use umbo::values::variable::Aggregation;

use super::optimizers::strategy_of;
use super::strategy::{strategy, variable};
use super::*;

#[test]
fn runs_that_are_late_or_cancelled_leave_everything_as_it_was() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    let strategy = strategy(&["GPU:0", "GPU:1"]).unwrap();
    let weight = variable(&strategy, Aggregation::Sum, &[1.0, 2.0]).unwrap();
    for by_token in [false, true] {
        let token = Cancellation::new();
        let go_on = Arc::new(AtomicBool::new(false));
        let limits = match by_token {
            true => Limits { cancellation: Some(token.clone()), ..Limits::default() },
            false => Limits {
                deadline: Some(Instant::now() + Duration::from_millis(30)),
                ..Limits::default()
            },
        };
        let (free, target, cancel) = (Arc::clone(&go_on), weight.clone(), token.clone());
        let late = strategy.run_within(
            Arc::new(move |context| {
                let own = tensor(&[5.0, 5.0], context.device());
                assign(&target, umbo::collectives::Assignment::Add, &Value::Tensor(own))?;
                if context.replica() == 1 {
                    if by_token {
                        cancel.cancel();
                    }
                    while !free.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    // Late work on the GPU, which nobody sees.
                    let late = tensor(&[7.0; 64], context.device());
                    assert_eq!(numbers(&late)[63], 7.0);
                }
                Ok(None)
            }),
            None,
            limits,
            None,
        );
        let status = if by_token { Status::Cancelled } else { Status::DeadlineExceeded };
        refused(late, status, &[]);
        assert_eq!(numbers(&variables::read(&weight).unwrap()), [1.0, 2.0]);
        go_on.store(true, Ordering::Release);
        strategy.synchronize().unwrap();
    }
    let read = |context: &umbo::strategy::ReplicaContext| {
        // SAFETY: the elements are read at once.
        let seen = unsafe { variables::current_tensor(Some(context), &weight) }?;
        assert_eq!(numbers(seen), [1.0, 2.0]);
        Ok(None)
    };
    strategy.run(&read, None).unwrap();
    clean(&control);
}

#[test]
fn two_strategies_on_the_same_gpus_and_other_threads_do_not_disturb_each_other() {
    let settings = [("FAKE_CUDA_DEVICES", "2")];
    let Some(control) = under_driver(&settings) else { return };
    for seed in 0..5 {
        control.seed(seed);
        std::thread::scope(|scope| {
            for devices in [["GPU:0", "GPU:1"], ["GPU:1", "GPU:0"], ["CPU:0", "GPU:0"]] {
                scope.spawn(move || {
                    let strategy = strategy(&devices).unwrap();
                    let weight = variable(&strategy, Aggregation::Mean, &[0.0; 33]).unwrap();
                    for step in 1..=6 {
                        let add = |context: &umbo::strategy::ReplicaContext| {
                            let own = tensor(&[context.replica() as f32; 33], context.device());
                            let add = umbo::collectives::Assignment::Add;
                            assign(&weight, add, &Value::Tensor(own))?;
                            Ok(None)
                        };
                        strategy.run(&add, None).unwrap();
                        let seen = numbers(&variables::read(&weight).unwrap());
                        assert_eq!(seen, [0.5 * step as f32; 33]);
                    }
                });
            }
        });
    }
    clean(&control);
}

#[test]
fn collectives_inside_of_a_step_give_each_replica_its_own_on_its_device() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    for (seed, devices) in
        [&["GPU:0"][..], &["GPU:0", "GPU:1"], &["GPU:1", "CPU:0", "GPU:0"]].iter().enumerate()
    {
        control.seed(seed as u64);
        let strategy = strategy(devices).unwrap();
        let sum: f32 = (1..=devices.len()).map(|it| it as f32).sum();
        let meet = |context: &umbo::strategy::ReplicaContext| {
            let own = tensor(&[context.replica() as f32 + 1.0; 3], context.device());
            let op = umbo::collectives::ReduceOp::Sum;
            let reduced = context.all_reduce(op, Value::Tensor(own.clone()))?;
            let reduced = reduced.tensor_of(0)?.clone();
            assert_eq!((reduced.device(), numbers(&reduced)), (context.device(), vec![sum; 3]));
            let gathered = context.all_gather(Value::Tensor(own), 0)?;
            let gathered = gathered.tensor_of(0)?.clone();
            assert_eq!(gathered.device(), context.device());
            assert_eq!(numbers(&gathered).len(), 3 * devices.len());
            Ok(None)
        };
        strategy.run(&meet, None).unwrap();
    }
    clean(&control);
}

#[test]
fn a_step_on_gpus_is_found_equivalent_to_one_replica() {
    use umbo::optimizer::{GradientMode, Gradients, LossReduction};
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    for wrong in [false, true] {
        let strategy = strategy(&["GPU:0", "GPU:1"]).unwrap();
        let weight = variable(&strategy, Aggregation::None, &[1.0]).unwrap();
        let variables = vec![weight.clone()];
        let devices = strategy.compute_devices();
        let gradients =
            Gradients::new(strategy.id(), devices, variables, LossReduction::Sum).unwrap();
        let step = |context: &umbo::strategy::ReplicaContext| {
            let part = context.arguments()?.unwrap().tensor_of(0)?.clone();
            let mut sum: f32 = numbers(&part).iter().sum();
            if wrong {
                sum += context.replica() as f32;
            }
            let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&tensor(&[sum], context.device()))?;
            gradients.submit_in(context, None)?;
            Ok(None)
        };
        let batch = Value::Tensor(tensor(&[1.0, 2.0, 3.0, 5.0], HOST));
        let options = Default::default();
        let report =
            umbo::equivalence::check(&strategy, &step, &batch, Some(&gradients), &options).unwrap();
        assert_eq!(report.equivalent, !wrong, "{report:?}");
        assert_eq!(numbers(&variables::read(&weight).unwrap()), [1.0]);
    }
    clean(&control);
}

#[test]
fn gradients_are_lent_where_the_replica_computes() {
    use umbo::optimizer::sgd::Sgd;
    use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    // Variables on the CPU, and on the GPU that computes; replicas that share their devices.
    let places: [(usize, &[&str], &str); 5] = [
        (2, &["GPU:0", "GPU:1"], "CPU:0"),
        (2, &["CPU:0", "GPU:1"], "CPU:0"),
        (1, &["GPU:0"], "GPU:0"),
        (3, &["GPU:0"], "GPU:0"),
        (3, &["CPU:0", "GPU:1"], "GPU:1"),
    ];
    for (replicas, names, parameter_device) in places {
        let strategy = strategy_of(replicas, names, parameter_device);
        let (lent, written) = (
            variable(&strategy, Aggregation::None, &[1.0, 2.0]).unwrap(),
            variable(&strategy, Aggregation::None, &[1.0, 2.0]).unwrap(),
        );
        let variables = vec![lent.clone(), written.clone()];
        let devices = strategy.replica_devices();
        let gradients =
            Gradients::new(strategy.id(), devices, variables, LossReduction::Mean).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        for step in 1..=3 {
            let callback = |context: &umbo::strategy::ReplicaContext| {
                let own = [(step * (context.replica() + 1)) as f32, -1.0];
                let elsewhere = if context.device().is_host_memory() { gpu(0) } else { HOST };
                refused(
                    gradients.attach_in(context, 0, tensor(&own, elsewhere)),
                    Status::InvalidArgument,
                    &["attach memory of that device"],
                );
                gradients.attach_in(context, 0, tensor(&own, context.device()))?;
                let buffer = gradients.view_in(context, 1, GradientMode::Overwrite)?;
                // SAFETY: the buffer is this replica's.
                unsafe { buffer.assume_exclusive() }.copy_from(&tensor(&own, context.device()))?;
                gradients.submit_in(context, Some(1.0))?;
                Ok(None)
            };
            strategy.run(&callback, None).unwrap();
            apply::apply(&optimizer, &gradients).unwrap();
            let now = numbers(&variables::read(&lent).unwrap());
            assert_eq!(now, numbers(&variables::read(&written).unwrap()));
            assert_eq!(now[1], 2.0 + 0.5 * step as f32);
        }
    }
    clean(&control);
}
