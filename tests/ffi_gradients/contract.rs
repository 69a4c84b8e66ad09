//! What gradients and optimizers are given, and what they refuse.

use std::mem;
use std::ptr;

use umbo::ffi::*;

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
fn gradients_are_checked_when_they_are_made() {
    let (training, other) = (Training::new(1), Training::new(1));
    let mut gradients = ptr::null_mut();
    let mut make = |count: i64, variables: &[*mut umbo_variable], loss_reduction: i32| {
        let options = umbo_gradients_options { loss_reduction, ..Default::default() };
        let variables = variables.as_ptr().cast();
        let strategy = training.strategy;
        // SAFETY: no more variables are counted than are listed.
        unsafe { umbo_gradients_create(strategy, count, variables, &options, &mut gradients) }
    };
    let (mine, foreign) = (training.variable, other.variable);
    refused(
        make(1, &[mine], 0),
        UMBO_STATUS_INVALID_ARGUMENT,
        &["loss_reduction: 0", "UMBO_LOSS_MEAN"],
    );
    refused(make(1, &[mine], 4), UMBO_STATUS_INVALID_ARGUMENT, &["loss_reduction: 4"]);
    refused(make(0, &[], UMBO_LOSS_SUM), UMBO_STATUS_INVALID_ARGUMENT, &["variables"]);
    refused(make(-1, &[mine], UMBO_LOSS_SUM), UMBO_STATUS_INVALID_ARGUMENT, &["-1"]);
    refused(make(2, &[mine, mine], UMBO_LOSS_SUM), UMBO_STATUS_INVALID_ARGUMENT, &["variables[1]"]);
    refused(
        make(1, &[foreign], UMBO_LOSS_SUM),
        UMBO_STATUS_INVALID_ARGUMENT,
        &["another strategy"],
    );
    assert!(gradients.is_null());
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
            &["mode: 0", "UMBO_GRADIENT_ADD (2)"],
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
        refused(training.submit(ctx, 1.0), UMBO_STATUS_FAILED_PRECONDITION, &["has submitted"]);
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
    refused(training.submit(stale, 1.0), UMBO_STATUS_INVALID_ARGUMENT, &["ctx"]);
    refused(training.submit(ptr::null_mut(), 1.0), UMBO_STATUS_INVALID_ARGUMENT, &["ctx", "NULL"]);
    // SAFETY: the output is a variable.
    let default = made(|out| unsafe { umbo_current_replica_context(out) });
    refused(
        training.submit(default, 1.0),
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_gradients_view: gradients: mixing"],
    );
}

#[test]
fn options_of_optimizers_have_defaults_and_limits() {
    let training = Training::new(1);
    let strategy = training.strategy;
    let rate = |optimizer: *mut umbo_optimizer| {
        let mut info = umbo_optimizer_info::default();
        // SAFETY: the handle is live and not used afterwards, the output a variable.
        unsafe {
            ok(umbo_optimizer_get_info(optimizer, &mut info));
            umbo_release(optimizer.cast(), UMBO_HANDLE_OPTIMIZER);
        }
        info.learning_rate
    };
    let mut none = ptr::null_mut();
    let wrong = UMBO_STATUS_INVALID_ARGUMENT;
    // SAFETY: the handle is live, structs live during the calls or are NULL.
    unsafe {
        let null = ptr::null();
        assert_eq!(rate(made(|out| umbo_optimizer_create_sgd(strategy, null, out))), 0.01);
        let null = ptr::null();
        assert_eq!(rate(made(|out| umbo_optimizer_create_momentum(strategy, null, out))), 0.01);
        let null = ptr::null();
        assert_eq!(rate(made(|out| umbo_optimizer_create_adam(strategy, null, out))), 0.001);
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            let options = umbo_sgd_options { learning_rate: bad, ..Default::default() };
            let status = umbo_optimizer_create_sgd(strategy, &options, &mut none);
            refused(status, wrong, &["learning_rate"]);
            let options = umbo_momentum_options { momentum: bad, ..Default::default() };
            let status = umbo_optimizer_create_momentum(strategy, &options, &mut none);
            refused(status, wrong, &["momentum"]);
            for (field, name) in ["beta1", "beta2", "epsilon"].into_iter().enumerate() {
                let mut options = umbo_adam_options::default();
                *[&mut options.beta1, &mut options.beta2, &mut options.epsilon][field] = bad;
                let status = umbo_optimizer_create_adam(strategy, &options, &mut none);
                refused(status, wrong, &[name]);
            }
            let status = umbo_optimizer_set_learning_rate(training.optimizer, bad);
            refused(status, wrong, &["learning_rate"]);
        }
        let options = umbo_momentum_options { nesterov: 2, ..Default::default() };
        let status = umbo_optimizer_create_momentum(strategy, &options, &mut none);
        refused(status, wrong, &["options.nesterov: 2"]);
    }
    assert!(none.is_null());
}

#[test]
fn state_is_found_by_name_once_there_is_some() {
    let training = Training::new(2);
    let (strategy, variable, gradients) =
        (training.strategy, training.variable, training.gradients);
    let options = umbo_adam_options { beta1: 0.5, ..Default::default() };
    // SAFETY: handles are live, structs and texts live during the calls.
    unsafe {
        let adam = made(|out| umbo_optimizer_create_adam(strategy, &options, out));
        let mut state = ptr::null_mut();
        let status = umbo_optimizer_state(adam, variable, c"m".as_ptr(), &mut state);
        refused(status, UMBO_STATUS_NOT_FOUND, &["'m'", "'w'"]);
        ok(run(strategy, ptr::null(), &|ctx, _| training.submit(ctx, 3.0)));
        ok(umbo_optimizer_apply(adam, gradients, ptr::null(), ptr::null_mut()));
        let status = umbo_optimizer_state(adam, variable, c"momentum".as_ptr(), &mut state);
        refused(status, UMBO_STATUS_NOT_FOUND, &["'momentum'", "m, v"]);
        assert!(state.is_null());
        assert_eq!(
            taken(made(|out| umbo_optimizer_state(adam, variable, c"m".as_ptr(), out))),
            1.5
        );
        umbo_release(adam.cast(), UMBO_HANDLE_OPTIMIZER);
    }
}

#[test]
fn an_unknown_metric_lists_the_known_ones() {
    let training = Training::new(2);
    let mut metric = sized::<umbo_metric>();
    // SAFETY: the handle is live, the metric is a variable of the size that it states.
    let status = unsafe { umbo_strategy_metric(training.strategy, c"acc".as_ptr(), &mut metric) };
    refused(status, UMBO_STATUS_NOT_FOUND, &["'acc'", "none was added"]);
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        for name in [c"loss", c"accuracy"] {
            // SAFETY: the context is this callback's.
            ok(unsafe { umbo_replica_context_add_metric(ctx, name.as_ptr(), 1.0, 1.0) });
        }
        UMBO_OK
    }));
    // SAFETY: as above.
    let status = unsafe { umbo_strategy_metric(training.strategy, c"acc".as_ptr(), &mut metric) };
    refused(status, UMBO_STATUS_NOT_FOUND, &["'acc'", "the metrics are 'loss', 'accuracy'"]);
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
    let own = &training;
    let step = |ctx: *mut umbo_replica_context, _: *const umbo_value| {
        // SAFETY: the handles are live.
        unsafe { umbo_gradients_submit(own.gradients, ctx) }
    };
    let status = run(training.strategy, ptr::null(), &step);
    let parts = ["its pass has ended: end the loop there, or reset the iterator", "with a weight"];
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
