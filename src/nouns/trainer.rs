//! Trainers: making them.

use crate::machinery::prelude::*;
use crate::nouns::gradients::{UMBO_LOSS_SUM, umbo_loss_reduction};
use crate::nouns::named_rule::rule_named;
use crate::nouns::optimizer_options::state_bits;
use umbo_core::device::DeviceId;
use umbo_core::optimizer::{
    AverageKind, Averaging, NamedSchedule, Optimizer, ScheduleKind, Settings, VariableGroup,
};
use umbo_core::strategy::variables::NewVariable;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::{Options, replicas_on_all_processors};
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{Layout, Shape};
use umbo_core::training::Trainer;
use umbo_core::training::trainer::{Made, Parameters, Replicas, TrainerOptions, check_devices};
use umbo_core::values::variable::{Aggregation, Synchronization};

/// An array of the program that is trained. What is not given is 0: `{.weights = w, .count = n}` is
/// an array with all defaults. The size of the struct stays the same in later versions.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_parameters {
    /// The array, float32 in host memory, which stays where it is: the program reads it whenever no
    /// call of the trainer is in progress. NULL if there are `half_weights`.
    pub weights: *mut f32,
    /// How many numbers it has, 1 or more.
    pub count: i64,
    /// Its name in messages and checkpoints. NULL: "weights", or among several "weights_0" and so
    /// on, by its index.
    pub name: *const c_char,
    /// How many numbers a row has, if replicas add to the gradients of few rows, as of an embedding
    /// table (umbo_rows_gradient_row()). Not with LAMB or LARS. 0: gradients are as long as
    /// the array.
    pub row_length: i64,
    /// The factor of the learning rate, more than 0. 0: 1.
    pub learning_rate_factor: f64,
    /// 1: no weight decay, as is usual for biases and normalisation.
    pub no_weight_decay: i32,
    /// 1: it is not updated.
    pub frozen: i32,
    /// In place of `weights`, an array of bfloat16, whose new numbers are rounded
    /// (`stochastic_rounding` of the options). `learn` gets it as `half_weights`, and adds to
    /// `half_gradients`, of bfloat16 unless `gradient_dtype` names another type. It has no
    /// `row_length`. NULL: none.
    pub half_weights: *mut u16,
    /// Zeros.
    pub reserved: [i64; 3],
}

