//! What a handle costs: a call that looks an object up, a reference taken and released, a handle
//! made and released. Prints nanoseconds per call, the best of several rounds.

use std::hint::black_box;
use std::ptr;
use std::time::Instant;

use umbo::{
    UMBO_DTYPE_FLOAT32, UMBO_HANDLE_TENSOR, UMBO_HANDLE_VALUE, umbo_release, umbo_retain,
    umbo_tensor, umbo_tensor_create_zeros, umbo_value_from_tensor, umbo_value_get_info,
    umbo_value_info,
};

const ROUNDS: usize = 20;
const CALLS: u32 = 200_000;

fn measure(what: &str, mut call: impl FnMut()) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    println!(
        "{what:<30} {:6.1} ns",
        best.as_secs_f64() * 1e9 / f64::from(CALLS)
    );
}

fn main() {
    let mut tensor = ptr::null_mut();
    let mut value = ptr::null_mut();
    let mut info = umbo_value_info::default();
    // SAFETY: the pointers lead to variables of the right types, and the handles are in use.
    unsafe {
        umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, ptr::null(), ptr::null(), &mut tensor);
        umbo_value_from_tensor(tensor, &mut value);
        measure("look up (umbo_value_get_info)", || {
            black_box(umbo_value_get_info(black_box(value), &mut info));
        });
        measure("retain and release", || {
            let mut another: *mut umbo_tensor = ptr::null_mut();
            umbo_retain(tensor.cast(), UMBO_HANDLE_TENSOR, (&raw mut another).cast());
            umbo_release(another.cast(), UMBO_HANDLE_TENSOR);
        });
        umbo_release(value.cast(), UMBO_HANDLE_VALUE);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
}
