//! Checking that a step means the same on one replica and on many.

use std::ffi::CString;

use super::prelude::*;
use crate::equivalence::{self, Finding, Options, Report, Subject, Verdict};

/// What a finding is about.
pub type umbo_equivalence_subject = i32;

/// The step as a whole.
pub const UMBO_EQUIVALENCE_OF_STEP: umbo_equivalence_subject = 1;
/// The gradient of a variable.
pub const UMBO_EQUIVALENCE_OF_GRADIENT: umbo_equivalence_subject = 2;
/// A metric.
pub const UMBO_EQUIVALENCE_OF_METRIC: umbo_equivalence_subject = 3;
/// The value of a variable.
pub const UMBO_EQUIVALENCE_OF_VARIABLE: umbo_equivalence_subject = 4;

/// What a check has found.
///
/// UMBO_EQUIVALENCE_EQUAL, UMBO_EQUIVALENCE_NOT_WRITTEN and UMBO_EQUIVALENCE_SIZE_DEPENDENT do not
/// count against the equivalence. All others do.
pub type umbo_equivalence_verdict = i32;

/// The same for every split of the batch.
pub const UMBO_EQUIVALENCE_EQUAL: umbo_equivalence_verdict = 1;
/// No replica writes the gradient, so the variable would not be updated. Does not count against the
/// equivalence.
pub const UMBO_EQUIVALENCE_NOT_WRITTEN: umbo_equivalence_verdict = 2;
/// The callback fails for another split of the batch, for instance with empty parts.
pub const UMBO_EQUIVALENCE_CALLBACK_FAILED: umbo_equivalence_verdict = 3;
/// A replica does not submit its gradients.
pub const UMBO_EQUIVALENCE_NOT_SUBMITTED: umbo_equivalence_verdict = 4;
/// The weights are not in proportion to the examples.
pub const UMBO_EQUIVALENCE_WRONG_WEIGHT: umbo_equivalence_verdict = 5;
/// A buffer that was viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
pub const UMBO_EQUIVALENCE_NOT_OVERWRITTEN: umbo_equivalence_verdict = 6;
/// A number is infinite or NaN.
pub const UMBO_EQUIVALENCE_NOT_FINITE: umbo_equivalence_verdict = 7;
/// Two runs with the same parts of the batch differ.
pub const UMBO_EQUIVALENCE_NOT_REPEATABLE: umbo_equivalence_verdict = 8;
/// The callback does not reduce over its examples in the way that was declared.
pub const UMBO_EQUIVALENCE_WRONG_REDUCTION: umbo_equivalence_verdict = 9;
/// Each replica contributes the gradient of the whole batch.
pub const UMBO_EQUIVALENCE_WHOLE_BATCH: umbo_equivalence_verdict = 10;
/// Replicas that have different examples contribute the very same gradient.
pub const UMBO_EQUIVALENCE_SAME_EXAMPLES: umbo_equivalence_verdict = 11;
/// Only some of the replicas that have examples write the gradient.
pub const UMBO_EQUIVALENCE_PARTLY_WRITTEN: umbo_equivalence_verdict = 12;
/// Each replica adds a term that does not come from an example, such as weight decay. Such a term
/// belongs to the optimizer.
pub const UMBO_EQUIVALENCE_TERM_PER_REPLICA: umbo_equivalence_verdict = 13;
/// Different, and the numbers do not show why. The text lists likely causes.
pub const UMBO_EQUIVALENCE_DIFFERENT: umbo_equivalence_verdict = 14;
/// The callback writes a variable, or a copy of it on a device or in another dtype, through a view, which
/// is for reading. The check restores the value. Gradients and metrics that differ for that reason have
/// this verdict too.
pub const UMBO_EQUIVALENCE_VARIABLE_WRITTEN: umbo_equivalence_verdict = 15;
/// The same for every split of the batch, but different for a smaller batch: the callback uses
/// statistics of the whole batch, or uses the batch's size for more than the mean. Does not count
/// against the equivalence.
pub const UMBO_EQUIVALENCE_SIZE_DEPENDENT: umbo_equivalence_verdict = 16;

