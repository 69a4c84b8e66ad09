//! Checks whether the weights with which replicas submit fit their examples.
//!
//! Weights may be numbers other than those of examples, such as numbers of tokens. They must be
//! additive: the weight of a part does not depend on the other parts, an empty part has none, and
//! the weights of parts add up to that of the whole.

use super::dry_run::{DryRunPart, Parts};
use super::evidence::{Evidence, Others};
use super::report::{Finding, Subject, Verdict};
use umbo_optim::LossReduction;

/// The largest difference of equal weights, as a fraction.
const TOLERANCE: f64 = 1e-5;

/// The sum of the weights.
pub(super) fn total(parts: &Parts) -> f64 {
    parts.iter().filter_map(|part| part.weight).sum()
}

fn same(left: f64, right: f64) -> bool {
    (left - right).abs() <= TOLERANCE * left.abs().max(right.abs())
}

/// Whether each replica that has examples submits, so that gradients can be compared.
pub(super) fn all_submit(evidence: &Evidence<'_>) -> bool {
    let submits = |part: &DryRunPart| part.examples == 0 || part.weight.is_some();
    evidence.runs().all(|parts| parts.iter().all(submits))
}

/// Whether some replica submits in some run.
pub(super) fn any_submits(evidence: &Evidence<'_>) -> bool {
    evidence.runs().flatten().any(|part| part.weight.is_some())
}

/// Whether the weights of parts add up to that of the whole.
pub(super) fn are_additive(evidence: &Evidence<'_>) -> bool {
    let Some(Others {
        whole,
        uneven,
        first,
        ..
    }) = &evidence.others
    else {
        return true;
    };
    let all = total(whole);
    let no_weight_without_examples = |parts: &Parts| {
        parts
            .iter()
            .all(|part| part.examples > 0 || part.weight.unwrap_or(0.0) == 0.0)
    };
    all > 0.0
        && evidence.runs().all(no_weight_without_examples)
        && same(all, total(&evidence.split))
        && same(all, total(uneven))
        && same(total(first), uneven[0].weight.unwrap_or(0.0))
}

/// The finding about missing submits or wrong weights, if there is one.
pub(super) fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    let gradients = evidence.gradients?;
    if let Some(text) = not_submitted(evidence) {
        return Some(Finding::new(Subject::Step, Verdict::NotSubmitted, text));
    }
    let reduction = gradients.loss_reduction();
    let none = total(&evidence.split) == 0.0;
    // A global mean is a plain sum over replicas, so its weights have no effect.
    let matters = reduction != LossReduction::GlobalMean || none;
    if are_additive(evidence) && !none || !matters {
        return None;
    }
    let text = wrong_weights(evidence);
    Some(Finding::new(Subject::Step, Verdict::WrongWeight, text))
}

fn not_submitted(evidence: &Evidence<'_>) -> Option<String> {
    if !any_submits(evidence) {
        return Some("no replica submits these gradients; submit them once in each run".into());
    }
    let (replica, part) = evidence.runs().find_map(|parts| {
        parts
            .iter()
            .enumerate()
            .find(|(_, part)| part.weight.is_none())
    })?;
    let when = match part.examples {
        0 => "is empty".into(),
        count => format!("has {count} examples"),
    };
    Some(format!(
        "replica {replica} does not submit its gradients when its part {when}, so an apply would \
         fail; every replica submits in every run, even one without examples"
    ))
}

fn wrong_weights(evidence: &Evidence<'_>) -> String {
    const REMEDY: &str = "submit without a weight, or with the number of examples";
    if total(&evidence.split) == 0.0 {
        return format!("all replicas submit with weight 0, so nothing would be updated; {REMEDY}");
    }
    let empty = evidence.runs().find_map(|parts| {
        let weighted = |part: &DryRunPart| part.examples == 0 && part.weight.unwrap_or(0.0) != 0.0;
        parts.iter().enumerate().find(|(_, part)| weighted(part))
    });
    let in_words = |parts: &Parts| {
        let parts = parts.iter().filter(|part| part.examples > 0);
        let words = parts.map(|part| {
            let weight = part.weight.unwrap_or(0.0);
            format!("{weight} for {} examples", part.examples)
        });
        words.collect::<Vec<_>>().join(" and ")
    };
    let whole = evidence
        .others
        .as_ref()
        .map(|others| in_words(&others.whole));
    let uneven = evidence
        .others
        .as_ref()
        .map(|others| in_words(&others.uneven));
    let all = evidence
        .runs()
        .flatten()
        .filter_map(|part| part.weight.filter(|&w| w != 0.0));
    let (least, most) = all.fold((f64::INFINITY, 0.0f64), |(a, b), w| (a.min(w), b.max(w)));
    let mut text = format!(
        "the weights with which replicas submit do not follow their examples: {} on one replica, \
         {} on two",
        whole.unwrap_or_default(),
        uneven.unwrap_or_default()
    );
    if let Some((replica, part)) = empty {
        let weight = part.weight.unwrap_or(0.0);
        text += &format!(", {weight} for the empty part of replica {replica}");
    }
    if same(least, most) {
        text += "; so each replica has the same weight, however many examples it has";
    }
    format!("{text}; {REMEDY}")
}
