//! The structure, dtypes and shapes of a dataset's elements, known before the first element.

use std::fmt;
use std::sync::Arc;

use umbo_base::error::{Error, Result};
use umbo_base::text::Text;
use umbo_tensor::values::Value;
use umbo_tensor::values::limits::{self, NestSize};
use umbo_tensor::values::nest::{Nest, NestKind};
use umbo_tensor::{DType, MAX_RANK, Shape, Tensor};

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
    /// One tensor for each replica. The number is that of the replicas.
    PerReplica(usize, LeafSpec),
    /// A tuple, a list or a struct. It is shared, because each transformation of a pipeline keeps
    /// the spec.
    Nest(Arc<Nest<ElementSpec>>),
}

impl LeafSpec {
    /// The spec of exactly this tensor.
    pub(crate) fn of(tensor: &Tensor) -> LeafSpec {
        let shape = tensor.shape().iter().copied().map(Some).collect();
        LeafSpec {
            dtype: tensor.dtype(),
            shape,
        }
    }

    fn fits(&self, tensor: &Tensor) -> bool {
        let shape = tensor.shape();
        self.dtype == tensor.dtype()
            && self.shape.len() == shape.rank()
            && self
                .shape
                .iter()
                .zip(shape.iter())
                .all(|(said, is)| said.is_none_or(|n| n == *is))
    }

    fn common(&self, other: &LeafSpec) -> Option<LeafSpec> {
        let alike = self.dtype == other.dtype && self.shape.len() == other.shape.len();
        let sizes = self.shape.iter().zip(&other.shape);
        let shape = || sizes.map(|(one, two)| one.filter(|_| one == two)).collect();
        alike.then(|| LeafSpec {
            dtype: self.dtype,
            shape: shape(),
        })
    }

    /// The shape of a tensor of this spec without rows. Dimension 0 and unknown sizes are 0.
    pub(crate) fn empty_shape(&self) -> Result<Shape> {
        let mut sizes = [0; MAX_RANK];
        for (size, known) in sizes.iter_mut().zip(&self.shape).skip(1) {
            *size = known.unwrap_or(0);
        }
        Shape::new(&sizes[..self.shape.len().min(MAX_RANK)])
    }

    /// The spec with another number of rows. A scalar has none.
    pub(crate) fn with_rows(&self, rows: Option<usize>) -> LeafSpec {
        let mut spec = self.clone();
        if let Some(size) = spec.shape.first_mut() {
            *size = rows;
        }
        spec
    }

    /// The spec with another dimension in front.
    pub(crate) fn stacked(&self, size: Option<usize>) -> Result<LeafSpec> {
        if self.shape.len() == MAX_RANK {
            return Err(invalid!(
                "dataset",
                "its elements ({self}) have {MAX_RANK} dimensions already; a batch of them would \
                 have {}; at most {MAX_RANK} are possible",
                MAX_RANK + 1
            ));
        }
        let shape = std::iter::once(size)
            .chain(self.shape.iter().copied())
            .collect();
        Ok(LeafSpec {
            dtype: self.dtype,
            shape,
        })
    }
}

impl ElementSpec {
    /// A tuple of these items.
    ///
    /// INVALID_ARGUMENT for a nest that is too deep or too large ([`limits`]).
    pub fn tuple(items: Vec<ElementSpec>) -> Result<ElementSpec> {
        ElementSpec::nest(Nest::new(NestKind::Tuple, items)).within_limits()
    }

    /// A list of these items; as [`ElementSpec::tuple`].
    pub fn list(items: Vec<ElementSpec>) -> Result<ElementSpec> {
        ElementSpec::nest(Nest::new(NestKind::List, items)).within_limits()
    }

    fn within_limits(self) -> Result<ElementSpec> {
        limits::check(self.size(), "items")?;
        Ok(self)
    }

    fn size(&self) -> NestSize {
        match self {
            ElementSpec::Leaf(_) | ElementSpec::PerReplica(..) => NestSize::LEAF,
            ElementSpec::Nest(nest) => nest.size(ElementSpec::size),
        }
    }

    fn nest(nest: Nest<ElementSpec>) -> ElementSpec {
        ElementSpec::Nest(Arc::new(nest))
    }

    /// The items or fields of a nest. A tensor has none.
    pub(crate) fn items(&self) -> &[ElementSpec] {
        if let ElementSpec::Nest(nest) = self {
            nest.items()
        } else {
            &[]
        }
    }

    /// A struct of these fields, whose names must differ.
    ///
    /// INVALID_ARGUMENT if two names are equal, and for a nest that is too deep or too large
    /// ([`limits`]).
    pub fn structure(fields: Vec<(Text, ElementSpec)>) -> Result<ElementSpec> {
        ElementSpec::nest(Nest::of_fields(fields)?).within_limits()
    }

