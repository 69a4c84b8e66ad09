//! Nests of tensors, indexed slices, per-replica values, and the storage of variables.

pub mod buffer;
pub mod copies;
pub mod indexed_slices;
pub mod initial;
pub mod limits;
pub mod nest;
mod path;
mod per_replica;
pub mod random;
mod sending;
pub mod sharding;
mod strict_view_log;
mod text;
pub(crate) mod trial;
mod uploads;
pub mod variable;
mod variable_spec;
mod view;

use std::sync::{Arc, LazyLock};

use crate::origin::Origin;
use crate::{Shape, Tensor, is_only_reference};
use indexed_slices::IndexedSlices;
use limits::NestSize;
use nest::{Nest, NestKind};
use umbo_base::error::{Error, Result, memory};
use umbo_base::text::Text;
use variable::Variable;

pub use per_replica::PerReplica;
pub use view::VariableView;

/// The name of a nest's lists in messages.
const ITEMS: &str = "items of a nest";

/// The number of leaves of a value that are parts of global batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchContents {
    /// No leaf is such a part.
    None,
    /// Some leaves are, and others are not.
    Some,
    /// Every leaf is.
    All,
}

/// A value: a leaf (tensor, indexed slices, variable, per-replica value) or a nest of values. Nests
/// contain per-replica values; per-replica values contain no nests. Cloning makes another
/// reference.
#[derive(Clone, Debug)]
pub enum Value {
    /// A plain tensor.
    Tensor(Tensor),
    /// One component per replica. The components may differ in everything.
    PerReplica(Arc<PerReplica>),
    /// A tuple, a list or a struct of values.
    Nest(Arc<Nest<Value>>),
    /// A variable itself, not its value.
    Variable(Variable),
    /// Some rows of a tensor, selected by number.
    IndexedSlices(Arc<IndexedSlices>),
}

impl Value {
    /// Indexed slices; see [`IndexedSlices::new`].
    pub fn indexed_slices(values: Tensor, indices: Tensor, dense_shape: Shape) -> Result<Value> {
        Ok(Value::IndexedSlices(Arc::new(IndexedSlices::new(
            values,
            indices,
            dense_shape,
        )?)))
    }

    /// Whether it is a tensor, or a per-replica value of tensors, and nobody else has it or one of
    /// them.
    pub fn is_held_alone(&mut self) -> bool {
        match self {
            Value::Tensor(tensor) => tensor.is_held_alone(),
            Value::PerReplica(all) => {
                let mut tensors = all.components().iter();
                let is_only = |tensor: &Tensor| is_only_reference(&tensor.0);
                all.is_dense() && is_only_reference(all) && tensors.all(is_only)
            }
            Value::Nest(_) | Value::Variable(_) | Value::IndexedSlices(_) => false,
        }
    }

    /// Whether it can be a component of a per-replica value.
    fn is_component(&self) -> bool {
        matches!(self, Value::Tensor(_) | Value::IndexedSlices(_))
    }

    fn as_tensor(&self) -> Option<&Tensor> {
        if let Value::Tensor(tensor) = self {
            Some(tensor)
        } else {
            None
        }
    }

    /// A tuple of these items.
    ///
    /// Fails with INVALID_ARGUMENT for a nest that is too deep or too large ([`limits`]).
    pub fn tuple(items: Vec<Value>) -> Result<Value> {
        Value::nest(Nest::new(NestKind::Tuple, items)).within_limits("items")
    }

    /// A list of these items. Fails like [`Value::tuple`].
    pub fn list(items: Vec<Value>) -> Result<Value> {
        Value::nest(Nest::new(NestKind::List, items)).within_limits("items")
    }

    /// Whether it is a tuple, a list or a struct.
    pub fn is_nest(&self) -> bool {
        matches!(self, Value::Nest(_))
    }

