//! Strategies: making them, and what they are.

use super::replica_thread::{hook_from, umbo_replica_thread_fn};
use crate::machinery::prelude::*;
use umbo_core::strategy::{Options, Strategy, replicas_on_all_processors};

/// The options of a strategy.
#[c_struct(bind_threads = 1)]
pub struct umbo_strategy_options {
    /// The number of elements of `compute_devices`, at most 1024.
    pub compute_device_count: i64,
    /// The names of the compute devices, all different. NULL: `cpu_replicas` decides; if that is 0,
    /// all GPUs, or CPU:0 if there is none.
    #[counted_by(compute_device_count)]
    pub compute_devices: *const *const c_char,
    /// The number of compute devices CPU:0, CPU:1, ..., at most 1024. UMBO_AUTO: one for each
    /// processor of this process (umbo_processor_count()); of several ranks on a machine each has
    /// its share. 0: not given. Not together with `compute_devices`.
    pub cpu_replicas: i64,
    /// The name of the device of the variables. NULL: the compute device if there is one, else
    /// CPU:0.
    pub parameter_device: *const c_char,
    /// The number of replicas of all ranks together, 1 to 1024: results are bit-identical for any
    /// number of ranks and devices. At least one for each compute device of each rank; the same on
    /// all ranks. Rank r of W has the ids from r * replicas_in_sync / W up to (r + 1) *
    /// replicas_in_sync / W, exclusive. Replicas that share a device run one after the other, and
    /// the thread of one may run the next; they may wait for each other in synchronising calls
    /// only. 0: one replica for each compute device.
    pub replicas_in_sync: i64,
    /// 1: each replica's thread runs on the processors of its device, as do threads that it starts
    /// (OpenMP, BLAS), except while other programs keep them busy. The thread that calls
    /// umbo_strategy_run() is not bound. 0: the operating system places the threads.
    pub bind_threads: i32,
    /// The stack of each replica's thread in bytes, 262144 to 64 GiB. 0: what `ulimit -s` says, 2
    /// MiB to 1 GiB; 8 MiB if that is unlimited.
    pub thread_stack_bytes: usize,
    /// Called once per thread before its first callback. Set the thread counts of OpenMP and BLAS
    /// here. It must not start runs. It is called on each thread that calls umbo_strategy_run(),
    /// too. Replicas call it at the same time. May be NULL.
    pub replica_thread_start: umbo_replica_thread_fn,
    /// Called on each thread of the library when it ends, with the strategy. May be NULL.
    pub replica_thread_stop: umbo_replica_thread_fn,
    /// Passed to both.
    pub replica_thread_user_data: *mut c_void,
    /// Releases `replica_thread_user_data` once, when the strategy, its copies and their threads
    /// have ended, or if the strategy cannot be created. May be NULL.
    pub replica_thread_user_data_destroy: umbo_destroy_fn,
    /// Joins ranks, whose replicas run in sync (cluster.h). The strategy keeps it. NULL: this
    /// process is alone.
    pub communicator: *const umbo_communicator,
    /// 1: look for mistakes of callbacks that are not noticed without it (writes outside of buffers
    /// or to variables, elements that were not written, views that are used too late). They fail
    /// with UMBO_STATUS_FAILED_PRECONDITION and a message that begins with "strict mode", and
    /// warnings become errors, except those about the machine. Runs take longer. The environment
    /// variable UMBO_STRICT=1 makes all strategies strict.
    pub strict: i32,
    /// The steps between two comparisons of the ranks' umbo_strategy_fingerprint(). If these
    /// differ, the next run fails on all with UMBO_STATUS_DATA_LOSS. 0: never.
    pub fingerprint_interval: i64,
    /// 1: every rank keeps all state of optimizers, so that ranks can die, leave and join: each can
    /// call umbo_checkpoint_save_to_memory() for itself, also after a failure of the communicator,
    /// and umbo_checkpoint_restore_from_ranks() on other ranks. Updates must be a part of the step
    /// whose gradients they take. 0: ranks divide the state. The same on all ranks.
    pub elastic: i32,
}

