//! A run that is observed and then rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::variable_snapshot::{VariableSnapshot, WrittenVariable};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result, memory};
use umbo_base::observe::log;
use umbo_executor::computing;
use umbo_input as input;
use umbo_kernels::float::gradient_element::for_gradient_dtype;
use umbo_optim::Gradients;
use umbo_optim::gradients::inspection::{Before, WrittenGradient};
use umbo_optim::gradients::rows::AddedRows;
use umbo_strategy::commit::CommitAction;
use umbo_strategy::context::metrics::{Added, Additions, What};
use umbo_strategy::{ReplicaContext, Strategy, TrialObserver};
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Element, Tensor};

/// The state that all runs of a check share.
pub(super) struct DryRun<'a> {
    pub strategy: &'a Strategy,
    pub function: &'a (dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync),
    pub batch: &'a Value,
    pub gradients: Option<&'a Arc<Gradients>>,
}

/// The results of one replica.
#[derive(Default)]
pub(super) struct DryRunPart {
    /// The number of examples the replica's part had.
    pub examples: usize,
    /// The weight with which it submitted, if it did.
    pub weight: Option<f64>,
    /// The gradients that it viewed, one entry for each variable.
    pub gradients: Vec<Option<Vec<f64>>>,
    /// Its additions to metrics.
    pub metrics: Vec<Added>,
}

impl DryRunPart {
    /// The elements of a variable's gradient, if the replica viewed that.
    pub fn gradient(&self, variable: usize) -> Option<&[f64]> {
        self.gradients.get(variable)?.as_deref()
    }

    /// The weight and the gradient of a variable, if an apply would read them.
    pub fn counted(&self, variable: usize) -> Option<(f64, &[f64])> {
        let weight = self.weight.filter(|&weight| weight != 0.0)?;
        Some((weight, self.gradient(variable)?))
    }
}

/// The results of all replicas, in replica order.
pub(super) type Parts = Vec<DryRunPart>;

/// The result of a run.
pub(super) struct DryRunOutcome {
    pub parts: Result<Parts, Failure>,
    /// The variables that the callback wrote through views of them. Their values have been
    /// restored.
    pub written: Vec<WrittenVariable>,
}

/// The cause of a run's failure.
#[derive(Debug)]
pub(super) enum Failure {
    /// The callback has failed, or its replicas return or merge values that do not match.
    Callback(Error),
    /// The failure does not depend on the callback: there was no turn for the run, or no memory for
    /// its evidence.
    Library(Error),
}

impl Failure {
    pub fn into_error(self) -> Error {
        match self {
            Failure::Callback(error) | Failure::Library(error) => error,
        }
    }
}

impl DryRun<'_> {
    /// Runs the callback with the rows from `first` on. Replica k gets the next `sizes[k]` rows,
    /// and gradient buffers are filled with `prefill`. Whatever the result, all state is then
    /// as before.
    pub fn run(&self, first: usize, sizes: &[usize], prefill: f64) -> DryRunOutcome {
        let devices = self.strategy.replica_devices();
        let arguments = match input::split_rows(self.batch, first, sizes, devices) {
            Ok(arguments) => arguments,
            Err(error) => {
                return DryRunOutcome {
                    parts: Err(Failure::Library(error)),
                    written: Vec::new(),
                };
            }
        };
        let part = |&examples: &usize| DryRunPart {
            examples,
            ..DryRunPart::default()
        };
        let parts = sizes.iter().map(part).collect();
        let observer = Arc::new(Observer::new(self.gradients.cloned(), parts));
        let observed = |context: &ReplicaContext| {
            observer.own(observer.begin(context, prefill))?;
            observer.called.store(true, Ordering::Release);
            let result = (self.function)(context)?;
            let metrics = observer.own(context.metrics())?.into_iter();
            let metrics = metrics.map(|(name, metric)| Added {
                owner: 0,
                name,
                additions: What::Mean(metric),
            });
            observer.parts.lock()[context.replica()].metrics = metrics.collect();
            Ok(result)
        };
        let watcher = Arc::clone(&observer) as Arc<dyn TrialObserver>;
        let outcome = self.strategy.try_out(&observed, Some(arguments), watcher);
        let parts = match outcome {
            _ if observer.complete.load(Ordering::Acquire) => {
                Ok(std::mem::take(&mut *observer.parts.lock()))
            }
            Err(error) if observer.blames_callback() => Err(Failure::Callback(error)),
            Err(error) => Err(Failure::Library(error)),
            Ok(_) => Err(Failure::Library(Error::Internal(
                "a dry run was committed".into(),
            ))),
        };
        DryRunOutcome {
            parts,
            written: std::mem::take(&mut *observer.written.lock()),
        }
    }
}

