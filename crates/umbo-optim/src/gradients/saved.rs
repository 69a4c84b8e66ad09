//! Export and import of gradients that were accumulated over several runs.
//!
//! The caller holds the step lock of the gradients' strategy.

use crate::gradients::Gradients;
pub use crate::gradients::accumulation::AccumulatedSum;
use crate::gradients::accumulation::PreparedSum;
use umbo_base::error::{Error, Result};

/// The sums of all contributions since the last update. They do not depend on the number of
/// replicas.
#[derive(Debug)]
pub struct AccumulatedRuns {
    /// How many runs.
    pub runs: u64,
    /// The sum of their weights.
    pub weight: f64,
    /// The sums of the variables that one of the runs wrote, in the variables' order.
    pub sums: Vec<AccumulatedSum>,
}

/// The same, ready to be imported.
pub struct PreparedRuns {
    runs: u64,
    weight: f64,
    sums: Vec<PreparedSum>,
}

impl Gradients {
    /// A description of the gradients that wait for an update, with their variables; `None` if
    /// there are none. The caller prevents steps from adding to them.
    pub fn unapplied(&self) -> Result<Option<String>> {
        let held = match (self.check_applied(), self.accumulation().runs) {
            (Err(_), 0) => "what the last run submitted".to_owned(),
            (Err(_), runs) => format!("what the last run submitted and {runs} before it"),
            (Ok(()), 0) => return Ok(None),
            (Ok(()), runs) => format!("accumulated runs ({runs})"),
        };
        let variables = self.variables();
        let mut names: Vec<_> = variables
            .iter()
            .take(3)
            .map(|variable| format!("'{}'", variable.name()))
            .collect();
        if variables.len() > names.len() {
            names.push(format!("{} more", variables.len() - names.len()));
        }
        Ok(Some(format!("{held}, of {}", names.join(", "))))
    }

    /// A copy of the accumulated gradients. FAILED_PRECONDITION if a run has submitted gradients
    /// that were not applied, since they would be lost; and with several ranks if anything is
    /// accumulated.
    pub fn export(&self) -> Result<AccumulatedRuns> {
        if self.check_applied().is_err() {
            return Err(Error::precondition(
                "gradients: what the last run submitted has not been applied, and would be left \
                 out; apply first",
            ));
        }
        let accumulation = self.accumulation();
        if accumulation.runs > 0 && !self.ranks().is_alone() {
            return Err(Error::precondition(format!(
                "gradients: {} runs are accumulated, of which each rank has its own part; save \
                 after the update that takes them, or flush them first",
                accumulation.runs
            )));
        }
        let sums = (0..self.variables().len()).map(|index| accumulation.export(index));
        let sums = sums.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(AccumulatedRuns {
            runs: accumulation.runs,
            weight: accumulation.weight,
            sums,
        })
    }

    /// Makes all ready for [`Gradients::import`]. Changes nothing that can be seen. The sums have
    /// been checked to be of variables of these gradients, of float64, with rows where these
    /// are row-sparse.
    pub fn prepare_import(&self, from: AccumulatedRuns) -> Result<PreparedRuns> {
        let AccumulatedRuns {
            runs,
            mut weight,
            mut sums,
        } = from;
        // All ranks restore the same sums. Only the first rank keeps them.
        if self.ranks().rank() > 0 {
            weight = 0.0;
            sums.clear();
        }
        let sums = self.accumulation().prepare_import(self.variables(), sums)?;
        Ok(PreparedRuns { runs, weight, sums })
    }

    /// Replaces the accumulated gradients. Gradients that were submitted but not applied are
    /// dropped.
    pub fn import(&self, from: PreparedRuns) -> Result<()> {
        self.accumulation()
            .import(from.runs, from.weight, from.sums)?;
        self.step.clear();
        Ok(())
    }
}