    /// The nest, if it is within the limits. Each of its items is, but the whole may be too deep or
    /// too large.
    pub(crate) fn within_limits(self, argument: &'static str) -> Result<Value> {
        limits::check(self.size(), argument)?;
        Ok(self)
    }

    fn size(&self) -> NestSize {
        match self {
            Value::Nest(nest) => nest.size(Value::size),
            Value::Tensor(_)
            | Value::PerReplica(_)
            | Value::Variable(_)
            | Value::IndexedSlices(_) => NestSize::LEAF,
        }
    }

    /// A value that is this nest.
    pub fn nest(nest: Nest<Value>) -> Value {
        Value::Nest(Arc::new(nest))
    }

    /// The items or fields of a nest. A leaf has none.
    pub fn items(&self) -> &[Value] {
        if let Value::Nest(nest) = self {
            nest.items()
        } else {
            &[]
        }
    }

    /// The items or fields to be changed, if nobody else holds the nest; `None` for a leaf.
    pub fn items_mut(&mut self) -> Option<&mut [Value]> {
        if let Value::Nest(nest) = self {
            Some(Arc::get_mut(nest)?.items_mut())
        } else {
            None
        }
    }

    /// A struct of these fields, whose names must differ from each other.
    ///
    /// Fails with INVALID_ARGUMENT also for a nest that is too deep or too large ([`limits`]).
    pub fn structure(fields: Vec<(Text, Value)>) -> Result<Value> {
        Value::nest(Nest::of_fields(fields)?).within_limits("items")
    }

