//! Variable creators: callbacks that see each new variable before it is made.

use crate::machinery::prelude::*;
use crate::nouns::variable::trainable;
use umbo_core::strategy::context::enter_creator_scope;
use umbo_core::strategy::variables::creator::{NewVariable, VariableRequest};
use umbo_core::values::variable::Synchronization;

/// The moments at which copies of a variable are synchronised. There is one copy, so only the
/// default of `trainable` follows.
pub type umbo_synchronization = i32;

/// The strategy decides.
pub const UMBO_SYNCHRONIZATION_AUTO: umbo_synchronization = 0;
/// Never.
pub const UMBO_SYNCHRONIZATION_NONE: umbo_synchronization = 1901;
/// On every write.
pub const UMBO_SYNCHRONIZATION_ON_WRITE: umbo_synchronization = 1902;
/// On every read. By default optimizers do not change the variable.
pub const UMBO_SYNCHRONIZATION_ON_READ: umbo_synchronization = 1903;

constants! { Synchronization {
    UMBO_SYNCHRONIZATION_AUTO = Auto, UMBO_SYNCHRONIZATION_NONE = None,
    UMBO_SYNCHRONIZATION_ON_WRITE = OnWrite, UMBO_SYNCHRONIZATION_ON_READ = OnRead,
} }

/// Called for a variable that is about to be made.
///
/// @param[in] request What the variable will be, lent for the call. The creator can change it.
/// @param[out] variable NULL on entry. The library takes over a variable that is stored there: what
///   umbo_variable_request_next() made, or another. If none is stored, the variable is made from
///   the request.
/// @return Any status but UMBO_OK fails the creation.
///
/// If a creator makes variables of its own, it is called for them, too.
pub type umbo_variable_creator_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *mut umbo_variable_request,
        user_data: *mut c_void,
        variable: *mut *mut umbo_variable,
    ) -> umbo_status,
>;

/// Enters a scope in which a creator is called for each new variable of this thread.
///
/// @param[in] destroy Releases the user data when the scope is left and its last variable is made.
///   May be NULL.
/// @param[out] scope Leave it with umbo_scope_exit().
///
/// Creators are called from the innermost scope outwards. A strategy's own creator, which chooses
/// the parameter device, has its turn where the strategy's scope was entered. Runs of this thread
/// are inside the scope; with several replicas only replica 0 makes variables, and `creator` is
/// called on its thread. An initializer runs before the creators, which see the initial value.
#[c_call(
    part(tensorflow),
    owned(user_data, destroy),
    out(scope),
    present(creator)
)]
pub fn umbo_variable_creator_scope_enter(
    creator: umbo_variable_creator_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    scope: *mut *mut umbo_scope,
) {
    let call = move |request: &VariableRequest| {
        let mut lent = LentHandle::<umbo_variable_request>::new()?;
        let request = lent.lend(request.clone())?;
        stored("variable", |variable| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { creator(request, user_data.pointer(), variable) }
        })
    };
    scope.write(handle_to(enter_creator_scope(Arc::new(call)))?);
}

/// Calls the next creator; after the last one it makes the variable. Each call makes another.
///
/// @return What another creator returned.
#[c_call(part(tensorflow), out(variable), get(request))]
pub fn umbo_variable_request_next(
    request: *mut umbo_variable_request,
    variable: *mut *mut umbo_variable,
) {
    let handle = reserve()?;
    variable.write(handle.make(request.next()?));
}

/// The properties of a variable that is about to be made.
#[c_struct]
pub struct umbo_variable_request_info {
    /// Its name. Lives until the creator returns or the name is set.
    pub name: *const c_char,
    /// The canonical name of its device; NULL until the strategy's own creator has run.
    pub device: *const c_char,
    /// Whether optimizers change it: 1, 0, or UMBO_AUTO before the strategy's own creator has run.
    pub trainable: i32,
    /// How values that replicas assign are combined.
    pub aggregation: umbo_aggregation,
    /// The synchronisation that was asked for.
    pub synchronization: umbo_synchronization,
}

/// Gets what a new variable will be.
#[c_call(part(tensorflow), result(info), get(request))]
pub fn umbo_variable_request_get_info(
    request: *const umbo_variable_request,
    info: *mut umbo_variable_request_info,
) {
    let new = request.description();
    info.write(umbo_variable_request_info {
        name: new.name.as_c_str().as_ptr(),
        device: request.device().map_or(ptr::null(), device_name),
        trainable: new.trainable.map_or(UMBO_AUTO as i32, i32::from),
        aggregation: new.aggregation.to_c(),
        synchronization: new.synchronization.to_c(),
        ..Default::default()
    });
}

/// Sets what a new variable will be: all that umbo_variable_request_get_info() gets but the device.
#[c_call(part(tensorflow), structure(info), get(request))]
pub fn umbo_variable_request_set_info(
    request: *mut umbo_variable_request,
    info: *const umbo_variable_request_info,
) {
    // SAFETY: the caller gives a text.
    let name = unsafe { text(info.name, "info.name") }?.into();
    let trainable = trainable(info.trainable, "info.trainable")?;
    let aggregation = constant(info.aggregation, "info.aggregation")?;
    let synchronization = constant(info.synchronization, "info.synchronization")?;
    request.describe(|new| {
        *new = NewVariable {
            name,
            trainable,
            synchronization,
            aggregation,
        }
    });
}

/// Gets a new handle to the initial value, with its dtype and shape. Do not write it.
#[c_call(part(tensorflow), out(tensor), get(request))]
pub fn umbo_variable_request_initial_value(
    request: *const umbo_variable_request,
    tensor: *mut *mut umbo_tensor,
) {
    tensor.write(make(request.initial_value())?);
}

/// Sets the initial value, of any dtype and shape. It is copied when the variable is made.
#[c_call(part(tensorflow), get(tensor), get(request))]
pub fn umbo_variable_request_set_initial_value(
    request: *mut umbo_variable_request,
    tensor: *const umbo_tensor,
) {
    request.set_initial_value(tensor);
}
