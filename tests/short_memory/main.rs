//! Memory that is short for a while. Alone in its process, whose requests for memory it refuses, on all threads.

mod epochs;
mod input;
mod refusal;

use refusal::{alone, is_short, serve};
