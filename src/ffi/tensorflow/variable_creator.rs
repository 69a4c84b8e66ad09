//! Variable creators: callbacks that see each new variable before it is made.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use crate::ffi::boundary::{c_call, constant};
use crate::ffi::callback::{self, umbo_destroy_fn};
use crate::ffi::handle::{Lent, consume, get, make, reserve};
use crate::ffi::object::{umbo_scope, umbo_tensor, umbo_variable, umbo_variable_request};
use crate::ffi::scope::{handle_to, present};
use crate::ffi::status::umbo_status;
use crate::ffi::text::device_name;
use crate::ffi::variable::{
    UMBO_TRAINABLE_DEFAULT, UMBO_TRAINABLE_NO, UMBO_TRAINABLE_YES, trainable_from,
    umbo_aggregation, umbo_synchronization, umbo_trainable,
};
use crate::strategy::context::enter_creator_scope;
use crate::strategy::creator::VariableRequest;
use crate::values::variable::{Aggregation, Synchronization};

/// Is called for a variable that is about to be made.
///
/// @param[in] request What the variable is to be, lent for the call.
/// @param[in] user_data What umbo_variable_creator_scope_enter() was given.
/// @param[out] variable The place for a variable; NULL on entry. The library takes over a variable
///   that is stored there.
/// @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the creation.
///
/// The creator can read and change the request. It can then do one of three things: store the
/// variable that umbo_variable_request_next() makes; store another variable; or store nothing, and
/// the variable is made from the request. If a creator makes variables of its own, it is called for
/// them too.
pub type umbo_variable_creator_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *mut umbo_variable_request,
        user_data: *mut c_void,
        variable: *mut *mut umbo_variable,
    ) -> umbo_status,
>;

/// Has a creator called for each new variable of this thread.
///
/// @param[in] creator The creator.
/// @param[in] user_data Passed to `creator` unchanged; may be anything.
/// @param[in] destroy Releases the user data when the scope is left and its last variable is made,
///   and if this call fails; may be left out.
/// @param[out] scope The scope. Leave it with umbo_scope_exit(), which also releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
///
/// Creators are called from the innermost scope outwards. A strategy has a creator of its own,
/// which places variables on the parameter device. Its turn is where the strategy's scope was
/// entered: creators entered inside that scope run before it, creators entered around the scope run
/// after it.
///
/// Runs that this thread starts meanwhile are inside the scope too. With several replicas only
/// replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
/// called before the creators, which see the initial value.
#[c_call(gives(user_data, destroy), out(scope))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_creator_scope_enter(
    creator: umbo_variable_creator_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    scope: *mut *mut umbo_scope,
) -> umbo_status {
    let function = present(creator, "creator")?;
    let call = move |request: &VariableRequest| {
        let mut lent = Lent::<umbo_variable_request>::new()?;
        let request = lent.lend(request.clone())?;
        let mut variable = ptr::null_mut();
        // SAFETY: the caller gives a function of this type and its user data.
        let ran =
            callback::run(|| unsafe { function(request, user_data.pointer(), &raw mut variable) });
        let stored = match variable.is_null() {
            true => None,
            false => Some(consume(variable, "variable")),
        };
        ran?;
        stored.transpose()
    };
    scope.write(handle_to(enter_creator_scope(Arc::new(call)))?);
}

/// Makes the variable of a request.
///
/// @param[in] request The request, as it is now.
/// @param[out] variable The variable. The caller releases it or stores it as the creator's result.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
/// - what another creator returned.
///
/// It calls the next creator; after the last one the variable itself is made. Each call makes a
/// variable.
#[c_call(out(variable))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_next(
    request: *mut umbo_variable_request,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    let handle = reserve()?;
    variable.write(handle.make(get(request, "request")?.next()?));
}

/// Tells the name that the variable is to have.
///
/// @param[in] request The request.
/// @param[out] name The name. Lives as long as the call of the creator, or until
///   umbo_variable_request_set_name().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(name), borrow(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_name(
    request: *const umbo_variable_request,
    name: *mut *const c_char,
) -> umbo_status {
    name.write(request.name().as_c_str().as_ptr());
}

