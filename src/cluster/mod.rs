//! Clusters: which tasks there are, which of them this process is, and what joins them.

pub mod checked;
pub mod communicator;
mod functions;
pub mod launcher;
pub mod mpi;
pub mod nccl;
pub mod resolver;
