//! The only thread.

use std::thread::JoinHandle;

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

/// There are no signals.
pub struct BlockedSignals;

impl BlockedSignals {
    /// Blocks nothing.
    #[expect(
        clippy::new_without_default,
        reason = "on other systems it changes the thread, and is not a value"
    )]
    pub fn new() -> BlockedSignals {
        BlockedSignals
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {}
}
