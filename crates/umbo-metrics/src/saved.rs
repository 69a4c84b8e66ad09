//! The export and the import of what metrics have accumulated.
//!
//! For both, the caller holds the step lock of the metrics' strategy.

use crate::Metrics;
use crate::kind::MetricDefinition;
use crate::total::Total;
use umbo_base::error::Result;

impl Metrics {
    /// The id of the strategy whose runs add to them.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// Names, definitions and copies of the totals, in the order in which the entries were defined.
    pub fn export(&self) -> Result<Vec<(String, MetricDefinition, Total)>> {
        let entries = self.entries.lock();
        let exported = entries.iter().map(|(name, entry)| {
            Ok((
                name.as_str().to_owned(),
                entry.definition,
                entry.total.copy()?,
            ))
        });
        exported.collect()
    }

    /// Replaces the totals by `from`, which has one total of the same kind and size for each entry
    /// that was exported. An entry that was defined after the export keeps its total. Fails
    /// while a step adds to them.
    pub fn import(&self, from: Vec<Total>) -> Result<()> {
        let mut entries = self.entries.lock();
        self.check_idle()?;
        for (entry, total) in entries.values_mut().zip(from) {
            entry.total = total;
        }
        Ok(())
    }
}
