//! The notes about one run of a check, and their end, with which all is as before the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::dry_run::Parts;
use super::variable_snapshot::{VariableSnapshot, WrittenVariable};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result, memory};
use umbo_base::observe::log;
use umbo_executor::computing;
use umbo_kernels::float::gradient_element::for_gradient_dtype;
use umbo_optim::Gradients;
use umbo_optim::gradients::inspection::{Before, WrittenGradient};
use umbo_optim::gradients::rows::AddedRows;
use umbo_strategy::commit::CommitAction;
use umbo_strategy::context::metrics::{Added, Additions, What};
use umbo_strategy::{ReplicaContext, TrialObserver};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Element, Tensor};

/// The notes about one run.
#[derive(Default)]
pub(super) struct Observer {
    gradients: Option<Arc<Gradients>>,
    /// Whether a [`Veto`] has been deferred. The first replica that begins defers one.
    is_vetoed: Mutex<bool>,
    /// The earlier state of the gradients. The first replica that begins saves it.
    before: Mutex<Option<Before>>,
    /// The variables that the callback may view, with their earlier values.
    watched: Mutex<Vec<VariableSnapshot>>,
    written: Mutex<Vec<WrittenVariable>>,
    /// The metrics to which the callback adds, except those of the step itself.
    metrics: Mutex<Vec<Arc<dyn Additions>>>,
    parts: Mutex<Parts>,
    /// Whether everything was noted.
    complete: AtomicBool,
    /// Whether a replica's callback was called.
    called: AtomicBool,
    /// Whether an operation other than the callback has failed.
    failed: AtomicBool,
    presence: Mutex<Presence>,
}

/// The callbacks that a run has. Those that are late are there after it.
#[derive(Default)]
struct Presence {
    callbacks: usize,
    has_ended: bool,
}

impl Observer {
    pub(super) fn new(gradients: Option<Arc<Gradients>>, parts: Parts) -> Observer {
        Observer {
            gradients,
            parts: Mutex::new(parts),
            ..Observer::default()
        }
    }

    /// Returns the result of an operation other than the callback, and notes a failure.
    pub(super) fn own<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    /// Whether everything was noted.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// The notes about the replicas, which are handed over.
    pub(super) fn take_parts(&self) -> Parts {
        std::mem::take(&mut *self.parts.lock())
    }

    /// The variables that were written, which are handed over.
    pub(super) fn take_written(&self) -> Vec<WrittenVariable> {
        std::mem::take(&mut *self.written.lock())
    }

    /// Whether the run's failure, if there is one, is that of the callback. If anything else has
    /// failed, it is not, even if a callback has failed too, which may only have been stopped
    /// because of that.
    pub(super) fn blames_callback(&self) -> bool {
        self.called.load(Ordering::Acquire) && !self.failed.load(Ordering::Acquire)
    }

    /// Calls `callback` on a replica, and notes what it has done.
    pub(super) fn observe(
        self: &Arc<Self>,
        callback: impl FnOnce(&ReplicaContext) -> Result<Option<Value>>,
        context: &ReplicaContext,
        prefill: f64,
    ) -> Result<Option<Value>> {
        let _inside = self.own(self.enter())?;
        self.own(self.begin(context, prefill))?;
        self.called.store(true, Ordering::Release);
        let result = callback(context)?;
        let metrics = self.own(context.metrics())?.into_iter();
        let metrics = metrics.map(|(name, metric)| Added {
            owner: 0,
            name,
            additions: What::Mean(metric),
        });
        if let Some(part) = self.parts.lock().get_mut(context.replica()) {
            part.metrics = metrics.collect();
        }
        Ok(result)
    }

    /// Notes a callback that begins. A run that has ended without it has none any more.
    fn enter(self: &Arc<Self>) -> Result<Inside> {
        let mut presence = self.presence.lock();
        if presence.has_ended {
            return Err(Error::Cancelled("the run has ended before".into()));
        }
        presence.callbacks += 1;
        Ok(Inside(Arc::clone(self)))
    }

    /// The run has ended. If it was given up, the last callback that is late undoes its effects.
    fn end(&self) {
        let is_left = {
            let mut presence = self.presence.lock();
            presence.has_ended = true;
            presence.callbacks == 0
        };
        if is_left {
            self.undo();
        }
    }

    /// Makes variables and gradients as they were before. The step's turn is not over yet, or the
    /// strategy drains, so no other step has used them in between.
    fn undo(&self) {
        self.restore_variables();
        let before = self.before.lock().take();
        if let (Some(gradients), Some(before)) = (&self.gradients, before) {
            gradients.restore(before);
        }
    }

    pub(super) fn begin(self: &Arc<Self>, context: &ReplicaContext, prefill: f64) -> Result<()> {
        {
            let mut is_vetoed = self.is_vetoed.lock();
            if !*is_vetoed {
                // The veto precedes everything that a callback defers, so that nothing deferred is
                // prepared. It also precedes all notes, so that they are undone
                // whatever fails from here on.
                let observer = Arc::clone(self);
                let step = context.step_id();
                context
                    .strategy()
                    .defer(Box::new(Veto { observer, step }))?;
                *is_vetoed = true;
            }
        }
        let Some(gradients) = &self.gradients else {
            return Ok(());
        };
        {
            let mut before = self.before.lock();
            if before.is_none() {
                // Variables that the callback has viewed before are also watched.
                gradients
                    .variables()
                    .iter()
                    .try_for_each(|variable| self.watch(variable))?;
                *before = Some(gradients.remember()?);
            }
        }
        // No lock is held, so that replicas fill their buffers at the same time.
        gradients.prefill(context.replica(), prefill)
    }

