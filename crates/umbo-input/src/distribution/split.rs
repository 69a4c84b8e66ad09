//! Splits each batch along dimension 0 into one part for each replica.

use crate::distribution::local_replicas::LocalReplicas;
use crate::elements::element_buffer::{self, ElementBuffer};
use crate::elements::leaves::Leaves;
use crate::elements::spec::{ElementSpec, LeafSpec};
use crate::passes::batch_counter::BatchCounter;
use crate::passes::gathered::Make;
use crate::passes::position::Description;
use crate::sources::nest_of_arrays;
use umbo_base::error::{Error, Result};
use umbo_base::observe::{self, Phase};
use umbo_device::DeviceId;
use umbo_strategy::Strategy;
use umbo_tensor::origin::BatchShare;
use umbo_tensor::values::Value;
use umbo_tensor::{Shape, Tensor};

/// The rows of a batch that each replica gets. A single replica gets the whole batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shares {
    /// Rule A: with c = ⌈rows / replicas⌉, replica k gets rows [k·c, (k+1)·c), as far as these rows
    /// exist.
    Ceiling,
    /// Of a batch of `full` rows all replicas get the same number of rows or, the first ones, one
    /// more. Of a smaller batch each gets the same rows, as far as they exist. Without the
    /// number, each batch is a full one.
    Balanced { full: Option<usize> },
}

impl Shares {
    /// The rows [start, stop) of `rows` that replica `replica` of `replicas` gets.
    pub(crate) fn part(self, rows: usize, replica: usize, replicas: usize) -> (usize, usize) {
        let (start, stop) = match self {
            Shares::Ceiling => {
                let size = rows.div_ceil(replicas);
                // The arithmetic saturates, because the distance past the end does not matter.
                let start = replica.saturating_mul(size);
                (start, start.saturating_add(size))
            }
            Shares::Balanced { full } => {
                let full = full.unwrap_or(0).max(rows);
                let size = full / replicas;
                let larger = full % replicas;
                let start = |replica: usize| replica * size + replica.min(larger);
                (start(replica), start(replica + 1))
            }
        };
        (start.min(rows), stop.min(rows))
    }
}

/// Splits batches.
pub(crate) struct Split {
    leaves: Leaves,
    replicas: LocalReplicas,
    shares: Shares,
}

impl Split {
    /// Splits batches into elements like `spec`.
    pub(crate) fn new(spec: &ElementSpec, replicas: &LocalReplicas, shares: Shares) -> Split {
        Split {
            leaves: Leaves::of(spec),
            replicas: replicas.clone(),
            shares,
        }
    }
}

impl Make for Split {
    const IS_VIEW: bool = true;

    fn make(
        &mut self,
        batches: &[Value],
        numbering: &BatchCounter,
        buffer: &mut ElementBuffer,
    ) -> Result<()> {
        let _split = observe::span(Phase::Split);
        let Split {
            leaves,
            replicas,
            shares,
        } = self;
        let count = replicas.devices.len();
        buffer.fill(&mut |number, slot| {
            let leaf = number / count;
            let replica = number % count;
            let whole = leaves.tensor(&batches[0], leaf)?;
            // Ranks compare the first component.
            let checksum = match replica {
                0 => numbering.checksum(whole)?,
                _ => None,
            };
            make_part(
                slot.tensor,
                whole,
                replicas,
                replica,
                *shares,
                numbering,
                checksum,
            )
        })
    }
}

/// The spec of the parts of a tensor.
pub(crate) fn part_spec(leaf: &LeafSpec, replicas: usize) -> Result<LeafSpec> {
    let Some(rows) = leaf.shape.first() else {
        return Err(invalid!(
            "dataset",
            "its elements contain a scalar ({leaf}), which cannot be split over {replicas} \
             replicas; batch the dataset before distributing it"
        ));
    };
    Ok(leaf.with_rows(
        rows.filter(|rows| rows % replicas == 0)
            .map(|rows| rows / replicas),
    ))
}

