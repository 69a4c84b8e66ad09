//! The transitions by name. A counterexample is a list of them.

use std::fmt;

use super::properties::Property;
use crate::state::State;

listed! {
    /// The kind of a transition.
    pub enum Event {
        // The caller, its epoch and its input.
        /// The caller takes the next element.
        Take,
        /// The next element cannot be made, and all ranks pass over it.
        PassOver,
        /// The input gives no element before the limit of the epoch.
        NoElement,
        /// The input has no more elements.
        EndOfPass,
        Enter,
        CannotEnter,
        /// Some rank could not begin, so that this one puts its element back or passes over it.
        NotBegun,
        /// The step has failed, and its element is put back.
        GiveBack,
        StepEnds,
        /// The step counts, but the progress function of the epoch fails.
        ProgressFails,
        // The coordinator.
        Begin,
        ReplicasReturned,
        Abandon,
        Leave,
        // Merge calls.
        Serve,
        MergeFails,
        /// A replica has failed or was told to stop, so that the others need not wait.
        StopWaiting,
        /// Some replicas have arrived, and the others have returned without the call.
        DisagreementFound,
        // Nested runs, in the merge function.
        NestedCall,
        NestedTooLate,
        NestedBegin,
        NestedEnd,
        NestedAbandon,
        NestedLeave,
        MergeReturns,
        /// The merge function succeeds although its nested run has failed.
        MergeSwallows,
        // The outcome.
        Judge,
        JudgeFailed,
        PrepareFails,
        Commit,
        RollBack,
        // The callback of a replica.
        Start,
        /// The step was abandoned before the callback began.
        Skip,
        Hang,
        Write,
        WriteRefused,
        /// The callback makes its merge call.
        Arrive,
        /// The callback returns without the merge call that others make.
        Disagree,
        Return,
        Fail,
        // Limits.
        DeadlinePasses,
        Cancel,
    }
}

/// A transition of a rank, and the state after it.
pub struct Move {
    pub event: Event,
    pub rank: usize,
    /// The replica that acts, unless it is the caller or the coordinator.
    pub replica: Option<usize>,
    pub to: State,
    /// The property that the transition itself breaks.
    pub broken: Option<Property>,
}

impl fmt::Display for Move {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {}", self.rank)?;
        if let Some(replica) = self.replica {
            write!(formatter, ", replica {replica}")?;
        }
        let rank = &self.to.ranks[self.rank];
        write!(formatter, ": {:?}, then {:?}", self.event, rank.place)
    }
}
