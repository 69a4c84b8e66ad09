//! Cross-replica operations.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use super::Given;
use super::body::{Call, arguments, on_update, on_value, on_values, pointer};
use super::strategies::strategy_of;
use super::variables::variable_of;
use crate::environment::{Bound, Environment};
use crate::failure::{Result, wrong};
use crate::fields;
use crate::handle::{Handle, Value, c_text, made, maybe_made};
use crate::outcome::Outcome;
use crate::placement;
use crate::{operand, values};

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    Some(match op {
        "run" => run(step, environment),
        "reduce" => reduce(step, environment),
        "gather" => gather(step, environment),
        "local_results" => local_results(step, environment),
        "reduce_to" => reduce_to(step, environment),
        "batch_reduce_to" => batch_reduce_to(step, environment),
        "broadcast_to" => broadcast_to(step, environment),
        "update" => update(step, environment),
        "values_from_function" => values_from_function(step, environment),
        _ => return None,
    })
}

/// The reduction that a step names.
pub fn reduce_op(step: &Json) -> Result<umbo_reduce_op> {
    match fields::text(step, "reduce_op")? {
        "SUM" => Ok(UMBO_REDUCE_SUM),
        "MEAN" => Ok(UMBO_REDUCE_MEAN),
        "MIN" => Ok(UMBO_REDUCE_MIN),
        "MAX" => Ok(UMBO_REDUCE_MAX),
        other => wrong(format!("unknown reduce_op {other}")),
    }
}

fn operand(step: &Json, environment: &Environment<'_>) -> Result<Value> {
    operand::evaluate(&step["value"], environment, fields::strategy(step)?)
}

/// A value, or nothing.
pub fn given(value: Option<Handle<umbo_value>>) -> Given {
    Ok(Some(match value {
        Some(value) => Bound::Value(Arc::new(value)),
        None => Bound::Known(Outcome::None),
    }))
}

/// The items of a tuple as a host list.
fn list(tuple: &Handle<umbo_value>) -> Given {
    let items = values::items(tuple)?;
    Ok(Some(Bound::List(
        items
            .into_iter()
            .map(|item| Bound::Value(Arc::new(item)))
            .collect(),
    )))
}

fn run(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let args = arguments(step, environment, fields::strategy(step)?)?;
    let call = Call {
        body: &step["body"],
        outer: environment,
    };
    // SAFETY: the callback and its user data belong together and outlive the call.
    given(maybe_made(|result| unsafe {
        let args = pointer(args.as_ref());
        let user_data = call.user_data();
        umbo_strategy_run(
            strategy.get(),
            Some(on_values),
            args,
            user_data,
            ptr::null(),
            result,
        )
    })?)
}

fn reduce(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let value = operand(step, environment)?;
    let axes: Vec<i32> = match &step["axis"] {
        Json::Null => Vec::new(),
        Json::Array(_) => fields::integers(step, "axis")?
            .into_iter()
            .map(|axis| axis as i32)
            .collect(),
        _ => vec![fields::small_integer(step, "axis")?],
    };
    let mut options: umbo_reduce_options = Default::default();
    // Without axes there is no list of them.
    if !axes.is_empty() {
        options.axes = axes.as_ptr();
        options.axis_count = axes.len() as i64;
    }
    let op = reduce_op(step)?;
    // SAFETY: the options point to as many axes as stated, the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_strategy_reduce(strategy.get(), value.get(), op, &raw const options, result)
    })?))
}

fn gather(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let value = operand(step, environment)?;
    let axis = fields::small_integer(step, "axis")?;
    // SAFETY: the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_strategy_gather(strategy.get(), value.get(), axis, ptr::null(), result)
    })?))
}

fn local_results(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let value = operand(step, environment)?;
    // SAFETY: the output is a variable.
    list(&made(|results| unsafe {
        umbo_strategy_local_results(strategy.get(), value.get(), results)
    })?)
}

/// A destination, and what its pointers lead to.
struct Destination {
    destination: umbo_destination,
    _device: Option<CString>,
    _like: Option<Value>,
    _variable: Option<Handle<umbo_variable>>,
}

fn destination(json: &Json, environment: &Environment<'_>) -> Result<Destination> {
    let mut destination: umbo_destination = Default::default();
    let mut device = None;
    let mut like = None;
    let mut variable = None;
    if let Some(name) = fields::optional_text(json, "device")? {
        destination.device = device.insert(c_text(&placement::of_device(name))?).as_ptr();
    } else {
        let value = environment.value(fields::text(json, "like")?)?;
        if values::kind(&value)? == UMBO_VALUE_VARIABLE {
            destination.variable = variable.insert(values::variable(&value)?).get();
        } else {
            destination.like = like.insert(value).get();
        }
    }
    Ok(Destination {
        destination,
        _device: device,
        _like: like,
        _variable: variable,
    })
}

fn reduce_to(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let op = reduce_op(step)?;
    let value = operand(step, environment)?;
    let to = destination(&step["destination"], environment)?;
    let to = &raw const to.destination;
    // SAFETY: the destination points to what outlives the call, the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_strategy_reduce_to(strategy.get(), value.get(), op, to, result)
    })?))
}

fn batch_reduce_to(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let op = reduce_op(step)?;
    let mut kept = Vec::new();
    let mut values = Vec::new();
    for pair in fields::list(step, "pairs")? {
        let value = operand::evaluate(&pair["value"], environment, fields::strategy(step)?)?;
        let to = destination(&pair["destination"], environment)?;
        values.push(value.get());
        kept.push((value, to));
    }
    let destinations: Vec<_> = kept
        .iter()
        .map(|(_, to)| &raw const to.destination)
        .collect();
    // SAFETY: both arrays are as long as stated, what they point to is kept, and the output is a
    // variable.
    let results = made(|results| unsafe {
        umbo_strategy_batch_reduce_to(
            strategy.get(),
            values.len() as i64,
            values.as_ptr(),
            op,
            destinations.as_ptr(),
            results,
        )
    })?;
    drop(kept);
    list(&results)
}

fn broadcast_to(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let value = operand(step, environment)?;
    let to = destination(&step["destination"], environment)?;
    let to = &raw const to.destination;
    // SAFETY: the destination points to what outlives the call, the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_strategy_broadcast_to(strategy.get(), value.get(), to, result)
    })?))
}

fn update(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let variable = variable_of(step, environment)?;
    let args = arguments(step, environment, fields::strategy(step)?)?;
    let call = Call {
        body: &step["body"],
        outer: environment,
    };
    // SAFETY: the callback and its user data belong together and outlive the call.
    let result = maybe_made(|result| unsafe {
        umbo_strategy_update(
            strategy.get(),
            variable.get(),
            Some(on_update),
            pointer(args.as_ref()),
            call.user_data(),
            result,
        )
    })?;
    // Ungrouped, each leaf is a tuple of the results of all copies of the variable: of one.
    given(match (result, fields::flag(step, "group", true)?) {
        (Some(nest), false) => {
            let alone = |leaf: &Handle<_>| values::tuple(&[Arc::new(values::clone(leaf)?)]);
            Some(values::map_leaves(&nest, &alone)?)
        }
        (result, _) => result,
    })
}

fn values_from_function(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let call = Call {
        body: &step["body"],
        outer: environment,
    };
    // SAFETY: the callback and its user data belong together and outlive the call.
    given(maybe_made(|result| unsafe {
        let user_data = call.user_data();
        umbo_strategy_values_from_function(strategy.get(), Some(on_value), user_data, result)
    })?)
}