/// The number of rows that each of `replicas` replicas gets when a batch of `rows` rows is split by
/// Rule A.
pub fn part_sizes(rows: usize, replicas: usize) -> Vec<usize> {
    let sizes = (0..replicas).map(|replica| Shares::Ceiling.part(rows, replica, replicas));
    sizes.map(|(start, stop)| stop - start).collect()
}

/// The number of rows of each tensor of `batch`: a nest of tensors with equal numbers of rows.
///
/// INVALID_ARGUMENT: leaves that are not tensors, scalars, tensors with different numbers of rows,
/// or no tensor at all.
pub fn batch_rows(batch: &Value) -> Result<usize> {
    let mut rows = None;
    let problem = batch.find_leaf(&mut |leaf| {
        let Value::Tensor(tensor) = leaf else {
            let kind = leaf.kind_name();
            return Some(format!(
                "contains {kind}; give the global batch, a nest of tensors"
            ));
        };
        let Some(&count) = tensor.shape().first() else {
            return Some("contains a scalar, which cannot be split over replicas".into());
        };
        let first = *rows.get_or_insert(count);
        (first != count).then(|| format!("has tensors of {first} and of {count} rows"))
    });
    match (problem, rows) {
        (Some(problem), _) => Err(Error::invalid("batch", problem)),
        (None, None) => Err(invalid!("batch", "contains no tensor")),
        (None, Some(rows)) => Ok(rows),
    }
}

/// The rows of `batch` from `first` on, as an element of a distributed dataset. Replica k, on the
/// k-th of `devices`, gets the next `sizes[k]` rows, as views, or as copies on a GPU. The batch
/// must have that many rows.
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
            let share = BatchShare {
                examples: size as u64,
                origin: None,
            };
            element_buffer::view(&mut part, whole, layout, offset, device, Some(share))?;
            Ok(part)
        });
        Value::per_replica(parts.collect::<Result<_>>()?)
    })
}

/// Splits a global batch into an element of a distributed dataset, for the replicas of `strategy`
/// on all ranks. Each tensor is split along dimension 0 by Rule A. This rank's replicas get their
/// parts as views, or as copies on a GPU; with one device, tensors stay tensors. Each part stores
/// how many examples it holds. All ranks have the same batch.
///
/// INVALID_ARGUMENT: a leaf that is not a tensor and, with several devices, a scalar.
pub fn split_for(strategy: &Strategy, batch: &Value) -> Result<Value> {
    let replicas = &LocalReplicas::of_strategy(strategy);
    let described = replicas.among_ranks.then(Description::default);
    let numbering = &BatchCounter::new(described.as_ref(), 0);
    let _split = observe::span(Phase::Split);
    batch.map_leaves(&mut |leaf| {
        let Value::Tensor(whole) = leaf else {
            let problem = format!(
                "contains {}; only tensors are split, and nests of them",
                leaf.kind_name()
            );
            return Err(Error::invalid("value", problem));
        };
        if whole.shape().rank() == 0 && replicas.all > 1 {
            let problem = format!(
                "contains a scalar, which cannot be split over {} replicas; give it a dimension 0",
                replicas.all
            );
            return Err(Error::invalid("value", problem));
        }
        let part_of = |replica| {
            let mut part = Tensor::uninitialized(whole.dtype(), Shape::new(&[0])?, DeviceId::HOST)?;
            make_part(
                &mut part,
                whole,
                replicas,
                replica,
                Shares::Ceiling,
                numbering,
                None,
            )?;
            Ok(part)
        };
        match replicas.devices.len() {
            1 => part_of(0).map(Value::Tensor),
            count => Value::per_replica((0..count).map(part_of).collect::<Result<_>>()?),
        }
    })
}

