#![doc = include_str!("README.md")]

pub mod mailbox;
pub mod queue;
pub mod rendezvous;
pub mod turns;
