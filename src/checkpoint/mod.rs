//! Checkpoints: what training needs to go on as if it had not stopped, in one file.
//!
//! - [`saveable`]: what an object does to be in a checkpoint.
//!   [`mismatch`]: how a file and the objects may differ.
//! - `atomic`: a file that is there as a whole or not at all. `header`: the file format.
//!   `snapshot`: what is to be in a file; `writer`, [`reader`]: files; `parts`: those of several ranks.
//!   `wanted`: which tensors are read; `loading`: many at once. [`numbers`]: numbers in a header.
//! - `objects`: variables, optimizers, gradients, metrics, the caller's tensors and numbers.
//! - [`bundle`]: the objects that are saved and restored together. `saving`: how they are saved.
//! - [`manager`]: which files are kept, `folder`: what their names say, and `background`: who writes them.
//! - [`weight_files`]: variables alone, from the files of others.
//! - [`arrays`]: single tensors as NumPy's files.
//!
//! The format is described in `docs/checkpoints.md`.

pub mod arrays;
pub mod atomic;
mod background;
pub mod bundle;
mod folder;
mod header;
mod loading;
pub mod manager;
mod manager_options;
pub mod mismatch;
pub mod numbers;
mod objects;
mod parts;
pub mod reader;
pub mod saveable;
mod saving;
mod snapshot;
mod wanted;
pub mod weight_files;
mod writer;

pub use bundle::{CallersTensor, Checkpoint, Number, SavedIterator};
pub use manager::Manager;
pub use manager_options::ManagerOptions;
pub use saveable::Saveable;
