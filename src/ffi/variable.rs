//! Variables.

use std::ffi::{c_char, c_void};

use super::boundary::{boundary, constant, out, quietly};
use super::callback;
use super::handle::{self, borrow, get, get_optional, make, reserve};
use super::object::{umbo_replica_context, umbo_strategy, umbo_tensor, umbo_value, umbo_variable};
use super::options::{self, Extensible};
use super::replica_context::in_context;
use super::status::umbo_status;
use super::tensor::{
    UMBO_DTYPE_NONE, dtype_from, shape_from, umbo_dtype, umbo_view, view_to_read, view_to_write,
};
use super::text::{device_name, optional_text};
use crate::collectives::Assignment;
use crate::error::{Error, Result};
use crate::strategy::context::with_current_replica;
use crate::strategy::variables::{self, Initial, NewVariable};
use crate::tensor::Tensor;
use crate::values::variable::{Aggregation, Synchronization, Variable};

/// How values that replicas assign to a variable are combined.
pub type umbo_aggregation = i32;

/// Assigning in replica context is INVALID_ARGUMENT.
pub const UMBO_AGGREGATION_NONE: umbo_aggregation = 0;
/// The replicas' values are added.
pub const UMBO_AGGREGATION_SUM: umbo_aggregation = 1;
/// The sum is divided by the number of replicas. Not for integer variables.
pub const UMBO_AGGREGATION_MEAN: umbo_aggregation = 2;
/// Replica 0's value counts.
pub const UMBO_AGGREGATION_ONLY_FIRST_REPLICA: umbo_aggregation = 3;

/// When copies of a variable would be synchronised. There is one copy, so this has no effect on
/// its value; it is recorded, and ON_READ makes `trainable` default to no.
pub type umbo_synchronization = i32;

/// The strategy decides.
pub const UMBO_SYNCHRONIZATION_AUTO: umbo_synchronization = 0;
/// Never.
pub const UMBO_SYNCHRONIZATION_NONE: umbo_synchronization = 1;
/// On every write.
pub const UMBO_SYNCHRONIZATION_ON_WRITE: umbo_synchronization = 2;
/// On every read.
pub const UMBO_SYNCHRONIZATION_ON_READ: umbo_synchronization = 3;

/// Whether an optimizer should change a variable.
pub type umbo_trainable = i32;

/// Yes, unless the variable is synchronised on reading.
pub const UMBO_TRAINABLE_DEFAULT: umbo_trainable = 0;
/// Yes.
pub const UMBO_TRAINABLE_YES: umbo_trainable = 1;
/// No.
pub const UMBO_TRAINABLE_NO: umbo_trainable = 2;

/// Writes a variable's initial value: all elements of `memory`, which is contiguous and zero.
pub type umbo_initializer_fn = Option<
    unsafe extern "C-unwind" fn(memory: *const umbo_view, user_data: *mut c_void) -> umbo_status,
>;

/// What a new variable is to be. Start from UMBO_VARIABLE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_variable_options {
    /// sizeof(umbo_variable_options).
    pub struct_size: usize,
    /// Called once, during the call, in place of an initial value.
    pub initializer: umbo_initializer_fn,
    /// Given to `initializer`.
    pub initializer_user_data: *mut c_void,
    /// The element type; with an initializer.
    pub dtype: umbo_dtype,
    /// The rank; with an initializer.
    pub rank: i32,
    /// The sizes of the dimensions; with an initializer.
    pub shape: *const i64,
    /// One of the UMBO_TRAINABLE_ constants.
    pub trainable: umbo_trainable,
    /// One of the UMBO_SYNCHRONIZATION_ constants.
    pub synchronization: umbo_synchronization,
    /// One of the UMBO_AGGREGATION_ constants.
    pub aggregation: umbo_aggregation,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_variable_options {}

