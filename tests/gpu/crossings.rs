//! Where GPUs meet other strategies, other threads and gradients that are lent.

use fake_cuda::harness::under_driver;
use umbo::strategy::variables::{self, assign};
use umbo::values::Value;
use umbo::values::variable::Aggregation;

use super::optimizers::strategy_of;
use super::strategy::{strategy, variable};
use super::*;

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
