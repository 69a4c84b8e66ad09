//! Misuse of handles, and looking while others release.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;
use crate::machinery::object::{umbo_tensor, umbo_value};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

fn tensor(value: f32) -> Tensor {
    Tensor::scalar(value).unwrap()
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

fn another<H: Opaque>(handle: *const H, argument: &'static str) -> Result<*mut H> {
    retain(handle.cast(), argument, H::KIND).map(<*mut c_void>::cast)
}

fn look(handle: *const umbo_tensor) -> Result<Tensor> {
    get(handle, "tensor")
}

#[test]
fn a_handle_leads_to_its_object_until_it_is_released() {
    let object = tensor(1.0);
    let handle: *mut umbo_tensor = make(object.clone()).unwrap();
    let second = another(handle, "tensor").unwrap();
    release(second, "tensor").unwrap();
    assert!(look(second).is_err());
    assert!(look(handle).unwrap().is_same(&object));
    release(handle, "tensor").unwrap();
    assert!(message(look(handle)).starts_with("tensor: the handle was released"));
    assert!(message(release(handle, "tensor")).starts_with("tensor: the handle was released"));
    assert!(message(another(handle, "tensor")).starts_with("tensor: the handle was released"));
}

#[test]
fn null_is_named() {
    let null = ptr::null::<umbo_tensor>();
    assert_eq!(message(look(null)), "tensor: is NULL; a tensor is expected");
    assert!(get_optional(null, "tensor").unwrap().is_none());
}

#[test]
fn another_kind_is_named() {
    let handle: *mut umbo_value = make(Value::Tensor(tensor(1.0))).unwrap();
    assert_eq!(
        message(look(handle.cast())),
        "tensor: is a value handle, not a tensor"
    );
    let wrong: *mut umbo_tensor = handle.cast();
    assert_eq!(
        message(release(wrong, "tensor")),
        "tensor: is a value handle, not a tensor"
    );
    assert_eq!(borrow(handle, "value", Value::count).unwrap(), 1);
    release(handle, "value").unwrap();
    assert!(message(look(handle.cast())).starts_with("tensor: the handle was released"));
}

#[test]
fn forged_handles_are_refused() {
    let handle: *mut umbo_tensor = make(tensor(1.0)).unwrap();
    let bits = bits(handle);
    let next_generation = bits + (1 << SLOT_BITS);
    let no_such_slot = bits | SLOT_MASK;
    let no_such_kind = bits | 0xff << KIND_SHIFT;
    let other_kind = bits & !(0xff << KIND_SHIFT) | (Kind::Optimizer as u64) << KIND_SHIFT;
    let address = bits_of_an_address();
    for forged in [
        next_generation,
        no_such_slot,
        no_such_kind,
        other_kind,
        address,
        1,
        u64::MAX,
    ] {
        let forged: *const umbo_tensor = ptr::without_provenance(forged as usize);
        for problem in [
            message(look(forged)),
            message(release(forged, "t")),
            message(another(forged, "t")),
        ] {
            assert!(
                problem.contains("is not a handle of this library"),
                "{problem}"
            );
        }
    }
    assert!(look(handle).is_ok());
    release(handle, "tensor").unwrap();
}

fn bits_of_an_address() -> u64 {
    let local = 0u8;
    ptr::from_ref(&local).addr() as u64
}

#[test]
fn a_retired_slot_is_not_used_again() {
    let (index, slot) = TABLE.take().unwrap();
    slot.state
        .store((GENERATION_MASK - 1) << SLOT_BITS, Ordering::SeqCst);
    let last: *mut umbo_tensor = fill(index, slot, umbo_tensor::wrap(tensor(1.0)), TAKEN);
    assert!(look(last).is_ok());
    release(last, "tensor").unwrap();
    assert!(message(look(last)).starts_with("tensor: the handle was released"));
    let others: Vec<u32> = (0..64).map(|_| TABLE.take().unwrap().0).collect();
    assert!(!others.contains(&index));
    others.into_iter().for_each(|other| TABLE.give_back(other));
}

#[test]
fn lent_handles_are_stale_after_the_call() {
    let mut place = LentHandle::<umbo_value>::new().unwrap();
    let first = place.lend(Value::Tensor(tensor(1.0))).unwrap();
    assert!(get(first, "args").is_ok());
    let error = release(first, "args").unwrap_err();
    assert_eq!(error.status(), umbo_core::error::Status::FailedPrecondition);
    assert!(error.to_string().contains("retain it"), "{error}");
    let kept = another(first, "args").unwrap();
    let second = place.lend(Value::Tensor(tensor(2.0))).unwrap();
    assert!(message(get(first, "args")).starts_with("args: the handle was released"));
    assert!(get(kept, "args").is_ok());
    release(kept, "args").unwrap();
    assert!(place.withdraw().is_some());
    assert!(message(get(second, "args")).starts_with("args: the handle was released"));
    assert!(place.withdraw().is_none());
}

#[test]
fn lending_moves_on_when_a_slot_is_used_up() {
    let mut place = LentHandle::<umbo_tensor>::new().unwrap();
    let slot = TABLE.slot(place.place.index).unwrap();
    slot.state
        .store((GENERATION_MASK - 1) << SLOT_BITS, Ordering::SeqCst);
    let last = place.lend(tensor(1.0)).unwrap();
    let next = place.lend(tensor(2.0)).unwrap();
    assert_ne!(slot_of(bits(last)), slot_of(bits(next)));
    assert!(look(last).is_err());
    assert!(look(next).is_ok());
}

#[test]
fn the_table_grows_past_its_first_chunks() {
    let object = tensor(1.0);
    let handles: Vec<*mut umbo_tensor> = (0..1000).map(|_| make(object.clone()).unwrap()).collect();
    for &handle in &handles {
        assert!(look(handle).unwrap().is_same(&object));
    }
    for &handle in &handles {
        release(handle, "tensor").unwrap();
        assert!(look(handle).is_err());
    }
}

/// The number of rounds, or a few of them where an interpreter runs them, which tries other orders
/// with each seed.
fn scaled(rounds: u32) -> u32 {
    if cfg!(miri) { rounds / 20 } else { rounds }
}

/// Threads look through a handle that another one keeps releasing and making anew. A thread that
/// gets an object gets a whole one: the tensor of the generation that the handle names.
#[test]
fn looking_races_with_releasing() {
    let current = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let bits = current.load(Ordering::Acquire);
                    let handle: *const umbo_tensor = ptr::without_provenance(bits as usize);
                    let value = borrow(handle, "tensor", |tensor| {
                        tensor.reading().unwrap().as_slice::<f64>().unwrap()[0]
                    });
                    if let Ok(value) = value {
                        assert!(value >= 0.0, "read after the release");
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut round = 0;
        while round < scaled(500) || seen.load(Ordering::Relaxed) < 50 {
            let object = Tensor::scalar(f64::from(round)).unwrap();
            let data = object.address().cast::<f64>();
            let spare = object.clone();
            let handle: *mut umbo_tensor = make(object).unwrap();
            current.store(bits(handle), Ordering::Release);
            if round % 64 == 0 {
                thread::yield_now();
            }
            release(handle, "tensor").unwrap();
            // SAFETY: the release has waited for the last look, and `spare` keeps the memory.
            unsafe { data.write(-1.0) };
            drop(spare);
            round += 1;
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Several threads retain and release one handle; exactly one release is the last.
#[test]
fn threads_retain_one_object() {
    let object = tensor(1.0);
    for _ in 0..scaled(200) {
        let handle: *mut umbo_tensor = make(object.clone()).unwrap();
        let bits = bits(handle);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    let handle: *mut umbo_tensor = ptr::without_provenance_mut(bits as usize);
                    for _ in 0..50 {
                        let reference = another(handle, "tensor").unwrap();
                        assert!(borrow(reference, "tensor", |_| ()).is_ok());
                        release(reference, "tensor").unwrap();
                    }
                });
            }
        });
        assert!(look(handle).is_ok());
        release(handle, "tensor").unwrap();
        assert!(look(handle).is_err());
    }
}

/// The last release takes effect at once for those who come later, and waits for those who look.
#[test]
fn the_last_release_waits_for_a_look_in_progress() {
    let handle: *mut umbo_tensor = make(tensor(1.0)).unwrap();
    let bits = bits(handle);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        borrow(handle, "tensor", |_| {
            scope.spawn(|| {
                let handle: *mut umbo_tensor = ptr::without_provenance_mut(bits as usize);
                release(handle, "tensor").unwrap();
                assert!(ended.load(Ordering::SeqCst), "the release did not wait");
            });
            while look(handle).is_ok() {
                thread::yield_now();
            }
            (0..1000).for_each(|_| thread::yield_now());
            ended.store(true, Ordering::SeqCst);
        })
        .unwrap();
    });
}
