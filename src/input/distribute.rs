//! Distribution: each batch split along dimension 0, one part for each replica.

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::Dataset;
use crate::input::frame::{self, Frame, Pool};
use crate::input::iterator::PassIterator;
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::Pass;
use crate::strategy::Strategy;
use crate::tensor::Tensor;
use crate::values::Value;

/// How many rows of a batch each replica gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splitting {
    /// With c = ⌈rows / replicas⌉, replica k gets rows [k·c, (k+1)·c) as far as there are any:
    /// 9 rows over 4 replicas are 3, 3, 3, 0.
    #[default]
    Ceiling,
    /// Sizes that differ by 1 at most, larger ones first: 9 rows over 4 replicas are 3, 2, 2, 2.
    Balanced,
}

/// How a dataset is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DistributeOptions {
    /// How many rows of a batch each replica gets.
    pub splitting: Splitting,
}

impl Splitting {
    /// The rows [start, stop) of `rows` that `replica` of `replicas` gets.
    pub fn part(self, rows: usize, replica: usize, replicas: usize) -> (usize, usize) {
        match self {
            Splitting::Ceiling => {
                let size = rows.div_ceil(replicas);
                // Saturating: past the end it does not matter how far.
                let start = replica.saturating_mul(size).min(rows);
                (start, start.saturating_add(size).min(rows))
            }
            Splitting::Balanced => {
                let (size, larger) = (rows / replicas, rows % replicas);
                let start = replica * size + replica.min(larger);
                (start, start + size + usize::from(replica < larger))
            }
        }
    }
}

/// Distributes the elements of `dataset`, which are global batches, over `replicas` replicas on
/// `devices`, replica k on the k-th of them.
///
/// With one replica elements stay as they are. With more, each tensor of an element becomes a
/// per-replica value: its rows are split in order, as `options` says, by the number of rows that
/// it actually has; the part of replica k is component k. Parts may be empty; they keep dtype
/// and rank. Tensors of one element may differ in their number of rows, and each is split by its
/// own. Parts are views of the batch: nothing is copied. Each tensor knows how many examples it
/// holds ([`Tensor::examples`]).
///
/// INVALID_ARGUMENT: no replicas, another number of devices, or, with several replicas, an
/// element with a scalar, which cannot be split. UNIMPLEMENTED: devices whose memory the CPU
/// cannot address.
pub fn distribute(
    dataset: &Dataset,
    replicas: usize,
    devices: &[DeviceId],
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    if replicas == 0 || devices.len() != replicas {
        return Err(Error::invalid(
            "devices",
            format!("{} devices for {replicas} replicas; each replica has one", devices.len()),
        ));
    }
    if let Some(device) = devices.iter().find(|device| !device.is_host_memory()) {
        return Err(Error::Unimplemented(format!("input on {device} in this version")));
    }
    let spec = match replicas {
        1 => dataset.element_spec().clone(),
        _ => dataset.element_spec().map(&mut |leaf| per_replica(leaf, replicas))?,
    };
    let (dataset, splitting) = (dataset.clone(), options.splitting);
    Ok(DistributedDataset { dataset, replicas, splitting, spec, strategy: None })
}

/// As [`distribute`], over the replicas of `strategy` on its compute devices. Iterators then belong
/// to the strategy: see [`PassIterator::next`].
pub fn distribute_dataset(
    strategy: &Strategy,
    dataset: &Dataset,
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    let devices = strategy.compute_devices();
    let distributed = distribute(dataset, strategy.num_replicas(), devices, options)?;
    Ok(DistributedDataset { strategy: Some(strategy.id()), ..distributed })
}

/// The spec of the parts of a tensor.
fn per_replica(leaf: &LeafSpec, replicas: usize) -> Result<ElementSpec> {
    let Some((rows, row)) = leaf.shape.split_first() else {
        return Err(Error::invalid(
            "dataset",
            format!(
                "its elements contain a scalar ({leaf}), which cannot be split over {replicas} \
                 replicas; batch the dataset before distributing it"
            ),
        ));
    };
    let rows = rows.filter(|rows| rows % replicas == 0).map(|rows| rows / replicas);
    let shape = std::iter::once(rows).chain(row.iter().copied()).collect();
    Ok(ElementSpec::PerReplica(replicas, LeafSpec { dtype: leaf.dtype, shape }))
}

