//! Runs from a thread that is on the processor that a replica's thread is bound to.

use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::collectives::ReduceOp;
use umbo_core::error::Result;
use umbo_core::executor::affinity;
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

const RUNS: usize = 200;

#[test]
fn a_caller_on_a_replicas_processor_goes_on_and_stays_as_free_as_it_was() {
    let true =
        crate::is_alone(a_caller_on_a_replicas_processor_goes_on_and_stays_as_free_as_it_was)
    else {
        return;
    };
    let allowed = affinity::current_thread_processors().unwrap();
    let options = Options {
        cpu_replicas: 2,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    let processor = AtomicUsize::new(usize::MAX);
    let [calls, together] = [const { AtomicUsize::new(0) }; 2];
    let step = |context: &ReplicaContext| -> Result<Option<Value>> {
        calls.fetch_add(1, Ordering::Relaxed);
        let current = affinity::current_processor().unwrap();
        match context.replica() {
            0 => {
                let shares = current == processor.load(Ordering::Relaxed);
                together.fetch_add(usize::from(shares), Ordering::Relaxed);
            }
            _ => processor.store(current, Ordering::Relaxed),
        }
        let one = Value::Tensor(Tensor::scalar(1.0f32)?);
        let sum = context.all_reduce(ReduceOp::Sum, one)?;
        assert_eq!(sum.tensor_of(0)?.to_vec::<f32>()?, [2.0]);
        Ok(None)
    };
    // How often each replica was called in so many runs, and replica 0 on the processor of the
    // other.
    let run = |runs: usize| {
        calls.store(0, Ordering::Relaxed);
        together.store(0, Ordering::Relaxed);
        for _ in 0..runs {
            strategy.run(&step, None).unwrap();
        }
        (
            calls.load(Ordering::Relaxed) / 2,
            together.load(Ordering::Relaxed),
        )
    };
    assert_eq!(run(1).0, 1);
    let shared = [processor.load(Ordering::Relaxed)].into_iter().collect();

    // Bound to it, the caller cannot leave, and both take turns on one processor, until the
    // replica's thread is set free because others want that processor, too.
    affinity::bind_current_thread(&shared).unwrap();
    assert_eq!(run(RUNS).0, RUNS);
    assert_eq!(affinity::current_thread_processors().unwrap(), shared);

    // It can again, is still there, and makes way: else it would stay for all of the runs, since a
    // thread that never blocks for long is not moved away from a processor that has turns for it.
    affinity::bind_current_thread(&allowed).unwrap();
    let (runs, together) = run(RUNS);
    assert_eq!(runs, RUNS);
    if allowed.count() > 1 {
        assert!(
            together < RUNS,
            "replica 0 stayed on the processor of replica 1"
        );
    }
    assert_eq!(affinity::current_thread_processors().unwrap(), allowed);
}
