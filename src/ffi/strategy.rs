//! Strategies: making them, and what they are.

use super::prelude::*;
use super::replica_thread::{hooks_from, umbo_replica_thread_fn};
use crate::strategy::metrics::Metric;
use crate::strategy::{Options, Strategy, variables};

/// Whether the threads of replicas stay on the processors of their devices.
pub type umbo_thread_binding = i32;

/// Each replica's thread runs on the processors of its device. Threads that it starts (OpenMP,
/// BLAS) inherit this. The thread that calls umbo_strategy_run(), which runs replica 0, is not
/// bound. While other programs keep its processors busy, a replica's thread runs on any processor of the
/// process.
pub const UMBO_THREAD_BINDING_ON: umbo_thread_binding = 0;
/// The operating system places the threads.
pub const UMBO_THREAD_BINDING_OFF: umbo_thread_binding = 1;

/// The settings of a new strategy. Start from UMBO_STRATEGY_OPTIONS_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_strategy_options {
    /// sizeof(umbo_strategy_options).
    pub struct_size: usize,
    /// An array of `compute_device_count` device names, all different; at most 1024. There is one replica
    /// for each unless `replicas_in_sync` says otherwise. NULL: `cpu_replicas` decides; if that is 0 too,
    /// they are all GPUs, or CPU:0 if the process has no GPU.
    pub compute_devices: *const *const c_char,
    /// The number of names in `compute_devices`.
    pub compute_device_count: i64,
    /// The number of compute devices CPU:0, CPU:1 and so on, and of replicas unless `replicas_in_sync`
    /// says otherwise; at most 1024. The CPU is split into at least as many logical devices. 0, the
    /// default: not given. Cannot be combined with `compute_devices`.
    pub cpu_replicas: i64,
    /// The name of the device that holds the variables. NULL: the compute device if there is
    /// exactly one, else CPU:0.
    pub parameter_device: *const c_char,
    /// UMBO_THREAD_BINDING_ON, the default, or UMBO_THREAD_BINDING_OFF.
    pub thread_binding: umbo_thread_binding,
    /// What umbo_strategy_cluster_resolver() gives. NULL: nothing. The strategy keeps a reference
    /// of its own.
    pub cluster_resolver: *const umbo_cluster_resolver,
    /// The size of the stack of each replica's thread, in bytes: 262144 (256 KiB) to 64 GiB. 0, the
    /// default: what `ulimit -s` says, but at least 2 MiB and at most 1 GiB; 8 MiB if it is unlimited.
    /// Replica 0 usually runs on the stack of the thread that calls.
    pub thread_stack_bytes: usize,
    /// Called on each thread when it serves as a replica of this strategy for the first time, just before
    /// the callback and as a part of it, so that no run can begin in it: the place to say how many threads OpenMP, a BLAS
    /// and the like may use from here. Replica 0 usually runs on whatever thread calls
    /// umbo_strategy_run(), so the function is called on each such thread, and a thread that serves
    /// several strategies is told by each. Replicas call at the same time. NULL: nothing is called.
    pub replica_thread_start: umbo_replica_thread_fn,
    /// Called on each thread of the library's own that has served as a replica, when it ends, which is
    /// when the strategy goes. A thread of the program's goes on, and gets no such call. NULL: nothing is
    /// called.
    pub replica_thread_stop: umbo_replica_thread_fn,
    /// Passed to both.
    pub replica_thread_user_data: *mut c_void,
    /// Releases `replica_thread_user_data`, exactly once, when the strategy, its copies and their threads
    /// are gone; also if the strategy cannot be made. NULL: nothing is released.
    pub replica_thread_user_data_destroy: umbo_destroy_fn,
    /// Joins this process to others, the ranks, whose replicas run in sync with its own. All ranks make
    /// their strategies together, as they do everything: see umbo/communicator.h. The strategy keeps its
    /// own reference. NULL: this process is alone.
    pub communicator: *const umbo_communicator,
    /// 1: the strategy is strict. It looks for mistakes of callbacks that otherwise go unnoticed (writes
    /// beside gradient buffers, scratch memory and new tensors, elements that were not written, views
    /// that are used when they are valid no more, writes to variables), and what the log is otherwise
    /// warned of is a failure of the call, but for what tells of the machine and not of the program. Runs take
    /// longer. 0, the default: it is not, unless the
    /// environment variable UMBO_STRICT is 1, which makes every strategy of the process strict.
    pub strict: i32,
    /// After how many steps, again and again, the ranks compare their weights, as
    /// umbo_strategy_fingerprint() hashes them. If they differ, the run that would come next fails on all
    /// ranks with UMBO_STATUS_DATA_LOSS. 0: never.
    pub fingerprint_interval: i64,
    /// How many replicas run in sync, those of all ranks together, whatever the number of ranks and of
    /// compute devices, so that results have the same bits for all of these: 1 to 1024, at least one for
    /// each compute device of each rank, and the same number on all ranks. Rank r of W has those with the
    /// ids from r * replicas_in_sync / W up to, and without, (r + 1) * replicas_in_sync / W. Replicas that
    /// share a device run one after the other, each on a thread of its own, and let each other have the
    /// device while they are in synchronising calls; they may wait for each other in these calls only. 0,
    /// the default: one replica for each compute device.
    pub replicas_in_sync: i64,
}

