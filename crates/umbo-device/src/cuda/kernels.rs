//! The kernels of a card.

use std::collections::HashMap;

use cudarc::driver::sys;

/// The kernels on one card. They stay until the process ends.
#[derive(Debug)]
pub struct Kernels {
    pub(super) functions: HashMap<&'static str, sys::CUfunction>,
}

// SAFETY: functions belong to the card's context, which stays, and every thread may launch them.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes once they are loaded.
unsafe impl Sync for Kernels {}

/// The names of all kernels in a text of PTX, in their order in the text.
pub(super) fn kernel_names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.split(".visible .entry ")
        .skip(1)
        .filter_map(|entry| entry.split('(').next())
}
