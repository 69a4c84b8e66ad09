//! The C layer: everything that the headers in `include/umbo` declare, and nothing else.
//!
//! A function here converts and checks its arguments, calls the core, and converts what comes
//! back. What a thing does is decided in the core, which knows nothing of C. The conventions that
//! a C programmer has to know (status, last error, ownership, threads, options) stand in the
//! opening comment of `core.h`, which is in `crates/umbo-headers/templates/core.h.in`.
//!
//! C functions are made of what is in [`machinery`]. In [`nouns`] are one or more files per noun:
//! library, device, tensor, value, ... A header is a set of whole files, which its skeleton
//! `crates/umbo-headers/templates/NOUN.h.in` names; the skeleton also has what a person writes
//! about the noun. What only programs need that follow the reference call by call is
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
//!    recurs becomes a function in [`machinery::arguments`].
//! 4. `borrow` for what neither blocks nor runs the caller's code; `get` (which takes a reference)
//!    for what may.
//! 5. `UPDATE_HEADER=1 cargo test --test header`, and a test in `tests/`.
//!
//! A struct that begins with its size has `#[c_struct(...)]` above it, which says what is not zero
//! by default; `Default`, `UMBO_..._INIT` of the header and the structs of C++ come from it.
//!
//! An enum is a `pub type` of an `i32` with its constants below it, whose numbers are a hundred
//! that no other enum has; what is not given is 0. `constants!` says what each
//! stands for in the core, where that is an enum too; `one_of!` is for one place. Both list the
//! valid constants in an error.
//!
//! # To add a handle type
//!
//! 1. Its object is a small type whose `clone` makes another reference to the same thing.
//! 2. In [`machinery::object`]: a line in `objects!`. (Opaque structs, kinds and the constants
//!    `UMBO_HANDLE_...` are there for all nouns.)
//! 3. Its file, listed here and in the skeleton of its header, with `{{handle x}}` behind it, which
//!    makes the inline functions `umbo_x_retain` and `umbo_x_release` over those of
//!    [`nouns::ownership`].
//!
//! Arguments that a callback gets for the call lie in a `handle::LentHandle`, which hands out
//! handles that can be neither retained nor released and that are stale once the call is over.

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

pub mod machinery;
pub mod nouns;
pub mod tensorflow;

pub use machinery::{
    object::*,
    options::{UMBO_STRUCT_MARK, struct_size},
    status::*,
    user_data::umbo_destroy_fn,
};
pub use nouns::{
    apply::*, array_files::*, checkpoint::*, checkpoint_manager::*, checkpoint_weights::*,
    cluster_resolver::*, collective::*, communicator::*, communicator_functions::*,
    communicator_mpi::*, communicator_nccl::*, convert::*, current_context::*, custom_rule::*,
    dataset::*, dataset_files::*, dataset_functions::*, dataset_joined::*, dataset_sources::*,
    device::*, device_gpu::*, diagnostics::*, distribution::*, distribution_from_function::*,
    dlpack::*, dtype::*, element_spec::*, equivalence::*, gradients::*, gradients_written::*,
    indexed_slices::*, initial::*, iterator::*, iterator_position::*, library::*, metrics::*,
    observe::*, optimizer::*, optimizer_options::*, optimizer_rows::*, optimizer_settings::*,
    optimizer_state::*, ownership::*, random::*, replica_choice::*, replica_context::*,
    replica_merge::*, run::*, scatter::*, scope::*, special_numbers::*, split::*, strategy::*,
    strategy_info::*, tensor::*, trainer::*, trainer_calls::*, trainer_parts::*, trainer_rows::*,
    training::*, update::*, update_rule::*, update_rule_options::*, value::*, value_parts::*,
    values_from_function::*, variable::*, variable_flat::*, variable_values::*, view::*,
};
pub use tensorflow::{collective::*, input::*, lists::*, strategy::*, variable_creator::*};
