//! Checkpoints: what training needs to go on as if it had not stopped, in one file.
//!
//! - [`saveable`]: what an object does to be in a checkpoint, and what is told of it when it is saved.
//!   [`mismatch`]: how a file and the objects may differ.
//! - `atomic`: a file that is there as a whole or not at all. `header`: the file format.
//!   `writer`, [`reader`]: files. `loading`: many tensors at once.
//! - `objects`: variables, optimizers, gradients, metrics, the caller's tensors and numbers.
//! - [`bundle`]: the objects that are saved and restored together. `saving`: how they are saved.
//! - [`manager`]: which files are kept, `folder`: what their names say, and `background`: who writes them.
//! - [`weights`]: variables alone, from the files of others.
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
pub mod mismatch;
mod objects;
mod parts;
pub mod reader;
pub mod saveable;
mod saving;
pub mod weight_files;
mod writer;

pub use bundle::{CallersTensor, Checkpoint, Number, SavedIterator};
pub use manager::{Manager, ManagerOptions};
pub use saveable::Saveable;
