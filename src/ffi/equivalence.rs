//! Checking that a step means the same on one replica and on many.

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, out, quietly};
use super::handle::{self, borrow, get, get_optional, make};
use super::object::{umbo_equivalence, umbo_gradients, umbo_strategy, umbo_value};
use super::options::{self, Extensible};
use super::replica_context::call_replica;
use super::run::{Passed, umbo_replica_fn};
use super::scope::present;
use super::status::umbo_status;
use super::text::c_string;
use crate::equivalence::{self, Finding, Options, Report, Subject, Verdict};
use crate::error::Error;
use crate::strategy::ReplicaContext;

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
pub type umbo_equivalence_verdict = i32;

/// The same, however the batch is split.
pub const UMBO_EQUIVALENCE_EQUAL: umbo_equivalence_verdict = 1;
/// No replica writes the gradient, so the variable would not be updated. Does not count against the
/// equivalence.
pub const UMBO_EQUIVALENCE_NOT_WRITTEN: umbo_equivalence_verdict = 2;
/// The callback fails when the batch is split in another way, with empty parts for instance.
pub const UMBO_EQUIVALENCE_CALLBACK_FAILED: umbo_equivalence_verdict = 3;
/// A replica does not submit its gradients.
pub const UMBO_EQUIVALENCE_NOT_SUBMITTED: umbo_equivalence_verdict = 4;
/// Weights do not follow the examples.
pub const UMBO_EQUIVALENCE_WRONG_WEIGHT: umbo_equivalence_verdict = 5;
/// A buffer that was viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
pub const UMBO_EQUIVALENCE_NOT_OVERWRITTEN: umbo_equivalence_verdict = 6;
/// Infinite or NaN.
pub const UMBO_EQUIVALENCE_NOT_FINITE: umbo_equivalence_verdict = 7;
/// Two runs with the same parts differ.
pub const UMBO_EQUIVALENCE_NOT_REPEATABLE: umbo_equivalence_verdict = 8;
/// The callback reduces over its examples in another way than was declared.
pub const UMBO_EQUIVALENCE_WRONG_REDUCTION: umbo_equivalence_verdict = 9;
/// Each replica contributes the gradient of the whole batch.
pub const UMBO_EQUIVALENCE_WHOLE_BATCH: umbo_equivalence_verdict = 10;
/// Replicas with different examples contribute the very same.
pub const UMBO_EQUIVALENCE_SAME_EXAMPLES: umbo_equivalence_verdict = 11;
/// Only some of the replicas that have examples write the gradient.
pub const UMBO_EQUIVALENCE_PARTLY_WRITTEN: umbo_equivalence_verdict = 12;
/// Each replica adds a term that is no example's, such as weight decay: that belongs to the optimizer.
pub const UMBO_EQUIVALENCE_TERM_PER_REPLICA: umbo_equivalence_verdict = 13;
/// Different, for a reason that the numbers do not tell; the text lists what is likely.
pub const UMBO_EQUIVALENCE_DIFFERENT: umbo_equivalence_verdict = 14;
/// The callback writes a variable through a view of it, which is for reading. The check puts the value
/// back.
pub const UMBO_EQUIVALENCE_VARIABLE_WRITTEN: umbo_equivalence_verdict = 15;
/// The same however a batch is split, but other for a smaller batch: the callback uses statistics of the
/// whole batch, or its size for more than the mean. Does not count against the equivalence.
pub const UMBO_EQUIVALENCE_SIZE_DEPENDENT: umbo_equivalence_verdict = 16;

const _: () = assert!(Verdict::Equal as i32 == UMBO_EQUIVALENCE_EQUAL);
const _: () = assert!(Verdict::NotWritten as i32 == UMBO_EQUIVALENCE_NOT_WRITTEN);
const _: () = assert!(Verdict::Failed as i32 == UMBO_EQUIVALENCE_CALLBACK_FAILED);
const _: () = assert!(Verdict::NotSubmitted as i32 == UMBO_EQUIVALENCE_NOT_SUBMITTED);
const _: () = assert!(Verdict::WrongWeight as i32 == UMBO_EQUIVALENCE_WRONG_WEIGHT);
const _: () = assert!(Verdict::NotOverwritten as i32 == UMBO_EQUIVALENCE_NOT_OVERWRITTEN);
const _: () = assert!(Verdict::NotFinite as i32 == UMBO_EQUIVALENCE_NOT_FINITE);
const _: () = assert!(Verdict::NotRepeatable as i32 == UMBO_EQUIVALENCE_NOT_REPEATABLE);
const _: () = assert!(Verdict::WrongReduction as i32 == UMBO_EQUIVALENCE_WRONG_REDUCTION);
const _: () = assert!(Verdict::WholeBatch as i32 == UMBO_EQUIVALENCE_WHOLE_BATCH);
const _: () = assert!(Verdict::SameExamples as i32 == UMBO_EQUIVALENCE_SAME_EXAMPLES);
const _: () = assert!(Verdict::PartlyWritten as i32 == UMBO_EQUIVALENCE_PARTLY_WRITTEN);
const _: () = assert!(Verdict::TermPerReplica as i32 == UMBO_EQUIVALENCE_TERM_PER_REPLICA);
const _: () = assert!(Verdict::Different as i32 == UMBO_EQUIVALENCE_DIFFERENT);
const _: () = assert!(Verdict::VariableWritten as i32 == UMBO_EQUIVALENCE_VARIABLE_WRITTEN);
const _: () = assert!(Verdict::SizeDependent as i32 == UMBO_EQUIVALENCE_SIZE_DEPENDENT);

