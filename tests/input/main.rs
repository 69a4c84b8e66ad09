//! Datasets, their transformations and their distribution, as a trainer sees them.

#[path = "../calls/mod.rs"]
mod calls;
mod common;
mod dealing;
mod distribution;
mod files;
mod idx;
mod numpy;
mod order;
#[path = "../calls/pass.rs"]
mod pass;
mod plan;
mod position;
mod reentry;
mod sharing;
mod skipping;
mod sources;
mod transformations;
