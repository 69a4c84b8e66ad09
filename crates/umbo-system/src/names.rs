//! Names of files as bytes, as programs in C have them.

pub use crate::platform::names::{bytes, from_bytes};
