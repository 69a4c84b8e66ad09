//! Values made replica by replica.

use crate::machinery::prelude::*;
use umbo_core::strategy::extended::ValueContext;

/// The replica for which a value is made. The library fills it; later versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_value_context {
    /// sizeof(umbo_value_context), as the library knows it.
    pub struct_size: usize,
    /// The id of the replica: 0 to `replica_count` less one.
    pub replica_id: i32,
    /// The number of replicas of all ranks.
    pub replica_count: i64,
}

/// Makes the value of one replica.
///
/// @param[in] context The replica; valid for the call.
/// @param[out] value NULL on entry. A value must be stored there, which the library takes over.
pub type umbo_value_fn = Option<
    unsafe extern "C-unwind" fn(
        context: *const umbo_value_context,
        user_data: *mut c_void,
        value: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Makes a per-replica value.
///
/// @param[in] function Called once for each local replica, in order, on this thread and in its
///   context.
/// @return What `function` returned, or UMBO_STATUS_INVALID_ARGUMENT: it stored no value, or values
///   with different structures.
///
/// Structures are merged leaf by leaf; shapes and dtypes may differ. Each leaf becomes a
/// per-replica value, with one replica too; the default strategy gives its one value as it is.
/// Components stay on their devices.
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
            replica_id: context.replica_id_in_sync_group as i32,
            replica_count: context.num_replicas_in_sync as i64,
        };
        let value = stored("value", |value| {
            // SAFETY: the caller gives a function of this type and its user data.
            unsafe { function(&raw const given, user_data, value) }
        })?;
        value.ok_or_else(|| {
            let replica = context.replica_id_in_sync_group;
            invalid!("value_fn", "stored no value for replica {replica}")
        })
    };
    result.write(make(strategy.values_from_function(&mut call)?)?);
}
