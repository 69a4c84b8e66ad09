//! The host's processors: the threads that do central work.

pub mod workers;
