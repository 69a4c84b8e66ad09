//! A metric whose additions are checked.

use super::dry_run::DryRunPart;
use super::evidence::{Evidence, Id};
use super::report::{Finding, Subject, Verdict};
use umbo_strategy::context::metrics::What;

/// One metric.
pub(super) struct Case<'a> {
    pub evidence: &'a Evidence<'a>,
    pub id: &'a Id,
    /// Whether its sum is compared, and not its mean.
    pub of_sum: bool,
}

impl Case<'_> {
    /// The finding with one replica.
    pub fn alone(&self) -> Finding {
        self.finding(Verdict::Equal, "nothing to compare with on one replica")
    }

    pub fn equal(&self) -> Finding {
        self.finding(Verdict::Equal, "the same")
    }

    /// The additions of the replica of `part`.
    pub fn what<'b>(&self, part: &'b DryRunPart) -> Option<&'b What> {
        let (number, name) = self.id;
        let mut metrics = part.metrics.iter();
        let found = metrics.find(|added| added.owner == *number && added.name == *name);
        found.map(|added| &added.additions)
    }

    pub fn finding(&self, verdict: Verdict, text: impl AsRef<str>) -> Finding {
        let name = self.id.1.clone();
        let text = format!("metric '{name}': {}", text.as_ref());
        Finding::new(Subject::Metric { name }, verdict, text)
    }
}