    /// The kind of this value, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::PerReplica(_) => "a per-replica value",
            Value::Nest(nest) => nest.kind_name(),
            Value::Variable(_) => "a variable",
            Value::IndexedSlices(_) => "indexed slices",
        }
    }

    /// The number of leaves it has: tensors, per-replica values, variables, indexed slices.
    pub fn leaves(&self) -> usize {
        if self.is_nest() {
            self.items().iter().map(Value::leaves).sum()
        } else {
            1
        }
    }

    /// How many items, fields or components it has; 1 for a tensor, indexed slices or a variable.
    pub fn count(&self) -> usize {
        match self {
            Value::Tensor(_) | Value::Variable(_) | Value::IndexedSlices(_) => 1,
            Value::PerReplica(value) => value.count(),
            Value::Nest(nest) => nest.items().len(),
        }
    }

    /// The item, field or component at `index`.
    pub fn item(&self, index: usize) -> Result<Value> {
        let item = match self {
            Value::Tensor(_) | Value::Variable(_) | Value::IndexedSlices(_) => {
                return Err(invalid!("value", "{} has no items", self.kind_name()));
            }
            Value::PerReplica(value) => value.component(index),
            Value::Nest(nest) => nest.items().get(index).cloned(),
        };
        item.ok_or_else(|| {
            out_of_range!(
                "index",
                "{index} is not in [0, {}), the items of {}",
                self.count(),
                self.kind_name()
            )
        })
    }

    /// The tensor of this leaf that replica `replica` sees. A plain tensor is the same for all
    /// replicas.
    pub fn tensor_of(&self, replica: usize) -> Result<&Tensor> {
        let other = |other: &Value| {
            let kind = other.kind_name();
            let problem = format!("{kind} where a tensor or a per-replica value is expected");
            Error::invalid("value", problem)
        };
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            Value::PerReplica(value) => {
                value
                    .dense(replica)
                    .ok_or_else(|| match value.component(replica) {
                        Some(component) => other(&component),
                        None => value.too_short(replica),
                    })
            }
            leaf => Err(other(leaf)),
        }
    }

    /// The nest in which the component of `replica` replaces each per-replica leaf. Other leaves
    /// stay the same objects.
    pub fn component(&self, replica: usize) -> Result<Value> {
        self.map_leaves(&mut |leaf| match leaf {
            Value::PerReplica(value) => value
                .component(replica)
                .ok_or_else(|| value.too_short(replica)),
            other => Ok(other.clone()),
        })
    }

    /// Like [`Value::component`], written into `shell`: a nest of the same structure that was kept
    /// from an earlier call (see [`Value::hollow`]) is filled again without allocating.
    pub fn component_into(&self, replica: usize, shell: &mut Value) -> Result<()> {
        if let (Value::Nest(nest), Value::Nest(shells)) = (self, &mut *shell)
            && nest.is_like(shells)
            && let Some(shells) = Arc::get_mut(shells)
        {
            let mut pairs = nest.items().iter().zip(shells.items_mut());
            return pairs.try_for_each(|(item, shell)| item.component_into(replica, shell));
        }
        *shell = self.component(replica)?;
        Ok(())
    }

    /// Releases the leaves and keeps the nest around them, if nobody else holds the nest.
    pub fn hollow(&mut self) {
        if let Some(items) = self.items_mut() {
            return items.iter_mut().for_each(Value::hollow);
        }
        *self = Value::nothing();
    }

    /// The empty tuple, which is the same object each time.
    pub fn nothing() -> Value {
        static NOTHING: LazyLock<Value> =
            LazyLock::new(|| Value::nest(Nest::new(NestKind::Tuple, Vec::new())));
        NOTHING.clone()
    }

    /// Applies `map` to each leaf, keeping the structure.
    pub fn map_leaves(&self, map: &mut dyn FnMut(&Value) -> Result<Value>) -> Result<Value> {
        let Value::Nest(nest) = self else {
            return map(self);
        };
        let items = nest.items().iter().map(|item| item.map_leaves(map));
        Ok(Value::nest(nest.with_items(memory::collect(items, ITEMS)?)))
    }

    /// Calls `find` with the leaves in order until it returns something.
    pub fn find_leaf<'a, T>(&'a self, find: &mut dyn FnMut(&'a Value) -> Option<T>) -> Option<T> {
        match self {
            Value::Nest(nest) => nest.items().iter().find_map(|item| item.find_leaf(find)),
            leaf => find(leaf),
        }
    }

    /// Merges one value per replica into one value. Structures are merged leaf by leaf. A leaf that
    /// is the very same object on all replicas stays as it is; other leaves become per-replica
    /// values. `always_wrap` makes every tensor leaf a per-replica value. `argument` is
    /// its name in messages.
    pub fn merge(parts: &[Value], always_wrap: bool, argument: &'static str) -> Result<Value> {
        let first = parts
            .first()
            .ok_or_else(|| invalid!(argument, "no values to merge"))?;
        let Value::Nest(nest) = first else {
            return merge_leaves(first, parts, always_wrap, argument);
        };
        for (replica, part) in parts.iter().enumerate() {
            if part.kind_name() != first.kind_name() || part.count() != first.count() {
                return Err(mismatch(argument, first, replica, part));
            }
        }
        let names = nest.names();
        let merge = |position: usize| {
            let part = |(replica, part): (usize, &Value)| {
                let Some(name) = names.map(|names| &names[position]) else {
                    return part.item(position);
                };
                part.step(name.as_str()).cloned().ok_or_else(|| {
                    let problem = format!(
                        "the structures differ: replica 0 has a field '{name}', replica {replica} \
                         has none"
                    );
                    Error::invalid(argument, problem)
                })
            };
            let column = parts
                .iter()
                .enumerate()
                .map(part)
                .collect::<Result<Vec<_>>>()?;
            Value::merge(&column, always_wrap, argument)
        };
        let merged = (0..first.count()).map(merge).collect::<Result<_>>()?;
        Ok(Value::nest(nest.with_items(merged)))
    }

    /// The value in which tensors and indexed slices are per-replica values of one component.
    pub fn of_replicas(&self) -> Result<Value> {
        self.map_leaves(&mut |leaf| match leaf.is_component() {
            true => Value::per_replica_of(vec![leaf.clone()]),
            false => Ok(leaf.clone()),
        })
    }

    /// Whether both are nests of the same kind over the very same leaves.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Nest(one), Value::Nest(two)) => {
                one.is_like(two)
                    && one
                        .items()
                        .iter()
                        .zip(two.items())
                        .all(|(a, b)| a.is_same(b))
            }
            _ => self.is_same_leaf(other),
        }
    }

    fn is_same_leaf(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Tensor(a), Value::Tensor(b)) => a.is_same(b),
            (Value::PerReplica(a), Value::PerReplica(b)) => Arc::ptr_eq(a, b),
            (Value::Variable(a), Value::Variable(b)) => a.is_same(b),
            (Value::IndexedSlices(a), Value::IndexedSlices(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether the leaves are parts of global batches, as those of a distributed dataset are.
    pub fn batch_contents(&self) -> BatchContents {
        let mut parts = false;
        let mut others = false;
        self.find_leaf(&mut |leaf| {
            let tensor = match leaf {
                Value::Tensor(tensor) => Some(tensor),
                Value::PerReplica(value) => value.dense(0),
                _ => None,
            };
            match tensor.and_then(Tensor::examples) {
                Some(_) => parts = true,
                None => others = true,
            }
            None::<()>
        });
        match (parts, others) {
            (false, _) => BatchContents::None,
            (true, true) => BatchContents::Some,
            (true, false) => BatchContents::All,
        }
    }

    /// If all ranks have read the same global batches, calls `visit` with each batch of which a
    /// leaf is a part.
    pub fn for_each_origin(&self, visit: &mut dyn FnMut(&Origin)) {
        self.find_leaf(&mut |leaf| {
            let tensor = match leaf {
                Value::Tensor(tensor) => tensor,
                Value::PerReplica(value) => value.dense(0)?,
                _ => return None,
            };
            visit(tensor.origin()?);
            None::<()>
        });
    }

    /// The number of examples of a global batch the part of `replica` holds, if the value came from
    /// a distributed dataset or has per-replica leaves. The first leaf that has this number
    /// decides.
    pub fn examples_of(&self, replica: usize) -> Option<u64> {
        let annotated = |leaf: &Value| match leaf {
            Value::Tensor(tensor) => tensor.examples(),
            Value::PerReplica(value) => value.dense(replica)?.examples(),
            _ => None,
        };
        let first_dimension = |leaf: &Value| match leaf {
            Value::PerReplica(value) => value.rows(replica),
            _ => None,
        };
        self.find_leaf(&mut |leaf| annotated(leaf))
            .or_else(|| self.find_leaf(&mut |leaf| first_dimension(leaf)))
    }
}

/// As [`Value::merge`], of leaves, of which `first` is that of replica 0.
fn merge_leaves(
    first: &Value,
    parts: &[Value],
    always_wrap: bool,
    argument: &'static str,
) -> Result<Value> {
    if !always_wrap && parts.iter().all(|part| part.is_same_leaf(first)) {
        return Ok(first.clone());
    }
    let wrong = parts
        .iter()
        .enumerate()
        .find(|(_, part)| !part.is_component());
    match wrong {
        None => Value::per_replica_of(parts.to_vec()),
        Some((replica, part)) if part.kind_name() != first.kind_name() => {
            Err(mismatch(argument, first, replica, part))
        }
        Some((_, part)) => Err(invalid!(
            argument,
            "{} cannot be part of a per-replica value, which has tensors or indexed slices; it \
             must be the very same on all replicas",
            part.kind_name()
        )),
    }
}

/// The error for parts of different structures.
fn mismatch(argument: &'static str, first: &Value, replica: usize, other: &Value) -> Error {
    invalid!(
        argument,
        "the structures differ: {} of {} on replica 0, {} of {} on replica {replica}",
        first.kind_name(),
        first.count(),
        other.kind_name(),
        other.count()
    )
}
