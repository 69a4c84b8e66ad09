//! What takes objects of a strategy refuses those of another one, and names the argument.

use std::ffi::c_void;
use std::ptr;

use umbo::*;

use crate::distributed::batches;
use crate::setup::*;

unsafe extern "C-unwind" fn nothing(
    _: *mut umbo_replica_context,
    _: *const umbo_value,
    _: *mut c_void,
    _: *mut *mut umbo_value,
) -> umbo_status {
    UMBO_OK
}

unsafe extern "C-unwind" fn update(
    variable: *mut umbo_variable,
    args: *const umbo_value,
    _: *mut c_void,
    _: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: both were lent to this function.
    unsafe { umbo_variable_assign(variable, args) }
}

/// A training with an iterator, metrics and a checkpoint.
struct All {
    training: Training,
    momentum: *mut umbo_optimizer,
    iterator: *mut umbo_iterator,
    metrics: *mut umbo_metrics,
    checkpoint: *mut umbo_checkpoint,
}

// SAFETY: handles may be used by any thread.
unsafe impl Sync for All {}

impl All {
    fn new() -> All {
        let training = Training::new(2);
        let strategy = training.strategy;
        let iterator = batches(strategy, 8, 4);
        let momentum = umbo_momentum_options {
            learning_rate: 1.0,
            ..Default::default()
        };
        // SAFETY: the handle is live, outputs are places of `made`'s.
        unsafe {
            let metrics = made(|out| umbo_metrics_create(strategy, out));
            let options = ptr::null();
            ok(umbo_metrics_define(
                metrics,
                c"m".as_ptr(),
                UMBO_METRIC_SUM,
                options,
            ));
            All {
                momentum: made(|out| umbo_optimizer_create_momentum(strategy, &momentum, out)),
                metrics,
                checkpoint: made(|out| umbo_checkpoint_create(strategy, out)),
                training,
                iterator,
            }
        }
    }
}

impl Drop for All {
    fn drop(&mut self) {
        // SAFETY: the handles are not used afterwards.
        unsafe {
            umbo_release(self.checkpoint.cast(), UMBO_HANDLE_CHECKPOINT);
            umbo_release(self.metrics.cast(), UMBO_HANDLE_METRICS);
            umbo_release(self.iterator.cast(), UMBO_HANDLE_ITERATOR);
            umbo_release(self.momentum.cast(), UMBO_HANDLE_OPTIMIZER);
        }
    }
}

