//! Gradients, optimizers and distributed input through the C functions.

mod apply;
#[path = "../calls/mod.rs"]
mod calls;
mod contract;
mod distributed;
mod first_batch;
#[path = "../messages/mod.rs"]
mod messages;
mod setup;
mod two_strategies;
