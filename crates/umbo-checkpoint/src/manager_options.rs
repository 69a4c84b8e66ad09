//! The options of a manager of files.

use std::time::Duration;

/// The files that are kept, and the times at which they are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManagerOptions {
    /// How many of the newest files are kept; at least 1.
    pub max_to_keep: usize,
    /// How many of the files with the best metric are kept in addition to the newest.
    pub max_best_to_keep: usize,
    /// Whether a larger metric is better.
    pub larger_is_better: bool,
    /// A file is due once this number of steps has passed since the last one; at least 1. With
    /// `None`, steps do not matter.
    pub every_steps: Option<u64>,
    /// A file is due once this time has passed since the last one.
    pub every: Option<Duration>,
    /// Whether another thread writes files while training continues. If the process ends before
    /// they are written, they are lost.
    pub asynchronous: bool,
    /// Whether the existing files are those of another training. They are then ignored, and the
    /// first save moves them to a folder of their own.
    pub start_fresh: bool,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions {
            max_to_keep: 5,
            max_best_to_keep: 0,
            larger_is_better: false,
            every_steps: Some(1),
            every: None,
            asynchronous: false,
            start_fresh: false,
        }
    }
}