    /// The spec of a value. `leaf` returns the spec of each tensor. INVALID_ARGUMENT, which names
    /// `argument`, for values that are not nests of tensors.
    pub(crate) fn describe(
        value: &Value,
        argument: &'static str,
        leaf: &mut dyn FnMut(&Tensor) -> Result<LeafSpec>,
    ) -> Result<ElementSpec> {
        Ok(match value {
            Value::Tensor(tensor) => ElementSpec::Leaf(leaf(tensor)?),
            Value::Nest(nest) => {
                let items = nest.items().iter();
                let items = items.map(|item| ElementSpec::describe(item, argument, leaf));
                ElementSpec::nest(nest.with_items(items.collect::<Result<_>>()?))
            }
            other => {
                let found = other.kind_name();
                let problem = format!("{found} where a nest of tensors is expected");
                return Err(Error::invalid(argument, problem));
            }
        })
    }

    /// Checks that `value` matches this spec. If not, returns INVALID_ARGUMENT with a message that
    /// begins with `argument`.
    pub(crate) fn check(&self, value: &Value, argument: &'static str) -> Result<()> {
        match (self, value) {
            (ElementSpec::Leaf(leaf), Value::Tensor(tensor)) if leaf.fits(tensor) => Ok(()),
            (ElementSpec::Leaf(leaf), Value::Tensor(tensor)) => Err(invalid!(
                argument,
                "{} where the element spec says {leaf}; all elements look as the spec says, which \
                 is given with the function",
                described(tensor)
            )),
            (ElementSpec::Nest(specs), Value::Nest(nest)) if specs.is_like(nest) => {
                let mut pairs = specs.items().iter().zip(nest.items());
                pairs.try_for_each(|(spec, item)| spec.check(item, argument))
            }
            (spec, other) => Err(invalid!(
                argument,
                "{} of {} where the element spec says {spec}; all elements look as the spec says, \
                 which is given with the function",
                other.kind_name(),
                other.count()
            )),
        }
    }

    /// Checks that this can be the spec of a dataset's elements: it has tensors, and no per-replica
    /// values.
    pub(crate) fn check_describes_elements(&self, argument: &'static str) -> Result<()> {
        let problem = if self.leaves() == 0 {
            format!("{self} has no tensor")
        } else if self.has_per_replica() {
            format!("{self} has per-replica values, which only distribution makes")
        } else {
            return Ok(());
        };
        Err(Error::invalid(argument, problem))
    }

    fn has_per_replica(&self) -> bool {
        matches!(self, ElementSpec::PerReplica(..))
            || self.items().iter().any(ElementSpec::has_per_replica)
    }

    /// Dimension 0 of the tensors, if it is known and the same for all.
    pub(crate) fn rows(&self) -> Option<usize> {
        let mut rows = None;
        let mut agree = true;
        self.for_each_leaf(&mut |leaf| {
            let size = leaf.shape.first().copied().flatten();
            agree &= size.is_some() && (rows.is_none() || rows == size);
            rows = size;
        });
        rows.filter(|_| agree)
    }

    /// Calls `visit` for each leaf, in order.
    pub(crate) fn for_each_leaf<'a>(&'a self, visit: &mut dyn FnMut(&'a LeafSpec)) {
        match self {
            ElementSpec::Leaf(leaf) | ElementSpec::PerReplica(_, leaf) => visit(leaf),
            ElementSpec::Nest(nest) => {
                nest.items()
                    .iter()
                    .for_each(|item| item.for_each_leaf(visit));
            }
        }
    }

    /// The specification that both fit: the same structure, dtypes and ranks, and the sizes that
    /// are equal. If there is no such spec, returns the error of `different`.
    /// RESOURCE_EXHAUSTED if there is no memory for it.
    pub(crate) fn common(
        &self,
        other: &ElementSpec,
        different: &dyn Fn() -> Error,
    ) -> Result<ElementSpec> {
        match (self, other) {
            (ElementSpec::Leaf(one), ElementSpec::Leaf(two)) => {
                one.common(two).map(ElementSpec::Leaf).ok_or_else(different)
            }
            (ElementSpec::Nest(one), ElementSpec::Nest(two)) if one.is_like(two) => {
                let pairs = one.items().iter().zip(two.items());
                let items = pairs.map(|(item, other)| item.common(other, different));
                Ok(ElementSpec::nest(
                    one.with_items(items.collect::<Result<_>>()?),
                ))
            }
            _ => Err(different()),
        }
    }