/// Makes a strategy.
///
/// @param[in] options The settings; `options` may be NULL: one replica on each GPU, or on CPU:0 if there
///   is none.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an empty list of devices, a device named twice, a name that
///   cannot be read, fewer replicas than devices, or another option that is out of range.
/// - UMBO_STATUS_NOT_FOUND: a device that does not exist.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that cannot be used, or was lost.
///
/// With a communicator of several ranks all of them make their strategies together: it also returns
/// what another rank has failed with; UMBO_STATUS_FAILED_PRECONDITION: the ranks disagree about
/// `replicas_in_sync`; and UMBO_STATUS_UNAVAILABLE: the ranks cannot be brought together.
///
/// All variables of the strategy lie on its one parameter device. The function starts a thread for
/// each replica but the first, which runs on the thread that calls umbo_strategy_run().
///
/// Every form of a device name is accepted: "CPU:1", "/cpu:1", "/device:CPU:1" and the full
/// "/job:localhost/replica:0/task:0/device:CPU:1".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_create(
    options: *const umbo_strategy_options,
    strategy: *mut *mut umbo_strategy,
) -> umbo_status {
    // SAFETY: the caller gives NULL or options.
    let known = unsafe { options::known_part(options, "options") }.ok();
    // SAFETY: the options say how the user data is released, also if they say nothing else that makes
    // sense.
    let (hooks, keeps) = unsafe { hooks_from(known.as_ref().map(|(options, _)| options)) };
    boundary("umbo_strategy_create", move || {
        let _keeps = keeps;
        // SAFETY: the caller keeps the header's promise on pointers.
        let (strategy, options) = unsafe { (out(strategy, "strategy")?, options_from(options)?) };
        strategy.write(make(Strategy::new(&Options { thread_hooks: hooks, ..options })?)?);
        Ok(())
    })
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
unsafe fn options_from(pointer: *const umbo_strategy_options) -> Result<Options> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, "options") }?;
    // SAFETY: the caller promises an array of texts, or NULL, and a text, or NULL.
    let (names, parameter_device) = unsafe {
        let count = (given.compute_device_count, "options.compute_device_count");
        let names = texts(given.compute_devices, count, "options.compute_devices")?;
        (names, optional_text(given.parameter_device, "options.parameter_device")?)
    };
    let names = names.into_iter().map(str::to_owned).collect();
    let count = |count: i64, argument: &'static str| {
        let problem = || format!("{count}; counts are 0 (not given) or more");
        usize::try_from(count).map_err(|_| Error::invalid(argument, problem()))
    };
    let cpu_replicas = count(given.cpu_replicas, "options.cpu_replicas")?;
    let replicas_in_sync = count(given.replicas_in_sync, "options.replicas_in_sync")?;
    Ok(Options {
        compute_devices: (!given.compute_devices.is_null()).then_some(names),
        cpu_replicas,
        replicas_in_sync,
        parameter_device: parameter_device.map(str::to_owned),
        bind_threads: one_of!(given.thread_binding, "options.thread_binding", {
            UMBO_THREAD_BINDING_ON => true,
            UMBO_THREAD_BINDING_OFF => false,
        })?,
        stack_bytes: (given.thread_stack_bytes != 0).then_some(given.thread_stack_bytes),
        cluster_resolver: get_optional(given.cluster_resolver, "options.cluster_resolver")?,
        thread_hooks: None,
        communicator: get_optional(given.communicator, "options.communicator")?,
        strict: flag(given.strict, "options.strict")?,
        fingerprint_interval: u64::try_from(given.fingerprint_interval).map_err(|_| {
            let problem = format!("{}; steps, or 0 for never", given.fingerprint_interval);
            Error::invalid("options.fingerprint_interval", problem)
        })?,
    })
}

