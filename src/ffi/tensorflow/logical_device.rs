//! Annotations for replicas with several logical devices, of which a central storage strategy has
//! one each.

use crate::error::Result;
use crate::ffi::boundary::{array, boundary, out};
use crate::ffi::handle::{get, make};
use crate::ffi::object::{umbo_strategy, umbo_tensor};
use crate::ffi::status::umbo_status;
use crate::strategy::Strategy;
use crate::tensor::Tensor;

fn annotate(
    function: &'static str,
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    annotated: *mut *mut umbo_tensor,
    annotation: impl FnOnce(&Strategy, &Tensor) -> Result<()>,
) -> umbo_status {
    boundary(function, || {
        // SAFETY: the caller gives NULL or a place for the output.
        let annotated = unsafe { out(annotated, "annotated") }?;
        let (strategy, tensor) = (get(strategy, "strategy")?, get(tensor, "tensor")?);
        annotation(&strategy, &tensor)?;
        annotated.write(make(tensor)?);
        Ok(())
    })
}

/// Annotates a tensor with the logical device, of those of its replica, that it is to lie on. A
/// central storage strategy has one logical device per replica: OUT_OF_RANGE for an id other than
/// 0, else UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_assign_to_logical_device(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    logical_device_id: i32,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_assign_to_logical_device",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| strategy.assign_to_logical_device(tensor, logical_device_id.into()),
    )
}

/// Annotates a tensor as replicated to all logical devices of its replica. UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_replicate_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_replicate_to_logical_devices",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| strategy.replicate_to_logical_devices(tensor),
    )
}

/// Annotates a tensor as split over the logical devices of its replica, dimension i in
/// `partition_dimensions[i]` parts. INVALID_ARGUMENT if there is not one number, of 1 or more, for
/// each dimension, if a dimension is not divisible by its number, or if the product is not 1, the
/// number of logical devices of a replica; else UNIMPLEMENTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_split_to_logical_devices(
    strategy: *const umbo_strategy,
    tensor: *const umbo_tensor,
    count: i64,
    partition_dimensions: *const i64,
    annotated: *mut *mut umbo_tensor,
) -> umbo_status {
    annotate(
        "umbo_strategy_split_to_logical_devices",
        strategy,
        tensor,
        annotated,
        |strategy, tensor| {
            // SAFETY: the caller promises `count` numbers.
            let partitions = unsafe { array(partition_dimensions, count, "partition_dimensions") }?;
            strategy.split_to_logical_devices(tensor, partitions)
        },
    )
}