    /// Saves the committed value of a variable. Nobody assigns the variable while the step is open.
    fn watch(&self, variable: &Variable) -> Result<()> {
        let mut watched = self.watched.lock();
        if !watched.iter().any(|known| known.is_of(variable)) {
            watched.push(VariableSnapshot::new(variable)?);
        }
        Ok(())
    }

    /// Finds the variables that were written, and restores their values.
    fn restore_variables(&self) {
        let mut written = self.written.lock();
        for watched in self.watched.lock().drain(..) {
            match watched.restored() {
                Ok(found) => written.extend(found),
                Err(error) => log::log(log::Level::Error, || {
                    format!("{:?} is not as it was: {error}", watched.variable())
                }),
            }
        }
    }

    fn collect(&self, step: u64) -> Result<()> {
        let mut metrics = std::mem::take(&mut *self.metrics.lock());
        // The order in which replicas add to metrics is random.
        metrics.sort_by_key(|metrics| metrics.number());
        for (replica, part) in self.parts.lock().iter_mut().enumerate() {
            for metrics in &metrics {
                part.metrics.extend(metrics.added(step, replica)?);
            }
        }
        let Some(gradients) = &self.gradients else {
            return Ok(());
        };
        for (replica, part) in self.parts.lock().iter_mut().enumerate() {
            let contributed = gradients.contributed(step, replica);
            part.weight = contributed.weight;
            let counts = match part.weight {
                // An apply refuses gradients that were not submitted, and so does the check.
                None => continue,
                Some(0.0) if part.examples == 0 => continue,
                Some(weight) => weight != 0.0,
            };
            let written = contributed.written.into_iter().zip(gradients.variables());
            let elements = written.map(|(written, variable)| match written {
                None => Ok(None),
                Some(WrittenGradient::Dense(buffer)) => elements_of(&buffer).map(Some),
                Some(WrittenGradient::Rows(rows)) => {
                    elements_of_rows(variable, &rows, counts).map(Some)
                }
            });
            part.gradients = elements.collect::<Result<_>>()?;
        }
        Ok(())
    }
}

/// The elements of a gradient buffer.
fn elements_of(buffer: &Tensor) -> Result<Vec<f64>> {
    for_gradient_dtype!(buffer.dtype(), T => widened::<T>(buffer))
}

/// All elements of a gradient to which rows were added. Rows that were submitted with weight 0 do
/// not count, and nobody has checked their indices. Such rows are left out if the table has no row
/// with their index.
fn elements_of_rows(table: &Variable, added: &[AddedRows], counts: bool) -> Result<Vec<f64>> {
    let count = table.shape().elements();
    let mut all = memory::filled(count, 0.0, "elements of a gradient")?;
    let width = table.shape()[1..].iter().product::<usize>();
    for AddedRows { indices, values } in added {
        let values = elements_of(values)?;
        for (row, index) in indices.to_vec::<i64>()?.into_iter().enumerate() {
            let place = usize::try_from(index)
                .ok()
                .and_then(|index| index.checked_mul(width));
            let sum = place.and_then(|place| all.get_mut(place..)?.get_mut(..width));
            let sum = match sum {
                Some(sum) => sum,
                None if !counts => continue,
                // Submitting has checked that the table has these rows, so the index was changed
                // later.
                None => {
                    let problem = format!("{index} is not a row of {table:?}");
                    return Err(Error::out_of_range("indices", problem));
                }
            };
            let values = &values[row * width..][..width];
            sum.iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum += value);
        }
    }
    Ok(all)
}

fn widened<T: Element + Into<f64>>(buffer: &Tensor) -> Result<Vec<f64>> {
    let contiguous = buffer.on_host()?.to_contiguous()?;
    let view = contiguous.reading()?;
    let elements = view.as_slice::<T>().unwrap_or_default();
    computing::map(elements, elements.len(), |&element| element.into())
}

/// Observes what a step is about to commit, and refuses the commit.
struct Veto {
    observer: Arc<Observer>,
    step: u64,
}

impl CommitAction for Veto {
    fn prepare(&mut self) -> Result<()> {
        self.observer.own(self.observer.collect(self.step))?;
        self.observer.complete.store(true, Ordering::Release);
        Err(Error::Cancelled("a dry run is not committed".into()))
    }

    fn commit(&mut self) {}
}

/// A callback that has begun and has not returned.
struct Inside(Arc<Observer>);

impl Drop for Inside {
    fn drop(&mut self) {
        let is_last = {
            let mut presence = self.0.presence.lock();
            presence.callbacks -= 1;
            presence.has_ended && presence.callbacks == 0
        };
        if is_last {
            self.0.undo();
        }
    }
}

impl TrialObserver for Observer {
    fn reads(&self, variable: &Variable) -> Result<()> {
        self.own(self.watch(variable))
    }

    fn adds_to(&self, metrics: Arc<dyn Additions>) -> Result<()> {
        let mut known = self.metrics.lock();
        if known.iter().all(|known| known.number() != metrics.number()) {
            known.push(metrics);
        }
        Ok(())
    }
}

impl Drop for Veto {
    fn drop(&mut self) {
        self.observer.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_device::DeviceId;
    use umbo_tensor::Shape;

    #[test]
    fn gradients_of_all_float_types_are_read() {
        fn of<T: Element>(element: T) -> Vec<f64> {
            let shape = Shape::new(&[2]).unwrap();
            elements_of(&Tensor::from_slice(&[element; 2], shape, DeviceId::HOST).unwrap()).unwrap()
        }
        assert_eq!(of(half::f16::from_f32(-1.5)), [-1.5; 2]);
        assert_eq!(of(half::bf16::from_f32(-1.5)), [-1.5; 2]);
        assert_eq!(of(-1.5f32), [-1.5; 2]);
        assert_eq!(of(-1.5f64), [-1.5; 2]);
    }
}
