//! All of Umbo for Rust, under one name, and the training loop. The C layer, the tool and the tests
//! use this crate.
//!
//! - [`training`]: a pass over a dataset, step by step. [`equivalence`]: whether a training step
//!   does the same on one replica and on many. [`checkpoint`]: what training needs to resume later,
//!   in a file.
//! - [`input`]: datasets, their transformations, and their distribution over replicas.
//!   [`optimizer`]: gradients, update rules, the fused central update. [`metrics`]: what
//!   accumulates over steps.
//! - [`strategy`]: scopes and contexts, steps on all replicas, merge calls, the commit point.
//! - [`tensor`]: elements of one dtype on one device. [`values`]: nests, per-replica values, the
//!   storage of variables. [`collectives`]: reducing, gathering and copying over devices.
//! - [`cluster`]: which processes there are, and what joins them.
//! - [`kernels`]: loops over memory. [`device`]: names, the registry, memory. [`executor`]:
//!   threads.
//! - [`observe`], [`error`], [`text`]: what happens, what fails, names that C reads, too.
//! - [`diagnose`]: step reports, advice, the trace. [`system`]: the operating system.

#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

pub mod training;

pub use umbo_base::{built_with, error, files, invalid, observe, out_of_range, text};
pub use umbo_check as equivalence;
pub use umbo_checkpoint as checkpoint;
pub use umbo_comm as cluster;
pub use umbo_device as device;
pub use umbo_diagnose as diagnose;
pub use umbo_executor as executor;
pub use umbo_input as input;
pub use umbo_kernels as kernels;
pub use umbo_metrics as metrics;
pub use umbo_optim as optimizer;
pub use umbo_strategy as strategy;
pub use umbo_system as system;
pub use umbo_tensor as tensor;
pub use umbo_tensor::{collectives, values};

/// The names of the optional parts that this library was built with: features of its package.
pub fn features() -> Vec<&'static str> {
    [
        checkpoint::FEATURES,
        cluster::FEATURES,
        device::FEATURES,
        diagnose::FEATURES,
        equivalence::FEATURES,
        input::FEATURES,
        kernels::FEATURES,
        optimizer::FEATURES,
        strategy::FEATURES,
    ]
    .concat()
}
