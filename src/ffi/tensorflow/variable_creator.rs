//! Variable creators: callbacks that see each new variable before it is made.

use crate::ffi::prelude::*;
use crate::ffi::variable::trainable;
use crate::strategy::context::enter_creator_scope;
use crate::strategy::creator::VariableRequest;
use crate::values::variable::Synchronization;

/// When copies of a variable are to be synchronised. A variable of this strategy has one copy, so it
/// says only whether optimizers change a variable whose options do not say it.
pub type umbo_synchronization = i32;

/// The strategy decides.
pub const UMBO_SYNCHRONIZATION_AUTO: umbo_synchronization = 0;
/// Never.
pub const UMBO_SYNCHRONIZATION_NONE: umbo_synchronization = 1;
/// On every write.
pub const UMBO_SYNCHRONIZATION_ON_WRITE: umbo_synchronization = 2;
/// On every read. Optimizers do not change the variable, unless its options or a creator say so.
pub const UMBO_SYNCHRONIZATION_ON_READ: umbo_synchronization = 3;

constants! { Synchronization {
    UMBO_SYNCHRONIZATION_AUTO = Synchronization::Auto,
    UMBO_SYNCHRONIZATION_NONE = Synchronization::None,
    UMBO_SYNCHRONIZATION_ON_WRITE = Synchronization::OnWrite,
    UMBO_SYNCHRONIZATION_ON_READ = Synchronization::OnRead,
} }

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
/// @param[in] user_data Passed to `creator` unchanged; may be anything.
/// @param[in] destroy Releases the user data when the scope is left and its last variable is made,
///   and if this call fails; may be left out.
/// @param[out] scope The scope. Leave it with umbo_scope_exit(), which also releases it.
///
/// Creators are called from the innermost scope outwards. A strategy has a creator of its own,
/// which places variables on the parameter device. Its turn is where the strategy's scope was
/// entered: creators entered inside that scope run before it, creators entered around the scope run
/// after it.
///
/// Runs that this thread starts meanwhile are inside the scope too. With several replicas only
/// replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
/// called before the creators, which see the initial value.
#[c_call(gives(user_data, destroy), out(scope), present(creator))]
pub fn umbo_variable_creator_scope_enter(
    creator: umbo_variable_creator_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    scope: *mut *mut umbo_scope,
) {
    let call = move |request: &VariableRequest| {
        let mut lent = Lent::<umbo_variable_request>::new()?;
        let request = lent.lend(request.clone())?;
        stored("variable", |variable| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { creator(request, user_data.pointer(), variable) }
        })
    };
    scope.write(handle_to(enter_creator_scope(Arc::new(call)))?);
}

/// Makes the variable of a request.
///
/// @param[in] request The request, as it is now.
/// @param[out] variable The variable. The caller releases it or stores it as the creator's result.
/// @return UMBO_OK, or:
/// - what another creator returned.
///
/// It calls the next creator; after the last one the variable itself is made. Each call makes a
/// variable.
#[c_call(out(variable), get(request))]
pub fn umbo_variable_request_next(
    request: *mut umbo_variable_request,
    variable: *mut *mut umbo_variable,
) {
    let handle = reserve()?;
    variable.write(handle.make(request.next()?));
}

/// Tells the name that the variable is to have.
///
/// @param[out] name The name. Lives as long as the call of the creator, or until
///   umbo_variable_request_set_name().
#[c_call(out(name), borrow(request))]
pub fn umbo_variable_request_name(request: *const umbo_variable_request, name: *mut *const c_char) {
    name.write(request.name().as_c_str().as_ptr());
}

/// Gives the variable another name.
///
/// @param[in] name The name, which is copied.
#[c_call(text(name), get(request))]
pub fn umbo_variable_request_set_name(request: *mut umbo_variable_request, name: *const c_char) {
    request.describe(|new| new.name = name.into());
}

/// Gives the initial value that the variable is to have.
///
/// @param[out] tensor A new handle to the initial value, whose dtype and shape become the
///   variable's. Do not write it. The caller releases it.
#[c_call(out(tensor), get(request))]
pub fn umbo_variable_request_initial_value(
    request: *const umbo_variable_request,
    tensor: *mut *mut umbo_tensor,
) {
    tensor.write(make(request.initial_value())?);
}

/// Gives the variable another initial value.
///
/// @param[in] tensor The initial value, of any dtype and shape. It stays the caller's to release.
///   It is copied when the variable is made.
#[c_call(get(tensor), get(request))]
pub fn umbo_variable_request_set_initial_value(
    request: *mut umbo_variable_request,
    tensor: *const umbo_tensor,
) {
    request.set_initial_value(tensor);
}

/// Gets whether optimizers change the variable.
///
/// @param[out] trainable 1, 0, or UMBO_AUTO before the strategy's own creator has run.
#[c_call(out(trainable), get(request))]
pub fn umbo_variable_request_trainable(request: *const umbo_variable_request, trainable: *mut i32) {
    let code = request.description().trainable.map_or(UMBO_AUTO as i32, i32::from);
    trainable.write(code);
}

/// Sets whether optimizers change the variable.
///
/// @param[in] trainable 1, 0 or UMBO_AUTO.
#[c_call(get(request))]
pub fn umbo_variable_request_set_trainable(request: *mut umbo_variable_request, trainable: i32) {
    let trainable = self::trainable(trainable, "trainable")?;
    request.describe(|new| new.trainable = trainable);
}

/// Tells how values that replicas assign are to be combined.
///
/// @param[out] aggregation One of the UMBO_AGGREGATION_ constants.
#[c_call(out(aggregation), get(request))]
pub fn umbo_variable_request_aggregation(
    request: *const umbo_variable_request,
    aggregation: *mut umbo_aggregation,
) {
    aggregation.write(request.description().aggregation.to_c());
}

/// Says how values that replicas assign are combined.
///
/// @param[in] aggregation One of the UMBO_AGGREGATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an unknown constant.
#[c_call(constant(aggregation), get(request))]
pub fn umbo_variable_request_set_aggregation(
    request: *mut umbo_variable_request,
    aggregation: umbo_aggregation,
) {
    request.describe(|new| new.aggregation = aggregation);
}

/// Tells the synchronisation that was asked for.
///
/// @param[out] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
#[c_call(out(synchronization), get(request))]
pub fn umbo_variable_request_synchronization(
    request: *const umbo_variable_request,
    synchronization: *mut umbo_synchronization,
) {
    synchronization.write(request.description().synchronization.to_c());
}

/// Gives the variable another synchronisation.
///
/// @param[in] synchronization One of the UMBO_SYNCHRONIZATION_ constants.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an unknown constant.
#[c_call(constant(synchronization), get(request))]
pub fn umbo_variable_request_set_synchronization(
    request: *mut umbo_variable_request,
    synchronization: umbo_synchronization,
) {
    request.describe(|new| new.synchronization = synchronization);
}

/// Tells the device that the variable will lie on.
///
/// @param[out] name The canonical name of the device, which lives as long as the process. Before
///   the strategy's own creator has run, `*name` gets NULL.
#[c_call(out(name), borrow(request))]
pub fn umbo_variable_request_device(
    request: *const umbo_variable_request,
    name: *mut *const c_char,
) {
    name.write(request.device().map_or(ptr::null(), device_name));
}