impl Default for umbo_variable_options {
    fn default() -> Self {
        umbo_variable_options {
            struct_size: size_of::<Self>(),
            initializer: None,
            initializer_user_data: std::ptr::null_mut(),
            dtype: UMBO_DTYPE_NONE,
            rank: 0,
            shape: std::ptr::null(),
            trainable: UMBO_TRAINABLE_DEFAULT,
            synchronization: UMBO_SYNCHRONIZATION_AUTO,
            aggregation: UMBO_AGGREGATION_NONE,
        }
    }
}

pub(super) fn trainable_from(code: i32, argument: &'static str) -> Result<Option<bool>> {
    let found = match code {
        UMBO_TRAINABLE_DEFAULT => Some(None),
        UMBO_TRAINABLE_YES => Some(Some(true)),
        UMBO_TRAINABLE_NO => Some(Some(false)),
        _ => None,
    };
    constant(code, found, argument, "UMBO_TRAINABLE_DEFAULT (0) to UMBO_TRAINABLE_NO (2)")
}

fn new_variable(name: Option<&str>, options: &umbo_variable_options) -> Result<NewVariable> {
    Ok(NewVariable {
        name: name.unwrap_or("Variable").into(),
        trainable: trainable_from(options.trainable, "options.trainable")?,
        synchronization: constant(
            options.synchronization,
            Synchronization::from_code(options.synchronization),
            "options.synchronization",
            "UMBO_SYNCHRONIZATION_AUTO (0) to UMBO_SYNCHRONIZATION_ON_READ (3)",
        )?,
        aggregation: constant(
            options.aggregation,
            Aggregation::from_code(options.aggregation),
            "options.aggregation",
            "UMBO_AGGREGATION_NONE (0) to UMBO_AGGREGATION_ONLY_FIRST_REPLICA (3)",
        )?,
    })
}

/// Makes a variable on the strategy's parameter device. `strategy` may be NULL: then it is made in
/// the current strategy, so that a function which makes variables can be called in a scope.
/// `name` may be NULL; names need not differ. `initial_value`, of which the variable gets a copy,
/// is NULL if the options have an initializer; exactly one of the two is given. `options` may be
/// NULL.
///
/// In the callback of several replicas, with `strategy` NULL, replica 0 makes the variable, and each
/// other replica's call waits for it and gives the same variable: by name and by position among the
/// variables of that name, whatever its own initial value. A name that ends in an underscore and one
/// digit counts as the name without them. FAILED_PRECONDITION, naming the device, if replica 0 makes
/// no such variable before it returns or waits in a synchronising call. A variable that replica 0
/// alone makes is fine.
///
/// FAILED_PRECONDITION in a replica's callback if `strategy` is given, in another strategy's scope,
/// and, unless for the default strategy, in a scope of the default strategy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_create(
    strategy: *mut umbo_strategy,
    name: *const c_char,
    initial_value: *const umbo_tensor,
    options: *const umbo_variable_options,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_variable_create", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (variable, name, options) = unsafe {
            (
                out(variable, "variable")?,
                optional_text(name, "name")?,
                options::read(options, "options")?,
            )
        };
        let strategy = get_optional(strategy, "strategy")?;
        let tensor = get_optional(initial_value, "initial_value")?;
        let new = new_variable(name, &options)?;
        let handle = reserve()?;
        let created = match (&tensor, options.initializer) {
            (Some(tensor), None) => {
                variables::create(strategy.as_ref(), new, Initial::Value(tensor))
            }
            (None, Some(initializer)) => {
                let mut fill = |memory: &Tensor| {
                    let view = view_to_write(memory);
                    // SAFETY: the caller gives a function of this type and its user data.
                    callback::run(|| unsafe {
                        initializer(&raw const view, options.initializer_user_data)
                    })
                };
                let dtype = dtype_from(options.dtype)?;
                // SAFETY: the caller promises NULL or `rank` numbers.
                let shape = unsafe { shape_from(options.rank, options.shape, "shape") }?;
                let initial = Initial::Fill { dtype, shape, fill: &mut fill };
                variables::create(strategy.as_ref(), new, initial)
            }
            (given, _) => Err(Error::invalid(
                "initial_value",
                match given {
                    Some(_) => "is given together with options.initializer; give one of the two",
                    None => "is NULL; a tensor or options.initializer is expected",
                },
            )),
        };
        variable.write(handle.make(created?));
        Ok(())
    })
}

