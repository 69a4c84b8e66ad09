//! The check of a step on the batch that a pass begins with, for programs that do not ask for it
//! themselves: what it finds is said in the log, each verdict once for a strategy.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::{CheckOptions, Report, check};
use crate::collectives;
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::observe::log::{self, Level};
use crate::optimizer::Gradients;
use crate::strategy::{FunctionFor, Strategy, strict_callbacks};
use crate::values::Value;

/// What is known of the gradients that a step writes.
#[derive(Clone, Copy)]
pub enum GradientsWritten<'a> {
    /// It writes none.
    None,
    /// It writes these.
    By(&'a Arc<Gradients>),
    /// It writes these, or none, as a step does that only evaluates.
    PerhapsBy(&'a Arc<Gradients>),
}

/// What a check ends with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FirstBatchVerdict {
    Holds,
    Fails,
    NotChecked,
}

/// What has been said, by the ids of strategies.
static SAID: LazyLock<Mutex<HashSet<(u64, FirstBatchVerdict)>>> = LazyLock::new(Mutex::default);

/// Checks `function` on `element`, which is distributed, and logs the verdict, unless an earlier pass had the
/// same: as information if the equivalence holds, else as a warning. If there was no check, the log says why.
///
/// Fails if the strategy is strict and the equivalence does not hold. Nothing that was found is
/// committed, and gradients and metrics are as they were.
pub fn check_first(
    strategy: &Strategy,
    function: &FunctionFor<'_>,
    element: &Value,
    written: GradientsWritten<'_>,
) -> Result<()> {
    match compare(strategy, function, element, written) {
        Ok(report) if report.equivalent => {
            say(strategy, Level::Info, FirstBatchVerdict::Holds, &report.text)
        }
        Ok(report) if strategy.is_strict() => {
            return Err(strict_callbacks::mistake(format_args!("UMBO_CHECK: {}", report.text)));
        }
        Ok(report) => say(strategy, Level::Warning, FirstBatchVerdict::Fails, &report.text),
        Err(error) => not_checked(strategy, &error.to_string()),
    }
    Ok(())
}

/// Says why no step of the strategy was checked.
pub fn not_checked(strategy: &Strategy, why: &str) {
    say(strategy, Level::Warning, FirstBatchVerdict::NotChecked, &format!("not checked: {why}"));
}

fn say(strategy: &Strategy, level: Level, verdict: FirstBatchVerdict, text: &str) {
    if SAID.lock().insert((strategy.id(), verdict)) {
        log::log_anyway(level, &format!("UMBO_CHECK: {text}"));
    }
}

fn compare(
    strategy: &Strategy,
    function: &FunctionFor<'_>,
    element: &Value,
    written: GradientsWritten<'_>,
) -> Result<Report> {
    if !strategy.ranks().is_alone() {
        return Err(Error::Unimplemented(
            "ranks have parts of different sizes, which the check does not compare; run the \
             program in one process with several replicas"
                .into(),
        ));
    }
    let batch = whole(element, strategy.num_replicas())?;
    let options = CheckOptions::default();
    let check = |gradients| check(strategy, function, &batch, gradients, &options);
    match written {
        GradientsWritten::None => check(None),
        GradientsWritten::By(gradients) => check(Some(gradients)),
        GradientsWritten::PerhapsBy(gradients) => {
            let report = check(Some(gradients))?;
            // Gradients that the step leaves alone need no keeping.
            if report.submits { Ok(report) } else { check(None) }
        }
    }
}

/// The global batch of a distributed element, in host memory.
fn whole(element: &Value, replicas: usize) -> Result<Value> {
    element.map_leaves(&mut |leaf| {
        let parts = match leaf {
            Value::PerReplica(parts) if parts.is_dense() => parts.components(),
            Value::Tensor(tensor) if replicas == 1 => std::slice::from_ref(tensor),
            other => {
                let kind = other.kind_name();
                let problem =
                    format!("contains {kind}, which is not distributed over the replicas");
                return Err(Error::invalid("element", problem));
            }
        };
        collectives::gather(parts, 0, DeviceId::HOST, None).map(Value::Tensor)
    })
}