/// Gives the default strategy: one replica, on CPU:0.
///
/// @param[out] strategy A new handle to it. The caller releases it like any other.
///
/// It is current wherever no other strategy is. It cannot be copied, and it lives as long as the
/// process.
#[c_call(out(strategy))]
pub fn umbo_default_strategy(strategy: *mut *mut umbo_strategy) {
    strategy.write(make(Strategy::default_strategy())?);
}

/// Tells the name of the compute device of a replica.
///
/// @param[in] replica The number of the replica among those of this process: 0 to
///   `num_local_replicas` of umbo_strategy_info less one.
/// @param[out] name The canonical name of the device. Lives as long as the process.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such replica.
#[c_call(out(name), borrow(strategy))]
pub fn umbo_strategy_compute_device(
    strategy: *const umbo_strategy,
    replica: i32,
    name: *mut *const c_char,
) {
    let devices = strategy.replica_devices();
    let found = at(replica, "replica", (devices.len(), "the replicas"), |at| devices.get(at))?;
    name.write(device_name(*found));
}

/// Tells whether two handles are of the same strategy.
///
/// @param[in] a A strategy.
/// @param[in] b A strategy.
/// @param[out] same 1 if they are the same, else 0.
#[c_call(out(same), get(a), get(b))]
pub fn umbo_strategy_same(a: *const umbo_strategy, b: *const umbo_strategy, same: *mut i32) {
    same.write(i32::from(a.is_same(&b)));
}

/// Tells whether a variable was made in a strategy.
///
/// @param[out] result 1 if the variable belongs to this very strategy, else 0. Always 0 for the
///   default strategy.
#[c_call(out(result), get(strategy), get(variable))]
pub fn umbo_strategy_created_variable(
    strategy: *const umbo_strategy,
    variable: *const umbo_variable,
    result: *mut i32,
) {
    result.write(i32::from(variables::created_in_scope(&strategy, &variable)));
}

/// Waits until a strategy has no work left.
///
/// @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the call comes from a callback of the strategy.
///
/// Blocks until all late callbacks have returned and the runs that other threads had under way have
/// ended. There is no time limit.
#[c_call(get(strategy))]
pub fn umbo_strategy_synchronize(strategy: *mut umbo_strategy) {
    strategy.synchronize()
}

/// The total of a metric over all replicas.
#[c_struct]
#[repr(C)]
pub struct umbo_metric {
    /// sizeof(umbo_metric).
    pub struct_size: usize,
    /// The sum of what the replicas added, in the order of the steps and then of the replicas.
    pub sum: f64,
    /// The sum of the weights.
    pub weight: f64,
    /// sum / weight; NaN if the weight is 0.
    pub mean: f64,
}

pub(super) fn metric_of(found: &Metric) -> umbo_metric {
    let (sum, weight, mean) = (found.sum, found.weight, found.mean());
    umbo_metric { struct_size: size_of::<umbo_metric>(), sum, weight, mean }
}

fn unknown_metric(name: &str, known: &[String]) -> Error {
    let known: Vec<_> = known.iter().map(|name| format!("'{name}'")).collect();
    let added = match known.as_slice() {
        [] => "none was added".to_owned(),
        names => format!("the metrics are {}", names.join(", ")),
    };
    Error::NotFound(format!(
        "name: no replica added a metric '{name}' in the last run or epoch that had metrics; {added}"
    ))
}

/// Gets the total of a metric, over all replicas of all ranks: of the last run, or of the last
/// umbo_train_epoch() over all steps that took effect, if that has returned since.
///
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no replica added a metric of this name there. The message
///   lists the names that there are.
///
/// Replicas add to it with umbo_replica_context_add_metric(). Runs and epochs in which no replica adds
/// any metric, and runs that fail, leave those of before. For accuracies, confusion matrices, AUCs and
/// longer sums see metrics.h.
#[c_call(result(metric), text(name), borrow(strategy))]
pub fn umbo_strategy_metric(
    strategy: *const umbo_strategy,
    name: *const c_char,
    metric: *mut umbo_metric,
) {
    let found = strategy.metric(name);
    let found = found.ok_or_else(|| unknown_metric(name, &strategy.metric_names()))?;
    metric.write(metric_of(&found));
}
