//! Checks a metric.

use super::case::Case;
use super::cells;
use super::dry_run::{DryRunPart, Parts};
use super::evidence::{Evidence, Id, Others};
use super::report::{Finding, Verdict};
use super::vectors::Tolerance;
use umbo_strategy::context::metrics::{Added, Metric, What};
use umbo_tensor::DType;

/// The advice about a metric that is not added as a sum with its weight.
const REMEDY: &str = "add the sum over the examples of the part, with their number as the weight";

/// Adds a finding for each metric.
pub(super) fn judge(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    let mut known: Vec<Id> = Vec::new();
    for Added {
        owner,
        name,
        additions,
    } in evidence.runs().flatten().flat_map(|part| &part.metrics)
    {
        if known
            .iter()
            .any(|(number, known)| number == owner && known == name)
        {
            continue;
        }
        let id = (*owner, name.clone());
        let of_sum = matches!(additions, What::Sum(_));
        let case = Case {
            evidence,
            id: &id,
            of_sum,
        };
        findings.push(match *additions {
            What::Cells { near, .. } => cells::judge(&case, near),
            What::Mean(_) | What::Sum(_) => case.judge(),
        });
        known.push(id);
    }
}

impl Case<'_> {
    fn judge(&self) -> Finding {
        let Some(others) = &self.evidence.others else {
            return self.alone();
        };
        if let Some(text) = self.not_finite() {
            return self.finding(Verdict::NotFinite, text);
        }
        for (once, again) in self.evidence.repeated() {
            if !self.same(self.total(once), self.total(again)) {
                let a = self.value(self.total(once));
                let b = self.value(self.total(again));
                let text =
                    format!("two runs with the same examples differ: {a:.6e} and then {b:.6e}");
                return self.finding(Verdict::NotRepeatable, text);
            }
        }
        let whole = self.total(&others.whole);
        let split = self.total(&self.evidence.split);
        let uneven = self.total(&others.uneven);
        let first = (
            self.of(others.uneven.first()),
            self.of(others.first.first()),
        );
        if self.same(split, whole) && self.same(uneven, whole) && self.same(first.0, first.1) {
            return self.equal();
        }
        let expected = self.value(whole);
        let largest = |metric: Metric| (self.value(metric) - expected).abs() / expected.abs();
        let difference = largest(split).max(largest(uneven));
        self.explain(others).by(if difference.is_finite() {
            difference
        } else {
            0.0
        })
    }

    /// The additions as a sum and a weight. A sum has no weight.
    fn of(&self, part: Option<&DryRunPart>) -> Metric {
        match part.and_then(|part| self.what(part)) {
            Some(What::Mean(metric)) => *metric,
            Some(What::Sum(sum)) => Metric {
                sum: *sum,
                weight: 0.0,
            },
            Some(What::Cells { .. }) | None => Metric::default(),
        }
    }

    /// The value that is compared.
    fn value(&self, metric: Metric) -> f64 {
        if self.of_sum {
            metric.sum
        } else {
            metric.mean()
        }
    }

    /// The additions of all replicas together.
    fn total(&self, parts: &Parts) -> Metric {
        parts
            .iter()
            .map(|part| self.of(Some(part)))
            .fold(Metric::default(), |sum, one| Metric {
                sum: sum.sum + one.sum,
                weight: sum.weight + one.weight,
            })
    }

    fn tolerance(&self) -> Tolerance {
        // Most callbacks compute losses in float32, and few in float64.
        self.evidence.tolerance(DType::Float32)
    }

    /// Whether two metrics have the same mean or sum, or both have none.
    fn same(&self, left: Metric, right: Metric) -> bool {
        let a = self.value(left);
        let b = self.value(right);
        let of_examples = self.evidence.metric_magnitude(self.id);
        self.tolerance()
            .allows(a, b, a.abs().max(b.abs()).max(of_examples))
    }

    fn not_finite(&self) -> Option<String> {
        self.evidence.runs().find_map(|parts| {
            let is_wrong = |part: &&DryRunPart| {
                let Metric { sum, weight } = self.of(Some(part));
                !(sum.is_finite() && weight.is_finite())
            };
            let part = parts.iter().find(is_wrong)?;
            let Metric { sum, weight } = self.of(Some(part));
            let hint = match part.examples {
                0 => "; without examples add 0 with weight 0, or nothing",
                _ => "",
            };
            let examples = part.examples;
            Some(format!(
                "a part of {examples} examples adds {sum} with weight {weight}{hint}"
            ))
        })
    }

    /// The finding about weights that do not add up over the parts.
    fn wrong_weight(&self, numbers: &str, whole: Metric) -> Finding {
        let split = &self.evidence.split;
        let part = split.iter().find(|part| part.examples > 0);
        let weight = self.of(part).weight;
        let examples = part.map_or(0, |part| part.examples);
        let all = whole.weight;
        let text = format!(
            "{numbers}; it is added with weight {weight} for {examples} examples and with {all} \
             for all {}, so its mean is one over replicas, not examples; {REMEDY}",
            self.evidence.rows
        );
        self.finding(Verdict::WrongWeight, text)
    }

    fn explain(&self, others: &Others) -> Finding {
        let whole = self.total(&others.whole);
        let split = &self.evidence.split;
        let of_parts = [self.total(split), self.total(&others.uneven)];
        let first = self.of(others.uneven.first());
        let alone = self.of(others.first.first());
        let close = |a: f64, b: f64| self.tolerance().allows(a, b, a.abs().max(b.abs()));
        let additive = of_parts
            .iter()
            .all(|parts| close(parts.weight, whole.weight))
            && close(first.weight, alone.weight);
        let numbers = self.means(&of_parts, whole);
        if !additive {
            return self.wrong_weight(&numbers, whole);
        }
        let weight = |part: &DryRunPart| match self.of_sum {
            true => part.examples as f64,
            false => self.of(Some(part)).weight,
        };
        let weighted = |parts: &Parts| -> f64 {
            let weights: f64 = parts.iter().map(weight).sum();
            parts
                .iter()
                .map(|part| self.of(Some(part)).sum * weight(part))
                .sum::<f64>()
                / weights
        };
        if close(weighted(split), whole.sum) && close(weighted(&others.uneven), whole.sum) {
            let why = match self.of_sum {
                true => "the callback adds a mean over its examples, or one number for each \
                         replica; add the sum over the examples of the part"
                    .to_owned(),
                false => format!(
                    "the callback adds a mean with the number of its examples as the weight; \
                     {REMEDY}"
                ),
            };
            return self.finding(Verdict::WrongReduction, format!("{numbers}; {why}"));
        }
        if self.same(of_parts[0], whole) && self.same(of_parts[1], whole) {
            let text = format!(
                "the same however the batch is split, but {:.6} of some examples in it and {:.6} \
                 of the same examples as a batch of their own: it depends on what else is in the \
                 batch",
                self.value(first),
                self.value(alone)
            );
            return self.finding(Verdict::SizeDependent, text);
        }
        let text = format!(
            "{numbers}; it is not a sum over examples, or depends on which of them a replica has"
        );
        self.finding(Verdict::Different, text)
    }

    fn means(&self, of_parts: &[Metric; 2], whole: Metric) -> String {
        let [split, uneven] = of_parts;
        format!(
            "its {} is {:.6} on one replica, {:.6} on {}, and {:.6} on two with parts of other \
             sizes",
            if self.of_sum { "sum" } else { "mean" },
            self.value(whole),
            self.value(*split),
            self.evidence.split.len(),
            self.value(*uneven)
        )
    }
}
