//! Checkpoints: what is in them, what does not fit, and training that resumes from one.

mod apart;
mod arrays;
mod exports;
mod files;
#[path = "../fresh/mod.rs"]
mod fresh;
mod large;
mod manager;
mod memory;
#[path = "../messages/mod.rs"]
mod messages;
mod mismatches;
mod places;
mod refused;
mod resume;
mod rotation;
mod scene;
mod states;
mod weights;
