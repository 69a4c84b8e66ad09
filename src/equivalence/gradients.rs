//! What is wrong with the gradient of a variable.

use super::evidence::{Evidence, Others};
use super::rehearsal::{Part, Parts};
use super::report::{Finding, Subject, Verdict};
use super::vectors::{Difference, Measure, Proportion, Sum, difference, proportion};
use super::weights;
use crate::error::Result;
use crate::optimizer::LossReduction;
use crate::tensor::Shape;
use crate::values::variable::Variable;

/// A factor this close to 1 is none, and a residual this small is rounding.
const CLOSE: f64 = 0.005;

const REDUCTIONS: [LossReduction; 3] =
    [LossReduction::Sum, LossReduction::Mean, LossReduction::GlobalMean];

/// Adds a finding for each variable.
pub(super) fn judge(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let Some(gradients) = evidence.gradients else { return Ok(()) };
    let additive = weights::are_additive(evidence);
    for (index, variable) in evidence.variables().iter().enumerate() {
        let case = Case {
            evidence,
            declared: gradients.loss_reduction(),
            additive,
            index,
            variable,
            measure: evidence.measure(index, variable),
        };
        findings.push(case.judge()?);
    }
    Ok(())
}

/// One variable's gradient.
struct Case<'a> {
    evidence: &'a Evidence<'a>,
    declared: LossReduction,
    /// The weights of parts add up.
    additive: bool,
    index: usize,
    variable: &'a Variable,
    measure: Measure<'a>,
}

