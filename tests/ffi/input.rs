//! Datasets from the caller's functions, and distribution, through the C functions: who releases
//! what, which failures come back, and what options mean.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use super::calls::{last_message, made, ok, refused};
use umbo::*;

use super::{alone, pass};

/// What the callbacks below are given.
#[derive(Default)]
struct Calls {
    begun: AtomicI32,
    next: AtomicI32,
    ended: AtomicI32,
    destroyed: AtomicI32,
}

impl Calls {
    fn user_data(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

fn count(counter: &AtomicI32) -> i32 {
    counter.load(Ordering::SeqCst)
}

/// # Safety
/// `user_data` leads to `Calls`, as for all of the callbacks.
unsafe fn calls<'a>(user_data: *mut c_void) -> &'a Calls {
    // SAFETY: the promise is the same.
    unsafe { &*user_data.cast::<Calls>() }
}

unsafe extern "C-unwind" fn begin(user_data: *mut c_void, place: *mut *mut c_void) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the pass.
    unsafe {
        calls(user_data).begun.fetch_add(1, Ordering::SeqCst);
        pass::begin(place)
    }
}

/// 0, a failure in place of 1, 2, the end.
unsafe extern "C-unwind" fn next(
    pass: *mut c_void,
    user_data: *mut c_void,
    element: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the pass is what `begin` made; the library gives a place for the element.
    unsafe {
        calls(user_data).next.fetch_add(1, Ordering::SeqCst);
        let number = pass::count(pass);
        *number += 1;
        match *number - 1 {
            1 => {
                return umbo_set_last_error(
                    UMBO_STATUS_DATA_LOSS,
                    c"one is lost".as_ptr(),
                    ptr::null_mut(),
                    None,
                );
            }
            3 => return UMBO_OK,
            _ => {}
        }
        let element_of_it = *number as i64;
        let data = ptr::from_ref(&element_of_it).cast();
        let tensor = made(|out| {
            umbo_tensor_from_data(UMBO_DTYPE_INT64, 0, ptr::null(), data, ptr::null(), out)
        });
        *element = made(|out| umbo_value_from_tensor(tensor, out));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn end(pass: *mut c_void, user_data: *mut c_void) {
    // SAFETY: the pass is what `begin` made and is given to this once.
    unsafe {
        pass::end(pass);
        calls(user_data).ended.fetch_add(1, Ordering::SeqCst);
    }
}

unsafe extern "C-unwind" fn destroy(user_data: *mut c_void) {
    // SAFETY: the library gives back the user data.
    unsafe { calls(user_data).destroyed.fetch_add(1, Ordering::SeqCst) };
}

const GENERATOR: umbo_generator = umbo_generator {
    struct_size: struct_size::<umbo_generator>(),
    begin: Some(begin),
    next: Some(next),
    reset: None,
    end: Some(end),
};

fn scalar_spec() -> *mut umbo_element_spec {
    // SAFETY: a scalar has no sizes, so that the shape may be NULL.
    made(|out| unsafe { umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, ptr::null(), out) })
}

/// The status of a `next`, and the number that it gave.
fn step(iterator: *mut umbo_iterator) -> (umbo_status, Option<i64>) {
    let mut element = ptr::null_mut();
    let mut number = 0i64;
    // SAFETY: the handle is live and the places are ours.
    unsafe {
        let status = umbo_iterator_next(iterator, &raw mut element);
        if element.is_null() {
            return (status, None);
        }
        let tensor = made(|out| umbo_value_tensor(element, out));
        ok(umbo_tensor_download(
            tensor,
            (&raw mut number).cast(),
            size_of::<i64>(),
        ));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(element.cast(), UMBO_HANDLE_VALUE);
        (status, Some(number))
    }
}

#[test]
fn a_generators_passes_are_ended_and_its_data_destroyed_once() {
    let _alone = alone();
    let state = Calls::default();
    let spec = scalar_spec();
    // SAFETY: handles are live, callbacks fit their user data, which outlives them.
    unsafe {
        let dataset = made(|out| {
            let user_data = state.user_data();
            umbo_dataset_from_generator(spec, &GENERATOR, user_data, Some(destroy), out)
        });
        umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
        let iterator = made(|out| umbo_iterator_from_dataset(dataset, out));
        umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        assert_eq!(count(&state.begun), 0);
        assert_eq!(step(iterator), (UMBO_OK, Some(1)));
        assert_eq!(step(iterator).0, UMBO_STATUS_DATA_LOSS);
        assert!(last_message().contains("one is lost"));
        assert_eq!(step(iterator), (UMBO_OK, Some(3)));
        assert_eq!(step(iterator), (UMBO_OK, None));
        assert_eq!(step(iterator), (UMBO_OK, None));
        assert_eq!(count(&state.next), 4, "asked again after the end");
        ok(umbo_iterator_reset(iterator));
        assert_eq!(step(iterator), (UMBO_OK, Some(1)));
        assert_eq!((count(&state.begun), count(&state.ended)), (2, 1));
        assert_eq!(count(&state.destroyed), 0);
        umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
    }
    assert_eq!((count(&state.ended), count(&state.destroyed)), (2, 1));
}

unsafe extern "C-unwind" fn same(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the result.
    unsafe {
        calls(user_data).next.fetch_add(1, Ordering::SeqCst);
        umbo_retain(element.cast(), UMBO_HANDLE_VALUE, result.cast())
    }
}

unsafe extern "C-unwind" fn none(
    _: *const umbo_value,
    _: *mut c_void,
    _: *mut *mut umbo_value,
) -> umbo_status {
    UMBO_OK
}

#[test]
fn what_a_call_takes_it_destroys_also_if_it_fails() {
    let _alone = alone();
    let state = Calls::default();
    let data = state.user_data();
    // SAFETY: handles are live or NULL, callbacks fit their user data.
    unsafe {
        let spec = scalar_spec();
        let mut output = ptr::null_mut();
        let out = &raw mut output;
        let generate = |spec, generator| {
            umbo_dataset_from_generator(spec, generator, data, Some(destroy), out)
        };
        refused(
            generate(ptr::null(), &GENERATOR),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["element_spec"],
        );
        refused(
            generate(spec, ptr::null()),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["generator"],
        );
        let silent = umbo_generator {
            next: None,
            ..GENERATOR
        };
        refused(
            generate(spec, &silent),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["generator.next"],
        );
        let range = made(|out| umbo_dataset_from_range(0, 3, 1, out));
        let mut range = range;
        let range = &raw mut range;
        let map = |dataset, function, options| {
            umbo_dataset_map(dataset, function, data, Some(destroy), options)
        };
        refused(
            map(ptr::null_mut(), Some(same), ptr::null()),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["dataset"],
        );
        refused(
            map(range, None, ptr::null()),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["function"],
        );
        let options = umbo_map_options {
            struct_size: struct_size::<umbo_map_options>(),
            element_spec: ptr::null(),
            parallel_call_count: 5000,
        };
        refused(
            map(range, Some(same), &options),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["parallel_call_count"],
        );
        assert_eq!(count(&state.destroyed), 6);
        assert!(output.is_null());

        let options = umbo_map_options {
            parallel_call_count: 2,
            ..options
        };
        for (function, first) in [
            (same as _, (UMBO_OK, Some(0))),
            (none as _, (UMBO_STATUS_INVALID_ARGUMENT, None)),
        ] {
            let function: umbo_map_fn = Some(function);
            ok(umbo_retain(*range.cast(), UMBO_HANDLE_DATASET, out.cast()));
            ok(map(out, function, &options));
            let iterator = made(|out| umbo_iterator_from_dataset(output, out));
            umbo_release(output.cast(), UMBO_HANDLE_DATASET);
            assert_eq!(step(iterator), first);
            umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
        }
        assert!(last_message().contains("has stored none"));
        assert_eq!((count(&state.destroyed), count(&state.next)), (8, 2));
        umbo_release(*range.cast(), UMBO_HANDLE_DATASET);
        umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
    }
}

unsafe extern "C-unwind" fn two_by_two(
    context: *const umbo_input_context,
    user_data: *mut c_void,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    // SAFETY: the library gives a context, the user data and a place for the dataset.
    unsafe {
        calls(user_data).next.fetch_add(1, Ordering::SeqCst);
        let mut size = 0;
        ok(umbo_input_context_per_replica_batch_size(
            context,
            4,
            &raw mut size,
        ));
        ok(umbo_dataset_from_range(0, 6, 1, dataset));
        umbo_dataset_batch(dataset, size, 0)
    }
}

unsafe extern "C-unwind" fn nothing(
    _: *const umbo_input_context,
    _: *mut c_void,
    _: *mut *mut umbo_dataset,
) -> umbo_status {
    UMBO_OK
}

const OPTIONS: umbo_distribute_options = umbo_distribute_options {
    struct_size: struct_size::<umbo_distribute_options>(),
    split: UMBO_SPLIT_CEIL,
    drop_partial_step: 0,
    host_only: 0,
    prefetch_count: UMBO_AUTO,
    sharding: UMBO_SHARDING_DATA,
    compared_steps: UMBO_AUTO,
};

#[test]
fn distribution_from_a_function_and_its_options() {
    let _alone = alone();
    let state = Calls::default();
    // SAFETY: an options struct of zeros means all defaults but its size.
    let mut strategy_options: umbo_strategy_options = unsafe { std::mem::zeroed() };
    strategy_options.struct_size = struct_size::<umbo_strategy_options>();
    strategy_options.cpu_replicas = 2;
    // SAFETY: handles are live, callbacks fit their user data.
    unsafe {
        let strategy = made(|out| umbo_strategy_create(&raw const strategy_options, out));
        let mut output = ptr::null_mut();
        let out = &raw mut output;
        let distribute = |function, options| {
            let data = state.user_data();
            umbo_strategy_distribute_datasets_from_function(strategy, function, data, options, out)
        };
        for (options, steps) in [
            (OPTIONS, 2),
            (
                umbo_distribute_options {
                    drop_partial_step: 1,
                    ..OPTIONS
                },
                1,
            ),
        ] {
            ok(distribute(Some(two_by_two), &raw const options));
            let mut cardinality = 0;
            ok(umbo_distributed_dataset_cardinality(
                output,
                &raw mut cardinality,
            ));
            assert_eq!(cardinality, steps);
            let iterator = made(|out| umbo_iterator_from_distributed_dataset(output, out));
            let mut seen = 0;
            loop {
                let mut element = ptr::null_mut();
                ok(umbo_iterator_next(iterator, &raw mut element));
                if element.is_null() {
                    break;
                }
                umbo_release(element.cast(), UMBO_HANDLE_VALUE);
                seen += 1;
            }
            assert_eq!(seen, steps);
            let spec = made(|out| umbo_iterator_element_spec(iterator, out));
            let mut info = umbo_element_spec_info::default();
            ok(umbo_element_spec_get_info(spec, &raw mut info));
            assert_eq!((info.kind, info.item_count), (UMBO_VALUE_PER_REPLICA, 2));
            assert_eq!((info.dtype, info.ndim), (UMBO_DTYPE_INT64, 1));
            assert_eq!(info.shape[..2], [UMBO_SIZE_UNKNOWN, 0]);
            umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
            umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
            umbo_release(output.cast(), UMBO_HANDLE_DISTRIBUTED_DATASET);
        }
        assert_eq!(count(&state.next), 2);
        output = ptr::null_mut();
        let none = ptr::null();
        refused(
            distribute(Some(nothing), none),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["has stored none"],
        );
        let with = umbo_distribute_options {
            split: 999,
            ..OPTIONS
        };
        refused(
            distribute(Some(two_by_two), &with),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["options.split"],
        );
        let with = umbo_distribute_options {
            prefetch_count: -2,
            ..OPTIONS
        };
        refused(
            distribute(Some(two_by_two), &with),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["prefetch_count"],
        );
        let with = umbo_distribute_options {
            compared_steps: -2,
            ..OPTIONS
        };
        refused(
            distribute(Some(two_by_two), &with),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["options.compared_steps"],
        );
        assert_eq!(
            count(&state.next),
            2,
            "the function was called although the options are wrong"
        );
        assert!(output.is_null());
        umbo_release(strategy.cast(), UMBO_HANDLE_STRATEGY);
    }
}
