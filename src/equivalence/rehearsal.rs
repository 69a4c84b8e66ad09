//! A run that is looked at and then rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::input;
use crate::observe::log;
use crate::optimizer::Gradients;
use crate::optimizer::inspection::{Before, Written};
use crate::optimizer::rows::AddedRows;
use crate::strategy::commit::CommitAction;
use crate::strategy::metrics::Metric;
use crate::strategy::{ReplicaContext, Strategy};
use crate::tensor::{DType, Element, Tensor};
use crate::values::Value;
use crate::values::variable::Variable;

/// What all runs of a check have in common.
pub(super) struct Rehearsal<'a> {
    pub strategy: &'a Strategy,
    pub function: &'a (dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync),
    pub batch: &'a Value,
    pub gradients: Option<&'a Arc<Gradients>>,
}

/// What one replica left.
#[derive(Default)]
pub(super) struct Part {
    /// How many examples its part had.
    pub examples: usize,
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// The gradients that it viewed, one entry for each variable.
    pub gradients: Vec<Option<Vec<f64>>>,
    /// What it added to metrics.
    pub metrics: Vec<(String, Metric)>,
}

impl Part {
    /// The elements of a variable's gradient, if the replica viewed that.
    pub fn gradient(&self, variable: usize) -> Option<&[f64]> {
        self.gradients.get(variable)?.as_deref()
    }

    /// Weight and gradient of a variable, if an apply would read them.
    pub fn counted(&self, variable: usize) -> Option<(f64, &[f64])> {
        let weight = self.weight.filter(|&weight| weight != 0.0)?;
        Some((weight, self.gradient(variable)?))
    }
}

/// What all replicas left, in replica order.
pub(super) type Parts = Vec<Part>;

impl Rehearsal<'_> {
    /// Runs the callback with the rows from `first` on, of which replica k gets the next `sizes[k]`,
    /// and with gradient buffers full of `prefill`. Whatever comes of it, all is then as before.
    pub fn run(&self, first: usize, sizes: &[usize], prefill: f64) -> Result<Parts> {
        let devices = self.strategy.compute_devices();
        let arguments = input::split_rows(self.batch, first, sizes, devices)?;
        let part = |&examples: &usize| Part { examples, ..Part::default() };
        let observer = Arc::new(Observer {
            gradients: self.gradients.cloned(),
            before: Mutex::default(),
            parts: Mutex::new(sizes.iter().map(part).collect()),
            complete: AtomicBool::new(false),
        });
        let observed = |context: &ReplicaContext| {
            observer.begin(context.replica(), prefill)?;
            if context.replica() == 0 {
                // Comes before anything that the callback defers, so that none of it is prepared.
                let (observer, step) = (Arc::clone(&observer), context.step_number());
                self.strategy.defer(Box::new(Veto { observer, step }))?;
            }
            let result = (self.function)(context)?;
            observer.parts.lock()[context.replica()].metrics = context.metrics()?;
            Ok(result)
        };
        let outcome = self.strategy.run(&observed, Some(arguments));
        if observer.complete.load(Ordering::Acquire) {
            return Ok(std::mem::take(&mut *observer.parts.lock()));
        }
        Err(outcome.err().unwrap_or_else(|| Error::Internal("a rehearsal was committed".into())))
    }
}

/// What is noted of one run.
struct Observer {
    gradients: Option<Arc<Gradients>>,
    /// What the gradients were; noted by the first replica that begins.
    before: Mutex<Option<Before>>,
    parts: Mutex<Parts>,
    /// All has been noted that was to be.
    complete: AtomicBool,
}

impl Observer {
    fn begin(&self, replica: usize, prefill: f64) -> Result<()> {
        let Some(gradients) = &self.gradients else { return Ok(()) };
        {
            let mut before = self.before.lock();
            if before.is_none() {
                *before = Some(gradients.remember()?);
            }
        }
        gradients.prefill(replica, prefill)
    }

    fn collect(&self, step: u64) -> Result<()> {
        let Some(gradients) = &self.gradients else { return Ok(()) };
        for (replica, part) in self.parts.lock().iter_mut().enumerate() {
            let contributed = gradients.contributed(step, replica);
            part.weight = contributed.weight;
            if part.examples == 0 && part.weight.unwrap_or(0.0) == 0.0 {
                // Nobody reads what is in its buffers.
                continue;
            }
            let written = contributed.written.into_iter().zip(gradients.variables());
            let elements = written.map(|(written, variable)| match written {
                None => Ok(None),
                Some(Written::Dense(buffer)) => elements_of(buffer).map(Some),
                Some(Written::Rows(rows)) => elements_of_rows(variable, &rows).map(Some),
            });
            part.gradients = elements.collect::<Result<_>>()?;
        }
        Ok(())
    }
}

/// The elements of a gradient buffer.
fn elements_of(buffer: &Tensor) -> Result<Vec<f64>> {
    match buffer.dtype() {
        DType::Float16 => widened::<half::f16>(buffer),
        DType::BFloat16 => widened::<half::bf16>(buffer),
        DType::Float32 => widened::<f32>(buffer),
        DType::Float64 => widened::<f64>(buffer),
        other => Err(Error::Internal(format!("gradients of {other}"))),
    }
}

/// All elements of a gradient of which some rows were given.
fn elements_of_rows(table: &Variable, added: &[AddedRows]) -> Result<Vec<f64>> {
    let (mut all, count) = (Vec::new(), table.shape().elements());
    all.try_reserve_exact(count)
        .map_err(|_| Error::ResourceExhausted(format!("memory for the gradient of {table:?}")))?;
    all.resize(count, 0.0);
    let width = table.shape()[1..].iter().product::<usize>();
    for AddedRows { indices, values } in added {
        let values = elements_of(values)?;
        for (row, index) in indices.to_vec::<i64>()?.into_iter().enumerate() {
            // Submitting has found that the table has these rows.
            let place = usize::try_from(index).ok().and_then(|index| index.checked_mul(width));
            let sum = place.and_then(|place| all.get_mut(place..)?.get_mut(..width));
            let sum = sum.ok_or_else(|| {
                Error::out_of_range("indices", format!("{index} is no row of {table:?}"))
            })?;
            let values = &values[row * width..][..width];
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    Ok(all)
}

fn widened<T: Element + Into<f64>>(buffer: &Tensor) -> Result<Vec<f64>> {
    let elements = buffer.to_vec::<T>()?;
    let mut wide = Vec::new();
    wide.try_reserve_exact(elements.len())
        .map_err(|_| Error::ResourceExhausted(format!("memory for a copy of {buffer:?}")))?;
    wide.extend(elements.into_iter().map(Into::into));
    Ok(wide)
}

/// Looks at what a step is about to commit, and refuses the commit.
struct Veto {
    observer: Arc<Observer>,
    step: u64,
}

impl CommitAction for Veto {
    fn prepare(&mut self) -> Result<()> {
        self.observer.collect(self.step)?;
        self.observer.complete.store(true, Ordering::Release);
        Err(Error::Cancelled("a rehearsal is not committed".into()))
    }

    fn commit(&mut self) {}
}

impl Drop for Veto {
    fn drop(&mut self) {
        // The step's turn is not over yet, so no other step has seen the gradients in between.
        let (gradients, before) = (&self.observer.gradients, self.observer.before.lock().take());
        if let (Some(gradients), Some(before)) = (gradients, before)
            && let Err(error) = gradients.restore(before)
        {
            log::log(log::Level::Error, || format!("gradients are not as they were: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceId;
    use crate::tensor::Shape;

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
