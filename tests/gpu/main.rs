//! The library on GPUs, executed over the tests' own driver: each test runs in a process of its own
//! that finds it, and demands that the driver has nothing to report.

mod bus;
mod checkpoints;
mod commits;
mod crossings;
mod dlpack;
#[path = "../together/engine.rs"]
#[allow(dead_code, reason = "a part of it serves here")]
mod engine;
mod equivalence_copies;
mod external;
mod faults;
#[path = "../fresh/mod.rs"]
mod fresh;
mod input;
mod kept;
mod let_go;
mod memory;
#[path = "../messages/mod.rs"]
mod messages;
mod offload;
mod on_gpus;
mod optimizers;
mod own_rules;
mod own_rules_over_ranks;
mod page_locks;
mod ranks;
mod row_changes;
#[path = "../checkpoint/scene.rs"]
#[allow(dead_code, reason = "a part of it serves here")]
mod scene;
mod strategy;
mod strict;
mod trace;
mod training;
#[path = "../views/mod.rs"]
mod views;

use fake_cuda::Control;
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::{Error, Result, Status};
use umbo_core::tensor::{Shape, Tensor};

const HOST: DeviceId = DeviceId::HOST;

fn gpu(index: u32) -> DeviceId {
    DeviceId {
        kind: DeviceKind::Gpu,
        index,
    }
}

fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

fn tensor(values: &[f32], device: DeviceId) -> Tensor {
    Tensor::from_slice(values, shape(&[values.len()]), device).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

/// Writes a gradient, on a GPU as the program's own work does: without tables for kernels, which
/// go over the bus, too.
fn write_gradient(weights: &Tensor, gradient: &Tensor) -> Result<()> {
    let address = |tensor: &Tensor| tensor.address().addr() as u64;
    // SAFETY: the buffer is this replica's until it submits.
    unsafe {
        match gradient.device().kind {
            DeviceKind::Gpu => registry::gpu(gradient.device())?.copy(
                address(weights),
                address(gradient),
                gradient.bytes(),
            ),
            _ => gradient.assume_exclusive().copy_from(weights),
        }
    }
}

/// What the driver found wrong is nothing.
#[track_caller]
fn clean(control: &Control) {
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}

/// Nothing is left of what was allocated on any of the GPUs.
#[track_caller]
fn all_freed(control: &Control, gpus: u32) {
    for index in 0..gpus {
        registry::gpu(gpu(index)).unwrap().synchronize().unwrap();
    }
    assert_eq!(control.live("memory"), 0);
}

#[track_caller]
fn refused<T>(result: Result<T>, status: Status, parts: &[&str]) {
    let Err(error) = result else {
        panic!("was accepted")
    };
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}
