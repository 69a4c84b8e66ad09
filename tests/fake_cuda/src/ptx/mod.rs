//! PTX: reading it, and executing it thread by thread with every access checked.
//!
//! What clang writes for kernels of this project is known, and nothing else: no calls, no local
//! memory, no warps, no atomic operations, one barrier. Anything else is refused when a module is
//! loaded.

pub mod execute;
pub mod instructions;
pub mod kernel;
pub mod read;
pub mod shadow;
pub mod shared;
pub mod view;
