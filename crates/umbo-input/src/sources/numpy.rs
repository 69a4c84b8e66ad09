//! Datasets of arrays that are copied when the dataset is made.

use crate::dataset::Dataset;
use crate::elements::spec::described;
use umbo_base::error::memory::collect;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_strategy::Strategy;
use umbo_strategy::context::require_cross_replica;
use umbo_tensor::collectives;
use umbo_tensor::values::Value;
use umbo_tensor::values::nest::NestKind;
use umbo_tensor::{Shape, Tensor, TensorMut};

/// The slices of copies of arrays along dimension 0, as [`Dataset::from_tensor_slices`] makes them.
/// The copies are in host memory, so the arrays may be changed or freed afterwards. The dataset is
/// an ordinary one, which the caller batches and then distributes. A list of arrays, in a nest too,
/// is stacked first: two arrays of three elements become one array of shape [2, 3].
///
/// FAILED_PRECONDITION inside of a replica's callback and in the scope of another strategy.
/// INVALID_ARGUMENT: a scalar, dimensions 0 that differ, per-replica values, variables, no array, a
/// list whose arrays differ in dtype or shape, a list with items that are not arrays.
/// RESOURCE_EXHAUSTED: no memory for the copies.
pub fn make_numpy_dataset(strategy: &Strategy, arrays: &Value) -> Result<Dataset> {
    require_cross_replica(strategy.id())?;
    let stacked = stack_lists(arrays)?;
    // The arrays are checked before anything is copied.
    Dataset::from_tensor_slices(&stacked)?;
    let copies = stacked.map_leaves(&mut |leaf| match leaf {
        Value::Tensor(array) => {
            let dtype = array.dtype();
            let shape = array.shape();
            let copy = |to: &mut TensorMut| to.copy_from(array);
            Tensor::made(dtype, shape, DeviceId::HOST, copy).map(Value::Tensor)
        }
        other => Ok(other.clone()),
    })?;
    Dataset::from_tensor_slices(&copies)
}

/// The nest with an array in place of each list.
fn stack_lists(arrays: &Value) -> Result<Value> {
    let Value::Nest(nest) = arrays else {
        return Ok(arrays.clone());
    };
    let items = collect(nest.items().iter().map(stack_lists), "arrays")?;
    if *nest.kind() != NestKind::List {
        return Ok(Value::nest(nest.with_items(items)));
    }
    let arrays = items.into_iter().map(|item| match item {
        Value::Tensor(array) => Ok(array),
        other => Err(invalid!(
            "arrays",
            "a list that contains {}; lists are of arrays",
            other.kind_name()
        )),
    });
    stack(&collect(arrays, "arrays")?).map(Value::Tensor)
}

/// One array of which row i is array i.
fn stack(arrays: &[Tensor]) -> Result<Tensor> {
    let first = arrays.first().ok_or_else(|| {
        invalid!(
            "arrays",
            "an empty list, which says neither dtype nor shape"
        )
    })?;
    let alike = |other: &&Tensor| other.dtype() == first.dtype() && other.shape() == first.shape();
    if let Some(position) = arrays.iter().position(|other| !alike(&other)) {
        let other = described(&arrays[position]);
        let first = described(first);
        let problem = format!(
            "a list is stacked into one array, but item {position} is {other}, and item 0 is \
             {first}"
        );
        return Err(Error::invalid("arrays", problem));
    }
    let row = Shape::new(&[&[1], &*first.shape()].concat())?;
    let rows = arrays
        .iter()
        .map(|array| array.to_contiguous()?.reshape(row));
    collectives::gather(&collect(rows, "arrays")?, 0, DeviceId::HOST, None)
}
