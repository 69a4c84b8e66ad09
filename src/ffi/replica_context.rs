//! What a callback knows of its replica, and the calls that only it can make.

use std::ffi::{c_char, c_void};
use std::ptr;

use super::boundary::{boundary, boundary_in_need, out};
use super::callback;
use super::collective::op_from;
use super::handle::{Lent, borrow, consume, get, get_optional, make};
use super::object::{umbo_replica_context, umbo_strategy, umbo_value};
use super::options::{self, Extensible};
use super::run::{Passed, optional_result};
use super::scope::present;
use super::status::umbo_status;
use super::text::{device_name, text};
use crate::error::{Error, Result};
use crate::executor::lock::Mutex;
use crate::strategy::context::with_current_replica;
use crate::strategy::merge::Operation;
use crate::strategy::metrics::Metric;
use crate::strategy::{ReplicaContext, Strategy};
use crate::values::Value;

use super::collective::umbo_reduce_op;

/// What the C layer lends to the callback of one replica; kept from step to step.
struct Loan {
    context: Lent<umbo_replica_context>,
    arguments: Lent<umbo_value>,
    /// The handle that `context` lends while the callback runs.
    handle: usize,
    /// The nest around the last step's arguments, emptied.
    shell: Value,
}

type Loans = Mutex<Option<Loan>>;

fn loans(context: &ReplicaContext) -> Result<&Loans> {
    context.attachment(Loans::default)
}

/// The handle that the callback of `context` was given.
pub(super) fn handle_of(context: &ReplicaContext) -> Result<*mut umbo_replica_context> {
    let handle = loans(context)?.lock().as_ref().map_or(0, |loan| loan.handle);
    Ok(ptr::without_provenance_mut(handle))
}

/// Calls a replica's callback with handles to its context and arguments, and takes its result.
pub(super) fn call_replica(
    context: &ReplicaContext,
    function: impl FnOnce(
        *mut umbo_replica_context,
        *const umbo_value,
        *mut *mut umbo_value,
    ) -> umbo_status,
) -> Result<Option<Value>> {
    let loans = loans(context)?;
    let (ctx, args) = {
        let mut kept = loans.lock();
        if kept.is_none() {
            let (context, arguments) = (Lent::new()?, Lent::new()?);
            *kept = Some(Loan { context, arguments, handle: 0, shell: Value::nothing() });
        }
        let loan = kept.as_mut().ok_or_else(|| Error::Internal("a loan was not kept".into()))?;
        let mut part = std::mem::replace(&mut loan.shell, Value::nothing());
        let args = match context.arguments_into(&mut part)? {
            true => loan.arguments.lend(part)?,
            false => ptr::null_mut(),
        };
        let ctx = loan.context.lend(context.clone())?;
        loan.handle = ctx.addr();
        (ctx, args)
    };
    let result = take_result("result", |result| function(ctx, args, result));
    if let Some(loan) = loans.lock().as_mut() {
        loan.handle = 0;
        drop(loan.context.withdraw());
        if let Some(mut part) = loan.arguments.withdraw() {
            part.hollow();
            loan.shell = part;
        }
    }
    result
}

/// Runs a callback that may store a value, and takes the value over, whatever its status.
pub(super) fn take_result(
    argument: &'static str,
    function: impl FnOnce(*mut *mut umbo_value) -> umbo_status,
) -> Result<Option<Value>> {
    let mut result = ptr::null_mut();
    let ran = callback::run(|| function(&raw mut result));
    let value = match result.is_null() {
        true => None,
        false => Some(consume(result, argument)),
    };
    ran?;
    value.transpose()
}

