//! Strategies whose replicas compute on GPUs, with variables in host memory.

use fake_cuda::harness::under_driver;
use umbo::collectives::{Assignment, ReduceOp};
use umbo::strategy::collective::ReductionOptions;
use umbo::strategy::variables::{self, Initial, NewVariable, assign};
use umbo::strategy::{Options, Strategy};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};

use super::*;

pub(super) fn strategy(devices: &[&str]) -> Result<Strategy> {
    strategy_on(devices, "CPU:0")
}

pub(super) fn strategy_on(devices: &[&str], parameter_device: &str) -> Result<Strategy> {
    let names = devices.iter().map(|&name| name.to_owned()).collect();
    let parameter_device = Some(parameter_device.to_owned());
    Strategy::new(&Options { compute_devices: Some(names), parameter_device, ..Options::default() })
}

pub(super) fn variable(
    strategy: &Strategy,
    aggregation: Aggregation,
    values: &[f32],
) -> Result<Variable> {
    let new = NewVariable {
        name: "v".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation,
    };
    variables::create(Some(strategy), new, Initial::Value(&tensor(values, HOST)))
}

#[test]
fn all_gpus_compute_unless_it_is_said_otherwise() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else { return };
    let strategy = Strategy::new(&Options::default()).unwrap();
    assert_eq!(strategy.compute_devices(), [gpu(0), gpu(1), gpu(2)]);
    assert_eq!(strategy.parameter_device(), HOST);
    clean(&control);
}

#[test]
fn replicas_read_variables_on_their_gpus() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    for (seed, devices) in
        [&["GPU:0", "GPU:1"][..], &["GPU:1", "CPU:0", "GPU:0"]].iter().enumerate()
    {
        control.seed(seed as u64);
        let strategy = strategy(devices).unwrap();
        let replicas = devices.len() as f32;
        let weight = variable(&strategy, Aggregation::Sum, &[1.0, 2.0, 3.0]).unwrap();
        for step in 0..3 {
            let result = strategy
                .run(
                    &|context| {
                        // SAFETY: the elements are read at once.
                        let seen = unsafe { variables::current_tensor(Some(context), &weight) }?;
                        assert_eq!(seen.device(), context.device());
                        let before = numbers(seen);
                        // The copy of a version is made once.
                        // SAFETY: as above.
                        let again = unsafe { variables::current_tensor(Some(context), &weight) }?;
                        assert!(again.is_same(seen));
                        let own = tensor(&[1.0; 3], context.device());
                        assign(&weight, Assignment::Add, &Value::Tensor(own))?;
                        // SAFETY: as above.
                        let after = unsafe { variables::current_tensor(Some(context), &weight) }?;
                        assert_eq!(numbers(after)[0], before[0] + replicas);
                        Ok(Some(Value::Tensor(tensor(&before, context.device()))))
                    },
                    None,
                )
                .unwrap()
                .unwrap();
            let sum =
                strategy.reduce(ReduceOp::Mean, &result, &ReductionOptions::default()).unwrap();
            let Value::Tensor(mean) = sum else { panic!() };
            assert_eq!(numbers(&mean)[0], 1.0 + step as f32 * replicas);
        }
        assert_eq!(numbers(&variables::read(&weight).unwrap())[2], 3.0 + 3.0 * replicas);
    }
    clean(&control);
}