/// The options of a trainer.
#[c_struct(
    learning_rate = UMBO_AUTO as f64, weight_decay = UMBO_AUTO as f64,
    global_clip_norm = UMBO_INFINITE as f64, accumulation_steps = 1,
    loss_reduction = UMBO_LOSS_SUM, shuffle = 1, timeout_seconds = UMBO_INFINITE as f64
)]
pub struct umbo_trainer_options {
    /// The update rule with the defaults of its options: "sgd", "momentum", "nesterov", "adam",
    /// "adamw", "nadam", "radam", "lion", "lamb", "lars", "adafactor", "adagrad", "rmsprop" or
    /// "ftrl". NULL: "sgd". Other values of its options, such as betas, take an `optimizer`.
    pub rule: *const c_char,
    /// Finite and 0 or more. UMBO_AUTO: the default of the rule.
    pub learning_rate: f64,
    /// How the learning rate falls to 0: "linear" or "cosine". NULL: it stays.
    pub schedule: *const c_char,
    /// The number of updates of the whole training, after which a `schedule` has let the rate fall
    /// to 0; without one, 0. An epoch has ceil(ceil(row_count / batch_size) / accumulation_steps)
    /// updates.
    pub schedule_updates: i64,
    /// The updates at the beginning in which the learning rate rises to its full value.
    pub warmup_updates: i64,
    /// As in umbo_optimizer_options.
    pub weight_decay: f64,
    /// As in umbo_optimizer_options.
    pub global_clip_norm: f64,
    /// How many steps make one update; 1 or more.
    pub accumulation_steps: i64,
    /// Whether `learn` sums over its rows, takes the mean, or divides by the rows of the batch.
    /// With UMBO_LOSS_GLOBAL_MEAN the library divides nothing: for a `learn` that divides by
    /// itself, or an update by the sum of the gradients, and the loss is a sum, too.
    pub loss_reduction: umbo_loss_reduction,
    /// The number of replicas, each on a processor. 0: one for each processor of this process, or
    /// `replicas_in_sync` if that is less. If the first steps show that one would be faster, the
    /// log says so. UMBO_AUTO: as 0 at first. Steps are measured, and as long as fewer replicas
    /// are faster the next smaller divisor is tried, with `thread_count` of umbo_rows for
    /// each; the fastest number stays. A handle to one of the trainer's parts ends this. With
    /// `replicas_in_sync` it changes no bit of the result.
    pub replicas: i64,
    /// The number of parts into which each batch is split, whatever the number of processors:
    /// results are bit-identical on any number of them. 0: one for each replica.
    pub replicas_in_sync: i64,
    /// The seed of the orders of rows.
    pub seed: u64,
    /// 1: each epoch has the rows in another order. 0: all have them in their order.
    pub shuffle: i32,
    /// 1: standard error gets a line that says how far an epoch is, how many rows it does in a
    /// second, how long the rest will take, and the loss.
    pub progress: i32,
    /// During epochs an interrupt (Ctrl-C, SIGINT) ends the epoch after the step in progress: the
    /// training is saved to this file, and umbo_trainer_epoch() returns UMBO_STATUS_CANCELLED. A
    /// second one ends the process. NULL: interrupts are the program's, as they are during
    /// umbo_trainer_step().
    pub interrupt_path: *const c_char,
    /// The time that an epoch, a step or an evaluation may take. UMBO_INFINITE: no limit. After it,
    /// callbacks that have not returned must not use what the program has released.
    pub timeout_seconds: f64,
    /// Cancelled, it ends the call in progress and all later ones. NULL: none.
    pub cancellation: *const umbo_cancellation,
    /// Joins ranks, whose replicas run in sync (cluster.h). Each rank has all rows. NULL: this
    /// process is alone.
    pub communicator: *const umbo_communicator,
    /// A strategy that the program has made, for what the options above do not have, such as
    /// `replica_thread_start`. Not together with `replicas`, `replicas_in_sync` or `communicator`.
    /// NULL: the trainer makes one.
    pub strategy: *mut umbo_strategy,
    /// An optimizer of `strategy`, for other rules and settings. Not together with the options of
    /// the one that the trainer makes otherwise: those from `rule` to `global_clip_norm`,
    /// `average_decay`, `state_bits`, `stochastic_rounding` and `rounding_seed`.
    pub optimizer: *mut umbo_optimizer,
    /// The type of the gradients that `learn` adds to. UMBO_DTYPE_NONE: float32. With
    /// UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 `learn` gets `half_gradients`, and half as many
    /// bytes are written and read; arrays, sums and the optimizer's state keep their type. Not for
    /// arrays with a `row_length`. For `half_weights`, UMBO_DTYPE_NONE is bfloat16.
    pub gradient_dtype: umbo_dtype,
    /// The decay of an exponential moving average of the weights, with its warm-up, which
    /// umbo_trainer_evaluate() takes for the weights; less than 1. 0: none.
    pub average_decay: f64,
    /// As in umbo_optimizer_options: 8 saves three quarters of the memory of a rule's states. Not
    /// with arrays that have a `row_length` and 4096 or more numbers.
    pub state_bits: i64,
    /// As in umbo_optimizer_options: 1 if there are `half_weights`. Not with `average_decay`.
    pub stochastic_rounding: i32,
    /// As in umbo_optimizer_options.
    pub rounding_seed: u64,
}

