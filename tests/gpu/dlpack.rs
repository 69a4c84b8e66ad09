//! Memory of GPUs from and for other libraries.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake_cuda::harness::under_driver;
use umbo_core::collectives::copy_to;
use umbo_core::tensor::dlpack;
use umbo_core::tensor::dlpack::ffi::{DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};

use super::*;

#[test]
fn elements_on_gpus_stay_where_they_are() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    // Card 1 is GPU:2 and GPU:3.
    registry::REGISTRY
        .split_gpu(0, &[Some(1 << 20), Some(1 << 20)])
        .unwrap();
    registry::REGISTRY
        .split_gpu(1, &[Some(1 << 20), Some(1 << 20)])
        .unwrap();
    let values: Vec<f32> = (0..12).map(|index| index as f32).collect();
    for (on, card, back_on) in [
        (gpu(0), 0, gpu(0)),
        (gpu(1), 0, gpu(0)),
        (gpu(3), 1, gpu(2)),
    ] {
        let there = copy_to(&tensor(&values, HOST), on).unwrap();
        let part = there
            .reshape(shape(&[3, 4]))
            .unwrap()
            .slice(1, 1, 4, 2)
            .unwrap();
        let managed = dlpack::export::<DLManagedTensorVersioned>(&part).unwrap();
        let address = part.address();
        drop((there, part));
        // SAFETY: it was just exported.
        let device = unsafe { managed.as_ref() }.dl_tensor.device;
        assert_eq!(
            (device.device_type, device.device_id),
            (DLDeviceType::CUDA, card)
        );
        // SAFETY: as above; it is imported once.
        let back = unsafe { dlpack::import(managed) }.unwrap();
        assert_eq!((back.device(), back.address()), (back_on, address));
        assert_eq!(
            numbers(&copy_to(&back, HOST).unwrap()),
            [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
        );
    }
    clean(&control);
    all_freed(&control, 4);
}

/// What is queued for the memory of another library is done before that gets it back.
#[test]
fn others_memory_is_let_go_of_when_it_is_no_longer_used() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    /// Uses the memory for something else at once, on another stream.
    unsafe extern "C" fn release(managed: *mut DLManagedTensor) {
        RELEASED.fetch_add(1, Ordering::SeqCst);
        let other = registry::gpu(gpu(1)).unwrap();
        // SAFETY: the memory is this library's again. The manager is the exported tensor's struct,
        // which is released once.
        unsafe {
            other
                .fill_zeros((*managed).dl_tensor.data.addr() as u64, 12)
                .unwrap();
            other.synchronize().unwrap();
            let inner = (*managed).manager_ctx.cast::<DLManagedTensor>();
            ((*inner).deleter.unwrap())(inner);
        }
    }
    let Some(control) = under_driver(&[]) else {
        return;
    };
    registry::REGISTRY
        .split_gpu(0, &[Some(1 << 20), Some(1 << 20)])
        .unwrap();
    for seed in 0..20 {
        control.seed(seed);
        let inner = dlpack::export::<DLManagedTensor>(&tensor(&[1.0, 2.0, 3.0], gpu(0))).unwrap();
        // SAFETY: it was just exported; the copy has the same elements and another deleter.
        let mut others = unsafe { std::ptr::read(inner.as_ptr()) };
        others.manager_ctx = inner.as_ptr().cast::<c_void>();
        others.deleter = Some(release);
        // SAFETY: `others` lives as long as the tensor.
        let taken = unsafe { dlpack::import(NonNull::from(&mut others)) }.unwrap();
        let copy = copy_to(&taken, gpu(0)).unwrap();
        drop(taken);
        assert_eq!(RELEASED.swap(0, Ordering::SeqCst), 1);
        assert_eq!(numbers(&copy), [1.0, 2.0, 3.0]);
        others.dl_tensor.device.device_id = 7;
        others.deleter = None;
        // SAFETY: it is refused before anything else is looked at.
        let refusal = unsafe { dlpack::import(NonNull::from(&mut others)) };
        refused(
            refusal.map(|_| ()),
            Status::NotFound,
            &["managed: no physical GPU 7; "],
        );
    }
    clean(&control);
    all_freed(&control, 2);
}
