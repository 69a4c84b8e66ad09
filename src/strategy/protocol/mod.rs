//! How the threads of a step meet, from the bottom up. Nothing here knows of callbacks, values or
//! strategies, and all of it is model-checked (`tests/models`). How one thread waits is `executor/wait.rs`.
//!
//! - [`mailbox`]: where a replica thread waits and finds its next job;
//! - [`queue`]: who may take the next step, in the order of asking;
//! - [`rendezvous`]: where the replicas of one step and its coordinator meet;
//! - [`turns`]: who of the replicas that share a device has it.
//!
//! # The life of a step
//!
//! A step is *created* when its record is set up, and opens with all replicas computing. It is
//! *running* while a replica computes and *waiting* while none does and some wait in a merge call.
//! It is *finished* when all callbacks have returned in time, and *abandoned* when a limit was
//! reached before: then the coordinator and the late replicas part, and the step is *drained* when
//! the last of them has left. These are all the transitions:
//!
//! | from | event | to | who acts next |
//! |---|---|---|---|
//! | created | the coordinator opens the meeting and fills the mailboxes | running | the replicas |
//! | running | a replica arrives at a merge call, another one computes | running | the replicas |
//! | running | a replica arrives or finishes, none computes, some wait | waiting | the coordinator |
//! | running | the last replica finishes | finished | the coordinator |
//! | waiting | the coordinator answers the replicas that wait | running | the replicas |
//! | running, waiting | the coordinator finds a limit reached | abandoned | everyone |
//! | abandoned | a replica finishes, or the coordinator leaves, and it is not the last | abandoned | everyone else |
//! | abandoned | the same, and it is the last | drained | the last one |
//! | finished | the coordinator has read the outcome | created | the coordinator |
//!
//! A step that is finished cannot be abandoned any more and the other way round: both are changes
//! of one word. A finished step's record belongs to its coordinator, which uses it again. A drained
//! one belongs to whoever drained it, who lets go of what the step held and drops it: it is never
//! used again, so a late replica can never meet a step that is not its own.
//!
//! A nested step is a step like any other. Its coordinator is the thread that serves the merge call
//! of the step around it, all of whose replicas wait meanwhile. It is abandoned by the limits of the
//! steps around it, which are then abandoned too, and is drained before them: a replica comes back
//! to the outer callback through the inner one.

pub mod mailbox;
pub mod queue;
pub mod rendezvous;
pub mod turns;
