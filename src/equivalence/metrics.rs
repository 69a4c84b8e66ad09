//! What is wrong with a metric.

use super::dry_run::{Part, Parts};
use super::evidence::{Evidence, Others};
use super::report::{Finding, Subject, Verdict};
use super::vectors::Tolerance;
use crate::strategy::metrics::Metric;
use crate::tensor::DType;

/// Adds a finding for each metric.
pub(super) fn judge(evidence: &Evidence<'_>, findings: &mut Vec<Finding>) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in evidence.runs().flatten().flat_map(|part| &part.metrics) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        findings.push(Case { evidence, name }.judge());
    }
}

/// One metric.
struct Case<'a> {
    evidence: &'a Evidence<'a>,
    name: &'a str,
}

impl Case<'_> {
    fn judge(&self) -> Finding {
        let Some(others) = &self.evidence.others else {
            return self.finding(Verdict::Equal, "nothing to compare with on one replica");
        };
        if let Some(text) = self.not_finite() {
            return self.finding(Verdict::NotFinite, text);
        }
        let runs = [
            (&others.whole, Some(&others.whole_again)),
            (&self.evidence.split, self.evidence.split_again.as_ref()),
        ];
        for (once, again) in runs {
            if let Some(again) = again
                && !self.same(self.total(once), self.total(again))
            {
                let (a, b) = (self.total(once).mean(), self.total(again).mean());
                let text =
                    format!("two runs with the same examples differ: {a:.6e} and then {b:.6e}");
                return self.finding(Verdict::NotRepeatable, text);
            }
        }
        let whole = self.total(&others.whole);
        let (split, uneven) = (self.total(&self.evidence.split), self.total(&others.uneven));
        let first = (self.of(others.uneven.first()), self.of(others.first.first()));
        if self.same(split, whole) && self.same(uneven, whole) && self.same(first.0, first.1) {
            return self.finding(Verdict::Equal, "the same");
        }
        let mut finding = self.explain(others);
        let largest = |metric: Metric| (metric.mean() - whole.mean()).abs() / whole.mean().abs();
        let difference = largest(split).max(largest(uneven));
        finding.difference = if difference.is_finite() { difference } else { 0.0 };
        finding
    }

    fn finding(&self, verdict: Verdict, text: impl AsRef<str>) -> Finding {
        let name = self.name.to_owned();
        let text = format!("metric '{name}': {}", text.as_ref());
        Finding::new(Subject::Metric { name }, verdict, text)
    }

    /// What a part has added.
    fn of(&self, part: Option<&Part>) -> Metric {
        let metrics = part.map_or(&[][..], |part| &part.metrics);
        let found = metrics.iter().find(|(name, _)| name == self.name);
        found.map_or_else(Metric::default, |(_, metric)| *metric)
    }

    /// What all replicas have added.
    fn total(&self, parts: &Parts) -> Metric {
        parts.iter().map(|part| self.of(Some(part))).fold(Metric::default(), |sum, one| Metric {
            sum: sum.sum + one.sum,
            weight: sum.weight + one.weight,
        })
    }

    fn tolerance(&self) -> Tolerance {
        // Callbacks compute losses in float32, and few in float64.
        self.evidence.tolerance(DType::Float32)
    }

    /// Whether two metrics have the same mean, or neither of them has one.
    fn same(&self, left: Metric, right: Metric) -> bool {
        let (a, b) = (left.mean(), right.mean());
        let of_examples = self.evidence.metric_magnitude(self.name);
        self.tolerance().allows(a, b, a.abs().max(b.abs()).max(of_examples))
    }

    fn not_finite(&self) -> Option<String> {
        self.evidence.runs().find_map(|parts| {
            let is_wrong = |part: &&Part| {
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
            Some(format!("a part of {examples} examples adds {sum} with weight {weight}{hint}"))
        })
    }

    fn explain(&self, others: &Others) -> Finding {
        const REMEDY: &str =
            "add the sum over the examples of the part, with their number as the weight";
        let whole = self.total(&others.whole);
        let split = &self.evidence.split;
        let of_parts = [self.total(split), self.total(&others.uneven)];
        let (first, alone) = (self.of(others.uneven.first()), self.of(others.first.first()));
        let close = |a: f64, b: f64| self.tolerance().allows(a, b, a.abs().max(b.abs()));
        let additive = of_parts.iter().all(|parts| close(parts.weight, whole.weight))
            && close(first.weight, alone.weight);
        let numbers = self.means(&of_parts, whole);
        if !additive {
            let part = split.iter().find(|part| part.examples > 0);
            let (weight, examples) = (self.of(part).weight, part.map_or(0, |part| part.examples));
            let all = whole.weight;
            let text = format!(
                "{numbers}; it is added with weight {weight} for {examples} examples and with {all} for \
                 all {}, so its mean is one over replicas, not examples; {REMEDY}",
                self.evidence.rows
            );
            return self.finding(Verdict::WrongWeight, text);
        }
        let weighted = |parts: &Parts| -> f64 {
            let terms = parts.iter().map(|part| self.of(Some(part)));
            terms.map(|part| part.sum * part.weight).sum::<f64>() / whole.weight
        };
        if close(weighted(split), whole.sum) && close(weighted(&others.uneven), whole.sum) {
            let text = format!(
                "{numbers}; the callback adds a mean with the number of its examples as the weight; \
                 {REMEDY}"
            );
            return self.finding(Verdict::WrongReduction, text);
        }
        if self.same(of_parts[0], whole) && self.same(of_parts[1], whole) {
            let text = format!(
                "the same however the batch is split, but {:.6} of some examples in it and {:.6} of the \
                 same examples as a batch of their own: it depends on what else is in the batch",
                first.mean(),
                alone.mean()
            );
            return self.finding(Verdict::SizeDependent, text);
        }
        let text = format!(
            "{numbers}; it is no sum over examples, or depends on which of them a replica has"
        );
        self.finding(Verdict::Different, text)
    }

    fn means(&self, of_parts: &[Metric; 2], whole: Metric) -> String {
        let [split, uneven] = of_parts;
        format!(
            "its mean is {:.6} on one replica, {:.6} on {}, and {:.6} on two with parts of other sizes",
            whole.mean(),
            split.mean(),
            self.evidence.split.len(),
            uneven.mean()
        )
    }
}
