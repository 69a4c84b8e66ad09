//! Findings about variables that the callback wrote.

use super::evidence::Evidence;
use super::report::{Finding, Subject, Verdict, place};

/// One finding for each variable that was written through a view.
pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Finding> {
    let of_written = evidence.written.iter().map(|written| {
        let variable = &written.variable;
        let (was, is) = &written.values;
        let index = evidence
            .variables()
            .iter()
            .position(|known| known.is_same(variable));
        let place = place(&variable.shape(), written.element);
        let place = match written.copy {
            None => place,
            Some((dtype, device)) => format!("in its {dtype} copy on {device} {place}"),
        };
        let text = format!(
            "variable '{}': the callback writes it through a view, which is for reading: {place} \
             was {was} and became {is}. No failing step undoes that, and other replicas see it \
             halfway; submit gradients, or assign. The check has put the value back",
            variable.name(),
        );
        let subject = Subject::Variable {
            index,
            name: variable.name().as_str().to_owned(),
        };
        Finding::new(subject, Verdict::VariableWritten, text).at(written.element)
    });
    of_written.collect()
}
