//! Iterators in the child of a fork, which has none of the parent's threads: they answer. Alone in
//! its process.

mod child;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use child::in_child;
use umbo::error::{Result, Status};
use umbo::input::{Dataset, ElementSpec, Generator, LeafSpec, MapOptions, PassIterator};
use umbo::tensor::{DType, Tensor};
use umbo::values::Value;

fn refused(result: Result<Option<Value>>) -> bool {
    result.err().is_some_and(|error| {
        error.status() == Status::FailedPrecondition && error.to_string().contains("fork")
    })
}

fn count(iterator: &PassIterator) -> usize {
    std::iter::from_fn(|| iterator.next().unwrap()).count()
}

/// One element that comes when it is let go.
struct Held(Arc<AtomicBool>);

impl Generator for Held {
    fn next(&mut self) -> Result<Option<Value>> {
        while !self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(Value::Tensor(Tensor::scalar(1i32)?)))
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn iterators_answer_in_the_child_of_a_fork() {
    let same = |element: &Value| Ok(element.clone());
    let options = MapOptions { parallel_calls: 3, element_spec: None };
    let source = Dataset::range(0, 100, 1).unwrap();
    let threaded = [
        ("prefetched", source.prefetch(4).unwrap()),
        ("parallel", source.map(same, options.clone()).unwrap()),
        ("both", source.map(same, options).unwrap().prefetch(2).unwrap()),
    ];
    for (way, dataset) in &threaded {
        let (begun, fresh) = (dataset.iterator().unwrap(), dataset.iterator().unwrap());
        assert!(begun.next().unwrap().is_some());
        let answered = in_child(move || {
            let refused = refused(begun.next()) && begun.reset().is_err();
            // Where it was is known here too, and from there it goes on with threads of its own.
            let position = begun.save_position().unwrap();
            begun.restore_position(&position).unwrap();
            let refused = refused && count(&begun) == 99;
            drop(begun);
            // What had no threads yet, and what is made here, has threads of its own.
            let new = dataset.iterator().unwrap();
            refused && count(&fresh) == 100 && count(&new) == 100
        });
        assert!(answered, "{way}");
    }

    // Without threads an iterator goes on where it was.
    let plain = source.iterator().unwrap();
    plain.next().unwrap();
    assert!(in_child(|| count(&plain) == 99 && plain.reset().is_ok() && count(&plain) == 100));
    assert_eq!(count(&plain), 99);

    // Another thread of the parent's is in the iterator.
    let spec = ElementSpec::Leaf(LeafSpec { dtype: DType::Int32, shape: vec![] });
    let (go, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (of_generator, is_in) = (Arc::clone(&go), Arc::clone(&seen));
    let held = Dataset::from_generator(spec, move || {
        is_in.store(true, Ordering::SeqCst);
        Ok(Box::new(Held(Arc::clone(&of_generator))))
    });
    let held = Arc::new(held.unwrap().iterator().unwrap());
    let of_thread = Arc::clone(&held);
    let position = held.save_position().unwrap();
    let thread = std::thread::spawn(move || of_thread.next().unwrap().is_some());
    while !seen.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    assert!(in_child(|| refused(held.next())));
    assert!(
        in_child(|| held.save_position().is_err() && held.restore_position(&position).is_err())
    );
    go.store(true, Ordering::SeqCst);
    assert!(thread.join().unwrap());
    assert!(held.next().unwrap().is_some());
}
