//! Tests of the registry.

use std::sync::LazyLock;

use super::*;
use crate::registry::{memory_info, processors};
use umbo_base::error::Status;
use umbo_executor::affinity;

static NO_GPU: LazyLock<Result<u32, String>> = LazyLock::new(|| Err("no driver here".into()));
static TWO_GPUS: LazyLock<Result<u32, String>> = LazyLock::new(|| Ok(2));

/// A separate registry, so that tests do not share the process's registry.
fn registry(gpus: fn() -> &'static Result<u32, String>) -> &'static Registry {
    let memory = |_| {
        Ok(MemoryInfo {
            total_bytes: 1000,
            available_bytes: 900,
        })
    };
    Box::leak(Box::new(Registry::new(gpus, memory)))
}

fn without_gpu() -> &'static Registry {
    registry(|| &NO_GPU)
}

fn with_two_gpus() -> &'static Registry {
    registry(|| &TWO_GPUS)
}

fn gpu(index: u32) -> DeviceId {
    DeviceId {
        kind: DeviceKind::Gpu,
        index,
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, status: Status, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "no '{part}' in: {error}");
    }
}

#[test]
fn a_process_starts_with_one_logical_cpu() {
    let registry = without_gpu();
    assert_eq!(registry.physical_count(DeviceKind::Cpu), 1);
    assert_eq!(registry.logical_count(DeviceKind::Cpu), 1);
    assert_eq!(registry.physical_count(DeviceKind::Gpu), 0);
    assert_eq!(registry.logical_count(DeviceKind::Gpu), 0);
}

#[test]
fn a_logical_cpu_that_is_not_there_starts_no_driver() {
    let registry = registry(|| panic!("the driver is asked"));
    let absent = registry.resolve("CPU:3", "device");
    refused(
        absent,
        Status::NotFound,
        &["device", "CPU:3", "the only CPU is CPU:0"],
    );
    refused(
        registry.hold(&[DeviceId::cpu(3)]),
        Status::NotFound,
        &["CPU:3"],
    );
}

#[test]
fn the_host_splits_and_joins() {
    let registry = without_gpu();
    for count in [4, 2, MAX_LOGICAL_CPUS, 1] {
        registry
            .set_logical_count(DeviceKind::Cpu, 0, count)
            .unwrap();
        assert_eq!(registry.logical_count(DeviceKind::Cpu), count);
        assert_eq!(registry.physical_count(DeviceKind::Cpu), 1);
    }
}

#[test]
fn counts_have_limits() {
    let registry = without_gpu();
    for count in [0, MAX_LOGICAL_CPUS + 1, u32::MAX] {
        let split = registry.set_logical_count(DeviceKind::Cpu, 0, count);
        refused(split, Status::InvalidArgument, &["count", "1 to 4096"]);
        let grown = registry.ensure_logical_cpus(count);
        refused(grown, Status::InvalidArgument, &["count", "1 to 4096"]);
    }
    assert_eq!(registry.logical_count(DeviceKind::Cpu), 1);
}

#[test]
fn ensuring_only_grows() {
    let registry = without_gpu();
    registry.ensure_logical_cpus(6).unwrap();
    registry.ensure_logical_cpus(2).unwrap();
    assert_eq!(registry.logical_count(DeviceKind::Cpu), 6);
}

#[test]
fn physical_devices_must_exist() {
    let cpu = without_gpu().set_logical_count(DeviceKind::Cpu, 1, 2);
    refused(
        cpu,
        Status::NotFound,
        &["physical_ordinal", "CPU 1", "number 0"],
    );
    let absent = without_gpu().set_logical_count(DeviceKind::Gpu, 0, 1);
    refused(absent, Status::NotFound, &["GPU 0", "no driver here"]);
    let third = with_two_gpus().set_logical_count(DeviceKind::Gpu, 2, 1);
    refused(third, Status::NotFound, &["GPU 2", "0 to 1"]);
}

#[test]
fn gpus_are_listed_and_split() {
    let registry = with_two_gpus();
    assert_eq!(registry.physical_count(DeviceKind::Gpu), 2);
    assert_eq!(registry.logical_count(DeviceKind::Gpu), 2);
    registry.set_logical_count(DeviceKind::Gpu, 1, 1).unwrap();
    for count in [0, MAX_PER_CARD + 1] {
        let split = registry.set_logical_count(DeviceKind::Gpu, 1, count);
        refused(split, Status::InvalidArgument, &["count", "1 to 64"]);
    }
    refused(
        registry.split_gpu(0, &[Some(0)]),
        Status::InvalidArgument,
        &["limits"],
    );
    assert_eq!(registry.resolve("GPU:1", "device").unwrap(), gpu(1));
    refused(
        registry.resolve("GPU:2", "device"),
        Status::NotFound,
        &["GPU:0 to GPU:1"],
    );

    registry.set_logical_count(DeviceKind::Gpu, 0, 3).unwrap();
    assert_eq!(registry.logical_count(DeviceKind::Gpu), 4);
    assert_eq!(
        registry.state.lock().gpus.place(2, 2).unwrap().limit,
        Some(333)
    );
    assert_eq!(registry.state.lock().gpus.place(3, 2).unwrap().card, 1);
    let cards = [0, 1, 2, 3, 4].map(|index| registry.physical_ordinal(gpu(index)));
    assert_eq!(cards, [Some(0), Some(0), Some(0), Some(1), None]);
    let held = registry.hold(&[gpu(1)]).unwrap();
    let again = registry.set_logical_count(DeviceKind::Gpu, 0, 2);
    refused(again, Status::FailedPrecondition, &["GPU:1", "strategy"]);
    registry.set_logical_count(DeviceKind::Gpu, 1, 2).unwrap();
    drop(held);
    registry.set_logical_count(DeviceKind::Gpu, 0, 1).unwrap();
    assert_eq!(registry.logical_count(DeviceKind::Gpu), 3);
}

