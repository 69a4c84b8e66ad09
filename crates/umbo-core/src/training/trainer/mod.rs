//! A trainer: strategy, variables, gradients, optimizer, the order of the rows and the checkpoint
//! of a training, made together, for programs whose weights are arrays of their own and whose data
//! are rows that they know by number.
//!
//! [`parts`]: what belongs to one strategy. [`choice`]: how many replicas that has. [`call`]: the
//! program's function on one replica. [`row_gradients`], [`row_table`]: gradients of single rows.
//! [`state`]: how far the training is, as a checkpoint has it. [`rate`]: the line that says so.
//! [`interrupt`]: Ctrl-C, which ends an epoch and saves.

pub mod call;
mod choice;
mod interrupt;
mod parts;
mod rate;
mod row_gradients;
pub mod row_table;
mod state;
mod step_rows;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{ReentrantMutex, ReentrantMutexGuard, RwLock};

use super::epoch::{Epoch, update_at_commit};
pub use call::{Learn, RowsOfReplica};
use choice::Choice;
use interrupt::Interrupts;
pub use parts::{Made, Maker, Parameters, Parts, check_devices};
use rate::RateLine;
use state::{PartOfEpoch, State};
use step_rows::MOST_ROWS;
use umbo_base::error::{Error, Result, memory};
use umbo_base::files::names_a_folder;
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::switch::CHECK;
use umbo_check::{self as equivalence, OwnedCallback};
use umbo_device::DeviceId;
use umbo_input::{Dataset, DistributeOptions, ShuffleOptions, distribute_dataset};
use umbo_optim::LossReduction;
use umbo_strategy::ReplicaFunction;
use umbo_strategy::step::cancellation::Cancellation;
use umbo_strategy::step::run::Limits;
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Shape, Tensor};

/// The origin of the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// The program, or its strategy.
    Given,
    /// The number of processors.
    Usual,
    /// The trainer, by the first steps.
    Chosen,
}

/// How a trainer trains.
#[derive(Clone)]
pub struct TrainerOptions {
    /// The type of the gradients. None: float32.
    pub gradient_dtype: Option<DType>,
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
    /// The origin of the number of replicas.
    pub replicas: Replicas,
}

/// A trainer. Its calls happen one after the other. Each call counts a reference, in no cache line
/// of what replicas read.
#[repr(align(128))]
pub struct Trainer {
    /// The parts, which one call may replace: the one that chooses the number of replicas.
    parts: RwLock<(Arc<Parts>, Choice)>,
    /// The same parts, from a step on that found that they stay for good.
    settled: OnceLock<Arc<Parts>>,
    maker: Box<Maker>,
    options: TrainerOptions,
    /// Held during a call, by its thread.
    turn: ReentrantMutex<Turn>,
}

/// The state that one call of a trainer leaves to the next.
#[derive(Default)]
struct Turn {
    /// Whether the first step was checked for equivalence.
    is_step_checked: Cell<bool>,
    /// The function of the last step outside of an epoch.
    function: RefCell<Option<StepFunction>>,
}

/// A function of steps, which all steps by the same function of the program use: replicas find it
/// in their caches.
struct StepFunction {
    id: LearnId,
    parts: Arc<Parts>,
    function: Arc<ReplicaFunction>,
}

/// A function of the program, and the data that it gets: the addresses of both.
pub type LearnId = [usize; 2];

impl Trainer {
    /// A trainer of the arrays for which `maker` makes variables.
    ///
    /// INVALID_ARGUMENT: arrays of one name, or options out of range. UNIMPLEMENTED: replicas that
    /// are not on CPUs. The errors of `maker`.
    pub fn new(maker: Box<Maker>, options: TrainerOptions) -> Result<Arc<Trainer>> {
        options
            .interrupt_path
            .as_deref()
            .map_or(Ok(()), |path| check_place(path, "interrupt_path"))?;
        if options.interrupt_path.is_some() || matches!(options.replicas, Replicas::Chosen) {
            // Replicas are chosen by moving the state to others.
            built_with!(
                "checkpoints",
                "interrupt_path, and replicas that are chosen,"
            );
        }
        let parts = Parts::new(maker(None)?, &options)?;
        Ok(Arc::new(Trainer {
            parts: RwLock::new((parts, Choice::open())),
            settled: OnceLock::new(),
            maker,
            options,
            turn: ReentrantMutex::default(),
        }))
    }

    /// The parts, which stay from now on.
    pub fn settled_parts(&self) -> Result<Arc<Parts>> {
        let (parts, choice) = &mut *self.parts.write();
        choice.settle(parts)?;
        Ok(Arc::clone(parts))
    }

