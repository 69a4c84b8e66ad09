//! Checks of a strict strategy on contributions: replicas write only within their buffers, write
//! everything that they promised, and write only between view and submit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gradients::guard::Guard;
use crate::gradients::replica::{DenseBuffer, GradientBuffer, Replica};
use crate::gradients::{GradientMode, Gradients};
use umbo_base::error::{Error, Result};
use umbo_strategy::ReplicaContext;
use umbo_strategy::context::strict_callbacks::mistake;
use umbo_tensor::red_zone::Region;
use umbo_tensor::values::variable::Variable;

impl Gradients {
    /// Call it before a replica's first view of a variable in a step.
    pub(crate) fn begin_strictly(
        &self,
        replica: usize,
        index: usize,
        dense: &DenseBuffer,
        mode: GradientMode,
    ) -> Result<()> {
        let Some(guard) = &dense.guard else {
            return Ok(());
        };
        self.check_poisoned(replica, index, guard)?;
        let is_trial = self.replicas[replica].is_trial.load(Ordering::Acquire);
        guard.begin(mode == GradientMode::Overwrite && !is_trial)
    }

    /// Refuses a buffer that was written although no view of it was valid.
    fn check_poisoned(&self, replica: usize, index: usize, guard: &Guard) -> Result<()> {
        if !guard.is_poisoned() {
            return Ok(());
        }
        let Some(at) = guard.memory.region.first_changed()? else {
            return Ok(());
        };
        // Only the replica's first such buffer is reported.
        let buffers = self.replicas[replica].buffers.iter();
        buffers
            .filter_map(GradientBuffer::guard)
            .for_each(Guard::is_in_use);
        let variable = &self.variables()[index];
        Err(mistake(format!(
            "the gradient buffer of {variable:?} of replica {replica} was written at byte {at} \
             without a view of this step: by a view of an earlier one, or past the end of another \
             buffer; view in each step, and do not keep views"
        )))
    }

    /// Checks the buffers that a replica is about to submit.
    pub(crate) fn check_strictly(
        &self,
        replica: usize,
        state: &Replica,
        step: u64,
        weight: f64,
    ) -> Result<()> {
        self.check_red_zones(replica, state, step)?;
        for (index, buffer) in state.buffers.iter().enumerate() {
            let is_viewed = state.viewed.in_step(index, step);
            let unwritten = match buffer {
                GradientBuffer::Dense(DenseBuffer {
                    guard: Some(guard), ..
                }) if !is_viewed => {
                    self.check_poisoned(replica, index, guard)?;
                    None
                }
                GradientBuffer::Dense(
                    dense @ DenseBuffer {
                        guard: Some(guard),
                        lent,
                        ..
                    },
                ) => {
                    let overwrites = guard.overwrites.load(Ordering::Acquire) && !lent.is_of(step);
                    let size = self.dtype(index).size();
                    let element = match overwrites && weight != 0.0 {
                        true => guard.memory.region.first_unwritten(size)?,
                        false => None,
                    };
                    let fingerprint = Region::of(&dense.written(step)).fingerprint()?;
                    guard.fingerprint.store(fingerprint, Ordering::Release);
                    element.map(|element| format!("element {element}"))
                }
                GradientBuffer::Rows(rows) if is_viewed && weight != 0.0 => {
                    rows.pieces().unwritten()?
                }
                _ => None,
            };
            if let Some(elements) = unwritten {
                let variable = &self.variables()[index];
                return Err(mistake(format!(
                    "replica {replica} submits a gradient of {variable:?} of which it has not \
                     written {elements}; write all of what is viewed with OVERWRITE and of the \
                     rows that are added, or view with ADD, which begins with zeros"
                )));
            }
        }
        Ok(())
    }

    /// Refuses what a replica has written outside of its buffers.
    fn check_red_zones(&self, replica: usize, state: &Replica, step: u64) -> Result<()> {
        for (index, buffer) in state.buffers.iter().enumerate() {
            if !state.viewed.in_step(index, step) {
                continue;
            }
            let variable = &self.variables()[index];
            let breach = match buffer {
                GradientBuffer::Dense(DenseBuffer {
                    guard: Some(guard),
                    lent,
                    ..
                }) if !lent.is_of(step) => guard.memory.breach()?.map(|breach| {
                    outside(
                        replica,
                        "gradient buffer",
                        variable,
                        guard.memory.region.bytes(),
                        &breach,
                    )
                }),
                GradientBuffer::Dense(_) => None,
                GradientBuffer::Rows(rows) => rows.pieces().breach()?.map(|found| {
                    outside(
                        replica,
                        found.part_name,
                        variable,
                        found.bytes,
                        &found.breach,
                    )
                }),
            };
            if let Some(error) = breach {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Registers a second check of this replica's contribution, for when its callback returns.
    pub(crate) fn watch_strictly(self: &Arc<Self>, context: &ReplicaContext) -> Result<()> {
        if !self.is_strict() {
            return Ok(());
        }
        context.at_return(Arc::as_ptr(self) as usize, || {
            let gradients = Arc::clone(self);
            let replica = context.replica();
            let step = context.step_id();
            Box::new(move || gradients.check_submitted(replica, step))
        })
    }

    /// Fills the buffers with the pattern, after their contributions were consumed.
    pub(crate) fn poison_buffers(&self) {
        let strict = self.replicas.iter().filter(|_| self.is_strict());
        let guards = strict
            .flat_map(|replica| &replica.buffers)
            .filter_map(GradientBuffer::guard);
        for guard in guards.filter(|guard| !guard.is_poisoned()) {
            // Memory that could not be filled with the pattern is not checked later.
            let _ = guard.poison();
        }
    }
}

fn outside(
    replica: usize,
    part_name: &str,
    variable: &Variable,
    bytes: usize,
    breach: &str,
) -> Error {
    mistake(format!(
        "replica {replica} has written outside of its {part_name} of {variable:?}, which has \
         {bytes} bytes: {breach}"
    ))
}

impl Gradients {
    /// Checks one replica's contribution, at the end of its callback.
    fn check_submitted(&self, replica: usize, step: u64) -> Result<()> {
        let state = &self.replicas[replica];
        self.check_red_zones(replica, state, step)?;
        // A gradient that was lent to a step that ended without this replica is gone.
        if state.submitted.load(Ordering::Acquire) != step || !self.step.is_in_flight(step) {
            return Ok(());
        }
        for (index, buffer) in state.buffers.iter().enumerate() {
            if let GradientBuffer::Dense(
                dense @ DenseBuffer {
                    guard: Some(guard), ..
                },
            ) = buffer
                && state.viewed.in_step(index, step)
                && Region::of(&dense.written(step)).fingerprint()?
                    != guard.fingerprint.load(Ordering::Acquire)
            {
                return Err(mistake(format!(
                    "replica {replica} has written its gradient of {:?} after it had submitted \
                     it; submit last",
                    self.variables()[index]
                )));
            }
        }
        Ok(())
    }
}
