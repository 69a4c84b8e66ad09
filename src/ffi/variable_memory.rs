//! Variables and the caller's memory: writing from it, copying to it, and views of several at once.

use std::ffi::c_void;

use super::boundary::{array, boundary, check};
use super::handle::{borrow, get};
use super::object::{umbo_replica_context, umbo_variable};
use super::replica_context::in_context;
use super::status::umbo_status;
use super::tensor::{check_bytes, write_to_host};
use super::view::{umbo_view, view_to_read};
use crate::collectives::Assignment;
use crate::error::Result;
use crate::strategy::context::with_current_replica;
use crate::strategy::variables;
use crate::tensor::Tensor;
use crate::values::Value;

/// Assigns what `data` holds: what umbo_variable_assign() does with a value of these elements, in every
/// context. In a replica's callback it is a synchronising call, and each replica writes its own memory:
/// the replicas' elements are combined as the variable's aggregation says. The elements are copied
/// before the call returns.
///
/// @param[in] variable The variable.
/// @param[in] data Host memory with all elements of the variable, in its dtype and in row-major order. `data` may
/// be NULL if it has none.
/// @param[in] bytes The size of `data`, which must be that of all elements.
/// @return UMBO_STATUS_INVALID_ARGUMENT if `bytes` is another size; else as umbo_variable_assign().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_write(
    variable: *mut umbo_variable,
    data: *const c_void,
    bytes: usize,
) -> umbo_status {
    boundary("umbo_variable_write", || {
        let variable = get(variable, "variable")?;
        if bytes > 0 {
            check(data.cast::<u8>(), "data", "the elements are expected")?;
        }
        check_bytes(variable.dtype(), variable.shape(), bytes)?;
        // SAFETY: the caller promises as many bytes.
        let data = unsafe { array(data.cast::<u8>(), bytes as i64, "data") }?;
        let (dtype, shape, device) = (variable.dtype(), variable.shape(), variable.device());
        let value = Value::Tensor(Tensor::from_bytes(dtype, shape, data, device)?);
        variables::assign(&variable, Assignment::Assign, &value)
    })
}

/// Copies the value that the variable has now, as umbo_variable_read() says, to host memory, in
/// row-major order.
///
/// @param[in] variable The variable.
/// @param[out] data Gets the elements; its address must be a multiple of an element's size. `data` may be NULL if
/// the variable has none.
/// @param[in] bytes The size of `data`, which must be that of all elements.
/// @return UMBO_STATUS_INVALID_ARGUMENT if `bytes` is another size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_copy_to_host(
    variable: *const umbo_variable,
    data: *mut c_void,
    bytes: usize,
) -> umbo_status {
    boundary("umbo_variable_copy_to_host", || {
        let variable = get(variable, "variable")?;
        let (dtype, shape) = (variable.dtype(), variable.shape());
        // SAFETY: the caller promises `bytes` bytes there, which may be written for this call.
        unsafe {
            write_to_host(dtype, shape, data, bytes, "data", |to| {
                variables::read_into(&variable, to)
            })
        }
    })
}

/// Where the values of several variables lie right now: umbo_variable_view() for each of them, in one
/// call.
///
/// @param[in] count How many variables there are.
/// @param[in] variables The variables.
/// @param[in] ctx In a replica's callback its context. `ctx` is NULL outside of runs.
/// @param[out] views Gets `count` views, in the order of the variables.
/// @return As umbo_variable_view().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_variable_views(
    count: i64,
    variables: *const *mut umbo_variable,
    ctx: *const umbo_replica_context,
    views: *mut umbo_view,
) -> umbo_status {
    boundary("umbo_variable_views", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let given = unsafe { array(variables, count, "variables") }?;
        if !given.is_empty() {
            check(views.cast_const(), "views", "a place for each view is expected")?;
        }
        // Nothing is written if a handle is stale, and no list is made, since steps allocate nothing.
        for &variable in given {
            borrow(variable.cast_const(), "variables", |_| ())?;
        }
        let look = |context: Option<&_>| -> Result<()> {
            for (index, &variable) in given.iter().enumerate() {
                let view = borrow(variable.cast_const(), "variables", |variable| {
                    // SAFETY: the program reads the views as the contract of `umbo_variable_view` says.
                    unsafe { variables::current_tensor(context, variable) }.map(view_to_read)
                })??;
                // SAFETY: the caller gives a place for as many views as there are variables.
                unsafe { views.add(index).write(view) };
            }
            Ok(())
        };
        match ctx.is_null() {
            true => with_current_replica(look),
            false => in_context(ctx, |own| look(Some(own))),
        }
    })
}