    /// The present parts.
    pub fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.parts.read().0)
    }

    /// How far the training is.
    pub fn state(&self) -> Result<State> {
        State::load(&self.parts().checkpoint)
    }

    /// The numbers of rows, in batches, in the order of the next epoch over so many rows.
    pub fn dataset(&self, rows: i64, batch: i64) -> Result<Dataset> {
        self.dataset_of(self.state()?.epochs, rows, batch)
    }

    fn dataset_of(&self, epoch: u64, rows: i64, batch: i64) -> Result<Dataset> {
        check_batch(rows, batch)?;
        let mut dataset = numbers_dataset(rows)?;
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
    pub fn epoch(&self, rows: i64, batch: i64, learn: &Arc<Learn>) -> Result<f64> {
        let _turn = self.take_turn()?;
        let state = self.state()?;
        let order = match self.options.shuffles {
            true => mixed(self.options.seed, state.epochs) as i64,
            false => 0,
        };
        let mut part = match state.part {
            part if (part.rows, part.batch, part.order) == (rows, batch, order) => part,
            _ => PartOfEpoch::of(rows, batch, order),
        };
        let before = part.steps;
        let path = self.options.interrupt_path.as_deref();
        let interrupts = path.map(Interrupts::begin).transpose()?;
        let ran = self.run_epoch(state.epochs, &mut part, learn, interrupts.as_ref());
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
        let parts = self.parts();
        after.store(&parts.checkpoint)?;
        ran.map_err(|error| match &interrupts {
            Some(interrupts) => interrupts.saved_after(error, &parts),
            None => error,
        })?;
        Ok(part.loss.mean())
    }

    /// The rest of an epoch.
    fn run_epoch(
        &self,
        epoch: u64,
        part: &mut PartOfEpoch,
        learn: &Arc<Learn>,
        interrupts: Option<&Interrupts<'_>>,
    ) -> Result<()> {
        loop {
            let (parts, most) = self.begin_steps()?;
            let left = (part.rows as u64)
                .div_ceil(part.batch as u64)
                .saturating_sub(part.steps);
            let mut dataset = self.dataset_of(epoch, part.rows, part.batch)?;
            if part.steps > 0 {
                dataset = dataset.skip(part.steps as i64)?;
            }
            let pass = Pass {
                parts: &parts,
                dataset: &dataset,
                is_training: true,
                interrupts,
                // Only a trainer that may continue with other parts has to stop for them.
                max_steps: most
                    .filter(|&most| self.options.replicas == Replicas::Chosen && most < left),
            };
            let has_ended = self.run_pass(&pass, part, learn)?;
            self.end_steps(0)?;
            if has_ended {
                return Ok(());
            }
        }
    }

    /// Calls `learn` for all rows once, in batches and in their order, without gradients. Returns
    /// the mean loss of a row. If the optimizer keeps averages of the weights, the variables have
    /// these as values meanwhile.
    pub fn evaluate(&self, rows: i64, batch: i64, learn: &Arc<Learn>) -> Result<f64> {
        let _turn = self.take_turn()?;
        check_batch(rows, batch)?;
        let parts = self.parts();
        let pass = Pass {
            parts: &parts,
            dataset: &numbers_dataset(rows)?.batch(batch, false)?,
            is_training: false,
            interrupts: None,
            max_steps: None,
        };
        let mut part = PartOfEpoch::of(rows, batch, 0);
        let mut evaluate = || self.run_pass(&pass, &mut part, learn);
        let ran = match parts.optimizer.has_average_to_show() {
            true => parts.optimizer.with_average(evaluate),
            false => evaluate(),
        };
        // What is drawn by the number of the step stays that of a training without evaluations.
        if let Ok(mut between) = pass.parts.strategy.lock_between_steps() {
            let steps = between.steps().saturating_sub(part.steps);
            between.set_steps(steps);
        }
        ran?;
        Ok(part.loss.mean())
    }

    /// Sets the learning rate from the next update on, and ends a schedule.
    pub fn set_learning_rate(&self, rate: f64) -> Result<()> {
        let _turn = self.take_turn()?;
        self.parts().optimizer.set_learning_rate(rate)
    }

    /// Trains a batch: the rows from `first` on. Returns the mean loss of a row. `learn` makes the
    /// program's function, which is always the same for one `id`.
    pub fn step(
        &self,
        first: i64,
        rows: i64,
        id: LearnId,
        learn: &dyn Fn() -> Arc<Learn>,
    ) -> Result<f64> {
        let turn = self.take_turn()?;
        let (parts, _) = self.begin_steps()?;
        let strategy = &parts.strategy;
        let kept = &mut *turn.function.borrow_mut();
        let function = StepFunction::of(kept, &parts, id, learn);
        let steps = &mut *parts.steps.lock();
        let mut limits = self.limits();
        let is_checked = !CHECK.is_on() || turn.is_step_checked.get();
        // Checks look at the batch before the replicas do, and strict strategies whether they
        // change it.
        let at_once = !is_checked || strategy.is_strict();
        let numbering = &parts.numbering;
        let batch = steps
            .rows
            .batch(strategy, first, rows, numbering, at_once)?;
        if !is_checked {
            let function = parts.function(&learn(), true, &Arc::default());
            let callback = OwnedCallback::of(function);
            let gradients = Some(parts.gradients());
            equivalence::check_first(strategy, &callback, &mut limits, batch, gradients)?;
            turn.is_step_checked.set(true);
        }
        match limits.is_bounded() {
            false => strategy.run_on(&**function, batch)?,
            true => {
                let function = Arc::clone(function);
                strategy.run_within(function, Some(batch.clone()), limits, None)?
            }
        };
        parts.step_counter.add_one();
        let loss = steps.measured.take_metric("loss").unwrap_or_default();
        self.end_steps(1)?;
        Ok(loss.mean())
    }

    /// The parts for steps, and the number of steps after which others may take their place.
    fn begin_steps(&self) -> Result<(Cow<'_, Arc<Parts>>, Option<u64>)> {
        if let Some(parts) = self.settled.get() {
            return Ok((Cow::Borrowed(parts), None));
        }
        let (parts, choice) = &mut *self.parts.write();
        choice.begin(parts, &self.options)?;
        if choice.is_settled() {
            self.settled.get_or_init(|| Arc::clone(parts));
        }
        Ok((Cow::Owned(Arc::clone(parts)), choice.steps_left()))
    }

    /// Counts `steps`, and chooses the number of replicas if enough of them were measured.
    fn end_steps(&self, steps: u64) -> Result<()> {
        if self.settled.get().is_some() {
            return Ok(());
        }
        let choosing = {
            let choice = &mut self.parts.write().1;
            choice.count(steps);
            choice.begin_choosing()
        };
        let Some(choosing) = choosing else {
            return Ok(());
        };
        let parts = self.parts();
        // Not under the lock: the program's log callback may ask how far the training is.
        let decided = choosing.decide(&parts, &self.options, &*self.maker)?;
        {
            let (present, choice) = &mut *self.parts.write();
            let takes_place = choice.end_choosing(decided.as_ref())?;
            match &decided {
                Some(decided) if takes_place => *present = Arc::clone(&decided.parts),
                _ => return Ok(()),
            }
        }
        if let Some(decided) = decided {
            log::keep(Level::Info, || decided.reason);
        }
        Ok(())
    }

    /// Saves the training to a file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let _turn = self.take_turn()?;
        self.parts().checkpoint.save(path)
    }

    /// Restores the training from a file, or changes nothing.
    pub fn restore(&self, path: &Path) -> Result<()> {
        let _turn = self.take_turn()?;
        self.parts().checkpoint.restore(path)
    }

    /// Restores the training if there is such a file. Returns how many epochs have ended.
    pub fn resume(&self, path: &Path) -> Result<u64> {
        let exists = path.try_exists();
        match exists.is_ok_and(|exists| !exists) {
            true => check_place(path, "path")?,
            false => self.restore(path)?,
        }
        Ok(self.state()?.epochs)
    }

    /// A pass over batches of row numbers, whose steps are added to `part`. Returns whether it has
    /// ended.
    fn run_pass(
        &self,
        pass: &Pass<'_>,
        part: &mut PartOfEpoch,
        learn: &Arc<Learn>,
    ) -> Result<bool> {
        let Pass {
            parts, is_training, ..
        } = *pass;
        let strategy = &parts.strategy;
        let distributed =
            distribute_dataset(strategy, pass.dataset, &DistributeOptions::default())?;
        let iterator = distributed.iterator()?;
        let update = || (Arc::clone(&parts.optimizer), Arc::clone(parts.gradients()));
        let epoch = Epoch {
            strategy,
            iterator: &iterator,
            update: is_training.then(update),
            metrics: None,
            limits: self.limits(),
            max_steps: pass.max_steps,
            flush: pass.max_steps.is_none(),
            keep_metrics: false,
            reset: false,
            evaluates: !is_training,
        };
        let measured = Arc::default();
        let callback = OwnedCallback::of(parts.function(learn, is_training, &measured));
        let gradients = is_training.then_some(parts.gradients());
        let first =
            |callback: &OwnedCallback, limits: &mut Limits, element: &Value| match CHECK.is_on() {
                true => {
                    let checked =
                        equivalence::check_first(strategy, callback, limits, element, gradients);
                    measured.take_metric("loss");
                    checked
                }
                false => Ok(()),
            };
        let name = match is_training {
            true => "epoch",
            false => "evaluation",
        };
        let shows = self.options.shows_progress && strategy.rank() == 0;
        let mut line = shows.then(|| RateLine::new(name, part));
        let ran = epoch.run(&callback, &first, &mut |_, _| {
            part.add(measured.take_metric("loss").unwrap_or_default());
            if is_training {
                self.parts.write().1.count(1);
            }
            if let Some(line) = &mut line {
                line.show(part);
            }
            pass.interrupts.map_or(Ok(()), Interrupts::check)
        });
        if let Some(line) = line {
            line.end(part);
        }
        Ok(ran?.pass_ended)
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
    ///
    /// FAILED_PRECONDITION inside of a step, and in a function of the program's that a call of this
    /// trainer calls on this thread.
    fn take_turn(&self) -> Result<ReentrantMutexGuard<'_, Turn>> {
        let is_inside = |parts: &Parts| parts.strategy.step_around().is_some();
        if match self.settled.get() {
            Some(parts) => is_inside(parts),
            None => is_inside(&self.parts.read().0),
        } {
            return Err(Error::precondition(
                "inside of a step: a trainer's calls are steps, or happen between them; call it \
                 when the step has ended",
            ));
        }
        if self.turn.is_owned_by_current_thread() {
            return Err(Error::precondition(
                "called by a function that a call of this trainer calls, such as a log callback: \
                 it would wait for itself; call it when that call has returned",
            ));
        }
        Ok(self.turn.lock())
    }
}

