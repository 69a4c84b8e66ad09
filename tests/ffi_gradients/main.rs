//! Gradients, optimizers and distributed input through the C functions.

#[path = "../allocator/mod.rs"]
mod allocator;
mod apply;
mod contract;
mod distributed;
mod setup;
mod steady;
