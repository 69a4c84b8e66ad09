//! Checking that a step means the same on one replica and on many.

use crate::machinery::checked_step::CheckedStep;
use crate::machinery::prelude::*;
use umbo_core::equivalence::{self, CheckOptions, Subject, Verdict};

/// The subject of a finding.
pub type umbo_equivalence_subject = i32;

/// The step as a whole.
pub const UMBO_EQUIVALENCE_OF_STEP: umbo_equivalence_subject = 1701;
/// The gradient of a variable.
pub const UMBO_EQUIVALENCE_OF_GRADIENT: umbo_equivalence_subject = 1702;
/// A metric.
pub const UMBO_EQUIVALENCE_OF_METRIC: umbo_equivalence_subject = 1703;
/// The value of a variable.
pub const UMBO_EQUIVALENCE_OF_VARIABLE: umbo_equivalence_subject = 1704;

/// The verdict of a check. All but EQUAL, NOT_WRITTEN and SIZE_DEPENDENT count against the
/// equivalence.
pub type umbo_equivalence_verdict = i32;

/// The same for every split of the batch.
pub const UMBO_EQUIVALENCE_EQUAL: umbo_equivalence_verdict = 1801;
/// No replica writes the gradient, so the variable would not be updated.
pub const UMBO_EQUIVALENCE_NOT_WRITTEN: umbo_equivalence_verdict = 1802;
/// The callback fails for another split of the batch, for instance with empty parts.
pub const UMBO_EQUIVALENCE_CALLBACK_FAILED: umbo_equivalence_verdict = 1803;
/// A replica does not submit its gradients.
pub const UMBO_EQUIVALENCE_NOT_SUBMITTED: umbo_equivalence_verdict = 1804;
/// The weights are not in proportion to the examples.
pub const UMBO_EQUIVALENCE_WRONG_WEIGHT: umbo_equivalence_verdict = 1805;
/// A buffer viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
pub const UMBO_EQUIVALENCE_NOT_OVERWRITTEN: umbo_equivalence_verdict = 1806;
/// A number is infinite or NaN.
pub const UMBO_EQUIVALENCE_NOT_FINITE: umbo_equivalence_verdict = 1807;
/// Two runs with the same parts of the batch differ.
pub const UMBO_EQUIVALENCE_NOT_REPEATABLE: umbo_equivalence_verdict = 1808;
/// The callback does not reduce over its examples in the way that was declared.
pub const UMBO_EQUIVALENCE_WRONG_REDUCTION: umbo_equivalence_verdict = 1809;
/// Each replica contributes the gradient of the whole batch.
pub const UMBO_EQUIVALENCE_WHOLE_BATCH: umbo_equivalence_verdict = 1810;
/// Replicas that have different examples contribute the very same gradient.
pub const UMBO_EQUIVALENCE_SAME_EXAMPLES: umbo_equivalence_verdict = 1811;
/// Only some of the replicas that have examples write the gradient.
pub const UMBO_EQUIVALENCE_PARTLY_WRITTEN: umbo_equivalence_verdict = 1812;
/// Each replica adds a term that does not come from an example, such as weight decay.
pub const UMBO_EQUIVALENCE_TERM_PER_REPLICA: umbo_equivalence_verdict = 1813;
/// Different, and the numbers do not show why. The text lists likely causes.
pub const UMBO_EQUIVALENCE_DIFFERENT: umbo_equivalence_verdict = 1814;
/// The callback writes a variable, or a copy of it, through a view for reading. The check restores
/// it; gradients and metrics that differ for that reason have this verdict too.
pub const UMBO_EQUIVALENCE_VARIABLE_WRITTEN: umbo_equivalence_verdict = 1815;
/// Different only for a smaller batch: the callback uses statistics of the whole batch, or its size
/// for more than the mean.
pub const UMBO_EQUIVALENCE_SIZE_DEPENDENT: umbo_equivalence_verdict = 1816;

constants! { Verdict {
    UMBO_EQUIVALENCE_EQUAL = Equal, UMBO_EQUIVALENCE_NOT_WRITTEN = NotWritten,
    UMBO_EQUIVALENCE_CALLBACK_FAILED = Failed, UMBO_EQUIVALENCE_NOT_SUBMITTED = NotSubmitted,
    UMBO_EQUIVALENCE_WRONG_WEIGHT = WrongWeight, UMBO_EQUIVALENCE_NOT_OVERWRITTEN = NotOverwritten,
    UMBO_EQUIVALENCE_NOT_FINITE = NotFinite, UMBO_EQUIVALENCE_NOT_REPEATABLE = NotRepeatable,
    UMBO_EQUIVALENCE_WRONG_REDUCTION = WrongReduction, UMBO_EQUIVALENCE_WHOLE_BATCH = WholeBatch,
    UMBO_EQUIVALENCE_SAME_EXAMPLES = SameExamples, UMBO_EQUIVALENCE_PARTLY_WRITTEN = PartlyWritten,
    UMBO_EQUIVALENCE_TERM_PER_REPLICA = TermPerReplica, UMBO_EQUIVALENCE_DIFFERENT = Different,
    UMBO_EQUIVALENCE_VARIABLE_WRITTEN = VariableWritten,
    UMBO_EQUIVALENCE_SIZE_DEPENDENT = SizeDependent,
} }

/// The tolerances within which two numbers count as equal.
#[c_struct(relative_tolerance = UMBO_AUTO as f64)]
pub struct umbo_equivalence_options {
    /// The largest allowed difference, as a fraction of the terms that a gradient is the sum of; 0:
    /// bit-identical. UMBO_AUTO: what another order of the sum can change: 0.0001 to 0.01 for
    /// float32, more for larger batches, 0.012 for float16, 0.026 for bfloat16.
    pub relative_tolerance: f64,
    /// A difference up to this is ignored; 0 or more.
    pub absolute_tolerance: f64,
}

