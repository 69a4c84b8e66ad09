//! Faults that can be put into the model, one at a time.

listed! {
    /// A mistake in one transition.
    pub enum Fault {
        // The input and the epoch.
        TakeLeavesThePosition,
        PassOverIsNotSaid,
        PassOverKeepsTheOthersElements,
        NoElementKeepsTheElement,
        ProgressKeepsTheElement,
        EndIsNotSaid,
        RefusalIsNotSaid,
        NotBegunLosesTheElement,
        FailureLosesTheElement,
        CommitGivesTheElementBack,
        ProgressIsNotSaid,
        // The beginning of a step.
        BeginWhileDraining,
        BeginAlone,
        BeginCountsNoStep,
        BeginOpensNoTransaction,
        BeginPostsOneReplicaLess,
        // Replicas.
        WriteIsNotChecked,
        FailureIsNotNoted,
        ArrivalWakesNobody,
        FinishWakesNobody,
        LateReplicaDrainsNothing,
        LateFailureIsNoted,
        NestedReplicaDrainsNothing,
        // Merge calls and nested runs.
        MergeWithoutAllReplicas,
        MergeFailureIsForgotten,
        ReplyMissesOneReplica,
        NestedRunBeginsAlone,
        NestedRefusalEndsNothing,
        NestedFailureDoesNotPoison,
        NestedCoordinatorStays,
        // Limits.
        DeadlineWakesNobody,
        CancellationWakesNobody,
        AbandonedStepKeepsReplicasWaiting,
        AbandonedStepIsNotRolledBack,
        AbandonedStepDoesNotVote,
        AbandonedStepCounts,
        CoordinatorDoesNotLeave,
        // Votes, commits and rollbacks.
        JudgeOverlooksFailures,
        FailedPreparationIsDropped,
        FailureDoesNotVote,
        CommitBeforeTheVotes,
        CommitAgainstTheVotes,
        CommitWritesNothing,
        CommitLeavesTheWrites,
        RollbackLeavesTheWrites,
        RollbackLeavesTheStep,
    }
}
