//! Where GPUs meet gradients that are lent.

use fake_cuda::harness::under_driver;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::variables;
use umbo_core::values::variable::Aggregation;

use super::strategy::{Place, strategy_of, variable};
use super::*;

#[test]
fn gradients_are_lent_where_the_replica_computes() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    // Variables on the CPU, and on the GPU that computes; replicas that share their devices.
    let places: [Place<'_>; 5] = [
        (2, &["GPU:0", "GPU:1"], "CPU:0"),
        (2, &["CPU:0", "GPU:1"], "CPU:0"),
        (1, &["GPU:0"], "GPU:0"),
        (3, &["GPU:0"], "GPU:0"),
        (3, &["CPU:0", "GPU:1"], "GPU:1"),
    ];
    for place in places {
        let strategy = strategy_of(place);
        let lent = variable(&strategy, Aggregation::None, &[1.0, 2.0]).unwrap();
        let written = variable(&strategy, Aggregation::None, &[1.0, 2.0]).unwrap();
        let variables = vec![lent.clone(), written.clone()];
        let devices = strategy.replica_devices();
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            variables,
            LossReduction::Mean,
            Default::default(),
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        for step in 1..=3 {
            let callback = |context: &umbo_core::strategy::ReplicaContext| {
                let contribution = [(step * (context.replica() + 1)) as f32, -1.0];
                let elsewhere = if context.device().is_host_memory() {
                    gpu(0)
                } else {
                    HOST
                };
                refused(
                    gradients.attach_in(context, 0, tensor(&contribution, elsewhere)),
                    Status::InvalidArgument,
                    &["attach memory of that device"],
                );
                gradients.attach_in(context, 0, tensor(&contribution, context.device()))?;
                let buffer = gradients.view_in(context, 1, GradientMode::Overwrite)?;
                // SAFETY: the buffer is this replica's.
                unsafe { buffer.assume_exclusive() }
                    .copy_from(&tensor(&contribution, context.device()))?;
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
