//! Annotations for replicas with several logical devices, of which a central storage strategy has
//! one each.

use crate::ffi::prelude::*;

/// Not available: choosing a tensor's logical device.
///
/// @param[in] logical_device_id The logical device. A replica of a central storage strategy has
///   one, with id 0.
/// @param[out] annotated Never written.
/// @return Why it fails, in every case:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_OUT_OF_RANGE: an id other than 0.
/// - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
///   mark; leave the call out.
///
/// In other strategies such a call marks a tensor as lying on one of the logical devices of its
/// replica.
#[c_call(out(annotated), get(strategy), get(tensor))]
pub fn umbo_strategy_assign_to_logical_device(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    logical_device_id: i32,
    annotated: *mut *mut umbo_tensor,
) {
    strategy.assign_to_logical_device(&tensor, logical_device_id.into())?;
    annotated.write(make(tensor)?);
}

/// Not available: copying to all logical devices.
///
/// @param[out] annotated Never written.
/// @return Why it fails, in every case:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer.
/// - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
///   mark; leave the call out.
///
/// In other strategies such a call marks a tensor as copied to all logical devices of its replica.
#[c_call(out(annotated), get(strategy), get(tensor))]
pub fn umbo_strategy_replicate_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    annotated: *mut *mut umbo_tensor,
) {
    strategy.replicate_to_logical_devices(&tensor)?;
    annotated.write(make(tensor)?);
}

/// Not available: splitting over logical devices.
///
/// @param[in] count The number of elements of `partition_dimensions`.
/// @param[in] partition_dimensions Into how many parts each dimension is split: a number of 1 or
///   more for each.
/// @param[out] annotated Never written.
/// @return Why it fails, in every case:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, not one number of 1 or more for
///   each dimension, a dimension that its number does not divide, or a product of all numbers other
///   than 1, the number of logical devices of a replica.
/// - UMBO_STATUS_UNIMPLEMENTED: in all other cases. With one logical device there is nothing to
///   mark; leave the call out.
///
/// In other strategies such a call marks a tensor as split over the logical devices of its replica.
#[c_call(out(annotated), get(strategy), get(tensor), array(partition_dimensions, count))]
pub fn umbo_strategy_split_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    count: i64,
    partition_dimensions: *const i64,
    annotated: *mut *mut umbo_tensor,
) {
    strategy.split_to_logical_devices(&tensor, partition_dimensions)?;
    annotated.write(make(tensor)?);
}
