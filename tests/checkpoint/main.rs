//! Checkpoints: what is in them, what does not fit, and training that goes on from one.

mod arrays;
mod files;
mod manager;
mod mismatches;
mod other_replicas;
mod resume;
mod scene;
mod states;
mod weights;
