//! Applying in each context: at once, or at the commit point of the step.

use std::ptr;

use umbo::*;

use crate::setup::*;

#[test]
fn after_a_run_it_acts_at_once() {
    let training = Training::new(2);
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        let replica = replica_id(ctx);
        training.submit_weighted(ctx, (replica + 1) as f32, f64::from(replica + 1))
    }));
    assert_eq!(training.weight(), 1.0);
    let (status, report) = training.apply();
    ok(status);
    assert_eq!(
        (report.applied, report.deferred, report.updated_count),
        (1, 0, 1)
    );
    assert_eq!((report.total_weight, report.iterations), (3.0, 1));
    assert_eq!(training.weight(), 0.0);
    let (status, _) = training.apply();
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["have been applied"],
    );
    assert_eq!((training.weight(), training.iterations()), (0.0, 1));
}

#[test]
fn inside_of_a_merge_call_it_waits_for_the_commit_point() {
    let training = Training::new(2);
    ok(run(training.strategy, ptr::null(), &|ctx, _| {
        // The first replica submits before the merge call, the second one after it.
        let replica = replica_id(ctx);
        if replica == 0 {
            ok(training.submit(ctx, 2.0));
        }
        ok(merge(ctx, &|| {
            let (status, report) = training.apply();
            assert_eq!(
                (report.applied, report.deferred, report.iterations),
                (0, 1, 0)
            );
            assert_eq!(training.weight(), 1.0);
            status
        }));
        assert_eq!(training.iterations(), 0);
        if replica == 1 {
            training.submit(ctx, 4.0)
        } else {
            UMBO_OK
        }
    }));
    assert_eq!((training.weight(), training.iterations()), (-2.0, 1));
    let (status, _) = training.apply();
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["have been applied"],
    );
}

#[test]
fn in_replica_context_all_replicas_call_it_and_it_acts_once() {
    for replicas in [1, 3] {
        let training = Training::new(replicas);
        for steps in 1..3 {
            ok(run(training.strategy, ptr::null(), &|ctx, _| {
                ok(training.submit(ctx, 1.0));
                let (status, report) = training.apply();
                assert_eq!((report.applied, report.deferred), (0, 1));
                status
            }));
            let expected = (1.0 - steps as f32, i64::from(steps));
            assert_eq!((training.weight(), training.iterations()), expected);
        }
    }
}

#[test]
fn replicas_that_apply_different_things_are_told_so() {
    let training = Training::new(2);
    let strategy = training.strategy;
    let variable = training.variable;
    let other = make_gradients(strategy, variable, UMBO_LOSS_SUM) as usize;
    let status = run(strategy, ptr::null(), &|ctx, _| {
        ok(training.submit(ctx, 1.0));
        let gradients = if replica_id(ctx) == 0 {
            training.gradients
        } else {
            other as *mut _
        };
        // SAFETY: the handles are live.
        unsafe { umbo_optimizer_apply(training.optimizer, gradients, ptr::null(), ptr::null_mut()) }
    });
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &[
            "replica 1",
            "apply of gradients of 'w' by an optimizer with the rule sgd",
            "; the gradients are different ones; ",
            "disagree",
        ],
    );
    // Nobody knows an address.
    assert!(!last_message().contains("0x"), "{}", last_message());
    assert_eq!((training.weight(), training.iterations()), (1.0, 0));
    // SAFETY: the handle is not used afterwards.
    unsafe { umbo_release((other as *mut umbo_gradients).cast(), UMBO_HANDLE_GRADIENTS) };
}

#[test]
fn a_step_that_fails_applies_nothing() {
    let training = Training::new(2);
    for in_merge in [true, false] {
        let step = |fails: bool| {
            run(training.strategy, ptr::null(), &|ctx, _| {
                ok(training.submit(ctx, 1.0));
                ok(match in_merge {
                    true => merge(ctx, &|| training.apply().0),
                    false => training.apply().0,
                });
                if fails && replica_id(ctx) == 1 {
                    let none = ptr::null_mut();
                    let why = c"after the apply".as_ptr();
                    // SAFETY: the message is a text.
                    return unsafe { umbo_set_last_error(UMBO_STATUS_ABORTED, why, none, None) };
                }
                UMBO_OK
            })
        };
        let before = (training.weight(), training.iterations());
        refused(
            step(true),
            UMBO_STATUS_ABORTED,
            &["replica 1", "after the apply"],
        );
        assert_eq!((training.weight(), training.iterations()), before);
        let (status, _) = training.apply();
        refused(
            status,
            UMBO_STATUS_FAILED_PRECONDITION,
            &["the last run failed"],
        );
        ok(step(false));
        assert_eq!(
            (training.weight(), training.iterations()),
            (before.0 - 1.0, before.1 + 1)
        );
    }
}

