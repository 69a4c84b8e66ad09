//! Datasets and iterators through the C functions.

use std::ffi::{CString, c_char};
use std::ptr;

use super::calls::{made, ok, refused};
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

/// The float32 elements of a leaf.
fn elements(value: *const umbo_value, name: *const c_char) -> Vec<f32> {
    let mut view = std::mem::MaybeUninit::<umbo_view>::uninit();
    // SAFETY: the function fills the view, which leads to contiguous float32 elements.
    unsafe {
        ok(umbo_value_view(value, name, UMBO_DTYPE_NONE, view.as_mut_ptr()));
        let view = view.assume_init();
        assert_eq!(view.dtype, UMBO_DTYPE_FLOAT32);
        let count: i64 = view.shape[..view.ndim as usize].iter().product();
        (0..count as usize).map(|index| view.data.cast::<f32>().add(index).read()).collect()
    }
}

/// The elements of one pass, one list for each; releases the dataset.
fn drain(dataset: *mut umbo_dataset) -> Vec<Vec<f32>> {
    let iterator = iterator_of(dataset);
    // SAFETY: the handle is live and not used afterwards; the iterator keeps what it needs.
    unsafe { umbo_release(dataset.cast(), UMBO_HANDLE_DATASET) };
    let mut all = Vec::new();
    loop {
        let element = next(iterator);
        if element.is_null() {
            break;
        }
        all.push(elements(element, ptr::null()));
        // SAFETY: the element is ours.
        unsafe { umbo_release(element.cast(), UMBO_HANDLE_VALUE) };
    }
    assert!(next(iterator).is_null(), "the end stays the end");
    // SAFETY: the iterator is ours.
    unsafe { umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR) };
    all
}

fn cardinality(dataset: *const umbo_dataset) -> i64 {
    let mut count = 0;
    // SAFETY: the handle is live, the output a place.
    ok(unsafe { umbo_dataset_cardinality(dataset, &raw mut count) });
    count
}

#[test]
fn transformations_do_what_they_say() {
    let _alone = alone();
    // SAFETY: handles are live and outputs places of `made`'s.
    unsafe {
        let source = numbers(10);
        let skipped = changed(source, |out| umbo_dataset_skip(out, 3));
        let taken = changed(skipped, |out| umbo_dataset_take(out, 4));
        let repeated = changed(taken, |out| umbo_dataset_repeat(out, 2));
        let batches = changed(repeated, |out| umbo_dataset_batch(out, 3, 0));
        assert_eq!(cardinality(batches), 3);
        let ahead = changed(batches, |out| umbo_dataset_prefetch(out, 2));
        assert_eq!(drain(ahead), [vec![3., 4., 5.], vec![6., 3., 4.], vec![5., 6.]]);
        let whole = changed(repeated, |out| umbo_dataset_batch(out, 3, 1));
        assert_eq!(drain(whole).len(), 2);
        let endless = changed(source, |out| umbo_dataset_repeat(out, -1));
        assert_eq!(cardinality(endless), -1);
        for dataset in [source, skipped, taken, repeated, batches, endless] {
            umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        }
    }
}

#[test]
fn the_seed_decides_the_order() {
    let _alone = alone();
    let size = size_of::<umbo_shuffle_options>();
    let shuffled = |seed: u64, keep: i32| {
        let (source, mut options) = (numbers(20), [size as u64, u64::MAX, seed, 0]);
        options[3] = keep as u64;
        // SAFETY: four words are as long as the struct says; little-endian flags are its last ones.
        unsafe {
            let options = options.as_ptr().cast::<umbo_shuffle_options>();
            let shuffled = changed(source, |out| umbo_dataset_shuffle(out, options));
            umbo_release(source.cast(), UMBO_HANDLE_DATASET);
            let twice = changed(shuffled, |out| umbo_dataset_repeat(out, 2));
            umbo_release(shuffled.cast(), UMBO_HANDLE_DATASET);
            drain(twice).concat()
        }
    };
    let first = shuffled(7, 0);
    assert_eq!(first, shuffled(7, 0));
    assert_ne!(first, shuffled(8, 0));
    assert_ne!(first[..20], first[20..]);
    let kept = shuffled(7, 1);
    assert_eq!(kept[..20], kept[20..]);
    let mut sorted = first[..20].to_vec();
    sorted.sort_by(f32::total_cmp);
    assert_eq!(sorted, (0..20).map(|number| number as f32).collect::<Vec<_>>());
}