#[test]
fn names_resolve_to_devices_that_exist() {
    let registry = without_gpu();
    registry.set_logical_count(DeviceKind::Cpu, 0, 3).unwrap();
    for name in [
        "CPU:2",
        "/cpu:2",
        "/job:localhost/replica:0/task:0/device:CPU:2",
    ] {
        assert_eq!(registry.resolve(name, "device").unwrap(), DeviceId::cpu(2));
    }
    assert_eq!(registry.resolve("", "device").unwrap(), DeviceId::HOST);
}

#[test]
fn refused_names_say_what_there_is() {
    let registry = without_gpu();
    let only = registry.resolve("CPU:9", "compute_devices[1]");
    let parts = [
        "compute_devices[1]: CPU:9",
        "only CPU is CPU:0",
        "10 or more",
    ];
    refused(only, Status::NotFound, &parts);
    registry.ensure_logical_cpus(4).unwrap();
    let fifth = registry.resolve("CPU:4", "device");
    refused(fifth, Status::NotFound, &["CPU:0 to CPU:3", "5 or more"]);
    refused(
        registry.resolve("CPU:4096", "device"),
        Status::NotFound,
        &["4096", "at most"],
    );
    let gpu = registry.resolve("GPU:0", "device");
    refused(gpu, Status::NotFound, &["GPU:0", "no driver here"]);
    let remote = registry.resolve("/job:worker/task:1/cpu:0", "device");
    refused(
        remote,
        Status::NotFound,
        &["another process", "/job:localhost"],
    );
    let unknown = registry.resolve("XPU:0", "parameter_device");
    refused(
        unknown,
        Status::InvalidArgument,
        &["parameter_device: ", "XPU:0"],
    );
}

#[test]
fn held_devices_do_not_vanish() {
    let registry = without_gpu();
    registry.set_logical_count(DeviceKind::Cpu, 0, 8).unwrap();
    let low = registry
        .hold(&[DeviceId::cpu(0), DeviceId::cpu(3)])
        .unwrap();
    let high = registry
        .hold(&[DeviceId::cpu(3), DeviceId::cpu(5)])
        .unwrap();
    assert_eq!(low.devices(), [DeviceId::cpu(0), DeviceId::cpu(3)]);
    let shrink = |count| registry.set_logical_count(DeviceKind::Cpu, 0, count);
    refused(
        shrink(5),
        Status::FailedPrecondition,
        &["CPU:5", "6 or more"],
    );
    assert_eq!(registry.logical_count(DeviceKind::Cpu), 8);
    shrink(6).unwrap();
    drop(high);
    refused(shrink(3), Status::FailedPrecondition, &["CPU:3"]);
    shrink(4).unwrap();
    shrink(8).unwrap();
    drop(low);
    shrink(1).unwrap();
}

#[test]
fn absent_devices_are_not_held() {
    let registry = without_gpu();
    registry.ensure_logical_cpus(2).unwrap();
    let absent = registry.hold(&[DeviceId::cpu(1), DeviceId::cpu(2)]);
    refused(absent, Status::NotFound, &["CPU:2"]);
    refused(
        registry.hold(&[gpu(0)]),
        Status::NotFound,
        &["GPU:0", "no driver here"],
    );
    // The first device of the refused list is free.
    registry.set_logical_count(DeviceKind::Cpu, 0, 1).unwrap();
    let gpus = with_two_gpus();
    assert_eq!(gpus.hold(&[gpu(1)]).unwrap().devices(), [gpu(1)]);
}

#[test]
fn the_host_tells_its_memory_and_processors() {
    assert!(memory_info(DeviceId::HOST).unwrap().total_bytes > 0);
    let four = (0..4).collect();
    assert_eq!(
        processors(DeviceId::HOST, &four).unwrap(),
        affinity::share(&four, 0, 1)
    );
    let absent = DeviceId::cpu(u32::MAX);
    refused(memory_info(absent), Status::NotFound, &["at most"]);
    refused(processors(absent, &four), Status::NotFound, &["at most"]);
    refused(processors(gpu(0), &four), Status::Unimplemented, &["GPU:0"]);
}