/// Lets `body` use a replica context, which must be the one that this thread is in. Takes no
/// reference, so that replicas write no cache line that they share; `body` must be short, as for
/// [`borrow`], and must not enter or leave a context.
pub(crate) fn in_context<R>(
    handle: *const umbo_replica_context,
    body: impl FnOnce(&ReplicaContext) -> Result<R>,
) -> Result<R> {
    borrow(handle, "ctx", |context| {
        with_current_replica(|own| match own {
            Some(own) if own.is_same(context) => body(own),
            _ => {
                context.check_current()?;
                body(context)
            }
        })
    })?
}

/// The replica's id: 0 to the number of replicas less one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_replica_id(
    ctx: *const umbo_replica_context,
    replica: *mut i32,
) -> umbo_status {
    boundary("umbo_replica_context_replica_id", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let replica = unsafe { out(replica, "replica") }?;
        replica.write(borrow(ctx, "ctx", ReplicaContext::replica)? as i32);
        Ok(())
    })
}

/// How many replicas run in sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_num_replicas_in_sync(
    ctx: *const umbo_replica_context,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_replica_context_num_replicas_in_sync", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(ctx, "ctx", |context| context.strategy().num_replicas())? as i64);
        Ok(())
    })
}

/// The canonical name of this replica's compute device. Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_device(
    ctx: *const umbo_replica_context,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_replica_context_device", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(ctx, "ctx", |context| {
            device_name(context.strategy().compute_devices()[context.replica()])
        })?);
        Ok(())
    })
}

/// The strategy whose run this is. A new handle, to be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_strategy(
    ctx: *const umbo_replica_context,
    strategy: *mut *mut umbo_strategy,
) -> umbo_status {
    boundary("umbo_replica_context_strategy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let strategy = unsafe { out(strategy, "strategy") }?;
        let own: Strategy = borrow(ctx, "ctx", |context| context.strategy().clone())?;
        strategy.write(make(own)?);
        Ok(())
    })
}

/// The stream on which this replica's device works: a CUstream on a GPU, NULL on a CPU, which
/// needs none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_stream(
    ctx: *const umbo_replica_context,
    stream: *mut *mut c_void,
) -> umbo_status {
    boundary("umbo_replica_context_stream", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let stream = unsafe { out(stream, "stream") }?;
        borrow(ctx, "ctx", |_| ())?;
        stream.write(ptr::null_mut());
        Ok(())
    })
}

/// The place of a replica's part in the global batch, so that what depends on an example (dropout,
/// say) can be keyed by it and come out the same for any number of replicas. Start from
/// UMBO_BATCH_POSITION_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_batch_position {
    /// sizeof(umbo_batch_position).
    pub struct_size: usize,
    /// How many examples of the global batch the replicas before this one have.
    pub first_example: i64,
    /// How many this replica has; may be 0. -1 if the run's arguments do not tell: there is no
    /// element of a distributed dataset and no per-replica value among them.
    pub local_examples: i64,
    /// How many all replicas have together; 0 if the arguments do not tell.
    pub global_examples: i64,
    /// The number of the step, counted from 1 over the strategy's life. The runs of
    /// umbo_strategy_check_equivalence() have the number of the step after them and do not count.
    pub step: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_batch_position {}

/// The place of this replica's part in the global batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_batch_position(
    ctx: *const umbo_replica_context,
    position: *mut umbo_batch_position,
) -> umbo_status {
    boundary("umbo_replica_context_batch_position", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let out = unsafe { options::out(position, "position") }?;
        out.write(in_context(ctx, |context| {
            let position = context.batch_position();
            Ok(umbo_batch_position {
                struct_size: size_of::<umbo_batch_position>(),
                first_example: position.first_example as i64,
                local_examples: position.local_examples.map_or(-1, |count| count as i64),
                global_examples: position.global_examples as i64,
                step: context.step_number() as i64,
            })
        })?);
        Ok(())
    })
}

