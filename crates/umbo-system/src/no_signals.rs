//! Signals to threads, on systems that send none.

/// Nothing is blocked.
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
