//! Collectives: per-replica components become one tensor on one device.
//!
//! The functions here take the components of one leaf, in replica order. The strategy takes nests
//! apart and puts them together. All functions block until the result is complete, and can be
//! called from any thread. The worker set shares the work (see [`umbo_executor::workers`]).

mod components;
mod copy;
mod gather;
mod reduce;

pub use copy::{Assignment, combine_into, copy_all_into, copy_into, copy_to};
pub use gather::gather;
pub use reduce::{ReductionBatch, reduce, reduce_to_each};

pub use umbo_kernels::reduce::reduction::ReduceOp;
