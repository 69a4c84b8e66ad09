//! Lists whose length the caller decides.
//!
//! What has a size that the caller decides is asked for by functions that can fail, and the failure is
//! RESOURCE_EXHAUSTED of the call that wanted it. Tensors do so themselves (`tensor::storage`); lists do it
//! here, or by `Vec::try_reserve`. Everything else is small, and the process ends if the system refuses it.

use crate::error::{Error, Result};

/// What it means that there is no memory for `count` of `what`.
#[cold]
pub fn exhausted(count: usize, what: &str) -> Error {
    Error::ResourceExhausted(format!("memory for {count} {what}"))
}

/// Makes room for `more` elements in a list, so that adding them cannot fail. RESOURCE_EXHAUSTED if
/// there is no memory; the list is as it was.
pub fn reserve<T>(list: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    list.try_reserve(more).map_err(|_| exhausted(more, what))
}

/// An empty list with room for `count` elements. RESOURCE_EXHAUSTED if there is no memory.
pub fn list<T>(count: usize, what: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| exhausted(count, what))?;
    Ok(list)
}

/// A list of what an iterator yields, which says how much that is. RESOURCE_EXHAUSTED if there is no
/// memory; else the first failure among the items.
pub fn collect<T>(items: impl ExactSizeIterator<Item = Result<T>>, what: &str) -> Result<Vec<T>> {
    let mut all = list(items.len(), what)?;
    for item in items {
        all.push(item?);
    }
    Ok(all)
}
