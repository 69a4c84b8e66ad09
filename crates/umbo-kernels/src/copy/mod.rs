//! Copies, fills, concatenations, and additions in place.

pub mod combine;
pub mod concatenate;
pub mod layouts;
