//! A test of the tests: whatever value of an expectation is changed, the case must fail.

use serde_json::{Value as Json, json};

use crate::expect::difference;
use crate::failure::{Result, status_named, wrong};
use crate::run::Report;

/// Changes the expectations of a case that passed, one value at a time, and tells how many changes
/// there were; complains of the first one that is not noticed.
pub fn check(expect: &Json, report: &Report) -> Result<usize> {
    let changed = variants(expect);
    for changed in &changed {
        if let Ok(None) = difference(changed, report) {
            return wrong(format!(
                "an expectation was changed, and it still passes: {changed}"
            ));
        }
    }
    Ok(changed.len())
}

/// The expectations, each with one value changed.
fn variants(json: &Json) -> Vec<Json> {
    let Some(fields) = json.as_object() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, field) in fields {
        // A tolerance says how much a value may change, so it is none of the values.
        let changes = match name.as_str() {
            "tolerance" => Vec::new(),
            "dtype" => vec![json!(if field == "int8" { "int16" } else { "int8" })],
            "data" => elements(field),
            "shape" | "dense_shape" => sizes(field),
            "string" => vec![json!(format!("{}?", field.as_str().unwrap_or_default()))],
            "none" => vec![json!(false)],
            "end" => vec![json!(if field == "end" { "limit" } else { "end" })],
            "errors" => errors(field),
            _ if field.is_array() => items(field),
            _ => variants(field),
        };
        all.extend(changes.into_iter().map(|change| with(json, name, change)));
    }
    all
}

fn with(json: &Json, field: &str, change: Json) -> Json {
    let mut changed = json.clone();
    changed[field] = change;
    changed
}

fn each(list: &Json, change: impl Fn(&Json) -> Vec<Json>) -> Vec<Json> {
    let Some(items) = list.as_array() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        for change in change(item) {
            let mut changed = list.clone();
            changed[index] = change;
            all.push(changed);
        }
    }
    all
}

/// Lists of expectations: one less, one more, and each of them changed.
fn items(list: &Json) -> Vec<Json> {
    let mut all = each(list, variants);
    if let Some(items) = list.as_array() {
        all.push(json!(items.iter().skip(1).collect::<Vec<_>>()));
        all.push(json!(
            items
                .iter()
                .chain([&json!({ "none": true })])
                .collect::<Vec<_>>()
        ));
        if items.is_empty() {
            all.remove(0);
        }
    }
    all
}

fn elements(list: &Json) -> Vec<Json> {
    each(list, |element| match element {
        Json::Bool(value) => vec![json!(!value)],
        Json::String(text) if text == "Infinity" => vec![json!("-Infinity"), json!(1)],
        Json::String(_) => vec![json!("Infinity"), json!(1)],
        number => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) if number.unsigned_abs() > 1 << 53 => {
                vec![json!(number - number.signum())]
            }
            // Away from the value by more than any tolerance.
            (Some(number), _) => vec![json!(if number == 0 { 1 } else { 0 }), json!("NaN")],
            (None, Some(number)) => vec![json!(number + number.abs() + 1.0), json!("NaN")],
            _ => Vec::new(),
        },
    })
}

fn sizes(list: &Json) -> Vec<Json> {
    each(list, |size| {
        vec![json!(size.as_i64().map_or(7, |size| size + 1))]
    })
}

fn errors(list: &Json) -> Vec<Json> {
    each(list, |error| {
        let allowed = crate::language::statuses(error).unwrap_or_default();
        let other = [
            "DATA_LOSS",
            "ABORTED",
            "CANCELLED",
            "NOT_FOUND",
            "UNIMPLEMENTED",
        ];
        let other = other.iter().find(|status| !allowed.contains(status));
        debug_assert!(allowed.iter().all(|status| status_named(status).is_some()));
        vec![
            with(error, "status", json!(other)),
            with(
                error,
                "at",
                json!(error["at"].as_i64().unwrap_or_default() + 1),
            ),
        ]
    })
    .into_iter()
    .chain(
        list.as_array()
            .filter(|errors| !errors.is_empty())
            .map(|errors| json!(errors[1..])),
    )
    .collect()
}
