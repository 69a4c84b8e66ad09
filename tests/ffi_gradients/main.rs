//! Gradients, optimizers and distributed input through the C functions.

#[path = "../allocator/mod.rs"]
mod allocator;
mod apply;
mod contract;
mod distributed;
mod first_batch;
mod setup;
mod steady;
mod two_strategies;
