//! Datasets and iterators through the C functions.

use std::ptr;

use super::calls::{made, ok};
use umbo::ffi::*;

use super::{allocator, alone};

/// What a transformation makes of `source`, which stays.
fn changed(
    source: *const umbo_dataset,
    transform: impl FnOnce(*mut *mut umbo_dataset) -> umbo_status,
) -> *mut umbo_dataset {
    let mut dataset: *mut umbo_dataset = ptr::null_mut();
    // SAFETY: the handle is live, the output a variable.
    ok(unsafe { umbo_retain(source.cast(), UMBO_HANDLE_DATASET, (&raw mut dataset).cast()) });
    ok(transform(&raw mut dataset));
    dataset
}

/// The numbers 0 to before `count`, as float32.
fn numbers(count: usize) -> *mut umbo_dataset {
    let data: Vec<f32> = (0..count).map(|number| number as f32).collect();
    let shape = [count as i64];
    // SAFETY: pointers lead to what the functions ask for; handles are live.
    unsafe {
        let tensor = made(|out| {
            let data = data.as_ptr().cast();
            umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape.as_ptr(), data, ptr::null(), out)
        });
        let value = made(|out| umbo_value_from_tensor(tensor, out));
        let dataset = made(|out| umbo_dataset_from_tensor_slices(value, out));
        umbo_release(value.cast(), UMBO_HANDLE_VALUE);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        dataset
    }
}

fn iterator_of(dataset: *mut umbo_dataset) -> *mut umbo_iterator {
    // SAFETY: the handle is live, the output a place of `made`'s.
    made(|out| unsafe { umbo_iterator_from_dataset(dataset, out) })
}

fn next(iterator: *mut umbo_iterator) -> *mut umbo_value {
    let mut element = ptr::null_mut();
    // SAFETY: the handle is live, the output a place.
    ok(unsafe { umbo_iterator_next(iterator, &raw mut element) });
    element
}

#[test]
fn a_steady_pass_allocates_nothing() {
    let _alone = alone();
    // SAFETY: handles are live and outputs places of `made`'s.
    unsafe {
        let source = numbers(64);
        let shuffled = changed(source, |out| umbo_dataset_shuffle(out, ptr::null()));
        let endless = changed(shuffled, |out| umbo_dataset_repeat(out, -1));
        let plain = changed(endless, |out| umbo_dataset_batch(out, 8, 0));
        let ahead = changed(plain, |out| umbo_dataset_prefetch(out, 2));
        for dataset in [plain, ahead] {
            let iterator = iterator_of(dataset);
            let pass = |steps: usize| {
                for _ in 0..steps {
                    let element = next(iterator);
                    assert!(!element.is_null());
                    umbo_release(element.cast(), UMBO_HANDLE_VALUE);
                }
            };
            pass(20);
            let allocated = || {
                let before = allocator::of_this_thread();
                pass(50);
                allocator::of_this_thread() - before
            };
            // A thread's first wait for another one allocates, and comes whenever it comes.
            assert!((0..5).any(|_| allocated() == 0));
            umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
        }
        for dataset in [source, shuffled, endless, plain, ahead] {
            umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        }
    }
}
