//! Whether a training step means the same on one replica and on many, without taking it.
//!
//! [`check()`] runs a callback several times over differently split parts of one batch, and rolls
//! each run back (`dry_run`). From what the replicas wrote, and with which weights, it finds out
//! whether an update would be the same (`evidence`; `vectors` for when numbers count as the
//! same), and if not, which mistake explains what was seen (`gradients`, `weights`, `metrics`, `cells`).
//! `report` says so in words. What a callback writes into variables is put back and reported
//! (`watched`, `variables`).
//!
//! # How one replica is run
//!
//! The callback uses variables and gradients that belong to its strategy, so it cannot run in
//! another one of one replica. Instead replica 0 gets the whole batch and the others get empty parts.
//! By the gradient contract that is one replica: empty parts have weight 0 and are not read. It also
//! shows whether the callback can do with empty parts, which come up at the end of each epoch.
//!
//! # How the cause is found
//!
//! With S(x) the sum of the gradients of the examples x, a callback that sums writes S(x), one that
//! takes the mean S(x) / |x|, and one that divides by the global batch S(x) / |batch|. The sum S is
//! additive whatever the loss, so that three splits distinguish the three: the whole batch on replica
//! 0; its first examples on replica 0 and the others on replica 1; and the first examples as a
//! batch of their own, at the same places, so that what is keyed by example stays as it is. What a
//! callback divides by a constant looks like the gradient's own scale, and need not be known.

mod case;
mod cells;
mod dry_run;
mod evidence;
mod example_weights;
mod first_batch;
mod gradients;
mod metrics;
mod options;
mod report;
mod vectors;
mod watched;
mod written_variables;

use std::sync::Arc;

pub use first_batch::{GradientsWritten, check_first, not_checked};
pub use options::CheckOptions;
pub use report::{Finding, Report, Subject, Verdict};

use crate::error::{Error, Result};
use crate::input;
use crate::optimizer::Gradients;
use crate::strategy::context::require_cross_replica_of;
use crate::strategy::{ReplicaContext, Strategy};
use crate::values::Value;
use dry_run::DryRun;
use evidence::Evidence;

/// The fewest examples that can be split into parts of different sizes.
const FEWEST_EXAMPLES: usize = 3;

/// Runs `function` on parts of `batch`, a global batch with the examples along dimension 0, and
/// says whether its gradients and metrics depend on how the batch is split.
///
/// Each run is rolled back: variables of the strategy, `gradients`, and metrics are as before, and
/// a deferred apply does not take place. All of them have the number of the step that comes next, so that
/// random numbers which are keyed by it are the same in all, and the step has that number still. Other gradients that `function` writes lose what waits for
/// an apply, as in a run that fails. `function` is called on each replica six times, and up to
/// sixteen times more if something differs.
///
/// With several ranks all of them check, each with a batch of its own of as many examples, and get
/// reports on their own replicas.
///
/// What the callback gets wrong is in the report. The call itself fails if `batch` or the
/// tolerances are wrong, in a merge call and in replica context, while the strategy is draining, if
/// there is no memory, and with the callback's error if that fails on a batch that is split as a
/// distributed dataset splits it.
pub fn check(
    strategy: &Strategy,
    function: &(dyn Fn(&ReplicaContext) -> Result<Option<Value>> + Send + Sync),
    batch: &Value,
    gradients: Option<&Arc<Gradients>>,
    options: &CheckOptions,
) -> Result<Report> {
    if strategy.step_around().is_some() {
        return Err(Error::precondition(
            "inside of a run a step is open, which the check would have to roll back; check outside of \
             runs",
        ));
    }
    require_cross_replica_of(strategy.id())?;
    if gradients.is_some_and(|gradients| gradients.strategy() != strategy.id()) {
        return Err(Error::invalid(
            "gradients",
            "made for another strategy than the one that is checked; make gradients for each \
             strategy",
        ));
    }
    for (argument, tolerance) in [
        ("options.relative_tolerance", options.relative_tolerance.unwrap_or_default()),
        ("options.absolute_tolerance", options.absolute_tolerance),
    ] {
        if !(tolerance.is_finite() && tolerance >= 0.0) {
            let problem = format!("{tolerance}; must be finite and at least 0");
            return Err(Error::invalid(argument, problem));
        }
    }
    let rows = input::batch_rows(batch)?;
    if rows < FEWEST_EXAMPLES {
        let problem = format!(
            "{rows} examples; give {FEWEST_EXAMPLES} or more, so that there are parts of different \
             sizes"
        );
        return Err(Error::invalid("batch", problem));
    }
    let dry_run = DryRun { strategy, function, batch, gradients };
    let collected = Evidence::collect(&dry_run, rows, options)
        .and_then(|evidence| Ok((judge(&evidence)?, evidence)));
    // What is worth a closer look: rounding must not pass for a difference.
    let differs = |finding: &Finding| match finding.verdict {
        Verdict::Failed | Verdict::VariableWritten => false,
        verdict => !verdict.is_equivalent() || verdict == Verdict::SizeDependent,
    };
    // All ranks make the same runs.
    let (here, collected) = match collected {
        Ok((findings, evidence)) => (Ok(findings.iter().any(differs)), Some((findings, evidence))),
        Err(error) => (Err(error), None),
    };
    let what = format_args!("a check of equivalence on {rows} examples");
    let look_closer = strategy.any_rank(&what, ("the number of its rows", rows as u64), here)?;
    let (mut findings, mut evidence) =
        collected.ok_or_else(|| Error::Internal("a check without evidence".into()))?;
    if look_closer {
        evidence.measure_examples(&dry_run)?;
        findings = judge(&evidence)?;
    }
    let mut report = Report::new(strategy.num_replicas(), evidence.split_sizes(), findings);
    report.submits = example_weights::any_submits(&evidence);
    Ok(report)
}

/// All findings, from the most general to the most special.
fn judge(evidence: &Evidence<'_>) -> Result<Vec<Finding>> {
    let mut findings = evidence.failures();
    findings.extend(written_variables::judge(evidence));
    if evidence.failures().is_empty() {
        findings.extend(example_weights::judge(evidence));
        if example_weights::all_submit(evidence) {
            gradients::judge(evidence, &mut findings)?;
        }
        metrics::judge(evidence, &mut findings);
        written_variables::explain(evidence, &mut findings);
    }
    Ok(findings)
}
