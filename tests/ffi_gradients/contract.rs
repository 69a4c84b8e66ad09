//! What gradients and optimizers are given, and what they refuse.

use std::mem;
use std::ptr;

use umbo::*;

use crate::setup::*;

fn look(
    ctx: *mut umbo_replica_context,
    gradients: *mut umbo_gradients,
    index: i64,
    mode: umbo_gradient_mode,
) -> umbo_status {
    let mut view = mem::MaybeUninit::<umbo_view>::uninit();
    // SAFETY: handles are live or refused; the view is a variable.
    unsafe { umbo_gradients_view(gradients, ctx, index, mode, view.as_mut_ptr()) }
}

#[test]
fn views_and_weights_are_checked() {
    let training = Training::new(2);
    let gradients = training.gradients as usize;
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        let gradients = gradients as *mut umbo_gradients;
        refused(
            look(ctx, gradients, 1, UMBO_GRADIENT_ADD),
            UMBO_STATUS_OUT_OF_RANGE,
            &["index: 1"],
        );
        refused(
            look(ctx, gradients, -1, UMBO_GRADIENT_ADD),
            UMBO_STATUS_OUT_OF_RANGE,
            &["index: -1"],
        );
        refused(
            look(ctx, gradients, 0, 0),
            UMBO_STATUS_INVALID_ARGUMENT,
            &["mode: 0", "UMBO_GRADIENT_ADD (702)"],
        );
        for weight in [f64::NAN, f64::INFINITY, -1.0] {
            // SAFETY: the handles are live.
            let status = unsafe { umbo_gradients_submit_weighted(gradients, ctx, weight) };
            refused(
                status,
                UMBO_STATUS_INVALID_ARGUMENT,
                &["umbo_gradients_submit_weighted: weight"],
            );
        }
        // SAFETY: as above.
        let status = unsafe { umbo_gradients_submit(gradients, ctx) };
        let advice = ["how many examples", "submit with a weight"];
        refused(status, UMBO_STATUS_FAILED_PRECONDITION, &advice);
        ok(training.submit(ctx, 1.0));
        refused(
            training.submit(ctx, 1.0),
            UMBO_STATUS_FAILED_PRECONDITION,
            &["has submitted"],
        );
        UMBO_OK
    }));
    ok(training.apply().0);
    assert_eq!(training.weight(), 0.0);
}

#[test]
fn contexts_count_only_where_they_are_lent() {
    let training = Training::new(2);
    let kept = std::sync::atomic::AtomicUsize::new(0);
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        if replica_id(ctx) == 0 {
            kept.store(ctx as usize, std::sync::atomic::Ordering::Relaxed);
        }
        UMBO_OK
    }));
    let stale = kept.into_inner() as *mut umbo_replica_context;
    refused(
        training.submit(stale, 1.0),
        UMBO_STATUS_INVALID_ARGUMENT,
        &["ctx"],
    );
    refused(
        training.submit(ptr::null_mut(), 1.0),
        UMBO_STATUS_INVALID_ARGUMENT,
        &["ctx", "NULL"],
    );
    // SAFETY: the output is a variable.
    let default = made(|out| unsafe { umbo_replica_context_current(out) });
    refused(
        training.submit(default, 1.0),
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_gradients_view: gradients: mixing"],
    );
}

/// Tensors of which nobody says where they are to be.
#[test]
fn views_of_what_a_replica_makes_say_its_device() {
    let device_of = || {
        let tensor = tensor(&[1.0]);
        let mut view = mem::MaybeUninit::<umbo_view>::uninit();
        // SAFETY: the handle is live and not used afterwards, the output a variable.
        unsafe {
            ok(umbo_tensor_view(tensor, view.as_mut_ptr()));
            umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
            view.assume_init().device.ordinal
        }
    };
    let training = Training::new(3);
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        assert_eq!(device_of(), replica_id(ctx));
        ok(merge(ctx, &|| {
            assert_eq!(device_of(), 0);
            UMBO_OK
        }));
        UMBO_OK
    }));
    assert_eq!(device_of(), 0);
}

/// A loop that does not look for the end of the data runs the step once more, without an element.
#[test]
fn a_run_behind_the_last_element_says_that_the_data_have_ended() {
    let training = Training::new(2);
    let training_of_run = &training;
    let step = |ctx: *mut umbo_replica_context, _: *const umbo_value| {
        // SAFETY: the handles are live.
        unsafe { umbo_gradients_submit(training_of_run.gradients, ctx) }
    };
    let status = run(training.strategy, ptr::null(), &step);
    let parts = [
        "its pass has ended: end the loop there, or reset the iterator",
        "with a weight",
    ];
    refused(status, UMBO_STATUS_FAILED_PRECONDITION, &parts);
    // Arguments that are no batch are another matter.
    let plain = value(&[1.0]);
    let status = run(training.strategy, plain, &step);
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["contain no per-replica value; give it the elements of a distributed dataset"],
    );
    // SAFETY: the handle is not used afterwards.
    unsafe { umbo_release(plain.cast(), UMBO_HANDLE_VALUE) };
}