impl Case<'_> {
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
            None => Ok(self.finding(Verdict::Equal, "nothing to compare with on one replica")),
        }
    }

    fn finding(&self, verdict: Verdict, text: impl AsRef<str>) -> Finding {
        let name = self.variable.name().to_owned();
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

    /// The runs that were made twice, the second time with buffers full of NaN.
    fn twice(&self) -> impl Iterator<Item = (&Part, &Part, usize, Twice)> {
        let others = self.evidence.others.as_ref();
        let whole = others.map(|others| (&others.whole, &others.whole_again, Twice::Whole));
        let split = self.evidence.split_again.as_ref();
        let split = split.map(|again| (&self.evidence.split, again, Twice::Split));
        whole.into_iter().chain(split).flat_map(|(once, again, run)| {
            let parts = once.iter().zip(again).enumerate();
            parts.map(move |(replica, (once, again))| (once, again, replica, run))
        })
    }

    fn not_overwritten(&self) -> Option<Finding> {
        self.twice().find_map(|(once, again, replica, _)| {
            let (_, once) = once.counted(self.index)?;
            let (_, again) = again.counted(self.index)?;
            let stale = |&element: &usize| again[element].is_nan() && !once[element].is_nan();
            let count = (0..once.len()).filter(stale).count();
            let first = (0..once.len()).find(stale)?;
            let what = match count {
                1 => format!("{} of replica {replica}'s buffer is", self.place(first)),
                _ => format!(
                    "{} elements of replica {replica}'s buffer, {} first, are",
                    count,
                    self.place(first)
                ),
            };
            // Adding to a buffer of zeros leaves the sum, not writing to it leaves zero.
            let text = match (0..once.len()).filter(stale).any(|element| once[element] != 0.0) {
                true => format!(
                    "{what} added to, though it was viewed with UMBO_OVERWRITE, so that what an \
                     earlier step left there is added in; view it with UMBO_ADD, which zeroes it"
                ),
                false => format!(
                    "{what} not written, though it was viewed with UMBO_OVERWRITE, so that what an \
                     earlier step left there counts; write all elements, or view it with UMBO_ADD, \
                     which zeroes it"
                ),
            };
            Some(self.at_element(self.finding(Verdict::NotOverwritten, text), first))
        })
    }

    fn not_finite(&self) -> Option<Finding> {
        self.evidence.runs().find_map(|parts| {
            parts.iter().enumerate().find_map(|(replica, part)| {
                let (_, gradient) = part.counted(self.index)?;
                let element = gradient.iter().position(|element| !element.is_finite())?;
                let text = format!(
                    "{} is {} on replica {replica}, whose part has {} examples",
                    self.place(element),
                    gradient[element],
                    part.examples
                );
                Some(self.at_element(self.finding(Verdict::NotFinite, text), element))
            })
        })
    }

    fn not_repeatable(&self) -> Option<Finding> {
        self.twice().find_map(|(once, again, replica, run)| {
            let examples = once.examples.max(1) as f64;
            // In the units of a mean, if the callback does what is declared.
            let factor = match self.declared {
                LossReduction::Sum => 1.0 / examples,
                LossReduction::Mean => 1.0,
                LossReduction::GlobalMean => self.evidence.rows as f64 / examples,
            };
            let once = Sum::of(once.counted(self.index).map(|(_, gradient)| (factor, gradient)));
            let again = Sum::of(again.counted(self.index).map(|(_, gradient)| (factor, gradient)));
            let found = difference(&once, &again, &self.measure);
            if !found.exceeds {
                return None;
            }
            let (place, element) = (self.place(found.element), found.element);
            let (a, b) = (once.at(element) / factor, again.at(element) / factor);
            let cause = match run {
                Twice::Split if self.evidence.others.is_some() => {
                    "this happens on several replicas and not on one: they seem to write memory that \
                     they share, such as a scratch buffer or a sum in the user data"
                }
                _ => {
                    "random numbers that are not keyed by example, or state that one run leaves for \
                     the next"
                }
            };
            let text = format!(
                "two runs with the same examples differ: {place} of replica {replica} is {a:.6e} and \
                 then {b:.6e}; {cause}"
            );
            let mut finding = self.at_element(self.finding(Verdict::NotRepeatable, text), element);
            finding.difference = found.relative;
            Some(finding)
        })
    }

    fn compare(&self, others: &Others) -> Result<Finding> {
        let whole = self.update(&others.whole);
        let mut found: Vec<Difference> = Vec::new();
        for parts in [&self.evidence.split, &others.uneven] {
            found.push(difference(&self.update(parts), &whole, &self.measure));
        }
        let smaller = self.smaller_batch(others, self.declared);
        let differs = found.iter().any(|found| found.exceeds);
        let mut finding = match (differs, smaller.exceeds) {
            (false, false) => self.finding(Verdict::Equal, "the same"),
            _ => self.explain(others, differs)?,
        };
        found.push(smaller);
        finding.difference = found.iter().fold(0.0, |most, found| most.max(found.relative));
        Ok(finding)
    }

    /// What an apply would use.
    fn update<'a>(&self, parts: &'a Parts) -> Sum<'a> {
        let total = weights::total(parts);
        if total == 0.0 {
            return Sum::default();
        }
        let divisor = self.declared.divisor(total);
        let counted = parts.iter().filter_map(|part| part.counted(self.index));
        Sum::of(
            counted.map(|(weight, gradient)| (self.declared.factor(weight) / divisor, gradient)),
        )
    }

    /// How many examples, or what weighs them, a part has.
    fn count(&self, part: &Part) -> f64 {
        match self.additive {
            true => part.weight.unwrap_or(0.0),
            false => part.examples as f64,
        }
    }

    /// The mean over all examples, if the callback reduces over them as `written` says.
    fn mean<'a>(&self, parts: &'a Parts, written: LossReduction) -> Sum<'a> {
        let total: f64 = parts.iter().map(|part| self.count(part)).sum();
        let with_examples = parts.iter().filter(|part| part.examples > 0);
        Sum::of(with_examples.filter_map(|part| {
            let factor = written.factor(self.count(part)) / written.divisor(total);
            Some((factor, part.gradient(self.index)?))
        }))
    }

    /// How far the mean over the first examples alone is from what they contribute to the whole
    /// batch, if the callback reduces as `written` says.
    fn smaller_batch(&self, others: &Others, written: LossReduction) -> Difference {
        let total: f64 = others.uneven.iter().map(|part| self.count(part)).sum();
        let Some((part, alone)) = others.uneven.first().zip(others.first.first()) else {
            return Difference::default();
        };
        let count = self.count(part);
        if count == 0.0 {
            return Difference::default();
        }
        let factor = |total: f64| match written {
            LossReduction::Sum => 1.0 / count,
            LossReduction::Mean => 1.0,
            LossReduction::GlobalMean => total / count,
        };
        let alone = self.term(alone, factor(count));
        difference(&alone, &self.term(part, factor(total)), &self.measure)
    }

    /// A part's gradient times `factor`.
    fn term<'p>(&self, part: &'p Part, factor: f64) -> Sum<'p> {
        Sum::of(part.gradient(self.index).map(|gradient| (factor, gradient)))
    }

    /// Whether all that was seen is as if the callback reduced as `written` says.
    fn fits(&self, others: &Others, written: LossReduction) -> bool {
        let whole = self.mean(&others.whole, written);
        let same = |parts| !difference(&self.mean(parts, written), &whole, &self.measure).exceeds;
        same(&self.evidence.split)
            && same(&others.uneven)
            && !self.smaller_batch(others, written).exceeds
    }

    /// What explains that the gradient depends on the split (`differs`), or else on the size of the
    /// batch.
    fn explain(&self, others: &Others, differs: bool) -> Result<Finding> {
        if !self.additive && self.fits(others, self.declared) {
            let text = "differs, because the weights do not follow the examples";
            return Ok(self.finding(Verdict::WrongWeight, text));
        }
        let mut candidates = REDUCTIONS.into_iter().filter(|&other| other != self.declared);
        let written = candidates.find(|&written| self.fits(others, written));
        // The mean of what all replicas computed from the whole batch is that, too.
        if matches!(written, None | Some(LossReduction::Mean))
            && let Some(finding) = self.whole_batch(others)?
        {
            return Ok(finding);
        }
        if let Some(written) = written {
            return Ok(self.wrong_reduction(others, written));
        }
        let found = self.same_examples().or_else(|| self.partly_written());
        Ok(found.unwrap_or_else(|| self.different(others, differs)))
    }

    /// Whether each part's gradient is that of the whole batch.
    fn is_of_whole_batch(&self, others: &Others) -> bool {
        let Some(whole) = others.whole.first() else { return false };
        let whole = self.term(whole, 1.0);
        let parts = self.evidence.split.iter().filter(|part| part.examples > 0);
        let mut parts = parts.chain(others.first.first());
        parts.all(|part| !difference(&self.term(part, 1.0), &whole, &self.measure).exceeds)
    }

    fn whole_batch(&self, others: &Others) -> Result<Option<Finding>> {
        // One variable may have the same gradient for all examples, but hardly all variables, unless
        // the examples are all the same.
        let mut variables = self.evidence.variables().iter().enumerate();
        let of_whole_batch = variables.all(|(index, variable)| {
            let measure = self.evidence.measure(index, variable);
            Case { index, variable, measure, ..*self }.is_of_whole_batch(others)
        });
        let several = self.evidence.split.iter().filter(|part| part.examples > 0).count() > 1;
        if !several || !of_whole_batch || self.evidence.has_equal_examples()? {
            return Ok(None);
        }
        let right = self.update(&others.whole);
        let text = format!(
            "{}each replica contributes the gradient of the whole batch, whatever its part is; compute \
             from the callback's arguments, not from memory that all replicas see",
            self.on_all_replicas(self.proportion(&right))
        );
        Ok(Some(self.with_factor(self.finding(Verdict::WholeBatch, text), &right)))
    }

    /// Replicas with different parts that have the same gradient.
    fn same_examples(&self) -> Option<Finding> {
        let parts = &self.evidence.split;
        let (first, other) = (1..parts.len()).find_map(|other| {
            let same = |part: &Part| {
                let (a, b) = (part.gradient(self.index), parts[other].gradient(self.index));
                let not_zero = a.is_some_and(|a| a.iter().any(|&element| element != 0.0));
                part.examples > 0 && part.examples == parts[other].examples && a == b && not_zero
            };
            Some((parts[..other].iter().position(same)?, other))
        })?;
        let text = format!(
            "replicas {first} and {other} have different examples and the very same gradient: they seem \
             to read the same rows; a part is in the callback's arguments, and where it begins in the \
             batch is in umbo_replica_context_batch_position"
        );
        Some(self.finding(Verdict::SameExamples, text))
    }

    fn wrong_reduction(&self, others: &Others, written: LossReduction) -> Finding {
        let right = self.mean(&others.whole, written);
        let (does, name) = match written {
            LossReduction::Sum => ("writes a sum over its examples", "UMBO_LOSS_SUM"),
            LossReduction::Mean => ("writes a mean over its examples", "UMBO_LOSS_MEAN"),
            LossReduction::GlobalMean => {
                ("divides by the examples of the global batch", "UMBO_LOSS_GLOBAL_MEAN")
            }
        };
        let (declared, remedy) = match self.declared {
            LossReduction::Sum => ("UMBO_LOSS_SUM", "do not divide"),
            LossReduction::Mean => ("UMBO_LOSS_MEAN", "divide by the examples of its own part"),
            LossReduction::GlobalMean => (
                "UMBO_LOSS_GLOBAL_MEAN",
                "divide by the examples of this very batch (umbo_replica_context_batch_position)",
            ),
        };
        let fixed = match written {
            LossReduction::Sum => {
                ". A callback that divides by a fixed number, such as the rows of a full part, looks \
                 the same"
            }
            _ => "",
        };
        let text = format!(
            "{}the callback {does}, {declared} is declared; declare {name}, or {remedy}{fixed}",
            self.on_all_replicas(self.proportion(&right))
        );
        self.with_factor(self.finding(Verdict::WrongReduction, text), &right)
    }

    /// How the gradient on all replicas relates to the right one.
    fn proportion(&self, right: &Sum<'_>) -> Option<Proportion> {
        proportion(&self.update(&self.evidence.split), right, self.measure.elements)
    }

    fn on_all_replicas(&self, proportion: Option<Proportion>) -> String {
        let replicas = self.evidence.split.len();
        match proportion {
            Some(Proportion { factor, residual }) if factor > 0.0 && residual < 0.5 => {
                let about = if residual > CLOSE { "about " } else { "" };
                match factor {
                    factor if (factor - 1.0).abs() < CLOSE => {
                        format!("right on {replicas} replicas by the chance of this batch: ")
                    }
                    factor if factor > 1.0 => format!("{about}{factor:.3} times too large: "),
                    factor => format!("{about}{:.3} times too small: ", 1.0 / factor),
                }
            }
            _ => String::new(),
        }
    }

    fn with_factor(&self, mut finding: Finding, right: &Sum<'_>) -> Finding {
        let proportion = self.proportion(right).filter(|proportion| proportion.residual < 0.5);
        finding.factor = proportion.map_or(0.0, |proportion| proportion.factor);
        finding
    }

    /// Some of the replicas that have examples wrote the gradient, and others did not.
    fn partly_written(&self) -> Option<Finding> {
        let parts = || self.evidence.split.iter().enumerate().filter(|(_, part)| part.examples > 0);
        let names = |wrote: bool| {
            let those = parts().filter(|(_, part)| part.gradient(self.index).is_some() == wrote);
            those.map(|(replica, _)| replica.to_string()).collect::<Vec<_>>().join(", ")
        };
        let (wrote, did_not) = (names(true), names(false));
        if wrote.is_empty() || did_not.is_empty() {
            return None;
        }
        let text = format!(
            "replicas {did_not} have examples and do not write it, so that it counts as zero from them; \
             only replicas {wrote} do"
        );
        Some(self.finding(Verdict::PartlyWritten, text))
    }

    fn different(&self, others: &Others, differs: bool) -> Finding {
        if !differs {
            let found = self.smaller_batch(others, self.declared);
            let text = format!(
                "the same examples contribute something else to a smaller batch, at {} first of all; \
                 the callback seems to use the size of the batch, or of a part, for more than the mean",
                self.place(found.element)
            );
            return self.at_element(self.finding(Verdict::Different, text), found.element);
        }
        let whole = self.update(&others.whole);
        let (split, uneven) = (self.update(&self.evidence.split), self.update(&others.uneven));
        let usual = difference(&split, &whole, &self.measure);
        let (parts, several, found) = match usual.exceeds {
            true => (&self.evidence.split, &split, usual),
            false => (&others.uneven, &uneven, difference(&uneven, &whole, &self.measure)),
        };
        let sizes = parts.iter().filter(|part| part.examples > 0);
        let sizes: Vec<_> = sizes.map(|part| part.examples.to_string()).collect();
        let text = format!(
            "{} is {:.6e} on one replica and {:.6e} with {} examples on {}; likely reasons: statistics \
             over the examples of one replica (batch normalisation, contrastive losses), random numbers \
             keyed by the row in the part and not by the place in the batch \
             (umbo_replica_context_batch_position), other rows read than those of the part",
            self.place(found.element),
            whole.at(found.element),
            several.at(found.element),
            sizes.join(" + "),
            sizes.len()
        );
        self.at_element(self.finding(Verdict::Different, text), found.element)
    }
}

/// Which run was made twice.
#[derive(Clone, Copy)]
enum Twice {
    Whole,
    Split,
}

/// An element's place in a tensor of this shape, in words.
fn place(shape: &Shape, element: usize) -> String {
    let mut rest = element;
    let mut indices: Vec<String> = Vec::new();
    for &size in shape.iter().rev() {
        indices.push((rest % size.max(1)).to_string());
        rest /= size.max(1);
    }
    indices.reverse();
    match indices.is_empty() {
        true => "its value".into(),
        false => format!("element [{}]", indices.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_row_major() {
        assert_eq!(place(&Shape::new(&[2, 3]).unwrap(), 5), "element [1, 2]");
        assert_eq!(place(&Shape::new(&[7]).unwrap(), 5), "element [5]");
        assert_eq!(place(&Shape::scalar(), 0), "its value");
    }
}
