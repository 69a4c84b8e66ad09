//! CUDA devices: which there are, and their memory, queues and kernels.
//!
//! The driver is looked for when the process first asks, so that the library builds and runs where
//! there is none. A [`Card`](card::Card) is a physical GPU with its primary context. A
//! [`Gpu`](gpu::Gpu) is a logical one: a card, a stream of its own, and how much of the card's memory it
//! may have. Both live as long as the process once they are opened.
//!
//! **All work on the memory of a logical GPU goes through its one stream**, in the order in which it is
//! asked for: copies, kernels, and what a replica's callback queues. So nothing on one GPU needs an
//! event, memory is freed in the same order as it is used, and two GPUs wait for each other where
//! something goes from one to the other ([`Gpu::copy_from`](gpu::Gpu::copy_from)). Calls return once
//! their work is queued; only what brings bytes to the host waits.
//!
//! cudarc's types own contexts, streams, events and pinned memory of the host. Its implicit events are off.
//! When such an owner is dropped, its context stays current, and an error is kept for the next call on that
//! context; `Staging::let_go` undoes both. [`DeviceMemory`](memory::DeviceMemory) owns memory
//! of a GPU, since cudarc's slice tries a free once and does not know the program's pools. Kernels stay until
//! the process ends, and are launched without cudarc's builder, which allocates.
//!
//! The bindings panic where the driver lacks a function. A card is opened only after all functions that
//! are used here were found ([`failure::require_functions`]), so none of the calls can.

pub mod card;
mod discovery;
pub mod external;
pub mod failure;
pub mod gpu;
pub mod kernels;
pub mod memory;
mod staging;
mod stream;
mod timeline;

pub use discovery::{capability, device_name, memory_info, probe};
