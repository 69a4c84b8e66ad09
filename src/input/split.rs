//! Each batch split along dimension 0, one part for each replica.

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::frame::{self, Frame, Pool, Reusable};
use crate::input::held::Held;
use crate::input::numbering::Numbering;
use crate::input::position::{Mark, Reader};
use crate::input::spec::ElementSpec;
use crate::input::stage::Pass;
use crate::observe::{self, Phase};
use crate::tensor::origin::Share;
use crate::tensor::{Shape, Tensor};
use crate::values::Value;

/// Splits batches by Rule A: with c = ⌈rows / replicas⌉, replica k gets rows [k·c, (k+1)·c) as far
/// as there are any. A single replica gets the batch as it is.
pub(super) struct SplitPass {
    spec: ElementSpec,
    /// Where each part is to be.
    devices: Arc<[DeviceId]>,
    /// The batch whose parts there was no memory for.
    held: Held<Value>,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
    numbering: Numbering,
}

impl SplitPass {
    /// A pass that splits the elements of `input` into elements like `spec`.
    pub(super) fn new(
        spec: ElementSpec,
        devices: Arc<[DeviceId]>,
        numbering: Numbering,
        mut input: Box<dyn Pass<Value>>,
    ) -> SplitPass {
        input.reserve(1);
        let held = Held::of(&*input);
        SplitPass { spec, devices, held, input, pool: Pool::new(), numbering }
    }

    fn parts_of(&mut self, batch: &Value) -> Result<Value> {
        let _split = observe::span(Phase::Split);
        let element = self.pool.claim(|| Frame::new(&self.spec))?;
        let made = split(batch, element.value_mut(), &self.devices, &self.numbering);
        if made.is_err() {
            // Parts that are on their GPUs already make room for others meanwhile.
            element.release();
        }
        made.map(|()| element.value())
    }

    fn split(&mut self) -> Result<Option<Value>> {
        // The input can use again the batches that only idle elements of ours are views of.
        self.pool.release_idle();
        let Some(batch) = self.held.next(&mut *self.input)? else { return Ok(None) };
        let made = self.parts_of(&batch);
        self.held.settle(batch, made).map(Some)
    }
}