#[test]
fn zip_makes_structs_with_names_and_tuples_without() {
    let _alone = alone();
    // SAFETY: handles are live, arrays as long as the count says.
    unsafe {
        let (a, b) = (numbers(5), numbers(3));
        let both = [a.cast_const(), b.cast_const()];
        let names = [c"x".as_ptr(), c"y".as_ptr()];
        for (names, paths) in [(names.as_ptr(), [c"x", c"y"]), (ptr::null(), [c"0", c"1"])] {
            let zipped = made(|out| umbo_dataset_zip(2, names, both.as_ptr(), out));
            assert_eq!(cardinality(zipped), 3);
            let iterator = iterator_of(zipped);
            for pass in 0..2 {
                for row in 0..2 {
                    let element = next(iterator);
                    for path in paths {
                        assert_eq!(elements(element, path.as_ptr()), [row as f32], "pass {pass}");
                    }
                    umbo_release(element.cast(), UMBO_HANDLE_VALUE);
                }
                ok(umbo_iterator_reset(iterator));
            }
            umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
            umbo_release(zipped.cast(), UMBO_HANDLE_DATASET);
        }
        umbo_release(a.cast(), UMBO_HANDLE_DATASET);
        umbo_release(b.cast(), UMBO_HANDLE_DATASET);
    }
}

#[test]
fn idx_files_are_read() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("umbo-ffi-dataset-{}.idx", std::process::id()));
    let text = CString::new(path.to_str().unwrap()).unwrap();
    let mut file = vec![0, 0, 0x0d, 1, 0, 0, 0, 2];
    file.extend([1.5f32, -2.0].iter().flat_map(|number| number.to_be_bytes()));
    std::fs::write(&path, &file).unwrap();
    // SAFETY: the path is a text, the output a place of `made`'s.
    let dataset = made(|out| unsafe {
        umbo_dataset_from_idx_files(1, ptr::null(), [text.as_ptr()].as_ptr(), out)
    });
    assert_eq!(drain(dataset), [[1.5], [-2.0]]);
    std::fs::write(&path, &file[..file.len() - 1]).unwrap();
    let mut dataset = ptr::null_mut();
    // SAFETY: as above.
    let read = |dataset: &mut *mut umbo_dataset| unsafe {
        umbo_dataset_from_idx_files(1, ptr::null(), [text.as_ptr()].as_ptr(), dataset)
    };
    refused(read(&mut dataset), UMBO_STATUS_DATA_LOSS, text.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    refused(read(&mut dataset), UMBO_STATUS_NOT_FOUND, text.to_str().unwrap());
    assert!(dataset.is_null());
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_written() {
    let _alone = alone();
    let mut dataset = numbers(4);
    let source = &raw mut dataset;
    let mut made: *mut umbo_dataset = ptr::null_mut();
    let out = &raw mut made;
    let options = |buffer_capacity: i64, keep: u64| {
        [size_of::<umbo_shuffle_options>() as u64, buffer_capacity as u64, 0, keep]
    };
    // SAFETY: handles are live or refused; pointers lead to what the functions ask for or are NULL.
    unsafe {
        let shuffle = |options: [u64; 4]| umbo_dataset_shuffle(source, options.as_ptr().cast());
        refused(umbo_dataset_batch(source, 0, 0), UMBO_STATUS_INVALID_ARGUMENT, "element_count: 0");
        refused(
            umbo_dataset_batch(source, 2, 2),
            UMBO_STATUS_INVALID_ARGUMENT,
            "drop_remainder: 2",
        );
        refused(umbo_dataset_take(source, -5), UMBO_STATUS_INVALID_ARGUMENT, "count");
        refused(umbo_dataset_skip(source, -2), UMBO_STATUS_INVALID_ARGUMENT, "count");
        refused(umbo_dataset_repeat(source, -2), UMBO_STATUS_INVALID_ARGUMENT, "count");
        refused(umbo_dataset_prefetch(source, 0), UMBO_STATUS_INVALID_ARGUMENT, "depth");
        refused(shuffle(options(-2, 0)), UMBO_STATUS_INVALID_ARGUMENT, "buffer_capacity");
        refused(shuffle(options(-1, 7)), UMBO_STATUS_INVALID_ARGUMENT, "keep_order_each_pass");
        refused(shuffle(options(0, 0)), UMBO_STATUS_INVALID_ARGUMENT, "buffer_capacity: 0");
        let none = umbo_dataset_zip(0, ptr::null(), ptr::null(), out);
        refused(none, UMBO_STATUS_INVALID_ARGUMENT, "datasets");
        refused(
            umbo_dataset_take(out, 1),
            UMBO_STATUS_INVALID_ARGUMENT,
            "dataset: is NULL; a dataset",
        );
        let nowhere = umbo_dataset_take(ptr::null_mut(), 1);
        refused(nowhere, UMBO_STATUS_INVALID_ARGUMENT, "dataset: is NULL");
        let before = dataset;
        ok(umbo_dataset_take(source, 1));
        assert_ne!(dataset, before);
        let mut stale = before;
        let twice = umbo_dataset_take(&raw mut stale, 1);
        refused(twice, UMBO_STATUS_INVALID_ARGUMENT, "released");
        let mut another: *mut umbo_dataset = ptr::null_mut();
        ok(umbo_retain(dataset.cast(), UMBO_HANDLE_DATASET, (&raw mut another).cast()));
        umbo_release(dataset.cast(), UMBO_HANDLE_DATASET);
        umbo_release(another.cast(), UMBO_HANDLE_DATASET);
        refused(umbo_dataset_take(source, 1), UMBO_STATUS_INVALID_ARGUMENT, "released");
    }
    assert!(made.is_null());
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