impl StepFunction {
    /// The function of steps by this function of the program: the one that is kept, or a new one in
    /// its place.
    fn of<'a>(
        kept: &'a mut Option<StepFunction>,
        parts: &Arc<Parts>,
        id: LearnId,
        learn: &dyn Fn() -> Arc<Learn>,
    ) -> &'a Arc<ReplicaFunction> {
        let is_of = |kept: &StepFunction| kept.id == id && Arc::ptr_eq(&kept.parts, parts);
        if !kept.as_ref().is_some_and(is_of) {
            *kept = None;
        }
        let make = || StepFunction {
            id,
            parts: Arc::clone(parts),
            function: parts.step_function(learn()),
        };
        &kept.get_or_insert_with(make).function
    }
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.parts();
        write!(
            formatter,
            "trainer of {} arrays with {} replicas",
            parts.variables().len(),
            parts.strategy.num_replicas()
        )
    }
}

/// A pass over batches of row numbers.
struct Pass<'a> {
    parts: &'a Arc<Parts>,
    dataset: &'a Dataset,
    is_training: bool,
    interrupts: Option<&'a Interrupts<'a>>,
    /// The number of steps after which it stops. Without it, the pass goes to its end, and what is
    /// accumulated is applied.
    max_steps: Option<u64>,
}

