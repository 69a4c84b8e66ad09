//! The kernels for GPUs, and what launches them.
//!
//! Their source, in `source`, is one file for several compilers. clang makes [`PTX`] of it, which is
//! committed and embedded, packed, so that building the library needs no CUDA: `scripts/build_ptx.sh`
//! makes it anew. Tests compile the same source as C++ and compare every kernel with the CPU's: the
//! bits are the same, but for those of a NaN.
//!
//! A launcher checks what it is given, puts tables together that say where everything lies, and
//! queues kernels at a [`KernelQueue`]. It knows nothing of the driver.

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

pub use on_gpu::{OnGpu, PreparedLaunches, on_gpu, prepared_on_gpu};
pub use operands::{GpuContribution, GpuUpdate, Gradient, TableRows};
pub use place::GpuPlace;
pub use ptx::PTX;
pub use queue::{Address, KernelLauncher, KernelQueue, THREADS};
pub use replicas::GpuReduction;
pub use row_copies::RowCopy;
