//! Distributed input: its parts are the default weights, its iterators belong to a strategy.

use std::ffi::c_char;
use std::mem;
use std::ptr;

use umbo::*;

use crate::setup::*;

/// An iterator over the numbers 1 to `count` in batches of `size`, distributed over a strategy.
pub fn batches(strategy: *mut umbo_strategy, count: usize, size: i64) -> *mut umbo_iterator {
    let data: Vec<f32> = (1..=count).map(|number| number as f32).collect();
    let component = value(&data);
    let name = [c"x".as_ptr()];
    // SAFETY: handles are live until their release, arrays as long as the counts say.
    unsafe {
        let components = [component];
        let nest = made(|out| umbo_value_create_struct(1, name.as_ptr(), components.as_ptr(), out));
        let source = made(|out| umbo_dataset_from_tensor_slices(nest, out));
        let endless = changed(source, |out| umbo_dataset_repeat(out, UMBO_INFINITE));
        let dataset = changed(endless, |out| umbo_dataset_batch(out, size, 0));
        let distributed =
            made(|out| umbo_strategy_distribute_dataset(strategy, dataset, ptr::null(), out));
        let iterator = made(|out| umbo_iterator_from_distributed_dataset(distributed, out));
        umbo_release(component.cast(), UMBO_HANDLE_VALUE);
        umbo_release(nest.cast(), UMBO_HANDLE_VALUE);
        umbo_release(source.cast(), UMBO_HANDLE_DATASET);
        umbo_release(endless.cast(), UMBO_HANDLE_DATASET);
        umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        let mut another: *mut umbo_distributed_dataset = ptr::null_mut();
        ok(umbo_retain(
            distributed.cast(),
            UMBO_HANDLE_DISTRIBUTED_DATASET,
            (&raw mut another).cast(),
        ));
        umbo_release(distributed.cast(), UMBO_HANDLE_DISTRIBUTED_DATASET);
        umbo_release(distributed.cast(), UMBO_HANDLE_DISTRIBUTED_DATASET);
        iterator
    }
}

pub fn next(iterator: *mut umbo_iterator) -> *mut umbo_value {
    // SAFETY: the handle is live.
    made(|out| unsafe { umbo_iterator_next(iterator, out) })
}

/// The float32 rows of a field.
pub fn rows<'a>(args: *const umbo_value, name: *const c_char) -> &'a [f32] {
    let mut view = mem::MaybeUninit::<umbo_view>::uninit();
    // SAFETY: the function fills the view, which leads to contiguous float32 elements; the tests
    // use them while the element lives.
    unsafe {
        ok(umbo_value_view(
            args,
            name,
            UMBO_DTYPE_NONE,
            view.as_mut_ptr(),
        ));
        let view = view.assume_init();
        std::slice::from_raw_parts(view.data.cast(), view.shape[0] as usize)
    }
}

#[test]
fn the_examples_of_each_part_are_its_weight() {
    let training = Training::new(3);
    let gradients = training.gradients as usize;
    let iterator = batches(training.strategy, 7, 7);
    let element = next(iterator);
    ok(run(training.strategy, element, &|ctx, args| {
        let rows_of_part = rows(args, c"x".as_ptr());
        let gradients = gradients as *mut umbo_gradients;
        assert_eq!(rows_of_part.len(), [3, 3, 1][replica_id(ctx) as usize]);
        let mut view = mem::MaybeUninit::<umbo_view>::uninit();
        // SAFETY: the handles are live, the view leads to one float32 element.
        unsafe {
            ok(umbo_gradients_view(
                gradients,
                ctx,
                0,
                UMBO_GRADIENT_OVERWRITE,
                view.as_mut_ptr(),
            ));
            *view.assume_init().mutable_data.cast::<f32>() = rows_of_part.iter().sum();
            umbo_gradients_submit(gradients, ctx)
        }
    }));
    let (status, report) = training.apply();
    ok(status);
    assert_eq!(report.total_weight, 7.0);
    assert_eq!(training.weight(), 1.0 - 4.0);
    // SAFETY: the handles are not used afterwards.
    unsafe {
        umbo_release(element.cast(), UMBO_HANDLE_VALUE);
        umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
    }
}

#[test]
fn elements_for_all_replicas_are_not_asked_for_by_one() {
    let training = Training::new(2);
    let other = Training::new(2);
    let iterator = batches(training.strategy, 4, 2) as usize;
    let ask = || {
        let iterator = iterator as *mut umbo_iterator;
        let mut element = ptr::null_mut();
        // SAFETY: the handle is live, the output a variable.
        let status = unsafe { umbo_iterator_next(iterator, &mut element) };
        assert_eq!(element.is_null(), status != UMBO_OK);
        // SAFETY: an element is not used afterwards; NULL is fine.
        unsafe { umbo_release(element.cast(), UMBO_HANDLE_VALUE) };
        status
    };
    let status = run(training.strategy, ptr::null(), &|_, _| ask());
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_iterator_next", "cross-replica"],
    );
    let status = run(training.strategy, ptr::null(), &|_, _| {
        // SAFETY: the handle is live.
        unsafe { umbo_iterator_reset(iterator as *mut umbo_iterator) }
    });
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_iterator_reset", "cross-replica"],
    );
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        merge(ctx, &ask)
    }));
    // SAFETY: the handles are live, scopes are left in order.
    unsafe {
        let scope = made(|out| umbo_scope_enter(other.strategy, out));
        refused(
            ask(),
            UMBO_STATUS_FAILED_PRECONDITION,
            &["umbo_iterator_next", "mixing"],
        );
        ok(umbo_scope_exit(scope));
        let scope = made(|out| umbo_scope_enter(training.strategy, out));
        ok(ask());
        ok(umbo_scope_exit(scope));
    }
    ok(ask());
    // SAFETY: the handle is not used afterwards.
    unsafe {
        umbo_release(
            (iterator as *mut umbo_iterator).cast(),
            UMBO_HANDLE_ITERATOR,
        )
    };
}
