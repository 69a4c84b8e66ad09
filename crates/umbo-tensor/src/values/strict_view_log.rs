//! The record of a buffer while callbacks of a strict strategy see it.

use crate::Tensor;
use crate::red_zone::Region;

/// The parts of a buffer and its copies that callbacks see.
#[derive(Default)]
pub(super) struct StrictViewLog {
    pub kept: Vec<ShownMemory>,
    /// The number of views.
    pub views: usize,
}

/// Memory that callbacks see, with its state before them.
pub(super) struct ShownMemory {
    pub region: Region,
    /// The number of times that the buffer had been written.
    pub writes: u64,
    /// A copy of the elements.
    pub before: Tensor,
    pub is_changed: bool,
}
