//! Whether a result is what a case expects.

use serde_json::Value as Json;

use crate::failure::{Failure, Result, status_name, wrong};
use crate::fields;
use crate::language::statuses;
use crate::literal::Literal;
use crate::outcome::Outcome;
use crate::run::Report;

/// The first difference between what a case expects and what it gave.
pub fn difference(expect: &Json, report: &Report) -> Result<Option<String>> {
    if let Some(difference) = errors(expect, report)? {
        return Ok(Some(difference));
    }
    let Some(names) = expect.as_object() else {
        return wrong("expect is no object");
    };
    for (name, expected) in names.iter().filter(|(name, _)| *name != "errors") {
        let Some(outcome) = report.results.get(name) else {
            return Ok(Some(format!("no result {name}")));
        };
        if let Some(difference) = differs(outcome, expected, name)? {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// Compares the top-level steps that failed with those that must.
fn errors(expect: &Json, report: &Report) -> Result<Option<String>> {
    let mut expected = Vec::new();
    for error in fields::list(expect, "errors")? {
        expected.push((fields::integer(error, "at")? as usize, statuses(error)?));
    }
    expected.sort_by_key(|(at, _)| *at);
    let expected_at: Vec<usize> = expected.iter().map(|(at, _)| *at).collect();
    let actual_at: Vec<usize> = report.errors.iter().map(|(at, _)| *at).collect();
    if expected_at != actual_at {
        let said: Vec<_> = report
            .errors
            .iter()
            .map(|(at, failure)| format!("{at}: {failure}"))
            .collect();
        return Ok(Some(format!(
            "steps {actual_at:?} failed, expected {expected_at:?}; {}",
            said.join("; ")
        )));
    }
    for ((at, allowed), (_, failure)) in expected.iter().zip(&report.errors) {
        let Failure::Status(status, _) = failure else {
            return Err(failure.clone());
        };
        if !allowed.contains(&status_name(*status).as_str()) {
            return Ok(Some(format!(
                "step {at} failed with {failure}; expected {allowed:?}"
            )));
        }
    }
    Ok(None)
}

/// The first difference between a result and an EXPECTATION.
fn differs(actual: &Outcome, expected: &Json, place: &str) -> Result<Option<String>> {
    let Some(form) = expected.as_object() else {
        return wrong(format!("{place}: {expected}"));
    };
    let has = |field: &str| form.contains_key(field);
    let known = |fields: &[&str]| form.keys().all(|field| fields.contains(&field.as_str()));
    let otherwise = || {
        Ok(Some(format!(
            "{place}: got {actual:?}, expected {expected}"
        )))
    };
    if has("data") && known(&["dtype", "shape", "data", "tolerance"]) {
        let Outcome::Tensor(actual) = actual else {
            return otherwise();
        };
        return tensor(actual, expected, place);
    }
    let one = |field: &str| has(field) && form.len() == 1;
    if one("per_replica") {
        let Outcome::PerReplica(actual) = actual else {
            return otherwise();
        };
        all(actual, fields::list(expected, "per_replica")?, place)
    } else if one("tuple") {
        let Outcome::Tuple(actual) = actual else {
            return otherwise();
        };
        all(actual, fields::list(expected, "tuple")?, place)
    } else if one("list_nest") {
        let Outcome::ListNest(actual) = actual else {
            return otherwise();
        };
        all(actual, fields::list(expected, "list_nest")?, place)
    } else if one("list") {
        let Outcome::List(actual) = actual else {
            return otherwise();
        };
        all(actual, fields::list(expected, "list")?, place)
    } else if has("steps") && known(&["steps", "end"]) {
        let Outcome::Steps(actual, end) = actual else {
            return otherwise();
        };
        match fields::optional_text(expected, "end")? {
            Some(expected) if expected != *end => Ok(Some(format!(
                "{place}: stopped by {end}, expected {expected}"
            ))),
            _ => all(actual, fields::list(expected, "steps")?, place),
        }
    } else if one("struct") {
        let (Outcome::Struct(actual), Some(expected)) = (actual, expected["struct"].as_object())
        else {
            return otherwise();
        };
        if !actual.keys().eq(expected.keys()) {
            let actual: Vec<_> = actual.keys().collect();
            let expected: Vec<_> = expected.keys().collect();
            return Ok(Some(format!(
                "{place}: fields {actual:?}, expected {expected:?}"
            )));
        }
        first(
            actual
                .iter()
                .zip(expected)
                .map(|((name, actual), (_, expected))| {
                    differs(actual, expected, &format!("{place}.{name}"))
                }),
        )
    } else if one("indexed_slices") {
        let expected = &expected["indexed_slices"];
        let Outcome::IndexedSlices {
            values,
            indices,
            dense_shape,
        } = actual
        else {
            return otherwise();
        };
        if expected.get("dense_shape").is_some()
            && fields::integers(expected, "dense_shape")? != *dense_shape
        {
            return Ok(Some(format!(
                "{place}: dense_shape is {dense_shape:?} in {expected}"
            )));
        }
        first(
            [("values", values), ("indices", indices)]
                .iter()
                .map(|(part, actual)| tensor(actual, &expected[part], &format!("{place}.{part}"))),
        )
    } else if one("variable") {
        let Outcome::Variable(actual) = actual else {
            return otherwise();
        };
        tensor(actual, &expected["variable"], place)
    } else if one("spec") {
        match spec(&expected["spec"])? == *actual {
            true => Ok(None),
            false => otherwise(),
        }
    } else if one("string") {
        match *actual == Outcome::Text(fields::text(expected, "string")?.to_owned()) {
            true => Ok(None),
            false => otherwise(),
        }
    } else if one("none") {
        match *actual == Outcome::None && fields::flag(expected, "none", false)? {
            true => Ok(None),
            false => otherwise(),
        }
    } else {
        wrong(format!("{place}: {expected} is no expectation"))
    }
}

fn first(mut differences: impl Iterator<Item = Result<Option<String>>>) -> Result<Option<String>> {
    differences.find_map(Result::transpose).transpose()
}

fn all(actual: &[Outcome], expected: &[Json], place: &str) -> Result<Option<String>> {
    if actual.len() != expected.len() {
        return Ok(Some(format!(
            "{place}: {} items, expected {}",
            actual.len(),
            expected.len()
        )));
    }
    first(
        actual
            .iter()
            .zip(expected)
            .enumerate()
            .map(|(index, (actual, expected))| {
                differs(actual, expected, &format!("{place}[{index}]"))
            }),
    )
}

fn spec(json: &Json) -> Result<Outcome> {
    let name = fields::text(json, "dtype")?;
    let sizes = match &json["shape"] {
        Json::Null => None,
        _ => Some(
            fields::list(json, "shape")?
                .iter()
                .map(Json::as_i64)
                .collect(),
        ),
    };
    Ok(Outcome::Spec(
        crate::literal::Dtype::named(name)?.name,
        sizes,
    ))
}

fn tensor(actual: &Literal, json: &Json, place: &str) -> Result<Option<String>> {
    let expected = Literal::parse(json)?;
    if actual.dtype != expected.dtype || actual.shape != expected.shape {
        return Ok(Some(format!(
            "{place}: {} {:?}, expected {} {:?}",
            actual.dtype.name, actual.shape, expected.dtype.name, expected.shape
        )));
    }
    let tolerance = match json.get("tolerance") {
        None => Some(0.0),
        Some(tolerance) => tolerance.as_f64(),
    };
    let Some(tolerance) = tolerance else {
        return wrong(format!("{place}: tolerance in {json}"));
    };
    let mut pairs = actual.data.iter().zip(&expected.data).enumerate();
    let different = pairs.find(|(_, (actual, expected))| !actual.matches(**expected, tolerance));
    Ok(different.map(|(index, (actual, expected))| {
        format!("{place}: element {index} is {actual:?}, expected {expected:?}")
    }))
}
