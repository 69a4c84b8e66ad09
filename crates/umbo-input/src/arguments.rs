//! Checks of numbers that callers pass.

use std::fmt::Display;
use std::ops::RangeBounds;

use umbo_base::error::Result;

/// Converts `count` to a number in `range`. Returns INVALID_ARGUMENT, with `expected` in the
/// message, if it is outside.
pub(crate) fn in_range<N: TryFrom<i64>>(
    argument: &'static str,
    count: i64,
    range: impl RangeBounds<i64>,
    expected: impl Display,
) -> Result<N> {
    let number = N::try_from(count).ok().filter(|_| range.contains(&count));
    number.ok_or_else(|| invalid!(argument, "{count}; it is {expected}"))
}
