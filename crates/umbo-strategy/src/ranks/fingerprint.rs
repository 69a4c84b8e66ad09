//! Whether all ranks have the same weights: a hash of all variables of a strategy.

#![expect(
    unsafe_code,
    reason = "committed values are looked at while nothing can change them"
)]

use std::hash::{DefaultHasher, Hasher};

use crate::ranks::{Call, CollectiveKind, Ranks};
use crate::setup::central_storage::Strategy;
use umbo_base::error::{Error, Result, Status};

impl Strategy {
    /// A hash of the committed values of all variables that were made in this strategy's scope and
    /// are in use: of names, types, shapes and elements, in the order in which the variables were
    /// made. The same in all processes of one version of the library.
    pub fn fingerprint(&self) -> Result<u64> {
        let variables = self.variables();
        let _unchanging = self.inner().steps.central.read();
        let mut hasher = DefaultHasher::new();
        for variable in &variables {
            hasher.write(variable.name().as_str().as_bytes());
            hasher.write_u64(variable.dtype() as u64);
            variable
                .shape()
                .iter()
                .for_each(|&size| hasher.write_usize(size));
            // SAFETY: committed values do not change while `_unchanging` lives.
            let value = unsafe { variable.committed() }.on_host()?;
            let view = value.reading()?;
            match view.as_bytes() {
                Some(bytes) => hasher.write(bytes),
                None => return Err(Error::Internal(format!("{variable:?} is not contiguous"))),
            }
        }
        Ok(hasher.finish())
    }

    /// Compares the weights of all ranks after `step` steps, if the option is set and a comparison
    /// is due.
    pub(crate) fn check_weights(&self, ranks: &Ranks, step: u64) -> Result<()> {
        let interval = self.inner().options.fingerprint_interval;
        if interval == 0 || step == 0 || !step.is_multiple_of(interval) {
            return Ok(());
        }
        let fingerprint = self.fingerprint();
        let numbers = [*fingerprint.as_ref().unwrap_or(&0), 0];
        let call = Call {
            numbers,
            ..Call::to(CollectiveKind::Fingerprint, &"the comparison of weights")
        };
        let (collective, _) = ranks.start_collective(call, fingerprint)?;
        let all: Vec<u64> = collective.numbers().map(|[of_rank, _]| of_rank).collect();
        let Some(rank) = all.iter().position(|of_rank| *of_rank != all[0]) else {
            return Ok(());
        };
        let lines: Vec<String> = all
            .iter()
            .enumerate()
            .map(|(rank, of_rank)| format!("rank {rank} {of_rank:016x}"))
            .collect();
        Err(Error::Rank {
            rank: Some(rank),
            status: Status::DataLoss,
            message: format!(
                "after step {step} the ranks have different weights; their fingerprints are {}. \
                 Assign the same values on all ranks outside of replica context, and resume from a \
                 checkpoint",
                lines.join(", ")
            ),
        })
    }
}
