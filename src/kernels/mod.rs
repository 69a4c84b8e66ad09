//! The loops over memory. A kernel takes plain views and knows nothing of tensors, replicas or C.
//!
//! What the loops have in common stands here: element types, shapes and strides, views, instruction
//! sets, and the ways to write memory and to walk it. The loops themselves, by what they do:
//!
//! - [`cuda`]: the same loops for GPUs, and what launches them.
//! - [`copy`]: copies, fills, concatenations, additions in place.
//! - [`float`]: what floating-point elements can be, and how they are converted.
//! - [`reduce`]: sums and means over replicas and axes.
//! - [`rows`]: slices along dimension 0, picked by number.
//! - [`update`]: gradients of all replicas into the update of a variable, and norms.

#![expect(unsafe_code, reason = "loops over memory that was checked before they begin")]

pub mod copy;
pub mod cuda;
pub mod dtype;
pub mod float;
pub mod instruction_set;
pub mod layout;
mod prefetch;
pub mod reduce;
pub mod rows;
pub mod streaming;
pub mod strided;
pub mod update;
pub mod view;
