//! Which step's contributions count, and what becomes of them: a step is joined, committed or rolled
//! back, and an apply claims what it has committed and uses it up.

use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::optimizer::contributions::Contributions;
use crate::optimizer::gradients::Gradients;
use crate::optimizer::phase::{Phase, pack, unpack};
use crate::optimizer::replica::{Buffer, Replica};
use crate::strategy::commit::StepParticipant;

impl Gradients {
    /// Whether the gradients take part in this step, or in a later one.
    pub(super) fn takes_part_in(&self, step: u64) -> bool {
        unpack(self.state.load(Ordering::Acquire)).0 >= step
    }

    /// A step is known to users by the number `shown`.
    pub(super) fn note_step(&self, step: u64, shown: u64) {
        // What is known to differ is written, so that replicas do not write memory that they share.
        let later = step - shown;
        if self.later.load(Ordering::Relaxed) != later {
            self.later.store(later, Ordering::Relaxed);
        }
    }

    /// The number by which users know the last step in which replicas wrote.
    pub(super) fn shown(&self, step: u64) -> u64 {
        step - self.later.load(Ordering::Relaxed).min(step)
    }

    /// Makes `step` the one whose contributions count; those of earlier steps count no more. Returns true to exactly one caller a step, who then lets the gradients take
    /// part in the step's commit. To be called before a replica's [`Gradients::view`] or
    /// [`Gradients::submit`]; after the first it is a load.
    pub fn first_touch(&self, step: u64) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        while unpack(state).0 < step {
            let fresh = pack(step, Phase::InFlight);
            let exchange =
                self.state.compare_exchange(state, fresh, Ordering::AcqRel, Ordering::Acquire);
            match exchange {
                Ok(_) => return true,
                Err(current) => state = current,
            }
        }
        false
    }

    /// Whether a committed step's contributions wait for an apply.
    pub(super) fn has_unapplied(&self) -> bool {
        unpack(self.state.load(Ordering::Acquire)).1 == Phase::Ready
    }

    /// Refuses another step while what an earlier one has contributed waits for an apply: it would be
    /// replaced, and nobody would hear of it. Contributions of weight 0 are none.
    pub(super) fn check_applied(&self) -> Result<()> {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        let contributed = |own: &CachePadded<Replica>| {
            own.submitted.load(Ordering::Acquire) == step && own.weight() != 0.0
        };
        if phase != Phase::Ready
            || self.refused.load(Ordering::Acquire) == step
            || !self.replicas.iter().any(contributed)
        {
            return Ok(());
        }
        Err(Error::precondition(
            "gradients: what the run before this one submitted has not been applied, and this run \
             would replace it. Apply after each run; to add several runs up, make the gradients with \
             accumulation_steps and apply after each of them; to drop what was submitted, make new \
             gradients. A step that evaluates submits nothing",
        ))
    }

    /// Notes that an apply of what waits has failed: the next step may replace it.
    pub(super) fn note_refused(&self) {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        if phase == Phase::Ready {
            self.refused.store(step, Ordering::Release);
        }
    }

    /// Lets what waits for an apply be none of the steps' business, until the state is put back.
    pub(super) fn set_aside(&self) {
        let (step, _) = unpack(self.state.load(Ordering::Acquire));
        self.state.store(pack(step, Phase::Applied), Ordering::Release);
    }

    /// The step whose contributions can be applied: the last one if it was committed, or, at the
    /// commit point of step `committing`, that step. Fails if there is none, if a replica did not
    /// submit in it, or if the weights have no finite sum. With `flush`, and if earlier runs are
    /// accumulated, it may be that there are none.
    pub(super) fn applicable(
        &self,
        committing: Option<u64>,
        flush: bool,
    ) -> Result<Contributions<'_>> {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        match phase {
            Phase::Applied | Phase::RolledBack if flush && self.accumulation().runs > 0 => {
                return Ok(Contributions::none(step));
            }
            Phase::Ready => {}
            Phase::InFlight if committing == Some(step) => {}
            // It is the step's own apply, as that of an epoch: what was before the step is no help.
            Phase::Applied | Phase::RolledBack if committing.is_some() => {
                return Err(Error::precondition(
                    "gradients: no replica submitted any in this step, which is to apply them; each \
                     replica submits once in each step, also one without examples",
                ));
            }
            Phase::Applied if step == 0 => {
                return Err(Error::precondition(
                    "gradients: there has been no run that submitted any; run a step first",
                ));
            }
            Phase::Applied => {
                return Err(Error::precondition(
                    "gradients: they have been applied, and there was no run that submitted new \
                     ones since the last apply; apply once for each run",
                ));
            }
            Phase::RolledBack => {
                return Err(Error::precondition(
                    "gradients: the last run failed, or its apply over several ranks did, so its \
                     contributions were dropped; run the step again before the apply",
                ));
            }
            Phase::InFlight => {
                return Err(Error::precondition(
                    "gradients: the step that writes them is still running; apply after it",
                ));
            }
        }
        let contributions = self.contributions(step);
        contributions.check_submitted(&self.devices)?;
        let total = contributions.total_weight();
        if !total.is_finite() {
            return Err(Error::invalid(
                "weight",
                "the replicas' weights have no finite sum; weigh by examples or smaller numbers",
            ));
        }
        Ok(contributions)
    }

    /// What the replicas submitted in `step`, which [`Gradients::applicable`] found.
    pub(super) fn contributions(&self, step: u64) -> Contributions<'_> {
        Contributions::of_step(&self.replicas, step)
    }

    /// Reserves the contributions for one apply, until [`Gradients::release`].
    pub(super) fn claim(&self) -> Result<Claim<'_>> {
        if self.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::precondition(
                "gradients: another apply of them waits for the commit point; apply once for each run",
            ));
        }
        Ok(Claim(self))
    }

    /// The apply that has claimed the contributions is about to overwrite them: if it fails they are as those
    /// of a step that has failed.
    pub(super) fn consume(&self) {
        self.consumed.store(true, Ordering::Release);
        let first = self.replicas.iter().take(1).flat_map(|own| &own.buffers);
        first.for_each(Buffer::is_in_use);
    }

    /// Gives up the reservation, or ends it once the contributions of `applied` are used up.
    pub(super) fn release(&self, applied: Option<u64>) {
        let (step, phase) = unpack(self.state.load(Ordering::Acquire));
        let consumed = self.consumed.swap(false, Ordering::AcqRel);
        let becomes = match applied {
            Some(applied) => (applied == step).then_some(Phase::Applied),
            None => (consumed && matches!(phase, Phase::Ready | Phase::InFlight))
                .then_some(Phase::RolledBack),
        };
        if let Some(phase) = becomes {
            self.poison_buffers();
            self.state.store(pack(step, phase), Ordering::Release);
        }
        self.claimed.store(false, Ordering::Release);
    }

    /// Whether `step` is running and has not been rolled back.
    pub(super) fn is_in_flight(&self, step: u64) -> bool {
        self.state.load(Ordering::Acquire) == pack(step, Phase::InFlight)
    }

    /// Whether what replicas contribute in `step` counts, or may come to count.
    pub(super) fn counts(&self, step: u64) -> bool {
        let state = unpack(self.state.load(Ordering::Acquire));
        matches!(state, (last, Phase::InFlight | Phase::Ready) if last == step)
    }

    fn finish(&self, step: u64, phase: Phase) {
        // Fails, and rightly does nothing, if the contributions were applied at the commit point,
        // or all was made as it was before the step (`Gradients::restore`).
        let _ = self.state.compare_exchange(
            pack(step, Phase::InFlight),
            pack(step, phase),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

/// A reservation that ends with this, unless it is to be kept.
pub(super) struct Claim<'a>(&'a Gradients);

impl Claim<'_> {
    /// Keeps the reservation until [`Gradients::release`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release(None);
    }
}

impl StepParticipant for Gradients {
    fn join(&self, step: u64) -> bool {
        self.first_touch(step)
    }

    fn commit(&self, step: u64) {
        self.finish(step, Phase::Ready);
    }

    fn roll_back(&self, step: u64) {
        self.finish(step, Phase::RolledBack);
    }

    fn release_resources(&self) {
        Gradients::release_lent(self);
    }
}
