//! The check of a step on the first batch of a pass, for programs that do not call it themselves.
//! Its findings are logged, each verdict once for a strategy.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::callback::{OwnedCallback, TrialCallback, TrialLimits};
use super::dry_run::DryRun;
use super::{CheckOptions, Report, check_by};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_device::DeviceId;
use umbo_optim::Gradients;
use umbo_strategy::step::limits::Limits;
use umbo_strategy::{Strategy, context::strict_callbacks};
use umbo_tensor::collectives;
use umbo_tensor::values::Value;

/// The verdict of a check.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FirstBatchVerdict {
    Holds,
    Fails,
    NotChecked,
}

/// The verdicts that have been logged, with the ids of the strategies.
static LOGGED: LazyLock<Mutex<HashSet<(u64, FirstBatchVerdict)>>> = LazyLock::new(Mutex::default);

/// Checks a step, which is about to run, on `element`, which is distributed, and logs the verdict,
/// unless an earlier pass had the same. The level is information if the equivalence holds, and
/// warning if not. If there was no check, the log says why. The step writes `gradients`, or none,
/// like a step that only evaluates.
///
/// Fails if the strategy is strict and the equivalence does not hold. Each run of the check has the
/// limits of the step; if they end one, the step is at its end, too, and this is its error. The
/// time that the check took is added to the deadline in `limits`. The check commits nothing, and
/// gradients and metrics are as they were before.
pub fn check_first(
    strategy: &Strategy,
    callback: &OwnedCallback,
    limits: &mut Limits,
    element: &Value,
    gradients: Option<&Arc<Gradients>>,
) -> Result<()> {
    let trial = TrialLimits::of(limits);
    let compared = compare(
        strategy,
        TrialCallback::Limited(callback, &trial),
        element,
        gradients,
    );
    let is_stopped = trial.is_stopped();
    let left = trial.limits_of(1);
    *limits = left;
    match compared {
        Err(error) if is_stopped => {
            return Err(error.within("UMBO_CHECK_STEPS: a run of the check"));
        }
        Ok(report) if report.equivalent => say(
            strategy,
            Level::Info,
            FirstBatchVerdict::Holds,
            &report.text,
        ),
        Ok(report) if strategy.is_strict() => {
            return Err(strict_callbacks::mistake(format_args!(
                "UMBO_CHECK_STEPS: {}",
                report.text
            )));
        }
        Ok(report) => say(
            strategy,
            Level::Warning,
            FirstBatchVerdict::Fails,
            &report.text,
        ),
        Err(error) => not_checked(strategy, &error.to_string()),
    }
    Ok(())
}

/// Logs why no step of the strategy was checked.
pub fn not_checked(strategy: &Strategy, why: &str) {
    say(
        strategy,
        Level::Warning,
        FirstBatchVerdict::NotChecked,
        &format!("not checked: {why}"),
    );
}

fn say(strategy: &Strategy, level: Level, verdict: FirstBatchVerdict, text: &str) {
    if LOGGED.lock().insert((strategy.id(), verdict)) {
        log::log_anyway(level, &format!("UMBO_CHECK_STEPS: {text}"));
    }
}

fn compare(
    strategy: &Strategy,
    callback: TrialCallback<'_>,
    element: &Value,
    gradients: Option<&Arc<Gradients>>,
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
    let check = |gradients| {
        let dry_run = DryRun {
            strategy,
            callback,
            batch: &batch,
            gradients,
        };
        check_by(&dry_run, &options)
    };
    let report = check(gradients)?;
    // If the step does not use the gradients, the check is repeated without them.
    if gradients.is_none() || report.submits {
        Ok(report)
    } else {
        check(None)
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
