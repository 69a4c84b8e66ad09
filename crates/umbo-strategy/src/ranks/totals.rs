//! Totals that the ranks add up at commit points.

use std::sync::{Arc, Weak};

use super::wire::{Reader, Writer};
use umbo_base::error::Result;

/// Totals of what the replicas of all ranks add in steps.
pub trait Totals: Send + Sync {
    /// Calls a function with what the totals are of, in words, which are the same on all ranks.
    fn with_definitions(&self, look: &mut dyn FnMut(&str));

    /// Encodes what this rank's replicas have added in step `step`.
    fn encode(&self, step: u64, to: &mut Writer) -> Result<()>;

    /// Decodes what one rank has added, and adds it. It is called for the ranks in order.
    fn decode(&self, from: &mut Reader<'_>) -> Result<()>;
}

/// The totals in use, by their registration number.
#[derive(Default)]
pub(super) struct AllTotals {
    made: u64,
    known: Vec<(u64, Weak<dyn Totals>)>,
}

impl AllTotals {
    pub fn add(&mut self, totals: Weak<dyn Totals>) {
        self.known.retain(|(_, known)| known.strong_count() > 0);
        self.made += 1;
        self.known.push((self.made, totals));
    }

    pub fn has_some(&self) -> bool {
        self.known.iter().any(|(_, known)| known.strong_count() > 0)
    }

    pub fn in_use(&self) -> Vec<(u64, Arc<dyn Totals>)> {
        let alive = |(number, known): &(u64, Weak<dyn Totals>)| Some((*number, known.upgrade()?));
        self.known.iter().filter_map(alive).collect()
    }
}