    /// The number of items, fields or components; 1 for a tensor.
    pub fn count(&self) -> usize {
        match self {
            ElementSpec::Leaf(_) => 1,
            ElementSpec::PerReplica(replicas, _) => *replicas,
            ElementSpec::Nest(nest) => nest.items().len(),
        }
    }

    /// The spec of the item, field or component at `index`. OUT_OF_RANGE if there is none,
    /// INVALID_ARGUMENT for a tensor.
    pub fn item(&self, index: usize) -> Result<ElementSpec> {
        let item = match self {
            ElementSpec::Leaf(_) => {
                return Err(invalid!("spec", "{self} has no items"));
            }
            ElementSpec::PerReplica(replicas, leaf) => {
                (index < *replicas).then(|| ElementSpec::Leaf(leaf.clone()))
            }
            ElementSpec::Nest(nest) => nest.items().get(index).cloned(),
        };
        let missing = || {
            format!(
                "{index} is not in [0, {}), the items of {self}",
                self.count()
            )
        };
        item.ok_or_else(|| Error::out_of_range("index", missing()))
    }

    /// The name of the field at `index`. OUT_OF_RANGE if there is none, INVALID_ARGUMENT if this is
    /// not a struct.
    pub fn field_name(&self, index: usize) -> Result<&Text> {
        let names = if let ElementSpec::Nest(nest) = self {
            nest.names()
        } else {
            None
        };
        let names = names.ok_or_else(|| {
            let problem = format!("{self} is not a struct; only a struct has field names");
            Error::invalid("spec", problem)
        })?;
        let missing = || format!("{index} is not in [0, {}), the fields", names.len());
        names
            .get(index)
            .ok_or_else(|| Error::out_of_range("index", missing()))
    }

    /// The spec of a tensor, or of the components of a per-replica value. INVALID_ARGUMENT for a
    /// nest.
    pub fn leaf(&self) -> Result<&LeafSpec> {
        match self {
            ElementSpec::Leaf(leaf) | ElementSpec::PerReplica(_, leaf) => Ok(leaf),
            nest => Err(invalid!("spec", "{nest} is a nest; take an item of it")),
        }
    }

    /// How many tensors, or per-replica values, an element has.
    pub fn leaves(&self) -> usize {
        match self {
            ElementSpec::Leaf(_) | ElementSpec::PerReplica(..) => 1,
            ElementSpec::Nest(nest) => nest.items().iter().map(ElementSpec::leaves).sum(),
        }
    }

    /// A value of this structure, which is within the limits of nests. `tensor` makes the tensor of
    /// each leaf and of each replica.
    pub(crate) fn value(
        &self,
        tensor: &mut dyn FnMut(&LeafSpec, usize) -> Result<Tensor>,
    ) -> Result<Value> {
        Ok(match self {
            ElementSpec::Leaf(leaf) => Value::Tensor(tensor(leaf, 0)?),
            ElementSpec::PerReplica(replicas, leaf) => {
                let parts = (0..*replicas).map(|replica| tensor(leaf, replica));
                Value::per_replica(parts.collect::<Result<_>>()?)?
            }
            ElementSpec::Nest(nest) => {
                let items = nest.items().iter().map(|item| item.value(tensor));
                Value::nest(nest.with_items(items.collect::<Result<_>>()?))
            }
        })
    }

    /// The structure with each tensor's spec replaced by the result of `map`.
    pub(crate) fn map(
        &self,
        map: &mut dyn FnMut(&LeafSpec) -> Result<ElementSpec>,
    ) -> Result<ElementSpec> {
        match self {
            ElementSpec::Leaf(leaf) | ElementSpec::PerReplica(_, leaf) => map(leaf),
            ElementSpec::Nest(nest) => {
                let items = nest.items().iter().map(|item| item.map(map));
                Ok(ElementSpec::nest(
                    nest.with_items(items.collect::<Result<_>>()?),
                ))
            }
        }
    }
}

/// The dtype and the shape of a tensor, for a message.
pub(crate) fn described(tensor: &Tensor) -> String {
    format!("{} of shape {}", tensor.dtype(), tensor.shape())
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
            ElementSpec::Nest(nest) => {
                let (open, close) = match nest.kind() {
                    NestKind::Tuple => ("(", ")"),
                    NestKind::List => ("[", "]"),
                    NestKind::Struct(_) => ("{", "}"),
                };
                formatter.write_str(open)?;
                for (position, item) in nest.items().iter().enumerate() {
                    formatter.write_str(if position == 0 { "" } else { ", " })?;
                    if let Some(names) = nest.names() {
                        write!(formatter, "{}: ", names[position])?;
                    }
                    item.fmt(formatter)?;
                }
                formatter.write_str(close)
            }
        }
    }
}