constants! { Verdict {
    UMBO_EQUIVALENCE_EQUAL = Verdict::Equal, UMBO_EQUIVALENCE_NOT_WRITTEN = Verdict::NotWritten,
    UMBO_EQUIVALENCE_CALLBACK_FAILED = Verdict::Failed,
    UMBO_EQUIVALENCE_NOT_SUBMITTED = Verdict::NotSubmitted,
    UMBO_EQUIVALENCE_WRONG_WEIGHT = Verdict::WrongWeight,
    UMBO_EQUIVALENCE_NOT_OVERWRITTEN = Verdict::NotOverwritten,
    UMBO_EQUIVALENCE_NOT_FINITE = Verdict::NotFinite,
    UMBO_EQUIVALENCE_NOT_REPEATABLE = Verdict::NotRepeatable,
    UMBO_EQUIVALENCE_WRONG_REDUCTION = Verdict::WrongReduction,
    UMBO_EQUIVALENCE_WHOLE_BATCH = Verdict::WholeBatch,
    UMBO_EQUIVALENCE_SAME_EXAMPLES = Verdict::SameExamples,
    UMBO_EQUIVALENCE_PARTLY_WRITTEN = Verdict::PartlyWritten,
    UMBO_EQUIVALENCE_TERM_PER_REPLICA = Verdict::TermPerReplica,
    UMBO_EQUIVALENCE_DIFFERENT = Verdict::Different,
    UMBO_EQUIVALENCE_VARIABLE_WRITTEN = Verdict::VariableWritten,
    UMBO_EQUIVALENCE_SIZE_DEPENDENT = Verdict::SizeDependent,
} }

/// When two numbers count as the same. Start from UMBO_EQUIVALENCE_OPTIONS_INIT.
#[c_struct(relative_tolerance = UMBO_AUTO as f64)]
#[repr(C)]
pub struct umbo_equivalence_options {
    /// sizeof(umbo_equivalence_options).
    pub struct_size: usize,
    /// The largest allowed difference, as a fraction of the terms that are added up to a gradient.
    /// 0 or more; 0: the same bits. UMBO_AUTO, the default: as much as a sum over the
    /// batch in the gradients' dtype can change when it is added in another order. That is 0.0001
    /// to 0.01 for float32, more for larger batches; 0.012 for float16; and 0.026 for bfloat16.
    pub relative_tolerance: f64,
    /// A difference up to this never counts. 0 or more; by default 0.
    pub absolute_tolerance: f64,
}

/// One finding of a check. Start from UMBO_EQUIVALENCE_FINDING_INIT.
///
/// The texts live as long as the umbo_equivalence.
#[c_struct]
#[repr(C)]
pub struct umbo_equivalence_finding {
    /// sizeof(umbo_equivalence_finding).
    pub struct_size: usize,
    /// What the finding is about.
    pub subject: umbo_equivalence_subject,
    /// UMBO_EQUIVALENCE_EQUAL, or what is wrong.
    pub verdict: umbo_equivalence_verdict,
    /// The place of the variable among the gradients. -1 if the finding is not about a variable, or
    /// if the variable is not among them.
    pub variable: i64,
    /// The element of the gradient or variable that `text` mentions, in row-major order; -1 if
    /// none.
    pub element: i64,
    /// By which factor the gradient is wrong on all replicas: more than 1 if it is too large, less
    /// than 1 if it is too small. 0 if no single factor describes it.
    pub factor: f64,
    /// The largest difference between two splits, as a fraction of the largest element.
    pub difference: f64,
    /// The name of the variable or metric; NULL if the finding is about the step.
    pub name: *const c_char,
    /// What was found, and what to do about it.
    pub text: *const c_char,
}

/// A report with its texts as C has them.
pub struct CheckedStep {
    report: Report,
    text: CString,
    /// Name and text of each finding.
    findings: Vec<(Option<CString>, CString)>,
}

