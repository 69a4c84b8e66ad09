//! A training set-up, and running Rust closures as C callbacks.

use std::ffi::c_void;
use std::mem;
use std::ptr;

use umbo::*;

pub use crate::calls::{last_message, made, ok, refused};

/// What a transformation makes of `source`, which stays.
pub fn changed(
    source: *const umbo_dataset,
    transform: impl FnOnce(*mut *mut umbo_dataset) -> umbo_status,
) -> *mut umbo_dataset {
    let mut dataset: *mut umbo_dataset = ptr::null_mut();
    // SAFETY: the handle is live, the output a variable.
    ok(unsafe {
        umbo_retain(
            source.cast(),
            UMBO_HANDLE_DATASET,
            (&raw mut dataset).cast(),
        )
    });
    ok(transform(&raw mut dataset));
    dataset
}

/// A struct of the C API whose fields are all zero, except for its size.
pub fn sized<T>() -> T {
    // SAFETY: the structs of the C API consist of numbers, pointers and optional functions.
    let mut value: T = unsafe { mem::zeroed() };
    // SAFETY: all of them start with their size.
    unsafe { (&raw mut value).cast::<usize>().write(struct_size::<T>()) };
    value
}

pub fn make_strategy(replicas: i64) -> *mut umbo_strategy {
    let options = umbo_strategy_options {
        cpu_replicas: replicas,
        ..Default::default()
    };
    // SAFETY: the struct lives during the call, the output is a place of `made`'s.
    made(|out| unsafe { umbo_strategy_create(&options, out) })
}

pub fn tensor(values: &[f32]) -> *mut umbo_tensor {
    let shape = [values.len() as i64];
    let data = values.as_ptr().cast();
    made(|out| {
        // SAFETY: the data has as many elements as the shape says.
        unsafe {
            umbo_tensor_from_data(
                UMBO_DTYPE_FLOAT32,
                1,
                shape.as_ptr(),
                data,
                ptr::null(),
                out,
            )
        }
    })
}

pub fn value(values: &[f32]) -> *mut umbo_value {
    let tensor = tensor(values);
    // SAFETY: the handles are live, and the tensor is not used afterwards.
    unsafe {
        let value = made(|out| umbo_value_from_tensor(tensor, out));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        value
    }
}

/// The only element of a float32 tensor, which is released.
pub fn taken(tensor: *mut umbo_tensor) -> f32 {
    let mut number = 0f32;
    // SAFETY: the destination has as many bytes as it says; the tensor is not used afterwards.
    unsafe {
        let destination = (&raw mut number).cast();
        ok(umbo_tensor_download(tensor, destination, size_of::<f32>()));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    number
}

/// A strategy, one variable of one element that is 1, its gradients, and SGD of rate 1.
pub struct Training {
    pub strategy: *mut umbo_strategy,
    pub variable: *mut umbo_variable,
    pub gradients: *mut umbo_gradients,
    pub optimizer: *mut umbo_optimizer,
}

// SAFETY: handles may be used by any thread.
unsafe impl Sync for Training {}

impl Training {
    pub fn new(replicas: i32) -> Training {
        let strategy = make_strategy(replicas.into());
        let initial = tensor(&[1.0]);
        let sgd = umbo_sgd_options {
            learning_rate: 1.0,
            ..Default::default()
        };
        // SAFETY: handles are live, structs live during the calls.
        unsafe {
            let variable = made(|out| {
                umbo_variable_create(strategy, c"w".as_ptr(), initial, ptr::null(), out)
            });
            umbo_release(initial.cast(), UMBO_HANDLE_TENSOR);
            let gradients = make_gradients(strategy, variable, UMBO_LOSS_SUM);
            let optimizer = made(|out| umbo_optimizer_create_sgd(strategy, &sgd, out));
            Training {
                strategy,
                variable,
                gradients,
                optimizer,
            }
        }
    }

    pub fn weight(&self) -> f32 {
        // SAFETY: the handle is live.
        taken(made(|out| unsafe {
            umbo_variable_read(self.variable, out)
        }))
    }

    pub fn iterations(&self) -> i64 {
        let mut info = umbo_optimizer_info::default();
        // SAFETY: the handle is live, the output a variable.
        ok(unsafe { umbo_optimizer_get_info(self.optimizer, &mut info) });
        info.iterations
    }

    pub fn apply(&self) -> (umbo_status, umbo_apply_report) {
        let mut report = sized::<umbo_apply_report>();
        let optimizer = self.optimizer;
        let gradients = self.gradients;
        // SAFETY: handles are live; the report is a variable of the size that it states.
        let status =
            unsafe { umbo_optimizer_apply(optimizer, gradients, ptr::null(), &mut report) };
        (status, report)
    }

    /// Writes `gradient` and submits it with weight 1.
    pub fn submit(&self, ctx: *mut umbo_replica_context, gradient: f32) -> umbo_status {
        self.submit_weighted(ctx, gradient, 1.0)
    }

    pub fn submit_weighted(
        &self,
        ctx: *mut umbo_replica_context,
        gradient: f32,
        weight: f64,
    ) -> umbo_status {
        let mut view = mem::MaybeUninit::<umbo_view>::uninit();
        let gradients = self.gradients;
        // SAFETY: handles are live or refused; the view leads to one float32 element.
        unsafe {
            let status =
                umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_ADD, view.as_mut_ptr());
            if status != UMBO_OK {
                return status;
            }
            *view.assume_init().mutable_data.cast::<f32>() += gradient;
            umbo_gradients_submit_weighted(gradients, ctx, weight)
        }
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        // SAFETY: the handles are not used afterwards.
        unsafe {
            umbo_release(self.optimizer.cast(), UMBO_HANDLE_OPTIMIZER);
            umbo_release(self.gradients.cast(), UMBO_HANDLE_GRADIENTS);
            umbo_release(self.variable.cast(), UMBO_HANDLE_VARIABLE);
            umbo_release(self.strategy.cast(), UMBO_HANDLE_STRATEGY);
        }
    }
}