/// Makes a trainer of arrays of the program: a strategy, variables over the arrays, gradients and
/// an optimizer.
///
/// Weights are float32, or bfloat16 that is rounded (`half_weights`), in host memory, and replicas
/// compute on processors. `gradient_dtype` makes gradients smaller, `state_bits` the optimizer's
/// states, and umbo_variable_view() gives a copy of float32 weights in 16 bits. Weights of float64,
/// or on GPUs, are variables of a strategy (umbo_variable_create_in_memory()), which
/// umbo_train_epoch() trains.
///
/// @param[in] count How many arrays there are, 1 or more.
/// @param[in] parameters The arrays, whose numbers are the initial values. They stay where they are
///   until the trainer and all handles that it gave are released; only the trainer writes them.
/// @param[in] options `options` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an array that is NULL, not at a multiple of its numbers' size,
///   overlaps another one, or has a `count` that `row_length` does not divide; two arrays of one
///   name; options out of range, or that exclude each other; `half_weights` without
///   `stochastic_rounding`; `state_bits` or `stochastic_rounding` with a rule that has no such.
/// - UMBO_STATUS_UNIMPLEMENTED: a strategy with GPUs; `accumulation_steps` with `replicas_in_sync`
///   over several ranks.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a replica's callback, or in a strategy's scope.
///
/// Collective.
#[c_call(
    out(trainer),
    counted(count),
    array(parameters, count),
    options(options)
)]
pub fn umbo_trainer_create_with_arrays(
    count: i64,
    parameters: *const umbo_parameters,
    options: *const umbo_trainer_options,
    trainer: *mut *mut umbo_trainer,
) {
    let given = collect(
        parameters.iter().enumerate().map(|(index, one)| {
            // SAFETY: the caller gives names that are texts, or NULL.
            unsafe { given_from(one, index, parameters.len()) }.map_err(of_array(index))
        }),
        "parameters",
    )?;
    let settings = training_options(&options)?;
    let handle = reserve()?;
    let strategy = strategy_from(&options)?;
    let optimizer = optimizer_from(&options)?;
    let maker = move |replicas| make_parts(&given, &strategy, &optimizer, replicas);
    let made = Trainer::new(Box::new(maker), settings);
    trainer.write(handle.make(made?));
}

/// Makes a strategy, unless the program has given one, with this number of compute devices if that
/// is not as usual, and all that belongs to it.
fn make_parts(
    arrays: &[GivenArray],
    strategy: &GivenStrategy,
    optimizer: &GivenOptimizer,
    replicas: Option<usize>,
) -> Result<Made> {
    let strategy = strategy.get(replicas)?;
    check_devices(&strategy)?;
    let optimizer = optimizer.get(&strategy)?;
    let tensors = arrays
        .iter()
        .map(|one| Ok((one.new.clone(), one.tensor.clone())));
    let tensors = collect(tensors, "parameters")?;
    // SAFETY: the caller keeps the header's promise on who writes and reads the memory.
    let variables = unsafe { create_in_place(&strategy, tensors) }.map_err(of_parameters)?;
    let parameters = arrays.iter().zip(variables).map(|(one, variable)| {
        Ok(Parameters {
            variable,
            row_length: one.row_length,
            group: one.group,
        })
    });
    Ok(Made {
        parameters: collect(parameters, "parameters")?,
        strategy,
        optimizer,
    })
}

/// An array that was checked.
struct GivenArray {
    new: NewVariable,
    tensor: Tensor,
    row_length: Option<usize>,
    group: VariableGroup,
}

