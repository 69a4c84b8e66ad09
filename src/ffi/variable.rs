//! Variables.

use super::prelude::*;
use crate::strategy::variables::{self, Initial, NewVariable};
use crate::values::variable::{Aggregation, Synchronization};

/// How values that replicas assign to a variable are combined.
pub type umbo_aggregation = i32;

/// Not at all: with several replicas an assignment in a replica's callback is
/// UMBO_STATUS_INVALID_ARGUMENT.
pub const UMBO_AGGREGATION_NONE: umbo_aggregation = 0;
/// The values are added.
pub const UMBO_AGGREGATION_SUM: umbo_aggregation = 1;
/// The values are added, and the sum is divided by the number of replicas. Not for integer
/// variables.
pub const UMBO_AGGREGATION_MEAN: umbo_aggregation = 2;
/// Replica 0's value is taken.
pub const UMBO_AGGREGATION_ONLY_FIRST_REPLICA: umbo_aggregation = 3;

constants! { Aggregation {
    UMBO_AGGREGATION_NONE = Aggregation::None, UMBO_AGGREGATION_SUM = Aggregation::Sum,
    UMBO_AGGREGATION_MEAN = Aggregation::Mean,
    UMBO_AGGREGATION_ONLY_FIRST_REPLICA = Aggregation::OnlyFirstReplica,
} }

/// When copies of a variable are to be synchronised.
///
/// A variable has one copy, so its value does not depend on this. It is recorded, and with ON_READ
/// the default of `trainable` is no.
pub type umbo_synchronization = i32;

/// The strategy decides.
pub const UMBO_SYNCHRONIZATION_AUTO: umbo_synchronization = 0;
/// Never.
pub const UMBO_SYNCHRONIZATION_NONE: umbo_synchronization = 1;
/// On every write.
pub const UMBO_SYNCHRONIZATION_ON_WRITE: umbo_synchronization = 2;
/// On every read.
pub const UMBO_SYNCHRONIZATION_ON_READ: umbo_synchronization = 3;

constants! { Synchronization {
    UMBO_SYNCHRONIZATION_AUTO = Synchronization::Auto,
    UMBO_SYNCHRONIZATION_NONE = Synchronization::None,
    UMBO_SYNCHRONIZATION_ON_WRITE = Synchronization::OnWrite,
    UMBO_SYNCHRONIZATION_ON_READ = Synchronization::OnRead,
} }

/// Whether an optimizer should change a variable.
pub type umbo_trainable = i32;

/// Yes, except with UMBO_SYNCHRONIZATION_ON_READ.
pub const UMBO_TRAINABLE_DEFAULT: umbo_trainable = 0;
/// Yes.
pub const UMBO_TRAINABLE_YES: umbo_trainable = 1;
/// No.
pub const UMBO_TRAINABLE_NO: umbo_trainable = 2;

constants! { Option<bool> {
    UMBO_TRAINABLE_DEFAULT = None, UMBO_TRAINABLE_YES = Some(true),
    UMBO_TRAINABLE_NO = Some(false),
} }

/// Writes the initial value of a variable.
///
/// @param[in] memory The variable's elements, for writing: contiguous, and zero at first. Valid for
///   the call.
/// @param[in] user_data `initializer_user_data` of the options.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the creation.
pub type umbo_initializer_fn = Option<
    unsafe extern "C-unwind" fn(memory: *const umbo_view, user_data: *mut c_void) -> umbo_status,
>;

/// The properties of a new variable. Start from UMBO_VARIABLE_OPTIONS_INIT.
#[c_struct(initial_spread = 0.05)]
#[repr(C)]
pub struct umbo_variable_options {
    /// sizeof(umbo_variable_options).
    pub struct_size: usize,
    /// Writes the initial value, in place of a tensor. It is called once, before
    /// umbo_variable_create() returns. NULL: none.
    pub initializer: umbo_initializer_fn,
    /// Passed to `initializer` unchanged.
    pub initializer_user_data: *mut c_void,
    /// The type of the elements. Only with `initializer` or `initial`: a tensor brings
    /// its own.
    pub dtype: umbo_dtype,
    /// The number of dimensions. Only with `initializer` or `initial`.
    pub rank: i32,
    /// The sizes of the dimensions, `rank` of them. Only with `initializer` or `initial`.
    pub shape: *const i64,
    /// Whether an optimizer should change the variable. By default UMBO_TRAINABLE_DEFAULT.
    pub trainable: umbo_trainable,
    /// Recorded only; see umbo_synchronization. By default UMBO_SYNCHRONIZATION_AUTO.
    pub synchronization: umbo_synchronization,
    /// How values that replicas assign are combined. By default UMBO_AGGREGATION_NONE.
    pub aggregation: umbo_aggregation,
    /// What the elements are drawn from, in place of an initial value. One of the UMBO_INITIAL_
    /// constants.
    pub initial: umbo_initial,
    /// The mean of UMBO_INITIAL_UNIFORM and UMBO_INITIAL_NORMAL, the number of UMBO_INITIAL_CONSTANT.
    /// Finite; by default 0.
    pub initial_mean: f64,
    /// How far UMBO_INITIAL_UNIFORM and UMBO_INITIAL_NORMAL spread. Finite and 0 or more; by default
    /// 0.05.
    pub initial_spread: f64,
    /// Which elements are drawn, together with the variable's name: variables of different names differ
    /// under one seed, those without a name do not.
    pub initial_seed: u64,
}

