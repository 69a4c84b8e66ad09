//! Values and arithmetic. The interpreter computes itself: the library has no such operations.

use std::ffi::CStr;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use super::Given;
use crate::environment::{Bound, Environment};
use crate::failure::{Result, fail, wrong};
use crate::fields;
use crate::handle::{Value, c_text, made};
use crate::literal::{Dtype, Element, Literal};
use crate::outcome::Outcome;
use crate::placement;
use crate::{operand, values};

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    Some(match op {
        "let" => match fields::text(step, "value") {
            // A name keeps what it is bound to, whatever that is.
            Ok(name) => environment.look(name).map(Some),
            Err(_) => value(step, environment).map(|value| Some(Bound::Value(value))),
        },
        "component" => component(step, environment),
        "item" => item(step, environment),
        "copy_to" => copy_to(step, environment),
        "device_of" => device_of(step, environment),
        "same" => same(step, environment),
        "add" | "sub" | "mul" | "div" => combine(op, step, environment),
        "cast" => cast(step, environment),
        "sum" | "mean" | "size" => over_all(op, step, environment),
        _ => return None,
    })
}

fn value(step: &Json, environment: &Environment<'_>) -> Result<Value> {
    operand::evaluate(&step["value"], environment, "s")
}

fn given(literal: &Literal) -> Given {
    Ok(Some(Bound::Value(Arc::new(values::make(literal)?))))
}

fn component(step: &Json, environment: &Environment<'_>) -> Given {
    let replica = fields::small_integer(step, "replica")?;
    let nest = values::map_leaves(
        &*value(step, environment)?,
        &|leaf| match values::kind(leaf)? {
            UMBO_VALUE_PER_REPLICA => values::item(leaf, replica.into()),
            _ => values::clone(leaf),
        },
    )?;
    Ok(Some(Bound::Value(Arc::new(nest))))
}

fn item(step: &Json, environment: &Environment<'_>) -> Given {
    let list = match step["value"].as_str() {
        Some(name) => match environment.look(name)? {
            Bound::List(items) => Some(items),
            _ => None,
        },
        None => None,
    };
    if let Some(items) = list {
        let index = fields::integer(step, "key")?;
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| items.get(index).cloned());
        return match found {
            Some(bound) => Ok(Some(bound)),
            None => fail(UMBO_STATUS_OUT_OF_RANGE, "the list has no such item"),
        };
    }
    let value = value(step, environment)?;
    let item = match step["key"].as_str() {
        Some(name) => {
            let name = c_text(name)?;
            // SAFETY: the name is a text, the output is a variable.
            made(|field| unsafe { umbo_value_field(value.get(), name.as_ptr(), field) })?
        }
        None => values::item(&value, fields::integer(step, "key")?)?,
    };
    Ok(Some(Bound::Value(Arc::new(item))))
}

fn copy_to(step: &Json, environment: &Environment<'_>) -> Given {
    let tensor = values::tensor(&*value(step, environment)?)?;
    let device = c_text(&placement::of_device(fields::text(step, "device")?))?;
    // SAFETY: the device is a text, the output is a variable.
    let copy = made(|copy| unsafe { umbo_tensor_copy(tensor.get(), device.as_ptr(), copy) })?;
    Ok(Some(Bound::Value(Arc::new(values::from_tensor(&copy)?))))
}

fn device_of(step: &Json, environment: &Environment<'_>) -> Given {
    let value = value(step, environment)?;
    let of_tensor = |value: &_| -> Result<Bound> {
        let tensor = values::tensor(value)?;
        let name = values::device_name(&tensor)?;
        Ok(Bound::Known(Outcome::Text(placement::as_said(&name))))
    };
    match values::kind(&value)? {
        UMBO_VALUE_PER_REPLICA => {
            let components = values::items(&value)?;
            let devices = components
                .iter()
                .map(of_tensor)
                .collect::<Result<Vec<_>>>()?;
            Ok(Some(Bound::List(devices)))
        }
        UMBO_VALUE_VARIABLE => {
            let variable = values::variable(&value)?;
            // SAFETY: the name lives as long as the process.
            let name = unsafe { CStr::from_ptr(values::variable_info(&variable)?.device) };
            let name = name.to_string_lossy();
            Ok(Some(Bound::Known(Outcome::Text(placement::as_said(&name)))))
        }
        _ => of_tensor(&value).map(Some),
    }
}

fn same(step: &Json, environment: &Environment<'_>) -> Given {
    let outcome = |field| Outcome::of(&environment.look(fields::text(step, field)?)?);
    let same = outcome("a")? == outcome("b")?;
    values::fact(Literal::scalar("bool", Element::Bool(same))).map(Some)
}

