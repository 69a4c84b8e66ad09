//! The kernels for GPUs against those of the CPU: the same bits, but for those of a NaN.
//!
//! The kernels run as C++ here. So what is proven is what the source says; that the PTX says the
//! same is the compiler's part, and `ptx` looks at what it must not do.

mod axes;
mod copy;
mod machine;
mod memory;
mod ptx;
mod replicas;
mod rules;
mod table;
mod update;

/// Numbers of elements: none, one, and those around the ends of what a thread and a block does.
pub const SIZES: [usize; 11] = [0, 1, 2, 255, 256, 257, 1023, 1024, 1025, 2047, 4099];
