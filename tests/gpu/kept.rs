//! Memory that GPUs keep to use it again goes back.

use fake_cuda::harness::under_driver;
use umbo::machinery::status::UMBO_OK;
use umbo::nouns::library::umbo_shutdown;
use umbo_core::collectives::copy_to;

use super::*;

#[test]
fn what_is_kept_goes_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY
        .split_gpu(1, &[Some(1 << 20), Some(1 << 20)])
        .unwrap();
    for seed in 0..6 {
        control.seed(seed);
        for device in [gpu(0), gpu(1), gpu(2)] {
            let values = vec![1.5; 1000 << seed];
            let there = tensor(&values, device);
            assert!(numbers(&there) == values);
            assert!(numbers(&copy_to(&there, gpu(1)).unwrap()) == values);
        }
        assert!(control.live("host memory") > 0);
        assert_eq!(umbo_shutdown(), UMBO_OK);
        for device in [gpu(0), gpu(1), gpu(2)] {
            assert_eq!(registry::gpu(device).unwrap().used_bytes(), 0);
        }
        assert_eq!(
            (control.live("memory"), control.live("host memory")),
            (0, 0)
        );
    }
    clean(&control);
}
