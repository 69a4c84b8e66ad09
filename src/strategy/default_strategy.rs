//! The strategy that is current where a program has made none.

use std::sync::OnceLock;

use super::central_storage::Strategy;

static DEFAULT: OnceLock<Strategy> = OnceLock::new();

impl Strategy {
    /// The strategy that is current where no other one is: one replica on `CPU:0`. Never freed.
    pub fn default_strategy() -> Strategy {
        if let Some(strategy) = DEFAULT.get() {
            return strategy.clone();
        }
        // Before others wait for it: making one may log, and a sink may call the library.
        let made =
            Strategy::on_host().expect("one replica needs no thread and CPU:0 is always there");
        DEFAULT.get_or_init(|| made).clone()
    }
}
