//! What protocols use of the library's `executor`, and how work is handed to its workers, whose model
//! stands beside it.

#[path = "../../../src/executor/handover.rs"]
mod handover;
#[path = "../../../src/executor/sync.rs"]
pub mod sync;
#[path = "../../../src/executor/wait.rs"]
pub mod wait;
