//! Datasets, their transformations and their distribution, as a trainer sees them.

mod ahead;
mod cardinality;
mod choosing;
mod common;
mod dealing;
mod distribution;
mod files;
mod idx;
mod limits;
#[path = "../messages/mod.rs"]
mod messages;
mod mixing;
mod numpy;
mod order;
mod padding;
mod passed_over;
mod plan;
mod position;
mod sharing;
mod skipping;
mod sources;
mod transformations;