/// Whether the callback should return early, since its result will not be used: another replica
/// has failed, the run was cancelled, or its deadline has passed. 1 or 0. Cheap enough for every
/// few thousand operations of a long loop; a callback that returns then returns UMBO_STATUS_CANCELLED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_is_cancelled(
    ctx: *const umbo_replica_context,
    result: *mut i32,
) -> umbo_status {
    boundary_in_need("umbo_replica_context_is_cancelled", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let cancelled = in_context(ctx, |context| Ok(context.is_cancelled()))?;
        result.write(i32::from(cancelled));
        Ok(())
    })
}

/// Memory for the callback's own use, until it returns: `bytes` bytes at a multiple of 64, of
/// undefined contents. Each call grants another region. The memory is kept for the next step, so
/// a step that asks for the same as the one before allocates nothing. RESOURCE_EXHAUSTED if there
/// is not enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_scratch(
    ctx: *mut umbo_replica_context,
    bytes: usize,
    memory: *mut *mut c_void,
) -> umbo_status {
    boundary("umbo_replica_context_scratch", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let memory = unsafe { out(memory, "memory") }?;
        let region = in_context(ctx, |context| context.scratch(bytes))?;
        memory.write(region.cast());
        Ok(())
    })
}

/// Adds `sum` to the metric `name` of this step, and `weight` (usually a number of examples) to
/// its weight. umbo_strategy_metric() tells the total over all replicas after the run. Names are
/// copied; up to a few dozen are looked up fast. INVALID_ARGUMENT for a weight that is negative or
/// not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_add_metric(
    ctx: *mut umbo_replica_context,
    name: *const c_char,
    sum: f64,
    weight: f64,
) -> umbo_status {
    boundary("umbo_replica_context_add_metric", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let name = unsafe { text(name, "name") }?;
        if !weight.is_finite() || weight < 0.0 {
            return Err(Error::invalid("weight", format!("{weight}; weights are 0 or more")));
        }
        in_context(ctx, |context| context.add_metric(name, Metric { sum, weight }))
    })
}

/// What runs once for all replicas in a merge call, on the thread that called umbo_strategy_run(),
/// in cross-replica context. `strategy` and `args` are borrowed for the call; `args` is what the
/// replicas passed, merged as the results of a run are, or NULL. `*result` is NULL on entry; a
/// value stored there is taken over by the library, and each replica gets its component of it.
pub type umbo_merge_fn = Option<
    unsafe extern "C-unwind" fn(
        strategy: *mut umbo_strategy,
        args: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Waits until all replicas have called this with the same function, has the function run once,
/// and goes on with this replica's part of its result. `user_data` is that of replica 0. `args`
/// may be NULL, on all replicas or on none. `result` may be NULL, which discards the part; a part
/// is a new handle, NULL if the function stored no value.
///
/// All replicas must make the same synchronising calls in the same order: merge calls, all-reduce,
/// all-gather, assignments to variables, applies. If they do not, all of them get
/// FAILED_PRECONDITION, and so does the run; the message says who was where. CANCELLED if another
/// replica failed, or the run ended. If `function` fails, the run fails with its status, and the
/// replicas get CANCELLED.
///
/// In the default context the function runs at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_merge_call(
    ctx: *mut umbo_replica_context,
    function: umbo_merge_fn,
    user_data: *mut c_void,
    args: *const umbo_value,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_replica_context_merge_call", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { optional_result(result, "result") }?;
        let context = get(ctx, "ctx")?;
        let function = present(function, "function")?;
        let args = get_optional(args, "args")?;
        let passed = Passed::new(user_data);
        let merge = move |strategy: &Strategy, parts: Vec<Option<Value>>| {
            let replicas = parts.len();
            let merged = merged_arguments(parts)?;
            let mut lent_strategy = Lent::<umbo_strategy>::new()?;
            let mut lent_args = Lent::<umbo_value>::new()?;
            let strategy = lent_strategy.lend(strategy.clone())?;
            let args = merged.map_or(Ok(ptr::null_mut()), |merged| lent_args.lend(merged))?;
            let value = take_result("result", |result| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(strategy, args, passed.get(), result) }
            })?;
            (0..replicas)
                .map(|replica| value.as_ref().map(|value| value.component(replica)).transpose())
                .collect()
        };
        let address = function as usize;
        let operation = Operation::MergeCall { function: address };
        let part = context.synchronize(operation, args, Box::new(merge))?;
        if let Some(result) = result {
            result.write(part);
        }
        Ok(())
    })
}

