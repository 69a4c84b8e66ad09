//! What a strategy consists of.

use super::prelude::*;

/// What a strategy consists of, and its state. Start from UMBO_STRATEGY_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_strategy_info {
    /// sizeof(umbo_strategy_info).
    pub struct_size: usize,
    /// The number of replicas, over which a run's gradients are combined; 1 or more. With a communicator it
    /// is the number of all ranks' replicas together.
    pub num_replicas_in_sync: i64,
    /// The number of replicas in this process; 1 or more. With `replicas_in_sync` several of them may share a
    /// compute device. Without other ranks it is `num_replicas_in_sync`.
    pub num_local_replicas: i64,
    /// The number of different compute devices in this process; 1 or more. It is `num_local_replicas` unless the
    /// strategy was made with `replicas_in_sync`; then there may be more replicas, which are dealt out to the
    /// devices in turn.
    pub num_compute_devices: i64,
    /// The number of variables that were made with the strategy and are in use: that the program, gradients,
    /// an optimizer, a checkpoint or a value still has. umbo_strategy_variable() gives each. 0 for the default
    /// strategy, which keeps no list.
    pub num_variables: i64,
    /// How many replicas are still in the callback of a run that has ended without them, by its deadline or by
    /// cancellation. While there are any, the strategy is *draining*: values can be read; runs, assignments and
    /// applies give UMBO_STATUS_FAILED_PRECONDITION, and the message names the replicas.
    pub late_replicas: i64,
    /// The number of this process among those that train together: 0 to `num_ranks` less one.
    pub rank: i64,
    /// How many processes train together: those of the communicator that the strategy was made with. 1 for a
    /// process that is alone.
    pub num_ranks: i64,
    /// The canonical name of the device of the variables. Lives as long as the process.
    pub parameter_device: *const c_char,
    /// The stack size of the replicas' threads in bytes, as the strategy was made. If that was 0, the size that
    /// was chosen. Threads get whole pages, so the stack may be a little larger.
    pub thread_stack_bytes: usize,
    /// Whether the replicas' threads are bound to processors: UMBO_THREAD_BINDING_ON or
    /// UMBO_THREAD_BINDING_OFF.
    pub thread_binding: umbo_thread_binding,
    /// 1 if the strategy is strict, by its options or because the environment variable UMBO_STRICT was 1 when
    /// the process began; else 0. A strict strategy looks for mistakes of callbacks. What it finds is
    /// UMBO_STATUS_FAILED_PRECONDITION, with a message that begins with "strict mode" and names the replica, the
    /// variable and the place: umbo_gradients_submit() gives it for gradients, and the run gives it, as that
    /// replica's failure, for what is found when the callback has returned: also that a variable was written
    /// through a view, which is then put back.
    pub strict: i32,
}

/// Gets what a strategy consists of, and its state.
///
/// @param[out] info Its description. Start from UMBO_STRATEGY_INFO_INIT, which sets its size.
#[c_call(result(info), get(strategy))]
pub fn umbo_strategy_get_info(strategy: *const umbo_strategy, info: *mut umbo_strategy_info) {
    let binds = strategy.binds_threads();
    info.write(umbo_strategy_info {
        num_replicas_in_sync: strategy.num_replicas_in_sync() as i64,
        num_local_replicas: strategy.num_replicas() as i64,
        num_compute_devices: strategy.compute_devices().len() as i64,
        num_variables: strategy.num_variables() as i64,
        late_replicas: strategy.late_replicas().len() as i64,
        rank: strategy.rank() as i64,
        num_ranks: strategy.num_ranks() as i64,
        parameter_device: device_name(strategy.parameter_device()),
        thread_stack_bytes: strategy.stack_bytes(),
        thread_binding: if binds { UMBO_THREAD_BINDING_ON } else { UMBO_THREAD_BINDING_OFF },
        strict: strategy.is_strict().into(),
        ..Default::default()
    });
}

/// Hashes all variables of a strategy, so that processes can compare their weights.
///
/// @param[out] fingerprint A hash of the names, types, shapes and committed values of all variables
///   that were made with the strategy and are in use, in the order in which they were made.
/// @return UMBO_OK, or UMBO_STATUS_UNAVAILABLE: a GPU that was lost.
///
/// Two processes of one version of the library have the same fingerprint if all of this is the same,
/// and, but for one case in 2^64, only then. Nothing is exchanged; for ranks that compare by themselves
/// see `fingerprint_interval` in umbo_strategy_options. The function reads all weights.
#[c_call(out(fingerprint), get(strategy))]
pub fn umbo_strategy_fingerprint(strategy: *const umbo_strategy, fingerprint: *mut u64) {
    fingerprint.write(strategy.fingerprint()?);
}
