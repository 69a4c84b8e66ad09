//! Replica slots: where the coordinator and a replica of a step exchange data.

#![expect(
    unsafe_code,
    reason = "the coordinator and a replica use a slot in turn"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::lending::{Reference, TurnCell};
use super::operation::Operation;
use super::scratch::Scratch;
use crate::context::first_views::FirstView;
use crate::context::metrics::MetricTable;
use crate::context::strict_callbacks::Guards;
use crate::setup::central_storage::Strategy;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_kernels::view::{Span, SpanMut};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

/// The function of a merge call, which runs once for all replicas. It gets the replicas' calls in
/// replica order; each replica gets its component of the result.
pub type Merge = Box<dyn FnOnce(&Strategy, &mut [&mut MergeCall]) -> Result<Option<Value>> + Send>;

/// A merge call of one replica: its request, and the coordinator's reply. The replica's thread has
/// made the contents, and drops them, too.
pub struct MergeCall {
    pub(crate) replica: usize,
    pub(crate) operation: Operation,
    /// How many merge calls the replica has made in its callback, this one included.
    pub(crate) sequence: u64,
    /// The arguments of the merge function.
    pub arguments: Option<Value>,
    /// The arguments of a merge function that may also write the replica's result.
    pub(crate) direct: Option<InlineReduction>,
    pub(crate) merge: Option<Merge>,
    pub(crate) reply: Option<Result<Option<Value>>>,
}

/// A tensor that a replica contributes, and one that it has made for its result: so the coordinator
/// reads the elements directly, and neither makes nor drops another thread's tensors.
pub(crate) struct InlineReduction {
    /// The elements of the arguments, and of the output, which are as many.
    pub from: Span<'static>,
    pub to: SpanMut<'static>,
    pub shape: Shape,
    pub output: Option<Tensor>,
}

/// The slot of one replica, which it and the coordinator use in turn. A callback that does and
/// returns nothing takes no lock here, and writes no cache line that the coordinator reads.
pub(crate) struct ReplicaSlot<R> {
    /// The replica's task; written by the coordinator.
    pub task: TurnCell<Option<R>>,
    /// The arguments of the run. They stay as they are while callbacks run.
    pub arguments: TurnCell<Option<Reference<Value>>>,
    /// The replica whose thread runs the callback: this one, or an earlier one on the same device.
    pub thread: AtomicUsize,
    /// The callback's error, or its result, if it returned one.
    pub outcome: TurnCell<Option<Result<Value>>>,
    /// The merge call in which the replica waits.
    pub call: TurnCell<Option<MergeCall>>,
    /// How many merge calls the replica has made. Only the replica reads it.
    pub sequence: TurnCell<u64>,
    /// The result of the replica's last all-reduce, if it is small: the memory of the next one.
    /// Only the replica uses it.
    pub reduced: TurnCell<Option<Tensor>>,
    /// Whether the callback failed.
    pub failed: AtomicBool,
    /// The library has asked the replica to stop.
    pub stop_requested: AtomicBool,
    /// Whether the local state may hold anything, of this step or of the one before.
    used: AtomicBool,
    local: TurnCell<LocalState>,
}

impl<R> ReplicaSlot<R> {
    pub fn on(replica: usize, device: DeviceId, strict: bool) -> ReplicaSlot<R> {
        ReplicaSlot {
            task: TurnCell::default(),
            arguments: TurnCell::default(),
            thread: AtomicUsize::new(replica),
            outcome: TurnCell::default(),
            call: TurnCell::default(),
            sequence: TurnCell::default(),
            reduced: TurnCell::default(),
            failed: AtomicBool::new(false),
            stop_requested: AtomicBool::new(false),
            used: AtomicBool::new(true),
            local: TurnCell::new(LocalState {
                metrics: MetricTable::default(),
                scratch: Scratch::on(device),
                viewed: HashMap::new(),
                guards: strict.then(Box::default),
                first_views: Vec::new(),
            }),
        }
    }

