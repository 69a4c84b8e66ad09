//! Tensors in memory of GPUs.

use fake_cuda::harness::under_driver;
use umbo_core::checkpoint::arrays;
use umbo_core::collectives::{self, ReduceOp, combine_into, copy_to};
use umbo_core::device::registry;
use umbo_core::tensor::DType;

use super::*;

#[test]
fn elements_come_and_go() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    assert_eq!(registry::REGISTRY.logical_count(DeviceKind::Gpu), 2);
    for (number, elements) in [0usize, 1, 3, 64, 100_000, 3_000_001]
        .into_iter()
        .enumerate()
    {
        control.seed(number as u64);
        let values: Vec<f32> = (0..elements).map(|index| index as f32).collect();
        let first = tensor(&values, gpu(0));
        let second = copy_to(&first, gpu(1)).unwrap();
        let back = copy_to(&second, HOST).unwrap();
        assert_eq!(
            (first.device(), second.device(), back.device()),
            (gpu(0), gpu(1), HOST)
        );
        assert!(
            numbers(&first) == values && numbers(&second) == values && numbers(&back) == values
        );
        let zeros = Tensor::zeros(DType::Float32, shape(&[elements]), gpu(1)).unwrap();
        assert!(numbers(&zeros).iter().all(|&element| element == 0.0));
    }
    clean(&control);
    all_freed(&control, 2);
}

#[test]
fn strides_are_kept() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let values: Vec<f32> = (0..60).map(|index| index as f32).collect();
    let host = tensor(&values, HOST).reshape(shape(&[3, 4, 5])).unwrap();
    let there = copy_to(&host, gpu(0)).unwrap();
    let odd = |tensor: &Tensor| {
        tensor
            .transpose(&[2, 0, 1])
            .unwrap()
            .slice(0, 1, 5, 2)
            .unwrap()
            .slice(2, 1, 3, 1)
            .unwrap()
    };
    assert_eq!(numbers(&odd(&there)), numbers(&odd(&host)));
    assert_eq!(
        numbers(&copy_to(&odd(&there), gpu(0)).unwrap()),
        numbers(&odd(&host))
    );
    let fresh = tensor(&[-1.0; 12], gpu(0))
        .reshape(odd(&host).shape())
        .unwrap();
    for target in [&host, &there] {
        let part = odd(target);
        // SAFETY: nobody else has these tensors.
        unsafe { part.assume_exclusive() }
            .copy_from(&fresh)
            .unwrap();
        // SAFETY: as above.
        combine_into(
            collectives::Assignment::Add,
            &mut unsafe { part.assume_exclusive() },
            &fresh,
        )
        .unwrap();
    }
    assert_eq!(numbers(&there), numbers(&host));
    assert!(there.to_string().contains("on GPU:0"), "{there}");
    clean(&control);
}

#[test]
fn tensors_are_saved_from_a_gpu() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let values: Vec<f32> = (0..60).map(|index| index as f32).collect();
    let host = tensor(&values, HOST).reshape(shape(&[3, 4, 5])).unwrap();
    let odd = |tensor: &Tensor| {
        tensor
            .transpose(&[2, 0, 1])
            .unwrap()
            .slice(0, 1, 5, 2)
            .unwrap()
    };
    let on_gpu = odd(&host);
    let there = odd(&copy_to(&host, gpu(0)).unwrap());
    let folder = super::scene::Folder::new();
    let saved = ["host", "gpu"].map(|name| folder.path(name));
    for (tensor, path) in [&on_gpu, &there].into_iter().zip(&saved) {
        arrays::save_npy(tensor, path).unwrap();
        arrays::save_npz(
            &[("one", tensor), ("two", &on_gpu)],
            &path.with_extension("npz"),
        )
        .unwrap();
        let loaded = arrays::load_npy(path).unwrap();
        assert_eq!(numbers(&loaded), numbers(&on_gpu));
        let loaded = arrays::load_npz(&path.with_extension("npz"), "one").unwrap();
        assert_eq!(numbers(&loaded), numbers(&on_gpu));
    }
    clean(&control);
}

#[test]
fn memory_has_limits() {
    let Some(control) = under_driver(&[("FAKE_CUDA_MEMORY", "1000000")]) else {
        return;
    };
    registry::REGISTRY
        .split_gpu(0, &[Some(600), Some(1 << 30)])
        .unwrap();
    let floats = |count, device| Tensor::uninitialized(DType::Float32, shape(&[count]), device);
    let held = floats(100, gpu(0)).unwrap();
    refused(
        floats(51, gpu(0)),
        Status::ResourceExhausted,
        &["GPU:0", "204", "600", "200"],
    );
    drop(held);
    let held = floats(150, gpu(0)).unwrap();
    refused(
        floats(1 << 20, gpu(1)),
        Status::ResourceExhausted,
        &["GPU:1", "4194304"],
    );
    refused(
        registry::REGISTRY.split_gpu(0, &[None]),
        Status::FailedPrecondition,
        &["GPU:0 was used already"],
    );
    refused(
        floats(1, gpu(2)),
        Status::NotFound,
        &["GPU:2", "GPU:0 to GPU:1"],
    );
    let memory = registry::memory_info(gpu(0)).unwrap();
    assert_eq!((memory.total_bytes, memory.available_bytes), (600, 0));
    drop(held);
    clean(&control);
}

#[test]
fn a_pool_keeps_some_free_memory_beside_what_is_used() {
    let Some(control) = under_driver(&[]) else {
        return;
    };
    let bytes = |count| Tensor::uninitialized(DType::UInt8, shape(&[count]), gpu(0)).unwrap();
    let told = || control.calls("cuMemPoolSetAttribute");
    control.fault("");
    let held = bytes(1);
    assert_eq!(told(), 1);
    // Only what moves the limit by a block is told, in both directions.
    drop((bytes(1000), bytes(1 << 20)));
    assert_eq!(told(), 1);
    drop(bytes(300 << 20));
    assert_eq!(told(), 3);
    drop(held);
    clean(&control);
}

#[test]
fn values_of_several_devices_are_reduced_and_gathered() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    for seed in 0..20 {
        control.seed(seed);
        let parts = [
            tensor(&[1.0, 2.0], gpu(0)),
            tensor(&[10.0, 20.0], gpu(1)),
            tensor(&[100.0, 200.0], HOST),
        ];
        for destination in [HOST, gpu(0), gpu(1)] {
            let reduce = |op, axes: Option<&[i64]>| {
                let result = collectives::reduce(op, &parts, axes, destination, None).unwrap();
                assert_eq!(result.device(), destination);
                numbers(&result)
            };
            assert_eq!(reduce(ReduceOp::Sum, None), [111.0, 222.0]);
            assert_eq!(reduce(ReduceOp::Mean, None), [37.0, 74.0]);
            assert_eq!(reduce(ReduceOp::Sum, Some(&[0])), [333.0]);
            let gathered = collectives::gather(&parts, 0, destination, None).unwrap();
            assert_eq!(numbers(&gathered), [1.0, 2.0, 10.0, 20.0, 100.0, 200.0]);
            let rows = parts
                .each_ref()
                .map(|part| part.reshape(shape(&[1, 2])).unwrap());
            let wide = collectives::gather(&rows, 1, destination, None).unwrap();
            assert_eq!(numbers(&wide), [1.0, 2.0, 10.0, 20.0, 100.0, 200.0]);
        }
    }
    clean(&control);
    all_freed(&control, 2);
}