/// Reads an operand of an arithmetic step: a plain tensor.
fn plain(json: &Json, environment: &Environment<'_>) -> Result<Literal> {
    let value = operand::evaluate(json, environment, "s")?;
    match values::kind(&value)? {
        UMBO_VALUE_VARIABLE => values::read_tensor(&values::variable_now(&value)?),
        UMBO_VALUE_TENSOR => values::literal(&value),
        _ => fail(
            UMBO_STATUS_INVALID_ARGUMENT,
            "arithmetic takes plain tensors",
        ),
    }
}

/// Whether steps compute with elements of this type.
fn computable(dtype: Dtype) -> Result<()> {
    match dtype.code {
        UMBO_DTYPE_FLOAT32 | UMBO_DTYPE_FLOAT64 | UMBO_DTYPE_INT32 | UMBO_DTYPE_INT64 => Ok(()),
        _ => wrong(format!("steps do not compute with {}", dtype.name)),
    }
}

fn combine(op: &str, step: &Json, environment: &Environment<'_>) -> Given {
    let a = plain(&step["a"], environment)?;
    let b = plain(&step["b"], environment)?;
    computable(a.dtype)?;
    if a.dtype != b.dtype {
        return fail(UMBO_STATUS_INVALID_ARGUMENT, "the operands differ in dtype");
    }
    let shape = match (a.shape.is_empty(), b.shape.is_empty()) {
        _ if a.shape == b.shape => a.shape.clone(),
        (_, true) => a.shape.clone(),
        (true, _) => b.shape.clone(),
        _ => return fail(UMBO_STATUS_INVALID_ARGUMENT, "the operands differ in shape"),
    };
    let count = shape.iter().product::<i64>() as usize;
    let at = |operand: &Literal, index: usize| match operand.shape.is_empty() {
        true => operand.data[0],
        false => operand.data[index],
    };
    let dtype = a.dtype;
    let data = (0..count).map(|index| match (at(&a, index), at(&b, index)) {
        (Element::Float(a), Element::Float(b)) => {
            // Rounding the double result of two floats gives the float result.
            let exact = match op {
                "add" => a + b,
                "sub" => a - b,
                "mul" => a * b,
                _ => a / b,
            };
            Ok(Element::Float(dtype.round(exact)))
        }
        (Element::Integer(a), Element::Integer(b)) => match op {
            "add" => Ok(Element::Integer(dtype.wrap(a + b))),
            "sub" => Ok(Element::Integer(dtype.wrap(a - b))),
            "mul" => Ok(Element::Integer(dtype.wrap(a * b))),
            _ => wrong("div is for floats"),
        },
        _ => wrong("arithmetic on bool"),
    });
    given(&Literal {
        dtype,
        shape,
        data: data.collect::<Result<_>>()?,
    })
}

fn cast(step: &Json, environment: &Environment<'_>) -> Given {
    let from = plain(&step["value"], environment)?;
    let dtype = Dtype::named(fields::text(step, "dtype")?)?;
    computable(from.dtype)?;
    computable(dtype)?;
    let convert = |element: &Element| match (*element, dtype.is_float()) {
        (Element::Float(value), true) => Element::Float(dtype.round(value)),
        (Element::Float(value), false) => Element::Integer(dtype.wrap(value as i128)),
        // From 64-bit integers straight to the float type: one rounding.
        (Element::Integer(value), true) => Element::Float(match dtype.code {
            UMBO_DTYPE_FLOAT32 => f64::from(value as f32),
            _ => value as f64,
        }),
        (Element::Integer(value), false) => Element::Integer(dtype.wrap(value)),
        (other, _) => other,
    };
    given(&Literal {
        dtype,
        shape: from.shape,
        data: from.data.iter().map(convert).collect(),
    })
}

fn over_all(op: &str, step: &Json, environment: &Environment<'_>) -> Given {
    let from = plain(&step["value"], environment)?;
    let dtype = from.dtype;
    if op == "size" {
        return given(&Literal::scalar(
            "int32",
            Element::Integer(from.data.len() as i128),
        )?);
    }
    let floats = from.data.iter().filter_map(|element| match element {
        Element::Float(value) => Some(*value),
        _ => None,
    });
    let integers = from.data.iter().filter_map(|element| match element {
        Element::Integer(value) => Some(*value),
        _ => None,
    });
    let element = match (dtype.is_float(), op) {
        (true, "sum") => Element::Float(dtype.round(floats.sum::<f64>() + 0.0)),
        (true, _) => Element::Float(dtype.round(floats.sum::<f64>() / from.data.len() as f64)),
        (false, "sum") => Element::Integer(dtype.wrap(integers.sum())),
        (false, _) => return wrong("mean is for floats"),
    };
    given(&Literal {
        dtype,
        shape: Vec::new(),
        data: vec![element],
    })
}