impl CheckedStep {
    fn new(report: Report) -> CheckedStep {
        let texts = |finding: &Finding| {
            let name = match &finding.subject {
                Subject::Step => None,
                Subject::Gradient { name, .. }
                | Subject::Variable { name, .. }
                | Subject::Metric { name } => Some(c_string(name)),
            };
            (name, c_string(&finding.text))
        };
        let findings = report.findings.iter().map(texts).collect();
        CheckedStep { text: c_string(&report.text), findings, report }
    }

    fn finding(&self, index: usize) -> Option<umbo_equivalence_finding> {
        let (finding, (name, text)) =
            self.report.findings.get(index).zip(self.findings.get(index))?;
        let (subject, variable) = match finding.subject {
            Subject::Step => (UMBO_EQUIVALENCE_OF_STEP, -1),
            Subject::Gradient { index, .. } => (UMBO_EQUIVALENCE_OF_GRADIENT, index as i64),
            Subject::Variable { index, .. } => {
                (UMBO_EQUIVALENCE_OF_VARIABLE, index.map_or(-1, |index| index as i64))
            }
            Subject::Metric { .. } => (UMBO_EQUIVALENCE_OF_METRIC, -1),
        };
        Some(umbo_equivalence_finding {
            struct_size: size_of::<umbo_equivalence_finding>(),
            subject,
            verdict: finding.verdict.to_c(),
            variable,
            element: finding.element.map_or(-1, |element| element as i64),
            factor: finding.factor,
            difference: finding.difference,
            name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            text: text.as_ptr(),
        })
    }
}

/// Checks that a step does the same on one replica as on all.
///
/// @param[in] function The step's callback, as for umbo_strategy_run().
/// @param[in] user_data Passed to `function` unchanged; may be anything.
/// @param[in] batch A global batch that is not distributed yet: a tensor, or a tuple, list or struct of
///   tensors, with 3 examples or more along dimension 0.
/// @param[in] gradients The gradients that the callback writes. `gradients` may be NULL: only
///   metrics are compared.
/// @param[in] options The tolerances; `options` may be NULL: all defaults.
/// @param[out] equivalence What was found. The caller releases it.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a batch that cannot be split or has too few examples, gradients of another
///   strategy, or a tolerance that is out of range.
/// - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, a merge call or
///   another strategy's scope; or the strategy is draining.
/// - what umbo_strategy_run() returns, if the callback fails on the batch in its usual split.
///
/// A mistake in the callback is not a failure of this function. It is reported in `*equivalence`:
/// ask umbo_equivalence_holds() and umbo_equivalence_text(). The check is for tests, and for the
/// first step of a new trainer.
///
/// *How it works.* The check splits the batch over the replicas as
/// umbo_strategy_distribute_dataset() does, and runs the callback. It compares the results with
/// those of other splits: all examples on replica 0, as with one replica; two parts of different
/// sizes; and a smaller batch. The callback runs 6 times on each replica, and up to 22 times if
/// something differs. The buffers of `gradients` that it views with UMBO_GRADIENT_OVERWRITE contain
/// 0 in some runs and NaN in others, which shows whether it writes all of them. The check waits for
/// its turn as a run does. Runs of other threads may happen in between; they are not affected.
///
/// *What it finds.*
/// - Gradients that are not reduced over the examples as `loss_reduction` declares, or that are
///   divided by a fixed number.
/// - Weights that are not in proportion to the examples.
/// - Buffers that are not overwritten in full.
/// - Replicas that read the whole batch, or all read the same rows.
/// - Replicas without examples that do not submit, or fail.
/// - Regularisers that are added once for each replica.
/// - Results that are not repeatable, on one replica or only on several.
/// - Metrics with wrong sums or weights, of umbo_replica_context_add_metric() and of every umbo_metrics that the
///   callback adds to. Means and accuracies are compared as quotients, sums and counts as numbers, confusion
///   matrices and AUCs cell by cell.
///
/// Some results depend on the split by design, such as the statistics of batch normalisation. Of
/// these the check can only tell that they do. With one replica there are no splits to compare, so
/// it finds only what a single run shows.
///
/// *What it leaves.* Nothing is committed. The strategy's variables, `gradients` with what they
/// have accumulated, optimizers and metrics are as they were before. An umbo_optimizer_apply() in
/// the callback has no effect. What the callback changes in memory of its own stays changed. If the
/// callback writes other gradients than `gradients`, the check affects these as a run that fails:
/// what an earlier run has contributed to them, and was not applied yet, is lost, and the apply
/// fails. So pass the gradients that the callback writes, or apply before the check.
///
/// *Memory.* The check keeps copies of all gradients in float64: two for each replica and five
/// more, and another two once something differs. The copies of a row-sparse gradient are as large
/// as the whole table, however few rows are added; for a large table that is many times the memory
/// of its variable. Contributions that wait for an apply are copied once more, in their own dtype;
/// of row-sparse ones only the rows.
///
/// With several ranks a call that all of them make: it fails on all if it fails on one. Then
/// UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and UMBO_STATUS_UNAVAILABLE
/// for ranks that cannot meet any more. Each gives a batch of its own, of as many examples.
#[c_call(
    out(equivalence),
    options(options),
    get(strategy),
    present(function),
    get(batch),
    get_optional(gradients)
)]
pub fn umbo_strategy_check_equivalence(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    batch: *const umbo_value,
    gradients: *mut umbo_gradients,
    options: *const umbo_equivalence_options,
    equivalence: *mut *mut umbo_equivalence,
) {
    let options = Options {
        relative_tolerance: unless(options.relative_tolerance, UMBO_AUTO),
        absolute_tolerance: options.absolute_tolerance,
    };
    let call = replica_function(function, user_data);
    let report = equivalence::check(&strategy, &call, &batch, gradients.as_ref(), &options)?;
    equivalence.write(make(Arc::new(CheckedStep::new(report)))?);
}

