//! Kernels of a card, and how they are launched.

use std::collections::HashMap;

use cudarc::driver::sys;

/// The kernels on one card. They stay for as long as the process lives.
#[derive(Debug)]
pub struct Kernels {
    pub(super) functions: HashMap<&'static str, sys::CUfunction>,
}

// SAFETY: functions belong to the card's context, which stays, and every thread may launch them.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes once they are loaded.
unsafe impl Sync for Kernels {}

/// How many blocks of how many threads, and how many bytes of shared memory each has that its code
/// does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes.
    pub shared_bytes: u32,
}

impl Grid {
    /// `blocks` blocks of `threads` threads.
    pub fn new(blocks: u32, threads: u32) -> Grid {
        Grid { blocks: [blocks, 1, 1], threads, shared_bytes: 0 }
    }
}

/// The names of all kernels in a text of PTX, in the order in which they stand there.
pub(super) fn kernel_names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.split(".visible .entry ").skip(1).filter_map(|entry| entry.split('(').next())
}
