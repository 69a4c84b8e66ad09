//! Every lock that the replicas of a strategy share, held: for tests of what is to take none of them.

use super::step::ReplicaContext;

/// Calls `body` while this thread holds the locks of the context's strategy and of its step, and those
/// that belong to the other replicas. Only what belongs to `replica` alone is free.
pub(crate) fn with_locks_held<R>(
    context: &ReplicaContext,
    replica: usize,
    body: impl FnOnce() -> R,
) -> R {
    let inner = context.strategy().inner();
    let _of_strategy = (
        inner.step_lock.hold(),
        inner.draining.hold(),
        inner.records.lock(),
        inner.transaction.lock(),
        inner.central.write(),
        inner.metrics.lock(),
        inner.variable_slab.lock(),
    );
    let step = context.step.as_ref().expect("a replica in a run");
    let _of_step = (step.coordinator_moved.lock(), step.creations.hold(), step.hold());
    let desks = step.desks.iter().enumerate().filter(|&(other, _)| other != replica);
    let _of_replicas: Vec<_> = desks.map(|(_, desk)| desk.lock()).collect();
    body()
}
