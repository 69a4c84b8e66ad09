//! Input: datasets, their transformations, and their distribution over replicas.
//!
//! A [`Dataset`] is a description and holds no position: a tree of operations, with what is known
//! of the elements of each. Iterating makes a *pass* from it ([`PassIterator`]). The passes of one
//! dataset are independent of each other. Each operation is a file of its own. It has the method on
//! [`Dataset`] that checks the arguments and makes the operation; its properties, which follow from
//! those of its inputs (`Operation`, or `Reorder` if items of any kind come in another order); and
//! its `IteratorStage`, which does the iterating.
//!
//! Datasets over arrays stay *indexed* through zip, shuffle, take, skip and repeat. These
//! operations work on row numbers alone, and batch then copies each row once, from the array into
//! the batch. If the rows follow each other, batch copies nothing. All other operations work on
//! elements.
//!
//! Files of arrays are a feature, `files`. Without it their functions are there and fail with
//! UNIMPLEMENTED.
//!
//! Elements come from pools, and their memory is filled again once their consumer has dropped them,
//! so that a pass allocates nothing after its first elements.

#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

mod arguments;
mod cardinality;
mod dataset;
mod distribution;
mod elements;
mod passes;
mod properties;
pub mod sources;
mod transforms;

pub use cardinality::Cardinality;
pub use dataset::Dataset;
pub use distribution::input_context::InputContext;
pub use distribution::options::{DistributeOptions, Sharding, Splitting};
pub use distribution::split::{batch_rows, part_sizes, split_arrays_for, split_for, split_rows};
pub use distribution::{
    DistributedDataset, distribute, distribute_dataset, distribute_datasets_from_function,
    distribute_per_replica_batches,
};
pub use elements::padding::PaddingOptions;
pub use elements::spec::{ElementSpec, LeafSpec};
pub use passes::iterator::{LentElement, PassIterator, PreparedPosition};
pub use passes::saved_position::SavedPosition;
pub use sources::files::{File, FilesOptions};
pub use sources::generator::Generator;
pub use sources::numpy::make_numpy_dataset;
pub use transforms::map::MapOptions;
pub use transforms::sample::SampleOptions;
pub use transforms::shuffle::ShuffleOptions;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "files")]
    "files",
];
