//! What a running program can be watched by.

pub mod log;
