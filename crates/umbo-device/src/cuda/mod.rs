//! CUDA devices: their discovery, memory, queues and kernels.
//!
//! The driver's library is searched when the process first needs it, so that this library builds
//! and runs without a driver. A [`PhysicalGpu`](physical_gpu::PhysicalGpu) is a physical GPU with
//! its primary context. A [`Gpu`](gpu::Gpu) is a logical one: a card, its own stream, and a limit
//! for its share of the card's memory. Both live until the process ends once they are opened.
//!
//! The queue of a [`Backend`](crate::backend::Backend) is the GPU's one stream here.
//!
//! cudarc's types own contexts, streams, events and pinned memory of the host. Its implicit events
//! are off. When such an owner is dropped, its context stays current, and an error is kept for the
//! next call on that context; `Staging::release` undoes both.
//! [`DeviceMemory`](crate::memory::DeviceMemory) owns memory of a GPU, since cudarc's slice tries
//! to free only once and cannot use external pools. Kernels stay until the process ends.
//!
//! The bindings panic if the driver lacks a function. A card is opened only after all functions
//! that are used here were found ([`failure::require_functions`]), so none of the calls panics.

mod backend;
mod discovery;
pub mod external;
pub mod failure;
pub mod gpu;
pub mod kernels;
mod locked;
mod memory;
pub mod physical_gpu;
mod staging;
mod stream;
mod timeline;

pub use discovery::{capability, device_name, memory_info, probe};