/// Checks an array, the one at `index` of `count`.
///
/// # Safety
/// Its name is NULL or leads to a text, and its numbers are there until the tensor is dropped.
unsafe fn given_from(one: &umbo_parameters, index: usize, count: usize) -> Result<GivenArray> {
    let (data, dtype) = numbers_of(one)?;
    let most = isize::MAX as usize / dtype.size();
    let elements = usize::try_from(one.count).ok().filter(|count| *count >= 1);
    let elements = elements.filter(|count| *count <= most).ok_or_else(|| {
        invalid!(
            "count",
            "{}; 1 or more numbers are expected, and as many as memory holds",
            described(one.count)
        )
    })?;
    if one.reserved != [0; 3] {
        return Err(invalid!(
            "reserved",
            "is not zero; initialise the whole struct"
        ));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { optional_text(one.name, "name") }?;
    let name = name.map_or_else(|| default_name(index, count), str::to_owned);
    let row_length: usize = natural(one.row_length, "row_length")?;
    if row_length != 0 && elements % row_length != 0 {
        return Err(invalid!(
            "row_length",
            "{row_length}, but the count of {elements} is not a whole number of rows"
        ));
    }
    let shape = match row_length {
        0 => Shape::new(&[elements])?,
        length => Shape::new(&[elements / length, length])?,
    };
    let bytes = elements * dtype.size();
    // SAFETY: the caller promises the numbers as long as the variable lives, which keeps this.
    let storage = unsafe { Storage::foreign(data, bytes, DeviceId::HOST, false, Box::new(())) };
    let layout = Layout::row_major(shape);
    Ok(GivenArray {
        new: NewVariable {
            name: name.as_str().into(),
            trainable: None,
            synchronization: Synchronization::Auto,
            aggregation: Aggregation::None,
        },
        tensor: Tensor::from_storage(Arc::new(storage), dtype, layout, 0)?,
        row_length: (row_length != 0).then_some(row_length),
        group: group_from(one)?,
    })
}

/// The address of an array's numbers, and their type.
fn numbers_of(one: &umbo_parameters) -> Result<(*mut u8, DType)> {
    let (name, data, dtype) = match (one.weights.is_null(), one.half_weights.is_null()) {
        (true, true) => return Err(invalid!("weights", "is NULL; the array is expected")),
        (false, true) => ("weights", one.weights.cast::<u8>(), DType::Float32),
        (true, false) => ("half_weights", one.half_weights.cast(), DType::BFloat16),
        (false, false) => {
            return Err(invalid!(
                "half_weights",
                "given together with weights; an array is float32 or bfloat16, so leave one of \
                 them NULL"
            ));
        }
    };
    let size = dtype.size();
    if !data.addr().is_multiple_of(size) {
        return Err(invalid!(
            name,
            "{data:p} is not a multiple of {size}, the size of a {dtype}"
        ));
    }
    if dtype == DType::BFloat16 && one.row_length != 0 {
        return Err(invalid!(
            "row_length",
            "{}, but half_weights have no gradients of single rows; leave one of them out",
            one.row_length
        ));
    }
    Ok((data, dtype))
}

/// Names the fields of an array in an error.
fn of_array(index: usize) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::InvalidArgument { argument, problem } => {
            Error::invalid(format!("parameters[{index}].{argument}"), problem)
        }
        other => other,
    }
}

fn default_name(index: usize, count: usize) -> String {
    match count {
        1 => "weights".to_owned(),
        _ => format!("weights_{index}"),
    }
}

fn group_from(one: &umbo_parameters) -> Result<VariableGroup> {
    let factor = one.learning_rate_factor;
    if !(factor.is_finite() && factor >= 0.0) {
        return Err(invalid!(
            "learning_rate_factor",
            "{factor}; must be finite and more than 0, or 0 for 1 (frozen leaves an array as it is)"
        ));
    }
    let no_decay = flag(one.no_weight_decay, "no_weight_decay")?;
    Ok(VariableGroup {
        learning_rate_factor: if factor == 0.0 { 1.0 } else { factor },
        weight_decay: no_decay.then_some(0.0),
        frozen: flag(one.frozen, "frozen")?,
    })
}

/// Names arrays in an error as the program knows them.
fn of_parameters(error: Error) -> Error {
    match error {
        Error::InvalidArgument { argument, problem } => {
            let named = |text: &str| text.replace("views", "parameters");
            Error::invalid(named(&argument), named(&problem))
        }
        Error::Within { place, error } => of_parameters(*error).within(
            place
                .replace("views", "parameters")
                .replace("names", "parameters"),
        ),
        other => other,
    }
}

