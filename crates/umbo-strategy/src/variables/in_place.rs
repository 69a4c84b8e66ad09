//! Variables in the program's own memory, such as an engine's weights, or parts of one flat block.

#![expect(unsafe_code, reason = "memory of the program's becomes a variable's")]

use std::sync::Arc;

use super::creator::{NewVariable, make};
use crate::context::require_cross_replica;
use crate::setup::central_storage::Strategy;
use umbo_base::error::{Error, Result};
use umbo_tensor::Tensor;
use umbo_tensor::storage::Storage;
use umbo_tensor::values::variable::Variable;

/// Makes a variable of `strategy` of each of `tensors`, over their memory, whose elements are the
/// initial values: row-major host memory that may be written, without overlaps. The variable keeps
/// the tensor, and its value stays there: see [`Variable::stays`]. Variable creators are not
/// called.
///
/// # Safety
/// While a variable lives, its memory is written only through the variable, and is not read while
/// the strategy may write it: in an assignment, an apply, or a run that does either.
pub unsafe fn create_in_place(
    strategy: &Strategy,
    tensors: Vec<(NewVariable, Tensor)>,
) -> Result<Vec<Variable>> {
    require_cross_replica(strategy.id())?;
    let first = tensors.first().map(|(new, _)| new.name.clone());
    let values = values_of(strategy, &tensors).map_err(|error| match &first {
        // The other ranks, whose views may be valid, make the first variable and must learn of the
        // failure.
        Some(name) => strategy.fail_to_make(name.as_str(), error),
        None => error,
    })?;
    tensors
        .into_iter()
        .zip(values)
        .map(|((new, _), value)| make(strategy, new, value))
        .collect()
}

/// The variables' values: tensors over the program's memory, which they keep.
fn values_of(strategy: &Strategy, tensors: &[(NewVariable, Tensor)]) -> Result<Vec<Tensor>> {
    let device = strategy.parameter_device();
    if !device.is_host_memory() {
        return Err(Error::Unimplemented(format!(
            "variables in memory of the program's on {device}: they can be in host memory; let \
             the strategy allocate them"
        )));
    }
    let mut ranges = Vec::with_capacity(tensors.len());
    for (index, (new, tensor)) in tensors.iter().enumerate() {
        new.check_name()
            .map_err(|error| error.within(format!("names[{index}]")))?;
        check(tensor).map_err(|error| error.within(format!("views[{index}]")))?;
        let start = tensor.address().addr();
        let bytes = bytes_of(tensor)?;
        // A tensor without elements overlaps nothing, wherever it lies.
        if bytes > 0 {
            let Some(end) = start.checked_add(bytes) else {
                return Err(invalid!(
                    format!("views[{index}]"),
                    "{bytes} bytes from {start:#x} on do not fit in memory"
                ));
            };
            ranges.push((start, end, index));
        }
    }
    ranges.sort_unstable();
    if let Some(pair) = ranges.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        let first = pair[0].2.min(pair[1].2);
        let second = pair[0].2.max(pair[1].2);
        return Err(invalid!(
            "views",
            "views[{first}] and views[{second}] have elements in common; each needs its own"
        ));
    }
    let value = |(_, tensor): &(NewVariable, Tensor)| {
        let dtype = tensor.dtype();
        let layout = *tensor.layout();
        let bytes = bytes_of(tensor)?;
        let data = tensor.address();
        // SAFETY: the storage keeps the tensor, which guarantees its elements; the caller
        // guarantees that nobody else writes them.
        let storage =
            unsafe { Storage::foreign(data, bytes, device, false, Box::new(tensor.clone())) };
        Tensor::from_storage(Arc::new(storage), dtype, layout, 0)
    };
    tensors.iter().map(value).collect()
}

fn check(tensor: &Tensor) -> Result<()> {
    if !tensor.device().is_host_memory() {
        return Err(invalid!(
            "view",
            "its memory is {}'s, not the host's",
            tensor.device()
        ));
    }
    if tensor.is_read_only() {
        return Err(invalid!(
            "view",
            "its elements may only be read; a variable is written"
        ));
    }
    if !tensor.layout().is_contiguous() {
        return Err(invalid!(
            "view",
            "its strides {:?} are not those of row-major order, in which a variable lies",
            tensor.layout().strides()
        ));
    }
    Ok(())
}

fn bytes_of(tensor: &Tensor) -> Result<usize> {
    tensor.shape().bytes(tensor.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;
    use umbo_device::DeviceId;
    use umbo_tensor::values::variable::{Aggregation, Synchronization};
    use umbo_tensor::{DType, Layout, Shape};

    /// Views of parts of one block, of which only those in the way of each other are refused,
    /// whatever lies between them.
    #[test]
    fn views_with_elements_in_common_are_found_behind_empty_ones() {
        let strategy = Strategy::on_host().unwrap();
        let block = Tensor::from_slice(&[1.0f32; 40], Shape::new(&[40]).unwrap(), DeviceId::HOST);
        let block = block.unwrap();
        let made = |parts: &[(usize, usize)]| {
            let tensors = parts.iter().map(|&(start, stop)| {
                let new = NewVariable {
                    name: "v".into(),
                    trainable: None,
                    synchronization: Synchronization::Auto,
                    aggregation: Aggregation::None,
                };
                let layout = Layout::row_major(Shape::new(&[stop - start]).unwrap());
                let data = block.address().wrapping_add(start * 4);
                let bytes = (stop - start) * 4;
                let owner = Box::new(block.clone());
                // SAFETY: within the block, which is kept, and which nobody reads or writes.
                let storage =
                    unsafe { Storage::foreign(data, bytes, DeviceId::HOST, false, owner) };
                let storage = Arc::new(storage);
                (
                    new,
                    Tensor::from_storage(storage, DType::Float32, layout, 0).unwrap(),
                )
            });
            values_of(&strategy, &tensors.collect::<Vec<_>>())
        };
        for apart in [
            &[(0, 10), (10, 10), (10, 20)][..],
            &[(5, 5), (5, 5), (0, 40)],
            &[(3, 3)],
        ] {
            assert_eq!(made(apart).unwrap().len(), apart.len());
        }
        for (parts, named) in [
            (&[(0, 20), (5, 10)][..], "views[0] and views[1]"),
            (&[(0, 20), (5, 5), (10, 30)], "views[0] and views[2]"),
            (
                &[(12, 12), (15, 20), (10, 16), (11, 11)],
                "views[1] and views[2]",
            ),
        ] {
            let error = made(parts).unwrap_err();
            assert_eq!(error.status(), Status::InvalidArgument);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
