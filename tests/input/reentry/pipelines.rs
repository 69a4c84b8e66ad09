//! What an iterator iterates over, and the functions that it calls, each of which is a place.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use umbo::ffi::*;

use super::case::{Case, Place, draw, save};
use crate::calls::{made, ok};
use crate::pass;

/// How many elements a pass has.
pub const ELEMENTS: usize = 6;

/// What the iterator iterates over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Plain,
    Prefetched,
    Parallel,
    Distributed,
    ShuffledAndCached,
}

/// # Safety
/// `user_data` leads to the case, as for all of the callbacks.
unsafe fn case<'a>(user_data: *mut c_void) -> &'a Case {
    // SAFETY: the promise is the same.
    unsafe { &*user_data.cast::<Case>() }
}

unsafe extern "C-unwind" fn begin(user_data: *mut c_void, place: *mut *mut c_void) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the pass.
    unsafe {
        case(user_data).at(Place::Begin);
        pass::begin(place)
    }
}

pub static NUMBERS: [i64; 2] = [1, 2];

unsafe extern "C-unwind" fn next(
    own: *mut c_void,
    user_data: *mut c_void,
    element: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the pass is what `begin` made; the memory of the tensor is static; the library gives a
    // place for the element.
    unsafe {
        case(user_data).at(Place::Next);
        let count = pass::count(own);
        if *count == ELEMENTS {
            return UMBO_OK;
        }
        *count += 1;
        let shape = [2i64];
        let tensor = made(|out| {
            umbo_tensor_from_memory(
                UMBO_DTYPE_INT64,
                1,
                shape.as_ptr(),
                ptr::null(),
                NUMBERS.as_ptr().cast_mut().cast(),
                ptr::null(),
                user_data,
                Some(element_destroy),
                out,
            )
        });
        *element = made(|out| umbo_value_from_tensor(tensor, out));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn reset(own: *mut c_void, user_data: *mut c_void) -> umbo_status {
    // SAFETY: the pass is what `begin` made.
    unsafe {
        case(user_data).at(Place::Reset);
        *pass::count(own) = 0;
    }
    UMBO_OK
}

unsafe extern "C-unwind" fn end(own: *mut c_void, user_data: *mut c_void) {
    // SAFETY: the pass is what `begin` made and is given to this once.
    unsafe {
        case(user_data).at(Place::End);
        pass::end(own);
    }
}

unsafe extern "C-unwind" fn element_destroy(user_data: *mut c_void) {
    // SAFETY: the library gives back the user data.
    unsafe { case(user_data).at(Place::ElementDestroy) };
}

unsafe extern "C-unwind" fn source_destroy(user_data: *mut c_void) {
    // SAFETY: as above.
    unsafe { case(user_data).at(Place::SourceDestroy) };
}

unsafe fn mapped(
    place: Option<Place>,
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the result.
    unsafe {
        if let Some(place) = place {
            case(user_data).at(place);
        }
        umbo_retain(element.cast(), UMBO_HANDLE_VALUE, result.cast())
    }
}

unsafe extern "C-unwind" fn map(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(Some(Place::Map), element, user_data, result) }
}

unsafe extern "C-unwind" fn parallel_map(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(Some(Place::ParallelMap), element, user_data, result) }
}

unsafe extern "C-unwind" fn same(
    element: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: as the library promises.
    unsafe { mapped(None, element, user_data, result) }
}

pub unsafe extern "C-unwind" fn dataset_function(
    _context: *const umbo_input_context,
    user_data: *mut c_void,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    // SAFETY: the library gives back the user data and a place for the dataset.
    unsafe {
        case(user_data).at(Place::DatasetFunction);
        umbo_dataset_from_range(0, 4, 1, dataset)
    }
}

pub unsafe extern "C-unwind" fn nothing(
    _context: *mut umbo_replica_context,
    _arguments: *const umbo_value,
    _user_data: *mut c_void,
    _result: *mut *mut umbo_value,
) -> umbo_status {
    UMBO_OK
}

/// Makes everything that the case is about.
///
/// # Safety
/// The case outlives all of it.
pub unsafe fn build(case: &Case, kind: Kind) {
    let user_data = case.user_data();
    let generator = umbo_generator {
        struct_size: size_of::<umbo_generator>(),
        begin: Some(begin),
        next: Some(next),
        // Without a function to reset it, a pass is ended and another begun.
        reset: (case.place != Place::End).then_some(reset as _),
        end: Some(end),
    };
    // SAFETY: handles are ours, callbacks fit their user data, outputs are variables; all zero is a
    // value of the option structs.
    unsafe {
        let mut strategy_options: umbo_strategy_options = std::mem::zeroed();
        strategy_options.struct_size = size_of::<umbo_strategy_options>();
        strategy_options.cpu_replicas = 2;
        let strategy = made(|out| umbo_strategy_create(&strategy_options, out));
        case.strategy.store(strategy, Ordering::SeqCst);
        let spec =
            made(|out| umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 1, [2i64].as_ptr(), out));
        let destroy: umbo_destroy_fn = Some(source_destroy);
        let mut dataset =
            made(|out| umbo_dataset_from_generator(spec, &generator, user_data, destroy, out));
        umbo_release(spec.cast(), UMBO_HANDLE_ELEMENT_SPEC);
        let mut four_at_once: umbo_map_options = std::mem::zeroed();
        four_at_once.struct_size = size_of::<umbo_map_options>();
        four_at_once.parallel_call_count = 4;
        let mut add_map = |function: umbo_map_fn, options: *const umbo_map_options| {
            ok(umbo_dataset_map(&raw mut dataset, function, user_data, None, options));
        };
        match case.place {
            Place::Map => add_map(Some(map), ptr::null()),
            Place::ParallelMap => add_map(Some(parallel_map), &four_at_once),
            _ => {}
        }
        match kind {
            Kind::Plain => {}
            Kind::Parallel => add_map(Some(same), &four_at_once),
            Kind::Prefetched => {
                ok(umbo_dataset_prefetch(&raw mut dataset, 3));
            }
            Kind::Distributed => {
                let mut options: umbo_distribute_options = std::mem::zeroed();
                options.struct_size = size_of::<umbo_distribute_options>();
                options.prefetch_count = 2;
                let distributed = made(|out| {
                    umbo_strategy_distribute_dataset(strategy, dataset, &raw const options, out)
                });
                case.distributed.store(distributed, Ordering::SeqCst);
            }
            Kind::ShuffledAndCached => {
                let mut options: umbo_shuffle_options = std::mem::zeroed();
                options.struct_size = size_of::<umbo_shuffle_options>();
                options.buffer_capacity = 3;
                ok(umbo_dataset_shuffle(&raw mut dataset, &options));
                ok(umbo_dataset_cache(&raw mut dataset));
            }
        }
        case.dataset.store(dataset, Ordering::SeqCst);
        let (status, other) = case.start();
        ok(status);
        ok(draw(other).0);
        ok(draw(other).0);
        let (status, position) = save(other);
        ok(status);
        umbo_release(other.cast(), UMBO_HANDLE_ITERATOR);
        *case.position.lock().unwrap() = position;
        case.armed.store(true, Ordering::SeqCst);
        let (status, iterator) = case.start();
        ok(status);
        case.iterator.store(iterator, Ordering::SeqCst);
    }
}