pub(super) fn new_variable(
    name: Option<&str>,
    options: &umbo_variable_options,
) -> Result<NewVariable> {
    Ok(NewVariable {
        name: name.unwrap_or("Variable").into(),
        trainable: constant(options.trainable, "options.trainable")?,
        synchronization: constant(options.synchronization, "options.synchronization")?,
        aggregation: constant(options.aggregation, "options.aggregation")?,
    })
}

/// Makes a variable on a strategy's parameter device.
///
/// @param[in] strategy The strategy; `strategy` may be NULL: the current one. So a function that
///   makes variables can be called in a scope.
/// @param[in] name The name; `name` may be NULL: "Variable". Several variables may have the same
///   name.
/// @param[in] initial_value The initial value, which is copied; its dtype and shape become the
///   variable's. NULL if the options say it, by `initializer` or by `initial`: exactly one of the three is
///   given.
/// @param[in] options The properties; `options` may be NULL: all defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an unknown constant in the options, none or more than one of initial
///   value, `initializer` and `initial`, or an `initial` other than UMBO_INITIAL_ZEROS of elements that are
///   not floats.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call names a strategy and comes from a replica's
///   callback; or it comes from another strategy's scope, or from inside a scope of the default
///   strategy and is for another one.
/// - UMBO_STATUS_FAILED_PRECONDITION: in a replica's callback, replica 0 has not made this variable
///   (see below).
/// - what the initializer or a variable creator returned.
///
/// In a replica's callback `strategy` is left out. With several replicas, replica 0 makes the
/// variable. The call of each other replica waits for it and gives the same variable. It is found
/// by its name and by its position among the variables of that name; the other replicas' initial
/// values are not used. A name that ends in an underscore and one digit counts as the name without
/// them. If replica 0 returns, or waits in a synchronising call, without having made the variable,
/// the others get UMBO_STATUS_FAILED_PRECONDITION, and the message names the device. Replica 0 may
/// make variables that the others do not ask for.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. The value is that of rank 0.
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
    // SAFETY: the caller promises NULL or `rank` numbers.
    let like = || unsafe {
        let shape = arguments::shape(options.shape, (options.rank, "rank"), "shape");
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
            let initial = Initial::Fill { dtype, shape, fill: &mut fill };
            variables::create(strategy.as_ref(), new, initial)
        }
        (None, None, Some(distribution)) => {
            let (dtype, shape) = like()?;
            let name = new.name.clone();
            let mut fill = |memory: &Tensor| {
                // SAFETY: the variable is being made, and nobody else has its memory.
                let mut memory = unsafe { memory.assume_exclusive() };
                distribution.fill(&mut memory, options.initial_seed, &name)
            };
            let initial = Initial::Fill { dtype, shape, fill: &mut fill };
            variables::create(strategy.as_ref(), new, initial)
        }
        (None, None, None) => Err(Error::invalid(
            "initial_value",
            "is NULL; a tensor, options.initializer or options.initial is expected",
        )),
        _ => Err(Error::invalid(
            "initial_value, options.initializer, options.initial",
            "several are given; give one of the three",
        )),
    };
    variable.write(handle.make(created?));
}

/// What a variable is. Start from UMBO_VARIABLE_INFO_INIT.
#[c_struct]
#[repr(C)]
pub struct umbo_variable_info {
    /// sizeof(umbo_variable_info).
    pub struct_size: usize,
    /// The name. Lives as long as the variable.
    pub name: *const c_char,
    /// The canonical name of the device that holds the variable. Lives as long as the process.
    pub device: *const c_char,
    /// The type of the elements.
    pub dtype: umbo_dtype,
    /// The number of dimensions.
    pub rank: i32,
    /// The sizes of the dimensions, `rank` of them; the rest is 0.
    pub shape: [i64; 8],
    /// 1 if an optimizer should change the variable, else 0.
    pub trainable: i32,
    /// How values that replicas assign are combined.
    pub aggregation: umbo_aggregation,
    /// The synchronisation that the variable was made with; see umbo_synchronization.
    pub synchronization: umbo_synchronization,
}

/// Gets what a variable is.
///
/// @param[out] info Its description. Start from UMBO_VARIABLE_INFO_INIT, which sets its size.
#[c_call(result(info), borrow(variable))]
pub fn umbo_variable_get_info(variable: *const umbo_variable, info: *mut umbo_variable_info) {
    let (shape, spec) = (variable.shape(), variable.spec());
    info.write(umbo_variable_info {
        name: variable.name().as_c_str().as_ptr(),
        device: device_name(variable.device()),
        dtype: variable.dtype().to_c(),
        rank: shape.rank() as i32,
        shape: padded(shape.iter().map(|&size| size as i64)),
        trainable: spec.trainable.into(),
        aggregation: spec.aggregation.to_c(),
        synchronization: spec.synchronization.to_c(),
        ..Default::default()
    });
}
