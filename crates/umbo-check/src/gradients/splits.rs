//! Compares differently split batches, and finds the mistake that explains a difference.

use super::{Differences, GradientCase};
use crate::dry_run::{DryRunPart, Parts};
use crate::evidence::Others;
use crate::example_weights;
use crate::report::{Finding, Verdict};
use crate::vectors::{
    Distance, LinearCombination, Proportion, VectorMeasure, difference, proportion,
};
use umbo_base::error::Result;
use umbo_optim::LossReduction;

/// A factor this close to 1 counts as 1, and a residual this small counts as rounding.
const CLOSE: f64 = 0.005;

/// The range of differences that may be rounding after all.
const SMALL: (f64, f64) = (0.01, 0.1);

const REDUCTIONS: [LossReduction; 3] = [
    LossReduction::Sum,
    LossReduction::Mean,
    LossReduction::GlobalMean,
];

/// The factor that makes a mean over `count` examples of a loss that was reduced like this, if the
/// global batch has `total` examples.
pub(super) fn to_mean(reduction: LossReduction, total: f64, count: f64) -> f64 {
    match reduction {
        LossReduction::Sum => 1.0 / count,
        LossReduction::Mean => 1.0,
        LossReduction::GlobalMean => total / count,
    }
}

impl GradientCase<'_> {
    pub(super) fn compare<'o>(&self, others: &'o Others) -> Result<Finding, Differences<'o>> {
        let whole = self.update(&others.whole);
        let compared = [&self.evidence.split, &others.uneven]
            .map(|parts| difference(&self.update(parts), &whole, &self.measure));
        let smaller = self.smaller_batch(others, self.declared);
        let on_split = compared.iter().any(|found| found.exceeds);
        let all = compared.iter().chain([&smaller]);
        let relative = all.fold(0.0, |most, found| found.relative.max(most));
        if on_split || smaller.exceeds {
            return Err(Differences {
                others,
                on_split,
                relative,
            });
        }
        let finding = match self.certain_reduction(others).filter(|_| self.additive) {
            Some(written) => self.wrong_reduction(others, written),
            None => self.finding(Verdict::Equal, "the same"),
        };
        Ok(finding.by(relative))
    }

    /// The finding with the mistake that explains these differences.
    pub(super) fn explained(&self, differences: &Differences<'_>) -> Result<Finding> {
        let finding = self.explain(differences.others, differences.on_split)?;
        Ok(finding.by(differences.relative))
    }

    /// The gradient that an apply would use.
    fn update<'a>(&self, parts: &'a Parts) -> LinearCombination<'a> {
        let total = example_weights::total(parts);
        if total == 0.0 {
            return LinearCombination::default();
        }
        let divisor = self.declared.divisor(total);
        let counted = parts.iter().filter_map(|part| part.counted(self.index));
        LinearCombination::of(
            counted.map(|(weight, gradient)| (self.declared.factor(weight) / divisor, gradient)),
        )
    }

    /// The number of examples of a part, or its weight if weights are additive.
    fn count(&self, part: &DryRunPart) -> f64 {
        match self.additive {
            true => part.weight.unwrap_or(0.0),
            false => part.examples as f64,
        }
    }

    /// The mean over all examples, if the callback reduces over them with the reduction `written`.
    fn mean<'a>(&self, parts: &'a Parts, written: LossReduction) -> LinearCombination<'a> {
        let total: f64 = parts.iter().map(|part| self.count(part)).sum();
        let with_examples = parts.iter().filter(|part| part.examples > 0);
        LinearCombination::of(with_examples.filter_map(|part| {
            let factor = written.factor(self.count(part)) / written.divisor(total);
            Some((factor, part.gradient(self.index)?))
        }))
    }

    /// The distance between the mean over the first examples alone and their contribution to the
    /// whole batch, if the callback reduces with the reduction `written`.
    fn smaller_batch(&self, others: &Others, written: LossReduction) -> Distance {
        let total: f64 = others.uneven.iter().map(|part| self.count(part)).sum();
        let Some((part, alone)) = others.uneven.first().zip(others.first.first()) else {
            return Distance::default();
        };
        let count = self.count(part);
        if count == 0.0 {
            return Distance::default();
        }
        let alone = self.term(alone, to_mean(written, count, count));
        difference(
            &alone,
            &self.term(part, to_mean(written, total, count)),
            &self.measure,
        )
    }

    /// Whether all runs fit a callback that reduces with the reduction `written`.
    fn fits(&self, others: &Others, written: LossReduction) -> bool {
        let whole = self.mean(&others.whole, written);
        let same = |parts| !difference(&self.mean(parts, written), &whole, &self.measure).exceeds;
        same(&self.evidence.split)
            && same(&others.uneven)
            && !self.smaller_batch(others, written).exceeds
    }

    /// A reduction other than the declared one that explains all runs, if there is one.
    fn other_reduction(&self, others: &Others) -> Option<LossReduction> {
        let mut candidates = REDUCTIONS
            .into_iter()
            .filter(|&other| other != self.declared);
        candidates.find(|&written| self.fits(others, written))
    }

    /// The same reduction, found without the magnitudes of single examples. If the callback wrongly
    /// divides by many examples, these magnitudes make every difference look like rounding.
    /// Real rounding does not fit any reduction this closely.
    fn certain_reduction(&self, others: &Others) -> Option<LossReduction> {
        let strict = GradientCase {
            measure: VectorMeasure {
                examples: None,
                ..self.measure
            },
            ..*self
        };
        match strict.fits(others, self.declared) {
            true => None,
            false => strict.other_reduction(others),
        }
    }

    /// The mistake that explains why the gradient depends on the split (`differs`), or if not, on
    /// the size of the batch.
    fn explain(&self, others: &Others, differs: bool) -> Result<Finding> {
        if !self.additive && self.fits(others, self.declared) {
            let text = "differs, because the weights do not follow the examples";
            return Ok(self.finding(Verdict::WrongWeight, text));
        }
        let written = self
            .certain_reduction(others)
            .or_else(|| self.other_reduction(others));
        // If every replica computes the gradient of the whole batch, their mean is the gradient of
        // the whole batch, too.
        if matches!(written, None | Some(LossReduction::Mean))
            && let Some(finding) = self.whole_batch(others)?
        {
            return Ok(finding);
        }
        if let Some(written) = written {
            return Ok(self.wrong_reduction(others, written));
        }
        if let Some(finding) = self.same_examples()? {
            return Ok(finding);
        }
        let found = self
            .partly_written()
            .or_else(|| self.term_per_replica(others));
        Ok(found.unwrap_or_else(|| self.different(others, differs)))
    }

    /// Whether each part's gradient is that of the whole batch.
    fn is_of_whole_batch(&self, others: &Others) -> bool {
        let Some(whole) = others.whole.first() else {
            return false;
        };
        let whole = self.term(whole, 1.0);
        let parts = self.evidence.split.iter().filter(|part| part.examples > 0);
        let mut parts = parts.chain(others.first.first());
        parts.all(|part| !difference(&self.term(part, 1.0), &whole, &self.measure).exceeds)
    }

    fn whole_batch(&self, others: &Others) -> Result<Option<Finding>> {
        // One variable may have the same gradient for all examples, but it is unlikely that all
        // variables do, unless the examples are all equal.
        let mut variables = self.evidence.variables().iter().enumerate();
        let of_whole_batch = variables.all(|(index, variable)| {
            let measure = self.evidence.measure(index, variable);
            GradientCase {
                index,
                variable,
                measure,
                ..*self
            }
            .is_of_whole_batch(others)
        });
        let several = self
            .evidence
            .split
            .iter()
            .filter(|part| part.examples > 0)
            .count()
            > 1;
        if !several || !of_whole_batch || self.evidence.has_equal_examples()? {
            return Ok(None);
        }
        let right = self.update(&others.whole);
        let text = format!(
            "{}each replica contributes the gradient of the whole batch, whatever its part is; \
             compute from the callback's arguments, not from memory that all replicas see",
            self.on_all_replicas(self.proportion(&right))
        );
        Ok(Some(self.with_factor(
            self.finding(Verdict::WholeBatch, text),
            &right,
        )))
    }

    /// A finding about replicas with different parts that have the same gradient.
    fn same_examples(&self) -> Result<Option<Finding>> {
        let parts = &self.evidence.split;
        let found = (1..parts.len()).find_map(|other| {
            let same = |part: &DryRunPart| {
                let a = part.gradient(self.index);
                let b = parts[other].gradient(self.index);
                let not_zero = a.is_some_and(|a| a.iter().any(|&element| element != 0.0));
                part.examples > 0 && part.examples == parts[other].examples && a == b && not_zero
            };
            Some((parts[..other].iter().position(same)?, other))
        });
        let Some((first, other)) = found else {
            return Ok(None);
        };
        if self.evidence.has_equal_examples()? {
            return Ok(None);
        }
        let text = format!(
            "replicas {first} and {other} have different examples and the very same gradient: \
             they seem to read the same rows; a part is in the callback's arguments, and where it \
             begins in the batch is what the context says of its batch position"
        );
        Ok(Some(self.finding(Verdict::SameExamples, text)))
    }

    fn wrong_reduction(&self, others: &Others, written: LossReduction) -> Finding {
        let right = self.mean(&others.whole, written);
        let (does, name) = match written {
            LossReduction::Sum => ("writes a sum over its examples", "SUM"),
            LossReduction::Mean => ("writes a mean over its examples", "MEAN"),
            LossReduction::GlobalMean => {
                ("divides by the examples of the global batch", "GLOBAL_MEAN")
            }
        };
        let (declared, remedy) = match self.declared {
            LossReduction::Sum => ("SUM", "do not divide"),
            LossReduction::Mean => ("MEAN", "divide by the examples of its own part"),
            LossReduction::GlobalMean => (
                "GLOBAL_MEAN",
                "divide by the examples of this very batch, which the context's batch position \
                 says",
            ),
        };
        let fixed = match written {
            LossReduction::Sum => {
                ". A callback that divides by a fixed number, such as the rows of a full part, \
                 looks the same"
            }
            LossReduction::Mean | LossReduction::GlobalMean => "",
        };
        let text = format!(
            "{}the callback {does}, but the loss reduction {declared} is declared; declare {name}, \
             or {remedy}{fixed}",
            self.on_all_replicas(self.proportion(&right))
        );
        self.with_factor(self.finding(Verdict::WrongReduction, text), &right)
    }

    /// The proportion of the gradient on all replicas to the right one.
    fn proportion(&self, right: &LinearCombination<'_>) -> Option<Proportion> {
        proportion(
            &self.update(&self.evidence.split),
            right,
            self.measure.elements,
        )
    }

    fn on_all_replicas(&self, proportion: Option<Proportion>) -> String {
        let replicas = self.evidence.split.len();
        match proportion {
            Some(Proportion { factor, residual }) if factor > 0.0 && residual < 0.5 => {
                let about = if residual > CLOSE { "about " } else { "" };
                match factor {
                    factor if (factor - 1.0).abs() < CLOSE => {
                        format!("right on {replicas} replicas only by chance: ")
                    }
                    factor if factor > 1.0 => format!("{about}{factor:.3} times too large: "),
                    factor => format!("{about}{:.3} times too small: ", 1.0 / factor),
                }
            }
            _ => String::new(),
        }
    }

    fn with_factor(&self, mut finding: Finding, right: &LinearCombination<'_>) -> Finding {
        let proportion = self
            .proportion(right)
            .filter(|proportion| proportion.residual < 0.5);
        finding.factor = proportion.map_or(0.0, |proportion| proportion.factor);
        finding
    }

    /// A finding if some of the replicas that have examples wrote the gradient, and others did not.
    fn partly_written(&self) -> Option<Finding> {
        let parts = || {
            self.evidence
                .split
                .iter()
                .enumerate()
                .filter(|(_, part)| part.examples > 0)
        };
        let names = |wrote: bool| {
            let those = parts().filter(|(_, part)| part.gradient(self.index).is_some() == wrote);
            those
                .map(|(replica, _)| replica.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let wrote = names(true);
        let did_not = names(false);
        if wrote.is_empty() || did_not.is_empty() {
            return None;
        }
        let text = format!(
            "replicas {did_not} have examples and do not write it, so that it is zero for them; \
             only replicas {wrote} do"
        );
        Some(self.finding(Verdict::PartlyWritten, text))
    }

    /// A finding about a term that is added once for each part with examples.
    fn term_per_replica(&self, others: &Others) -> Option<Finding> {
        // If a term is added once on one replica, twice on two and so on, it is the difference
        // between the sum of the parts and the whole, divided by the number of additional
        // parts.
        let more_than_whole = |parts: &Parts| {
            parts
                .iter()
                .filter(|part| part.examples > 0)
                .count()
                .checked_sub(1)
        };
        let usual = more_than_whole(&self.evidence.split).filter(|&more| more > 0)?;
        let two = more_than_whole(&others.uneven).filter(|&more| more > 0)?;
        // A mean of means contains the term once.
        if self.declared == LossReduction::Mean {
            return None;
        }
        let usual = self.excess(&self.evidence.split, others, usual);
        let two = self.excess(&others.uneven, others, two);
        let found = difference(&usual, &LinearCombination::default(), &self.measure);
        if !found.exceeds || difference(&usual, &two, &self.measure).exceeds {
            return None;
        }
        let element = found.element;
        let text = format!(
            "each replica adds a term that does not depend on its examples, so that it is added \
             once for each replica with examples: {:.4e} in {}; weight decay and other \
             regularisers belong to the optimizer (its weight decay)",
            usual.at(element) * self.unit(),
            self.place(element)
        );
        Some(self.finding(Verdict::TermPerReplica, text).at(element))
    }

    /// The amount that each additional part has added, in the units of a mean.
    fn excess<'a>(
        &self,
        parts: &'a Parts,
        others: &'a Others,
        more: usize,
    ) -> LinearCombination<'a> {
        let factor = 1.0 / (more as f64 * self.unit());
        let parts = parts
            .iter()
            .filter(|part| part.examples > 0)
            .map(|part| (factor, part));
        let whole = others.whole.first().map(|part| (-factor, part));
        let terms = parts.chain(whole);
        LinearCombination::of(
            terms.filter_map(|(factor, part)| Some((factor, part.gradient(self.index)?))),
        )
    }

    /// The divisor that makes a mean over examples from the declared reduction.
    fn unit(&self) -> f64 {
        match self.declared {
            LossReduction::Sum => self.evidence.rows as f64,
            LossReduction::Mean | LossReduction::GlobalMean => 1.0,
        }
    }

    fn different(&self, others: &Others, differs: bool) -> Finding {
        if !differs {
            let found = self.smaller_batch(others, self.declared);
            let text = format!(
                "the same however the batch is split, but the same examples contribute something \
                 else to a smaller batch, at {} first of all: statistics of the whole batch, such \
                 as batch normalisation that all replicas share, or the size of the batch used \
                 for more than the mean. That does not depend on the number of replicas; the last \
                 batch of an epoch, if it is smaller, is treated otherwise on one replica too",
                self.place(found.element)
            );
            return self.finding(Verdict::SizeDependent, text).at(found.element);
        }
        let whole = self.update(&others.whole);
        let split = self.update(&self.evidence.split);
        let uneven = self.update(&others.uneven);
        let usual = difference(&split, &whole, &self.measure);
        let (parts, several, found) = match usual.exceeds {
            true => (&self.evidence.split, &split, usual),
            false => (
                &others.uneven,
                &uneven,
                difference(&uneven, &whole, &self.measure),
            ),
        };
        let small = (4.0 * self.measure.tolerance.relative).clamp(SMALL.0, SMALL.1);
        let rounding = match found.relative < small {
            true => "; or rounding, for which there is relative_tolerance",
            false => "",
        };
        let sizes = parts.iter().filter(|part| part.examples > 0);
        let sizes: Vec<_> = sizes.map(|part| part.examples.to_string()).collect();
        let text = format!(
            "{} is {:.6e} on one replica and {:.6e} with {} examples on {}; likely reasons: \
             statistics over the examples of one replica (batch normalisation, contrastive \
             losses), clipping before the sum over replicas, random numbers keyed by the row in \
             the part and not by the place in the batch (the batch position of the context says \
             it), other rows read than those of the part{rounding}",
            self.place(found.element),
            whole.at(found.element),
            several.at(found.element),
            sizes.join(" + "),
            sizes.len()
        );
        self.finding(Verdict::Different, text).at(found.element)
    }
}
