//! Clusters: their tasks, the task of this process, and the communicators that connect processes.
//!
//! The engines over MPI and NCCL are features, `mpi` and `nccl`. Without them their functions are
//! there and fail with UNIMPLEMENTED.

#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

pub mod checked;
pub mod communicator;
#[cfg(any(feature = "mpi", feature = "nccl"))]
mod functions;
pub mod launcher;
pub mod mpi;
pub mod nccl;
pub mod resolver;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "mpi")]
    "mpi",
    #[cfg(feature = "nccl")]
    "nccl",
];
