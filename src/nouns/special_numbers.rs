//! Special values of numbers that are otherwise 0 or more. They differ from each other and from
//! every axis, so that one in the place of another is noticed; which a number can be, its
//! description says.

use std::time::Duration;

use umbo_core::error::Result;
use umbo_core::input::Cardinality;

/// All of them: of the steps, of the elements, of the elements from which a shuffle draws.
pub const UMBO_ALL: i64 = -11;
/// Without end or bound: time-outs, intervals, repetitions, cardinalities, limits of clipping.
pub const UMBO_INFINITE: i64 = -12;
/// The library decides, as the description says.
pub const UMBO_AUTO: i64 = -13;
/// No such thing: no replica, no variable, no checkpoint.
pub const UMBO_NONE: i64 = -14;
/// The size of a dimension in which elements differ.
pub const UMBO_SIZE_UNKNOWN: i64 = -15;
/// A number of elements or steps that is not known before a pass has ended.
pub const UMBO_CARDINALITY_UNKNOWN: i64 = -16;

const NAMES: [(i64, &str); 6] = [
    (UMBO_ALL, "UMBO_ALL"),
    (UMBO_INFINITE, "UMBO_INFINITE"),
    (UMBO_AUTO, "UMBO_AUTO"),
    (UMBO_NONE, "UMBO_NONE"),
    (UMBO_SIZE_UNKNOWN, "UMBO_SIZE_UNKNOWN"),
    (UMBO_CARDINALITY_UNKNOWN, "UMBO_CARDINALITY_UNKNOWN"),
];

/// A number as messages say it: a special one with its name.
pub(crate) fn described(number: impl Into<i64>) -> String {
    let number = number.into();
    match NAMES.iter().find(|(special, _)| *special == number) {
        Some((_, name)) => format!("{name} ({number})"),
        None => number.to_string(),
    }
}

/// The number; `None` if it is the special one. Another special number is refused.
pub(crate) fn unless(number: f64, special: i64, argument: &'static str) -> Result<Option<f64>> {
    let mut others = NAMES.iter().map(|(other, _)| *other);
    if number == special as f64 {
        return Ok(None);
    }
    match others.find(|other| *other as f64 == number) {
        None => Ok(Some(number)),
        Some(other) => Err(invalid!(
            argument,
            "{}; the special number that is valid is {}",
            described(other),
            described(special)
        )),
    }
}

/// The number, which is at least `least`; `None` if it is the special one.
pub(crate) fn least_unless(
    number: i64,
    least: i64,
    special: i64,
    argument: &'static str,
) -> Result<Option<i64>> {
    match number {
        _ if number == special => Ok(None),
        _ if number >= least => Ok(Some(number)),
        _ => Err(invalid!(
            argument,
            "{}; must be {least} or more, or {}",
            described(number),
            described(special)
        )),
    }
}

/// A duration in seconds; `None` for one without end, and for one that is too long to be counted.
pub(crate) fn duration(
    seconds: f64,
    argument: &'static str,
    may_be_zero: bool,
) -> Result<Option<Duration>> {
    let Some(seconds) = unless(seconds, UMBO_INFINITE, argument)? else {
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
            "{seconds}; give seconds, {least}, or {}",
            described(UMBO_INFINITE)
        ));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// The number of elements or steps of a pass.
pub(crate) fn cardinality_for_c(cardinality: Cardinality) -> i64 {
    match cardinality {
        // No source is larger. Products that exceed the range are unknown.
        Cardinality::Exact(count) => i64::try_from(count).unwrap_or(UMBO_CARDINALITY_UNKNOWN),
        Cardinality::Endless | Cardinality::EndlessUnlessEmpty => UMBO_INFINITE,
        Cardinality::Unknown => UMBO_CARDINALITY_UNKNOWN,
    }
}
