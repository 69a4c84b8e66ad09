//! What is kept of a buffer while callbacks of a strict strategy see it.

use crate::tensor::Tensor;
use crate::tensor::red_zone::Region;

/// What callbacks see of a buffer and its copies.
#[derive(Default)]
pub(super) struct Shown {
    pub kept: Vec<ShownMemory>,
    /// How many views there are.
    pub views: usize,
}

/// Memory that callbacks see, as it was.
pub(super) struct ShownMemory {
    pub region: Region,
    /// How often the buffer had been written.
    pub writes: u64,
    pub fingerprint: u64,
    /// All of it, if it is the variable's own: copies can be made again from that.
    pub elements: Option<Tensor>,
    pub is_changed: bool,
}
