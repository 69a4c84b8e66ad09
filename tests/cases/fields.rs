//! Fields of steps, read with a complaint when they are not what they should be.

use serde_json::Value as Json;

use crate::failure::{Result, wrong};

fn expected<T>(step: &Json, field: &str, kind: &str, found: Option<T>) -> Result<T> {
    found.map_or_else(|| wrong(format!("{field} should be {kind} in {step}")), Ok)
}

/// A text.
pub fn text<'a>(step: &'a Json, field: &str) -> Result<&'a str> {
    expected(step, field, "a text", step[field].as_str())
}

/// A text that may be absent or null.
pub fn optional_text<'a>(step: &'a Json, field: &str) -> Result<Option<&'a str>> {
    match step.get(field) {
        None | Some(Json::Null) => Ok(None),
        Some(_) => text(step, field).map(Some),
    }
}

/// An integer.
pub fn integer(step: &Json, field: &str) -> Result<i64> {
    expected(step, field, "an integer", step[field].as_i64())
}

/// An integer of 32 bits.
pub fn small_integer(step: &Json, field: &str) -> Result<i32> {
    let number = integer(step, field)?;
    expected(
        step,
        field,
        "an integer of 32 bits",
        i32::try_from(number).ok(),
    )
}

/// An integer that may be absent.
pub fn optional_integer(step: &Json, field: &str) -> Result<Option<i64>> {
    step.get(field).map(|_| integer(step, field)).transpose()
}

/// true or false; absent means `default`.
pub fn flag(step: &Json, field: &str, default: bool) -> Result<bool> {
    match step.get(field) {
        None => Ok(default),
        Some(flag) => expected(step, field, "true or false", flag.as_bool()),
    }
}

/// A list; absent means empty.
pub fn list<'a>(step: &'a Json, field: &str) -> Result<&'a [Json]> {
    match step.get(field) {
        None => Ok(&[]),
        Some(list) => expected(step, field, "a list", list.as_array().map(Vec::as_slice)),
    }
}

/// A list of integers.
pub fn integers(step: &Json, field: &str) -> Result<Vec<i64>> {
    let numbers = list(step, field)?.iter().map(Json::as_i64).collect();
    expected(step, field, "a list of integers", numbers)
}

/// The name of the strategy that a step is about.
pub fn strategy(step: &Json) -> Result<&str> {
    optional_text(step, "strategy").map(|name| name.unwrap_or("s"))
}