/// What sums in another order differ by in the gradients' dtype.
pub const UMBO_TOLERANCE_OF_DTYPE: f64 = -1.0;

/// When two numbers count as the same. Start from UMBO_EQUIVALENCE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_equivalence_options {
    /// sizeof(umbo_equivalence_options).
    pub struct_size: usize,
    /// The largest difference, as a fraction of the terms that a gradient is the sum of; 0: the same
    /// bits. UMBO_TOLERANCE_OF_DTYPE, the default: what a sum over the batch may differ by in the gradients' dtype when it is added in another order:
    /// 0.0001 to 0.01 for float32, as the batch grows, 0.012 for float16, 0.026 for bfloat16.
    pub relative_tolerance: f64,
    /// A difference that never counts.
    pub absolute_tolerance: f64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_equivalence_options {}

impl Default for umbo_equivalence_options {
    fn default() -> Self {
        umbo_equivalence_options {
            struct_size: size_of::<Self>(),
            relative_tolerance: UMBO_TOLERANCE_OF_DTYPE,
            absolute_tolerance: 0.0,
        }
    }
}

/// One thing that was found. Start from UMBO_EQUIVALENCE_FINDING_INIT. The texts live as long as
/// the umbo_equivalence.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_equivalence_finding {
    /// sizeof(umbo_equivalence_finding).
    pub struct_size: usize,
    /// UMBO_EQUIVALENCE_OF_STEP, UMBO_EQUIVALENCE_OF_GRADIENT, UMBO_EQUIVALENCE_OF_METRIC or
    /// UMBO_EQUIVALENCE_OF_VARIABLE.
    pub subject: umbo_equivalence_subject,
    /// UMBO_EQUIVALENCE_EQUAL, or what is wrong.
    pub verdict: umbo_equivalence_verdict,
    /// The place of the variable among the gradients; -1 if it is about none, or has no place there.
    pub variable: i64,
    /// The element of the gradient or variable, in row-major order, that `text` speaks of; -1 if none.
    pub element: i64,
    /// How many times too large the gradient is on all replicas, less than 1 if it is too small; 0 if
    /// no single number says it.
    pub factor: f64,
    /// The largest difference that the split makes, as a fraction of the largest element.
    pub difference: f64,
    /// The name of the variable or metric; NULL if it is about the step.
    pub name: *const c_char,
    /// What was found and what to do about it.
    pub text: *const c_char,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_equivalence_finding {}

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
            verdict: finding.verdict as i32,
            variable,
            element: finding.element.map_or(-1, |element| element as i64),
            factor: finding.factor,
            difference: finding.difference,
            name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
            text: text.as_ptr(),
        })
    }
}

