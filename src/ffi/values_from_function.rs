//! Values made replica by replica.

use std::ffi::c_void;

use super::boundary::{boundary, out};
use super::handle::{get, make};
use super::object::{umbo_strategy, umbo_value};
use super::options::Extensible;
use super::replica_context::take_result;
use super::scope::present;
use super::status::umbo_status;
use crate::error::Error;
use crate::strategy::extended::ValueContext;

/// For which replica a value is made.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_value_context {
    /// sizeof(umbo_value_context).
    pub struct_size: usize,
    /// The replica's id.
    pub replica_id_in_sync_group: i32,
    /// How many replicas run in sync.
    pub num_replicas_in_sync: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_value_context {}

/// Makes the value of one replica. `context` lives as long as the call. `*value` is NULL on entry;
/// the value stored there, which must be one, is taken over by the library.
pub type umbo_value_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_value_context,
        user_data: *mut c_void,
        value: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Calls `function` once for each replica, in order, on this thread and in this thread's context,
/// and makes a per-replica value of the results. Structures are merged leaf by leaf (INVALID_ARGUMENT
/// if they differ); shapes and dtypes may differ. Leaves are always wrapped, even the very same
/// tensor, and also with one replica; the default strategy wraps nothing. Components stay on the
/// device they were made on. In every context.
///
/// If `function` fails, so does this, with its status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_values_from_function(
    strategy: *mut umbo_strategy,
    function: umbo_value_fn,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_values_from_function", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let strategy = get(strategy, "strategy")?;
        let function = present(function, "function")?;
        let mut call = |context: ValueContext| {
            let given = umbo_value_context {
                struct_size: size_of::<umbo_value_context>(),
                replica_id_in_sync_group: context.replica_id_in_sync_group as i32,
                num_replicas_in_sync: context.num_replicas_in_sync as i64,
            };
            let value = take_result("value", |value| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(&raw const given, user_data, value) }
            })?;
            value.ok_or_else(|| {
                let replica = context.replica_id_in_sync_group;
                Error::invalid("value_fn", format!("stored no value for replica {replica}"))
            })
        };
        result.write(make(strategy.values_from_function(&mut call)?)?);
        Ok(())
    })
}
