//! A CUDA driver for tests. As `libcuda.so.1` it lets production code run unchanged where there is
//! no GPU, and finds what is wrong in it: missing synchronisation, accesses outside of memory, use
//! after free, reads of bytes that nothing wrote, handles of the wrong kind or context.
//!
//! * Work put on a stream runs later, in an order drawn from a seed; only the order that CUDA
//!   promises is kept.
//! * Vector clocks find every pair of conflicting accesses that nothing orders, whatever order they
//!   ran in.
//! * Kernels are executed from their PTX by an interpreter that checks each access.
//! * Any call can be made to fail, once or for ever after.
//!
//! The functions of the driver are in `api`, and hold no logic. Tests use
//! [`harness`] to run under the driver and [`Control`] to ask it what it found.

mod access;
mod address_space;
mod allocate;
// Unit tests have no driver, so that little is compiled for them.
#[cfg_attr(
    test,
    allow(
        dead_code,
        non_snake_case,
        reason = "programs call them by CUDA's names"
    )
)]
mod api;
mod bits;
mod c_types;
mod clock;
mod codes;
mod context;
mod control;
mod copy;
mod device;
mod driver;
mod engine;
mod enqueue;
mod event;
mod faults;
mod handle;
pub mod harness;
mod history;
mod host_function;
mod launch;
mod memory;
mod module;
mod moved;
mod operation;
mod pool;
mod ptx;
mod random;
mod region;
mod report;
mod schedule;
mod session;
mod settings;
mod stream;
mod watch;

pub use control::Control;
