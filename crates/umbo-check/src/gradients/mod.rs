//! Checks the gradient of a variable: for `flaws` that a single split shows, and if there are none,
//! by comparing several `splits`.

mod flaws;
mod splits;

use super::dry_run::{DryRunPart, Parts};
use super::evidence::{Evidence, Others};
use super::example_weights;
use super::report::{Finding, Subject, Verdict, place};
use super::vectors::{LinearCombination, VectorMeasure};
use umbo_base::error::Result;
use umbo_executor::computing;
use umbo_optim::LossReduction;
use umbo_tensor::values::variable::Variable;

/// Adds a finding for each variable.
pub(super) fn judge(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let Some(gradients) = evidence.gradients else {
        return Ok(());
    };
    let additive = example_weights::are_additive(evidence);
    let cases = evidence
        .variables()
        .iter()
        .enumerate()
        .map(|(index, variable)| GradientCase {
            evidence,
            declared: gradients.loss_reduction(),
            additive,
            index,
            variable,
            measure: evidence.measure(index, variable),
        });
    let cases: Vec<_> = cases.collect();
    // Differences are explained one by one, because an explanation uses other variables and the
    // batch, which may be on a device that must be waited for.
    let elements = cases.iter().map(|case| case.measure.elements).sum();
    for (case, judged) in cases
        .iter()
        .zip(computing::map(&cases, elements, GradientCase::judge)?)
    {
        findings.push(match judged {
            Ok(finding) => finding,
            Err(differences) => case.explained(&differences)?,
        });
    }
    Ok(())
}

/// The differences between batches that were split differently.
struct Differences<'a> {
    others: &'a Others,
    /// Whether the gradient depends on the split, and not only on the size of the batch.
    on_split: bool,
    /// The largest difference, as a fraction of the largest element.
    relative: f64,
}

/// The gradient of one variable.
struct GradientCase<'a> {
    evidence: &'a Evidence<'a>,
    declared: LossReduction,
    /// Whether the weights of parts add up.
    additive: bool,
    index: usize,
    variable: &'a Variable,
    measure: VectorMeasure<'a>,
}

impl<'a> GradientCase<'a> {
    fn judge(&self) -> Result<Finding, Differences<'a>> {
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
        let name = self.variable.name().as_str().to_owned();
        let text = format!("gradient of '{name}': {}", text.as_ref());
        Finding::new(
            Subject::Gradient {
                index: self.index,
                name,
            },
            verdict,
            text,
        )
    }

    /// A text for a position in the variable.
    fn place(&self, element: usize) -> String {
        place(&self.variable.shape(), element)
    }

    /// The gradient of a part, times `factor`.
    fn term<'p>(&self, part: &'p DryRunPart, factor: f64) -> LinearCombination<'p> {
        LinearCombination::of(part.gradient(self.index).map(|gradient| (factor, gradient)))
    }
}
