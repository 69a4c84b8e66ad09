//! The parts of a strategy, and how it is set up.

pub mod central_storage;
pub(crate) mod devices;
pub(crate) mod layout;
pub mod options;
