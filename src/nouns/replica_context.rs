//! The facts that a callback can read about its replica, and the calls that only it can make.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::machinery::c_string::device_text;
use crate::machinery::prelude::*;
use parking_lot::{Mutex, MutexGuard};
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::context::with_current_replica;

/// The handles that the C layer lends to the callback of one replica; kept from step to step.
struct CallbackHandles {
    context: LentHandle<umbo_replica_context>,
    arguments: LentHandle<umbo_value>,
    /// The nest around the last step's arguments, emptied, if there were any.
    shell: Option<Value>,
}

/// The C layer's extension data of a replica's context.
struct ContextAttachment {
    /// The name of the replica's device.
    device: &'static CStr,
    /// The handle that is lent while the callback runs, or 0.
    handle: AtomicUsize,
    /// Locked while the callback runs.
    loan: Mutex<Option<CallbackHandles>>,
}

fn attachment(context: &ReplicaContext) -> Result<&ContextAttachment> {
    let device = || device_text(context.device());
    context.attachment(|| ContextAttachment {
        device: device(),
        handle: AtomicUsize::new(0),
        loan: Mutex::default(),
    })
}

/// The handle that the callback of `context` was given.
pub(crate) fn handle_of(context: &ReplicaContext) -> Result<*mut umbo_replica_context> {
    let handle = &attachment(context)?.handle;
    Ok(ptr::without_provenance_mut(handle.load(Ordering::Relaxed)))
}

/// Calls a replica's callback with handles to its context and arguments, and takes its result.
pub(crate) fn call_replica(
    context: &ReplicaContext,
    function: impl FnOnce(
        *mut umbo_replica_context,
        *const umbo_value,
        *mut *mut umbo_value,
    ) -> umbo_status,
) -> Result<Option<Value>> {
    let lend_arguments = |loan: &mut CallbackHandles| {
        if !context.has_arguments() {
            return Ok(ptr::null_mut());
        }
        let mut part = loan.shell.take().unwrap_or_else(Value::nothing);
        context.arguments_into(&mut part)?;
        loan.arguments.lend(part)
    };
    let (ctx, args, _lent) = lend(context, lend_arguments)?;
    stored("result", |result| function(ctx, args, result))
}

/// Calls a function in a replica's callback with a handle to the context.
pub(crate) fn call_in_context(
    context: &ReplicaContext,
    function: impl FnOnce(*mut umbo_replica_context) -> umbo_status,
) -> Result<()> {
    let (ctx, (), _lent) = lend(context, |_| Ok(()))?;
    callback::run(|| function(ctx))
}

/// Lends a handle to `context`, and what `lend_more` lends, until the callback returns.
fn lend<T>(
    context: &ReplicaContext,
    lend_more: impl FnOnce(&mut CallbackHandles) -> Result<T>,
) -> Result<(*mut umbo_replica_context, T, UntilReturn<'_>)> {
    let ContextAttachment { handle, loan, .. } = attachment(context)?;
    let mut kept = loan.lock();
    if kept.is_none() {
        let context = LentHandle::new()?;
        let arguments = LentHandle::new()?;
        *kept = Some(CallbackHandles {
            context,
            arguments,
            shell: None,
        });
    }
    let loan = kept
        .as_mut()
        .ok_or_else(|| Error::Internal("a loan was not kept".into()))?;
    let more = lend_more(loan)?;
    // SAFETY: it is withdrawn before `context` goes, also if the callback unwinds.
    let ctx = loan.context.lend(unsafe { context.lent() })?;
    handle.store(ctx.addr(), Ordering::Relaxed);
    Ok((ctx, more, UntilReturn { handle, kept }))
}

/// Takes back what is lent to a callback, when that has returned.
struct UntilReturn<'a> {
    handle: &'a AtomicUsize,
    kept: MutexGuard<'a, Option<CallbackHandles>>,
}

impl Drop for UntilReturn<'_> {
    fn drop(&mut self) {
        self.handle.store(0, Ordering::Relaxed);
        if let Some(loan) = self.kept.as_mut() {
            drop(loan.context.withdraw());
            if let Some(mut part) = loan.arguments.withdraw() {
                part.hollow();
                loan.shell = Some(part);
            }
        }
    }
}