impl Pass<Value> for SplitPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let next = self.split();
        self.numbering.count(next)
    }

    fn restart(&mut self) -> Result<()> {
        self.numbering.restart();
        self.held.clear();
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.numbering.save(to);
        self.held.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.numbering.restore(from)?;
        self.held.clear();
        self.input.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let skipped = self.held.skip(&mut *self.input, count)?;
        self.numbering.skip(skipped);
        Ok(skipped)
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// How many of `rows` rows each of `replicas` replicas gets when a batch is split by Rule A.
pub fn part_sizes(rows: usize, replicas: usize) -> Vec<usize> {
    let sizes = (0..replicas).map(|replica| part(rows, replica, replicas));
    sizes.map(|(start, stop)| stop - start).collect()
}

/// The rows of each tensor of `batch`: a nest of tensors that have equally many.
///
/// INVALID_ARGUMENT: leaves that are no tensors, scalars, tensors with different numbers of rows,
/// or no tensor at all.
pub fn batch_rows(batch: &Value) -> Result<usize> {
    let mut rows = None;
    let problem = batch.find_leaf(&mut |leaf| {
        let Value::Tensor(tensor) = leaf else {
            let kind = leaf.kind_name();
            return Some(format!("contains {kind}; give the global batch, a nest of tensors"));
        };
        let Some(&count) = tensor.shape().first() else {
            return Some("contains a scalar, which cannot be split over replicas".into());
        };
        let first = *rows.get_or_insert(count);
        (first != count).then(|| format!("has tensors of {first} and of {count} rows"))
    });
    match (problem, rows) {
        (Some(problem), _) => Err(Error::invalid("batch", problem)),
        (None, None) => Err(Error::invalid("batch", "contains no tensor")),
        (None, Some(rows)) => Ok(rows),
    }
}

/// The rows of `batch` from `first` on as an element of a distributed dataset: replica k, on the
/// k-th of `devices`, gets the next `sizes[k]` of them, as views, or as copies on a GPU. There must be as
/// many.
pub fn split_rows(
    batch: &Value,
    first: usize,
    sizes: &[usize],
    devices: &[DeviceId],
) -> Result<Value> {
    batch.map_leaves(&mut |leaf| {
        let whole = leaf.tensor_of(0)?;
        let mut start = first;
        let parts = sizes.iter().zip(devices).map(|(&size, &device)| {
            let (layout, offset) = whole.layout().slice(0, start, start + size, 1)?;
            start += size;
            let mut part = whole.slice(0, 0, 0, 1)?;
            let share = Share { examples: size as u64, origin: None };
            frame::view(&mut part, whole, layout, offset, device, Some(share))?;
            Ok(part)
        });
        Value::per_replica(parts.collect::<Result<_>>()?)
    })
}

/// A global batch as an element of a distributed dataset: each tensor of it is split along dimension 0 by
/// Rule A, the k-th part on the k-th of `devices`, as views, or as copies on a GPU; with one device
/// tensors stay tensors. The parts know how many examples they hold.
///
/// INVALID_ARGUMENT: a leaf that is no tensor and, with several devices, a scalar.
pub fn split_value(batch: &Value, devices: &[DeviceId]) -> Result<Value> {
    split_numbered(batch, devices, &Numbering::new(None))
}

/// The same, of a batch that has a number.
pub(super) fn split_numbered(
    batch: &Value,
    devices: &[DeviceId],
    numbering: &Numbering,
) -> Result<Value> {
    let _split = observe::span(Phase::Split);
    batch.map_leaves(&mut |leaf| {
        let Value::Tensor(whole) = leaf else {
            let problem =
                format!("contains {}; only tensors are split, and nests of them", leaf.kind_name());
            return Err(Error::invalid("value", problem));
        };
        let fresh = || Tensor::uninitialized(whole.dtype(), Shape::new(&[0])?, DeviceId::HOST);
        if let [device] = *devices {
            let mut part = fresh()?;
            let share = numbering.share(examples(whole), examples(whole));
            frame::view(&mut part, whole, *whole.layout(), 0, device, Some(share))?;
            return Ok(Value::Tensor(part));
        }
        if whole.shape().rank() == 0 {
            let problem = format!(
                "contains a scalar, which cannot be split over {} replicas; give it a dimension 0",
                devices.len()
            );
            return Err(Error::invalid("value", problem));
        }
        let mut parts = devices.iter().map(|_| fresh()).collect::<Result<Vec<_>>>()?;
        split_tensor(whole, &mut parts, devices, numbering)?;
        Value::per_replica(parts)
    })
}

/// The rows [start, stop) of `rows` that `replica` of `replicas` gets.
fn part(rows: usize, replica: usize, replicas: usize) -> (usize, usize) {
    let size = rows.div_ceil(replicas);
    // Saturating: past the end it does not matter how far.
    let start = replica.saturating_mul(size).min(rows);
    (start, start.saturating_add(size).min(rows))
}

/// How many examples a tensor holds: its rows, or itself.
pub(super) fn examples(tensor: &Tensor) -> u64 {
    tensor.shape().first().map_or(1, |&rows| rows as u64)
}

/// Makes the leaves of `element` the parts of the leaves of `batch`.
fn split(
    batch: &Value,
    element: &mut Value,
    devices: &[DeviceId],
    numbering: &Numbering,
) -> Result<()> {
    match (batch, element) {
        (Value::Tensor(whole), Value::Tensor(part)) => {
            let share = Some(numbering.share(examples(whole), examples(whole)));
            frame::view(part, whole, *whole.layout(), 0, devices[0], share)
        }
        (Value::Tensor(whole), Value::PerReplica(parts)) => {
            let parts = Arc::get_mut(parts).ok_or_else(frame::in_use)?.components_mut();
            split_tensor(whole, parts, devices, numbering)
        }
        (Value::Tuple(batches), Value::Tuple(elements))
        | (Value::List(batches), Value::List(elements))
            if batches.len() == elements.len() =>
        {
            let elements = Arc::get_mut(elements).ok_or_else(frame::in_use)?;
            let mut pairs = batches.iter().zip(elements);
            pairs.try_for_each(|(batch, element)| split(batch, element, devices, numbering))
        }
        (Value::Struct(batches), Value::Struct(elements)) if batches.len() == elements.len() => {
            let elements = Arc::get_mut(elements).ok_or_else(frame::in_use)?;
            let mut pairs = batches.iter().zip(elements);
            pairs.try_for_each(|((_, batch), (_, element))| {
                split(batch, element, devices, numbering)
            })
        }
        (batch, _) => Err(Error::Internal(format!(
            "an element of a dataset has {} where its spec has something else",
            batch.kind_name()
        ))),
    }
}

fn split_tensor(
    whole: &Tensor,
    parts: &mut [Tensor],
    devices: &[DeviceId],
    numbering: &Numbering,
) -> Result<()> {
    let replicas = parts.len();
    let rows = whole.shape().first().copied().ok_or_else(|| {
        Error::invalid("dataset", "a scalar in an element, which cannot be split over replicas")
    })?;
    for (replica, (tensor, &device)) in parts.iter_mut().zip(devices).enumerate() {
        let (start, stop) = part(rows, replica, replicas);
        let (layout, offset) = whole.layout().slice(0, start, stop, 1)?;
        let share = numbering.share((stop - start) as u64, rows as u64);
        frame::view(tensor, whole, layout, offset, device, Some(share))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn rule_a_sizes() {
        let table: [(usize, usize, &[usize]); 8] = [
            (9, 4, &[3, 3, 3, 0]),
            (14 - 8, 2, &[3, 3]),
            (4, 3, &[2, 2, 0]),
            (3, 2, &[2, 1]),
            (1, 2, &[1, 0]),
            (2, 4, &[1, 1, 0, 0]),
            (0, 3, &[0, 0, 0]),
            (8, 4, &[2, 2, 2, 2]),
        ];
        for (rows, replicas, expected) in table {
            let parts = (0..replicas).map(|replica| super::part(rows, replica, replicas));
            let sizes: Vec<_> = parts.map(|(start, stop)| stop - start).collect();
            assert_eq!(sizes, expected, "{rows} rows over {replicas} replicas");
        }
    }
}