/// The result of a check as a whole.
#[c_struct]
pub struct umbo_equivalence_info {
    /// 1: the update and the metrics are the same on one replica as on all.
    pub holds: i32,
    /// All that was found: a line about the whole, then one for each finding that is not
    /// UMBO_EQUIVALENCE_EQUAL. Lives as long as the result.
    pub text: *const c_char,
    /// The number of findings: those about the step, then one for each gradient and metric.
    pub finding_count: i64,
}

/// One finding of a check.
#[c_struct]
pub struct umbo_equivalence_finding {
    /// The subject of the finding.
    pub subject: umbo_equivalence_subject,
    /// UMBO_EQUIVALENCE_EQUAL, or what is wrong.
    pub verdict: umbo_equivalence_verdict,
    /// The position of the variable among the gradients, or UMBO_NONE.
    pub variable_index: i64,
    /// The element that `text` mentions, in row-major order; UMBO_NONE: none.
    pub element_index: i64,
    /// The factor by which the gradient is too large (more than 1) or too small (less than 1) on
    /// all replicas. 0: no single factor describes it.
    pub factor: f64,
    /// The largest difference between two splits, as a fraction of the largest element.
    pub difference: f64,
    /// The variable's or metric's name; NULL: of the step. Lives as long as the result.
    pub name: *const c_char,
    /// The finding and its remedy, as text. Lives as long as the result.
    pub text: *const c_char,
}

impl CheckedStep {
    fn finding(&self, index: usize) -> Option<umbo_equivalence_finding> {
        let (finding, (name, text)) = self
            .report
            .findings
            .get(index)
            .zip(self.findings.get(index))?;
        let (subject, variable_index) = match finding.subject {
            Subject::Step => (UMBO_EQUIVALENCE_OF_STEP, UMBO_NONE),
            Subject::Gradient { index, .. } => (UMBO_EQUIVALENCE_OF_GRADIENT, index as i64),
            Subject::Variable { index, .. } => (
                UMBO_EQUIVALENCE_OF_VARIABLE,
                index.map_or(UMBO_NONE, |index| index as i64),
            ),
            Subject::Metric { .. } => (UMBO_EQUIVALENCE_OF_METRIC, UMBO_NONE),
        };
        Some(umbo_equivalence_finding {
            struct_size: struct_size::<umbo_equivalence_finding>(),
            subject,
            verdict: finding.verdict.to_c(),
            variable_index,
            element_index: finding.element.map_or(UMBO_NONE, |element| element as i64),
            factor: finding.factor,
            difference: finding.difference,
            name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            text: text.as_ptr(),
        })
    }
}

/// Checks that a step does the same on one replica as on all. It is for tests, and for the first
/// step of a new trainer.
///
/// @param[in] gradients What the callback writes. NULL: only metrics are compared.
/// @param[in] batch A global batch that is not distributed yet: a nest of tensors, with 3 examples
///   or more along dimension 0.
/// @param[out] equivalence What was found; a mistake of the callback is not a failure of this
///   function.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a batch that cannot be split, gradients of
///   another strategy, or a tolerance out of range. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
///   in another strategy's scope, while the strategy is draining, or while `gradients` wait for an
///   apply. What umbo_strategy_run() returns, if the callback fails on the usual split of the
///   batch.
///
/// The check runs the callback on several splits of the batch, 6 times on each replica, and up to
/// 22 times if something differs. It compares gradients, weights and metrics, of
/// umbo_replica_context_add_metric() and of every umbo_metrics. With one replica it finds only what
/// a single run shows.
///
/// Nothing is committed: variables, `gradients`, optimizers and metrics are as before, and an apply
/// in the callback has no effect. Other gradients that it writes are as after a run that fails.
/// Copies of all gradients in float64 are kept, two for each replica and up to seven more; of
/// row-sparse ones they are as large as the table. docs/concepts.md says more.
///
/// Collective: each rank gives a batch of its own, of as many examples.
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
    gradients: *mut umbo_gradients,
    function: umbo_replica_fn,
    batch: *const umbo_value,
    user_data: *mut c_void,
    options: *const umbo_equivalence_options,
    equivalence: *mut *mut umbo_equivalence,
) {
    let options = CheckOptions {
        relative_tolerance: unless(
            options.relative_tolerance,
            UMBO_AUTO,
            "options.relative_tolerance",
        )?,
        absolute_tolerance: options.absolute_tolerance,
    };
    let call = replica_function(function, user_data);
    let report = equivalence::check(&strategy, &call, &batch, gradients.as_ref(), &options)?;
    equivalence.write(make(Arc::new(CheckedStep::new(report)))?);
}

/// Gets what a check has found as a whole.
#[c_call(result(info), borrow(equivalence))]
pub fn umbo_equivalence_get_info(
    equivalence: *const umbo_equivalence,
    info: *mut umbo_equivalence_info,
) {
    info.write(umbo_equivalence_info {
        holds: equivalence.report.equivalent.into(),
        text: equivalence.text.as_ptr(),
        finding_count: equivalence.findings.len() as i64,
        ..Default::default()
    });
}

/// Gets one finding.
///
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such finding.
#[c_call(result(finding), borrow(equivalence))]
pub fn umbo_equivalence_at(
    equivalence: *const umbo_equivalence,
    index: i64,
    finding: *mut umbo_equivalence_finding,
) {
    let findings = Listed {
        count: equivalence.findings.len(),
        elements: "the findings",
    };
    finding.write(at(index, "index", findings, |index| {
        equivalence.finding(index)
    })?);
}