/// Calls `body` with a replica context, which must be the one that this thread is in. Takes no
/// reference, so that replicas write no cache line that they share; `body` must be short, as for
/// [`borrow`], and must not enter or leave a context.
pub(crate) fn within<R>(
    handle: *const umbo_replica_context,
    argument: &'static str,
    body: impl FnOnce(&ReplicaContext) -> Result<R>,
) -> Result<R> {
    borrow(handle, argument, |context| {
        with_current_replica(|current| match current {
            Some(current) if current.is_same(context) => body(current),
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

/// A replica, its device, and its part of the global batch.
#[c_struct]
pub struct umbo_replica_context_info {
    /// The id of the replica: 0 to `replica_count` less one.
    pub replica_id: i32,
    /// Its id among the replicas of this process, as umbo_strategy_compute_device() takes it.
    pub local_replica_id: i32,
    /// The number of replicas of all ranks.
    pub replica_count: i64,
    /// The canonical name of its compute device. Lives as long as the process.
    pub device: *const c_char,
    /// The CUstream of its GPU, whose primary context is current in the callback; NULL on a CPU.
    /// The library uses the GPU's memory through this stream only: what a callback queues on it
    /// sees the arguments, and the run waits for it. Order other streams against it by events. It
    /// lives as long as the process; never destroy it.
    pub stream: *mut c_void,
    /// The number of examples of the replicas before this one, 0 if it is not known.
    /// `first_example` plus a row is the number of an example, a key for dropout that does not
    /// depend on the number of replicas.
    pub first_example: i64,
    /// The number of examples of this replica, 0 or more. UMBO_NONE if it is not known: the
    /// arguments have no per-replica value, as elements of distributed datasets are.
    pub local_example_count: i64,
    /// The number of examples of all replicas, UMBO_NONE if it is not known. With several ranks it
    /// is the sum over those that know theirs.
    pub global_example_count: i64,
    /// The number of the step, from 1; 0 outside of runs. A step that takes no effect and those of
    /// umbo_strategy_check_equivalence() leave their number to the next.
    pub step: i64,
}

/// Gets a replica, its device, and its part of the global batch. Cheap: it allocates nothing.
#[c_call(result(info), borrow(ctx))]
pub fn umbo_replica_context_get_info(
    ctx: *const umbo_replica_context,
    info: *mut umbo_replica_context_info,
) {
    let strategy = ctx.strategy();
    let batch = ctx.batch_position();
    let number = |count: Option<u64>| count.map_or(UMBO_NONE, |count| count as i64);
    // The default context has no place for the name.
    let device = attachment(ctx).map_or_else(|_| device_text(ctx.device()), |kept| kept.device);
    info.write(umbo_replica_context_info {
        replica_id: ctx.replica_in_sync() as i32,
        local_replica_id: ctx.replica() as i32,
        replica_count: strategy.num_replicas_in_sync() as i64,
        device: device.as_ptr(),
        stream: strategy.backend(ctx.replica()).queue_handle(),
        first_example: batch.first_example as i64,
        local_example_count: number(batch.local_examples),
        global_example_count: number(batch.global_examples),
        step: ctx.step_number() as i64,
        ..Default::default()
    });
}

/// Gets whether the callback should return early with UMBO_STATUS_CANCELLED: 1 or 0.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in.
///
/// It is 1 if another replica has failed, the run was cancelled, or its time is over. It is cheap:
/// a long loop can call it every few thousand operations.
#[c_call(out(result), within(ctx))]
pub fn umbo_replica_context_is_cancelled(ctx: *const umbo_replica_context, result: *mut i32) {
    result.write(ctx.is_cancelled().into());
}

/// Lends memory of the replica's device until the callback returns.
///
/// @param[out] memory The memory, at a multiple of 64, with undefined contents. Do not free it.
/// @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or the
///   default one.
///
/// Each call lends another region. A step that asks for the same sizes as the one before allocates
/// nothing.
#[c_call(out(memory), within(ctx))]
pub fn umbo_replica_context_scratch(
    ctx: *mut umbo_replica_context,
    bytes: usize,
    memory: *mut *mut c_void,
) {
    memory.write(ctx.scratch(bytes)?.cast());
}

/// Adds to a metric of this step, which umbo_strategy_metric_result() gets after the run.
///
/// @param[in] weight Usually a number of examples; finite and 0 or more.
/// @return UMBO_STATUS_FAILED_PRECONDITION: `ctx` is not the context that this thread is in, or the
///   default one.
#[c_call(text(name))]
pub fn umbo_replica_context_add_metric(
    ctx: *mut umbo_replica_context,
    name: *const c_char,
    sum: f64,
    weight: f64,
) {
    if !weight.is_finite() || weight < 0.0 {
        return Err(invalid!(
            "weight",
            "{weight}; weights are finite and 0 or more"
        ));
    }
    within(ctx, "ctx", |context| {
        context.add_metric(name, Metric { sum, weight })
    })
}
