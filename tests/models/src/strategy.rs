//! Steps.

#[path = "../../../src/strategy/cancellation.rs"]
mod cancellation;
mod model;
#[path = "../../../src/strategy/protocol/mod.rs"]
mod protocol;
mod turns;