/// The notes about one run.
#[derive(Default)]
struct Observer {
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
}

impl Observer {
    fn new(gradients: Option<Arc<Gradients>>, parts: Parts) -> Observer {
        Observer {
            gradients,
            parts: Mutex::new(parts),
            ..Observer::default()
        }
    }

    /// Returns the result of an operation other than the callback, and notes a failure.
    fn own<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    /// Whether the run's failure, if there is one, is that of the callback. If anything else has
    /// failed, it is not, even if a callback has failed too, which may only have been stopped
    /// because of that.
    fn blames_callback(&self) -> bool {
        self.called.load(Ordering::Acquire) && !self.failed.load(Ordering::Acquire)
    }

    fn begin(self: &Arc<Self>, context: &ReplicaContext, prefill: f64) -> Result<()> {
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
        self.observer.restore_variables();
        // The step's turn is not over yet, so no other step has used the gradients in between.
        let gradients = &self.observer.gradients;
        let before = self.observer.before.lock().take();
        if let (Some(gradients), Some(before)) = (gradients, before) {
            gradients.restore(before);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "a test writes gradients as a replica does")]

    use std::sync::Barrier;

    use super::*;
    use umbo_device::DeviceId;
    use umbo_optim::rules::sgd::Sgd;
    use umbo_optim::{GradientMode, LossReduction, Optimizer, apply};
    use umbo_strategy::Options;
    use umbo_strategy::variables::{self, Initial, NewVariable};
    use umbo_tensor::Shape;
    use umbo_tensor::values::variable::{Aggregation, Synchronization};

    /// A variable, which is zero, and gradients to which each of two replicas has contributed 1,
    /// which were applied.
    fn contributed() -> (Strategy, Variable, Arc<Gradients>) {
        let strategy = Strategy::new(&Options {
            cpu_replicas: 2,
            ..Options::default()
        })
        .unwrap();
        let new = NewVariable {
            name: "w".into(),
            trainable: None,
            synchronization: Synchronization::Auto,
            aggregation: Aggregation::Mean,
        };
        let initial = Tensor::scalar(0.0f32).unwrap();
        let variable = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
        let devices = strategy.replica_devices();
        let variables = vec![variable.clone()];
        let reduction = LossReduction::Sum;
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            variables,
            reduction,
            Default::default(),
        )
        .unwrap();
        let contribute = |context: &ReplicaContext| {
            let one = Tensor::scalar(1.0f32)?;
            let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
            // SAFETY: the buffer is this replica's until it submits.
            unsafe { buffer.assume_exclusive() }.copy_from(&one)?;
            gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        strategy.run(&contribute, None).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        apply(&optimizer, &gradients).unwrap();
        (strategy, variable, gradients)
    }

    /// Gradients are as before even if only replica 1 has begun.
    #[test]
    fn gradients_are_kept_if_replica_0_fails_early() {
        let (strategy, variable, gradients) = contributed();
        let observer = Arc::new(Observer::new(Some(Arc::clone(&gradients)), Vec::new()));
        let begun = Barrier::new(2);
        let step = |context: &ReplicaContext| {
            if context.replica() == 1 {
                observer.begin(context, f64::NAN)?;
                gradients.view_in(context, 0, GradientMode::Overwrite)?;
            }
            begun.wait();
            match context.replica() {
                0 => observer.own(Err(Error::beyond_limit("no memory"))),
                _ => Ok(None),
            }
        };
        strategy.run(&step, None).unwrap_err();
        assert!(!observer.blames_callback());
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        let error = apply(&optimizer, &gradients).unwrap_err();
        assert!(
            error.to_string().contains("they have been applied"),
            "{error}"
        );
        assert_eq!(
            variables::read(&variable).unwrap().to_vec::<f32>().unwrap(),
            [-0.5]
        );
    }

    #[test]
    fn callback_failures_are_told_from_library_failures() {
        let (strategy, _, gradients) = contributed();
        let batch = Tensor::from_slice(&[1.0f32; 4], Shape::new(&[4]).unwrap(), DeviceId::HOST);
        let batch = Value::Tensor(batch.unwrap());
        let fails = |context: &ReplicaContext| match context.replica() {
            1 => Err(Error::beyond_limit("the callback's memory")),
            _ => Ok(None),
        };
        let dry_run = DryRun {
            strategy: &strategy,
            function: &fails,
            batch: &batch,
            gradients: Some(&gradients),
        };
        let failure = dry_run.run(0, &[2, 2], 0.0).parts.err().unwrap();
        assert!(matches!(failure, Failure::Callback(_)), "{failure:?}");
        let failure = dry_run.run(0, &[2, 3], 0.0).parts.err().unwrap();
        assert!(matches!(failure, Failure::Library(_)), "{failure:?}");
    }

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