pub fn make_gradients(
    strategy: *mut umbo_strategy,
    variable: *mut umbo_variable,
    loss_reduction: umbo_loss_reduction,
) -> *mut umbo_gradients {
    let variables = [variable];
    let variables = variables.as_ptr();
    let options = ptr::null();
    // SAFETY: one variable is listed, and NULL stands for the default options.
    made(|out| unsafe {
        umbo_gradients_create(strategy, 1, variables, loss_reduction, options, out)
    })
}

pub fn replica_id(ctx: *const umbo_replica_context) -> i32 {
    let mut info = umbo_replica_context_info::default();
    // SAFETY: the output is a variable.
    ok(unsafe { umbo_replica_context_get_info(ctx, &mut info) });
    info.replica_id
}

pub type Step<'a> =
    &'a (dyn Fn(*mut umbo_replica_context, *const umbo_value) -> umbo_status + Sync);
type Merge<'a> = &'a (dyn Fn() -> umbo_status + Sync);

pub unsafe extern "C-unwind" fn call_step(
    ctx: *mut umbo_replica_context,
    args: *const umbo_value,
    user_data: *mut c_void,
    _result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: `run` passes a step that lives until all callbacks have returned.
    unsafe { (*user_data.cast::<Step<'_>>())(ctx, args) }
}

unsafe extern "C-unwind" fn call_merge(
    _strategy: *mut umbo_strategy,
    _args: *const umbo_value,
    user_data: *mut c_void,
    _result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: `merge` passes a function that lives until the merge call has returned.
    unsafe { (*user_data.cast::<Merge<'_>>())() }
}

/// Runs `step` on each replica; `args` may be NULL.
pub fn run(strategy: *mut umbo_strategy, args: *const umbo_value, step: Step<'_>) -> umbo_status {
    let user_data = (&raw const step).cast_mut().cast();
    // SAFETY: without a deadline the run returns after the callbacks, so `step` outlives them.
    unsafe {
        umbo_strategy_run(
            strategy,
            Some(call_step),
            args,
            user_data,
            ptr::null(),
            ptr::null_mut(),
        )
    }
}

/// Has `function` called once for all replicas, in cross-replica context.
pub fn merge(ctx: *mut umbo_replica_context, function: Merge<'_>) -> umbo_status {
    let user_data = (&raw const function).cast_mut().cast();
    let args = ptr::null();
    let result = ptr::null_mut();
    // SAFETY: the merge call returns after the function did, which outlives it.
    unsafe { umbo_replica_context_merge_call(ctx, Some(call_merge), args, user_data, result) }
}
