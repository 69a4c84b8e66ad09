//! Prefetching threads end with their iterator. Alone in its process, so that every thread of
//! this name is the test's own.

use umbo::device::DeviceId;
use umbo::input::{Dataset, DistributeOptions, distribute};
use umbo::tensor::{DType, Shape, Tensor};
use umbo::values::Value;

fn prefetching_threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|name| name.trim_end() == "umbo-prefetch")
        .count()
}

#[test]
fn dropping_an_iterator_at_any_point_ends_its_threads() {
    let shape = Shape::new(&[1000, 4]).unwrap();
    let array = Tensor::zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
    let dataset = Dataset::from_tensor_slices(&Value::Tensor(array)).unwrap();
    let endless = dataset.repeat(-1).unwrap().batch(10, false).unwrap().prefetch(2).unwrap();
    let nested = endless.prefetch(3).unwrap();
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let distributed = distribute(&nested, 2, &devices, &DistributeOptions::default()).unwrap();
    for taken in [0, 1, 7] {
        let iterator = distributed.iterator().unwrap();
        assert_eq!(prefetching_threads(), 0, "nothing is read before the first element");
        let mut held = None;
        for _ in 0..taken {
            held = iterator.next().unwrap();
        }
        if taken > 0 {
            assert!((1..=3).contains(&prefetching_threads()));
            iterator.reset().unwrap();
            assert!(iterator.next().unwrap().is_some());
        }
        drop(iterator);
        assert_eq!(prefetching_threads(), 0, "after {taken} elements");
        drop(held);
    }

    let finite = dataset.batch(100, false).unwrap().prefetch(20).unwrap();
    let iterator = finite.iterator().unwrap();
    while iterator.next().unwrap().is_some() {}
    drop(iterator);
    assert_eq!(prefetching_threads(), 0);
}
