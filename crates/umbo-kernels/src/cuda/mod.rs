//! The kernels for GPUs, and the code that launches them.
//!
//! Their source is in `source`. Several compilers can compile it. clang makes [`PTX`] from it. The
//! PTX is committed and embedded, packed, so that building the library needs no CUDA.
//! `scripts/build_ptx.sh` makes it anew. Tests compile the same source as C++ and compare every
//! kernel with the CPU's: the bits are the same, except those of a NaN.
//!
//! A launcher checks its arguments, makes the tables that say where everything lies, and queues
//! kernels at a [`KernelQueue`]. It does not use the driver itself.

mod copy;
mod entries;
mod on_gpu;
mod operands;
mod place;
mod ptx;
mod queue;
mod replicas;
mod row_copies;
mod update;

pub use on_gpu::{PreparedLaunches, on_gpu, prepared_on_gpu};
pub use operands::{GpuContribution, GpuUpdate, Gradient, TableRows};
pub use place::GpuPlace;
pub use ptx::PTX;
pub use queue::{Address, KernelLauncher, KernelQueue, THREADS};
pub use replicas::GpuReduction;
pub use row_copies::RowCopy;
