//! What a callback knows of its replica, and the calls that only it can make.

use super::prelude::*;
use crate::strategy::context::with_current_replica;
use crate::strategy::metrics::Metric;
use parking_lot::Mutex;

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
    let result = stored("result", |result| function(ctx, args, result));
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

/// Lets `body` use a replica context, which must be the one that this thread is in. Takes no
/// reference, so that replicas write no cache line that they share; `body` must be short, as for
/// [`borrow`], and must not enter or leave a context.
pub(crate) fn within<R>(
    handle: *const umbo_replica_context,
    argument: &'static str,
    body: impl FnOnce(&ReplicaContext) -> Result<R>,
) -> Result<R> {
    borrow(handle, argument, |context| {
        with_current_replica(|own| match own {
            Some(own) if own.is_same(context) => body(own),
            _ => {
                context.check_current()?;
                body(context)
            }
        })
    })?
}

/// The context of a replica's callback that is running, for longer than [`within`].
pub(crate) fn context(
    handle: *const umbo_replica_context,
    argument: &'static str,
) -> Result<ReplicaContext> {
    within(handle, argument, |context| Ok(context.clone()))
}

/// Tells the id of the replica.
///
/// @param[in] ctx The replica's context.
/// @param[out] replica The id: 0 to the number of replicas less one, those of all ranks included.
#[c_call(out(replica), borrow(ctx))]
pub fn umbo_replica_context_replica_id(ctx: *const umbo_replica_context, replica: *mut i32) {
    replica.write(ctx.replica_in_sync() as i32);
}

/// Tells the id of the replica among those of this process.
///
/// @param[in] ctx The replica's context.
/// @param[out] replica The id: 0 to the number of this process's replicas less one. umbo_strategy_compute_device()
///   tells the device of the replica with this number.
///
/// Without other ranks it is umbo_replica_context_replica_id().
#[c_call(out(replica), borrow(ctx))]
pub fn umbo_replica_context_local_replica_id(ctx: *const umbo_replica_context, replica: *mut i32) {
    replica.write(ctx.replica() as i32);
}

/// Tells how many replicas take part.
///
/// @param[in] ctx The replica's context.
/// @param[out] count The number of replicas, this one included.
#[c_call(out(count), borrow(ctx))]
pub fn umbo_replica_context_num_replicas_in_sync(
    ctx: *const umbo_replica_context,
    count: *mut i64,
) {
    count.write(ctx.strategy().num_replicas_in_sync() as i64);
}

/// Tells the name of the replica's compute device.
///
/// @param[in] ctx The replica's context.
/// @param[out] name The canonical name of the device. Lives as long as the process.
#[c_call(out(name), borrow(ctx))]
pub fn umbo_replica_context_device(ctx: *const umbo_replica_context, name: *mut *const c_char) {
    name.write(device_name(ctx.strategy().replica_devices()[ctx.replica()]));
}

/// Gives the strategy whose run this is.
///
/// @param[in] ctx The replica's context.
#[c_call(out(strategy), borrow(ctx))]
pub fn umbo_replica_context_strategy(
    ctx: *const umbo_replica_context,
    strategy: *mut *mut umbo_strategy,
) {
    strategy.write(make(ctx.strategy().clone())?);
}

/// Gives the stream on which the replica's device works.
///
/// @param[in] ctx The replica's context.
/// @param[out] stream A CUstream on a GPU. On a CPU, which has no streams, `*stream` gets NULL.
///
/// The GPU's primary context is current in the callback. All that the library does with the GPU's memory
/// goes through this stream, in the order of the calls: what the callback queues on it sees the
/// arguments, and what is called after it sees its results. A callback returns when its work is queued;
/// the run waits for it. Work on another stream is ordered against this one by the program, by events. The
/// stream belongs to the library and lives as long as the process; never destroy it.
#[c_call(out(stream), borrow(ctx))]
pub fn umbo_replica_context_stream(ctx: *const umbo_replica_context, stream: *mut *mut c_void) {
    let gpu = ctx.strategy().gpu(ctx.replica());
    stream.write(gpu.map_or(ptr::null_mut(), |gpu| gpu.stream().cast()));
}

