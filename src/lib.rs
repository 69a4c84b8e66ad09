//! The C layer: everything that the headers in `include/umbo` declare, and nothing else.
//!
//! A function here converts and checks its arguments, calls the core, and converts what comes
//! back. What a thing does is decided in the core, which knows nothing of C. The conventions that
//! a C programmer has to know (status, last error, ownership, threads, options) stand in the
//! opening comment of `core.h`, which is in `headers/core.h.in`.
//!
//! The machinery, from the outside in:
//!
//! - [`boundary`]: catches panics, turns an `Error` into a status.
//! - [`arguments`]: checks and converts what comes in; [`pointers`]: arrays, and places for what
//!   goes out.
//! - [`constants`]: which constant of C stands for what in the core.
//! - [`status`]: status codes and the thread's last error.
//! - [`text`], [`c_string`] and [`options`]: texts from C, texts for C, and option structs.
//! - [`user_data`]: a pointer with its `destroy`. [`callback`]: running a callback and reading its
//!   failure.
//! - [`object`]: which handle types there are. [`handle`]: the table behind the handles.
//!   [`hazard`]: how a lookup keeps an object alive without writing to a shared cache line.
//! - [`prelude`]: the names of all these, and of all that the headers declare.
//!
//! Then one or more files per noun: [`library`], [`device`], [`tensor`], [`value`], ... A header is
//! a set of whole files, which its skeleton `headers/NOUN.h.in` names; the skeleton also has what a
//! person writes about the noun. What only programs need that follow the reference call by call is
//! in [`tensorflow`].
//!
//! # To add a function
//!
//! 1. Put it into the file of the noun that is its first argument, where it reads best: the header
//!    keeps the order. It is a `pub fn` with `#[c_call(...)]` above it, which makes it a C function
//!    that returns a status. Self, inputs, callback and `user_data`, options, outputs last.
//!    Integers come in as `i32` or `i64`, never as a Rust enum or `bool`.
//! 2. The doc comment is the header's: what it does, what is given to whom, which errors.
//! 3. The attribute says what is checked and bound before the body, in this order: first the
//!    outputs (`out`), then the inputs (`text`, `array`, `options`, `get`, `borrow`). The crate
//!    `umbo-macros` lists what there is. The body does it, then writes the outputs: nothing is
//!    written unless all succeeded. What has checks of other kinds makes them in the body; what
//!    recurs becomes a function in [`arguments`].
//! 4. `borrow` for what neither blocks nor runs the caller's code; `get` (which takes a reference)
//!    for what may.
//! 5. `UPDATE_HEADER=1 cargo test --test header`, and a test in `tests/`.
//!
//! A struct that begins with its size has `#[c_struct(...)]` above it, which says what is not zero
//! by default; `Default`, `UMBO_..._INIT` of the header and the structs of C++ come from it.
//!
//! An enum is a `pub type` of an `i32` with its constants below it. `constants!` says what each
//! stands for in the core, where that is an enum too; `one_of!` is for one place. Both list the
//! valid constants in an error.
//!
//! # To add a handle type
//!
//! 1. Its object is a small type whose `clone` makes another reference to the same thing.
//! 2. In [`object`]: a line in `objects!`. (Opaque structs, kinds and the constants
//!    `UMBO_HANDLE_...` are there for all nouns.)
//! 3. Its file, listed here and in the skeleton of its header, with `{{handle x}}` behind it, which
//!    makes the inline functions `umbo_x_retain` and `umbo_x_release` over those of [`ownership`].
//!
//! What a callback is given for the call lies in a `handle::LentHandle`, which hands out handles
//! that can be neither retained nor released and that are stale once the call is over.

#![expect(unsafe_code, reason = "C programs give and get pointers")]
#![expect(non_camel_case_types, reason = "these are the names of C types")]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of C functions are Doxygen's: `@param[in]`"
)]
#![expect(
    clippy::missing_safety_doc,
    reason = "the header's opening comment states what every pointer must be"
)]

#[macro_use]
extern crate umbo_core;

pub mod apply;
pub(crate) mod arguments;
pub mod array_files;
pub(crate) mod boundary;
pub(crate) mod c_string;
pub(crate) mod callback;
pub(crate) mod checked_step;
pub mod checkpoint;
pub mod checkpoint_manager;
pub mod cluster_resolver;
pub mod collective;
pub mod communicator;
pub mod communicator_functions;
pub mod communicator_mpi;
pub mod communicator_nccl;
pub(crate) mod constants;
pub mod convert;
pub mod custom_rule;
pub mod dataset;
pub mod dataset_files;
pub mod dataset_functions;
pub mod dataset_sources;
pub mod device;
pub mod device_gpu;
pub mod diagnostics;
pub mod distribution;
pub mod dlpack;
pub mod dtype;
pub mod element_spec;
pub mod equivalence;
pub mod first_batch;
mod gradients;
pub mod gradients_written;
pub(crate) mod handle;
mod hazard;
pub mod indexed_slices;
pub mod initial;
pub mod iterator;
pub mod iterator_position;
mod left_handles;
pub mod library;
mod made_handles;
pub mod metrics;
pub mod object;
pub mod observe;
pub mod optimizer;
pub mod optimizer_options;
pub mod optimizer_settings;
pub mod optimizer_state;
pub(crate) mod options;
pub mod ownership;
mod pointers;
pub(crate) mod prelude;
mod records;
pub mod replica_context;
pub mod replica_merge;
pub mod replica_thread;
pub mod run;
pub mod scatter;
pub mod scope;
pub mod special_numbers;
pub mod split;
pub mod status;
pub mod strategy;
pub mod strategy_info;
mod sync;
pub mod tensor;
pub mod tensorflow;
pub(crate) mod text;
pub mod training;
pub mod update;
pub mod update_rule;
pub(crate) mod user_data;
pub mod value;
pub mod value_parts;
pub mod values_from_function;
pub mod variable;
pub mod variable_values;
pub mod view;

pub use self::{
    apply::*, array_files::*, checkpoint::*, checkpoint_manager::*, cluster_resolver::*,
    collective::*, communicator::*, communicator_functions::*, communicator_mpi::*,
    communicator_nccl::*, convert::*, custom_rule::*, dataset::*, dataset_files::*,
    dataset_functions::*, dataset_sources::*, device::*, device_gpu::*, diagnostics::*,
    distribution::*, dlpack::*, dtype::*, element_spec::*, equivalence::*, gradients::*,
    gradients_written::*, indexed_slices::*, initial::*, iterator::*, iterator_position::*,
    library::*, metrics::*, object::*, observe::*, optimizer::*, optimizer_options::*,
    optimizer_settings::*, optimizer_state::*, ownership::*, replica_context::*, replica_merge::*,
    run::*, scatter::*, scope::*, special_numbers::*, split::*, status::*, strategy::*,
    strategy_info::*, tensor::*, training::*, update::*, update_rule::*, value::*, value_parts::*,
    values_from_function::*, variable::*, variable_values::*, view::*,
};
pub use tensorflow::{collective::*, input::*, lists::*, strategy::*, variable_creator::*};
pub use user_data::umbo_destroy_fn;
