//! What a strict strategy looks at in what replicas contribute: that they write within their buffers,
//! all of what they said they would, and only between viewing and submitting.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::optimizer::gradients::{GradientMode, Gradients};
use crate::optimizer::guard::Guard;
use crate::optimizer::replica::{Buffer, DenseBuffer, Replica};
use crate::strategy::ReplicaContext;
use crate::strategy::strict_callbacks::{AtReturn, mistake};
use crate::tensor::red_zone::Region;
use crate::values::variable::Variable;

impl Gradients {
    /// To be called before a replica's first view of a variable in a step.
    pub(super) fn begin_strictly(
        &self,
        replica: usize,
        index: usize,
        dense: &DenseBuffer,
        mode: GradientMode,
    ) -> Result<()> {
        let Some(guard) = &dense.guard else { return Ok(()) };
        self.check_poisoned(replica, index, guard)?;
        let is_trial = self.replicas[replica].is_trial.load(Ordering::Acquire);
        guard.begin(mode == GradientMode::Overwrite && !is_trial)
    }

    /// Refuses a buffer that was written though nobody had a view of it.
    fn check_poisoned(&self, replica: usize, index: usize, guard: &Guard) -> Result<()> {
        if !guard.is_poisoned() {
            return Ok(());
        }
        let Some(at) = guard.region.first_changed()? else { return Ok(()) };
        // Said once, of the replica's first such buffer.
        for buffer in &self.replicas[replica].buffers {
            if let Buffer::Dense(DenseBuffer { guard: Some(guard), .. }) = buffer {
                guard.is_in_use();
            }
        }
        let variable = &self.variables()[index];
        Err(mistake(format!(
            "the gradient buffer of {variable:?} of replica {replica} was written at byte {at} without a view \
             of this step: by a view of an earlier one, or beside another buffer; view in each step, and do \
             not keep views"
        )))
    }

    /// Looks at what a replica is about to submit.
    pub(super) fn check_strictly(
        &self,
        replica: usize,
        own: &Replica,
        step: u64,
        weight: f64,
    ) -> Result<()> {
        self.check_fences(replica, own, step)?;
        for (index, buffer) in own.buffers.iter().enumerate() {
            let is_viewed = own.viewed.in_step(index, step);
            let unwritten = match buffer {
                Buffer::Dense(DenseBuffer { guard: Some(guard), .. }) if !is_viewed => {
                    self.check_poisoned(replica, index, guard)?;
                    None
                }
                Buffer::Dense(dense @ DenseBuffer { guard: Some(guard), lent, .. }) => {
                    let overwrites = guard.overwrites.load(Ordering::Acquire) && !lent.is_of(step);
                    let size = self.dtype(index).size();
                    let element = match overwrites && weight != 0.0 {
                        true => guard.region.first_unwritten(size)?,
                        false => None,
                    };
                    let fingerprint = Region::of(&dense.written(step)).fingerprint()?;
                    guard.fingerprint.store(fingerprint, Ordering::Release);
                    element.map(|element| format!("element {element}"))
                }
                Buffer::Rows(rows) if is_viewed && weight != 0.0 => rows.pieces().unwritten()?,
                _ => None,
            };
            if let Some(what) = unwritten {
                let variable = &self.variables()[index];
                return Err(mistake(format!(
                    "replica {replica} submits a gradient of {variable:?} of which it has not written {what}; \
                     write all of what is viewed with UMBO_GRADIENT_OVERWRITE and of the rows that are added, \
                     or view with UMBO_GRADIENT_ADD, which begins with zeros"
                )));
            }
        }
        Ok(())
    }

    /// Refuses what a replica has written outside of its buffers.
    fn check_fences(&self, replica: usize, own: &Replica, step: u64) -> Result<()> {
        for (index, buffer) in own.buffers.iter().enumerate() {
            if !own.viewed.in_step(index, step) {
                continue;
            }
            let variable = &self.variables()[index];
            let breach = match buffer {
                Buffer::Dense(DenseBuffer { guard: Some(guard), lent, .. })
                    if !lent.is_of(step) =>
                {
                    guard.red_zone.breach()?.map(|breach| {
                        outside(replica, "gradient buffer", variable, guard.region.bytes(), &breach)
                    })
                }
                Buffer::Dense(_) => None,
                Buffer::Rows(rows) => rows.pieces().breach()?.map(|found| {
                    outside(replica, found.what, variable, found.bytes, &found.breach)
                }),
            };
            if let Some(error) = breach {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Has what this replica has contributed looked at once more when its callback returns.
    pub(super) fn watch_strictly(self: &Arc<Self>, context: &ReplicaContext) -> Result<()> {
        if !self.is_strict() {
            return Ok(());
        }
        context.at_return(Arc::as_ptr(self) as usize, || {
            let (gradients, replica) = (Arc::clone(self), context.replica());
            Box::new(Contributed { gradients, replica, step: context.step_id() })
        })
    }

    /// What replicas have contributed is used up.
    pub(super) fn poison_buffers(&self) {
        for own in self.replicas.iter().filter(|_| self.is_strict()) {
            for buffer in &own.buffers {
                // Of what cannot be filled with the pattern nothing can be said later.
                if let Buffer::Dense(DenseBuffer { guard: Some(guard), .. }) = buffer
                    && !guard.is_poisoned()
                {
                    let _ = guard.poison();
                }
            }
        }
    }
}

fn outside(
    replica: usize,
    what: &str,
    variable: &Variable,
    bytes: usize,
    breach: &dyn std::fmt::Display,
) -> Error {
    mistake(format!(
        "replica {replica} has written outside of its {what} of {variable:?}, which has {bytes} bytes: {breach}"
    ))
}

/// What one replica contributes in a step.
struct Contributed {
    gradients: Arc<Gradients>,
    replica: usize,
    step: u64,
}

impl AtReturn for Contributed {
    fn key(&self) -> usize {
        Arc::as_ptr(&self.gradients) as usize
    }

    fn check(&self) -> Result<()> {
        let own = &self.gradients.replicas[self.replica];
        self.gradients.check_fences(self.replica, own, self.step)?;
        // What was lent to a step that has ended without this replica is not there any more.
        if own.submitted.load(Ordering::Acquire) != self.step
            || !self.gradients.is_in_flight(self.step)
        {
            return Ok(());
        }
        for (index, buffer) in own.buffers.iter().enumerate() {
            if let Buffer::Dense(dense @ DenseBuffer { guard: Some(guard), .. }) = buffer
                && own.viewed.in_step(index, self.step)
                && Region::of(&dense.written(self.step)).fingerprint()?
                    != guard.fingerprint.load(Ordering::Acquire)
            {
                return Err(mistake(format!(
                    "replica {} has written its gradient of {:?} after it had submitted it; submit last",
                    self.replica,
                    self.gradients.variables()[index]
                )));
            }
        }
        Ok(())
    }
}
