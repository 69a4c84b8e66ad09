//! Clusters: their tasks, the task of this process, and the communicators that connect processes.

pub mod checked;
pub mod communicator;
mod functions;
pub mod launcher;
pub mod mpi;
pub mod nccl;
pub mod resolver;
