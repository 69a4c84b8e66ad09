//! Handles that a callback of a strict strategy makes and leaves.

use super::handle::kind_of;
use super::made_handles::Watch;
use umbo_core::error::Result;
use umbo_core::strategy::Strategy;
use umbo_core::strategy::context::strict_callbacks::mistake;

/// Calls a callback of `strategy`. If that is strict, and the callback has succeeded, it fails if
/// the callback has left tensors or values that it made. `whose` names the callback.
pub(crate) fn leaving_none<R>(
    strategy: &Strategy,
    whose: impl FnOnce() -> String,
    callback: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let watch = strategy.is_strict().then(Watch::begin);
    let result = callback()?;
    if let Some(watch) = watch {
        check(&watch.made(), whose)?;
    }
    Ok(result)
}

fn check(made: &[u64], whose: impl FnOnce() -> String) -> Result<()> {
    let left: Vec<_> = made
        .iter()
        .filter_map(|&handle| kind_of(handle as usize))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let words = [("a tensor", "tensors"), ("a value", "values")].map(|(one, several)| {
        match left.iter().filter(|&&kind| kind == one).count() {
            0 => None,
            1 => Some(one.to_owned()),
            count => Some(format!("{count} {several}")),
        }
    });
    Err(mistake(format!(
        "{} has left {} that it made; release what a callback makes, and of what is kept for \
         longer keep the handle that retaining it gives",
        whose(),
        words
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" and ")
    )))
}