/// [`split_for`] of a batch in arrays: a struct with these names or, without names, a tuple; a
/// single array without a name itself.
///
/// INVALID_ARGUMENT: arrays that do not have the same number of rows; two of one name.
pub fn split_arrays_for(
    strategy: &Strategy,
    arrays: Vec<Tensor>,
    names: Option<&[&str]>,
) -> Result<Value> {
    let mut first = None;
    for (index, array) in arrays.iter().enumerate() {
        let Some(&rows) = array.shape().first() else {
            return Err(invalid!(
                "views",
                "array {index} is a scalar; give it a dimension 0"
            ));
        };
        let first = *first.get_or_insert(rows);
        if rows != first {
            return Err(invalid!(
                "views",
                "array {index} has {rows} rows, and array 0 has {first}; all must have as many"
            ));
        }
    }
    split_for(strategy, &nest_of_arrays(arrays, names)?)
}

/// The number of examples a tensor holds: its number of rows, or 1 for a scalar.
pub(crate) fn examples(tensor: &Tensor) -> u64 {
    tensor.shape().first().map_or(1, |&rows| rows as u64)
}

/// Makes `component` the part of `whole`, whose checksum is given, for the replica of this process
/// with the given number.
fn make_part(
    component: &mut Tensor,
    whole: &Tensor,
    replicas: &LocalReplicas,
    replica: usize,
    shares: Shares,
    numbering: &BatchCounter,
    checksum: Option<u32>,
) -> Result<()> {
    let device = replicas.devices[replica];
    if replicas.all == 1 {
        let share = Some(numbering.share(examples(whole), examples(whole), checksum));
        return element_buffer::view(component, whole, *whole.layout(), 0, device, share);
    }
    let rows = whole.shape().first().copied().ok_or_else(|| {
        invalid!(
            "dataset",
            "a scalar in an element, which cannot be split over replicas"
        )
    })?;
    let (start, stop) = shares.part(rows, replicas.first + replica, replicas.all);
    let (layout, offset) = whole.layout().slice(0, start, stop, 1)?;
    let share = Some(numbering.share((stop - start) as u64, rows as u64, checksum));
    element_buffer::view(component, whole, layout, offset, device, share)
}

#[cfg(test)]
mod tests {
    use super::Shares;

    fn sizes(shares: Shares, rows: usize, replicas: usize) -> Vec<usize> {
        let parts = (0..replicas).map(|replica| shares.part(rows, replica, replicas));
        parts.map(|(start, stop)| stop - start).collect()
    }

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
            let came = sizes(Shares::Ceiling, rows, replicas);
            assert_eq!(came, expected, "{rows} rows over {replicas} replicas");
        }
    }

    #[test]
    fn balanced_sizes() {
        let table: [(usize, Option<usize>, usize, &[usize]); 9] = [
            (9, Some(9), 4, &[3, 2, 2, 2]),
            (6, Some(8), 2, &[4, 2]),
            (1, Some(4), 2, &[1, 0]),
            (5, Some(9), 4, &[3, 2, 0, 0]),
            (2, Some(2), 4, &[1, 1, 0, 0]),
            (0, Some(8), 3, &[0, 0, 0]),
            (6, None, 4, &[2, 2, 1, 1]),
            // More rows than a full batch is said to have.
            (9, Some(8), 2, &[5, 4]),
            (7, Some(8), 1, &[7]),
        ];
        for (rows, full, replicas, expected) in table {
            let came = sizes(Shares::Balanced { full }, rows, replicas);
            assert_eq!(
                came, expected,
                "{rows} rows of {full:?} over {replicas} replicas"
            );
        }
    }

    /// All batches of up to 24 rows over up to 9 replicas, also as the rest of a full batch, and
    /// the largest.
    #[test]
    fn parts_have_every_row_once() {
        let largest = [usize::MAX, usize::MAX - 1, isize::MAX as usize];
        for replicas in 1..10 {
            for rows in (0..25).chain(largest) {
                let full = (0..25).chain(largest).map(Some).chain([None]);
                let balanced = full.map(|full| Shares::Balanced { full });
                for shares in balanced.chain([Shares::Ceiling]) {
                    let mut end = 0;
                    for replica in 0..replicas {
                        let (start, stop) = shares.part(rows, replica, replicas);
                        assert!(start == end && stop >= start, "{rows} of {replicas}");
                        end = stop;
                    }
                    assert_eq!(end, rows, "{rows} of {replicas}");
                }
            }
        }
    }
}
