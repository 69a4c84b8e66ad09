//! Clusters: their tasks, the task of this process, and the communicators that connect processes.

#![deny(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]

#[macro_use]
extern crate umbo_base;

pub mod checked;
pub mod communicator;
mod functions;
pub mod launcher;
pub mod mpi;
pub mod nccl;
pub mod resolver;
