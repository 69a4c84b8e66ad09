//! Steps.

#[path = "../../../crates/umbo-strategy/src/step/cancellation.rs"]
mod cancellation;
mod cancelled;
mod crew;
mod explore;
mod nested;
#[path = "../../../crates/umbo-strategy/src/protocol/mod.rs"]
mod protocol;
mod steps;
mod turns;
mod wakes;