#[test]
fn a_deferred_apply_that_fails_makes_the_step_fail() {
    let training = Training::new(2);
    let variable = training.variable as usize;
    let status = run(training.strategy, ptr::null(), &|ctx, _| {
        if replica_id(ctx) == 0 {
            ok(training.submit(ctx, 1.0));
        }
        merge(ctx, &|| {
            let assigned = value(&[5.0]);
            // SAFETY: the handles are live, the value is not used afterwards.
            unsafe {
                ok(umbo_variable_assign(
                    variable as *mut umbo_variable,
                    assigned,
                ));
                umbo_release(assigned.cast(), UMBO_HANDLE_VALUE);
            }
            training.apply().0
        })
    });
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["not submitted", "replica 1"],
    );
    assert_eq!((training.weight(), training.iterations()), (1.0, 0));
}

#[test]
fn a_deferred_apply_updates_what_the_step_assigned() {
    let training = Training::new(2);
    let variable = training.variable as usize;
    for apply_first in [true, false] {
        ok(run(training.strategy, ptr::null(), &|ctx, _| {
            ok(training.submit(ctx, 1.0));
            merge(ctx, &|| {
                if apply_first {
                    ok(training.apply().0);
                }
                let assigned = value(&[5.0]);
                // SAFETY: the handles are live, the value is not used afterwards.
                unsafe {
                    ok(umbo_variable_assign(
                        variable as *mut umbo_variable,
                        assigned,
                    ));
                    umbo_release(assigned.cast(), UMBO_HANDLE_VALUE);
                }
                if apply_first {
                    UMBO_OK
                } else {
                    training.apply().0
                }
            })
        }));
        assert_eq!(training.weight(), 4.0);
    }
}

#[test]
fn other_strategies_are_refused() {
    let training = Training::new(2);
    let other = Training::new(2);
    let mine = training.gradients;
    let report = ptr::null_mut();
    // SAFETY: the handles are live.
    let status = unsafe { umbo_optimizer_apply(other.optimizer, mine, ptr::null(), report) };
    refused(
        status,
        UMBO_STATUS_INVALID_ARGUMENT,
        &["gradients", "a strategy other than"],
    );
    let status = run(other.strategy, ptr::null(), &|_, _| training.apply().0);
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_optimizer_apply", "mixing"],
    );
    let status = run(other.strategy, ptr::null(), &|ctx, _| {
        training.submit(ctx, 1.0)
    });
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["umbo_gradients_view", "mixing"],
    );
}

#[test]
fn a_strategy_that_is_gone_is_named() {
    let training = Training::new(2);
    // SAFETY: released once more at the end, where a stale handle is fine.
    unsafe { umbo_release(training.strategy.cast(), UMBO_HANDLE_STRATEGY) };
    let (status, _) = training.apply();
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["optimizer: its strategy was released"],
    );
}

#[test]
fn a_second_run_does_not_replace_what_waits_for_an_apply() {
    let training = Training::new(2);
    let submit = |gradient: f32| {
        run(training.strategy, ptr::null(), &|ctx, _| {
            training.submit(ctx, gradient)
        })
    };
    ok(submit(1.0));
    refused(
        submit(100.0),
        UMBO_STATUS_FAILED_PRECONDITION,
        &[
            "has not been applied",
            "Apply after each run",
            "accumulation_steps",
            "new gradients",
        ],
    );
    let (status, _) = training.apply();
    ok(status);
    assert_eq!(training.weight(), 0.0);
    ok(submit(1.0));
    let (status, _) = training.apply();
    ok(status);
    assert_eq!(training.weight(), -1.0);
    // What an apply has refused is replaced by the next run.
    let fail = umbo_optimizer_options {
        non_finite: UMBO_NON_FINITE_FAIL,
        ..Default::default()
    };
    // SAFETY: the handle is live, the struct lives during the call.
    ok(unsafe { umbo_optimizer_configure(training.optimizer, &fail) });
    ok(submit(f32::NAN));
    let (status, _) = training.apply();
    refused(
        status,
        UMBO_STATUS_INVALID_ARGUMENT,
        &["not finite", "replica 0", "element [0] is NaN"],
    );
    ok(submit(1.0));
    let (status, _) = training.apply();
    ok(status);
    assert_eq!(training.weight(), -2.0);
}
