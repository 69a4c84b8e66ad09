//! Strategies, devices, scopes and contexts; threads and loops.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use super::{Given, block};
use crate::environment::{Bound, Environment};
use crate::failure::{Failure, Result, check, fail, told, wrong};
use crate::fields;
use crate::handle::{Handle, c_text, made, read};
use crate::literal::{Element, Literal};
use crate::outcome::Outcome;
use crate::placement;
use crate::values;

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    Some(match op {
        "strategy" => create(step).map(|strategy| Some(Bound::Strategy(Arc::new(strategy)))),
        "copy_strategy" => copy(step, environment),
        "num_replicas_in_sync" => num_replicas(step, environment),
        "compute_devices" => compute_devices(step, environment),
        "parameter_device" => parameter_device(step, environment),
        "cluster_resolver" => cluster_resolver(step, environment),
        "canonical_device_name" => canonical_device_name(step),
        "scope_enter" => scope_enter(step, environment),
        "scope_exit" => scope_exit(step, environment),
        "set_strategy" => set_strategy(step, environment),
        "has_strategy" => has_strategy(),
        "in_cross_replica_context" => in_cross_replica_context(),
        "in_replica_context" => in_replica_context(),
        "current_strategy_is" => current_strategy_is(step, environment),
        "on_thread" => on_thread(step, environment),
        "loop" => fields::integer(step, "times").and_then(|times| {
            let steps = fields::list(step, "steps")?;
            (0..times)
                .try_for_each(|_| block(steps, environment))
                .map(|()| None)
        }),
        _ => return None,
    })
}

/// The strategy that a step is about.
pub fn strategy_of(
    step: &Json,
    environment: &Environment<'_>,
) -> Result<Arc<Handle<umbo_strategy>>> {
    environment.strategy(fields::strategy(step)?)
}

fn truth(value: bool) -> Given {
    values::fact(Literal::scalar("bool", Element::Bool(value))).map(Some)
}

fn text(text: String) -> Bound {
    Bound::Known(Outcome::Text(text))
}

/// Makes a strategy from `compute_devices` and `parameter_device`, each of which may be absent.
pub fn create(json: &Json) -> Result<Handle<umbo_strategy>> {
    let devices = match json.get("compute_devices") {
        None | Some(Json::Null) => None,
        Some(_) => {
            let names = fields::list(json, "compute_devices")?.iter().map(|name| {
                let known = |name| c_text(&placement::of_compute_device(name));
                name.as_str()
                    .map_or_else(|| wrong(format!("not a name: {name}")), known)
            });
            Some(names.collect::<Result<Vec<CString>>>()?)
        }
    };
    let parameter = fields::optional_text(json, "parameter_device")?.map(placement::of_device);
    let parameter = parameter.as_deref().map(c_text).transpose()?;
    let names: Option<Vec<_>> = devices
        .as_ref()
        .map(|devices| devices.iter().map(|name| name.as_ptr()).collect());
    let mut options: umbo_strategy_options = Default::default();
    if let Some(names) = &names {
        options.compute_devices = names.as_ptr();
        options.compute_device_count = names.len() as i64;
    }
    options.parameter_device = parameter.as_ref().map_or(ptr::null(), |name| name.as_ptr());
    // SAFETY: the options point to texts that outlive the call, the output is a variable.
    made(|strategy| unsafe { umbo_strategy_create(&raw const options, strategy) })
}

/// The default strategy.
pub fn default_strategy() -> Result<Handle<umbo_strategy>> {
    // SAFETY: the output is a variable.
    made(|strategy| unsafe { umbo_strategy_default(strategy) })
}

fn copy(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    // SAFETY: the output is a variable.
    let copy = made(|copy| unsafe { umbo_strategy_copy(strategy.get(), copy) })?;
    Ok(Some(Bound::Strategy(Arc::new(copy))))
}

/// What a strategy consists of.
fn info(strategy: &Handle<umbo_strategy>) -> Result<umbo_strategy_info> {
    // SAFETY: the output is a variable.
    read(umbo_strategy_info::default(), |info| unsafe {
        umbo_strategy_get_info(strategy.get(), info)
    })
}

/// How many replicas a strategy has.
pub fn replicas(strategy: &Handle<umbo_strategy>) -> Result<i32> {
    Ok(info(strategy)?.replica_count as i32)
}

fn num_replicas(step: &Json, environment: &Environment<'_>) -> Given {
    let count = match environment.value_context {
        Some((_, count)) => count,
        None => replicas(&*strategy_of(step, environment)?)?,
    };
    values::fact(Literal::scalar("int32", Element::Integer(count.into()))).map(Some)
}

