//! The only thread.

use std::thread::JoinHandle;

pub use crate::no_signals::BlockedSignals;

/// The number of the only thread.
#[inline]
pub fn number() -> u32 {
    1
}

/// The name of the only thread.
pub fn name() -> String {
    "main".to_owned()
}

/// No other thread was made, so there is none to compare with.
pub fn is_current<T>(_: &JoinHandle<T>) -> bool {
    false
}

/// The linker chooses the size of the stack, which the program does not know.
pub fn stack_limit() -> Option<usize> {
    None
}
