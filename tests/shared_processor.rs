//! Runs from a thread that is on the processor that a replica's thread is bound to. A process of its
//! own, because it binds its main thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::collectives::ReduceOp;
use umbo::error::Result;
use umbo::executor::affinity;
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::Tensor;
use umbo::values::Value;

#[test]
fn a_caller_on_a_replicas_processor_goes_on_and_stays_as_free_as_it_was() {
    let allowed = affinity::current_thread_processors().unwrap();
    let options = Options { cpu_replicas: 2, ..Options::default() };
    let strategy = Strategy::new(&options).unwrap();
    let processor = AtomicUsize::new(usize::MAX);
    let step = |context: &ReplicaContext| -> Result<Option<Value>> {
        if context.replica() == 1 {
            processor.store(affinity::current_processor().unwrap(), Ordering::Relaxed);
        }
        let one = Value::Tensor(Tensor::scalar(1.0f32)?);
        let sum = context.all_reduce(ReduceOp::Sum, one)?;
        assert_eq!(sum.tensor_of(0)?.to_vec::<f32>()?, [2.0]);
        Ok(None)
    };
    strategy.run(&step, None).unwrap();
    let shared = [processor.load(Ordering::Relaxed)].into_iter().collect();

    // Bound to it, the caller cannot leave.
    affinity::bind_current_thread(&shared).unwrap();
    for _ in 0..200 {
        strategy.run(&step, None).unwrap();
    }
    assert_eq!(affinity::current_thread_processors().unwrap(), shared);

    // It can again, and may still be there.
    affinity::bind_current_thread(&allowed).unwrap();
    for _ in 0..200 {
        strategy.run(&step, None).unwrap();
    }
    assert_eq!(affinity::current_thread_processors().unwrap(), allowed);
}
