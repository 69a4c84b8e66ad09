//! Checks a metric that counts examples in cells: a confusion matrix, or a histogram.

use super::case::Case;
use super::dry_run::DryRunPart;
use super::report::{Finding, Verdict};
use umbo_strategy::context::metrics::What;

/// The finding about the metric. Cells whose numbers differ by at most `near` are treated as equal.
pub(super) fn judge(case: &Case<'_>, near: u32) -> Finding {
    const REMEDY: &str = "add each example of the part once";
    let Some(others) = &case.evidence.others else {
        return case.alone();
    };
    let same = |left: &[u32], right: &[u32]| differing(left, right, near) == 0;
    for (once, again) in case.evidence.repeated() {
        if !same(&all(case, once), &all(case, again)) {
            let text = "two runs with the same examples count them in other cells";
            return case.finding(Verdict::NotRepeatable, text);
        }
    }
    let whole = all(case, &others.whole);
    let split = all(case, &case.evidence.split);
    let uneven = all(case, &others.uneven);
    let first = (
        all(case, &others.uneven[..1]),
        all(case, &others.first[..1]),
    );
    if split.len() != whole.len() || uneven.len() != whole.len() {
        let text = format!(
            "it counts {} examples on one replica, {} on {}, and {} on two with parts of other \
             sizes; {REMEDY}",
            whole.len(),
            split.len(),
            case.evidence.split.len(),
            uneven.len()
        );
        return case.finding(Verdict::WrongWeight, text);
    }
    if !same(&split, &whole) || !same(&uneven, &whole) {
        let most = differing(&split, &whole, near).max(differing(&uneven, &whole, near));
        let text = format!(
            "of {} examples {most} are counted in another cell where replicas share them; what is \
             counted depends on which examples a replica has",
            whole.len()
        );
        return case
            .finding(Verdict::Different, text)
            .by(most as f64 / whole.len() as f64);
    }
    if !same(&first.0, &first.1) {
        let text = "the same however the batch is split, but other cells for the same examples as \
                    a batch of their own: it depends on what else is in the batch";
        return case.finding(Verdict::SizeDependent, text);
    }
    case.equal()
}

/// The cells of all examples that were added, in order.
fn all(case: &Case<'_>, parts: &[DryRunPart]) -> Vec<u32> {
    let of_part = |part| match case.what(part) {
        Some(What::Cells { cells, .. }) => cells.as_slice(),
        _ => &[],
    };
    let mut all: Vec<u32> = parts.iter().flat_map(of_part).copied().collect();
    all.sort_unstable();
    all
}

/// The length of the longer of two ordered lists, less the number of pairs whose entries differ by
/// at most `near`.
fn differing(left: &[u32], right: &[u32], near: u32) -> usize {
    let mut at = 0;
    let mut other = 0;
    let mut pairs = 0;
    while let (Some(&left_cell), Some(&right_cell)) = (left.get(at), right.get(other)) {
        let is_pair = left_cell.abs_diff(right_cell) <= near;
        pairs += usize::from(is_pair);
        at += usize::from(is_pair || left_cell < right_cell);
        other += usize::from(is_pair || right_cell < left_cell);
    }
    left.len().max(right.len()) - pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_compared_one_by_one() {
        assert_eq!(differing(&[1, 2, 2, 7], &[1, 2, 2, 7], 0), 0);
        assert_eq!(differing(&[1, 2, 2, 7], &[2, 2, 7, 9], 0), 1);
        assert_eq!(differing(&[1, 2, 2, 7], &[2, 2, 3, 8], 1), 0);
        assert_eq!(differing(&[1, 2], &[1, 2, 2], 0), 1);
        assert_eq!(differing(&[], &[], 1), 0);
    }
}
