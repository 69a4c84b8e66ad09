//! Special values of numbers that are otherwise 0 or more. Each is -1; what a number can be, its
//! description says.

use std::time::Duration;

use umbo_core::error::Result;

/// All that there are: steps, elements, the elements that are shuffled together.
pub const UMBO_ALL: i64 = -1;
/// Without end or bound: time-outs, intervals, repetitions, cardinalities, limits of clipping.
pub const UMBO_INFINITE: i64 = -1;
/// The library decides, as the description says.
pub const UMBO_AUTO: i64 = -1;
/// No such thing: no replica, no variable, no checkpoint.
pub const UMBO_NONE: i64 = -1;

/// The number, unless it is the special one.
pub(crate) fn unless(number: f64, special: i64) -> Option<f64> {
    (number != special as f64).then_some(number)
}

/// The number, which is at least `least`; `None` if it is the special one of this name, -1.
pub(crate) fn least_unless(
    number: i64,
    least: i64,
    special: &str,
    argument: &'static str,
) -> Result<Option<i64>> {
    match number {
        -1 => Ok(None),
        _ if number >= least => Ok(Some(number)),
        _ => Err(invalid!(
            argument,
            "{number}; must be {least} or more, or {special} (-1)"
        )),
    }
}

/// A duration in seconds; `None` for one without end, and for one that is too long to be counted.
pub(crate) fn duration(
    seconds: f64,
    argument: &'static str,
    may_be_zero: bool,
) -> Result<Option<Duration>> {
    let Some(seconds) = unless(seconds, UMBO_INFINITE) else {
        return Ok(None);
    };
    if !seconds.is_finite() || seconds < 0.0 || seconds == 0.0 && !may_be_zero {
        let least = if may_be_zero {
            "0 or more"
        } else {
            "more than 0"
        };
        return Err(invalid!(
            argument,
            "{seconds}; give seconds, {least}, or UMBO_INFINITE (-1)"
        ));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok())
}
