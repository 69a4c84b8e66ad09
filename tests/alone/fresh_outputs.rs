//! Results in fresh tensors: where their memory comes from.

use umbo_core::collectives::{ReduceOp, gather, reduce};
use umbo_core::device::DeviceId;
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor, blocks};

const ELEMENTS: usize = (3 << 20) / 4 + 1000;

/// Where a tensor's first element lies.
fn place(tensor: &Tensor) -> usize {
    tensor.address().addr()
}

// One test, for the same reason.
#[test]
fn free_memory_is_used_again_within_bounds() {
    let true = crate::is_alone(free_memory_is_used_again_within_bounds) else {
        return;
    };
    let shape = Shape::new(&[ELEMENTS]).unwrap();
    let parts: Vec<Tensor> = (1..=2)
        .map(|value| {
            let values = vec![value as f32; ELEMENTS];
            Tensor::from_slice(&values, shape, DeviceId::HOST).unwrap()
        })
        .collect();
    let sum = || reduce(ReduceOp::Sum, &parts, None, DeviceId::HOST, None).unwrap();
    let first = sum();
    let at = place(&first);
    let second = sum();
    assert_ne!(place(&second), at);
    drop(first);
    let third = sum();
    assert_eq!(place(&third), at);
    assert!(
        third
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .all(|&value| value == 3.0)
    );
    drop(third);

    // Zeros are zeros, whatever was there; other sizes do not fit.
    let zeros = Tensor::zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
    assert!(
        zeros
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .all(|&value| value == 0.0)
    );
    let both = gather(&parts, 0, DeviceId::HOST, None).unwrap();
    assert_ne!(place(&both), at);
    assert_eq!(place(&sum()), at);

    let many: Vec<Tensor> = (0..40).map(|_| sum()).collect();
    drop(many);
    let (kept, bytes) = blocks::kept();
    assert!(
        (1..=16).contains(&kept) && bytes <= 256 << 20,
        "{kept} blocks of {bytes} bytes"
    );

    // Threads come and go with blocks.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for value in 0..5 {
                    let filled = vec![value as f32; ELEMENTS];
                    let tensor = Tensor::from_slice(&filled, shape, DeviceId::HOST).unwrap();
                    let other = sum();
                    assert_eq!(tensor.to_vec::<f32>().unwrap(), filled);
                    assert!(other.to_vec::<f32>().unwrap().iter().all(|&sum| sum == 3.0));
                }
            });
        }
    });

    // With the last strategy everything goes back to the system.
    let strategies = [(); 2].map(|()| Strategy::new(&Options::default()).unwrap());
    drop(sum());
    let [one, other] = strategies;
    drop(one);
    assert_ne!(blocks::kept().0, 0);
    drop(other);
    assert_eq!(blocks::kept(), (0, 0));
}
