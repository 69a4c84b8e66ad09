//! The stand-in for the compiled kernels in a library without the feature `cuda`, which opens no
//! device that would take them.

/// No kernels.
pub static PTX: String = String::new();