/// Where the variable's value lies right now, for reading: never write through it. In a replica's
/// callback `ctx` is its context: the view is on the replica's device, shows what this step has
/// written so far, and is valid until the callback returns or the variable is written. Outside of
/// runs `ctx` is NULL, and the view is valid until the variable is written next or released; no
/// other thread may write it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_view(
    variable: *const umbo_variable,
    ctx: *const umbo_replica_context,
    view: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_variable_view", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let view = unsafe { out(view, "view") }?;
        let look = |context: Option<&_>, variable: &Variable| {
            // SAFETY: the program reads the view as this function's contract says.
            unsafe { variables::current_tensor(context, variable) }.map(view_to_read)
        };
        view.write(borrow(variable, "variable", |variable| match ctx.is_null() {
            true => with_current_replica(|own| look(own, variable)),
            false => in_context(ctx, |own| look(Some(own), variable)),
        })??);
        Ok(())
    })
}

/// As umbo_variable_view(), with the variable's current value in another type: UMBO_DTYPE_FLOAT16 or
/// UMBO_DTYPE_BFLOAT16 for a float32 variable. (The variable's own type gives what umbo_variable_view()
/// gives; all others are INVALID_ARGUMENT.) `ctx` is the replica's context, or NULL outside of runs.
///
/// The variable stays float32: it is what updates and assignments act on. Beside it lies a contiguous
/// copy, each element rounded to the nearest value, ties to even. The first call for a type makes the
/// copy (RESOURCE_EXHAUSTED if there is no memory) and it stays as long as the variable; from then on
/// an apply of an optimizer writes it along with the variable, at the cost of its own bytes. After
/// other writes the next call converts the variable anew. Replicas may call at the same time: one
/// converts, the others wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_view_as(
    variable: *const umbo_variable,
    ctx: *const umbo_replica_context,
    dtype: umbo_dtype,
    view: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_variable_view_as", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let view = unsafe { out(view, "view") }?;
        let dtype = dtype_from(dtype)?;
        let look = |context: Option<&_>, variable: &Variable| {
            // SAFETY: the program reads the view as the contract of `umbo_variable_view` says.
            unsafe { variables::current_copy(context, variable, dtype) }
                .map(|copy| copy.map(view_to_read))
        };
        let ready = borrow(variable, "variable", |variable| match ctx.is_null() {
            true => with_current_replica(|own| look(own, variable)),
            false => in_context(ctx, |own| look(Some(own), variable)),
        })??;
        if let Some(ready) = ready {
            view.write(ready);
            return Ok(());
        }
        let context = match ctx.is_null() {
            true => with_current_replica(|own| own.cloned()),
            false => in_context(ctx, |own| Ok(Some(own.clone())))?,
        };
        let variable = get(variable, "variable")?;
        // SAFETY: as above; and nobody writes the variable meanwhile, which outside of runs is the
        // program's promise.
        let copy = unsafe { variables::bring_in_step(context.as_ref(), &variable, dtype) }?;
        view.write(view_to_read(copy));
        Ok(())
    })
}

/// A copy of the value that the variable has now: in a run or a merge call with what the step has
/// written so far, elsewhere the value of the last step that succeeded. A new tensor on the
/// variable's device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_read(
    variable: *const umbo_variable,
    value: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_variable_read", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let value = unsafe { out(value, "value") }?;
        value.write(make(variables::read(&get(variable, "variable")?)?)?);
        Ok(())
    })
}