    /// The replica's local state.
    ///
    /// # Safety
    /// It is the caller's turn as long as the reference lives, and the caller has no other one.
    #[expect(clippy::mut_from_ref, reason = "turns are taken, not borrowed")]
    pub unsafe fn local(&self) -> &mut LocalState {
        if !self.is_used() {
            self.used.store(true, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { self.local.get() }
    }

    /// Whether the local state may hold anything.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn is_stop_requested(&self) -> bool {
        self.stop_requested.load(Ordering::Relaxed)
    }

    /// Prepares for a step; called by the coordinator. Values that are right already are not
    /// written.
    pub fn set_up(&self) {
        for flag in [&self.failed, &self.stop_requested] {
            if flag.load(Ordering::Relaxed) {
                flag.store(false, Ordering::Relaxed);
            }
        }
    }

    /// The callback is about to be called: forgets, on the replica's thread, what it has left in
    /// the step before. The coordinator does not write what the replica writes.
    ///
    /// # Safety
    /// It is the replica's turn.
    pub unsafe fn begin_local(&self) {
        if self.is_used() {
            // SAFETY: as the caller promises.
            let local = unsafe { self.local.get() };
            local.metrics.clear();
            if let Some(guards) = &mut local.guards {
                guards.begin();
            }
            if local.guards.is_none() && !local.metrics.has_names() {
                self.used.store(false, Ordering::Relaxed);
            }
        }
    }

    /// The callback has returned: clears, on the replica's thread, the local state that the
    /// coordinator does not need.
    ///
    /// # Safety
    /// It is the replica's turn.
    pub unsafe fn clear_local(&self) {
        if self.is_used() {
            // SAFETY: as the caller promises.
            let local = unsafe { self.local.get() };
            local.viewed.clear();
            local.scratch.reset();
        }
    }
}

/// A replica's local state in a step.
pub(crate) struct LocalState {
    pub metrics: MetricTable,
    pub scratch: Scratch,
    /// Variables of other strategies that the callback has views of.
    pub viewed: HashMap<usize, Variable>,
    /// The checks of a strict strategy.
    pub guards: Option<Box<Guards>>,
    /// The views of variables that a callback has in the first steps.
    pub first_views: Vec<FirstView>,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::protocol::rendezvous::{Rendezvous, ReplicaPhase, WaitOutcome};
    use umbo_executor::wait::Spin;

    const REPLICAS: usize = 2;

    /// The replica of the test: it makes a merge call, and returns the reply.
    fn serve(slot: &ReplicaSlot<Reference<Arc<f64>>>, rendezvous: &Rendezvous, replica: usize) {
        rendezvous.begin(replica);
        {
            // SAFETY: the replica's turn, which begins with the step.
            let (task, call) = unsafe { (slot.task.get(), slot.call.get()) };
            let argument = Tensor::scalar(***task.as_ref().unwrap() + replica as f64).unwrap();
            *call = Some(MergeCall {
                replica,
                operation: Operation::AllGather(0),
                sequence: 1,
                arguments: Some(Value::Tensor(argument)),
                direct: None,
                merge: None,
                reply: None,
            });
        }
        rendezvous.arrive(replica);
        while !rendezvous.is_released(replica) {
            thread::yield_now();
        }
        // SAFETY: the replica's turn again.
        let (call, outcome) = unsafe { (slot.call.get(), slot.outcome.get()) };
        *outcome = call.take().unwrap().reply.unwrap().transpose();
        rendezvous.finish(replica);
    }

    fn wait_for_all(rendezvous: &Rendezvous) -> WaitOutcome {
        rendezvous.wait_for_all(Spin::BOUNDED, None, || false)
    }

    /// Only the rendezvous synchronises the threads, over several steps with the same slots.
    #[test]
    fn slots_carry_tasks_and_merge_calls_both_ways() {
        let slots: Vec<ReplicaSlot<Reference<Arc<f64>>>> = (0..REPLICAS)
            .map(|replica| ReplicaSlot::on(replica, DeviceId::HOST, false))
            .collect();
        let rendezvous = Rendezvous::new(REPLICAS);
        for step in 1..4 {
            let shared = Arc::new(f64::from(step));
            for slot in &slots {
                slot.set_up();
                // SAFETY: the coordinator's turn, before the step opens; `shared` lives until it
                // has ended.
                unsafe { *slot.task.get() = Some(Reference::lent(&shared)) };
            }
            rendezvous.open();
            thread::scope(|scope| {
                for (replica, slot) in slots.iter().enumerate() {
                    let rendezvous = &rendezvous;
                    scope.spawn(move || serve(slot, rendezvous, replica));
                }
                assert_eq!(wait_for_all(&rendezvous), WaitOutcome::Waiting);
                let mut sum = 0.0;
                for slot in &slots {
                    // SAFETY: the coordinator's turn: both replicas wait.
                    let call = unsafe { slot.call.get() }.as_mut().unwrap();
                    let argument = call.arguments.as_ref().unwrap().tensor_of(0).unwrap();
                    sum += argument.to_vec::<f64>().unwrap()[0];
                }
                let sum = Value::Tensor(Tensor::scalar(sum).unwrap());
                for (replica, slot) in slots.iter().enumerate() {
                    assert_eq!(rendezvous.phase(replica), ReplicaPhase::Waiting);
                    // SAFETY: as above.
                    unsafe { slot.call.get() }.as_mut().unwrap().reply =
                        Some(Ok(Some(sum.clone())));
                    rendezvous.resume(replica);
                }
                assert_eq!(wait_for_all(&rendezvous), WaitOutcome::Finished);
            });
            for slot in &slots {
                // SAFETY: the coordinator's turn: both callbacks have returned.
                let (task, outcome) =
                    unsafe { (slot.task.get().take(), slot.outcome.get().take()) };
                drop(task);
                let sum = outcome
                    .unwrap()
                    .unwrap()
                    .tensor_of(0)
                    .unwrap()
                    .to_vec::<f64>()
                    .unwrap();
                assert_eq!(sum, [2.0 * f64::from(step) + 1.0]);
            }
            assert_eq!(Arc::strong_count(&shared), 1);
        }
    }
}
