//! The C layer: everything that the headers in `include/umbo` declare, and nothing else.
//!
//! A function here converts and checks its arguments, calls the core, and converts what comes
//! back. What a thing does is decided in the core, which knows nothing of C. The conventions that
//! a C programmer has to know (status, last error, ownership, threads, options) stand in the
//! opening comment of `core.h`, which is in `headers/core.h.in`.
//!
//! The machinery, from the outside in:
//!
//! - [`boundary`]: catches panics, turns an `Error` into a status; checks pointers and counts.
//! - [`status`]: status codes and the thread's last error.
//! - [`text`] and [`options`]: C strings and option structs.
//! - [`callback`]: user data with its `destroy`; running a callback and reading its failure.
//! - [`object`]: which handle types there are. [`handle`]: the table behind the handles.
//!   [`hazard`]: how a lookup keeps an object alive without writing to a shared cache line.
//!
//! Then one or more files per noun: [`library`], [`device`], [`tensor`], [`value`], ... A header is a
//! set of whole files, which its skeleton `headers/NOUN.h.in` names; the skeleton also has what a person
//! writes about the noun. What only programs need that follow the reference call by call is in
//! [`tensorflow`].
//!
//! # To add a function
//!
//! 1. Put it into the file of the noun that is its first argument, where it reads best: the
//!    header keeps the order. Write `#[unsafe(no_mangle)] pub unsafe extern "C" fn` out. Self, inputs, callback and `user_data`, options,
//!    outputs last. Integers come in as `i32` or `i64`, never as a Rust enum or `bool`.
//! 2. The doc comment is the header's: what it does, what is given to whom, which errors.
//! 3. `#[c_call(...)]` above it says what is checked and bound before the body, in this order: first the
//!    outputs (`out`), then the inputs (`text`, `array`, `options`, `get`, `borrow`). The crate
//!    `umbo-macros` lists them. It puts the body into [`boundary`], with the function's own name,
//!    which begins the message of an error: the core does not know it. The body does it, then writes
//!    the outputs: nothing is written unless all succeeded. What has checks of other kinds before
//!    these makes them in the body.
//! 4. `borrow` for what neither blocks nor runs the caller's code; `get` (which takes a reference) for
//!    what may.
//! 5. `UPDATE_HEADER=1 cargo test --test header`, and a test in `tests/`.
//!
//! A struct that begins with its size has `#[c_struct(...)]` above it, which says what is not zero by
//! default; `Default` and `UMBO_..._INIT` of the header come from it.
//!
//! # To add a handle type
//!
//! 1. Its object is a small type whose `clone` makes another reference to the same thing.
//! 2. In [`object`]: a line in `objects!`. (Opaque structs, kinds and the constants
//!    `UMBO_HANDLE_...` are there for all nouns.)
//! 3. Its file, listed here and in the skeleton of its header, with `umbo_x_retain` and `umbo_x_release`:
//!    copy those of `tensor.rs`.
//!
//! What a callback is given for the call lies in a `handle::Lent`, which hands out handles that
//! can be neither retained nor released and that are stale once the call is over.

#![expect(unsafe_code, reason = "C programs give and get pointers")]
#![expect(non_camel_case_types, reason = "these are the names of C types")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the header's opening comment states what every pointer must be"
)]

pub mod apply;
pub(crate) mod boundary;
pub(crate) mod callback;
pub mod checkpoint;
pub mod checkpoint_manager;
pub mod cluster_resolver;
pub mod collective;
pub mod communicator;
pub mod communicator_functions;
pub mod communicator_mpi;
pub mod communicator_nccl;
pub mod convert;
pub mod custom_rule;
pub mod dataset;
pub mod dataset_arrays;
pub mod dataset_files;
pub mod dataset_functions;
pub mod dataset_sources;
pub mod device;
pub mod distribution;
pub mod dlpack;
pub mod dtype;
pub mod element_spec;
pub mod equivalence;
pub mod first_batch;
mod gradients;
pub mod gradients_lent;
pub mod gradients_written;
pub(crate) mod handle;
mod hazard;
pub mod indexed_slices;
pub mod initial;
pub mod iterator;
pub mod library;
pub mod metrics;
pub mod object;
pub mod observe;
pub mod optimizer;
pub mod optimizer_options;
pub mod optimizer_settings;
pub mod optimizer_state;
pub(crate) mod options;
mod records;
pub mod replica_context;
pub mod replica_merge;
pub mod replica_thread;
pub mod run;
pub mod scatter;
pub mod scope;
pub mod split;
pub mod status;
pub mod strategy;
pub mod strategy_ranks;
pub mod strategy_variables;
mod sync;
pub mod tensor;
pub mod tensor_files;
pub mod tensorflow;
pub(crate) mod text;
pub mod training;
pub mod update;
pub mod update_rule;
pub mod value;
pub mod value_parts;
pub mod values_from_function;
pub mod variable;
pub mod variable_memory;
pub mod variable_values;
pub mod view;

pub use apply::*;
pub use callback::umbo_destroy_fn;
pub use checkpoint::*;
pub use checkpoint_manager::*;
pub use cluster_resolver::*;
pub use collective::*;
pub use communicator::*;
pub use communicator_functions::*;
pub use communicator_mpi::*;
pub use communicator_nccl::*;
pub use convert::*;
pub use custom_rule::*;
pub use dataset::*;
pub use dataset_arrays::*;
pub use dataset_files::*;
pub use dataset_functions::*;
pub use dataset_sources::*;
pub use device::*;
pub use distribution::*;
pub use dlpack::*;
pub use dtype::*;
pub use element_spec::*;
pub use equivalence::*;
pub use gradients::*;
pub use gradients_written::*;
pub use indexed_slices::*;
pub use initial::*;
pub use iterator::*;
pub use library::*;
pub use metrics::*;
pub use object::*;
pub use observe::*;
pub use optimizer::*;
pub use optimizer_options::*;
pub use optimizer_settings::*;
pub use optimizer_state::*;
pub use replica_context::*;
pub use replica_merge::*;
pub use run::*;
pub use scatter::*;
pub use scope::*;
pub use split::*;
pub use status::*;
pub use strategy::*;
pub use tensor::*;
pub use tensor_files::*;
pub use tensorflow::{
    collective::*, input::*, logical_device::*, strategy::*, update::*, variable::*,
    variable_creator::*,
};
pub use training::*;
pub use update::*;
pub use update_rule::*;
pub use value::*;
pub use value_parts::*;
pub use values_from_function::*;
pub use variable::*;
pub use variable_memory::*;
pub use variable_values::*;
pub use view::*;