fn training_options(options: &umbo_trainer_options) -> Result<TrainerOptions> {
    let interrupt_path = match options.interrupt_path.is_null() {
        true => None,
        // SAFETY: the caller gives a text.
        false => Some(unsafe { path(options.interrupt_path, "options.interrupt_path") }?),
    };
    Ok(TrainerOptions {
        gradient_dtype: dtype_or_any(options.gradient_dtype, "options.gradient_dtype")?,
        loss_reduction: constant(options.loss_reduction, "options.loss_reduction")?,
        accumulation_steps: positive(options.accumulation_steps, "options.accumulation_steps")?,
        seed: options.seed,
        shuffles: flag(options.shuffle, "options.shuffle")?,
        shows_progress: flag(options.progress, "options.progress")?,
        interrupt_path: interrupt_path.map(ToOwned::to_owned),
        timeout: duration(options.timeout_seconds, "options.timeout_seconds", true)?,
        cancellation: get_optional(options.cancellation, "options.cancellation")?,
        replicas: match options.replicas {
            UMBO_AUTO => Replicas::Chosen,
            0 if options.strategy.is_null() => Replicas::Usual,
            _ => Replicas::Given,
        },
    })
}

/// The source of the strategy.
enum GivenStrategy {
    /// The program has made it.
    Made(Strategy),
    /// It is made with these options.
    Options(Box<Options>),
}

impl GivenStrategy {
    fn get(&self, replicas: Option<usize>) -> Result<Strategy> {
        let options = match self {
            GivenStrategy::Made(strategy) => return Ok(strategy.clone()),
            GivenStrategy::Options(options) => options,
        };
        let made = Strategy::new(&Options {
            cpu_replicas: replicas.unwrap_or(options.cpu_replicas),
            ..(**options).clone()
        });
        made.map_err(|error| match error {
            Error::InvalidArgument { argument, problem } => {
                let argument = argument.replace("cpu_replicas", "replicas");
                Error::invalid(format!("options.{argument}"), problem)
            }
            other => other,
        })
    }
}

fn strategy_from(options: &umbo_trainer_options) -> Result<GivenStrategy> {
    let given = get_optional(options.strategy.cast_const(), "options.strategy")?;
    if let Some(strategy) = given {
        let others = [
            ("options.replicas", options.replicas != 0),
            ("options.replicas_in_sync", options.replicas_in_sync != 0),
            ("options.communicator", !options.communicator.is_null()),
        ];
        return match others.iter().find(|(_, is_given)| *is_given) {
            None => Ok(GivenStrategy::Made(strategy)),
            Some((argument, _)) => Err(invalid!(
                *argument,
                "given together with options.strategy, which says it already"
            )),
        };
    }
    let communicator = get_optional(options.communicator, "options.communicator")?;
    let replicas_in_sync: usize = natural(options.replicas_in_sync, "options.replicas_in_sync")?;
    let given = least_unless(options.replicas, 0, UMBO_AUTO, "options.replicas")?;
    let cpu_replicas = match given.unwrap_or(0) {
        0 => {
            let all = replicas_on_all_processors(communicator.as_ref());
            let ranks = communicator.as_ref().map_or(1, |engine| engine.size());
            match replicas_in_sync / ranks {
                0 => all,
                most => all.min(most),
            }
        }
        replicas => natural(replicas, "options.replicas")?,
    };
    Ok(GivenStrategy::Options(Box::new(Options {
        cpu_replicas,
        replicas_in_sync,
        communicator,
        ..Options::default()
    })))
}

/// The source of the optimizer.
enum GivenOptimizer {
    /// The program has made it.
    Made(Arc<Optimizer>),
    /// It is made by a rule of this name.
    Rule(Box<RuleOptions>),
}

impl GivenOptimizer {
    fn get(&self, strategy: &Strategy) -> Result<Arc<Optimizer>> {
        match self {
            GivenOptimizer::Made(optimizer) if optimizer.strategy() == strategy.id() => {
                Ok(Arc::clone(optimizer))
            }
            GivenOptimizer::Made(_) => Err(invalid!(
                "options.optimizer",
                "made for a strategy other than options.strategy"
            )),
            GivenOptimizer::Rule(given) => {
                let (rule, default_rate) = rule_named(&given.name)?;
                let rate = given.learning_rate.unwrap_or(default_rate);
                let made = Optimizer::new(strategy.id(), rule, rate);
                let made = made?;
                made.configure(given.settings)?;
                if let Some(schedule) = given.schedule {
                    made.set_named_schedule(NamedSchedule {
                        learning_rate: rate,
                        ..schedule
                    })?;
                }
                Ok(made)
            }
        }
    }
}