/// Gives the variable another name.
///
/// @param[in] request The request.
/// @param[in] name The name, which is copied.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(text(name), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_name(
    request: *mut umbo_variable_request,
    name: *const c_char,
) -> umbo_status {
    request.describe(|new| new.name = name.into());
}

/// Gives the initial value that the variable is to have.
///
/// @param[in] request The request.
/// @param[out] tensor A new handle to the initial value, whose dtype and shape become the
///   variable's. Do not write it. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: there is not enough memory.
#[c_call(out(tensor), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_initial_value(
    request: *const umbo_variable_request,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    tensor.write(make(request.initial_value())?);
}

/// Gives the variable another initial value.
///
/// @param[in] request The request.
/// @param[in] tensor The initial value, of any dtype and shape. It stays the caller's to release.
///   It is copied when the variable is made.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(get(tensor), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_initial_value(
    request: *mut umbo_variable_request,
    tensor: *const umbo_tensor,
) -> umbo_status {
    request.set_initial_value(tensor);
}

/// Tells whether an optimizer should change the variable.
///
/// @param[in] request The request.
/// @param[out] trainable One of the UMBO_TRAINABLE_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(trainable), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_trainable(
    request: *const umbo_variable_request,
    trainable: *mut umbo_trainable,
) -> umbo_status {
    trainable.write(match request.description().trainable {
        None => UMBO_TRAINABLE_DEFAULT,
        Some(true) => UMBO_TRAINABLE_YES,
        Some(false) => UMBO_TRAINABLE_NO,
    });
}

/// Says whether an optimizer should change the variable.
///
/// @param[in] request The request.
/// @param[in] trainable One of the UMBO_TRAINABLE_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or an unknown
///   constant.
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_trainable(
    request: *mut umbo_variable_request,
    trainable: umbo_trainable,
) -> umbo_status {
    let trainable = trainable_from(trainable, "trainable")?;
    get(request, "request")?.describe(|new| new.trainable = trainable);
}

/// Tells how values that replicas assign are to be combined.
///
/// @param[in] request The request.
/// @param[out] aggregation One of the UMBO_AGGREGATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(aggregation), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_aggregation(
    request: *const umbo_variable_request,
    aggregation: *mut umbo_aggregation,
) -> umbo_status {
    aggregation.write(request.description().aggregation as i32);
}

/// Says how values that replicas assign are combined.
///
/// @param[in] request The request.
/// @param[in] aggregation One of the UMBO_AGGREGATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or an unknown
///   constant.
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_aggregation(
    request: *mut umbo_variable_request,
    aggregation: umbo_aggregation,
) -> umbo_status {
    let aggregation = constant(
        aggregation,
        Aggregation::from_code(aggregation),
        "aggregation",
        "UMBO_AGGREGATION_NONE (0) to UMBO_AGGREGATION_ONLY_FIRST_REPLICA (3)",
    )?;
    get(request, "request")?.describe(|new| new.aggregation = aggregation);
}

/// Tells the synchronisation that was asked for.
///
/// @param[in] request The request.
/// @param[out] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(synchronization), get(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_synchronization(
    request: *const umbo_variable_request,
    synchronization: *mut umbo_synchronization,
) -> umbo_status {
    synchronization.write(request.description().synchronization as i32);
}

/// Gives the variable another synchronisation.
///
/// @param[in] request The request.
/// @param[in] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, or an unknown
///   constant.
#[c_call]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_synchronization(
    request: *mut umbo_variable_request,
    synchronization: umbo_synchronization,
) -> umbo_status {
    let synchronization = constant(
        synchronization,
        Synchronization::from_code(synchronization),
        "synchronization",
        "UMBO_SYNCHRONIZATION_AUTO (0) to UMBO_SYNCHRONIZATION_ON_READ (3)",
    )?;
    get(request, "request")?.describe(|new| new.synchronization = synchronization);
}

/// Tells the device that the variable will lie on.
///
/// @param[in] request The request.
/// @param[out] name The canonical name of the device, which lives as long as the process. Before
///   the strategy's own creator has run, `*name` gets NULL.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
#[c_call(out(name), borrow(request))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_device(
    request: *const umbo_variable_request,
    name: *mut *const c_char,
) -> umbo_status {
    name.write(request.device().map_or(ptr::null(), device_name));
}
