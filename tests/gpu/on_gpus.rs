//! Whether the engine of ranks moves memory of GPUs.

use std::sync::atomic::{AtomicBool, Ordering};

static MOVES: AtomicBool = AtomicBool::new(false);

/// Whether engines do that now.
pub fn moves_device_memory() -> bool {
    MOVES.load(Ordering::Relaxed)
}

/// Lets all engines do that from now on, or not.
pub fn let_engines_move_memory_of_gpus(do_so: bool) {
    MOVES.store(do_so, Ordering::Relaxed);
}
