//! What a manager of files is made with.

use std::time::Duration;

/// How files are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManagerOptions {
    /// How many of the newest files; at least 1.
    pub max_to_keep: usize,
    /// How many of those with the best metric, beside the newest.
    pub max_best_to_keep: usize,
    /// Whether a larger metric is better.
    pub larger_is_better: bool,
    /// A file is due once so many steps have passed since the last one; at least 1. `None`: steps do not
    /// matter.
    pub every_steps: Option<u64>,
    /// A file is due once so much time has passed since the last one.
    pub every: Option<Duration>,
    /// Whether another thread writes files, while training goes on. A process that ends meanwhile loses them.
    pub asynchronous: bool,
    /// The files that are there are of another training: as if they were not, and moved to a folder of their
    /// own by the first save.
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