#[test]
fn objects_of_another_strategy_are_refused_outside_of_steps() {
    let first = All::new();
    let second = All::new();
    let strategy = first.training.strategy;
    let variable = second.training.variable;
    let name = c"x".as_ptr();
    let variables = [variable];
    let mut value = ptr::null_mut();
    let mut tensor = ptr::null_mut();
    let mut gradients = ptr::null_mut();
    let mut found = ptr::null_mut::<umbo_equivalence>();
    let invalid = |status: umbo_status, argument: &str| {
        refused(
            status,
            UMBO_STATUS_INVALID_ARGUMENT,
            &[argument, "a strategy other than"],
        );
    };
    let epoch = |iterator, optimizer, gradients, metrics| {
        let options = umbo_train_epoch_options {
            metrics,
            ..Default::default()
        };
        let step = Some(nothing as _);
        let report = ptr::null_mut();
        let none = ptr::null_mut();
        // SAFETY: handles are live or NULL, the options live during the call.
        unsafe {
            umbo_train_epoch(
                strategy, iterator, optimizer, gradients, step, none, &options, report,
            )
        }
    };
    let of_first = &first.training;
    let of_second = &second.training;
    let none = ptr::null_mut();
    invalid(
        epoch(second.iterator, ptr::null_mut(), ptr::null_mut(), none),
        ": iterator: ",
    );
    invalid(
        epoch(
            first.iterator,
            of_second.optimizer,
            of_first.gradients,
            none,
        ),
        ": optimizer: ",
    );
    invalid(
        epoch(
            first.iterator,
            of_first.optimizer,
            of_second.gradients,
            none,
        ),
        ": gradients: ",
    );
    let no_update = ptr::null_mut();
    invalid(
        epoch(first.iterator, no_update, ptr::null_mut(), second.metrics),
        ": options.metrics: ",
    );
    // SAFETY: handles are live, arrays as long as the counts say, outputs variables.
    unsafe {
        let checkpoint = first.checkpoint;
        invalid(
            umbo_checkpoint_add_variable(checkpoint, name, variable),
            ": variable: ",
        );
        let optimizer = of_second.optimizer;
        invalid(
            umbo_checkpoint_add_optimizer(checkpoint, name, optimizer),
            ": optimizer: ",
        );
        let of_gradients = of_second.gradients;
        invalid(
            umbo_checkpoint_add_gradients(checkpoint, name, of_gradients),
            ": gradients: ",
        );
        invalid(
            umbo_checkpoint_add_metrics(checkpoint, name, second.metrics),
            ": metrics: ",
        );
        invalid(
            umbo_checkpoint_add_iterator(checkpoint, name, second.iterator),
            ": iterator: ",
        );

        let batch = crate::setup::value(&[1.0, 2.0, 3.0, 4.0]);
        let step = Some(nothing as _);
        let options = ptr::null();
        invalid(
            umbo_strategy_check_equivalence(
                strategy,
                of_gradients,
                step,
                batch,
                ptr::null_mut(),
                options,
                &mut found,
            ),
            ": gradients: ",
        );
        let list = variables.as_ptr();
        let options = ptr::null();
        invalid(
            umbo_gradients_create(strategy, 1, list, UMBO_LOSS_SUM, options, &mut gradients),
            ": variables[0]",
        );
        invalid(
            umbo_gradients_reduced(of_gradients, 0, of_first.optimizer, &mut value),
            ": optimizer: ",
        );
        invalid(apply_gradients_of_second(&first, &second), ": gradients: ");

        let optimizer = first.momentum;
        invalid(
            umbo_optimizer_read_state(optimizer, variable, c"momentum".as_ptr(), &mut tensor),
            ": variable: ",
        );
        let state = crate::setup::tensor(&[1.0]);
        invalid(
            umbo_optimizer_assign_state(optimizer, variable, c"momentum".as_ptr(), state),
            ": variable: ",
        );
        umbo_release(state.cast(), UMBO_HANDLE_TENSOR);
        let mut number = 0.0;
        invalid(
            umbo_optimizer_setting(optimizer, variable, c"frozen".as_ptr(), &mut number),
            ": variable: ",
        );
        invalid(
            umbo_optimizer_add_group(optimizer, 1, list, &umbo_group_options::default()),
            "variables[0]",
        );
        let mut progress = umbo_variable_progress::default();
        invalid(
            umbo_optimizer_variable_progress(optimizer, variable, &mut progress),
            ": variable: ",
        );
        progress.update_count = 1;
        invalid(
            umbo_optimizer_set_variable_progress(optimizer, variable, &progress),
            ": variable: ",
        );
        let function = Some(update as _);
        let data = ptr::null_mut();
        let new = crate::setup::value(&[5.0]);
        refused(
            umbo_strategy_update(strategy, variable, function, new, data, &mut value),
            UMBO_STATUS_INVALID_ARGUMENT,
            &[": variable: ", "was made by another strategy"],
        );
        umbo_release(new.cast(), UMBO_HANDLE_VALUE);
        umbo_release(batch.cast(), UMBO_HANDLE_VALUE);
    }
    assert_eq!(second.training.weight(), 1.0);
}

/// # Safety
/// Both are live.
unsafe fn apply_gradients_of_second(first: &All, second: &All) -> umbo_status {
    let optimizer = first.training.optimizer;
    let gradients = second.training.gradients;
    // SAFETY: the handles are live.
    unsafe { umbo_optimizer_apply(optimizer, gradients, ptr::null(), ptr::null_mut()) }
}

/// In a replica's callback it is the context that differs: that is the wrong place, not a wrong
/// argument.
#[test]
fn objects_of_another_strategy_are_refused_in_steps() {
    let first = All::new();
    let second = All::new();
    let at = &second;
    let differs = |status: umbo_status| {
        refused(
            status,
            UMBO_STATUS_FAILED_PRECONDITION,
            &["different strategies"],
        );
    };
    let step = |ctx: *mut umbo_replica_context, _: *const umbo_value| {
        let gradients = at.training.gradients;
        let variables = [at.training.variable];
        // SAFETY: handles are live, arrays as long as the counts say, views variables.
        unsafe {
            let mut view = std::mem::zeroed::<umbo_view>();
            differs(umbo_gradients_view(
                gradients,
                ctx,
                0,
                UMBO_GRADIENT_ADD,
                &mut view,
            ));
            differs(umbo_gradients_submit_weighted(gradients, ctx, 1.0));
            differs(umbo_metrics_add(at.metrics, ctx, c"m".as_ptr(), 1.0, 1.0));
            ok(umbo_variable_view(
                variables[0],
                ctx,
                UMBO_DTYPE_NONE,
                &mut view,
            ));
            differs(umbo_variable_assign_all(
                1,
                variables.as_ptr(),
                ctx,
                &view,
                1.0,
            ));
        }
        UMBO_OK
    };
    ok(run(first.training.strategy, ptr::null(), &step));
    assert_eq!(second.training.weight(), 1.0);
}
