//! Variable creators: callbacks that see each new variable before it is made.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use crate::ffi::boundary::{boundary, constant, out};
use crate::ffi::callback::{self, UserData, umbo_destroy_fn};
use crate::ffi::handle::{Lent, borrow, consume, get, make, reserve};
use crate::ffi::object::{umbo_scope, umbo_tensor, umbo_variable, umbo_variable_request};
use crate::ffi::scope::present;
use crate::ffi::status::umbo_status;
use crate::ffi::text::{device_name, text};
use crate::ffi::variable::{
    UMBO_TRAINABLE_DEFAULT, UMBO_TRAINABLE_NO, UMBO_TRAINABLE_YES, trainable_from,
    umbo_aggregation, umbo_synchronization, umbo_trainable,
};
use crate::strategy::context::enter_creator_scope;
use crate::strategy::creator::VariableRequest;
use crate::values::variable::{Aggregation, Synchronization};

/// Sees a variable that is about to be made. It may look at the request and change it; make the
/// variable with umbo_variable_request_next() and store it in `*variable`; or store another variable
/// there. `*variable` is NULL on entry; what is stored there is taken over by the library. If it
/// stays NULL, the variable is made from the request as it now is. A status other than UMBO_OK
/// makes the creation fail with it.
///
/// `request` is borrowed for the call. A creator that makes variables of its own is called for them
/// too.
pub type umbo_variable_creator_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *mut umbo_variable_request,
        user_data: *mut c_void,
        variable: *mut *mut umbo_variable,
    ) -> umbo_status,
>;

/// Has `creator` called for each variable that this thread makes, until the scope is left with
/// umbo_scope_exit(). Creators are called from the innermost scope outwards. A strategy's own
/// creator, which places variables on the parameter device, stands where the strategy's scope was
/// entered: creators entered inside of it run before, creators entered around it run after.
///
/// Runs that this thread starts meanwhile are inside of the scope too; with several replicas only
/// replica 0 makes variables, so `creator` is called on replica 0's thread only. An initializer is
/// called before the creators, which see the initial value.
///
/// `destroy` (or NULL) releases `user_data` when the scope is left and the last variable of it is
/// made, and also if this function fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_creator_scope_enter(
    creator: umbo_variable_creator_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    scope: *mut *mut umbo_scope,
) -> umbo_status {
    // SAFETY: the caller gives the user data and its function away.
    let user_data = unsafe { UserData::new(user_data, destroy) };
    boundary("umbo_variable_creator_scope_enter", move || {
        // SAFETY: the caller gives NULL or a place for the output.
        let scope = unsafe { out(scope, "scope") }?;
        let function = present(creator, "creator")?;
        let call = move |request: &VariableRequest| {
            let mut lent = Lent::<umbo_variable_request>::new()?;
            let request = lent.lend(request.clone())?;
            let mut variable = ptr::null_mut();
            // SAFETY: the caller gives a function of this type and its user data.
            let ran = callback::run(|| unsafe {
                function(request, user_data.pointer(), &raw mut variable)
            });
            let stored = match variable.is_null() {
                true => None,
                false => Some(consume(variable, "variable")),
            };
            ran?;
            stored.transpose()
        };
        let entered = enter_creator_scope(Arc::new(call));
        match make(entered.clone()) {
            Ok(handle) => {
                scope.write(handle);
                Ok(())
            }
            Err(error) => {
                drop(entered.exit()?);
                Err(error)
            }
        }
    })
}

/// Goes on with the request as it now is: to the next creator, in the end to the variable itself.
/// Each call makes a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_next(
    request: *mut umbo_variable_request,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    boundary("umbo_variable_request_next", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let variable = unsafe { out(variable, "variable") }?;
        let handle = reserve()?;
        variable.write(handle.make(get(request, "request")?.next()?));
        Ok(())
    })
}

/// The name that the variable is to have. Lives as long as the call of the creator, or until
/// umbo_variable_request_set_name().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_name(
    request: *const umbo_variable_request,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_variable_request_name", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(request, "request", |request| request.name().as_c_str().as_ptr())?);
        Ok(())
    })
}