fn merged_arguments(parts: Vec<Option<Value>>) -> Result<Option<Value>> {
    let given: Vec<Value> = parts.iter().flatten().cloned().collect();
    if given.is_empty() {
        return Ok(None);
    }
    if given.len() < parts.len() {
        return Err(Error::invalid(
            "args",
            format!("{} of {} replicas passed a value; all or none must", given.len(), parts.len()),
        ));
    }
    Value::merge(&given, false, "args").map(Some)
}

/// Reduces a tensor, or a nest of tensors, over the replicas: SUM or MEAN, element by element.
/// Each replica gets a value of its own, on its device. One synchronising call for the whole nest.
/// The components must agree in shape and dtype (INVALID_ARGUMENT). Indexed slices are
/// concatenated in replica order; MEAN divides their values by the number of replicas. MEAN of
/// integers is a float for any number of replicas, one included. See
/// umbo_replica_context_merge_call() for what synchronising calls have in common.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_all_reduce(
    ctx: *mut umbo_replica_context,
    op: umbo_reduce_op,
    value: *const umbo_value,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_replica_context_all_reduce", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let context = get(ctx, "ctx")?;
        result.write(make(context.all_reduce(op_from(op)?, get(value, "value")?)?)?);
        Ok(())
    })
}

/// Concatenates a tensor, or each tensor of a nest, over the replicas along `axis`, in replica
/// order; negative axes count from the back. Each replica gets the whole, on its device. One
/// synchronising call. The components must agree in rank, dtype and all other dimensions
/// (INVALID_ARGUMENT); OUT_OF_RANGE for an axis that is not there; UNIMPLEMENTED for indexed
/// slices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_replica_context_all_gather(
    ctx: *mut umbo_replica_context,
    value: *const umbo_value,
    axis: i32,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_replica_context_all_gather", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let context = get(ctx, "ctx")?;
        result.write(make(context.all_gather(get(value, "value")?, axis.into())?)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::super::status::UMBO_OK;
    use super::*;
    use crate::strategy::held_locks::with_locks_held;
    use crate::strategy::{Options, Strategy};

    /// A replica that polls takes no lock that it shares: it gets its answers while another one holds
    /// all of them.
    #[test]
    fn polling_for_cancellation_takes_no_shared_lock() {
        let options = Options { cpu_replicas: 2, ..Options::default() };
        let strategy = Strategy::new(&options).unwrap();
        let (ready, is_ready) = channel::<()>();
        let (held, all_held) = channel::<()>();
        let (polled, all_polled) = channel::<()>();
        let [is_ready, all_held, all_polled] = [is_ready, all_held, all_polled].map(Mutex::new);
        let poll = |handle| {
            ready.send(()).unwrap();
            all_held.lock().unwrap().recv().unwrap();
            for _ in 0..1000 {
                let mut cancelled = -1;
                // SAFETY: the output is a variable.
                let status = unsafe { umbo_replica_context_is_cancelled(handle, &mut cancelled) };
                assert_eq!((status, cancelled), (UMBO_OK, 0));
            }
            polled.send(()).unwrap();
            UMBO_OK
        };
        let callback = |context: &ReplicaContext| {
            if context.replica() == 1 {
                return call_replica(context, |handle, _, _| poll(handle));
            }
            // Whatever its callback needs at the beginning it has got.
            is_ready.lock().unwrap().recv().unwrap();
            let answered = with_locks_held(context, 1, || {
                held.send(()).unwrap();
                all_polled.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_ok()
            });
            assert!(answered, "the other replica waited for a lock");
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
    }
}
