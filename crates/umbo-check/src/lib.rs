//! Checks whether a training step has the same effect on one replica and on many, without taking
//! the step.
//!
//! [`check()`] runs a callback several times over differently split parts of one batch, and rolls
//! each run back (`dry_run`, `observer`; `callback`: the limits that end a run). From what the
//! replicas wrote, and from their weights, it determines whether an update would be the same
//! (`evidence`; `vectors` defines when numbers count as equal). If not, it finds the mistake that
//! explains the observations (`gradients`, `example_weights`, `metrics`, `cells`). `report`
//! describes the result. If a callback writes into variables, their values are restored and the
//! write is reported (`watched`, `written_variables`).
//!
//! # How one replica is simulated
//!
//! The callback uses variables and gradients that belong to its strategy, so it cannot run in
//! another strategy with one replica. Instead replica 0 gets the whole batch, and the others get
//! empty parts. By the gradient contract this equals one replica: empty parts have weight 0 and are
//! not read. It also shows whether the callback can process empty parts, which occur at the end of
//! each epoch.
//!
//! # How the cause is found
//!
//! Let S(x) be the sum of the gradients of the examples x. A callback that sums writes S(x). One
//! that takes the mean writes S(x) / |x|, and one that divides by the global batch writes S(x) /
//! |batch|. The sum S is additive for every loss, so three splits distinguish the three callbacks:
//! the whole batch on replica 0; its first examples on replica 0 and the others on replica 1; and
//! the first examples as a batch of their own. In the third, the examples keep their positions, so
//! that values keyed by example stay the same. If a callback divides by a constant, this looks like
//! the gradient's own scale, and the constant need not be known.

#![deny(unsafe_code)]

#[macro_use]
extern crate umbo_base;

mod callback;
mod case;
mod cells;
mod dry_run;
mod evidence;
mod example_weights;
mod first_batch;
mod gradients;
mod metrics;
mod observer;
mod options;
mod report;
mod variable_snapshot;
mod vectors;
mod written_variables;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "checks")]
    "checks",
];

use std::sync::Arc;

pub use callback::OwnedCallback;
pub use first_batch::{check_first, not_checked};
pub use options::CheckOptions;
pub use report::{Finding, Report, Subject, Verdict};

use callback::TrialCallback;
use dry_run::DryRun;
use evidence::Evidence;
use umbo_base::error::{Error, Result};
use umbo_input as input;
use umbo_optim::Gradients;
use umbo_strategy::context::require_cross_replica;
use umbo_strategy::{FunctionFor, Strategy};
use umbo_tensor::values::Value;

/// The fewest examples that can be split into parts of different sizes.
const FEWEST_EXAMPLES: usize = 3;

/// Runs `function` on parts of `batch`, a global batch with the examples along dimension 0. The
/// report says whether its gradients and metrics depend on how the batch is split.
///
/// Each run is rolled back: variables of the strategy, `gradients`, and metrics are as before, and
/// a deferred apply does not take place. All runs have the number of the next step, so that random
/// numbers keyed by it are the same in all of them. The next step still gets this number. Other
/// gradients that `function` writes lose contributions that wait for an apply, as in a run that
/// fails. `function` is called on each replica six times, and up to sixteen times more if something
/// differs.
///
/// With several ranks all of them check, each with its own batch of the same number of examples,
/// and get reports on their own replicas.
///
/// The report contains the callback's mistakes. The call itself fails if `batch` or the tolerances
/// are wrong, in a merge call and in replica context, while the strategy is draining, and when
/// memory runs out. It also fails, with the callback's error, if the callback fails on a batch that
/// is split as a distributed dataset splits it.
pub fn check(
    strategy: &Strategy,
    function: &FunctionFor<'_>,
    batch: &Value,
    gradients: Option<&Arc<Gradients>>,
    options: &CheckOptions,
) -> Result<Report> {
    let dry_run = DryRun {
        strategy,
        callback: TrialCallback::Borrowed(function),
        batch,
        gradients,
    };
    check_by(&dry_run, options)
}

/// [`check()`] by such runs.
fn check_by(dry_run: &DryRun<'_>, options: &CheckOptions) -> Result<Report> {
    built_with!("checks", "checks of steps");
    let DryRun {
        strategy,
        batch,
        gradients,
        ..
    } = *dry_run;
    if strategy.step_around().is_some() {
        return Err(Error::precondition(
            "inside of a run a step is open, which the check would have to roll back; check \
             outside of runs",
        ));
    }
    require_cross_replica(strategy.id())?;
    if gradients.is_some_and(|gradients| gradients.strategy() != strategy.id()) {
        return Err(invalid!(
            "gradients",
            "made for a strategy other than the one that is checked; make gradients for each \
             strategy"
        ));
    }
    for (argument, tolerance) in [
        (
            "relative_tolerance",
            options.relative_tolerance.unwrap_or_default(),
        ),
        ("absolute_tolerance", options.absolute_tolerance),
    ] {
        if !(tolerance.is_finite() && tolerance >= 0.0) {
            let problem = format!("{tolerance}; must be finite and at least 0");
            return Err(Error::invalid(argument, problem));
        }
    }
    let rows = input::batch_rows(batch)?;
    if rows < FEWEST_EXAMPLES {
        let problem = format!(
            "{rows} examples; give {FEWEST_EXAMPLES} or more, so that there are parts of \
             different sizes"
        );
        return Err(Error::invalid("batch", problem));
    }
    let collected = Evidence::collect(dry_run, rows, options)
        .and_then(|evidence| Ok((judge(&evidence)?, evidence)));
    // These findings need a closer look, because rounding must not be reported as a difference.
    let differs = |finding: &Finding| match finding.verdict {
        Verdict::Failed | Verdict::VariableWritten => false,
        verdict => !verdict.is_equivalent() || verdict == Verdict::SizeDependent,
    };
    // All ranks make the same runs.
    let purpose = format_args!("a check of equivalence on {rows} examples");
    let rows = rows as u64;
    let differ = |(findings, _): &(Vec<Finding>, _)| findings.iter().any(differs);
    let ((mut findings, mut evidence), look_closer) =
        strategy.any_rank(&purpose, "the number of its rows", rows, collected, differ)?;
    if look_closer {
        evidence.measure_examples(dry_run)?;
        findings = judge(&evidence)?;
    }
    let mut report = Report::new(strategy.num_replicas(), &evidence.sizes, findings);
    report.submits = example_weights::any_submits(&evidence);
    Ok(report)
}

/// All findings, from the most general to the most specific.
fn judge(evidence: &Evidence<'_>) -> Result<Vec<Finding>> {
    let mut findings = evidence.failures.clone();
    findings.extend(written_variables::judge(evidence));
    if evidence.failures.is_empty() {
        findings.extend(example_weights::judge(evidence));
        if example_weights::all_submit(evidence) {
            gradients::judge(evidence, &mut findings)?;
        }
        metrics::judge(evidence, &mut findings);
    }
    Ok(findings)
}
