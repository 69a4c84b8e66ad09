//! The building blocks of C functions: checks, conversions, handles, statuses, callbacks.
//!
//! From the outside in:
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

pub(crate) mod arguments;
pub(crate) mod boundary;
pub(crate) mod c_string;
pub(crate) mod callback;
pub(crate) mod checked_step;
mod constant_names;
pub(crate) mod constants;
pub mod first_batch;
pub(crate) mod handle;
pub(crate) mod hazard;
pub(crate) mod made_handles;
pub mod object;
pub(crate) mod options;
pub(crate) mod pointers;
pub(crate) mod prelude;
pub(crate) mod records;
pub mod status;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod user_data;
