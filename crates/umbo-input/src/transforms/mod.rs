//! Operations that make a dataset of others.

pub(crate) mod batch;
pub(crate) mod batch_parameters;
pub(crate) mod batch_rows;
pub(crate) mod cache;
pub(crate) mod concatenate;
pub(crate) mod filter;
pub(crate) mod full_batches;
pub(crate) mod map;
pub(crate) mod part;
pub(crate) mod prefetch;
pub(crate) mod rebatch;
pub(crate) mod reorder;
pub(crate) mod repeat;
pub(crate) mod sample;
pub(crate) mod shuffle;
pub(crate) mod suspects;
pub(crate) mod unbatch;
pub(crate) mod zip;