fn compute_devices(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let names = (0..replicas(&strategy)?)
        .map(|replica| values::compute_device(&strategy, replica))
        .map(|name| name.map(|name| text(placement::as_said(&name))));
    Ok(Some(Bound::List(names.collect::<Result<_>>()?)))
}

fn parameter_device(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    // SAFETY: the name lives as long as the process.
    let name = unsafe { CStr::from_ptr(info(&strategy)?.parameter_device) }.to_string_lossy();
    Ok(Some(text(placement::as_said(&name))))
}

/// A central storage strategy has none, and C no function for it.
fn cluster_resolver(step: &Json, environment: &Environment<'_>) -> Given {
    strategy_of(step, environment)?;
    Ok(Some(Bound::Known(Outcome::None)))
}

fn canonical_device_name(step: &Json) -> Given {
    let name = c_text(fields::text(step, "name")?)?;
    let defaults = fields::optional_text(step, "default")?
        .map(c_text)
        .transpose()?;
    let defaults = defaults.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let mut buffer = [0u8; 256];
    // SAFETY: the texts are texts, the buffer has the capacity stated, the output is a variable.
    let length = read(0usize, |length| unsafe {
        let place = buffer.as_mut_ptr().cast();
        let capacity = buffer.len();
        umbo_device_canonical_name(name.as_ptr(), defaults, place, capacity, length)
    })?;
    Ok(Some(text(
        String::from_utf8_lossy(&buffer[..length]).into_owned(),
    )))
}

fn scope_enter(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    // SAFETY: the output is a variable.
    let scope = read(ptr::null_mut(), |scope| unsafe {
        umbo_scope_enter(strategy.get(), scope)
    })?;
    environment.world.entered(scope.addr());
    Ok(Some(Bound::Scope(scope.addr())))
}

fn scope_exit(step: &Json, environment: &Environment<'_>) -> Given {
    let name = fields::text(step, "scope")?;
    let Bound::Scope(scope) = environment.look(name)? else {
        return wrong(format!("{name} is no scope"));
    };
    // SAFETY: the number is a handle, which the library checks.
    check(unsafe { umbo_scope_exit(ptr::without_provenance_mut(scope)) })?;
    environment.world.left(scope);
    Ok(None)
}

fn set_strategy(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = match fields::optional_text(step, "strategy")? {
        Some(name) => Some(environment.strategy(name)?),
        None => None,
    };
    let handle = strategy
        .as_ref()
        .map_or(ptr::null_mut(), |strategy| strategy.get());
    // SAFETY: NULL or a handle.
    check(unsafe { umbo_strategy_set_current(handle) })?;
    Ok(None)
}

/// The number of the strategy that is current; that of the default strategy is 0.
fn current_id() -> Result<u64> {
    // SAFETY: the output is a variable.
    let current: Handle<umbo_strategy> = made(|current| unsafe { umbo_strategy_current(current) })?;
    Ok(info(&current)?.id)
}

fn has_strategy() -> Given {
    truth(current_id()? != 0)
}

fn in_cross_replica_context() -> Given {
    truth(replica_context()?.is_none())
}

/// The context of the replica that this thread runs; None in cross-replica context.
fn replica_context() -> Result<Option<*mut umbo_replica_context>> {
    // SAFETY: the output is a variable.
    let context = read(ptr::null_mut(), |context| unsafe {
        umbo_replica_context_current(context)
    })?;
    Ok((!context.is_null()).then_some(context))
}

/// The context of the replica that this thread runs, for steps that need one.
pub fn own_replica_context() -> Result<*mut umbo_replica_context> {
    match replica_context()? {
        Some(context) => Ok(context),
        None => fail(
            UMBO_STATUS_FAILED_PRECONDITION,
            "this needs a replica context",
        ),
    }
}

fn in_replica_context() -> Given {
    truth(replica_context()?.is_some())
}

fn current_strategy_is(step: &Json, environment: &Environment<'_>) -> Given {
    truth(info(&*strategy_of(step, environment)?)?.id == current_id()?)
}

fn on_thread(step: &Json, environment: &Environment<'_>) -> Given {
    let steps = fields::list(step, "steps")?;
    let ran = std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            let ran = block(steps, environment);
            environment.world.leave_down_to(0);
            ran
        });
        thread.join()
    });
    match ran {
        // The last error of the other thread is not this one's.
        Ok(Err(Failure::Status(status, message))) => Err(told(status, &message)),
        Ok(ran) => ran.map(|()| None),
        Err(_) => wrong("the thread panicked"),
    }
}
