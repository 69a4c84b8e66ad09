//! How a replica writes and submits gradients in a step.

#![expect(unsafe_code, reason = "a replica's buffers are written for it")]

use std::sync::atomic::Ordering;

use crate::gradients::replica::{DenseBuffer, GradientBuffer, Replica, Viewed};
use crate::gradients::rows::AddedRows;
use crate::gradients::{GradientMode, Gradients};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_strategy::context::strict_callbacks::mistake;
use umbo_tensor::Tensor;
use umbo_tensor::values::indexed_slices::IndexedSlices;

impl Gradients {
    /// Replica `replica`'s buffer for variable `index`, which the replica may write until it
    /// submits. The variable then counts as written by this replica in this step. Nothing is
    /// allocated.
    ///
    /// Fails if there is no such variable, if its gradients are row-sparse, if the step is over, or
    /// if the replica has submitted.
    pub fn view(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        mode: GradientMode,
    ) -> Result<&Tensor> {
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let GradientBuffer::Dense(dense) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {:?} were made for rows (row_sparse); write them with add_rows",
                self.variables()[index]
            )));
        };
        self.check_not_lent(replica, step, index, dense)?;
        let tensor = &dense.tensor;
        let is_first = !viewed.in_step(index, step);
        if is_first && self.is_strict() {
            self.begin_strictly(replica, index, dense, mode)?;
        }
        if mode == GradientMode::Add && is_first {
            // SAFETY: until it submits, only the replica uses the buffer, and this is its thread.
            unsafe { tensor.assume_exclusive() }.fill_zeros()?;
        }
        if is_first {
            viewed.note(index, step);
        }
        Ok(tensor)
    }

    /// Fails, as [`Gradients::view`] would, if replica `replica` cannot view each buffer that is
    /// not for rows.
    pub fn check_views(&self, replica: usize, step: u64) -> Result<()> {
        for index in 0..self.variables().len() {
            if let (GradientBuffer::Dense(dense), _) = self.writable(replica, step, index)? {
                self.check_not_lent(replica, step, index, dense)?;
            }
        }
        Ok(())
    }

    fn check_not_lent(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        dense: &DenseBuffer,
    ) -> Result<()> {
        if !dense.lent.is_of(step) {
            return Ok(());
        }
        Err(Error::precondition(format!(
            "replica {replica} has attached its gradient of {:?} in this step; discard that \
             before you view the buffer",
            self.variables()[index]
        )))
    }

    /// Adds `rows` rows to the contribution of replica `replica` to variable `index`, which the
    /// replica may write until it submits: their indices and their gradients. A row that occurs
    /// several times, here, in another call or by another replica, counts as the sum. The
    /// variable then counts as written by this replica in this step, also with 0 rows.
    /// Allocates nothing once a step had as many rows, in as many calls.
    ///
    /// Fails if there is no such variable, if its gradients are not row-sparse, if there is no
    /// memory, if the step is over, or if the replica has submitted.
    pub fn add_rows(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        rows: usize,
    ) -> Result<AddedRows> {
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let variable = &self.variables()[index];
        let GradientBuffer::Rows(buffer_of_rows) = buffer else {
            return Err(Error::precondition(format!(
                "the gradients of {variable:?} were not made for rows; say so when they are made \
                 (row_sparse), or view and write them"
            )));
        };
        let added = buffer_of_rows.add(variable, step, rows)?;
        viewed.note(index, step);
        Ok(added)
    }

    /// The same with copies of `slices`, which are of the variable's dtype and shape.
    pub fn add_indexed_slices(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        slices: &IndexedSlices,
    ) -> Result<()> {
        let (_, _) = self.writable(replica, step, index)?;
        let variable = &self.variables()[index];
        if (slices.dtype(), slices.dense_shape()) != (self.dtype(index), variable.shape()) {
            let dtype = slices.dtype();
            let shape = slices.dense_shape();
            let problem = format!(
                "slices of {dtype} and shape {shape} for {variable:?}, whose gradients are {}",
                self.dtype(index)
            );
            return Err(Error::invalid("slices", problem));
        }
        let added = self.add_rows(replica, step, index, slices.indices().shape()[0])?;
        // SAFETY: the rows were just added, for this replica to write.
        unsafe {
            added
                .indices
                .assume_exclusive()
                .copy_from(slices.indices())?;
            added.values.assume_exclusive().copy_from(slices.values())
        }
    }

    /// Of the rows that were added to variable `index` in this step ([`Gradients::add_rows`]), as
    /// many stay as there are `numbers`, which become their indices: for a replica that learns row
    /// by row which ones it adds. The replica has written the values of those that stay.
    ///
    /// Fails as [`Gradients::add_rows`], and if fewer rows were added.
    pub fn number_rows(
        &self,
        replica: usize,
        step: u64,
        index: usize,
        numbers: &[i64],
    ) -> Result<()> {
        let (buffer, viewed) = self.writable(replica, step, index)?;
        let GradientBuffer::Rows(rows) = buffer else {
            return Err(Error::Internal(
                "numbers for a gradient without rows".into(),
            ));
        };
        rows.number(step, numbers)?;
        viewed.note(index, step);
        Ok(())
    }

    /// The buffer of replica `replica` for variable `index`, and which variables the replica
    /// viewed.
    pub(crate) fn writable(
        &self,
        replica: usize,
        step: u64,
        index: usize,
    ) -> Result<(&GradientBuffer, &Viewed)> {
        let state = self.replica_in_step(replica, step)?;
        let Some(buffer) = state.buffers.get(index) else {
            let problem = format!(
                "{index} is not in [0, {}), the variables that the gradients were made of, in \
                 that order",
                self.variables().len()
            );
            return Err(Error::out_of_range("index", problem));
        };
        if state.submitted.load(Ordering::Acquire) == step {
            return Err(Error::precondition(format!(
                "replica {replica} has submitted its gradients in this step; view and write them \
                 before"
            )));
        }
        Ok((buffer, &state.viewed))
    }

    /// Submits the contribution of replica `replica` in this step, with `weight`: usually the
    /// number of its examples. With weight 0 the contribution is not read.
    ///
    /// Fails if the weight is not finite or negative, if an index is not a row of its variable, if
    /// the step is over, or if the replica submitted in this step before.
    pub fn submit(&self, replica: usize, step: u64, weight: f64) -> Result<()> {
        let state = self.replica_in_step(replica, step)?;
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(invalid!(
                "weight",
                "{weight}; must be finite and at least 0"
            ));
        }
        if state.submitted.load(Ordering::Acquire) == step {
            return Err(Error::precondition(format!(
                "replica {replica} has submitted its gradients in this step already; submit once"
            )));
        }
        if self.is_strict() {
            self.check_strictly(replica, state, step, weight)?;
        }
        if weight != 0.0 {
            self.check_written(replica, state, step)?;
        }
        // An apply does not read a contribution of weight 0; a trial of a callback does.
        if state.is_remote && (weight != 0.0 || state.is_trial.load(Ordering::Acquire)) {
            state.bring_home(step)?;
        }
        if weight != 0.0 && state.has_rows {
            self.check_rows(replica, state, step)?;
        }
        state.weight.store(weight.to_bits(), Ordering::Release);
        state.submitted.store(step, Ordering::Release);
        Ok(())
    }

    /// Checks that the replica has viewed something. There need be nothing if it withdrew its
    /// contribution, or if all variables are row-sparse.
    fn check_written(&self, replica: usize, state: &Replica, step: u64) -> Result<()> {
        let is_dense = |buffer| matches!(buffer, &GradientBuffer::Dense(_));
        let (wrote, _) = state.viewed.any_and_all(&(0..state.buffers.len()), step);
        let is_meant = state.is_trial.load(Ordering::Acquire)
            || state.discarded_in.load(Ordering::Acquire) == step;
        if wrote || is_meant || !state.buffers.iter().any(is_dense) {
            return Ok(());
        }
        let unwritten = || {
            format!(
                "replica {replica} submits gradients of which it has viewed, attached or added \
                 none in the step, so that all of them are zero; write them first, or \
                 submit with weight 0"
            )
        };
        if self.is_strict() {
            return Err(mistake(unwritten()));
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            log::log(Level::Warning, unwritten);
        }
        Ok(())
    }

    /// Refuses indices that are not rows of their variable.
    fn check_rows(&self, replica: usize, state: &Replica, step: u64) -> Result<()> {
        for (index, (buffer, variable)) in state.buffers.iter().zip(self.variables()).enumerate() {
            if let GradientBuffer::Rows(rows) = buffer
                && state.viewed.in_step(index, step)
            {
                rows.pieces().check(variable, replica)?;
            }
        }
        Ok(())
    }

    fn replica_in_step(&self, replica: usize, step: u64) -> Result<&Replica> {
        if !self.step.is_in_flight(step) {
            return Err(Error::precondition(format!(
                "gradients: step {} is over or has not begun; replicas write gradients inside of \
                 run",
                self.step.shown(step)
            )));
        }
        self.replicas
            .get(replica)
            .map(|state| &**state)
            .ok_or_else(|| out_of_range!("replica", "{replica} of {}", self.replicas.len()))
    }
}
