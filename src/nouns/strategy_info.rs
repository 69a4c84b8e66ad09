//! A strategy's replicas, devices, variables and state.

use crate::machinery::prelude::*;

/// A strategy's replicas, devices and state.
#[c_struct]
pub struct umbo_strategy_info {
    /// A number that no other strategy of this process has: two handles with the same are of one
    /// strategy. 0 is the default strategy.
    pub id: u64,
    /// The number of replicas of all ranks together, over which gradients are combined; 1 or more.
    pub replica_count: i64,
    /// The number of replicas in this process; 1 or more.
    pub local_replica_count: i64,
    /// The number of different compute devices in this process. With `replicas_in_sync` there may
    /// be more replicas, which are dealt out to the devices in turn.
    pub compute_device_count: i64,
    /// The number of variables of the strategy that are in use, which umbo_strategy_variable()
    /// gets. 0 for the default strategy, which keeps no list.
    pub variable_count: i64,
    /// The number of replicas that are still in the callback of a run that was stopped. Meanwhile
    /// the strategy is *draining*: values can be read; runs, assignments and applies return
    /// UMBO_STATUS_FAILED_PRECONDITION.
    pub late_replica_count: i64,
    /// The rank of this process, from 0.
    pub rank: i64,
    /// The number of ranks, 1 or more.
    pub rank_count: i64,
    /// The canonical name of the device of the variables. Lives as long as the process.
    pub parameter_device: *const c_char,
    /// The stack of the replicas' threads in bytes, before it is rounded up to whole pages.
    pub thread_stack_bytes: usize,
    /// 1 if the replicas' threads are bound to processors.
    pub bind_threads: i32,
    /// 1 if the strategy is strict, by its options or by UMBO_STRICT.
    pub strict: i32,
}

/// Gets a strategy's replicas, devices and state.
#[c_call(result(info), get(strategy))]
pub fn umbo_strategy_get_info(strategy: *const umbo_strategy, info: *mut umbo_strategy_info) {
    let threading = strategy.threading();
    info.write(umbo_strategy_info {
        id: strategy.id(),
        replica_count: strategy.num_replicas_in_sync() as i64,
        local_replica_count: strategy.num_replicas() as i64,
        compute_device_count: strategy.compute_devices().len() as i64,
        variable_count: strategy.variables().len() as i64,
        late_replica_count: strategy.late_replicas().len() as i64,
        rank: strategy.rank() as i64,
        rank_count: strategy.ranks().size() as i64,
        parameter_device: device_name(strategy.parameter_device()),
        thread_stack_bytes: threading.stack_bytes,
        bind_threads: threading.bind.into(),
        strict: strategy.is_strict().into(),
        ..Default::default()
    });
}

/// Hashes all variables of a strategy, so that processes can compare their weights.
///
/// @param[out] fingerprint A hash of the names, dtypes, shapes and committed values of the
///   variables in use, in the order in which they were made.
/// @return UMBO_STATUS_UNAVAILABLE: a GPU that was lost.
///
/// It reads all weights and exchanges nothing. Processes with one version of the library can
/// compare it; see `fingerprint_interval` of umbo_strategy_options.
#[c_call(out(fingerprint), get(strategy))]
pub fn umbo_strategy_fingerprint(strategy: *const umbo_strategy, fingerprint: *mut u64) {
    fingerprint.write(strategy.fingerprint()?);
}

/// Gets a new handle to a variable of a strategy.
///
/// @param[in] index Its position among those in use, in the order in which they were made. It
///   changes when one before it ends.
/// @return UMBO_STATUS_OUT_OF_RANGE: no such variable.
///
/// A loop over all of them adds the variables that adapters have made to a checkpoint, too.
#[c_call(out(variable), index(index), get(strategy))]
pub fn umbo_strategy_variable(
    strategy: *const umbo_strategy,
    index: i64,
    variable: *mut *mut umbo_variable,
) {
    let mut all = strategy.variables();
    let variables = Listed {
        count: all.len(),
        elements: "the variables of the strategy",
    };
    let found = at(index as i64, "index", variables, |index| {
        Some(all.swap_remove(index))
    })?;
    variable.write(make(found)?);
}
