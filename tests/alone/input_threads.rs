//! The threads of iterators end with them, and may use every processor.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use umbo_core::device::DeviceId;
use umbo_core::executor::affinity::{
    bind_current_thread, current_thread_processors, process_processors,
};
use umbo_core::input::{Dataset, DistributeOptions, MapOptions, distribute};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

/// Waits until the system lists as many threads of this name: a new thread names itself when it
/// first runs, and one that was joined may still be listed for a moment.
fn wait_for(count: usize, called: &str) {
    let patience = Instant::now() + Duration::from_secs(60);
    while threads(called) != count {
        let seen = threads(called);
        assert!(
            Instant::now() < patience,
            "{seen} threads '{called}' in place of {count}"
        );
        std::thread::yield_now();
    }
}

fn threads(called: &str) -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|name| name.trim_end() == called)
        .count()
}

#[test]
fn dropping_an_iterator_at_any_point_ends_its_threads() {
    let true = crate::is_alone(dropping_an_iterator_at_any_point_ends_its_threads) else {
        return;
    };
    let shape = Shape::new(&[1000, 4]).unwrap();
    let array = Tensor::zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
    let dataset = Dataset::from_tensor_slices(&Value::Tensor(array)).unwrap();
    let endless = dataset
        .repeat(-1)
        .unwrap()
        .batch(10, false)
        .unwrap()
        .prefetch(2)
        .unwrap();
    let nested = endless.prefetch(3).unwrap();
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let distributed = distribute(&nested, 2, &devices, &DistributeOptions::default()).unwrap();
    for taken in [0, 1, 7] {
        let iterator = distributed.iterator().unwrap();
        assert_eq!(
            threads("umbo-prefetch"),
            0,
            "nothing is read before the first element"
        );
        let mut held = None;
        for _ in 0..taken {
            held = iterator.next().unwrap();
        }
        if taken > 0 {
            assert!((1..=3).contains(&threads("umbo-prefetch")));
            iterator.reset().unwrap();
            assert!(iterator.next().unwrap().is_some());
        }
        drop(iterator);
        wait_for(0, "umbo-prefetch");
        drop(held);
    }

    let finite = dataset.batch(100, false).unwrap().prefetch(20).unwrap();
    let iterator = finite.iterator().unwrap();
    while iterator.next().unwrap().is_some() {}
    drop(iterator);
    wait_for(0, "umbo-prefetch");
}

#[test]
fn threads_of_a_bound_thread_are_bound_to_nothing() {
    let true = crate::is_alone(threads_of_a_bound_thread_are_bound_to_nothing) else {
        return;
    };
    static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let record = |element: &Value| {
        SEEN.lock()
            .unwrap()
            .push(current_thread_processors()?.count());
        Ok(element.clone())
    };
    let all = process_processors().count();
    std::thread::spawn(move || {
        let one = process_processors().processors().take(1).collect();
        bind_current_thread(&one).unwrap();
        let dataset = Dataset::range(0, 20, 1).unwrap();
        let at_once = |parallel_calls| MapOptions {
            parallel_calls,
            element_spec: None,
        };
        let parallel = dataset.map(record, at_once(5)).unwrap().iterator().unwrap();
        assert_eq!(
            threads("umbo-map"),
            0,
            "nothing is read before the first element"
        );
        while parallel.next().unwrap().is_some() {}
        wait_for(5, "umbo-map");
        parallel.reset().unwrap();
        while parallel.next().unwrap().is_some() {}
        assert_eq!(
            threads("umbo-map"),
            5,
            "another round uses the same threads"
        );
        drop(parallel);
        wait_for(0, "umbo-map");
        let ahead = dataset
            .map(record, at_once(0))
            .unwrap()
            .prefetch(2)
            .unwrap();
        let ahead = ahead.iterator().unwrap();
        while ahead.next().unwrap().is_some() {}
        assert_eq!(current_thread_processors().unwrap(), one);
    })
    .join()
    .unwrap();
    assert_eq!(*SEEN.lock().unwrap(), [all; 60]);
}
