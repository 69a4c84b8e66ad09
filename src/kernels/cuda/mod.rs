//! The kernels for GPUs, and what launches them.
//!
//! Their source, in `source`, is one file for several compilers. clang makes [`PTX`] of it, which is
//! committed and embedded, so that building the library needs no CUDA: `scripts/build_ptx.sh`
//! makes it anew. Tests compile the same source as C++ and compare every kernel with the CPU's: the
//! bits are the same, but for those of a NaN.
//!
//! A launcher checks what it is given, puts tables together that say where everything lies, and
//! queues kernels at a [`Queue`]. It knows nothing of the driver.

mod axes;
mod copy;
mod on_gpu;
mod place;
mod queue;
mod replicas;
mod rows;
mod update;

pub use on_gpu::{OnGpu, on_gpu};
pub use place::Place;
pub use queue::{Address, Grid, Launcher, Queue, THREADS};
pub use replicas::Reduction;
pub use rows::TablePart;
pub use update::{Contribution, Gradient, Measured, TableRows, Update};

/// All kernels, as PTX that drivers since CUDA 9 compile for GPUs since Volta.
pub const PTX: &str = include_str!("umbo.ptx");

/// The names of all kernels, in the order in which they stand in [`PTX`].
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    let entries = PTX.split(".visible .entry ").skip(1);
    entries.filter_map(|entry| entry.split('(').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_named() {
        let count = kernel_names().count();
        assert_eq!(count, PTX.matches(".entry").count());
        assert!(kernel_names().all(|name| name.starts_with("umbo_")));
        assert!(count > 50);
    }
}
