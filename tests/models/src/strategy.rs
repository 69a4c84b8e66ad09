//! Steps.

#[path = "../../../crates/umbo-strategy/src/cancellation.rs"]
mod cancellation;
mod model;
#[path = "../../../crates/umbo-strategy/src/protocol/mod.rs"]
mod protocol;
mod turns;