/// Where a replica's part lies in the global batch. Start from UMBO_BATCH_POSITION_INIT.
///
/// What depends on an example (dropout, say) can use the example's number as its key. It then comes
/// out the same for any number of replicas.
#[c_struct]
#[repr(C)]
pub struct umbo_batch_position {
    /// sizeof(umbo_batch_position).
    pub struct_size: usize,
    /// The number of examples that the replicas before this one have; 0 if the run's arguments do not
    /// tell it.
    pub first_example: i64,
    /// The number of examples of this replica; 0 is possible. -1 if the run's arguments do not tell
    /// it: they contain neither an element of a distributed dataset nor a per-replica value.
    pub local_examples: i64,
    /// The number of examples of all replicas together; -1 if the run's arguments do not tell it. Of
    /// several ranks those count whose arguments tell it.
    pub global_examples: i64,
    /// The number of the step; the first step of the strategy is 1. A step that takes no effect is not
    /// counted, and the next one has its number. So have the runs of umbo_strategy_check_equivalence().
    pub step: i64,
}

/// Tells where the replica's part lies in the global batch.
///
/// @param[in] ctx The replica's context.
/// @param[out] position The place of the part. Start from UMBO_BATCH_POSITION_INIT, which sets its
///   size.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
#[c_call(result(position), within(ctx))]
pub fn umbo_replica_context_batch_position(
    ctx: *const umbo_replica_context,
    position: *mut umbo_batch_position,
) {
    let found = ctx.batch_position();
    position.write(umbo_batch_position {
        struct_size: size_of::<umbo_batch_position>(),
        first_example: found.first_example as i64,
        local_examples: found.local_examples.map_or(-1, |count| count as i64),
        global_examples: found.global_examples.map_or(-1, |count| count as i64),
        step: ctx.step_number() as i64,
    });
}

/// Tells whether the callback should return early.
///
/// @param[in] ctx The replica's context.
/// @param[out] result 1 if its result will not be used, else 0.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
///
/// The result is not used if another replica has failed, if the run was cancelled, or if its time
/// limit is over. A callback that returns for this reason returns UMBO_STATUS_CANCELLED. The call
/// is cheap: a long loop can make it every few thousand operations.
#[c_call(out(result), within(ctx))]
pub fn umbo_replica_context_is_cancelled(ctx: *const umbo_replica_context, result: *mut i32) {
    result.write(ctx.is_cancelled().into());
}

/// Lends memory to the callback until it returns. Where the replica is on a GPU, it is memory of that GPU.
///
/// @param[in] ctx The replica's context.
/// @param[in] bytes The size in bytes.
/// @param[out] memory The memory, at a multiple of 64. Its contents are undefined. The library
///   keeps it; do not free it.
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or
///   is the default one, which is in no run.
///
/// Each call lends another region. The library keeps the memory for the next step, so a step that
/// asks for the same sizes as the one before allocates nothing.
#[c_call(out(memory), within(ctx))]
pub fn umbo_replica_context_scratch(
    ctx: *mut umbo_replica_context,
    bytes: usize,
    memory: *mut *mut c_void,
) {
    memory.write(ctx.scratch(bytes)?.cast());
}

/// Adds to a metric of this step.
///
/// @param[in] ctx The replica's context.
/// @param[in] name The metric's name, which is copied.
/// @param[in] sum What is added to the metric's sum.
/// @param[in] weight What is added to the metric's weight, usually a number of examples; finite and
///   0 or more.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a weight that is negative or not finite.
/// - UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or is the
///   default one, which is in no run.
///
/// After the run umbo_strategy_metric() tells the total over all replicas. A few dozen different
/// names are looked up fast.
#[c_call(text(name))]
pub fn umbo_replica_context_add_metric(
    ctx: *mut umbo_replica_context,
    name: *const c_char,
    sum: f64,
    weight: f64,
) {
    if !weight.is_finite() || weight < 0.0 {
        let problem = format!("{weight}; weights are finite and 0 or more");
        return Err(Error::invalid("weight", problem));
    }
    within(ctx, "ctx", |context| context.add_metric(name, Metric { sum, weight }))
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
