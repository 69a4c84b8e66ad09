//! Gradients, optimizers and distributed input through the C functions.

mod apply;
mod contract;
mod distributed;
mod setup;
mod steady;
