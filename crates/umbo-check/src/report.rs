//! The findings of a check, and their text.

use umbo_tensor::Shape;

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The step as a whole.
    Step,
    /// The gradient of this variable.
    Gradient {
        /// The variable's position among the gradients.
        index: usize,
        /// Its name.
        name: String,
    },
    /// The value of this variable.
    Variable {
        /// Its position among the gradients, if it has one.
        index: Option<usize>,
        /// Its name.
        name: String,
    },
    /// The metric of this name.
    Metric {
        /// Its name.
        name: String,
    },
}

/// The result of a check of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The subject is the same, however the batch is split.
    Equal,
    /// No replica wrote the gradient, so the variable would not be updated.
    NotWritten,
    /// The callback failed for another split of the batch.
    Failed,
    /// A replica did not submit its gradients.
    NotSubmitted,
    /// Weights do not follow the examples.
    WrongWeight,
    /// Elements of a buffer were not written, or were added to, although the buffer was viewed to
    /// be overwritten.
    NotOverwritten,
    /// The subject is not a finite number.
    NotFinite,
    /// Two runs with the same parts differ.
    NotRepeatable,
    /// The gradient is reduced over the examples in a way other than declared.
    WrongReduction,
    /// Each replica's gradient is that of the whole batch.
    WholeBatch,
    /// Replicas with different examples have the same gradient.
    SameExamples,
    /// Only some of the replicas that have examples wrote the gradient.
    PartlyWritten,
    /// Each replica adds a term that does not belong to an example.
    TermPerReplica,
    /// The subject differs for a reason that the numbers do not show.
    Different,
    /// The callback wrote a variable through a view of it. A failing step does not undo this.
    VariableWritten,
    /// The subject is the same however a batch is split, but differs for a smaller batch.
    SizeDependent,
}

impl Verdict {
    /// Whether the equivalence holds with this verdict.
    pub fn is_equivalent(self) -> bool {
        matches!(
            self,
            Verdict::Equal | Verdict::NotWritten | Verdict::SizeDependent
        )
    }
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its subject.
    pub subject: Subject,
    /// Its verdict.
    pub verdict: Verdict,
    /// By which factor the gradient on all replicas is too large; less than 1 if it is too small,
    /// 0 if there is no such number.
    pub factor: f64,
    /// The largest difference between the splits, as a fraction of the largest element.
    pub difference: f64,
    /// The element of the gradient to which the text refers.
    pub element: Option<usize>,
    /// A sentence or two.
    pub text: String,
}

impl Finding {
    /// A finding with neither numbers nor an element.
    pub(super) fn new(subject: Subject, verdict: Verdict, text: String) -> Finding {
        Finding {
            subject,
            verdict,
            factor: 0.0,
            difference: 0.0,
            element: None,
            text,
        }
    }

    /// The finding, with the element to which its text refers.
    pub(super) fn at(self, element: usize) -> Finding {
        Finding {
            element: Some(element),
            ..self
        }
    }

    /// The finding, with the largest difference.
    pub(super) fn by(self, difference: f64) -> Finding {
        Finding { difference, ..self }
    }
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether an update and the metrics are the same however the batch is split.
    pub equivalent: bool,
    /// The findings: first about the step, then one for each variable and each metric, even if it
    /// is equivalent.
    pub findings: Vec<Finding>,
    /// The report as text: a line of summary, then a line for each finding that is not equivalent.
    pub text: String,
    /// Whether a replica submitted the gradients that were checked.
    pub(super) submits: bool,
}

impl Report {
    pub(super) fn new(replicas: usize, sizes: &[usize], findings: Vec<Finding>) -> Report {
        let equivalent = findings
            .iter()
            .all(|finding| finding.verdict.is_equivalent());
        let mut text = String::from(if equivalent {
            "equivalent"
        } else {
            "not equivalent"
        });
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
        for finding in findings
            .iter()
            .filter(|finding| finding.verdict != Verdict::Equal)
        {
            text += &format!("\n{}", finding.text);
        }
        Report {
            equivalent,
            findings,
            text,
            submits: false,
        }
    }
}

/// A text for an element's position in a tensor of this shape.
pub(super) fn place(shape: &Shape, element: usize) -> String {
    match shape.rank() {
        0 => "its value".into(),
        _ => format!("element {:?}", shape.coordinates(element)),
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
