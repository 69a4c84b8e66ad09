//! A trainer: strategy, variables, gradients, optimizer, the order of the rows and the checkpoint
//! of a training, made together, for programs whose weights are arrays of their own and whose data
//! are rows that they know by number.
//!
//! [`call`]: the program's function on one replica. [`row_gradients`]: gradients of single rows.
//! [`state`]: how far the training is, as a checkpoint has it. [`rate`]: the line that says so.

pub mod call;
mod rate;
mod row_gradients;
mod state;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::epoch::{Epoch, update_at_commit};
use call::Caller;
pub use call::{Learn, RowsOfReplica};
use rate::RateLine;
pub use row_gradients::RowShape;
use state::{PartOfEpoch, State};
use umbo_base::error::{Error, Result, memory};
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::switch::CHECK;
use umbo_check as equivalence;
use umbo_checkpoint::Checkpoint;
use umbo_device::DeviceId;
use umbo_input::{Dataset, DistributeOptions, ShuffleOptions, distribute_dataset, split_for};
use umbo_optim::{Gradients, GradientsOptions, LossReduction, Optimizer, VariableGroup};
use umbo_strategy::context::metrics::Metric;
use umbo_strategy::step::cancellation::Cancellation;
use umbo_strategy::step::run::Limits;
use umbo_strategy::{ReplicaContext, ReplicaFunction, RunUserData, Strategy};
use umbo_system::interrupts::InterruptWatch;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{Shape, Tensor};

/// The most rows of a step, whose numbers then take 2 GiB.
const MOST_ROWS: i64 = 1 << 28;

/// The data that the program's function uses, kept until its last call is over.
pub type KeptUntilEnd = Option<Arc<dyn Any + Send + Sync>>;

/// An array that is trained.
#[derive(Clone)]
pub struct Parameters {
    /// The variable over the array: float32, one row of `row_length` numbers after the other.
    pub variable: Variable,
    /// The number of numbers in a row, if replicas add to the gradients of single rows.
    pub row_length: Option<usize>,
    /// How the optimizer treats it.
    pub group: VariableGroup,
}

/// How a trainer trains.
#[derive(Clone)]
pub struct TrainerOptions {
    /// How the program's function reduces the losses of its rows.
    pub loss_reduction: LossReduction,
    /// The number of steps that make one update.
    pub accumulation_steps: u64,
    /// The seed of the orders of rows.
    pub seed: u64,
    /// Whether each epoch has an order of its own.
    pub shuffles: bool,
    /// Whether a line on standard error says how far an epoch is.
    pub shows_progress: bool,
    /// The file to which an interrupted epoch saves the training. None: interrupts are the
    /// program's.
    pub interrupt_path: Option<PathBuf>,
    /// The time that a call may take.
    pub timeout: Option<Duration>,
    /// A token that ends calls.
    pub cancellation: Option<Cancellation>,
}

/// A trainer. Its calls happen one after the other.
pub struct Trainer {
    strategy: Strategy,
    optimizer: Arc<Optimizer>,
    caller: Arc<Caller>,
    checkpoint: Arc<Checkpoint>,
    options: TrainerOptions,
    /// Held during a call. Whether the first step was checked for equivalence.
    is_step_checked: Mutex<bool>,
}

