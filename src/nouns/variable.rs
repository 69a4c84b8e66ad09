//! Variables.

use crate::machinery::prelude::*;
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::values::variable::{Aggregation, Synchronization};

/// How values that replicas assign to a variable are combined.
pub type umbo_aggregation = i32;

/// Not at all: an assignment in a callback of several replicas is UMBO_STATUS_INVALID_ARGUMENT.
pub const UMBO_AGGREGATION_NONE: umbo_aggregation = 0;
/// The values are added.
pub const UMBO_AGGREGATION_SUM: umbo_aggregation = 901;
/// The sum of the values is divided by the number of replicas. Not for integers.
pub const UMBO_AGGREGATION_MEAN: umbo_aggregation = 902;
/// Replica 0's value is taken.
pub const UMBO_AGGREGATION_ONLY_FIRST_REPLICA: umbo_aggregation = 903;

constants! { Aggregation {
    UMBO_AGGREGATION_NONE = None, UMBO_AGGREGATION_SUM = Sum, UMBO_AGGREGATION_MEAN = Mean,
    UMBO_AGGREGATION_ONLY_FIRST_REPLICA = OnlyFirstReplica,
} }

/// Writes the initial value of a variable.
///
/// @param[in] memory The elements, for writing: contiguous, and zero at first. Valid for the call.
/// @return UMBO_OK, or another status, which fails the creation.
pub type umbo_initializer_fn = Option<
    unsafe extern "C-unwind" fn(memory: *const umbo_view, user_data: *mut c_void) -> umbo_status,
>;

/// The properties of a new variable. Start from UMBO_VARIABLE_OPTIONS_INIT.
#[c_struct(trainable = UMBO_AUTO as i32, initial_spread = 0.05)]
pub struct umbo_variable_options {
    /// Writes the initial value, once, before umbo_variable_create() returns. NULL: none.
    pub initializer: umbo_initializer_fn,
    /// Passed to `initializer`.
    pub initializer_user_data: *mut c_void,
    /// The type of the elements. It and the shape are only for `initializer` and `initial`.
    pub dtype: umbo_dtype,
    /// The number of dimensions.
    pub ndim: i32,
    /// The size of each dimension.
    #[counted_by_function]
    pub shape: *const i64,
    /// 1: optimizers change the variable. 0: they do not. UMBO_AUTO, the default, is 1, with one
    /// exception in tensorflow.h.
    pub trainable: i32,
    /// How values that replicas assign are combined.
    pub aggregation: umbo_aggregation,
    /// The distribution of the elements.
    pub initial: umbo_initial,
    /// The mean of UMBO_INITIAL_UNIFORM and _NORMAL, the number of UMBO_INITIAL_CONSTANT. Finite.
    pub initial_mean: f64,
    /// The spread of UMBO_INITIAL_UNIFORM and _NORMAL. Finite, 0 or more.
    pub initial_spread: f64,
    /// The seed of the elements that are drawn. They also depend on the variable's name, and on how
    /// many variables of that name the strategy has drawn before, so that variables of one name
    /// differ.
    pub initial_seed: u64,
}

/// Whether optimizers change a variable; `None`: as the rest of its description says.
pub(crate) fn trainable(code: i32, argument: &'static str) -> Result<Option<bool>> {
    match code {
        0 | 1 => Ok(Some(code == 1)),
        _ if i64::from(code) == UMBO_AUTO => Ok(None),
        _ => Err(invalid!(
            argument,
            "{}; valid are 0 (no), 1 (yes) and {}",
            described(code),
            described(UMBO_AUTO)
        )),
    }
}

pub(crate) fn new_variable(
    name: Option<&str>,
    options: &umbo_variable_options,
) -> Result<NewVariable> {
    // Also where the elements say their type themselves.
    dtype_or_any(options.dtype, "options.dtype")?;
    Ok(NewVariable {
        name: name.unwrap_or("Variable").into(),
        trainable: trainable(options.trainable, "options.trainable")?,
        synchronization: Synchronization::Auto,
        aggregation: constant(options.aggregation, "options.aggregation")?,
    })
}

