//! What is wrong with the gradient of a variable: `flaws` that any one split shows, and else how
//! several `splits` compare.

mod flaws;
mod splits;

use super::dry_run::{DryRunPart, Parts};
use super::evidence::Evidence;
use super::example_weights;
use super::report::{Finding, Subject, Verdict, place};
use super::vectors::{LinearCombination, VectorMeasure};
use crate::error::Result;
use crate::optimizer::LossReduction;
use crate::values::variable::Variable;

/// Adds a finding for each variable.
pub(super) fn judge(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let Some(gradients) = evidence.gradients else { return Ok(()) };
    let additive = example_weights::are_additive(evidence);
    for (index, variable) in evidence.variables().iter().enumerate() {
        let (declared, measure) = (gradients.loss_reduction(), evidence.measure(index, variable));
        let case = GradientCase { evidence, declared, additive, index, variable, measure };
        findings.push(case.judge()?);
    }
    Ok(())
}

/// One variable's gradient.
struct GradientCase<'a> {
    evidence: &'a Evidence<'a>,
    declared: LossReduction,
    /// The weights of parts add up.
    additive: bool,
    index: usize,
    variable: &'a Variable,
    measure: VectorMeasure<'a>,
}

impl GradientCase<'_> {
    fn judge(&self) -> Result<Finding> {
        let written = |parts: &Parts| parts.iter().any(|part| part.counted(self.index).is_some());
        if !self.evidence.runs().any(written) {
            let text = "no replica writes it, so the variable would not be updated";
            return Ok(self.finding(Verdict::NotWritten, text));
        }
        let flaw = self.not_overwritten().or_else(|| self.not_finite());
        if let Some(flaw) = flaw.or_else(|| self.not_repeatable()) {
            return Ok(flaw);
        }
        match &self.evidence.others {
            Some(others) => self.compare(others),
            None => {
                let text = "nothing to compare with on one replica";
                Ok(self.finding(Verdict::Equal, text))
            }
        }
    }

    fn finding(&self, verdict: Verdict, text: impl AsRef<str>) -> Finding {
        let name = self.variable.name().to_string();
        let text = format!("gradient of '{name}': {}", text.as_ref());
        Finding::new(Subject::Gradient { index: self.index, name }, verdict, text)
    }

    fn at_element(&self, mut finding: Finding, element: usize) -> Finding {
        finding.element = Some(element);
        finding
    }

    /// A place in the variable, in words.
    fn place(&self, element: usize) -> String {
        place(&self.variable.shape(), element)
    }

    /// A part's gradient times `factor`.
    fn term<'p>(&self, part: &'p DryRunPart, factor: f64) -> LinearCombination<'p> {
        LinearCombination::of(part.gradient(self.index).map(|gradient| (factor, gradient)))
    }
}
