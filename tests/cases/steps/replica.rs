//! What only a replica can do.

use serde_json::Value as Json;
use umbo::*;

use super::body::{Call, arguments, on_values, pointer};
use super::cross_replica::{given, reduce_op};
use super::strategies::own_replica_context;
use super::{Given, block};
use crate::environment::Environment;
use crate::failure::{BY_ITSELF, Result, fail, status_named, wrong};
use crate::fields;
use crate::handle::{made, maybe_made};
use crate::literal::{Element, Literal};
use crate::{operand, values};

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    Some(match op {
        "replica_id" => replica_id(environment).and_then(|id| {
            values::fact(Literal::scalar("int32", Element::Integer(id.into()))).map(Some)
        }),
        "on_replicas" => on_replicas(step, environment),
        "all_reduce" => all_reduce(step, environment),
        "all_gather" => all_gather(step, environment),
        "merge_call" => merge_call(step, environment),
        "fail" => failing(step),
        _ => return None,
    })
}

/// Which replica this is: of a run, or the one whose value is made.
fn replica_id(environment: &Environment<'_>) -> Result<i32> {
    if let Some((replica, _)) = environment.value_context {
        return Ok(replica);
    }
    let context = own_replica_context()?;
    Ok(values::context_info(context)?.replica_id)
}

fn on_replicas(step: &Json, environment: &Environment<'_>) -> Given {
    let replica = i64::from(replica_id(environment)?);
    if fields::integers(step, "replicas")?.contains(&replica) {
        block(fields::list(step, "steps")?, environment)?;
    }
    Ok(None)
}

fn all_reduce(step: &Json, environment: &Environment<'_>) -> Given {
    let context = own_replica_context()?;
    let op = reduce_op(step)?;
    let value = operand::evaluate(&step["value"], environment, "s")?;
    // SAFETY: the context is this thread's, the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_replica_context_all_reduce(context, value.get(), op, result)
    })?))
}

fn all_gather(step: &Json, environment: &Environment<'_>) -> Given {
    let context = own_replica_context()?;
    let value = operand::evaluate(&step["value"], environment, "s")?;
    let axis = fields::small_integer(step, "axis")?;
    // SAFETY: the context is this thread's, the output is a variable.
    given(Some(made(|result| unsafe {
        umbo_replica_context_all_gather(context, value.get(), axis, result)
    })?))
}

fn merge_call(step: &Json, environment: &Environment<'_>) -> Given {
    let context = own_replica_context()?;
    let args = arguments(step, environment, "s")?;
    // The body speaks for all replicas, so it does not see the names of the one that calls.
    let call = Call {
        body: &step["body"],
        outer: environment.topmost(),
    };
    // SAFETY: the context is this thread's; the callback and its user data belong together and
    // outlive the call.
    given(maybe_made(|result| unsafe {
        let args = pointer(args.as_ref());
        let user_data = call.user_data();
        umbo_replica_context_merge_call(context, Some(on_values), args, user_data, result)
    })?)
}

fn failing(step: &Json) -> Given {
    let name = fields::text(step, "status")?;
    match status_named(name) {
        Some(status) => fail(status, BY_ITSELF),
        None => wrong(format!("unknown status {name}")),
    }
}
