//! Gradients and optimizers, driven as a strategy drives them.

mod accumulation;
#[path = "../allocator/mod.rs"]
mod allocator;
mod certificate;
mod contract;
mod copies;
mod eight_bit;
mod factored;
mod factored_crossings;
mod failures;
mod features;
#[path = "../fresh/mod.rs"]
mod fresh;
mod large_gradients;
mod matrices;
#[path = "../messages/mod.rs"]
mod messages;
mod narrow;
mod neighbours_contract;
mod oracle;
#[path = "../together/pairwise.rs"]
mod pairwise;
mod plain;
mod progress;
mod rounding;
mod row_changes;
mod rows;
mod rows_contract;
#[cfg(target_os = "linux")]
mod rows_memory;
mod schedules;
#[path = "../sets/mod.rs"]
mod sets;
mod setup;
mod steady;
mod transaction;
