//! Numbers that callers give.

use std::fmt::Display;
use std::ops::RangeBounds;

use crate::error::{Error, Result};

/// `count` as a number that is in `range`. INVALID_ARGUMENT, which says that it is `what`, if it is not.
pub(super) fn in_range<N: TryFrom<i64>>(
    argument: &'static str,
    count: i64,
    range: impl RangeBounds<i64>,
    what: impl Display,
) -> Result<N> {
    let number = N::try_from(count).ok().filter(|_| range.contains(&count));
    number.ok_or_else(|| Error::invalid(argument, format!("{count}; it is {what}")))
}
