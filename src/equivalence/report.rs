//! What a check has found, in words.

use crate::tensor::Shape;

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The step as a whole.
    Step,
    /// The gradient of this variable, by its place among the gradients.
    Gradient {
        /// Its place.
        index: usize,
        /// Its name.
        name: String,
    },
    /// The value of this variable.
    Variable {
        /// Its place among the gradients, if it has one.
        index: Option<usize>,
        /// Its name.
        name: String,
    },
    /// This metric.
    Metric {
        /// Its name.
        name: String,
    },
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same, however the batch is split.
    Equal,
    /// No replica wrote the gradient, so the variable would not be updated.
    NotWritten,
    /// The callback failed for another split of the batch.
    Failed,
    /// A replica did not submit its gradients.
    NotSubmitted,
    /// Weights do not follow the examples.
    WrongWeight,
    /// Elements of a buffer were left as they were, or added to, though it was viewed to be
    /// overwritten.
    NotOverwritten,
    /// Not a finite number.
    NotFinite,
    /// Two runs with the same parts differ.
    NotRepeatable,
    /// Reduced over the examples in another way than declared.
    WrongReduction,
    /// Each replica's is that of the whole batch.
    WholeBatch,
    /// Replicas with different examples have the same.
    SameExamples,
    /// Only some of the replicas that have examples wrote the gradient.
    PartlyWritten,
    /// Each replica adds a term that is no example's.
    TermPerReplica,
    /// Different, for a reason that the numbers do not show.
    Different,
    /// The callback wrote a variable through a view of it, which no failing step undoes.
    VariableWritten,
    /// The same however a batch is split, but something else for a smaller batch.
    SizeDependent,
}

impl Verdict {
    /// Whether it does no harm to the equivalence.
    pub fn is_equivalent(self) -> bool {
        matches!(self, Verdict::Equal | Verdict::NotWritten | Verdict::SizeDependent)
    }
}

/// One thing that was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// What was found.
    pub verdict: Verdict,
    /// How many times too large the gradient is on all replicas, less than 1 if it is too small; 0
    /// if there is no such number.
    pub factor: f64,
    /// The largest difference that the split makes, as a fraction of the largest element.
    pub difference: f64,
    /// The element of the gradient that the text speaks of.
    pub element: Option<usize>,
    /// A sentence or two.
    pub text: String,
}

impl Finding {
    /// One with neither numbers nor an element.
    pub(super) fn new(subject: Subject, verdict: Verdict, text: String) -> Finding {
        Finding { subject, verdict, factor: 0.0, difference: 0.0, element: None, text }
    }
}

/// What a check has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether an update and the metrics are the same however the batch is split.
    pub equivalent: bool,
    /// What was found: about the step first, then one finding for each variable and each metric,
    /// also if it is well.
    pub findings: Vec<Finding>,
    /// All of it as text: a line of summary, then one for each finding that is not well.
    pub text: String,
    /// Whether a replica submitted the gradients that were checked.
    pub(super) submits: bool,
}

impl Report {
    pub(super) fn new(replicas: usize, sizes: &[usize], findings: Vec<Finding>) -> Report {
        let equivalent = findings.iter().all(|finding| finding.verdict.is_equivalent());
        let mut text = String::from(if equivalent { "equivalent" } else { "not equivalent" });
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        text += &match replicas {
            1 => " as far as one replica shows (check with several)".to_owned(),
            _ => format!(": 1 replica and {replicas}"),
        };
        text += &format!(", on {} examples", sizes.join(" + "));
        let is_gradient = |finding: &&Finding| matches!(finding.subject, Subject::Gradient { .. });
        let is_metric = |finding: &&Finding| matches!(finding.subject, Subject::Metric { .. });
        for (count, noun) in [
            (findings.iter().filter(is_gradient).count(), "gradient"),
            (findings.iter().filter(is_metric).count(), "metric"),
        ] {
            let plural = if count == 1 { "" } else { "s" };
            text += &format!(", {count} {noun}{plural}");
        }
        for finding in findings.iter().filter(|finding| finding.verdict != Verdict::Equal) {
            text += &format!("\n{}", finding.text);
        }
        Report { equivalent, findings, text, submits: false }
    }
}

/// An element's place in a tensor of this shape, in words.
pub(super) fn place(shape: &Shape, element: usize) -> String {
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
