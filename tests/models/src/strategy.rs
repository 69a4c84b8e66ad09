//! Steps.

#[path = "../../../crates/umbo-strategy/src/step/cancellation.rs"]
mod cancellation;
mod model;
#[path = "../../../crates/umbo-strategy/src/protocol/mod.rs"]
mod protocol;
mod turns;