impl Trainer {
    /// A trainer of these arrays, with an optimizer of their strategy.
    ///
    /// INVALID_ARGUMENT: no array, or one whose rows do not fit. UNIMPLEMENTED: replicas that are
    /// not on CPUs.
    pub fn new(
        strategy: &Strategy,
        optimizer: Arc<Optimizer>,
        parameters: &[Parameters],
        options: TrainerOptions,
    ) -> Result<Arc<Trainer>> {
        check_devices(strategy)?;
        options
            .interrupt_path
            .as_deref()
            .map_or(Ok(()), check_place)?;
        let variables: Vec<Variable> = parameters.iter().map(|one| one.variable.clone()).collect();
        for one in parameters {
            if one.group != VariableGroup::default() {
                optimizer.add_group(std::slice::from_ref(&one.variable), one.group)?;
            }
        }
        let row_sparse: Vec<bool> = parameters
            .iter()
            .map(|one| one.row_length.is_some())
            .collect();
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            variables.clone(),
            options.loss_reduction,
            GradientsOptions {
                accumulation_steps: options.accumulation_steps,
                dtype: None,
                row_sparse: &row_sparse,
            },
        )?;
        let checkpoint = Checkpoint::new(strategy);
        for variable in &variables {
            checkpoint.add(variable.name().as_str(), Arc::new(variable.clone()))?;
        }
        checkpoint.add("optimizer", Arc::clone(&optimizer) as _)?;
        if options.accumulation_steps > 1 {
            checkpoint.add("gradients", Arc::clone(&gradients) as _)?;
        }
        State::default().store(&checkpoint)?;
        let shape = |one: &Parameters| {
            one.row_length.map(|length| RowShape {
                rows: one.variable.shape()[0],
                length,
            })
        };
        Ok(Arc::new(Trainer {
            strategy: strategy.clone(),
            optimizer,
            caller: Arc::new(Caller {
                variables,
                gradients,
                reduction: options.loss_reduction,
                shapes: parameters.iter().map(shape).collect(),
                spare: strategy
                    .replica_devices()
                    .iter()
                    .map(|_| Mutex::default())
                    .collect(),
            }),
            checkpoint,
            options,
            is_step_checked: Mutex::new(false),
        }))
    }

    /// The strategy.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The variables over the arrays.
    pub fn variables(&self) -> &[Variable] {
        &self.caller.variables
    }

    /// The gradients.
    pub fn gradients(&self) -> &Arc<Gradients> {
        &self.caller.gradients
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &Arc<Optimizer> {
        &self.optimizer
    }

    /// The objects that a save saves.
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// How far the training is.
    pub fn state(&self) -> Result<State> {
        State::load(&self.checkpoint)
    }

    /// The numbers of rows, in batches, in the order of the next epoch over so many rows.
    pub fn dataset(&self, rows: i64, batch: i64) -> Result<Dataset> {
        self.dataset_of(self.state()?.epochs, rows, batch)
    }

    fn dataset_of(&self, epoch: u64, rows: i64, batch: i64) -> Result<Dataset> {
        let mut dataset = Dataset::range(0, rows, 1)?;
        if self.options.shuffles {
            dataset = dataset.shuffle(&ShuffleOptions {
                buffer_size: 0,
                seed: mixed(self.options.seed, epoch),
                keep_order_each_pass: true,
            })?;
        }
        dataset.batch(batch, false)
    }

    /// Trains over all rows once, in batches. Returns the mean loss of a row. An epoch that has
    /// ended early is continued by a call with the same numbers.
    pub fn epoch(
        self: &Arc<Self>,
        rows: i64,
        batch: i64,
        learn: Arc<Learn>,
        kept: KeptUntilEnd,
    ) -> Result<f64> {
        let _turn = self.take_turn()?;
        let state = self.state()?;
        let mut part = match state.part {
            part if (part.rows, part.batch) == (rows, batch) => part,
            _ => PartOfEpoch {
                rows,
                batch,
                ..PartOfEpoch::default()
            },
        };
        let mut dataset = self.dataset_of(state.epochs, rows, batch)?;
        if part.steps > 0 {
            dataset = dataset.skip(part.steps as i64)?;
        }
        let before = part.steps;
        let interrupts = self.watch_interrupts()?;
        let ran = self.pass(&dataset, learn, kept, true, &mut part, interrupts.as_ref());
        let steps = state.steps + part.steps - before;
        let after = match &ran {
            Ok(()) => State {
                epochs: state.epochs + 1,
                steps,
                part: PartOfEpoch::default(),
            },
            Err(_) => State {
                epochs: state.epochs,
                steps,
                part,
            },
        };
        after.store(&self.checkpoint)?;
        ran.map_err(|error| self.saved_after(error, interrupts.as_ref()))?;
        Ok(part.loss.mean())
    }

    /// Calls `learn` for all rows once, in batches and in their order, without gradients. Returns
    /// the mean loss of a row.
    pub fn evaluate(
        self: &Arc<Self>,
        rows: i64,
        batch: i64,
        learn: Arc<Learn>,
        kept: KeptUntilEnd,
    ) -> Result<f64> {
        let _turn = self.take_turn()?;
        let dataset = Dataset::range(0, rows, 1)?.batch(batch, false)?;
        let mut part = PartOfEpoch {
            rows,
            batch,
            ..PartOfEpoch::default()
        };
        self.pass(&dataset, learn, kept, false, &mut part, None)?;
        Ok(part.loss.mean())
    }

    /// Trains a batch: the rows from `first` on. Returns the mean loss of a row.
    pub fn step(
        self: &Arc<Self>,
        first: i64,
        rows: i64,
        learn: Arc<Learn>,
        kept: KeptUntilEnd,
    ) -> Result<f64> {
        let mut is_checked = self.take_turn()?;
        let numbers = row_numbers(first, rows)?;
        let shape = Shape::new(&[numbers.len()])?;
        let whole = Tensor::from_slice(&numbers, shape, DeviceId::HOST)?;
        let batch = split_for(&self.strategy, &Value::Tensor(whole))?;
        if CHECK.is_on() && !*is_checked {
            let function = self.function(Arc::clone(&learn), true, false);
            equivalence::check_first(
                &self.strategy,
                &*function,
                &batch,
                Some(&self.caller.gradients),
            )?;
            *is_checked = true;
        }
        let function = self.function(learn, true, true);
        let limits = self.limits();
        match limits.is_bounded() {
            false => self.strategy.run(&*function, Some(batch))?,
            true => {
                let kept = kept.map(|kept| Box::new(kept) as RunUserData);
                self.strategy
                    .run_within(function, Some(batch), limits, kept)?
            }
        };
        let mut state = self.state()?;
        state.steps += 1;
        state.store(&self.checkpoint)?;
        let loss = self.strategy.metric("loss").unwrap_or_default();
        Ok(loss.mean())
    }

    /// Saves the training to a file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let _turn = self.take_turn()?;
        self.checkpoint.save(path)
    }

    /// Restores the training from a file, or changes nothing.
    pub fn restore(&self, path: &Path) -> Result<()> {
        let _turn = self.take_turn()?;
        self.checkpoint.restore(path)
    }

    /// Restores the training if there is such a file. Returns how many epochs have ended.
    pub fn resume(&self, path: &Path) -> Result<u64> {
        let exists = path.try_exists();
        if !exists.is_ok_and(|exists| !exists) {
            self.restore(path)?;
        }
        Ok(self.state()?.epochs)
    }

    /// A pass over the batches of row numbers, whose steps are added to `part`.
    fn pass(
        self: &Arc<Self>,
        dataset: &Dataset,
        learn: Arc<Learn>,
        kept: KeptUntilEnd,
        is_training: bool,
        part: &mut PartOfEpoch,
        interrupts: Option<&InterruptWatch>,
    ) -> Result<()> {
        let distributed =
            distribute_dataset(&self.strategy, dataset, &DistributeOptions::default())?;
        let iterator = distributed.iterator()?;
        let update = (
            Arc::clone(&self.optimizer),
            Arc::clone(&self.caller.gradients),
        );
        let epoch = Epoch {
            strategy: &self.strategy,
            iterator: &iterator,
            update: is_training.then_some(update),
            metrics: None,
            limits: self.limits(),
            max_steps: None,
            flush: true,
            keep_metrics: false,
            reset: false,
        };
        let gradients = is_training.then_some(&self.caller.gradients);
        let first = |function: &umbo_strategy::FunctionFor<'_>, element: &Value| match CHECK.is_on()
        {
            true => equivalence::check_first(&self.strategy, function, element, gradients),
            false => Ok(()),
        };
        let name = match is_training {
            true => "epoch",
            false => "evaluation",
        };
        let mut line = (self.options.shows_progress && self.strategy.rank() == 0)
            .then(|| RateLine::new(name, part));
        let function = self.function(learn, is_training, false);
        let ran = epoch.run(function, kept, &first, &mut |_, _| {
            let loss = self.strategy.metric("loss").unwrap_or_default();
            part.add(loss);
            if let Some(line) = &mut line {
                line.show(part);
            }
            match interrupts {
                Some(watch) if watch.has_come() => Err(interrupted()),
                _ => Ok(()),
            }
        });
        if let Some(line) = line {
            line.end(part);
        }
        ran.map(drop)
    }

    /// The function of a step: the program's, and the update if it is not another's to make.
    fn function(
        self: &Arc<Self>,
        learn: Arc<Learn>,
        is_training: bool,
        updates: bool,
    ) -> Arc<ReplicaFunction> {
        let trainer = Arc::clone(self);
        Arc::new(move |context: &ReplicaContext| {
            trainer.caller.call(&*learn, context, is_training)?;
            if updates {
                let optimizer = Arc::clone(&trainer.optimizer);
                let gradients = Arc::clone(&trainer.caller.gradients);
                update_at_commit(context, &(optimizer, gradients))?;
            }
            Ok(None)
        })
    }

    fn limits(&self) -> Limits {
        let timeout = self.options.timeout;
        Limits {
            // A deadline past what the clock counts never comes.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            cancellation: self.options.cancellation.clone(),
        }
    }

    /// Waits for the calls of other threads.
    fn take_turn(&self) -> Result<parking_lot::MutexGuard<'_, bool>> {
        if self.strategy.step_around().is_some() {
            return Err(Error::precondition(
                "inside of a step: a trainer's calls are steps, or happen between them; call it \
                 when the step has ended",
            ));
        }
        Ok(self.is_step_checked.lock())
    }

    fn watch_interrupts(&self) -> Result<Option<InterruptWatch>> {
        if self.options.interrupt_path.is_none() {
            return Ok(None);
        }
        let watch = InterruptWatch::begin();
        let watch = watch.map_err(|error| {
            Error::Internal(format!("the signal of Ctrl-C cannot be watched: {error}"))
        })?;
        Ok(Some(watch))
    }

    /// The error of an epoch. If an interrupt has ended it, the training is saved.
    fn saved_after(&self, error: Error, interrupts: Option<&InterruptWatch>) -> Error {
        let Some(path) = &self.options.interrupt_path else {
            return error;
        };
        if !interrupts.is_some_and(InterruptWatch::has_come) {
            return error;
        }
        match self.checkpoint.save(path) {
            Ok(()) => {
                log::log(Level::Info, || {
                    format!("interrupted; the training is in {}", path.display())
                });
                error
            }
            Err(failure) => failure.within(format!(
                "interrupted, and the training cannot be saved to {}",
                path.display()
            )),
        }
    }
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "trainer of {} arrays with {} replicas",
            self.caller.variables.len(),
            self.strategy.num_replicas()
        )
    }
}