/// Gives the variable another name, which is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_name(
    request: *mut umbo_variable_request,
    name: *const c_char,
) -> umbo_status {
    boundary("umbo_variable_request_set_name", || {
        // SAFETY: the caller promises NULL or a text.
        let name = unsafe { text(name, "name") }?;
        get(request, "request")?.describe(|new| new.name = name.into());
        Ok(())
    })
}

/// The initial value: its dtype and shape become the variable's. A new handle; do not write it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_initial_value(
    request: *const umbo_variable_request,
    tensor: *mut *mut umbo_tensor,
) -> umbo_status {
    boundary("umbo_variable_request_initial_value", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let tensor = unsafe { out(tensor, "tensor") }?;
        tensor.write(make(get(request, "request")?.initial_value())?);
        Ok(())
    })
}

/// Gives the variable another initial value, of any dtype and shape. The variable gets a copy, made
/// when it is made; the tensor stays the caller's to release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_initial_value(
    request: *mut umbo_variable_request,
    tensor: *const umbo_tensor,
) -> umbo_status {
    boundary("umbo_variable_request_set_initial_value", || {
        let tensor = get(tensor, "tensor")?;
        get(request, "request")?.set_initial_value(tensor);
        Ok(())
    })
}

/// Whether an optimizer should change the variable: one of the UMBO_TRAINABLE_ constants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_trainable(
    request: *const umbo_variable_request,
    trainable: *mut umbo_trainable,
) -> umbo_status {
    boundary("umbo_variable_request_trainable", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let trainable = unsafe { out(trainable, "trainable") }?;
        trainable.write(match get(request, "request")?.description().trainable {
            None => UMBO_TRAINABLE_DEFAULT,
            Some(true) => UMBO_TRAINABLE_YES,
            Some(false) => UMBO_TRAINABLE_NO,
        });
        Ok(())
    })
}

/// Says whether an optimizer should change the variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_trainable(
    request: *mut umbo_variable_request,
    trainable: umbo_trainable,
) -> umbo_status {
    boundary("umbo_variable_request_set_trainable", || {
        let trainable = trainable_from(trainable, "trainable")?;
        get(request, "request")?.describe(|new| new.trainable = trainable);
        Ok(())
    })
}

/// How values that replicas assign are to be combined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_aggregation(
    request: *const umbo_variable_request,
    aggregation: *mut umbo_aggregation,
) -> umbo_status {
    boundary("umbo_variable_request_aggregation", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let aggregation = unsafe { out(aggregation, "aggregation") }?;
        aggregation.write(get(request, "request")?.description().aggregation as i32);
        Ok(())
    })
}

/// Says how values that replicas assign are to be combined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_aggregation(
    request: *mut umbo_variable_request,
    aggregation: umbo_aggregation,
) -> umbo_status {
    boundary("umbo_variable_request_set_aggregation", || {
        let aggregation = constant(
            aggregation,
            Aggregation::from_code(aggregation),
            "aggregation",
            "UMBO_AGGREGATION_NONE (0) to UMBO_AGGREGATION_ONLY_FIRST_REPLICA (3)",
        )?;
        get(request, "request")?.describe(|new| new.aggregation = aggregation);
        Ok(())
    })
}

/// The synchronisation that is asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_synchronization(
    request: *const umbo_variable_request,
    synchronization: *mut umbo_synchronization,
) -> umbo_status {
    boundary("umbo_variable_request_synchronization", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let synchronization = unsafe { out(synchronization, "synchronization") }?;
        synchronization.write(get(request, "request")?.description().synchronization as i32);
        Ok(())
    })
}

/// Asks for another synchronisation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_set_synchronization(
    request: *mut umbo_variable_request,
    synchronization: umbo_synchronization,
) -> umbo_status {
    boundary("umbo_variable_request_set_synchronization", || {
        let synchronization = constant(
            synchronization,
            Synchronization::from_code(synchronization),
            "synchronization",
            "UMBO_SYNCHRONIZATION_AUTO (0) to UMBO_SYNCHRONIZATION_ON_READ (3)",
        )?;
        get(request, "request")?.describe(|new| new.synchronization = synchronization);
        Ok(())
    })
}

/// The canonical name of the device that the variable will lie on; NULL for creators that run before
/// the strategy's own has chosen it. Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_request_device(
    request: *const umbo_variable_request,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_variable_request_device", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(request, "request", |request| {
            request.device().map_or(ptr::null(), device_name)
        })?);
        Ok(())
    })
}
