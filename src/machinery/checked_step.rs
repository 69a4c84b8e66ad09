//! A report on a checked step, with its texts as C has them.

use std::ffi::CString;

use super::c_string::c_string;
use umbo_core::equivalence::{Finding, Report, Subject};

/// A report with its texts as C has them.
pub struct CheckedStep {
    pub(crate) report: Report,
    pub(crate) text: CString,
    /// Name and text of each finding.
    pub(crate) findings: Vec<(Option<CString>, CString)>,
}

impl CheckedStep {
    pub(crate) fn new(report: Report) -> CheckedStep {
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
        CheckedStep {
            text: c_string(&report.text),
            findings,
            report,
        }
    }
}
