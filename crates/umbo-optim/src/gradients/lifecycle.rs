//! The contributions of a step, and what becomes of them: a step is joined, committed or
//! rolled back, and an apply claims the committed contributions and consumes them.

use std::mem;
use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use crate::gradients::Gradients;
use crate::gradients::contributions::Contributions;
use crate::gradients::guard::Guard;
use crate::gradients::replica::{GradientBuffer, Replica};
use crate::gradients::step_state::StepPhase;
use umbo_base::error::{Error, Result};
use umbo_strategy::commit::StepParticipant;

impl Gradients {
    /// Whether the gradients take part in this step, or in a later one.
    pub(crate) fn takes_part_in(&self, step: u64) -> bool {
        self.step.last().0 >= step
    }

    /// Makes `step` the one whose contributions count; those of earlier steps count no more.
    /// Returns true to exactly one caller a step, who then lets the gradients take part in the
    /// step's commit. Call it before a replica's [`Gradients::view`] or [`Gradients::submit`];
    /// after the first call it costs one load.
    pub fn try_begin_step(&self, step: u64) -> bool {
        self.step.begin(step)
    }

    /// Refuses another step while contributions of an earlier step wait for an apply: they would be
    /// replaced silently. Contributions of weight 0 do not count.
    pub(crate) fn check_applied(&self) -> Result<()> {
        let (step, phase) = self.step.last();
        let contributed = |replica: &CachePadded<Replica>| {
            replica.submitted.load(Ordering::Acquire) == step && replica.weight() != 0.0
        };
        if phase != StepPhase::Ready
            || self.step.has_failed_apply(step)
            || !self.replicas.iter().any(contributed)
        {
            return Ok(());
        }
        Err(Error::precondition(
            "gradients: what the run before this one submitted has not been applied, and this run \
             would replace it. Apply after each run; to add several runs up, make the gradients \
             with accumulation_steps and apply after each of them; to drop what was submitted, \
             make new gradients. A step that evaluates submits nothing",
        ))
    }

    /// The step whose contributions can be applied: the last one if it was committed, or, at the
    /// commit point of step `committing`, that step. Fails if there is none, if a replica did not
    /// submit in it, or if the weights have no finite sum. With `flush`, and if earlier runs are
    /// accumulated, it may be that there are none.
    pub(crate) fn applicable(
        &self,
        committing: Option<u64>,
        flush: bool,
    ) -> Result<Contributions<'_>> {
        let (step, phase) = self.step.last();
        match phase {
            StepPhase::Applied | StepPhase::RolledBack if flush && self.accumulation().runs > 0 => {
                return Ok(Contributions::none(step));
            }
            StepPhase::Ready => {}
            StepPhase::InFlight if committing == Some(step) => {}
            // This is the step's own apply, as in an epoch: contributions from before the step do
            // not matter.
            StepPhase::Applied | StepPhase::RolledBack if committing.is_some() => {
                return Err(Error::precondition(
                    "gradients: no replica submitted any in this step, which is to apply them; \
                     each replica submits once in each step, even one without examples",
                ));
            }
            StepPhase::Applied if step == 0 => {
                return Err(Error::precondition(
                    "gradients: there has been no run that submitted any; run a step first",
                ));
            }
            StepPhase::Applied => {
                return Err(Error::precondition(
                    "gradients: they have been applied, and there was no run that submitted new \
                     ones since the last apply; apply once for each run",
                ));
            }
            StepPhase::RolledBack => {
                return Err(Error::precondition(
                    "gradients: the last run failed, or its apply over several ranks did, so its \
                     contributions were dropped; run the step again before the apply",
                ));
            }
            StepPhase::InFlight => {
                return Err(Error::precondition(
                    "gradients: the step that writes them is still running; apply after it",
                ));
            }
        }
        let contributions = self.contributions(step);
        contributions.check_submitted(&self.devices)?;
        check_finite(contributions.total_weight(), "the replicas' weights")?;
        Ok(contributions)
    }

    /// The contributions to `step`, which [`Gradients::applicable`] found.
    pub(crate) fn contributions(&self, step: u64) -> Contributions<'_> {
        Contributions {
            replicas: &self.replicas,
            step,
        }
    }

    /// Reserves the contributions for one apply, until [`Gradients::release`].
    pub(crate) fn claim(&self) -> Result<Claim<'_>> {
        if !self.step.claim() {
            return Err(Error::precondition(
                "gradients: they are applied twice in one step; apply once for each run, and not \
                 in the step of an epoch, which applies by itself",
            ));
        }
        Ok(Claim(self))
    }

    /// The apply that has claimed the contributions is about to overwrite them. If it fails, they
    /// count as those of a failed step.
    pub(crate) fn consume(&self) {
        self.step.consume();
        let first = self
            .replicas
            .iter()
            .take(1)
            .flat_map(|replica| &replica.buffers);
        first
            .filter_map(GradientBuffer::guard)
            .for_each(Guard::is_in_use);
    }

    /// Gives up the reservation, or ends it once the contributions of step `applied` are consumed.
    pub(crate) fn release(&self, applied: Option<u64>) {
        self.step.release(applied, || self.poison_buffers());
    }

    /// Whether what replicas contribute in `step` counts, or may come to count.
    pub(crate) fn counts(&self, step: u64) -> bool {
        let (last, phase) = self.step.last();
        last == step && matches!(phase, StepPhase::InFlight | StepPhase::Ready)
    }
}

/// Refuses weights whose sum is not finite.
pub(crate) fn check_finite(total: f64, weights: &str) -> Result<()> {
    if total.is_finite() {
        return Ok(());
    }
    Err(invalid!(
        "weight",
        "{weights} have no finite sum; weigh by examples or smaller numbers"
    ))
}

/// A reservation that ends when this is dropped, unless [`Claim::keep`] was called.
pub(crate) struct Claim<'a>(&'a Gradients);

impl Claim<'_> {
    /// Keeps the reservation until [`Gradients::release`].
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release(None);
    }
}

impl StepParticipant for Gradients {
    fn join(&self, step: u64) -> bool {
        self.try_begin_step(step)
    }

    fn commit(&self, step: u64) {
        self.step.commit(step);
    }

    fn roll_back(&self, step: u64) {
        self.step.roll_back(step);
    }

    fn release_resources(&self) {
        Gradients::release_lent(self);
    }
}