fn assign(
    function: &'static str,
    variable: *const umbo_variable,
    kind: Assignment,
    value: *const umbo_value,
) -> umbo_status {
    boundary(function, || {
        variables::assign(&get(variable, "variable")?, kind, &get(value, "value")?)
    })
}

/// Assigns a value of the variable's dtype and shape (INVALID_ARGUMENT if they differ).
///
/// In cross-replica and default context it acts once; of a per-replica value the first component
/// counts, and the log gets one warning for each variable. In a replica's callback it is a synchronising call that all replicas make (see
/// umbo_replica_context_merge_call()): their values are combined as the variable's aggregation
/// says and the result is assigned once. Later reads in the step see it; it becomes central state
/// when the run succeeds, and is dropped when it fails. With SUM the very same tensor on all
/// replicas is INVALID_ARGUMENT. A variable of the default strategy is written by each replica in
/// turn, at once.
///
/// FAILED_PRECONDITION in the scope or a run of another strategy than the variable's, and while
/// its strategy is draining.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_assign(
    variable: *mut umbo_variable,
    value: *const umbo_value,
) -> umbo_status {
    assign("umbo_variable_assign", variable, Assignment::Assign, value)
}

/// Adds a value; otherwise as umbo_variable_assign().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_assign_add(
    variable: *mut umbo_variable,
    value: *const umbo_value,
) -> umbo_status {
    assign("umbo_variable_assign_add", variable, Assignment::Add, value)
}

/// Subtracts a value; otherwise as umbo_variable_assign().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_assign_sub(
    variable: *mut umbo_variable,
    value: *const umbo_value,
) -> umbo_status {
    assign("umbo_variable_assign_sub", variable, Assignment::Subtract, value)
}

/// The variable's name. Lives as long as the variable.
///
/// @param variable The variable.
/// @param name Gets the name.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT for what is no variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_name(
    variable: *const umbo_variable,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_variable_name", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(variable, "variable", |variable| variable.name().as_c_str().as_ptr())?);
        Ok(())
    })
}

fn number(
    function: &'static str,
    variable: *const umbo_variable,
    output: *mut i32,
    argument: &'static str,
    of: impl FnOnce(&Variable) -> i32,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller gives NULL or a place for the output.
        let output = unsafe { out(output, argument) }?;
        output.write(borrow(variable, "variable", of)?);
        Ok(())
    })
}

/// The type of the variable's elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_dtype(
    variable: *const umbo_variable,
    dtype: *mut umbo_dtype,
) -> umbo_status {
    number("umbo_variable_dtype", variable, dtype, "dtype", |variable| variable.dtype() as i32)
}

/// Whether an optimizer should change the variable: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_trainable(
    variable: *const umbo_variable,
    trainable: *mut i32,
) -> umbo_status {
    number("umbo_variable_trainable", variable, trainable, "trainable", |variable| {
        i32::from(variable.spec().trainable)
    })
}

/// How values that replicas assign are combined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_aggregation(
    variable: *const umbo_variable,
    aggregation: *mut umbo_aggregation,
) -> umbo_status {
    number("umbo_variable_aggregation", variable, aggregation, "aggregation", |variable| {
        variable.spec().aggregation as i32
    })
}

/// The synchronisation that the variable was made with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_synchronization(
    variable: *const umbo_variable,
    synchronization: *mut umbo_synchronization,
) -> umbo_status {
    number(
        "umbo_variable_synchronization",
        variable,
        synchronization,
        "synchronization",
        |variable| variable.spec().synchronization as i32,
    )
}

/// The canonical name of the device that holds the variable. Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_device(
    variable: *const umbo_variable,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_variable_device", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(variable, "variable", |variable| device_name(variable.device()))?);
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_retain(
    variable: *const umbo_variable,
    retained: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_variable_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(variable, "variable", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_release(variable: *const umbo_variable) {
    quietly("umbo_variable_release", || handle::release(variable, "variable"));
}
