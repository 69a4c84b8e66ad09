//! Input: datasets, their transformations, and their distribution over replicas.
//!
//! A [`Dataset`] is a description and holds no position: a tree of operations, with what is known
//! of the elements of each. Iterating makes a *pass* from it ([`PassIterator`]). The passes of one
//! dataset are independent of each other. Each operation is a file of its own. It has the method on
//! [`Dataset`] that checks the arguments and makes the operation; its facts, which follow from
//! those of its inputs (`Operation`, or `Reorder` if items of any kind come in another order); and
//! its `Pass`, which does the iterating.
//!
//! Datasets over arrays stay *indexed* through zip, shuffle, take, skip and repeat. These
//! operations work on row numbers alone, and batch then copies each row once, from the array into
//! the batch. If the rows follow each other, batch copies nothing. All other operations work on
//! elements.
//!
//! Elements come from pools, and their memory is filled again once their consumer has dropped them,
//! so that a pass allocates nothing after its first elements.

#![deny(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]

#[macro_use]
extern crate umbo_base;

mod arguments;
mod batch;
mod batch_parameters;
mod batch_rows;
mod batched;
mod cache;
mod cardinality;
mod concatenate;
mod dataset;
mod distribute;
mod distribute_options;
mod element_buffer;
mod facts;
pub mod file;
mod file_shares;
mod files;
mod from_tensors;
mod full_batches;
mod gathered;
mod generator;
mod given;
mod held;
mod idx;
mod in_step;
mod indexed;
mod input_context;
mod iterator;
mod leaves;
mod local_replicas;
mod map;
mod memory;
pub mod npy;
pub mod npz;
mod numbering;
mod numpy;
mod part;
mod pass;
mod place;
mod position;
mod position_text;
mod prefetch;
mod range;
mod rebatch;
mod reorder;
mod repeat;
mod replay_log;
mod round_robin;
mod sample;
mod shuffle;
mod slices;
mod sources;
mod spec;
mod split;
mod stack;
mod suspects;
mod window;
mod work;
mod zip;

pub use cardinality::Cardinality;
pub use dataset::Dataset;
pub use distribute::{
    DistributedDataset, deal, distribute, distribute_dataset, distribute_datasets_from_function,
};
pub use distribute_options::{DistributeOptions, Sharding, Splitting};
pub use files::{File, FilesOptions};
pub use generator::Generator;
pub use input_context::InputContext;
pub use iterator::{PassIterator, PreparedPosition};
pub use map::MapOptions;
pub use numpy::make_numpy_dataset;
pub use shuffle::ShuffleOptions;
pub use spec::{ElementSpec, LeafSpec};
pub use split::{batch_rows, part_sizes, split_for, split_rows};
