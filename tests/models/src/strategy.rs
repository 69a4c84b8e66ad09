//! Steps.

#[path = "../../../src/strategy/cancellation.rs"]
mod cancellation;
#[path = "../../../src/strategy/limits.rs"]
mod limits;
mod model;
#[path = "../../../src/strategy/protocol/mod.rs"]
mod protocol;
#[path = "../../../src/strategy/step_lock.rs"]
mod step_lock;
mod turns;
