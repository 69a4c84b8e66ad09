//! The standard streams of the process.

pub use crate::platform::streams::write_error;