/// Makes a variable on a strategy's parameter device. Collective; the value is that of rank 0.
///
/// @param[in] strategy The strategy. `strategy` may be NULL: the current one. In a replica's
///   callback it is NULL.
/// @param[in] name The name, not empty, which other variables may have too. `name` may be NULL:
///   "Variable".
/// @param[in] initial_value The initial value, which is copied; NULL if `initializer` or
///   `initial` of the options says it. Exactly one of the three is given.
/// @param[in] options The properties; `options` may be NULL.
/// @return UMBO_OK, the status of the initializer or of a variable creator, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: the scope of another strategy; or a replica's callback, with
///   a strategy or for a variable that replica 0 has not made.
///
/// In a replica's callback, replica 0 makes the variable. The other replicas' calls wait and get
/// the same one. They find it by its name and its position among the variables of that name, where
/// a name such as "w_1" counts as "w". If replica 0 returns, or waits in a synchronising call,
/// without having made it, their calls fail.
#[c_call(
    out(variable),
    optional_text(name),
    options(options),
    get_optional(strategy),
    get_optional(initial_value)
)]
pub fn umbo_variable_create(
    strategy: *mut umbo_strategy,
    name: *const c_char,
    initial_value: *const umbo_tensor,
    options: *const umbo_variable_options,
    variable: *mut *mut umbo_variable,
) {
    let new = new_variable(name, &options)?;
    let handle = reserve()?;
    // SAFETY: the caller promises NULL or `ndim` numbers.
    let like = || unsafe {
        let shape = arguments::shape(options.shape, Count::new(options.ndim, "ndim"), "shape");
        Ok((constant(options.dtype, "dtype")?, shape?))
    };
    let created = match (&initial_value, options.initializer, distribution(&options)?) {
        (Some(tensor), None, None) => {
            variables::create(strategy.as_ref(), new, Initial::Value(tensor))
        }
        (None, Some(initializer), None) => {
            let mut fill = |memory: &Tensor| {
                let view = view_to_write(memory);
                // SAFETY: the caller gives a function of this type and its user data.
                callback::run(|| unsafe {
                    initializer(&raw const view, options.initializer_user_data)
                })
            };
            let (dtype, shape) = like()?;
            let initial = Initial::Fill {
                dtype,
                shape,
                fill: &mut fill,
            };
            variables::create(strategy.as_ref(), new, initial)
        }
        (None, None, Some(distribution)) => {
            let (dtype, shape) = like()?;
            let initial = Initial::Drawn {
                dtype,
                shape,
                distribution,
                seed: options.initial_seed,
            };
            variables::create(strategy.as_ref(), new, initial)
        }
        (None, None, None) => Err(invalid!(
            "initial_value",
            "is NULL; a tensor, options.initializer or options.initial is expected"
        )),
        _ => Err(invalid!(
            "initial_value, options.initializer, options.initial",
            "several are given; give one of the three"
        )),
    };
    variable.write(handle.make(created?));
}

/// The properties of a variable. Start from UMBO_VARIABLE_INFO_INIT.
#[c_struct]
pub struct umbo_variable_info {
    /// The name. Lives as long as the variable.
    pub name: *const c_char,
    /// The canonical name of the device that holds the variable. Lives as long as the process.
    pub device: *const c_char,
    /// The type of the elements.
    pub dtype: umbo_dtype,
    /// The number of dimensions.
    pub ndim: i32,
    /// The size of each dimension; 0 from `ndim` on.
    pub shape: [i64; 8],
    /// 1 if optimizers change the variable, else 0.
    pub trainable: i32,
    /// How values that replicas assign are combined.
    pub aggregation: umbo_aggregation,
    /// The `id` of the strategy that made it (umbo_strategy_info); 0: the default one.
    pub strategy_id: u64,
}

/// Gets what a variable is.
#[c_call(result(info), borrow(variable))]
pub fn umbo_variable_get_info(variable: *const umbo_variable, info: *mut umbo_variable_info) {
    let shape = variable.shape();
    let spec = variable.spec();
    info.write(umbo_variable_info {
        name: variable.name().as_c_str().as_ptr(),
        device: device_name(variable.device()),
        dtype: variable.dtype().to_c(),
        ndim: shape.rank() as i32,
        shape: padded(shape.iter().map(|&size| size as i64)),
        trainable: spec.trainable.into(),
        aggregation: spec.aggregation.to_c(),
        strategy_id: spec.strategy,
        ..Default::default()
    });
}
