//! Strategies whose replicas compute on GPUs.

use fake_cuda::harness::under_driver;
use umbo_core::observe::log::{self, Level};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::values::variable::{Aggregation, Variable};

use super::fresh::new_variable;
use super::*;

/// How many replicas there are, their compute devices, which they share if those are fewer, and the
/// parameter device.
pub(super) type Place<'a> = (usize, &'a [&'a str], &'a str);

pub(super) fn options_of((replicas, devices, parameter_device): Place<'_>) -> Options {
    Options {
        compute_devices: Some(devices.iter().map(|&name| name.to_owned()).collect()),
        parameter_device: Some(parameter_device.to_owned()),
        replicas_in_sync: if replicas > devices.len() {
            replicas
        } else {
            0
        },
        ..Options::default()
    }
}

pub(super) fn strategy_of(place: Place<'_>) -> Strategy {
    Strategy::new(&options_of(place)).unwrap()
}

/// One replica on each of the devices.
pub(super) fn strategy_on(devices: &[&str], parameter_device: &str) -> Result<Strategy> {
    Strategy::new(&options_of((devices.len(), devices, parameter_device)))
}

pub(super) fn variable(
    strategy: &Strategy,
    aggregation: Aggregation,
    values: &[f32],
) -> Result<Variable> {
    let new = new_variable("v", aggregation);
    variables::create(Some(strategy), new, Initial::Value(&tensor(values, HOST)))
}

#[test]
fn all_gpus_compute_unless_it_is_said_otherwise() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    // A GPU has no processors of its own to which its replica is bound, and that is nothing to be
    // warned of.
    let (sender, warnings) = std::sync::mpsc::channel();
    log::set_sink(
        Level::Warning,
        Box::new(move |_, text| sender.send(text.to_owned()).unwrap()),
    );
    let strategy = Strategy::new(&Options::default()).unwrap();
    // More replicas than processors are not bound.
    let two = Strategy::new(&options_of((2, &["GPU:0", "GPU:1"], "CPU:0"))).unwrap();
    two.run(&|_| Ok(None), None).unwrap();
    log::log_kept();
    assert!(
        !warnings
            .try_iter()
            .any(|text| text.contains("is not bound"))
    );
    assert_eq!(strategy.compute_devices(), [gpu(0), gpu(1), gpu(2)]);
    assert_eq!(strategy.parameter_device(), HOST);
    clean(&control);
}
