//! What iterators do when the system has no thread for them.

use crate::threads::allowing;
use umbo_core::device::DeviceId;
use umbo_core::error::{Result, Status};
use umbo_core::input::{Dataset, DistributeOptions, MapOptions, PassIterator, distribute};
use umbo_core::values::Value;

fn number(element: &Value) -> i64 {
    let tensor = element.tensor_of(0).unwrap();
    assert_eq!(tensor.shape().elements(), 1);
    // SAFETY: a tensor of int64 with one element, which nobody writes.
    unsafe { tensor.address().cast::<i64>().read() }
}

/// Makes an iterator.
type Make<'a> = Box<dyn Fn() -> PassIterator + 'a>;

fn next(iterator: &PassIterator) -> Result<Option<i64>> {
    Ok(iterator.next()?.map(|element| number(&element)))
}

#[test]
fn without_a_thread_nothing_is_lost_and_the_next_call_tries_again() {
    let true = crate::is_alone(without_a_thread_nothing_is_lost_and_the_next_call_tries_again)
    else {
        return;
    };
    let same = |element: &Value| Ok(element.clone());
    let options = MapOptions {
        parallel_calls: 4,
        element_spec: None,
    };
    let source = Dataset::range(0, 10, 1).unwrap();
    let parallel = source.map(same, options).unwrap();
    let devices = [DeviceId::cpu(0)];
    let ahead = DistributeOptions {
        read_ahead: Some(2),
        ..Default::default()
    };
    let ways: [(&str, Make<'_>); 5] = [
        (
            "prefetched",
            Box::new(|| source.prefetch(2).unwrap().iterator().unwrap()),
        ),
        ("prefetched twice", {
            let twice = source.prefetch(2).unwrap().prefetch(3).unwrap();
            Box::new(move || twice.iterator().unwrap())
        }),
        ("parallel", Box::new(|| parallel.iterator().unwrap())),
        (
            "parallel, prefetched",
            Box::new(|| parallel.prefetch(2).unwrap().iterator().unwrap()),
        ),
        ("read ahead", {
            Box::new(|| {
                distribute(&source, 1, &devices, &ahead)
                    .unwrap()
                    .iterator()
                    .unwrap()
            })
        }),
    ];
    for (way, make) in ways {
        // Without any thread, and with fewer than are wanted, over and over.
        for allowed in 0..4 {
            let iterator = make();
            let mut failures = 0;
            let mut seen = Vec::new();
            loop {
                match allowing(allowed, || next(&iterator)) {
                    Ok(Some(number)) => seen.push(number),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(error.status(), Status::ResourceExhausted, "{way}: {error}");
                        assert!(error.to_string().contains("thread"), "{error}");
                        failures += 1;
                        if failures == 3 {
                            break;
                        }
                    }
                }
            }
            if allowed == 0 {
                assert_eq!((failures, seen.len()), (3, 0), "{way}");
            }
            // Thereafter as if nothing had been, behind the failures that were made ahead.
            let mut made_ahead = 0;
            loop {
                match next(&iterator) {
                    Ok(Some(number)) => seen.push(number),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(error.status(), Status::ResourceExhausted, "{way}: {error}");
                        made_ahead += 1;
                        assert!(made_ahead < 10, "{way}, {allowed}: {error}");
                    }
                }
            }
            assert_eq!(seen, Vec::from_iter(0..10), "{way}, {allowed}");
            // And again.
            iterator.reset().unwrap();
            assert_eq!(next(&iterator).unwrap(), Some(0), "{way}, {allowed}");
        }
    }
}
