#![doc = include_str!("README.md")]

pub mod mailbox;
pub mod rendezvous;
pub mod turns;