/// An optimizer that is to be made.
struct RuleOptions {
    name: String,
    /// None: the rule's own.
    learning_rate: Option<f64>,
    /// The learning rate over the training, in parts of the full one. None: it stays.
    schedule: Option<NamedSchedule>,
    settings: Settings,
}

fn schedule_from(options: &umbo_trainer_options) -> Result<Option<NamedSchedule>> {
    // SAFETY: the caller gives a text, or NULL.
    let kind = match unsafe { optional_text(options.schedule, "options.schedule") }? {
        None => ScheduleKind::Constant,
        Some("linear") => ScheduleKind::Linear,
        Some("cosine") => ScheduleKind::Cosine,
        Some(other) => {
            return Err(invalid!(
                "options.schedule",
                "'{other}'; valid are linear and cosine, and NULL for a rate that stays \
                 (umbo_optimizer_set_schedule() takes any other)"
            ));
        }
    };
    let schedule = NamedSchedule {
        kind,
        learning_rate: 1.0,
        warmup: natural(options.warmup_updates, "options.warmup_updates")?,
        updates: natural(options.schedule_updates, "options.schedule_updates")?,
        final_factor: 0.0,
    };
    schedule.check().map_err(|error| match error {
        // A trainer has more options than a schedule, so that this one says whose updates it means.
        Error::InvalidArgument { argument, problem } if argument == "updates" => {
            Error::invalid("options.schedule_updates", problem)
        }
        other => other,
    })?;
    let stays = kind == ScheduleKind::Constant && schedule.warmup == 0;
    Ok((!stays).then_some(schedule))
}

/// The moving average of the weights that the options say.
fn averaging_from(options: &umbo_trainer_options) -> Option<Averaging> {
    (options.average_decay != 0.0).then_some(Averaging {
        kind: AverageKind::Exponential {
            decay: options.average_decay,
            warmup: true,
        },
        start: 0,
        interval: 1,
    })
}

fn optimizer_from(options: &umbo_trainer_options) -> Result<GivenOptimizer> {
    let weight_decay = unless(options.weight_decay, UMBO_AUTO, "options.weight_decay")?;
    let clip_norm = unless(
        options.global_clip_norm,
        UMBO_INFINITE,
        "options.global_clip_norm",
    )?;
    let rate = unless(options.learning_rate, UMBO_AUTO, "options.learning_rate")?;
    // SAFETY: the caller gives a text, or NULL.
    let name = unsafe { optional_text(options.rule, "options.rule") }?;
    let given = get_optional(options.optimizer.cast_const(), "options.optimizer")?;
    let Some(optimizer) = given else {
        let settings = Settings {
            weight_decay,
            global_clip_norm: clip_norm,
            averaging: averaging_from(options),
            state_bits: state_bits(options.state_bits)?,
            stochastic_rounding: flag(options.stochastic_rounding, "options.stochastic_rounding")?
                .then_some(options.rounding_seed),
            ..Settings::default()
        };
        return Ok(GivenOptimizer::Rule(Box::new(RuleOptions {
            name: name.unwrap_or("sgd").to_owned(),
            learning_rate: rate,
            schedule: schedule_from(options)?,
            settings,
        })));
    };
    let others = [
        ("options.rule", name.is_some()),
        ("options.learning_rate", rate.is_some()),
        ("options.schedule", !options.schedule.is_null()),
        ("options.schedule_updates", options.schedule_updates != 0),
        ("options.warmup_updates", options.warmup_updates != 0),
        ("options.weight_decay", weight_decay.is_some()),
        ("options.global_clip_norm", clip_norm.is_some()),
        ("options.average_decay", options.average_decay != 0.0),
        ("options.state_bits", options.state_bits != 0),
        (
            "options.stochastic_rounding",
            options.stochastic_rounding != 0,
        ),
        ("options.rounding_seed", options.rounding_seed != 0),
    ];
    match others.iter().find(|(_, is_given)| *is_given) {
        None => Ok(GivenOptimizer::Made(optimizer)),
        Some((argument, _)) => Err(invalid!(
            *argument,
            "given together with options.optimizer, which says it already"
        )),
    }
}
