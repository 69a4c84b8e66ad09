//! What a strategy knows of the ranks that it is spread over.

use super::prelude::*;

/// Tells the number of this process among those that train together.
///
/// @param[in] strategy The strategy.
/// @param[out] rank The rank: 0 to the number of ranks less one. 0 for a process that is alone.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(rank), borrow(strategy))]
pub fn umbo_strategy_rank(strategy: *const umbo_strategy, rank: *mut i64) {
    rank.write(strategy.rank() as i64);
}

/// Tells how many processes train together.
///
/// @param[in] strategy The strategy.
/// @param[out] count The number of ranks; 1 for a process that is alone.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
///
/// They are those of the communicator that the strategy was made with.
#[c_call(out(count), borrow(strategy))]
pub fn umbo_strategy_num_ranks(strategy: *const umbo_strategy, count: *mut i64) {
    count.write(strategy.num_ranks() as i64);
}

/// Tells how many replicas of a strategy this process has.
///
/// @param[in] strategy The strategy.
/// @param[out] count The number of its replicas in this process; 1 or more. With `replicas_in_sync` several
///   of them may share a compute device.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
///
/// Without other ranks it is umbo_strategy_num_replicas_in_sync().
#[c_call(out(count), borrow(strategy))]
pub fn umbo_strategy_num_local_replicas(strategy: *const umbo_strategy, count: *mut i64) {
    count.write(strategy.num_replicas() as i64);
}

/// Hashes all variables of a strategy, so that processes can compare their weights.
///
/// @param[in] strategy The strategy.
/// @param[out] fingerprint A hash of the names, types, shapes and committed values of all variables
///   that were made with the strategy and are in use, in the order in which they were made.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_UNAVAILABLE: a GPU that was lost.
///
/// Two processes of one version of the library have the same fingerprint if all of this is the same,
/// and, but for one case in 2^64, only then. Nothing is exchanged; for ranks that compare by themselves
/// see `fingerprint_interval` in umbo_strategy_options. The function reads all weights.
#[c_call(out(fingerprint), get(strategy))]
pub fn umbo_strategy_fingerprint(strategy: *const umbo_strategy, fingerprint: *mut u64) {
    fingerprint.write(strategy.fingerprint()?);
}
