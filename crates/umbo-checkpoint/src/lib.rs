//! Checkpoints: one file with everything that training needs to continue as if it had not stopped.
//!
//! - [`saveable`]: the traits of objects that can be in a checkpoint. [`mismatch`]: how a file and
//!   the objects may differ.
//! - `atomic`: a file that exists as a whole or not at all. `header`, `header_scan`, `metadata`:
//!   the file format; `numbers`: the numbers in it. `snapshot`: the contents of a file; `writer`,
//!   [`reader`]: files; `source`: the bytes of a file, or memory; `memory`: checkpoints in memory
//!   of the caller; `furthest`: the state of the rank that is furthest, for all ranks; `parts`:
//!   the files of several ranks. `fitting`, `wanted`: which tensors are read; `loading`: reading
//!   many at once.
//! - `objects`: variables, optimizers, gradients, metrics, the caller's tensors, numbers, strings.
//!   `strings`: setting, getting and looking up the strings.
//! - [`bundle`]: the objects that are saved and restored together. `saving`: how they are saved.
//! - [`manager`]: saves and restores in a folder. `shelf`: which files are there, in which order,
//!   and which are kept; `folder`: their names; `held_folder`: the folder itself, whatever its path
//!   leads to later; `homes`: which training saves there; `background`: the writing thread.
//! - [`weight_files`]: variables alone, from files of any program; `conversion`: from tensors of
//!   another floating-point type; `index_file`: from several files with an index.
//!   [`weight_export`]: variables alone, written for other programs.
//! - [`arrays`]: single tensors as NumPy's files.
//!
//! The format is described in `docs/internals/formats.md`.

#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

#[cfg_attr(not(feature = "files"), path = "arrays_absent.rs")]
pub mod arrays;
pub mod atomic;
mod background;
pub mod bundle;
mod claimed_folders;
mod conversion;
mod fitting;
mod folder;
mod furthest;
mod header;
mod header_scan;
mod held_folder;
mod index_file;
mod loading;
pub mod manager;
mod manager_options;
mod memory;
mod metadata;
mod mismatch;
mod numbers;
mod objects;
mod parts;
pub mod reader;
pub mod saveable;
mod saving;
mod shelf;
mod snapshot;
mod source;
mod strings;
mod wanted;
pub mod weight_export;
pub mod weight_files;
mod writer;

/// The names of the optional parts that this crate was built with, except `files`, whose arrays
/// other crates read.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "checkpoints")]
    "checkpoints",
];

pub use bundle::{CallersTensor, Checkpoint, Counter, Number, SavedIterator};
pub use manager::Manager;
pub use manager_options::ManagerOptions;
pub use objects::string::LONGEST_STRING;
pub use saveable::Saveable;
pub use strings::saved_string;
pub use weight_export::SaveWeightsOptions;
pub use weight_files::{LoadWeightsOptions, LoadedWeights, MapName};
