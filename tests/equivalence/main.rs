//! The check of one replica against many: what it names, what it does not mind, what it leaves.

mod apart;
mod batches;
mod copies;
mod correct;
#[path = "../fresh/mod.rs"]
mod fresh;
mod kinds;
mod left_behind;
#[path = "../messages/mod.rs"]
mod messages;
mod mistakes;
mod network;
mod refusals;
mod rows;
mod setup;
mod shared;
#[path = "../views/mod.rs"]
mod views;
