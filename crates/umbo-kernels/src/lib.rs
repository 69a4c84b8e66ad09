//! The loops over memory. A kernel takes plain views; it uses nothing of tensors, replicas or C.
//!
//! This module has what the loops have in common: element types, shapes and strides, views,
//! instruction sets, and the ways to write memory and to walk it. The loops themselves are sorted
//! by what they do:
//!
//! - [`launch`]: launches of the same loops on devices with memory of their own; [`cuda`]: the form
//!   in which CUDA's driver takes them.
//! - [`copy`]: copies, fills, concatenations and additions in place.
//! - [`float`]: the floating-point element types and their conversions.
//! - [`matrix`]: products of matrices, and the nearest orthogonal matrix.
//! - [`reduce`]: sums and means over replicas and axes.
//! - [`rows`]: slices along dimension 0, selected by number.
//! - [`update`]: the update of a variable from the gradients of all replicas, and norms.
#![expect(
    unsafe_code,
    reason = "loops over memory that was checked before they begin"
)]

#[macro_use]
extern crate umbo_base;

#[doc(hidden)]
pub use half;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "vectors")]
    "vectors",
];

pub mod copy;
pub mod cuda;
pub mod dtype;
pub mod float;
pub mod instruction_set;
pub mod launch;
pub mod layout;
pub mod matrix;
pub mod prefetch;
pub mod reduce;
pub mod rows;
pub mod streaming;
pub mod strided;
pub mod update;
pub mod view;