fn interrupted() -> Error {
    Error::Cancelled("interrupted (Ctrl-C); the step in progress has been done".into())
}

fn check_devices(strategy: &Strategy) -> Result<()> {
    let devices = strategy.replica_devices().iter();
    let other = devices
        .chain([&strategy.parameter_device()])
        .find(|device| !device.is_host_memory())
        .copied();
    match other {
        None => Ok(()),
        Some(device) => Err(Error::Unimplemented(format!(
            "strategy: has {device}; a trainer lends arrays of the program, so that its \
             replicas are on processors; use the strategy without a trainer"
        ))),
    }
}

/// Refuses a file that cannot be written: an interrupt would find that out too late.
fn check_place(path: &Path) -> Result<()> {
    let problem = match path.parent() {
        None => "names no file",
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            "there is no such folder"
        }
        Some(_) => return Ok(()),
    };
    let path = path.display();
    Err(invalid!("interrupt_path", "'{path}': {problem}"))
}

/// The numbers of `rows` rows from `first` on.
fn row_numbers(first: i64, rows: i64) -> Result<Vec<i64>> {
    if rows > MOST_ROWS {
        return Err(invalid!(
            "row_count",
            "{rows}; a step has at most {MOST_ROWS} rows"
        ));
    }
    let Some(end) = first.checked_add(rows) else {
        return Err(invalid!(
            "first_row",
            "{first}, and {rows} rows from there on have no numbers"
        ));
    };
    let mut numbers = memory::list(rows as usize, "rows of a step")?;
    numbers.extend(first..end);
    Ok(numbers)
}

/// A seed for each epoch (SplitMix64).
fn mixed(seed: u64, epoch: u64) -> u64 {
    let mut mixed = seed.wrapping_add((epoch + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl PartOfEpoch {
    /// Adds a step with the loss of its rows.
    fn add(&mut self, loss: Metric) {
        self.steps += 1;
        self.loss.sum += loss.sum;
        self.loss.weight += loss.weight;
    }
}
