//! Annotations for models that are split over several logical devices per replica. Here a replica
//! has one logical device, so the annotations are checked and then refused.

use super::central_storage::Strategy;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// How many logical devices a replica of a central storage strategy has.
const PER_REPLICA: i64 = 1;

impl Strategy {
    /// Assigning `tensor` to one logical device of its replica.
    ///
    /// Fails with OUT_OF_RANGE for an id that no logical device has, else with UNIMPLEMENTED.
    pub fn assign_to_logical_device(&self, _tensor: &Tensor, id: i64) -> Result<()> {
        if !(0..PER_REPLICA).contains(&id) {
            return Err(Error::out_of_range(
                "logical_device_id",
                format!("{id} is not in [0, {PER_REPLICA}), the logical devices of a replica"),
            ));
        }
        Err(refusal())
    }

    /// Replicating `tensor` to all logical devices of its replica. Fails with UNIMPLEMENTED.
    pub fn replicate_to_logical_devices(&self, _tensor: &Tensor) -> Result<()> {
        Err(refusal())
    }

    /// Splitting `tensor` over the logical devices of its replica: dimension `i` in
    /// `partitions[i]` parts.
    ///
    /// Fails with INVALID_ARGUMENT if there is not one number, of 1 or more, for each dimension,
    /// if a dimension is not divisible by its number, or if the product is not the number of
    /// logical devices of a replica; else with UNIMPLEMENTED.
    pub fn split_to_logical_devices(&self, tensor: &Tensor, partitions: &[i64]) -> Result<()> {
        let shape = tensor.shape();
        let wrong = |problem: String| Err(Error::invalid("partition_dimensions", problem));
        if partitions.len() != shape.rank() {
            return wrong(format!(
                "{} numbers for a tensor of rank {}; give one for each dimension",
                partitions.len(),
                shape.rank()
            ));
        }
        for (axis, (&parts, &size)) in partitions.iter().zip(shape.iter()).enumerate() {
            if parts < 1 {
                return wrong(format!("{parts} parts of dimension {axis}; 1 or more are expected"));
            }
            if !(size as u64).is_multiple_of(parts as u64) {
                return wrong(format!("dimension {axis}, {size}, is not divisible by {parts}"));
            }
        }
        let product =
            partitions.iter().try_fold(1i64, |product, &parts| product.checked_mul(parts));
        if product != Some(PER_REPLICA) {
            return wrong(format!(
                "{partitions:?} has another product than {PER_REPLICA}, the number of logical \
                 devices of a replica"
            ));
        }
        Err(refusal())
    }
}

fn refusal() -> Error {
    Error::Unimplemented(
        "a central storage strategy has one logical device per replica, so there is nothing to \
         annotate; leave the call out"
            .into(),
    )
}
