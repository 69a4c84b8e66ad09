//! The steps: one file for each group of operations.

mod arithmetic;
pub mod body;
pub mod checkpoints;
mod cross_replica;
mod input;
mod replica;
pub mod strategies;
mod variables;

use serde_json::Value as Json;

use crate::environment::{Bound, Environment};
use crate::failure::{Result, wrong};
use crate::fields;

/// What an operation gives; None where it has no result.
pub type Given = Result<Option<Bound>>;

/// Runs one step and binds its result.
pub fn step(step: &Json, environment: &Environment<'_>) -> Result<()> {
    let op = fields::text(step, "op")?;
    let groups = [
        arithmetic::step,
        strategies::step,
        variables::step,
        checkpoints::step,
        cross_replica::step,
        replica::step,
        input::step,
    ];
    let given = groups.iter().find_map(|group| group(op, step, environment));
    let Some(given) = given else {
        return wrong(format!("unknown operation {op}"));
    };
    if let (Some(bound), Some(out)) = (given?, fields::optional_text(step, "out")?) {
        environment.bind(out, bound);
    }
    Ok(())
}

/// Runs steps until one fails.
pub fn block(steps: &[Json], environment: &Environment<'_>) -> Result<()> {
    steps.iter().try_for_each(|one| step(one, environment))
}
