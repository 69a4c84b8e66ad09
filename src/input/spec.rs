//! What the elements of a dataset look like, known before the first one is there.

use std::fmt;

use crate::error::{Error, Result};
use crate::tensor::{DType, MAX_RANK};

/// The dtype and shape of one tensor of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpec {
    /// The element type.
    pub dtype: DType,
    /// The sizes of the dimensions; `None` where elements may differ.
    pub shape: Vec<Option<usize>>,
}

/// The structure of a dataset's elements, with a [`LeafSpec`] in place of each tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementSpec {
    /// A tensor.
    Leaf(LeafSpec),
    /// One tensor for each of so many replicas.
    PerReplica(usize, LeafSpec),
    /// Items in order.
    Tuple(Vec<ElementSpec>),
    /// Named fields in order.
    Struct(Vec<(String, ElementSpec)>),
}

impl LeafSpec {
    /// The leaf with another dimension in front of its own.
    pub(super) fn stacked(&self, size: Option<usize>) -> Result<LeafSpec> {
        if self.shape.len() == MAX_RANK {
            return Err(Error::invalid(
                "dataset",
                format!(
                    "its elements ({self}) have rank {MAX_RANK} already; a batch of them would \
                     have rank {}, and {MAX_RANK} is the largest",
                    MAX_RANK + 1
                ),
            ));
        }
        let shape = std::iter::once(size).chain(self.shape.iter().copied()).collect();
        Ok(LeafSpec { dtype: self.dtype, shape })
    }
}

impl ElementSpec {
    /// A struct of these fields, whose names must differ.
    pub(super) fn structure(fields: Vec<(String, ElementSpec)>) -> Result<ElementSpec> {
        for (position, (name, _)) in fields.iter().enumerate() {
            if fields[..position].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid("names", format!("'{name}' appears twice")));
            }
        }
        Ok(ElementSpec::Struct(fields))
    }

    /// How many tensors, or per-replica values, an element has.
    pub fn leaves(&self) -> usize {
        match self {
            ElementSpec::Leaf(_) | ElementSpec::PerReplica(..) => 1,
            ElementSpec::Tuple(items) => items.iter().map(ElementSpec::leaves).sum(),
            ElementSpec::Struct(fields) => fields.iter().map(|(_, field)| field.leaves()).sum(),
        }
    }

    /// The structure with each tensor's spec replaced.
    pub(super) fn map(
        &self,
        map: &mut dyn FnMut(&LeafSpec) -> Result<ElementSpec>,
    ) -> Result<ElementSpec> {
        Ok(match self {
            ElementSpec::Leaf(leaf) | ElementSpec::PerReplica(_, leaf) => map(leaf)?,
            ElementSpec::Tuple(items) => {
                ElementSpec::Tuple(items.iter().map(|item| item.map(map)).collect::<Result<_>>()?)
            }
            ElementSpec::Struct(fields) => ElementSpec::Struct(
                fields
                    .iter()
                    .map(|(name, field)| Ok((name.clone(), field.map(map)?)))
                    .collect::<Result<_>>()?,
            ),
        })
    }
}

impl fmt::Display for LeafSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} [", self.dtype)?;
        for (axis, size) in self.shape.iter().enumerate() {
            let separator = if axis == 0 { "" } else { ", " };
            match size {
                Some(size) => write!(formatter, "{separator}{size}")?,
                None => write!(formatter, "{separator}?")?,
            }
        }
        formatter.write_str("]")
    }
}

impl fmt::Display for ElementSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementSpec::Leaf(leaf) => leaf.fmt(formatter),
            ElementSpec::PerReplica(replicas, leaf) => write!(formatter, "{replicas} x {leaf}"),
            ElementSpec::Tuple(items) => {
                formatter.write_str("(")?;
                for (position, item) in items.iter().enumerate() {
                    let separator = if position == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{item}")?;
                }
                formatter.write_str(")")
            }
            ElementSpec::Struct(fields) => {
                formatter.write_str("{")?;
                for (position, (name, field)) in fields.iter().enumerate() {
                    let separator = if position == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{name}: {field}")?;
                }
                formatter.write_str("}")
            }
        }
    }
}
