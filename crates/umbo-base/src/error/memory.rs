//! Lists whose length depends on the caller.
//!
//! Memory whose size the caller decides is allocated by functions that can fail. If one fails, the
//! call returns RESOURCE_EXHAUSTED. Tensors do so themselves (`tensor::storage`). Lists are
//! allocated by these functions, or by `Vec::try_reserve`. All other allocations are small, and the
//! process ends if the system refuses one.

use std::fmt;

use crate::error::{Error, Result, Shortage};

/// The error if there is no memory for `count` items, which `name` names.
#[cold]
pub fn exhausted(count: usize, name: impl fmt::Display) -> Error {
    let items = name.to_string();
    Error::ResourceExhausted(Shortage::Items { count, items })
}

/// Reserves memory for `more` elements in a list, so that adding them cannot fail. If there is no
/// memory, returns RESOURCE_EXHAUSTED and leaves the list unchanged.
pub fn reserve<T>(list: &mut Vec<T>, more: usize, name: impl fmt::Display) -> Result<()> {
    list.try_reserve(more).map_err(|_| exhausted(more, name))
}

/// An empty list with capacity for `count` elements. RESOURCE_EXHAUSTED if there is no memory.
pub fn list<T>(count: usize, name: impl fmt::Display) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count)
        .map_err(|_| exhausted(count, name))?;
    Ok(list)
}

/// A list of `count` times this value. RESOURCE_EXHAUSTED if there is no memory.
pub fn filled<T: Clone>(count: usize, value: T, name: impl fmt::Display) -> Result<Vec<T>> {
    let mut all = list(count, name)?;
    all.resize(count, value);
    Ok(all)
}

/// A list of the items of an iterator, whose number is known. RESOURCE_EXHAUSTED if there is no
/// memory. If not, the error is that of the first item that failed.
pub fn collect<T>(
    items: impl ExactSizeIterator<Item = Result<T>>,
    name: impl fmt::Display,
) -> Result<Vec<T>> {
    let mut all = list(items.len(), name)?;
    for item in items {
        all.push(item?);
    }
    Ok(all)
}
