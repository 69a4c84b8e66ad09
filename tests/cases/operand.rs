//! Operands: names and literals of the case language, made into values of the library.

use std::ffi::CString;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use crate::environment::Environment;
use crate::failure::{Result, wrong};
use crate::handle::{Handle, Value, c_text, made};
use crate::literal::Literal;
use crate::{steps, values};

/// Evaluates an operand: a name keeps its handle, a literal makes new ones. Component k of a
/// per-replica literal is made on compute device k of `strategy`, if there is one.
pub fn evaluate(json: &Json, environment: &Environment<'_>, strategy: &str) -> Result<Value> {
    if let Some(name) = json.as_str() {
        return environment.value(name);
    }
    let Some(fields) = json.as_object() else {
        return wrong(format!("not an operand: {json}"));
    };
    if fields.contains_key("dtype") {
        return values::make(&Literal::parse(json)?).map(Arc::new);
    }
    let mut entries = fields.iter();
    let (Some((form, content)), None) = (entries.next(), entries.next()) else {
        return wrong(format!("not an operand: {json}"));
    };
    let list = || {
        content
            .as_array()
            .map_or_else(|| wrong(format!("not a list: {json}")), Ok)
    };
    let value = match form.as_str() {
        "tuple" => {
            let items = list()?
                .iter()
                .map(|item| evaluate(item, environment, strategy));
            values::tuple(&items.collect::<Result<Vec<_>>>()?)?
        }
        "list_nest" => {
            let items = list()?
                .iter()
                .map(|item| evaluate(item, environment, strategy));
            values::list(&items.collect::<Result<Vec<_>>>()?)?
        }
        "struct" => {
            let Some(fields) = content.as_object() else {
                return wrong(format!("{json}"));
            };
            let fields = fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), evaluate(field, environment, strategy)?)));
            values::structure(&fields.collect::<Result<Vec<_>>>()?)?
        }
        "per_replica" => {
            let strategy = environment.strategy(strategy)?;
            let components = list()?.iter().enumerate().map(|(replica, component)| {
                component_operand(component, environment, &strategy, replica as i32)
            });
            values::per_replica(&components.collect::<Result<Vec<_>>>()?)?
        }
        "indexed_slices" => indexed_slices(content, environment, None)?,
        _ => return wrong(format!("not an operand: {json}")),
    };
    Ok(Arc::new(value))
}

fn component_operand(
    json: &Json,
    environment: &Environment<'_>,
    strategy: &Handle<umbo_strategy>,
    replica: i32,
) -> Result<Value> {
    if let Some(name) = json.as_str() {
        return environment.value(name);
    }
    // A literal may have more components than the strategy has replicas.
    let device = match replica < steps::strategies::replicas(strategy)? {
        true => Some(c_text(&values::compute_device(strategy, replica)?)?),
        false => None,
    };
    let value = match json.get("indexed_slices") {
        Some(slices) => indexed_slices(slices, environment, device.as_ref())?,
        None => values::make_on(&Literal::parse(json)?, device.as_ref())?,
    };
    Ok(Arc::new(value))
}

fn indexed_slices(
    json: &Json,
    environment: &Environment<'_>,
    device: Option<&CString>,
) -> Result<Handle<umbo_value>> {
    let part = |field: &str| -> Result<Handle<umbo_tensor>> {
        match &json[field] {
            Json::String(name) => values::tensor(&*environment.value(name)?),
            literal => match device {
                Some(_) => values::tensor(&values::make_on(&Literal::parse(literal)?, device)?),
                None => values::tensor(&values::make(&Literal::parse(literal)?)?),
            },
        }
    };
    let shape = json["dense_shape"]
        .as_array()
        .map(|shape| shape.iter().filter_map(Json::as_i64).collect::<Vec<_>>());
    let Some(shape) = shape else {
        return wrong(format!("no dense_shape: {json}"));
    };
    let values = part("values")?;
    let indices = part("indices")?;
    // SAFETY: the shape is as long as stated, the output is a variable.
    made(|value| unsafe {
        let ndim = shape.len() as i32;
        let shape = shape.as_ptr();
        umbo_value_create_indexed_slices(values.get(), indices.get(), ndim, shape, value)
    })
}
