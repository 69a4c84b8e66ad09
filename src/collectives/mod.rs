//! Collectives: per-replica components become one tensor on one device.
//!
//! The functions here take the components of one leaf, in replica order. Nests are taken apart
//! and put together by the strategy. All block until the result is there and can be called from
//! any thread; the work is shared by the worker set (see [`crate::executor::workers`]).

mod components;
mod copy;
mod gather;
mod reduce;

pub use copy::{Assignment, combine_into, copy_into, copy_to};
pub use gather::gather;
pub use reduce::{InAndOut, ReductionBatch, reduce, reduce_to_each};

pub use crate::kernels::reduce::reduction::ReduceOp;
