//! Memory that is short for a while. Alone in its process, whose requests for memory it refuses, on all threads.

#[path = "../allocator/mod.rs"]
mod allocator;
mod epochs;
mod input;