/// A dataset whose elements are split over replicas. Cloning makes another reference.
#[derive(Clone, Debug)]
pub struct DistributedDataset {
    dataset: Dataset,
    replicas: usize,
    splitting: Splitting,
    spec: ElementSpec,
    /// The id of the strategy whose replicas they are, if it is known.
    strategy: Option<u64>,
}

impl DistributedDataset {
    /// The structure of the elements. The number of rows is known where it is known of the batch
    /// and divides evenly.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// How many elements one pass yields: as many as there are batches.
    pub fn cardinality(&self) -> Cardinality {
        self.dataset.cardinality()
    }

    /// Over how many replicas the elements are split.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// An iterator at the beginning of a new pass, independent of all others; as
    /// [`Dataset::iterator`].
    pub fn iterator(&self) -> Result<PassIterator> {
        let mut input = self.dataset.stream().start()?;
        input.reserve(1);
        let (splitting, spec) = (self.splitting, self.spec.clone());
        let pass = DistributePass { splitting, spec, input, pool: Pool::new() };
        Ok(PassIterator::of_strategy(Box::new(pass), self.strategy))
    }
}

struct DistributePass {
    splitting: Splitting,
    spec: ElementSpec,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
}

impl Pass<Value> for DistributePass {
    fn next(&mut self) -> Result<Option<Value>> {
        // The input can use again the batches that only idle elements of ours are views of.
        self.pool.release_idle();
        let Some(batch) = self.input.next()? else { return Ok(None) };
        let element = self.pool.claim(|| Frame::new(&self.spec))?;
        split(&batch, element.value_mut(), self.splitting)?;
        Ok(Some(element.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.input.restart()
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items);
    }
}

/// Makes the leaves of `element` the parts of the leaves of `batch`.
fn split(batch: &Value, element: &mut Value, splitting: Splitting) -> Result<()> {
    match (batch, element) {
        (Value::Tensor(whole), Value::Tensor(part)) => {
            let examples = whole.shape().first().map(|&rows| rows as u64);
            frame::view(part, whole, *whole.layout(), 0, examples)
        }
        (Value::Tensor(whole), Value::PerReplica(parts)) => {
            let parts = Arc::get_mut(parts).ok_or_else(frame::in_use)?.components_mut();
            split_tensor(whole, parts, splitting)
        }
        (Value::Tuple(batches), Value::Tuple(elements)) if batches.len() == elements.len() => {
            let elements = Arc::get_mut(elements).ok_or_else(frame::in_use)?;
            let mut pairs = batches.iter().zip(elements);
            pairs.try_for_each(|(batch, element)| split(batch, element, splitting))
        }
        (Value::Struct(batches), Value::Struct(elements)) if batches.len() == elements.len() => {
            let elements = Arc::get_mut(elements).ok_or_else(frame::in_use)?;
            let mut pairs = batches.iter().zip(elements);
            pairs.try_for_each(|((_, batch), (_, element))| split(batch, element, splitting))
        }
        (batch, _) => Err(Error::Internal(format!(
            "an element of a dataset has {} where its spec has something else",
            batch.kind_name()
        ))),
    }
}

fn split_tensor(whole: &Tensor, parts: &mut [Tensor], splitting: Splitting) -> Result<()> {
    let replicas = parts.len();
    let rows = whole.shape().first().copied().ok_or_else(|| {
        Error::invalid("dataset", "a scalar in an element, which cannot be split over replicas")
    })?;
    for (replica, part) in parts.iter_mut().enumerate() {
        let (start, stop) = splitting.part(rows, replica, replicas);
        let (layout, offset) = whole.layout().slice(0, start, stop, 1)?;
        frame::view(part, whole, layout, offset, Some((stop - start) as u64))?;
    }
    Ok(())
}