/// Creates a strategy.
///
/// @param[in] options May be NULL: one replica on each GPU, or on CPU:0 if there is none.
/// @return
/// - UMBO_STATUS_INVALID_ARGUMENT: a device named twice, or an option out of range.
/// - UMBO_STATUS_NOT_FOUND: no such device.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that cannot be used.
/// - UMBO_STATUS_FAILED_PRECONDITION: the ranks disagree about `replicas_in_sync` or `elastic`.
///
/// Device names may be "CPU:1", "/cpu:1", "/device:CPU:1" or
/// "/job:localhost/replica:0/task:0/device:CPU:1". It starts a thread for each replica but the
/// first, which runs on the thread that calls umbo_strategy_run(). Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_create(
    options: *const umbo_strategy_options,
    strategy: *mut *mut umbo_strategy,
) -> umbo_status {
    // SAFETY: the caller gives NULL or options.
    let known = unsafe { options::known_or_default(options) };
    // SAFETY: the options say how the user data is released, also if they say nothing else that
    // makes sense.
    let (hook, keeps) = unsafe { hook_from(&known) };
    boundary("umbo_strategy_create", move || {
        let _keeps = keeps;
        options::with_fields_named::<umbo_strategy_options, _>("options", &["strategy"], || {
            // SAFETY: the caller keeps the header's promise on pointers.
            let (strategy, options) =
                unsafe { (out(strategy, "strategy")?, options_from(options)?) };
            strategy.write(make(Strategy::new(&Options {
                thread_hook: hook,
                ..options
            })?)?);
            Ok(())
        })
    })
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
unsafe fn options_from(pointer: *const umbo_strategy_options) -> Result<Options> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, "options") }?;
    // SAFETY: the caller promises an array of texts, or NULL, and a text, or NULL.
    let (names, parameter_device) = unsafe {
        let count = Count::new(given.compute_device_count, "options.compute_device_count");
        let names = texts(given.compute_devices, count, "options.compute_devices")?;
        (
            names,
            optional_text(given.parameter_device, "options.parameter_device")?,
        )
    };
    let names = names.into_iter().map(|name| Ok(name.to_owned()));
    let names = collect(names, "options.compute_devices")?;
    let communicator = get_optional(given.communicator, "options.communicator")?;
    let cpu_replicas = least_unless(given.cpu_replicas, 0, UMBO_AUTO, "options.cpu_replicas")?;
    Ok(Options {
        compute_devices: (!given.compute_devices.is_null()).then_some(names),
        cpu_replicas: match cpu_replicas {
            Some(count) => natural(count, "options.cpu_replicas")?,
            None => replicas_on_all_processors(communicator.as_ref()),
        },
        replicas_in_sync: natural(given.replicas_in_sync, "options.replicas_in_sync")?,
        parameter_device: parameter_device.map(str::to_owned),
        bind_threads: flag(given.bind_threads, "options.bind_threads")?,
        stack_bytes: (given.thread_stack_bytes != 0).then_some(given.thread_stack_bytes),
        thread_hook: None,
        communicator,
        strict: flag(given.strict, "options.strict")?,
        fingerprint_interval: natural(given.fingerprint_interval, "options.fingerprint_interval")?,
        elastic: flag(given.elastic, "options.elastic")?,
    })
}

/// Gets the name of the compute device of a replica.
///
/// @param[in] replica_id A local id: 0 to `local_replica_count` of umbo_strategy_info less one.
/// @param[out] name The canonical name. Lives as long as the process.
/// @return UMBO_STATUS_OUT_OF_RANGE: no such replica.
#[c_call(out(name), borrow(strategy))]
pub fn umbo_strategy_compute_device(
    strategy: *const umbo_strategy,
    replica_id: i32,
    name: *mut *const c_char,
) {
    let devices = strategy.replica_devices();
    let replicas = Listed {
        count: devices.len(),
        elements: "the replicas",
    };
    let found = at(replica_id, "replica_id", replicas, |at| devices.get(at))?;
    name.write(device_name(*found));
}

/// Waits, without limit, until all late callbacks have returned and all runs of other threads have
/// ended.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: the call comes from a callback of the strategy.
#[c_call(get(strategy))]
pub fn umbo_strategy_synchronize(strategy: *mut umbo_strategy) {
    strategy.synchronize()
}
