//! Running one case.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use umbo::*;

use crate::environment::{Bound, Environment, World};
use crate::failure::{Failure, Result, check, wrong};
use crate::fields;
use crate::handle::read;
use crate::language;
use crate::outcome::Outcome;
use crate::steps::step;
use crate::steps::strategies::{create, default_strategy};

/// What a case gave.
pub struct Report {
    /// The results that it has expectations of.
    pub results: BTreeMap<String, Outcome>,
    /// The top-level steps that failed, and why.
    pub errors: Vec<(usize, Failure)>,
}

/// Runs a case. Nothing of it is left afterwards; a handle that is still alive is a failure.
pub fn run(case: &Json) -> Result<Report> {
    language::check_case(case)?;
    let world = World::default();
    let report = executed(case, &world);
    // SAFETY: the output is a variable.
    let alive = read(0, |count| unsafe {
        umbo_live_handles(UMBO_HANDLE_ANY, count)
    })?;
    let report = report?;
    match alive {
        0 => Ok(report),
        alive => wrong(format!(
            "{alive} handles are alive after the case{}",
            which_are_alive()
        )),
    }
}

fn which_are_alive() -> String {
    let types = UMBO_HANDLE_ANY + 1..32;
    let counts = types.filter_map(|of_type| {
        // SAFETY: the output is a variable.
        let count = read(0, |count| unsafe { umbo_live_handles(of_type, count) }).ok()?;
        (count != 0).then(|| format!(", {count} of type {of_type}"))
    });
    counts.collect()
}

fn executed(case: &Json, world: &World) -> Result<Report> {
    let top = Environment::top(world);
    top.bind("default", Bound::Strategy(Arc::new(default_strategy()?)));
    let strategy = match case.get("strategy") {
        Some(given) => create(given)?,
        None => {
            let names = (0..fields::integer(case, "replicas")?).map(|n| format!("CPU:{n}"));
            create(&json!({ "compute_devices": names.collect::<Vec<_>>() }))?
        }
    };
    top.bind("s", Bound::Strategy(Arc::new(strategy)));
    let ran = steps_of(case, &top);
    world.leave_down_to(0);
    // SAFETY: NULL clears.
    let cleared = check(unsafe { umbo_strategy_set_current(ptr::null_mut()) });
    let errors = ran?;
    cleared?;
    let mut results = BTreeMap::new();
    let names = top.into_names();
    if let Some(expected) = case["expect"].as_object() {
        for (name, bound) in expected.keys().filter_map(|name| names.get_key_value(name)) {
            results.insert(name.clone(), Outcome::of(bound)?);
        }
    }
    Ok(Report { results, errors })
}

/// Runs the steps; one that fails binds nothing, and the case continues.
fn steps_of(case: &Json, top: &Environment<'_>) -> Result<Vec<(usize, Failure)>> {
    let mut errors = Vec::new();
    for (at, one) in fields::list(case, "steps")?.iter().enumerate() {
        let ran = step(one, top);
        if let Some(problem) = top.world.take_mistake() {
            return wrong(problem);
        }
        match ran {
            Ok(()) => {}
            Err(failure @ Failure::Status(..)) => errors.push((at, failure)),
            Err(mistake) => return Err(mistake),
        }
    }
    Ok(errors)
}
