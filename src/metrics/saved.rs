//! What metrics have accumulated: taken out, and put back.
//!
//! For both the caller has the step lock of the metrics' strategy.

use crate::error::Result;
use crate::metrics::Metrics;
use crate::metrics::kind::MetricKind;
use crate::metrics::total::Total;

impl Metrics {
    /// The id of the strategy whose runs add to them.
    pub fn strategy(&self) -> u64 {
        self.strategy
    }

    /// Names, kinds and a copy of what was accumulated, in the order in which they were defined.
    pub fn export(&self) -> Result<Vec<(String, MetricKind, Total)>> {
        let entries = self.entries.lock();
        let exported = entries
            .iter()
            .map(|entry| Ok((entry.name.as_str().to_owned(), entry.kind, entry.total.copy()?)));
        exported.collect()
    }

    /// Replaces what was accumulated, by one for each metric, of its kind and size. One that was defined since
    /// these were exported stays as it is. Fails while a step adds to them.
    pub fn import(&self, from: Vec<Total>) -> Result<()> {
        let mut entries = self.entries.lock();
        self.check_idle()?;
        for (entry, total) in entries.iter_mut().zip(from) {
            entry.total = total;
        }
        Ok(())
    }
}