/// Tells whether the step does the same on one replica as on all.
///
/// @param[in] equivalence What the check found.
/// @param[out] holds 1 if the update and the metrics are the same, else 0.
#[c_call(out(holds), borrow(equivalence))]
pub fn umbo_equivalence_holds(equivalence: *const umbo_equivalence, holds: *mut i32) {
    holds.write(equivalence.report.equivalent.into());
}

/// Gives all findings as text.
///
/// @param[in] equivalence What the check found.
/// @param[out] text A line that says whether the equivalence holds and for which parts of the
///   batch, then a line for each finding that is not UMBO_EQUIVALENCE_EQUAL. Lives as long as
///   `equivalence`.
#[c_call(out(text), borrow(equivalence))]
pub fn umbo_equivalence_text(equivalence: *const umbo_equivalence, text: *mut *const c_char) {
    text.write(equivalence.text.as_ptr());
}

/// Tells how many findings there are.
///
/// @param[in] equivalence What the check found.
/// @param[out] count Their number.
///
/// First come the findings about the step as a whole, if something is wrong with it. Then there is
/// one for each gradient and each metric, also if it is UMBO_EQUIVALENCE_EQUAL.
#[c_call(out(count), borrow(equivalence))]
pub fn umbo_equivalence_count(equivalence: *const umbo_equivalence, count: *mut i64) {
    // Gradients list their variables by an `i32`; so many metrics nobody adds.
    count.write(equivalence.findings.len() as i64);
}

/// Gives one finding.
///
/// @param[in] equivalence What the check found.
/// @param[in] index The finding's place: 0 to the number of findings less one.
/// @param[out] finding The finding. Start from UMBO_EQUIVALENCE_FINDING_INIT, which sets its size.
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such finding.
#[c_call(result(finding), borrow(equivalence))]
pub fn umbo_equivalence_at(
    equivalence: *const umbo_equivalence,
    index: i64,
    finding: *mut umbo_equivalence_finding,
) {
    let findings = (equivalence.findings.len(), "the findings");
    finding.write(at(index, "index", findings, |index| equivalence.finding(index))?);
}