/// Refuses a file that cannot be written: the first save would find that out too late.
fn check_place(path: &Path, argument: &'static str) -> Result<()> {
    let problem = match path.parent() {
        None => "names no file",
        _ if path.is_dir() || names_a_folder(path) => "is a folder; give the path of a file in it",
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            "there is no such folder"
        }
        Some(_) => return Ok(()),
    };
    let path = path.display();
    Err(invalid!(argument, "'{path}': {problem}"))
}

/// Refuses batches of more rows than a step has.
fn check_batch(rows: i64, batch: i64) -> Result<()> {
    match rows.min(batch) > MOST_ROWS {
        false => Ok(()),
        true => Err(invalid!(
            "batch_size",
            "{batch}; a step has at most {MOST_ROWS} rows"
        )),
    }
}

/// The numbers of all rows. They are rows of an array, of which a pass shuffles the positions, and
/// a batch is a view or a gather; numbers that are made one by one would be a tensor each.
fn numbers_dataset(rows: i64) -> Result<Dataset> {
    Dataset::from_tensor_slices(&numbers_tensor(0..rows)?)
}

fn numbers_tensor(rows: Range<i64>) -> Result<Value> {
    let count = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
    let mut numbers = memory::list(count, "row numbers")?;
    numbers.extend(rows);
    let shape = Shape::new(&[numbers.len()])?;
    let tensor = Tensor::from_slice(&numbers, shape, DeviceId::HOST)?;
    Ok(Value::Tensor(tensor))
}

/// A seed for each epoch (SplitMix64).
fn mixed(seed: u64, epoch: u64) -> u64 {
    let mut mixed = seed.wrapping_add((epoch + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
