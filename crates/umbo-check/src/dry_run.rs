//! A run that is observed and then rolled back.

use std::sync::Arc;

use super::callback::TrialCallback;
use super::observer::Observer;
use super::variable_snapshot::WrittenVariable;
use umbo_base::error::{Error, Result};
use umbo_input as input;
use umbo_optim::Gradients;
use umbo_strategy::Strategy;
use umbo_strategy::context::metrics::Added;
use umbo_tensor::values::Value;

/// The state that all runs of a check share.
pub(super) struct DryRun<'a> {
    pub strategy: &'a Strategy,
    pub callback: TrialCallback<'a>,
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
    /// The failure does not depend on the callback: there was no turn for the run, no memory for
    /// its evidence, or no time left.
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
        // A part of more rows than the step's own takes longer.
        let usual = sizes.iter().sum::<usize>().div_ceil(sizes.len());
        let largest = sizes.iter().copied().max().unwrap_or(usual);
        let times = largest.div_ceil(usual.max(1)).max(1);
        let part = |&examples: &usize| DryRunPart {
            examples,
            ..DryRunPart::default()
        };
        let parts = sizes.iter().map(part).collect();
        let observer = Arc::new(Observer::new(self.gradients.cloned(), parts));
        let outcome = self
            .callback
            .try_out(self.strategy, arguments, &observer, prefill, times);
        let parts = match outcome {
            _ if observer.is_complete() => Ok(observer.take_parts()),
            Err(error) if self.callback.is_stopped() => Err(Failure::Library(error)),
            Err(error) if observer.blames_callback() => Err(Failure::Callback(error)),
            Err(error) => Err(Failure::Library(error)),
            Ok(_) => Err(Failure::Library(Error::Internal(
                "a dry run was committed".into(),
            ))),
        };
        DryRunOutcome {
            parts,
            written: observer.take_written(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "a test writes gradients as a replica does")]

    use std::sync::Barrier;

    use super::*;
    use umbo_base::error::{Error, Status};
    use umbo_device::DeviceId;
    use umbo_optim::rules::sgd::Sgd;
    use umbo_optim::{GradientMode, LossReduction, Optimizer, apply};
    use umbo_strategy::step::cancellation::Cancellation;
    use umbo_strategy::step::limits::Limits;
    use umbo_strategy::variables::{self, Initial, NewVariable, refreshed_copy};
    use umbo_strategy::{Options, ReplicaContext, TrialObserver};
    use umbo_tensor::values::variable::{Aggregation, Synchronization, Variable};
    use umbo_tensor::{DType, Shape, Tensor};

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

    /// The last callback that returns undoes a run that was given up, and none begins after it.
    #[test]
    fn late_callbacks_undo_a_run_that_was_given_up() {
        let (strategy, variable, gradients) = contributed();
        let observer = Arc::new(Observer::new(Some(Arc::clone(&gradients)), Vec::new()));
        let has_begun = Arc::new(Barrier::new(2));
        let may_end = Arc::new(Barrier::new(2));
        let callback = {
            let observer = Arc::clone(&observer);
            let has_begun = Arc::clone(&has_begun);
            let may_end = Arc::clone(&may_end);
            let variable = variable.clone();
            move |context: &ReplicaContext| match context.replica() {
                0 => Err(Error::Cancelled("at once".into())),
                _ => observer.observe(
                    |context| {
                        // SAFETY: nobody assigns the variable meanwhile, and this replica alone
                        // writes it, by mistake.
                        unsafe {
                            let view = refreshed_copy(Some(context), &variable, DType::Float32)?;
                            view.assume_exclusive().fill(7.0)?;
                        }
                        has_begun.wait();
                        may_end.wait();
                        Ok(None)
                    },
                    context,
                    f64::NAN,
                ),
            }
        };
        let token = Cancellation::new();
        let limits = Limits {
            deadline: None,
            cancellation: Some(token.clone()),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                has_begun.wait();
                token.cancel();
            });
            let watcher = Arc::clone(&observer) as Arc<dyn TrialObserver>;
            let run = strategy.try_out_within(Arc::new(callback), None, watcher, limits, None);
            assert_eq!(run.unwrap_err().status(), Status::Cancelled);
        });
        assert!(observer.take_written().is_empty());
        may_end.wait();
        strategy.synchronize().unwrap();
        assert_eq!(observer.take_written().len(), 1);
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
            callback: TrialCallback::Borrowed(&fails),
            batch: &batch,
            gradients: Some(&gradients),
        };
        let failure = dry_run.run(0, &[2, 2], 0.0).parts.err().unwrap();
        assert!(matches!(failure, Failure::Callback(_)), "{failure:?}");
        let failure = dry_run.run(0, &[2, 3], 0.0).parts.err().unwrap();
        assert!(matches!(failure, Failure::Library(_)), "{failure:?}");
    }
}
