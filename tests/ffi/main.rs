//! The C functions as a C program calls them. Handles are counted for the whole process: there is
//! one test at a time.

mod advice;
#[path = "../calls/mod.rs"]
mod calls;
mod function_names;
mod input;
#[path = "../messages/mod.rs"]
mod messages;
mod pass;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
