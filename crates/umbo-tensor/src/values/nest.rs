//! Nests: tuples, lists and structs of items.

use std::sync::Arc;

use super::limits::NestSize;
use umbo_base::error::{Error, Result};
use umbo_base::text::Text;

/// How a nest is arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestKind {
    /// Items in order.
    Tuple,
    /// Items in order. A list and a tuple of the same items are different kinds of nests.
    List,
    /// Fields in order, with these names.
    Struct(Arc<[Text]>),
}

/// A nest of values, or the same nest of something that is known of each value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest<T> {
    kind: NestKind,
    items: Vec<T>,
}

impl<T> Nest<T> {
    /// A nest of these items. A struct has as many names as items.
    pub fn new(kind: NestKind, items: Vec<T>) -> Nest<T> {
        Nest { kind, items }
    }

    /// A struct of these fields. Fails with INVALID_ARGUMENT if a name appears twice.
    pub fn of_fields(fields: Vec<(Text, T)>) -> Result<Nest<T>> {
        let (names, items): (Vec<Text>, Vec<T>) = fields.into_iter().unzip();
        for (position, name) in names.iter().enumerate() {
            if names[..position].contains(name) {
                let problem = format!("'{name}' appears twice; give each field a name of its own");
                return Err(Error::invalid("names", problem));
            }
        }
        Ok(Nest {
            kind: NestKind::Struct(names.into()),
            items,
        })
    }

    /// A nest of the same kind and names with these items, which are as many.
    pub fn with_items<U>(&self, items: Vec<U>) -> Nest<U> {
        Nest {
            kind: self.kind.clone(),
            items,
        }
    }

    /// How it is arranged.
    pub fn kind(&self) -> &NestKind {
        &self.kind
    }

    /// The kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            NestKind::Tuple => "a tuple",
            NestKind::List => "a list",
            NestKind::Struct(_) => "a struct",
        }
    }

    /// The items, or the fields of a struct.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// The names of the fields, if it is a struct.
    pub fn names(&self) -> Option<&[Text]> {
        match &self.kind {
            NestKind::Struct(names) => Some(names),
            NestKind::Tuple | NestKind::List => None,
        }
    }

    /// Whether both are of the same kind, with the same number of items and the same names.
    pub fn is_like<U>(&self, other: &Nest<U>) -> bool {
        self.kind == other.kind && self.items.len() == other.items.len()
    }

    /// The field with this name, or the item with this number. A number has only one accepted
    /// spelling.
    pub(super) fn step(&self, step: &str) -> Option<&T> {
        if let Some(names) = self.names() {
            return self.items.get(names.iter().position(|name| name == step)?);
        }
        let is_single_buffered = step.bytes().all(|digit| digit.is_ascii_digit())
            && (step == "0" || !step.starts_with('0'));
        step.parse()
            .ok()
            .filter(|_| is_single_buffered)
            .and_then(|index: usize| self.items.get(index))
    }

    /// Its size, if `item_size` gives those of its items.
    pub fn size(&self, item_size: impl Fn(&T) -> NestSize) -> NestSize {
        NestSize::around(self.items.iter().map(item_size))
    }
}
