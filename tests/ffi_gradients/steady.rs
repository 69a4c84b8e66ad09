//! A steady training step allocates nothing inside of the library, on any of its threads.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::ffi::*;

use crate::allocator;
use crate::distributed::{batches, next, rows};
use crate::setup::*;

const REPLICAS: usize = 2;

#[test]
fn a_steady_step_allocates_nothing() {
    let training = Training::new(REPLICAS as i32);
    let (strategy, optimizer) = (training.strategy, training.optimizer);
    let (variable, gradients) = (training.variable as usize, training.gradients as usize);
    let iterator = batches(strategy, 64, 8);
    // What each replica's thread has allocated by the end of its callback, over all steps.
    let counts: [AtomicUsize; REPLICAS] = Default::default();
    let step = || {
        let element = next(iterator);
        ok(run(strategy, element, &|ctx, args| {
            let replica = replica_id(ctx) as usize;
            let (variable, gradients) =
                (variable as *mut umbo_variable, gradients as *mut umbo_gradients);
            let own = rows(args, c"x".as_ptr());
            let [mut weight, mut low, mut gradient] = [mem::MaybeUninit::<umbo_view>::uninit(); 3];
            // SAFETY: handles are live, views are variables and lead to one float32 element each.
            unsafe {
                ok(umbo_variable_view(variable, ctx, UMBO_DTYPE_NONE, weight.as_mut_ptr()));
                let weight = *weight.assume_init().data.cast::<f32>();
                ok(umbo_variable_view(variable, ctx, UMBO_DTYPE_BFLOAT16, low.as_mut_ptr()));
                // The upper half of a float32, but for rounding.
                let low = u32::from(*low.assume_init().data.cast::<u16>()) << 16;
                assert!((f32::from_bits(low) - weight).abs() <= weight.abs() / 256.0);
                ok(umbo_gradients_view(
                    gradients,
                    ctx,
                    0,
                    UMBO_GRADIENT_ADD,
                    gradient.as_mut_ptr(),
                ));
                let gradient = gradient.assume_init().mutable_data.cast::<f32>();
                own.iter().for_each(|x| *gradient += (weight - x) * 0.01);
                let loss = f64::from(weight);
                ok(umbo_replica_context_add_metric(ctx, c"loss".as_ptr(), loss, 1.0));
                ok(umbo_gradients_submit(gradients, ctx));
            }
            counts[replica].store(allocator::of_this_thread(), Ordering::Relaxed);
            UMBO_OK
        }));
        let mut report = sized::<umbo_apply_report>();
        let gradients = gradients as *mut umbo_gradients;
        // SAFETY: handles are live, the element is not used afterwards.
        unsafe {
            ok(umbo_optimizer_apply(optimizer, gradients, ptr::null(), &mut report));
            umbo_release(element.cast(), UMBO_HANDLE_VALUE);
        }
        assert_eq!((report.applied, report.total_weight), (1, 8.0));
    };
    let allocated = || {
        let replicas = counts.iter().map(|count| count.load(Ordering::Relaxed));
        (allocator::of_this_thread(), replicas.collect::<Vec<_>>())
    };
    // More steps than there are batches, so that all batches have been in use.
    (0..20).for_each(|_| step());
    let (main, replicas) = allocated();
    let listed = allocator::of_this_thread() - main;
    (0..50).for_each(|_| step());
    let (main_after, replicas_after) = allocated();
    assert_eq!(main_after - main, listed);
    // Replica 0 runs on this thread, which has listed the counts meanwhile.
    assert_eq!(replicas_after[0] - replicas[0], listed);
    assert_eq!(replicas_after[1..], replicas[1..]);
    // SAFETY: the handle is not used afterwards.
    unsafe { umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR) };
}
