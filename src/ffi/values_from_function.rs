//! Values made replica by replica.

use super::prelude::*;
use crate::strategy::extended::ValueContext;

/// For which replica a value is made.
#[c_struct]
#[repr(C)]
pub struct umbo_value_context {
    /// sizeof(umbo_value_context).
    pub struct_size: usize,
    /// The id of the replica: 0 to the number of replicas less one.
    pub replica_id_in_sync_group: i32,
    /// The number of replicas.
    pub num_replicas_in_sync: i64,
}

/// Makes the value of one replica.
///
/// @param[in] context For which replica; valid for the call.
/// @param[in] user_data What the caller passed.
/// @param[out] value The place for the value; NULL on entry. A value must be stored there, and the
///   library takes it over.
/// @return UMBO_OK, or why it failed.
pub type umbo_value_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_value_context,
        user_data: *mut c_void,
        value: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Makes a per-replica value, replica by replica.
///
/// @param[in] function What to call: once for each replica, in replica order.
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[out] result The per-replica value. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a call that stored no value, or values whose structures differ.
/// - what `function` returned.
///
/// All calls are on this thread and in the context that this thread is in; any context is fine.
/// Structures are merged leaf by leaf. Shapes and dtypes may differ. Each leaf becomes a
/// per-replica value, also with one replica, and also if all replicas give the very same tensor.
/// Only the default strategy, which has one replica, gives its value as it is. Components stay on
/// the devices that they were made on.
#[c_call(out(result), get(strategy), present(function))]
pub fn umbo_strategy_values_from_function(
    strategy: *mut umbo_strategy,
    function: umbo_value_fn,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) {
    let mut call = |context: ValueContext| {
        let given = umbo_value_context {
            struct_size: size_of::<umbo_value_context>(),
            replica_id_in_sync_group: context.replica_id_in_sync_group as i32,
            num_replicas_in_sync: context.num_replicas_in_sync as i64,
        };
        let value = stored("value", |value| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(&raw const given, user_data, value) }
        })?;
        value.ok_or_else(|| {
            let replica = context.replica_id_in_sync_group;
            Error::invalid("value_fn", format!("stored no value for replica {replica}"))
        })
    };
    result.write(make(strategy.values_from_function(&mut call)?)?);
}
