//! Memory that GPUs keep to use it again: it makes room for what is asked for, and goes back.

use fake_cuda::harness::under_driver;
use umbo::collectives::copy_to;
use umbo::device::cuda::gpu::release_kept;
use umbo::ffi::library::umbo_shutdown;
use umbo::ffi::status::UMBO_OK;
use umbo::kernels::cuda::{Extent, KernelQueue};
use umbo::tensor::DType;

use super::*;

const LIMIT: usize = 1 << 20;

fn bytes(count: usize, device: DeviceId) -> Result<Tensor> {
    Tensor::uninitialized(DType::UInt8, shape(&[count]), device)
}

/// Has launches take tables of so many bytes, one after the other in each call.
fn launches(device: DeviceId, calls: &[&[usize]]) {
    let gpu = registry::gpu(device).unwrap();
    for tables in calls {
        on_gpu(gpu, |launcher| {
            let mut taken: Vec<(u64, usize)> = Vec::new();
            for &bytes in *tables {
                let start = launcher.queue().scratch(bytes)?;
                let apart = |&(other, length): &(u64, usize)| {
                    start >= other + length as u64 || other >= start + bytes as u64
                };
                assert!(taken.iter().all(apart), "{tables:?}");
                taken.push((start, bytes));
            }
            Ok(())
        })
        .unwrap();
    }
}

/// Calls after which different blocks are kept.
const CALLS: [&[&[usize]]; 6] = [
    &[&[1]],
    &[&[1], &[5000], &[100_000]],
    &[&[100_000, 200_000]],
    &[&[300, 300_000, 300], &[10]],
    &[&[LIMIT / 2], &[LIMIT / 4, LIMIT / 2]],
    // There is no room for the longer one beside the shorter ones, which the call does not use.
    &[&[LIMIT / 2], &[LIMIT / 4 + 1], &[LIMIT]],
];

#[test]
fn what_is_kept_makes_room() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    let limits = [Some(LIMIT as u64); 8];
    registry::split_gpu(0, &limits).unwrap();
    registry::split_gpu(1, &limits).unwrap();
    for (number, calls) in CALLS.iter().enumerate() {
        for device in [gpu(number as u32), gpu(8 + number as u32)] {
            control.seed(number as u64);
            let there = registry::gpu(device).unwrap();
            launches(device, calls);
            assert!(there.used_bytes() > 0);
            let all = bytes(LIMIT, device).unwrap();
            assert_eq!(there.used_bytes(), LIMIT as u64);
            // Nothing is kept any more, and there is no room for a table.
            let one_more = on_gpu(there, |launcher| launcher.queue().scratch(1));
            refused(one_more, Status::ResourceExhausted, &[&device.to_string(), "0 are left"]);
            refused(bytes(1, device), Status::ResourceExhausted, &[&device.to_string()]);
            drop(all);
            launches(device, calls);
        }
    }
    clean(&control);
}

#[test]
fn what_was_promised_is_kept() {
    let Some(control) = under_driver(&[]) else { return };
    registry::split_gpu(0, &[Some(LIMIT as u64), None]).unwrap();
    let there = registry::gpu(gpu(0)).unwrap();
    let extent =
        Extent { variables: 100, contributions: 300, elements: 10_000, rows: 50, measures: true };
    for others in 0..3 {
        launches(gpu(0), &[&[LIMIT / 8, LIMIT / 4]]);
        let promised = on_gpu(there, |launcher| launcher.reserve(extent)).unwrap();
        let more: Vec<_> = (0..others)
            .map(|_| on_gpu(there, |launcher| launcher.reserve(extent)).unwrap())
            .collect();
        refused(bytes(LIMIT, gpu(0)), Status::ResourceExhausted, &["GPU:0"]);
        // What was not promised was given back.
        let kept = there.used_bytes() as usize;
        assert!((1..LIMIT / 2).contains(&kept), "{kept}");
        let rest = bytes(LIMIT - kept, gpu(0)).unwrap();
        // A launch that takes what was promised needs nothing more, whoever gave back what.
        release_kept();
        on_gpu(there, |launcher| launcher.queue().scratch(kept)).unwrap();
        drop(more);
        refused(bytes(1, gpu(0)), Status::ResourceExhausted, &["GPU:0"]);
        drop(promised);
        bytes(1, gpu(0)).unwrap();
        assert_eq!(there.used_bytes() as usize, LIMIT - kept);
        drop(rest);
    }
    clean(&control);
}

#[test]
fn what_is_kept_goes_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    registry::split_gpu(1, &[Some(LIMIT as u64), Some(LIMIT as u64)]).unwrap();
    for (seed, calls) in CALLS.iter().enumerate() {
        control.seed(seed as u64);
        for device in [gpu(0), gpu(1), gpu(2)] {
            launches(device, calls);
            let values = vec![1.5; 1000 << seed];
            let there = tensor(&values, device);
            assert!(numbers(&there) == values);
            assert!(numbers(&copy_to(&there, gpu(1)).unwrap()) == values);
        }
        assert!(control.live("memory") > 0 && control.live("host memory") > 0);
        assert_eq!(umbo_shutdown(), UMBO_OK);
        for device in [gpu(0), gpu(1), gpu(2)] {
            assert_eq!(registry::gpu(device).unwrap().used_bytes(), 0);
        }
        assert_eq!((control.live("memory"), control.live("host memory")), (0, 0));
    }
    clean(&control);
}
