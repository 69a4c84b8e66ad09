//! The kernels as CUDA's driver takes them.
//!
//! Their source is in `source`. Several compilers can compile it. clang makes [`PTX`] from it. The
//! PTX is committed and embedded, packed, so that building the library needs no CUDA.
//! `scripts/build_ptx.sh` makes it anew. Tests compile the same source as C++ and compare every
//! kernel with the CPU's: the bits are the same, except those of a NaN.

#[cfg_attr(not(feature = "cuda"), path = "absent.rs")]
mod ptx;

pub use ptx::PTX;