/// Finds out whether a step means the same on one replica and on all, and if not, why. For tests and
/// for the first step of a new trainer.
///
/// `function` and `user_data` are what umbo_strategy_run() is given. `batch` is a global batch, not
/// distributed yet: a tensor, or a tuple or struct of tensors, with 3 examples or more along dimension
/// 0. The check splits it over the replicas as umbo_strategy_distribute_dataset() does, runs the
/// callback, and compares with other splits: all examples on replica 0, which is what one replica
/// would do, two parts of different sizes, and a smaller batch. `gradients` are the ones that the
/// callback writes, or NULL: then only metrics are compared. `options` may be NULL.
///
/// Nothing is committed. Variables of the strategy, `gradients` with what they may have
/// accumulated, optimizers and metrics are as they were; an umbo_optimizer_apply() in the callback
/// does not take place. What the callback changes in the caller's own memory stays changed. Other
/// gradients than `gradients` that the callback writes, also where that is NULL, are as after a run
/// that failed: what an earlier run has contributed to them, and no umbo_optimizer_apply() has used
/// yet, is lost, and that apply fails. Give those gradients, or apply before the check.
///
/// The callback runs 6 times on each replica, up to 22 times if something differs, and finds 0 or NaN
/// in buffers of `gradients` that it views with UMBO_GRADIENT_OVERWRITE, which shows whether it writes all of
/// them. The check waits for its turn as a run does; runs of other threads may come in between, and
/// notice nothing.
///
/// The check keeps copies of all gradients in float64: two for each replica and five more, and another
/// two once something differs. Row-sparse gradients count with their whole table in each of them,
/// however few rows are added: for a large table that is many times the memory of its variable.
/// Of contributions that wait for an apply it keeps one copy more, but for rows, in their own dtype.
///
/// What is found: gradients that are reduced over the examples in another way than
/// `loss_reduction` declares, or divided by a fixed number; weights that do not follow the examples;
/// buffers that are not overwritten in full; replicas that read the whole batch, or all the same
/// rows; that do not submit, or fail, without examples; regularisers that count once a replica; results that are not repeatable, on one
/// replica or only on several; and metrics that are added with wrong sums or weights. Of what
/// depends on the split by design, such as the statistics of batch normalisation, the check can only
/// say that it does. With one replica there is nothing to compare, and only what one run shows is
/// found.
///
/// What the callback gets wrong is no failure of this function, but in `*equivalence`, a new handle;
/// see umbo_equivalence_holds() and umbo_equivalence_text().
///
/// INVALID_ARGUMENT: a batch that cannot be split, gradients of another strategy, tolerances below
/// 0. FAILED_PRECONDITION: in a replica's callback, in a merge call, in another strategy's scope, and
/// while the strategy is draining. RESOURCE_EXHAUSTED: no memory for the copies. If the callback fails
/// on the batch as it is usually split, its status, as from umbo_strategy_run().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_check_equivalence(
    strategy: *mut umbo_strategy,
    function: umbo_replica_fn,
    user_data: *mut c_void,
    batch: *const umbo_value,
    gradients: *mut umbo_gradients,
    options: *const umbo_equivalence_options,
    equivalence: *mut *mut umbo_equivalence,
) -> umbo_status {
    boundary("umbo_strategy_check_equivalence", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let equivalence = unsafe { out(equivalence, "equivalence") }?;
        // SAFETY: the caller gives NULL or options.
        let options = unsafe { options::read(options, "options") }?;
        let strategy = get(strategy, "strategy")?;
        let function = present(function, "function")?;
        let batch = get(batch, "batch")?;
        let gradients = get_optional(gradients, "gradients")?;
        let options = Options {
            relative_tolerance: match options.relative_tolerance {
                UMBO_TOLERANCE_OF_DTYPE => None,
                tolerance => Some(tolerance),
            },
            absolute_tolerance: options.absolute_tolerance,
        };
        let passed = Passed::new(user_data);
        let call = move |context: &ReplicaContext| {
            call_replica(context, |ctx, args, result| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(ctx, args, passed.get(), result) }
            })
        };
        let report = equivalence::check(&strategy, &call, &batch, gradients.as_ref(), &options)?;
        equivalence.write(make(Arc::new(CheckedStep::new(report)))?);
        Ok(())
    })
}

/// Whether an update and the metrics are the same on one replica and on all: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_holds(
    equivalence: *const umbo_equivalence,
    holds: *mut i32,
) -> umbo_status {
    boundary("umbo_equivalence_holds", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let holds = unsafe { out(holds, "holds") }?;
        let equivalent = |checked: &Arc<CheckedStep>| checked.report.equivalent;
        holds.write(i32::from(borrow(equivalence, "equivalence", equivalent)?));
        Ok(())
    })
}

/// All that was found as text: a line that says whether the equivalence holds and for which parts of
/// the batch, then one for each finding that is not UMBO_EQUIVALENCE_EQUAL. Lives as long as `equivalence`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_text(
    equivalence: *const umbo_equivalence,
    text: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_equivalence_text", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let text = unsafe { out(text, "text") }?;
        text.write(borrow(equivalence, "equivalence", |checked| checked.text.as_ptr())?);
        Ok(())
    })
}

/// How many findings there are: what is wrong with the step as a whole, then one for each gradient
/// and each metric, also if it is the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_count(
    equivalence: *const umbo_equivalence,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_equivalence_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        let findings = |checked: &Arc<CheckedStep>| checked.findings.len();
        // Gradients list their variables by an `i32`; so many metrics nobody adds.
        count.write(borrow(equivalence, "equivalence", findings)? as i64);
        Ok(())
    })
}

/// The finding at `index`. OUT_OF_RANGE if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_at(
    equivalence: *const umbo_equivalence,
    index: i64,
    finding: *mut umbo_equivalence_finding,
) -> umbo_status {
    boundary("umbo_equivalence_at", || {
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let finding = unsafe { options::out(finding, "finding") }?;
        let found = borrow(equivalence, "equivalence", |checked| {
            let found = usize::try_from(index).ok().and_then(|index| checked.finding(index));
            found.ok_or_else(|| {
                let problem = format!("{index}; there are {} findings", checked.findings.len());
                Error::out_of_range("index", problem)
            })
        })?;
        finding.write(found?);
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_retain(
    equivalence: *const umbo_equivalence,
    retained: *mut *mut umbo_equivalence,
) -> umbo_status {
    boundary("umbo_equivalence_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(equivalence, "equivalence", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_equivalence_release(equivalence: *const umbo_equivalence) {
    quietly("umbo_equivalence_release", || handle::release(equivalence, "equivalence"));
}
